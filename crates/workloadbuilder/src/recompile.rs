//! Changes of a Workload after a change of its owner. Only the counts of gangs are mutable.

use k8s_openapi::api::scheduling::v1beta1::{CompositePodGroupTemplate, PodGroupTemplate, Workload, WorkloadSpec};

use crate::groups::{GroupTemplate, find_template, templates};

/// The differences between an existing Workload and the desired one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadDiff {
    /// Changed counts, parents before children.
    pub counts: Vec<CountChange>,
    /// Templates that have a different policy or level, or that only one of the two Workloads has. These changes need a
    /// new Workload, because the fields are immutable.
    pub immutable_templates: Vec<String>,
}

/// A gang whose count has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountChange {
    /// The name of its template.
    pub template: String,
    /// The desired number of pods or groups.
    pub count: i32,
}

/// Compares an existing Workload with the desired one. Fields that the server sets or drops (priority, features behind
/// a gate that is off) are not compared.
pub fn diff(current: &WorkloadSpec, desired: &WorkloadSpec) -> WorkloadDiff {
    let mut found = WorkloadDiff::default();
    for template in templates(desired) {
        let name = template.name().to_owned();
        match find_template(current, &name) {
            Some(existing) if same_policy(existing, template) => match (count(existing), count(template)) {
                (Some(old), Some(count)) if old != count => found.counts.push(CountChange { template: name, count }),
                _ => {}
            },
            _ => found.immutable_templates.push(name),
        }
    }
    let removed = templates(current).into_iter().filter(|template| find_template(desired, template.name()).is_none());
    found.immutable_templates.extend(removed.map(|template| template.name().to_owned()));
    found
}

/// Sets counts in an existing Workload.
pub fn set_counts(workload: &mut Workload, counts: &[CountChange]) {
    let spec = &mut workload.spec;
    set_template_counts(&mut spec.pod_group_templates, &mut spec.composite_pod_group_templates, counts);
}

fn set_template_counts(
    leaves: &mut Option<Vec<PodGroupTemplate>>,
    composites: &mut Option<Vec<CompositePodGroupTemplate>>,
    counts: &[CountChange],
) {
    let desired = |name: &str| counts.iter().find(|count| count.template == name).map(|count| count.count);
    for template in leaves.iter_mut().flatten() {
        if let (Some(gang), Some(count)) = (&mut template.scheduling_policy.gang, desired(&template.name)) {
            gang.min_count = count;
        }
    }
    for template in composites.iter_mut().flatten() {
        if let (Some(gang), Some(count)) = (&mut template.scheduling_policy.gang, desired(&template.name)) {
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

/// Whether the templates have the same level and both or neither is a gang.
fn same_policy(current: GroupTemplate<'_>, desired: GroupTemplate<'_>) -> bool {
    let composite = |template: GroupTemplate<'_>| matches!(template, GroupTemplate::Composite(_));
    composite(current) == composite(desired) && count(current).is_some() == count(desired).is_some()
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
    fn changed_count_is_set_at_any_depth() {
        let (current, desired) = (tree(2, 4), tree(1, 8));
        let found = diff(&current, &desired);
        let count = |template: &str, count| CountChange { template: template.to_owned(), count };
        assert_eq!(
            found,
            WorkloadDiff { counts: vec![count("set", 1), count("workers", 8)], immutable_templates: vec![] }
        );
        let mut workload = Workload { spec: current.clone(), ..Workload::default() };
        set_counts(&mut workload, &found.counts);
        assert_eq!(workload.spec, desired);
        assert_eq!(diff(&current, &current), WorkloadDiff::default());
    }

    #[test]
    fn immutable_changes_are_listed_apart_from_counts() {
        let flat = spec(json!({"podGroupTemplates": [
            {"name": "workers", "schedulingPolicy": {"basic": {}}},
            {"name": "set", "schedulingPolicy": {"gang": {"minCount": 2}}},
            {"name": "extra", "schedulingPolicy": {"basic": {}}},
        ]}));
        let found = diff(&tree(2, 4), &flat);
        assert_eq!(found.counts, []);
        // A different policy, a different level, a new template, a removed template.
        assert_eq!(found.immutable_templates, ["workers", "set", "extra", "driver"]);
    }
}
