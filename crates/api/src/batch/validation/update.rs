//! Mutable fields of a Job's spec.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use super::scheduling;
use crate::field::{Error, ErrorList, Path};
use crate::metadata::{immutable, to_json};

pub(super) fn validate(new: &JobSpec, old_job: &Job, old: &JobSpec) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = ErrorList::new();
    errors.extend(completions(new, old, &path));
    errors.extend(immutable(&new.selector, &old.selector, &path.child("selector")));
    errors.extend(template(new, old_job, old, &path));
    errors.extend(immutable(&new.completion_mode, &old.completion_mode, &path.child("completionMode")));
    errors.extend(immutable(&new.pod_failure_policy, &old.pod_failure_policy, &path.child("podFailurePolicy")));
    errors.extend(immutable(
        &new.backoff_limit_per_index,
        &old.backoff_limit_per_index,
        &path.child("backoffLimitPerIndex"),
    ));
    errors.extend(immutable(&new.managed_by, &old.managed_by, &path.child("managedBy")));
    errors.extend(immutable(&new.success_policy, &old.success_policy, &path.child("successPolicy")));
    errors.extend(scheduling::validate_policy_variant_unchanged(new, old));
    errors
}

/// The completions of an Indexed Job can change together with its parallelism.
fn completions(new: &JobSpec, old: &JobSpec, path: &Path) -> Option<Error> {
    let completions_path = path.child("completions");
    if new.completion_mode.as_deref() != Some("Indexed") {
        return immutable(&new.completions, &old.completions, &completions_path);
    }
    // That an Indexed Job needs completions is another error.
    if new.completions.is_none() || new.completions == old.completions || new.completions == new.parallelism {
        return None;
    }
    let detail = format!("can only be modified in tandem with {}", path.child("parallelism"));
    Some(Error::invalid(&completions_path, to_json(&new.completions), detail))
}

/// The template is immutable, unless the Job is suspended and has no pods. Then a queueing system may change scheduling
/// directives and resources.
fn template(new: &JobSpec, old_job: &Job, old: &JobSpec, path: &Path) -> Option<Error> {
    let path = path.child("template");
    if !is_suspended_without_pods(old_job, old) {
        return immutable(&new.template, &old.template, &path);
    }
    let mut expected = old.template.clone();
    allow_scheduling_directives(&mut expected, &new.template);
    allow_resources(&mut expected, &new.template);
    immutable(&new.template.spec, &expected.spec, &path.child("spec"))
}

/// Whether the Job is suspended, has the condition, and has no pods.
fn is_suspended_without_pods(job: &Job, spec: &JobSpec) -> bool {
    let status = job.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let has_condition = conditions.iter().any(|condition| condition.type_ == "Suspended" && condition.status == "True");
    spec.suspend == Some(true) && (status.start_time.is_none() || has_condition) && status.active.unwrap_or(0) == 0
}

/// Copies scheduling directives from `new`, and labels and annotations of the template, which are not compared.
fn allow_scheduling_directives(expected: &mut PodTemplateSpec, new: &PodTemplateSpec) {
    let (Some(expected), Some(new)) = (&mut expected.spec, &new.spec) else { return };
    expected.node_selector.clone_from(&new.node_selector);
    expected.tolerations.clone_from(&new.tolerations);
    expected.scheduling_gates.clone_from(&new.scheduling_gates);
    let node_affinity = new.affinity.as_ref().and_then(|affinity| affinity.node_affinity.clone());
    match (&mut expected.affinity, node_affinity) {
        (Some(affinity), node_affinity) => {
            affinity.node_affinity = node_affinity;
            // An empty affinity equals an unset one.
            if *affinity == Default::default() && new.affinity.is_none() {
                expected.affinity = None;
            }
        }
        (None, Some(_)) => {
            let only_node = new.affinity.as_ref().map(|affinity| k8s_openapi::api::core::v1::Affinity {
                node_affinity: affinity.node_affinity.clone(),
                ..Default::default()
            });
            expected.affinity = only_node;
        }
        (None, None) => {}
    }
}

/// Copies the containers' resources from `new` if the containers are the same in the same order.
fn allow_resources(expected: &mut PodTemplateSpec, new: &PodTemplateSpec) {
    let (Some(expected), Some(new)) = (&mut expected.spec, &new.spec) else { return };
    let copy_resources = |expected: &mut [Container], new: &[Container]| {
        let same = expected.len() == new.len() && expected.iter().zip(new).all(|(old, new)| old.name == new.name);
        if same {
            for (old, new) in expected.iter_mut().zip(new) {
                old.resources.clone_from(&new.resources);
            }
        }
    };
    copy_resources(&mut expected.containers, &new.containers);
    copy_resources(
        expected.init_containers.as_deref_mut().unwrap_or_default(),
        new.init_containers.as_deref().unwrap_or_default(),
    );
}
