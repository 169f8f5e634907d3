//! Spellings of drafts, replaced before all other steps in a document or a patch. Each change is a warning. What cannot
//! be replaced is refused with a remedy.

use serde_json::{Value, json};

use super::{JsonObject, child, current_api_version, items, rename, spec_of, text};
use crate::field::{Error, ErrorList, Path};
use crate::gates::{Gate, Gates};

/// Warnings about replaced spellings, or errors.
type DraftResult = Result<Vec<String>, ErrorList>;

/// The fields of a Job's `scheduling`: draft name and current name.
const SCHEDULING: [(&str, &str); 3] =
    [("policy", "schedulingPolicy"), ("constraints", "schedulingConstraints"), ("disruption", "disruptionMode")];

/// Replaces draft spellings in a document of any kind, for callers without a server.
pub fn normalize_drafts(group: &str, kind: &str, doc: &mut Value, gates: &Gates) -> DraftResult {
    match (group, kind) {
        ("", "Pod") => normalize_pod_drafts(doc, gates),
        ("batch", "Job") => normalize_job_drafts(doc, gates),
        ("batch", "CronJob") => normalize_cron_job_drafts(doc, gates),
        ("scheduling.k8s.io", "Workload") => normalize_workload_drafts(doc, gates),
        ("jobset.x-k8s.io", "JobSet") => normalize_job_set_drafts(doc, gates),
        _ => Ok(Vec::new()),
    }
}

/// Replaces draft spellings in a Job.
pub fn normalize_job_drafts(doc: &mut Value, gates: &Gates) -> DraftResult {
    let mut found = DraftFindings::default();
    if let Some(spec) = spec_of(doc) {
        found.job_spec(spec, &Path::new("spec"), gates);
    }
    found.into_result()
}

/// Replaces draft spellings in the Jobs of a CronJob.
pub fn normalize_cron_job_drafts(doc: &mut Value, gates: &Gates) -> DraftResult {
    let mut found = DraftFindings::default();
    let template = spec_of(doc).and_then(|spec| child(spec, "jobTemplate"));
    if let Some(spec) = template.and_then(|template| child(template, "spec")) {
        found.job_spec(spec, &Path::new("spec").child("jobTemplate").child("spec"), gates);
    }
    found.into_result()
}

/// Replaces draft spellings in a JobSet: in its own scheduling, in that of its entries, and in its Jobs.
pub fn normalize_job_set_drafts(doc: &mut Value, gates: &Gates) -> DraftResult {
    let mut found = DraftFindings::default();
    if let Some(spec) = spec_of(doc) {
        let path = Path::new("spec");
        if let Some(scheduling) = child(spec, "scheduling") {
            let path = path.child("scheduling");
            found.scheduling(scheduling, &path);
            for (i, entry) in items(scheduling, "replicatedJobPolicies").enumerate() {
                found.scheduling(entry, &path.child("replicatedJobPolicies").index(i));
            }
        }
        for (i, job) in items(spec, "replicatedJobs").enumerate() {
            let template = child(job, "template").and_then(|template| child(template, "spec"));
            if let Some(job_spec) = template {
                let path = path.child("replicatedJobs").index(i).child("template").child("spec");
                found.job_spec(job_spec, &path, gates);
            }
        }
    }
    found.into_result()
}

/// Replaces draft spellings in a pod.
pub fn normalize_pod_drafts(doc: &mut Value, _gates: &Gates) -> DraftResult {
    let mut found = DraftFindings::default();
    if let Some(spec) = spec_of(doc)
        && let Some(Value::Object(reference)) = spec.remove("workloadRef")
    {
        found.pod_reference(&reference, spec, &Path::new("spec"));
    }
    found.into_result()
}

/// Replaces draft spellings in a Workload. Refuses the form with the groups in the Workload.
pub fn normalize_workload_drafts(doc: &mut Value, _gates: &Gates) -> DraftResult {
    let mut found = DraftFindings::default();
    if let Some(spec) = spec_of(doc) {
        let path = Path::new("spec");
        if spec.contains_key("podGroups") {
            let remedy = "a Workload has templates of groups, not the groups: write podGroupTemplates, each with a \
                          schedulingPolicy, and create a PodGroup for each running group";
            found.errors.push(Error::forbidden(&path.child("podGroups"), remedy));
        }
        found.rename_draft_field(spec, &path, "podGroupTemplate", "podGroupTemplates");
    }
    found.into_result()
}

#[derive(Default)]
struct DraftFindings {
    warnings: Vec<String>,
    errors: ErrorList,
}

impl DraftFindings {
    fn into_result(self) -> DraftResult {
        if self.errors.is_empty() { Ok(self.warnings) } else { Err(self.errors) }
    }

