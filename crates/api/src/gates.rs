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

impl Default for Gates {
    fn default() -> Self {
        let bits = Gate::ALL.into_iter().filter(|gate| gate.default_on()).fold(0, |bits, gate| bits | gate.bit());
        Gates { bits, auto_gang: AutoGang::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Gate, Gates};

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
