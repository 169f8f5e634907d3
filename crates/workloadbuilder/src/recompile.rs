//! What to do with a Workload when its owner has changed: a gang's count is written, nothing else can be.

use k8s_openapi::api::scheduling::v1beta1::{CompositePodGroupTemplate, PodGroupTemplate, Workload, WorkloadSpec};

use crate::groups::{Template, find_template, templates};

/// What a Workload that is there lacks of the one that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Counts to write, parents before children.
    pub counts: Vec<Count>,
    /// Templates of another policy or level, or that only one of the two has. None of that changes once the Workload is
    /// there, so it needs a new one.
    pub frozen: Vec<String>,
}

/// A gang whose count has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Its template.
    pub template: String,
    /// The count that is wanted: of pods, or of groups.
    pub count: i32,
}

/// Compares the Workload that is there with one that was just compiled. What the server fills in or drops (priority,
/// features that are off) is no difference.
pub fn differences(held: &WorkloadSpec, wanted: &WorkloadSpec) -> Differences {
    let mut found = Differences::default();
    for template in templates(wanted) {
        let name = template.name().to_owned();
        match find_template(held, &name) {
            Some(held) if same_policy(held, template) => match (count(held), count(template)) {
                (Some(held), Some(count)) if held != count => found.counts.push(Count { template: name, count }),
                _ => {}
            },
            _ => found.frozen.push(name),
        }
    }
    let gone = templates(held).into_iter().filter(|template| find_template(wanted, template.name()).is_none());
    found.frozen.extend(gone.map(|template| template.name().to_owned()));
    found
}

/// Writes counts into a Workload that is there.
pub fn set_counts(workload: &mut Workload, counts: &[Count]) {
    let spec = &mut workload.spec;
    set_in(&mut spec.pod_group_templates, &mut spec.composite_pod_group_templates, counts);
}

fn set_in(
    leaves: &mut Option<Vec<PodGroupTemplate>>,
    composites: &mut Option<Vec<CompositePodGroupTemplate>>,
    counts: &[Count],
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
        set_in(&mut template.pod_group_templates, &mut template.composite_pod_group_templates, counts);
    }
}

fn count(template: Template<'_>) -> Option<i32> {
    match template {
        Template::Composite(template) => template.scheduling_policy.gang.as_ref().map(|gang| gang.min_group_count),
        Template::Pods(template) => template.scheduling_policy.gang.as_ref().map(|gang| gang.min_count),
    }
}

/// Of the same level, and both gangs or both not.
fn same_policy(held: Template<'_>, wanted: Template<'_>) -> bool {
    let composite = |template: Template<'_>| matches!(template, Template::Composite(_));
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
        let found = differences(&held, &wanted);
        let count = |template: &str, count| Count { template: template.to_owned(), count };
        assert_eq!(found, Differences { counts: vec![count("set", 1), count("workers", 8)], frozen: vec![] });
        let mut workload = Workload { spec: held.clone(), ..Workload::default() };
        set_counts(&mut workload, &found.counts);
        assert_eq!(workload.spec, wanted);
        assert_eq!(differences(&held, &held), Differences::default());
    }

    #[test]
    fn what_never_changes_is_told_apart() {
        let flat = spec(json!({"podGroupTemplates": [
            {"name": "workers", "schedulingPolicy": {"basic": {}}},
            {"name": "set", "schedulingPolicy": {"gang": {"minCount": 2}}},
            {"name": "extra", "schedulingPolicy": {"basic": {}}},
        ]}));
        let found = differences(&tree(2, 4), &flat);
        assert_eq!(found.counts, []);
        // Another policy, another level, one that is new, one that is gone.
        assert_eq!(found.frozen, ["workers", "set", "extra", "driver"]);
    }
}
