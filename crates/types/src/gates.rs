//! Feature gates: one value, built at start and passed as an argument. There is no global.

use std::collections::BTreeMap;

/// A feature that can be switched off or on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// The Workload and PodGroup kinds, `schedulingGroup` of pods, gang scheduling, priority of groups.
    GenericWorkload,
    /// `spec.scheduling` of Jobs, and the objects that the Job controller creates from it.
    WorkloadWithJob,
    /// `schedulingConstraints`: all pods of a group in one topology domain.
    TopologyAwareWorkloadScheduling,
    /// Groups of groups.
    CompositePodGroup,
    /// `preemptionPolicy` of groups and templates.
    PodGroupPreemptionPolicy,
    /// `resourceClaims` of groups and templates.
    DRAWorkloadResourceClaims,
    /// `spec.workloadRef` of Jobs, the oldest link between a Job and its Workload.
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

    /// The name in flags and configuration.
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

    /// Whether the gate is on by default.
    // Upstream: all of these are off by default. This project is for workload-aware scheduling, so only the link that
    // later proposals replaced is off by default.
    pub fn is_on_by_default(self) -> bool {
        self != Gate::JobWorkloadRef
    }

    /// The stage upstream: `ALPHA`, `BETA`, or empty once it is stable.
    pub fn stage(self) -> &'static str {
        match self {
            Gate::GenericWorkload | Gate::DRAWorkloadResourceClaims => "BETA",
            _ => "ALPHA",
        }
    }

    /// The gates that must be on for this one.
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

/// Fields that a server drops while a gate is off: kind, path, gate. A field stands before the one that contains it.
/// `PodGroupTemplate` is a template of a Workload; a PodGroup has the same fields in its `spec`.
const GATED_FIELDS: [(&str, &str, Gate); 8] = [
    ("Job", "spec.scheduling.schedulingConstraints", Gate::TopologyAwareWorkloadScheduling),
    ("Job", "spec.scheduling", Gate::WorkloadWithJob),
    ("Job", "spec.workloadRef", Gate::JobWorkloadRef),
    ("Pod", "spec.schedulingGroup", Gate::GenericWorkload),
    ("PodGroupTemplate", "schedulingConstraints", Gate::TopologyAwareWorkloadScheduling),
    ("PodGroupTemplate", "resourceClaims", Gate::DRAWorkloadResourceClaims),
    ("PodGroupTemplate", "preemptionPolicy", Gate::PodGroupPreemptionPolicy),
    ("PodGroupTemplate", "disruptionMode", Gate::GenericWorkload),
];

impl Gate {
    /// The gate without which a server drops the field at `path` of a `kind`.
    pub fn of_field(kind: &str, path: &str) -> Option<Gate> {
        let is_in =
            |field: &str| path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        let found = GATED_FIELDS.iter().find(|(of_kind, field, _)| *of_kind == kind && is_in(field));
        found.map(|(_, _, gate)| *gate)
    }
}

/// When a Job without a policy is a gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoGang {
    /// Never: only `spec.scheduling` makes a gang.
    #[default]
    Explicit,
    /// If it is Indexed, runs more than one pod at a time, and runs all its indexes at once.
    Indexed,
}

/// The enabled gates, and the one setting that validation shares with the Job controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    bits: u32,
    /// When a Job without a policy is a gang.
    pub auto_gang: AutoGang,
}

impl AutoGang {
    /// Parses the value in configuration files.
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

    /// The same gates with a different rule for Jobs without a policy.
    #[must_use]
    pub fn with_auto_gang(self, auto_gang: AutoGang) -> Gates {
        Gates { auto_gang, ..self }
    }
}

/// The result of parsing settings: the gates, and warnings about names that are not the gates' own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedGates {
    /// The gates.
    pub gates: Gates,
    /// One message per name that was accepted but should be spelled differently.
    pub warnings: Vec<String>,
}

/// Sets every gate of a stage that no setting names: `AllAlpha`, `AllBeta`.
const STAGE_GATES: [(&str, &str); 2] = [("AllAlpha", "ALPHA"), ("AllBeta", "BETA")];

/// Names of these gates in proposals and earlier releases.
const ALIASES: [(&str, Gate); 6] = [
    ("Workload", Gate::GenericWorkload),
    ("NativeWorkload", Gate::GenericWorkload),
    ("GenericWorkloadPodGroup", Gate::GenericWorkload),
    ("GangScheduling", Gate::GenericWorkload),
    ("WorkloadAwarePreemption", Gate::GenericWorkload),
    ("EnableWorkloadWithJob", Gate::WorkloadWithJob),
];

