//! `spec.scheduling`: what the blocks mean for this Job, their form, and what may change.

use k8s_openapi::api::batch::v1::{Job, JobSchedulingConfiguration, JobSpec};
use k8s_openapi::api::scheduling::v1alpha3::WorkloadPodGroupResourceClaim;
use serde_json::Value;
use workloadbuilder::{BuildOptions, Builder, rules, validate};

use crate::batch::scheduling::{DISRUPTION_MODES, JobIntent, POLICIES, item_for_job};
use crate::field::{Error, ErrorList, Path};
use crate::gates::{Gate, Gates};
use crate::metadata::json_of;

/// The sense of what the Job asks for, whether new or changed.
pub(super) fn sense(job: &Job, spec: &JobSpec, gates: &Gates) -> ErrorList {
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
    errors.extend(Builder::new(item_for_job(JobIntent::from(job).under(gates)), options).validate_resolved());
    errors
}

/// Under `autoGang: indexed` a gang is as large as its Job was made: its size cannot change, nor can a Job change its size
/// and become a gang by it.
pub(super) fn parallelism_kept(new: &Job, old: &Job, gates: &Gates) -> Option<Error> {
    let (new, old) = (JobIntent::from(new), JobIntent::from(old));
    let frozen = new.parallelism != old.parallelism && (new.is_auto_gang(gates) || old.is_auto_gang(gates));
    frozen.then(|| {
        let detail = "cannot be changed: with `autoGang: indexed` this Job is a gang of a fixed size";
        Error::invalid(&Path::new("spec").child("parallelism"), json_of(&new.parallelism), detail)
    })
}

/// A Job that started as one kind of group stays that kind: its pods are placed by it already.
pub(super) fn variant_update(new: &JobSpec, old: &JobSpec) -> Option<Error> {
    let variant = |spec: &JobSpec| {
        let policy = spec.scheduling.as_ref()?.scheduling_policy.as_ref()?;
        Some(policy.basic.is_some())
    };
    let (new, old) = (variant(new)?, variant(old)?);
    let detail =
        "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be updated";
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
        ("resourceClaims", claims(new) == claims(old)),
    ];
    let changed = frozen.iter().filter(|(_, same)| !same);
    errors.extend(changed.map(|(name, _)| rules::immutable(&path().child(name))));
    if claims(new).len() > rules::CLAIMS_MAX && claims(new) != claims(old) {
        errors.push(Error::too_many(&path().child("resourceClaims"), claims(new).len(), rules::CLAIMS_MAX));
    }
    errors
}

/// The claims, of which none and an empty list are the same.
fn claims(block: &JobSchedulingConfiguration) -> &[WorkloadPodGroupResourceClaim] {
    block.resource_claims.as_deref().unwrap_or_default()
}

fn path() -> Path {
    Path::new("spec").child("scheduling")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{Job, JobIntent, parallelism_kept};
    use crate::gates::{AutoGang, Gates};
    use crate::views::{JobView, View};

    fn job(parallelism: i32, completions: i32, scheduling: Value) -> Job {
        let spec = json!({
            "parallelism": parallelism, "completions": completions, "completionMode": "Indexed",
            "scheduling": scheduling, "template": {},
        });
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).expect("a Job")
    }

    // Shows: S000-09
    // Shows: S000-23
    // Shows: S000-26
    // Shows: S000-25
    // Shows: S000-56
    #[test]
    fn the_size_of_a_gang_nobody_asked_for_is_fixed() {
        let indexed = Gates::default().with_auto_gang(AutoGang::Indexed);
        let basic = json!({"schedulingPolicy": {"basic": {}}});
        for (case, old, new, refused) in [
            ("another size", job(4, 4, Value::Null), job(8, 8, Value::Null), true),
            ("no longer a gang", job(4, 4, Value::Null), job(2, 4, Value::Null), true),
            ("a gang only now", job(2, 4, Value::Null), job(4, 4, Value::Null), true),
            ("never a gang", job(2, 4, Value::Null), job(3, 4, Value::Null), false),
            ("the same size", job(4, 4, Value::Null), job(4, 4, Value::Null), false),
            ("asked to be Basic", job(4, 4, basic.clone()), job(8, 8, basic), false),
        ] {
            let errors: Vec<String> = parallelism_kept(&new, &old, &indexed).iter().map(ToString::to_string).collect();
            assert_eq!(!errors.is_empty(), refused, "{case}: {errors:?}");
            assert!(errors.iter().all(|error| error.starts_with("spec.parallelism: Invalid value: ")), "{errors:?}");
            assert!(parallelism_kept(&new, &old, &Gates::default()).is_none(), "{case}, by default");
        }
    }

    proptest! {
        // Shows: S000-24
        #[test]
        fn what_is_frozen_is_what_the_controller_makes_a_gang(
            (parallelism, completions) in (0..4, 0..4),
            mode in prop_oneof![Just("Indexed"), Just("NonIndexed")],
            scheduling in prop_oneof![
                Just(Value::Null),
                Just(json!({})),
                Just(json!({"schedulingPolicy": {"basic": {}}})),
                Just(json!({"schedulingPolicy": {"gang": {}}})),
            ],
        ) {
            let indexed = Gates::default().with_auto_gang(AutoGang::Indexed);
            let mut document = serde_json::to_value(job(parallelism, completions, scheduling)).expect("a Job");
            document["spec"]["completionMode"] = mode.into();
            let view = JobView::decode(document.to_string().as_bytes()).expect("a Job");
            let old: Job = serde_json::from_value(document).expect("a Job");
            // As many more pods as make it no gang by its new size.
            let mut new = old.clone();
            new.spec.as_mut().expect("a spec").parallelism = Some(parallelism + 9);
            let is_gang = JobIntent::from(&view).is_auto_gang(&indexed);
            prop_assert_eq!(parallelism_kept(&new, &old, &indexed).is_some(), is_gang);
        }
    }
}
