//! `spec.scheduling`: semantics for the Job, format of the blocks, and mutable fields.

use k8s_openapi::api::batch::v1::{Job, JobSchedulingConfiguration, JobSpec};
use k8s_openapi::api::scheduling::v1alpha3::WorkloadPodGroupResourceClaim;
use serde_json::Value;
use workloadbuilder::{BuildOptions, Builder, rules, validate};

use crate::batch::scheduling::{
    JOB_DISRUPTION_MODES, JOB_POLICIES, JobIntent, has_no_own_scheduling_objects, item_for_job,
};
use crate::field::{Error, ErrorList, Path};
use crate::gates::{Gate, Gates};
use crate::metadata::to_json;
use crate::views::JobView;

/// Validates the scheduling of a new or changed Job against its other fields.
pub(super) fn validate_semantics(job: &Job, spec: &JobSpec, gates: &Gates) -> ErrorList {
    let Some(scheduling) = &spec.scheduling else { return ErrorList::new() };
    let mut errors = ErrorList::new();
    let gang = scheduling.scheduling_policy.as_ref().and_then(|policy| policy.gang.as_ref());
    let parallelism = spec.parallelism.unwrap_or(1);
    if let Some(min_count) = gang.and_then(|gang| gang.min_count).filter(|count| *count > parallelism) {
        let path = path().child("schedulingPolicy").child("gang").child("minCount");
        errors.push(Error::invalid(&path, min_count, format!("must not be greater than parallelism ({parallelism})")));
    }
    let options = BuildOptions {
        allowed_policies: JOB_POLICIES.to_vec(),
        allowed_disruption_modes: JOB_DISRUPTION_MODES.to_vec(),
        ..BuildOptions::default()
    };
    errors.extend(Builder::new(item_for_job(JobIntent::from(job).with_gates(gates)), options).validate_resolved());
    errors
}

/// Under `autoGang: indexed` the size of a gang is immutable, and a Job cannot change its size and become a gang by
/// that. Jobs that the setting does not make a gang are not restricted. That includes Jobs with a Workload of a user,
/// or in a namespace that opts out; the caller looks these up.
pub fn validate_parallelism_unchanged(new: &JobView, old: &JobView, gates: &Gates) -> Option<Error> {
    let is_frozen =
        |job: &JobView| JobIntent::from(job).is_auto_gang(gates) && !has_no_own_scheduling_objects(job, gates);
    let (changed, new) =
        (new.spec.parallelism != old.spec.parallelism && (is_frozen(new) || is_frozen(old)), &new.spec);
    changed.then(|| {
        let detail = "cannot be changed: with `autoGang: indexed` this Job is a gang of a fixed size";
        Error::invalid(&Path::new("spec").child("parallelism"), to_json(&new.parallelism), detail)
    })
}

/// The kind of policy is immutable, because pods may have been placed by it.
pub(super) fn validate_policy_variant_unchanged(new: &JobSpec, old: &JobSpec) -> Option<Error> {
    let variant = |spec: &JobSpec| {
        let policy = spec.scheduling.as_ref()?.scheduling_policy.as_ref()?;
        Some(policy.basic.is_some())
    };
    let (new, old) = (variant(new)?, variant(old)?);
    let detail =
        "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be updated";
    (new != old).then(|| Error::immutable(&path().child("schedulingPolicy"), Value::Null, detail))
}

/// The rules that the types declare. `old` is the value before an update, `None` for a new Job.
pub(super) fn validate_declarative(
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
            errors.extend(rules::presence_unchanged(&path, new.is_some(), old.is_some()));
            if let (Some(new), Some(old), true) = (new, old, errors.is_empty()) {
                errors.extend(changes(new, old));
            }
        }
    }
    errors
}

/// Validates all blocks of a new Job.
fn blocks(new: &JobSchedulingConfiguration) -> ErrorList {
    let intent = JobIntent { scheduling: Some(new), ..JobIntent::default() };
    validate::blocks(&item_for_job(intent), None)
}

/// Only the count of a gang is mutable.
fn changes(new: &JobSchedulingConfiguration, old: &JobSchedulingConfiguration) -> ErrorList {
    let mut errors = ErrorList::new();
    let policy_path = path().child("schedulingPolicy");
    match (&new.scheduling_policy, &old.scheduling_policy) {
        (Some(new), Some(old)) => errors.extend(validate::policy_block(&policy_path, new, Some(old))),
        (new, old) => errors.extend(rules::presence_unchanged(&policy_path, new.is_some(), old.is_some())),
    }
    let frozen = [
        ("schedulingConstraints", new.scheduling_constraints == old.scheduling_constraints),
        ("disruptionMode", new.disruption_mode == old.disruption_mode),
        ("resourceClaims", claims(new) == claims(old)),
    ];
    let changed = frozen.iter().filter(|(_, same)| !same);
    errors.extend(changed.map(|(name, _)| rules::immutable(&path().child(name))));
    if claims(new).len() > rules::MAX_CLAIMS && claims(new) != claims(old) {
        errors.push(Error::too_many(&path().child("resourceClaims"), claims(new).len(), rules::MAX_CLAIMS));
    }
    errors
}