/// Gates of Kubernetes 1.37 whose features are always on here. They may be switched on, but not off.
const ALWAYS_ON: [&str; 5] = [
    "DynamicResourceAllocation",
    "JobManagedBy",
    "MutablePodResourcesForSuspendedJobs",
    "MutableSchedulingDirectivesForSuspendedJobs",
    "NodeDeclaredFeatures",
];

/// The settings are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatesError {
    /// No gate has this name.
    #[error("unknown feature gate {name:?}; known are {}", known().join(", "))]
    Unknown {
        /// The name in the setting.
        name: String,
    },
    /// The value is neither true nor false.
    #[error("feature gate {name}: write {name}=true or {name}=false, not {value:?}")]
    NotABool {
        /// The gate.
        name: String,
        /// The value in the setting.
        value: String,
    },
    /// The feature cannot be switched off.
    #[error("feature gate {name} cannot be set to false: it is always on here; leave it out")]
    AlwaysOn {
        /// The gate.
        name: String,
    },
    /// A gate was switched on while a gate that it requires is off.
    #[error(
        "{} is enabled, but depends on features that are disabled: [{}]",
        gate.name(),
        off.iter().map(|gate| gate.name()).collect::<Vec<_>>().join(" ")
    )]
    MissingDependencies {
        /// The gate that was switched on.
        gate: Gate,
        /// The required gates that are off.
        off: Vec<Gate>,
    },
}

/// Every valid name, without aliases.
fn known() -> Vec<&'static str> {
    Gate::ALL.map(Gate::name).into_iter().chain(STAGE_GATES.map(|(name, _)| name)).collect()
}

/// The meaning of a name.
enum GateName {
    Gate(Gate),
    /// A gate by a former name.
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

/// The values in the settings, by how directly they name a gate. A later setting of the same name wins.
#[derive(Default)]
struct GateSettings {
    gates: BTreeMap<Gate, bool>,
    aliases: BTreeMap<Gate, (String, bool)>,
    stages: BTreeMap<&'static str, bool>,
}

impl GateSettings {
    fn parse(settings: &[(String, String)]) -> Result<GateSettings, GatesError> {
        let mut parsed = GateSettings::default();
        for (name, value) in settings {
            let named = GateName::parse(name).ok_or_else(|| GatesError::Unknown { name: name.clone() })?;
            // Go's spellings.
            let on = match value.as_str() {
                "true" | "True" | "TRUE" | "t" | "T" | "1" => true,
                "false" | "False" | "FALSE" | "f" | "F" | "0" => false,
                _ => return Err(GatesError::NotABool { name: name.clone(), value: value.clone() }),
            };
            match named {
                GateName::Gate(gate) => drop(parsed.gates.insert(gate, on)),
                GateName::Alias(gate) => drop(parsed.aliases.insert(gate, (name.clone(), on))),
                GateName::Stage(stage) => drop(parsed.stages.insert(stage, on)),
                GateName::AlwaysOn if on => {}
                GateName::AlwaysOn => return Err(GatesError::AlwaysOn { name: name.clone() }),
            }
        }
        Ok(parsed)
    }

    /// The value in the settings: by the gate's own name, by an alias, or by its stage.
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
    /// The defaults, overridden by `settings` (name and value).
    // Upstream: a gate that is on by default and loses its dependency is a start-up error too. Here nearly all are on
    // by default, so a user who switches one off would have to name all that depend on it. Here these go off too.
    pub fn from_settings(settings: &[(String, String)]) -> Result<ParsedGates, GatesError> {
        let parsed = GateSettings::parse(settings)?;
        let mut gates = Gates::default();
        for gate in Gate::ALL {
            gates = parsed.value(gate).map_or(gates, |on| gates.with(gate, on));
        }
        // A gate is declared after all that it requires, so one pass in order of declaration is enough.
        for gate in Gate::ALL.into_iter().filter(|&gate| gates.enabled(gate)).collect::<Vec<_>>() {
            let off: Vec<Gate> = gate.requires().iter().copied().filter(|&needed| !gates.enabled(needed)).collect();
            if off.is_empty() {
                continue;
            }
            if parsed.value(gate).is_some() {
                return Err(GatesError::MissingDependencies { gate, off });
            }
            gates = gates.with(gate, false);
        }
        Ok(ParsedGates { gates, warnings: parsed.warnings() })
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
        let gates = set(text).expect("valid settings");
        Gate::ALL.into_iter().filter(|gate| gates.enabled(*gate)).map(Gate::name).collect()
    }