    /// Renames a field to its current name.
    fn rename_draft_field(&mut self, object: &mut JsonObject, path: &Path, from: &str, to: &str) {
        match rename(object, path, from, to) {
            Ok(false) => {}
            Ok(true) => self.warnings.push(format!("{}: a name from a draft of the API; use {to}", path.child(from))),
            Err(error) => self.errors.push(error),
        }
    }

    /// The blocks of a Job, or of one of the levels of a JobSet.
    fn scheduling(&mut self, scheduling: &mut JsonObject, path: &Path) {
        for (from, to) in SCHEDULING {
            self.rename_draft_field(scheduling, path, from, to);
        }
        let topology_path = path.child("schedulingConstraints").child("topology");
        if let Some(constraints) = child(scheduling, "schedulingConstraints") {
            for (i, constraint) in items(constraints, "topology").enumerate() {
                self.rename_draft_field(constraint, &topology_path.index(i), "level", "key");
            }
        }
    }

    fn job_spec(&mut self, spec: &mut JsonObject, path: &Path, gates: &Gates) {
        if let Some(scheduling) = child(spec, "scheduling") {
            self.scheduling(scheduling, &path.child("scheduling"));
        }
        let pod_path = path.child("template").child("spec");
        let pod = child(spec, "template").and_then(|template| child(template, "spec"));
        if let Some(pod) = pod
            && let Some(Value::Object(reference)) = pod.remove("workloadRef")
        {
            if names_workload_only(&reference) {
                self.job_reference_in_pod(spec, reference, path, gates);
            } else {
                self.pod_reference(&reference, pod, &pod_path);
            }
        }
        if let Some(reference) = child(spec, "workloadRef") {
            self.job_reference(reference, &path.child("workloadRef"), gates);
        }
    }

    /// The examples in KEP-5547's first draft have the Job's reference in the pod template.
    fn job_reference_in_pod(&mut self, spec: &mut JsonObject, reference: JsonObject, path: &Path, gates: &Gates) {
        let (here, there) = (path.child("template").child("spec").child("workloadRef"), path.child("workloadRef"));
        if !gates.enabled(Gate::JobWorkloadRef) {
            self.warnings
                .push(format!("{here}: dropped, because the feature gate {} is off", Gate::JobWorkloadRef.name()));
            return;
        }
        match spec.get("workloadRef") {
            None => {
                self.warnings.push(format!("{here}: a reference of the Job; write {there}"));
                spec.insert("workloadRef".to_owned(), Value::Object(reference));
            }
            Some(known) if *known == Value::Object(reference.clone()) => {}
            Some(_) => {
                let detail = format!("must be the same as {there}");
                self.errors.push(Error::invalid(&here, Value::Object(reference), detail));
            }
        }
    }

    fn job_reference(&mut self, reference: &mut JsonObject, path: &Path, gates: &Gates) {
        if !gates.enabled(Gate::JobWorkloadRef) {
            let gate = Gate::JobWorkloadRef.name();
            self.warnings.push(format!(
                "{path}: dropped, because the feature gate {gate} is off; one that is stored stays, without effect"
            ));
            return;
        }
        if let Some(present) = current_api_version(text(reference, "apiVersion")) {
            self.warnings.push(format!("{}: a name from a draft of the API; use {present}", path.child("apiVersion")));
            reference.insert("apiVersion".to_owned(), json!(present));
        }
    }

    /// In KEP-5832's draft a pod names its group and its Workload. Now the group is enough.
    fn pod_reference(&mut self, reference: &JsonObject, pod: &mut JsonObject, path: &Path) {
        let (from, to) = (path.child("workloadRef"), path.child("schedulingGroup").child("podGroupName"));
        for field in ["podGroupReplicaKey", "podGroup"] {
            if reference.contains_key(field) {
                let remedy = format!(
                    "one PodGroup is one replica: create a PodGroup for each replica, and name it in {to} of its pods"
                );
                self.errors.push(Error::forbidden(&from.child(field), remedy));
            }
        }
        if !self.errors.is_empty() {
            return;
        }
        for field in ["name", "podGroupName"] {
            if text(reference, field).is_empty() {
                self.errors.push(Error::required(&from.child(field), format!("or write {to} instead of {from}")));
            }
        }
        let group = json!({"podGroupName": text(reference, "podGroupName")});
        match pod.get("schedulingGroup") {
            Some(known) if !known.is_null() && *known != group => {
                self.errors.push(Error::forbidden(&from, format!("may not be set together with another {to}")));
            }
            _ => {
                self.warnings.push(format!("{from}: a name from a draft of the API; use {to}"));
                pod.insert("schedulingGroup".to_owned(), group);
            }
        }
    }
}

/// Whether a reference in a pod template is the one of the Job.
fn names_workload_only(reference: &JsonObject) -> bool {
    !["podGroupName", "podGroup", "podGroupReplicaKey"].iter().any(|field| reference.contains_key(*field))
}