/// The claims. An unset list equals an empty one.
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

    use super::{JobIntent, JobView, validate_parallelism_unchanged};
    use crate::gates::{AutoGang, Gate, Gates};
    use crate::views::View;

    fn document(parallelism: i32, completions: i32, scheduling: Value) -> Value {
        let spec = json!({
            "parallelism": parallelism, "completions": completions, "completionMode": "Indexed",
            "scheduling": scheduling, "template": {"spec": {}},
        });
        json!({"metadata": {"name": "a"}, "spec": spec})
    }

    fn view(document: &Value) -> JobView {
        JobView::decode(document.to_string().as_bytes()).expect("a Job")
    }

    fn job(parallelism: i32, completions: i32, scheduling: Value) -> JobView {
        view(&document(parallelism, completions, scheduling))
    }

    // Shows: S000-09
    // Shows: S000-23
    // Shows: S000-26
    // Shows: S000-25
    // Shows: S000-56
    #[test]
    fn size_of_an_automatic_gang_is_fixed() {
        let indexed = Gates::default().with_auto_gang(AutoGang::Indexed);
        let basic = json!({"schedulingPolicy": {"basic": {}}});
        for (case, old, new, refused) in [
            ("changed size", job(4, 4, Value::Null), job(8, 8, Value::Null), true),
            ("no longer a gang", job(4, 4, Value::Null), job(2, 4, Value::Null), true),
            ("becomes a gang", job(2, 4, Value::Null), job(4, 4, Value::Null), true),
            ("never a gang", job(2, 4, Value::Null), job(3, 4, Value::Null), false),
            ("the same size", job(4, 4, Value::Null), job(4, 4, Value::Null), false),
            ("Basic by request", job(4, 4, basic.clone()), job(8, 8, basic), false),
        ] {
            let errors: Vec<String> =
                validate_parallelism_unchanged(&new, &old, &indexed).iter().map(ToString::to_string).collect();
            assert_eq!(!errors.is_empty(), refused, "{case}: {errors:?}");
            assert!(errors.iter().all(|error| error.starts_with("spec.parallelism: Invalid value: ")), "{errors:?}");
            assert!(validate_parallelism_unchanged(&new, &old, &Gates::default()).is_none(), "{case}, by default");
        }
    }

    // The parallelism of these Jobs was immutable although the controller made no gang of them.
    // Shows: S000-25
    #[test]
    fn job_that_is_no_automatic_gang_can_change_its_size() {
        let owner = |kind: &str, version: &str| json!([{"apiVersion": version, "kind": kind, "name": "p", "uid": "u", "controller": true}]);
        for (case, field, value, refused) in [
            ("by its label", "/metadata/labels", json!({"phalanx.dev/groups": "disabled"}), false),
            ("another label", "/metadata/labels", json!({"phalanx.dev/groups": "enabled"}), true),
            ("a child", "/metadata/ownerReferences", owner("JobSet", "jobset.x-k8s.io/v1alpha2"), false),
            ("a CronJob's", "/metadata/ownerReferences", owner("CronJob", "batch/v1"), true),
            ("names a Workload", "/spec/workloadRef", json!({"name": "w"}), false),
            ("names a group", "/spec/template/spec/schedulingGroup", json!({"podGroupName": "g"}), false),
        ] {
            let with = |size: i32| {
                let mut document = document(size, size, Value::Null);
                let (parent, name) = field.rsplit_once('/').expect("a field");
                document.pointer_mut(parent).expect("its parent")[name] = value.clone();
                view(&document)
            };
            let gates = Gates::default().with_auto_gang(AutoGang::Indexed);
            let on = gates.with(Gate::JobWorkloadRef, true);
            assert_eq!(validate_parallelism_unchanged(&with(8), &with(4), &on).is_some(), refused, "{case}");
            let is_refused = validate_parallelism_unchanged(&with(8), &with(4), &gates).is_some();
            assert_eq!(is_refused, refused || case == "names a Workload", "{case}, without the gate of references");
        }
    }

    proptest! {
        // Shows: S000-24
        #[test]
        fn parallelism_is_immutable_for_jobs_that_the_controller_makes_a_gang(
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
            let mut document = document(parallelism, completions, scheduling);
            document["spec"]["completionMode"] = mode.into();
            let old = view(&document);
            // As many more pods as make it no gang with its new size.
            let mut new = old.clone();
            new.spec.parallelism = Some(parallelism + 9);
            let is_gang = JobIntent::from(&old).is_auto_gang(&indexed);
            prop_assert_eq!(validate_parallelism_unchanged(&new, &old, &indexed).is_some(), is_gang);
        }
    }
}