    #[test]
    fn a_field_has_the_gate_of_the_innermost_field_that_has_one() {
        for (kind, path, want) in [
            ("Job", "spec.scheduling", Some(Gate::WorkloadWithJob)),
            ("Job", "spec.scheduling.schedulingPolicy.gang", Some(Gate::WorkloadWithJob)),
            (
                "Job",
                "spec.scheduling.schedulingConstraints.topology[0].key",
                Some(Gate::TopologyAwareWorkloadScheduling),
            ),
            ("Job", "spec.schedulingOther", None),
            ("Pod", "spec.scheduling", None),
            ("PodGroupTemplate", "resourceClaims[0]", Some(Gate::DRAWorkloadResourceClaims)),
        ] {
            assert_eq!(Gate::of_field(kind, path), want, "{kind} {path}");
        }
    }

    #[test]
    fn dependent_gates_go_off_unless_they_are_set() {
        let gates = set("TopologyAwareWorkloadScheduling=false").expect("no dependent gate is set");
        assert!(!gates.enabled(Gate::CompositePodGroup) && gates.enabled(Gate::GenericWorkload));
        let error = set("GenericWorkload=false,WorkloadWithJob=true").expect_err("it needs GenericWorkload");
        let message = "WorkloadWithJob is enabled, but depends on features that are disabled: [GenericWorkload]";
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn unknown_gates_and_values_are_refused_with_the_known_names() {
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
    fn names_of_the_proposals_are_accepted_with_a_warning() {
        for (alias, gate) in ALIASES {
            let ParsedGates { gates, warnings } = parse_gates(&format!("{alias}=false")).expect("an alias is accepted");
            assert!(!gates.enabled(gate), "{alias}");
            let name = gate.name();
            assert_eq!(warnings, [format!("feature gate {alias} is part of {name} now: taken as {name}=false")]);
        }
        let ParsedGates { gates, warnings } = parse_gates("GangScheduling=false,GenericWorkload=true").expect("both");
        assert!(gates.enabled(Gate::GenericWorkload) && warnings[0].contains("ignored"), "{warnings:?}");
        assert!(parse_gates("GenericWorkload=true").expect("the name itself").warnings.is_empty());
    }

    #[test]
    fn stage_sets_the_gates_that_are_not_named_in_any_order() {
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
        assert!(enabled_names("AllBeta=false").is_empty(), "all gates depend on GenericWorkload");
        let error = set("AllBeta=false,AllAlpha=true").expect_err("alpha gates need a beta one").to_string();
        assert!(error.starts_with("WorkloadWithJob is enabled, but depends on"), "{error}");
    }

    #[test]
    fn features_that_are_always_on_cannot_be_switched_off() {
        assert_eq!(set("JobManagedBy=true,DynamicResourceAllocation=1"), Ok(Gates::default()));
        let error = set("JobManagedBy=false").expect_err("it is always on").to_string();
        assert!(error.contains("JobManagedBy cannot be set to false"), "{error}");
    }

    // Shows: S001-16
    // Shows: S002-45
    #[test]
    fn every_gate_but_job_workload_ref_is_on_by_default() {
        let off: Vec<&str> =
            Gate::ALL.into_iter().filter(|gate| !Gates::default().enabled(*gate)).map(Gate::name).collect();
        assert_eq!(off, ["JobWorkloadRef"]);
    }

    // Shows: S002-45
    #[test]
    fn setting_one_gate_does_not_change_the_others() {
        let gates = Gates::default().with(Gate::WorkloadWithJob, false).with(Gate::JobWorkloadRef, true);
        let on: Vec<&str> = Gate::ALL.into_iter().filter(|gate| gates.enabled(*gate)).map(Gate::name).collect();
        assert!(!on.contains(&"WorkloadWithJob"));
        assert!(on.contains(&"JobWorkloadRef"));
        assert_eq!(on.len(), 6);
        assert_eq!(gates.with(Gate::WorkloadWithJob, true).with(Gate::JobWorkloadRef, false), Gates::default());
    }
}
