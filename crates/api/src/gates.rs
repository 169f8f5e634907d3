//! Which features are on: one value, built at start and handed down. Nothing asks a global.

/// A feature that can be switched off (or, where it is off by default, on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// The Workload and PodGroup kinds, `schedulingGroup` of pods, gang scheduling, priority of groups.
    GenericWorkload,
    /// `spec.scheduling` of Jobs, and the objects that the Job controller makes from it.
    WorkloadWithJob,
    /// `schedulingConstraints`: all pods of a group in one topology domain.
    TopologyAwareWorkloadScheduling,
    /// Groups of groups.
    CompositePodGroup,
    /// `preemptionPolicy` of groups and templates.
    PodGroupPreemptionPolicy,
    /// `resourceClaims` of groups and templates.
    DRAWorkloadResourceClaims,
    /// `spec.workloadRef` of Jobs, the oldest form of the link between a Job and its Workload.
    JobWorkloadRef,
}

impl Gate {
    /// Every gate, in the order of declaration.
    pub const ALL: [Gate; 7] = [
        Gate::GenericWorkload,
        Gate::WorkloadWithJob,
        Gate::TopologyAwareWorkloadScheduling,
        Gate::CompositePodGroup,
        Gate::PodGroupPreemptionPolicy,
        Gate::DRAWorkloadResourceClaims,
        Gate::JobWorkloadRef,
    ];

    /// The name as flags and configuration write it.
    pub fn name(self) -> &'static str {
        match self {
            Gate::GenericWorkload => "GenericWorkload",
            Gate::WorkloadWithJob => "WorkloadWithJob",
            Gate::TopologyAwareWorkloadScheduling => "TopologyAwareWorkloadScheduling",
            Gate::CompositePodGroup => "CompositePodGroup",
            Gate::PodGroupPreemptionPolicy => "PodGroupPreemptionPolicy",
            Gate::DRAWorkloadResourceClaims => "DRAWorkloadResourceClaims",
            Gate::JobWorkloadRef => "JobWorkloadRef",
        }
    }

    /// Whether the gate is on unless told otherwise.
    // Upstream: every one of these is off by default. Workload-aware scheduling is what this project is for, so only
    // the form that later proposals replaced starts switched off.
    pub fn default_on(self) -> bool {
        self != Gate::JobWorkloadRef
    }

    /// How far upstream considers it: `ALPHA`, `BETA`, or empty once it is for good.
    pub fn stage(self) -> &'static str {
        match self {
            Gate::GenericWorkload | Gate::DRAWorkloadResourceClaims => "BETA",
            _ => "ALPHA",
        }
    }

    /// What it cannot do without.
    pub fn requires(self) -> &'static [Gate] {
        match self {
            Gate::GenericWorkload => &[],
            Gate::CompositePodGroup => &[Gate::GenericWorkload, Gate::TopologyAwareWorkloadScheduling],
            Gate::JobWorkloadRef => &[Gate::GenericWorkload, Gate::WorkloadWithJob],
            _ => &[Gate::GenericWorkload],
        }
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// When a Job that does not ask for a policy is a gang all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoGang {
    /// Never: a gang is asked for in `spec.scheduling`.
    #[default]
    Explicit,
    /// When it is Indexed, runs more than one pod at a time, and runs all its indexes at once.
    Indexed,
}

/// The gates as set, and the one setting that validation shares with the Job controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    bits: u32,
    /// When a Job is a gang without asking.
    pub auto_gang: AutoGang,
}

impl Gates {
    /// Whether `gate` is on.
    pub fn enabled(&self, gate: Gate) -> bool {
        self.bits & gate.bit() != 0
    }

    /// The same gates with `gate` on or off.
    #[must_use]
    pub fn with(self, gate: Gate, on: bool) -> Gates {
        let bits = if on { self.bits | gate.bit() } else { self.bits & !gate.bit() };
        Gates { bits, ..self }
    }
}

