//! Which features are on: one value, built at start and handed down. Nothing asks a global.

use std::collections::BTreeMap;

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
    pub fn is_on_by_default(self) -> bool {
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

impl AutoGang {
    /// Reads the form of configuration files.
    pub fn parse(text: &str) -> Option<AutoGang> {
        match text {
            "explicit" => Some(AutoGang::Explicit),
            "indexed" => Some(AutoGang::Indexed),
            _ => None,
        }
    }
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

    /// The same gates with another rule for Jobs that do not ask for a policy.
    #[must_use]
    pub fn with_auto_gang(self, auto_gang: AutoGang) -> Gates {
        Gates { auto_gang, ..self }
    }
}

/// What settings come to: the gates, and what to tell whoever wrote names that are not the gates' own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedGates {
    /// The gates as set.
    pub gates: Gates,
    /// One text per name that was understood but should be written differently.
    pub warnings: Vec<String>,
}

/// Sets every gate of a stage that no setting names: `AllAlpha`, `AllBeta`.
const STAGE_GATES: [(&str, &str); 2] = [("AllAlpha", "ALPHA"), ("AllBeta", "BETA")];

/// Names that proposals and earlier releases gave to what these gates switch.
const ALIASES: [(&str, Gate); 6] = [
    ("Workload", Gate::GenericWorkload),
    ("NativeWorkload", Gate::GenericWorkload),
    ("GenericWorkloadPodGroup", Gate::GenericWorkload),
    ("GangScheduling", Gate::GenericWorkload),
    ("WorkloadAwarePreemption", Gate::GenericWorkload),
    ("EnableWorkloadWithJob", Gate::WorkloadWithJob),
];

/// Gates of Kubernetes 1.37 whose features are always there: asking for them is fine, switching them off is not.
const ALWAYS_ON: [&str; 4] = [
    "DynamicResourceAllocation",
    "JobManagedBy",
    "MutablePodResourcesForSuspendedJobs",
    "MutableSchedulingDirectivesForSuspendedJobs",
];

/// The gates cannot be set as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatesError {
    /// No gate has this name.
    #[error("unknown feature gate {name:?}; known are {}", known().join(", "))]
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
    /// A feature that cannot be switched off was.
    #[error("feature gate {name} cannot be set to false: it is always on here; leave it out")]
    AlwaysOn {
        /// The gate.
        name: String,
    },
    /// A gate was switched on while another that it needs is off.
    #[error(
        "{} is enabled, but depends on features that are disabled: [{}]",
        gate.name(),
        off.iter().map(|gate| gate.name()).collect::<Vec<_>>().join(" ")
    )]
    MissingDependencies {
        /// What was switched on.
        gate: Gate,
        /// What it needs.
        off: Vec<Gate>,
    },
}

/// Every name that may be written, without those that only earn a warning.
fn known() -> Vec<&'static str> {
    Gate::ALL.map(Gate::name).into_iter().chain(STAGE_GATES.map(|(name, _)| name)).collect()
}

/// What one name means.
enum GateName {
    Gate(Gate),
    /// The gate under a name it no longer has.
    Alias(Gate),
    /// All gates of this stage.
    Stage(&'static str),
    AlwaysOn,
}

impl GateName {
    fn parse(name: &str) -> Option<GateName> {
        if let Some(gate) = Gate::ALL.into_iter().find(|gate| gate.name() == name) {
            return Some(GateName::Gate(gate));
        }
        if let Some((_, gate)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
            return Some(GateName::Alias(*gate));
        }
        if let Some((_, stage)) = STAGE_GATES.iter().find(|(all, _)| *all == name) {
            return Some(GateName::Stage(stage));
        }
        ALWAYS_ON.contains(&name).then_some(GateName::AlwaysOn)
    }
}

/// The values asked for, by how directly they were asked for. A later setting of one name wins.
#[derive(Default)]
struct GateSettings {
    gates: BTreeMap<Gate, bool>,
    aliases: BTreeMap<Gate, (String, bool)>,
    stages: BTreeMap<&'static str, bool>,
}

impl GateSettings {
    fn parse(settings: &[(String, String)]) -> Result<GateSettings, GatesError> {
        let mut asked = GateSettings::default();
        for (name, value) in settings {
            let named = GateName::parse(name).ok_or_else(|| GatesError::Unknown { name: name.clone() })?;
            // Go's spellings.
            let on = match value.as_str() {
                "true" | "True" | "TRUE" | "t" | "T" | "1" => true,
                "false" | "False" | "FALSE" | "f" | "F" | "0" => false,
                _ => return Err(GatesError::NotABool { name: name.clone(), value: value.clone() }),
            };
            match named {
                GateName::Gate(gate) => drop(asked.gates.insert(gate, on)),
                GateName::Alias(gate) => drop(asked.aliases.insert(gate, (name.clone(), on))),
                GateName::Stage(stage) => drop(asked.stages.insert(stage, on)),
                GateName::AlwaysOn if on => {}
                GateName::AlwaysOn => return Err(GatesError::AlwaysOn { name: name.clone() }),
            }
        }
        Ok(asked)
    }

    /// The value asked for: by the gate's own name, by an alias, by its stage.
    fn value(&self, gate: Gate) -> Option<bool> {
        let by_alias = || self.aliases.get(&gate).map(|(_, on)| *on);
        self.gates.get(&gate).copied().or_else(by_alias).or_else(|| self.stages.get(gate.stage()).copied())
    }

