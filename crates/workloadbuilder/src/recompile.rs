//! What to do with a Workload when its owner has changed: a gang's count is written, nothing else can be.

use k8s_openapi::api::scheduling::v1beta1::{CompositePodGroupTemplate, PodGroupTemplate, Workload, WorkloadSpec};

use crate::groups::{GroupTemplate, find_template, templates};

/// What a Workload that is there lacks of the one that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadDiff {
    /// Counts to write, parents before children.
    pub counts: Vec<CountChange>,
    /// Templates of another policy or level, or that only one of the two has. None of that changes once the Workload is
    /// there, so it needs a new one.
    pub immutable_templates: Vec<String>,
}

/// A gang whose count has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountChange {
    /// Its template.
    pub template: String,
    /// The count that is wanted: of pods, or of groups.
    pub count: i32,
}

/// Compares the Workload that is there with one that was just compiled. What the server fills in or drops (priority,
/// features that are off) is no difference.
pub fn diff(current: &WorkloadSpec, desired: &WorkloadSpec) -> WorkloadDiff {
    let mut found = WorkloadDiff::default();
    for template in templates(desired) {
        let name = template.name().to_owned();
        match find_template(current, &name) {
            Some(held) if same_policy(held, template) => match (count(held), count(template)) {
                (Some(held), Some(count)) if held != count => found.counts.push(CountChange { template: name, count }),
                _ => {}
            },
            _ => found.immutable_templates.push(name),
        }
    }
    let gone = templates(current).into_iter().filter(|template| find_template(desired, template.name()).is_none());
    found.immutable_templates.extend(gone.map(|template| template.name().to_owned()));
    found
}

/// Writes counts into a Workload that is there.
pub fn set_counts(workload: &mut Workload, counts: &[CountChange]) {
    let spec = &mut workload.spec;
    set_template_counts(&mut spec.pod_group_templates, &mut spec.composite_pod_group_templates, counts);
}

fn set_template_counts(
    leaves: &mut Option<Vec<PodGroupTemplate>>,
    composites: &mut Option<Vec<CompositePodGroupTemplate>>,
    counts: &[CountChange],
) {
    let wanted = |name: &str| counts.iter().find(|count| count.template == name).map(|count| count.count);
    for template in leaves.iter_mut().flatten() {
        if let (Some(gang), Some(count)) = (&mut template.scheduling_policy.gang, wanted(&template.name)) {
            gang.min_count = count;
        }
    }
    for template in composites.iter_mut().flatten() {
        if let (Some(gang), Some(count)) = (&mut template.scheduling_policy.gang, wanted(&template.name)) {
            gang.min_group_count = count;
        }
        set_template_counts(&mut template.pod_group_templates, &mut template.composite_pod_group_templates, counts);
    }
}

fn count(template: GroupTemplate<'_>) -> Option<i32> {
    match template {
        GroupTemplate::Composite(template) => template.scheduling_policy.gang.as_ref().map(|gang| gang.min_group_count),
        GroupTemplate::Pods(template) => template.scheduling_policy.gang.as_ref().map(|gang| gang.min_count),
    }
}

/// Of the same level, and both gangs or both not.
fn same_policy(held: GroupTemplate<'_>, wanted: GroupTemplate<'_>) -> bool {
    let composite = |template: GroupTemplate<'_>| matches!(template, GroupTemplate::Composite(_));
    composite(held) == composite(wanted) && count(held).is_some() == count(wanted).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> WorkloadSpec {
        serde_json::from_value(value).expect("a spec")
    }

    fn tree(groups: i32, pods: i32) -> WorkloadSpec {
        spec(json!({"compositePodGroupTemplates": [{
            "name": "set",
            "schedulingPolicy": {"gang": {"minGroupCount": groups}},
            "podGroupTemplates": [
                {"name": "workers", "schedulingPolicy": {"gang": {"minCount": pods}}},
                {"name": "driver", "schedulingPolicy": {"basic": {}}},
            ],
        }]}))
    }

    // Shows: S004-65
    #[test]
    fn a_changed_count_is_written_at_whatever_depth() {
        let (held, wanted) = (tree(2, 4), tree(1, 8));
        let found = diff(&held, &wanted);
        let count = |template: &str, count| CountChange { template: template.to_owned(), count };
        assert_eq!(
            found,
            WorkloadDiff { counts: vec![count("set", 1), count("workers", 8)], immutable_templates: vec![] }
        );
        let mut workload = Workload { spec: held.clone(), ..Workload::default() };
        set_counts(&mut workload, &found.counts);
        assert_eq!(workload.spec, wanted);
        assert_eq!(diff(&held, &held), WorkloadDiff::default());
    }

    #[test]
    fn what_never_changes_is_told_apart() {
        let flat = spec(json!({"podGroupTemplates": [
            {"name": "workers", "schedulingPolicy": {"basic": {}}},
            {"name": "set", "schedulingPolicy": {"gang": {"minCount": 2}}},
            {"name": "extra", "schedulingPolicy": {"basic": {}}},
        ]}));
        let found = diff(&tree(2, 4), &flat);
        assert_eq!(found.counts, []);
        // Another policy, another level, one that is new, one that is gone.
        assert_eq!(found.immutable_templates, ["workers", "set", "extra", "driver"]);
    }
}