/// The gates cannot be set as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGates {
    /// No gate has this name.
    #[error("unknown feature gate {name:?}; known are {}", Gate::ALL.map(Gate::name).join(", "))]
    Unknown {
        /// As given.
        name: String,
    },
    /// A value that is neither true nor false.
    #[error("feature gate {name}: write {name}=true or {name}=false, not {value:?}")]
    NotABool {
        /// The gate.
        name: String,
        /// As given.
        value: String,
    },
    /// A gate was switched on while another that it needs is off.
    #[error(
        "{} is enabled, but depends on features that are disabled: [{}]",
        gate.name(),
        off.iter().map(|gate| gate.name()).collect::<Vec<_>>().join(" ")
    )]
    Depends {
        /// What was switched on.
        gate: Gate,
        /// What it needs.
        off: Vec<Gate>,
    },
}

impl Gates {
    /// The defaults with `settings` (name and value) on top.
    // Upstream: a gate that is on by default and loses its dependency is a start-up error as well. Here nearly all are on
    // by default, so whoever switches one off would have to name all that hang on it; they go off with it instead.
    pub fn set(settings: &[(String, String)]) -> Result<Gates, BadGates> {
        let mut gates = Gates::default();
        let mut named = Vec::new();
        for (name, value) in settings {
            let gate = Gate::ALL.into_iter().find(|gate| gate.name() == name);
            let gate = gate.ok_or_else(|| BadGates::Unknown { name: name.clone() })?;
            // Go's spellings.
            let on = match value.as_str() {
                "true" | "True" | "TRUE" | "t" | "T" | "1" => true,
                "false" | "False" | "FALSE" | "f" | "F" | "0" => false,
                _ => return Err(BadGates::NotABool { name: name.clone(), value: value.clone() }),
            };
            gates = gates.with(gate, on);
            named.push(gate);
        }
        // A gate stands behind all that it requires, so one pass in order of declaration settles all.
        for gate in Gate::ALL.into_iter().filter(|&gate| gates.enabled(gate)).collect::<Vec<_>>() {
            let off: Vec<Gate> = gate.requires().iter().copied().filter(|&needed| !gates.enabled(needed)).collect();
            if off.is_empty() {
                continue;
            }
            if named.contains(&gate) {
                return Err(BadGates::Depends { gate, off });
            }
            gates = gates.with(gate, false);
        }
        Ok(gates)
    }
}

impl Default for Gates {
    fn default() -> Self {
        let bits = Gate::ALL.into_iter().filter(|gate| gate.default_on()).fold(0, |bits, gate| bits | gate.bit());
        Gates { bits, auto_gang: AutoGang::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::{BadGates, Gate, Gates};

    fn set(text: &str) -> Result<Gates, BadGates> {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        Gates::set(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn what_hangs_on_a_gate_goes_off_with_it_unless_it_was_asked_for() {
        let gates = set("TopologyAwareWorkloadScheduling=false").expect("nobody asked for what needs it");
        assert!(!gates.enabled(Gate::CompositePodGroup) && gates.enabled(Gate::GenericWorkload));
        let error = set("GenericWorkload=false,WorkloadWithJob=true").expect_err("it needs GenericWorkload");
        let said = "WorkloadWithJob is enabled, but depends on features that are disabled: [GenericWorkload]";
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn unknown_gates_and_values_are_refused_with_what_is_known() {
        let error = set("GangScheduling=true").expect_err("it was folded into another").to_string();
        assert!(error.contains("GangScheduling") && error.contains("GenericWorkload, WorkloadWithJob"), "{error}");
        assert!(set("GenericWorkload=maybe").is_err());
        assert_eq!(set(""), Ok(Gates::default()));
    }

    #[test]
    fn every_gate_but_the_oldest_form_is_on_by_default() {
        let off: Vec<&str> =
            Gate::ALL.into_iter().filter(|gate| !Gates::default().enabled(*gate)).map(Gate::name).collect();
        assert_eq!(off, ["JobWorkloadRef"]);
    }

    #[test]
    fn setting_one_gate_leaves_the_others_as_they_are() {
        let gates = Gates::default().with(Gate::WorkloadWithJob, false).with(Gate::JobWorkloadRef, true);
        let on: Vec<&str> = Gate::ALL.into_iter().filter(|gate| gates.enabled(*gate)).map(Gate::name).collect();
        assert!(!on.contains(&"WorkloadWithJob"));
        assert!(on.contains(&"JobWorkloadRef"));
        assert_eq!(on.len(), 6);
        assert_eq!(gates.with(Gate::WorkloadWithJob, true).with(Gate::JobWorkloadRef, false), Gates::default());
    }
}