    fn warnings(&self) -> Vec<String> {
        let text = |(gate, (alias, on)): (&Gate, &(String, bool))| {
            let name = gate.name();
            match self.gates.get(gate) {
                None => format!("feature gate {alias} is part of {name} now: taken as {name}={on}"),
                Some(_) => format!("feature gate {alias} is part of {name} now: ignored, because {name} is set too"),
            }
        };
        self.aliases.iter().map(text).collect()
    }
}

impl Gates {
    /// The defaults with `settings` (name and value) on top.
    // Upstream: a gate that is on by default and loses its dependency is a start-up error as well. Here nearly all are on
    // by default, so whoever switches one off would have to name all that hang on it; they go off with it instead.
    pub fn from_settings(settings: &[(String, String)]) -> Result<ParsedGates, GatesError> {
        let asked = GateSettings::parse(settings)?;
        let mut gates = Gates::default();
        for gate in Gate::ALL {
            gates = asked.value(gate).map_or(gates, |on| gates.with(gate, on));
        }
        // A gate stands behind all that it requires, so one pass in order of declaration settles all.
        for gate in Gate::ALL.into_iter().filter(|&gate| gates.enabled(gate)).collect::<Vec<_>>() {
            let off: Vec<Gate> = gate.requires().iter().copied().filter(|&needed| !gates.enabled(needed)).collect();
            if off.is_empty() {
                continue;
            }
            if asked.value(gate).is_some() {
                return Err(GatesError::MissingDependencies { gate, off });
            }
            gates = gates.with(gate, false);
        }
        Ok(ParsedGates { gates, warnings: asked.warnings() })
    }
}

impl Default for Gates {
    fn default() -> Self {
        let bits = Gate::ALL.into_iter().filter(|gate| gate.is_on_by_default()).fold(0, |bits, gate| bits | gate.bit());
        Gates { bits, auto_gang: AutoGang::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIASES, Gate, Gates, GatesError, ParsedGates};

    fn parse_gates(text: &str) -> Result<ParsedGates, GatesError> {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        Gates::from_settings(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>())
    }

    fn set(text: &str) -> Result<Gates, GatesError> {
        parse_gates(text).map(|settled| settled.gates)
    }

    fn enabled_names(text: &str) -> Vec<&'static str> {
        let gates = set(text).expect("legal settings");
        Gate::ALL.into_iter().filter(|gate| gates.enabled(*gate)).map(Gate::name).collect()
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
        let error = set("GangSheduling=true").expect_err("a misspelt name").to_string();
        assert!(error.contains("GangSheduling") && error.contains("GenericWorkload, WorkloadWithJob"), "{error}");
        assert!(error.ends_with("AllAlpha, AllBeta"), "{error}");
        assert!(set("GenericWorkload=maybe").is_err());
        assert_eq!(set(""), Ok(Gates::default()));
    }

    // Shows: S001-20
    // Shows: S002-07
    // Shows: S003-31
    #[test]
    fn names_of_the_proposals_are_understood_with_a_warning() {
        for (alias, gate) in ALIASES {
            let ParsedGates { gates, warnings } =
                parse_gates(&format!("{alias}=false")).expect("an alias is understood");
            assert!(!gates.enabled(gate), "{alias}");
            let name = gate.name();
            assert_eq!(warnings, [format!("feature gate {alias} is part of {name} now: taken as {name}=false")]);
        }
        let ParsedGates { gates, warnings } = parse_gates("GangScheduling=false,GenericWorkload=true").expect("both");
        assert!(gates.enabled(Gate::GenericWorkload) && warnings[0].contains("ignored"), "{warnings:?}");
        assert!(parse_gates("GenericWorkload=true").expect("the name itself").warnings.is_empty());
    }

    #[test]
    fn a_stage_sets_the_gates_that_are_not_named_wherever_it_stands() {
        let all = Gate::ALL.map(Gate::name);
        assert_eq!(enabled_names("AllAlpha=true,AllBeta=true"), all);
        assert_eq!(enabled_names("AllAlpha=false"), ["GenericWorkload", "DRAWorkloadResourceClaims"]);
        for text in ["AllAlpha=false,WorkloadWithJob=true", "WorkloadWithJob=true,AllAlpha=false"] {
            assert_eq!(
                enabled_names(text),
                ["GenericWorkload", "WorkloadWithJob", "DRAWorkloadResourceClaims"],
                "{text}"
            );
        }
        assert!(enabled_names("AllBeta=false").is_empty(), "everything hangs on GenericWorkload");
        let error = set("AllBeta=false,AllAlpha=true").expect_err("alpha gates need a beta one").to_string();
        assert!(error.starts_with("WorkloadWithJob is enabled, but depends on"), "{error}");
    }

    #[test]
    fn what_is_always_on_may_be_asked_for_but_not_switched_off() {
        assert_eq!(set("JobManagedBy=true,DynamicResourceAllocation=1"), Ok(Gates::default()));
        let error = set("JobManagedBy=false").expect_err("it cannot go off").to_string();
        assert!(error.contains("JobManagedBy cannot be set to false"), "{error}");
    }

    // Shows: S001-16
    // Shows: S002-45
    #[test]
    fn every_gate_but_the_oldest_form_is_on_by_default() {
        let off: Vec<&str> =
            Gate::ALL.into_iter().filter(|gate| !Gates::default().enabled(*gate)).map(Gate::name).collect();
        assert_eq!(off, ["JobWorkloadRef"]);
    }

    // Shows: S002-45
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
