//! `spec.scheduling`: what the blocks mean for this Job, their form, and what may change.

use k8s_openapi::api::batch::v1::{Job, JobSchedulingConfiguration, JobSpec};
use serde_json::Value;
use workloadbuilder::{BuildOptions, Builder, rules, validate};

use crate::batch::scheduling::{DISRUPTION_MODES, JobIntent, POLICIES, item_for_job};
use crate::field::{Error, ErrorList, Path};
use crate::gates::{Gate, Gates};

/// The sense of what the Job asks for, whether new or changed.
pub(super) fn sense(job: &Job, spec: &JobSpec) -> ErrorList {
    let Some(scheduling) = &spec.scheduling else { return ErrorList::new() };
    let mut errors = ErrorList::new();
    let gang = scheduling.scheduling_policy.as_ref().and_then(|policy| policy.gang.as_ref());
    let parallelism = spec.parallelism.unwrap_or(1);
    if let Some(min_count) = gang.and_then(|gang| gang.min_count).filter(|count| *count > parallelism) {
        let path = path().child("schedulingPolicy").child("gang").child("minCount");
        errors.push(Error::invalid(&path, min_count, format!("must not be greater than parallelism ({parallelism})")));
    }
    let options = BuildOptions {
        allowed_policies: POLICIES.to_vec(),
        allowed_disruption_modes: DISRUPTION_MODES.to_vec(),
        ..BuildOptions::default()
    };
    errors.extend(Builder::new(item_for_job(JobIntent::from(job)), options).validate_resolved());
    errors
}

/// A Job that started as one kind of group stays that kind: its pods are placed by it already.
pub(super) fn variant_update(new: &JobSpec, old: &JobSpec) -> Option<Error> {
    let variant = |spec: &JobSpec| {
        let policy = spec.scheduling.as_ref()?.scheduling_policy.as_ref()?;
        Some((policy.basic.is_some(), policy.gang.is_some()))
    };
    let (new, old) = (variant(new)?, variant(old)?);
    let detail = "the policy variant (basic or gang) is immutable, only gang.minCount may be updated";
    (new != old).then(|| Error::invalid(&path().child("schedulingPolicy"), Value::Null, detail))
}

/// The rules that the types declare. `old` is the value before an update; `None` for a new Job.
pub(super) fn declared(
    new: Option<&JobSchedulingConfiguration>,
    old: Option<Option<&JobSchedulingConfiguration>>,
    gates: &Gates,
) -> ErrorList {
    let path = path();
    let gate_off = !gates.enabled(Gate::WorkloadWithJob);
    let mut errors = ErrorList::new();
    if gate_off && new.is_some() && old != Some(new) {
        errors.push(Error::forbidden(&path, ""));
    }
    match old {
        None => {
            if let Some(new) = new.filter(|_| errors.is_empty()) {
                errors.extend(blocks(new));
            }
        }
        Some(old) => {
            errors.extend(rules::presence_kept(&path, new.is_some(), old.is_some()));
            if let (Some(new), Some(old), true) = (new, old, errors.is_empty()) {
                errors.extend(changes(new, old));
            }
        }
    }
    errors
}

/// The form of all blocks of a new Job.
fn blocks(new: &JobSchedulingConfiguration) -> ErrorList {
    let intent = JobIntent { scheduling: Some(new), ..JobIntent::default() };
    validate::blocks(&item_for_job(intent), None)
}

/// All that may change is the count of a gang.
fn changes(new: &JobSchedulingConfiguration, old: &JobSchedulingConfiguration) -> ErrorList {
    let mut errors = ErrorList::new();
    let policy_path = path().child("schedulingPolicy");
    match (&new.scheduling_policy, &old.scheduling_policy) {
        (Some(new), Some(old)) => errors.extend(validate::policy_block(&policy_path, new, Some(old))),
        (new, old) => errors.extend(rules::presence_kept(&policy_path, new.is_some(), old.is_some())),
    }
    let frozen = [
        ("schedulingConstraints", new.scheduling_constraints == old.scheduling_constraints),
        ("disruptionMode", new.disruption_mode == old.disruption_mode),
        ("resourceClaims", new.resource_claims == old.resource_claims),
    ];
    let changed = frozen.iter().filter(|(_, same)| !same);
    errors.extend(changed.map(|(name, _)| rules::immutable(&path().child(name))));
    errors
}

fn path() -> Path {
    Path::new("spec").child("scheduling")
}
