//! Notes on the fields of a compiled object: the rule behind each.

use std::collections::BTreeMap;

use serde_json::Value;
use workloadbuilder::field::Path;
use workloadbuilder::item::{FieldSource, FieldSources};
use workloadbuilder::{FieldPaths, SchedulingConfig, SchedulingPolicy, WorkloadItem};

/// Notes by the paths of fields.
type Notes = BTreeMap<String, String>;

/// The item that objects are compiled from, and how notes refer to it.
pub struct CompileOrigin {
    root: WorkloadItem,
    kind: &'static str,
    /// The default size of a gang of pods, and of a gang of groups.
    sizes: (&'static str, &'static str),
}

impl CompileOrigin {
    /// A Job.
    pub fn job(root: WorkloadItem) -> CompileOrigin {
        CompileOrigin { root, kind: "Job", sizes: ("spec.parallelism, at least 1", "") }
    }

    /// A Job of a CronJob: its fields are in the CronJob's template.
    pub fn job_of_cron_job(root: WorkloadItem) -> CompileOrigin {
        let path = Path::new("spec").child("jobTemplate").child("spec").child("scheduling");
        let root = WorkloadItem { fields: FieldPaths::below(&path), path, ..root };
        CompileOrigin { root, kind: "Job", sizes: ("spec.jobTemplate.spec.parallelism, at least 1", "") }
    }

    /// A JobSet.
    pub fn job_set(root: WorkloadItem) -> CompileOrigin {
        let sizes = ("replicas times parallelism, at least 1", "the number of replicatedJobs");
        CompileOrigin { root, kind: "JobSet", sizes }
    }

    /// Notes for one object.
    pub fn notes(&self, object: &Value) -> Notes {
        let mut notes = Notes::new();
        let mut note = |path: &str, text: String| {
            notes.insert(path.to_owned(), text);
        };
        note("metadata.annotations", "marks objects that the controller created and may change".to_owned());
        if object["kind"] == "Workload" {
            note("metadata.name", format!("the {}'s name and a hash of its uid", self.kind));
            note("metadata.ownerReferences", format!("deleted with the {}", self.kind));
            note("spec.controllerRef", "the object that the Workload describes".to_owned());
            self.templates(&object["spec"], "spec", &mut notes);
        } else {
            note("metadata.name", "the Workload, the template and a hash of both".to_owned());
            note("metadata.ownerReferences", format!("deleted with the {} and with the Workload", self.kind));
            note("spec.parentCompositePodGroupName", "created before this one".to_owned());
            note("spec.workloadRef", "the rest of this spec is a copy of this template".to_owned());
        }
        notes
    }

    /// Notes for all templates below `value`.
    fn templates(&self, value: &Value, path: &str, notes: &mut Notes) {
        for list in ["podGroupTemplates", "compositePodGroupTemplates"] {
            for (i, template) in value[list].as_array().into_iter().flatten().enumerate() {
                let path = format!("{path}.{list}[{i}]");
                if let Some(item) = template["name"].as_str().and_then(|name| find(&self.root, name)) {
                    self.template(item, &path, notes);
                }
                self.templates(template, &path, notes);
            }
        }
    }

    fn template(&self, item: &WorkloadItem, path: &str, notes: &mut Notes) {
        let (config, sources) = item.resolve_with_sources();
        let (user, fields) = (item.input.to_config(), &item.fields);
        let mut note = |field: &str, text: String| {
            notes.insert(format!("{path}.{field}"), text);
        };
        let whole = item.name == self.root.name;
        note("name", if whole { format!("the whole {}", self.kind) } else { format!("for {}", item.path) });
        note("schedulingPolicy", self.policy(item, &user));
        if let Some(count) = count_note(item, &config, &user, self.sizes) {
            let field = if item.is_composite() { "minGroupCount" } else { "minCount" };
            note(&format!("schedulingPolicy.gang.{field}"), count);
        }
        let FieldSources { constraints, disruption_mode, resource_claims, priority_class_name, .. } = sources;
        note("schedulingConstraints", self.source_text(constraints, fields.constraints.as_str()));
        note("disruptionMode", self.source_text(disruption_mode, fields.disruption_mode.as_str()));
        note("resourceClaims", self.source_text(resource_claims, fields.resource_claims.as_str()));
        let class = match priority_class_name {
            FieldSource::Unset => "one class for all groups of a Workload",
            _ => "from the pods: a group has the priority of its pods",
        };
        note("priorityClassName", class.to_owned());
    }

    fn policy(&self, item: &WorkloadItem, user: &SchedulingConfig) -> String {
        match (&user.policy, &item.default_config.policy) {
            (Some(_), _) => format!("from {}", item.fields.policy),
            (None, Some(_)) => self.source_text(FieldSource::Default, ""),
            (None, None) => "Basic if nothing is requested".to_owned(),
        }
    }

    fn source_text(&self, source: FieldSource, field: &str) -> String {
        match source {
            FieldSource::User => format!("from {field}"),
            FieldSource::Default | FieldSource::Unset => format!("the default of a {}", self.kind),
            FieldSource::Callback => format!("filled in for a {}", self.kind),
        }
    }
}

/// Where the count of a gang comes from.
fn count_note(
    item: &WorkloadItem,
    config: &SchedulingConfig,
    user: &SchedulingConfig,
    sizes: (&str, &str),
) -> Option<String> {
    let Some(SchedulingPolicy::Gang { .. }) = config.policy else { return None };
    match user.policy {
        Some(SchedulingPolicy::Gang { min_count: Some(_) }) => None,
        _ if item.is_composite() => Some(format!("not set, so {}", sizes.1)),
        _ => Some(format!("not set, so {}", sizes.0)),
    }
}

fn find<'a>(item: &'a WorkloadItem, name: &str) -> Option<&'a WorkloadItem> {
    if item.name == name {
        return Some(item);
    }
    item.children.iter().find_map(|child| find(child, name))
}
