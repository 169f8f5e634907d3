//! `phalanx compile`: the scheduling objects of a Job, CronJob or JobSet, without a server. It runs the code of the
//! controllers and notes the rule behind each field.

mod notes; // the rule behind each field
mod annotate; // adds the notes to the lines of the YAML

use std::collections::BTreeSet;

use api::Timestamp;
use api::batch::scheduling::{JobIntent, item_for_job};
use api::conversion::normalize_drafts;
use api::gates::Gates;
use api::job_set::{self, JobSet};
use api::metadata::names;
use api::views::{CronJobView, JobView, View};
use controllers::cronjob::template;
use controllers::job::ChildOwners;
use controllers::job::scheduling::{compile_objects, no_objects_reason};
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Serialize;
use serde_json::{Value, json};
use workloadbuilder::groups::workload_owner;
use workloadbuilder::target::SchedulingVersion;
use workloadbuilder::{BuildOptions, Builder, BuiltGroup, WorkloadItem};

use crate::cli::{self, CompileArgs};
use crate::manifest::{self, Manifest, Problem};
use crate::run;
use notes::CompileOrigin;

/// Used instead of the uid that a server would assign.
const PLACEHOLDER_UID: &str = "00000000-0000-0000-0000-000000000000";
/// Used instead of the time of the schedule for which a CronJob creates a Job.
const PLACEHOLDER_TIME: Timestamp = Timestamp::UNIX_EPOCH;

/// `phalanx compile`: returns the exit code.
pub fn command(args: &CompileArgs) -> u8 {
    match manifest::read_all(&args.files).and_then(|manifests| compile_all(&manifests)) {
        Ok((text, warnings)) => {
            for warning in warnings {
                eprintln!("warning: {warning}");
            }
            print!("{text}");
            cli::EXIT_DONE
        }
        Err(problems) => cli::report_problems(&problems),
    }
}

/// The objects of every workload in `manifests` as YAML documents, and warnings about old spellings.
fn compile_all(manifests: &[Manifest]) -> Result<(String, Vec<String>), Vec<Problem>> {
    // The embedded server has no JobSets; it validates all other kinds.
    let (job_sets, others): (Vec<&Manifest>, Vec<&Manifest>) =
        manifests.iter().partition(|manifest| manifest.document["kind"] == "JobSet");
    let others: Vec<Manifest> = others.into_iter().cloned().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| vec![manifests[0].problem("", &format!("cannot start: {error}"))])?;
    // The target cluster has the namespaces of the objects, so missing ones are created here.
    let namespaces = missing_namespaces(&others);
    let checked: Vec<Manifest> = namespaces.iter().chain(&others).cloned().collect();
    let mut stored = runtime.block_on(run::validate_manifests(&checked, Gates::default()))?;
    let stored = stored.split_off(namespaces.len());
    let (mut documents, mut problems, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    let mut gather = |manifest: &Manifest, result: Result<String, Vec<Problem>>| match result {
        Ok(text) => documents.push(format!("# {}{text}", manifest.title())),
        Err(found) => problems.extend(found),
    };
    for (manifest, document) in others.iter().zip(stored) {
        match manifest.document["kind"].as_str() {
            Some("Job") => gather(manifest, job(manifest, document)),
            Some("CronJob") => gather(manifest, cron_job(manifest, document)),
            _ => {}
        }
    }
    for manifest in job_sets {
        gather(manifest, job_set(manifest, &mut warnings));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    if documents.is_empty() {
        let message = "no Job, CronJob or JobSet to compile";
        return Err(vec![manifests[0].problem("kind", message)]);
    }
    Ok((documents.join("---\n"), warnings))
}

/// The namespaces of objects that neither a manifest nor a new server has.
fn missing_namespaces(manifests: &[Manifest]) -> Vec<Manifest> {
    let created = manifests.iter().filter(|manifest| manifest.document["kind"] == "Namespace");
    let created: BTreeSet<&str> =
        created.filter_map(|manifest| manifest.document["metadata"]["name"].as_str()).collect();
    let named = manifests.iter().filter_map(|manifest| manifest.document["metadata"]["namespace"].as_str());
    let missing: BTreeSet<&str> = named.filter(|name| !created.contains(name) && !is_default_namespace(name)).collect();
    let namespace = |name: &str| {
        let document = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        Manifest::from_document(document)
    };
    missing.into_iter().map(namespace).collect()
}

/// Whether a new server has the namespace, or would refuse its name (which is then reported at the object).
fn is_default_namespace(name: &str) -> bool {
    ["default", "kube-node-lease", "kube-public", "kube-system"].contains(&name) || !names::dns_label(name).is_empty()
}

/// The uid for the names of the objects.
fn uid_of(manifest: &Manifest) -> &str {
    manifest.document["metadata"]["uid"].as_str().unwrap_or(PLACEHOLDER_UID)
}

fn job(manifest: &Manifest, mut job: Value) -> Result<String, Vec<Problem>> {
    let uid = uid_of(manifest);
    job["metadata"]["uid"] = uid.into();
    let introduction = format!(", as if the server had given it uid {uid}");
    objects_of_job(&job, &introduction, CompileOrigin::job)
        .map_err(|message| vec![manifest.problem("spec.scheduling", &message)])
}

fn cron_job(manifest: &Manifest, document: Value) -> Result<String, Vec<Problem>> {
    let problem = |message: String| vec![manifest.problem("spec.jobTemplate.spec.scheduling", &message)];
    let cron_job = CronJobView::decode(document.to_string().as_bytes()).map_err(|error| problem(error.to_string()))?;
    let mut job = template::job(&cron_job, PLACEHOLDER_TIME, &TimeZone::UTC);
    job["metadata"]["uid"] = PLACEHOLDER_UID.into();
    let name = template::job_name(&cron_job.metadata, PLACEHOLDER_TIME);
    let introduction = format!(": each of its Jobs, as if {name} with uid {PLACEHOLDER_UID} were one");
    objects_of_job(&job, &introduction, CompileOrigin::job_of_cron_job).map_err(problem)
}

/// The Workload and PodGroup of a stored Job, or why there are none.
fn objects_of_job(
    job: &Value,
    introduction: &str,
    origin: fn(WorkloadItem) -> CompileOrigin,
) -> Result<String, String> {
    let job = JobView::decode(job.to_string().as_bytes()).map_err(|error| error.to_string())?;
    let Some((workload, group)) = compile_objects(&job, PLACEHOLDER_UID).map_err(|error| error.to_string())? else {
        let reason = no_objects_reason(&job, &Gates::default(), &ChildOwners::default()).unwrap_or_default();
        return Ok(format!(": no objects; {reason}\n"));
    };
    let origin = origin(item_for_job(JobIntent::from(&job).with_gates(&Gates::default())));
    let objects = [yaml(&workload, &origin)?, yaml(&group, &origin)?];
    Ok(format!("{introduction}\n{}", objects.join("---\n")))
}

/// All objects of a JobSet: the Workload, then the groups in the order in which they are created.
fn job_set(manifest: &Manifest, warnings: &mut Vec<String>) -> Result<String, Vec<Problem>> {
    let problem = |path: &str, message: String| manifest.problem(path, &message);
    let mut document = manifest.document.clone();
    if document["apiVersion"] != job_set::API_VERSION {
        let message = format!("apiVersion: compile supports JobSets of {}", job_set::API_VERSION);
        return Err(vec![problem("apiVersion", message)]);
    }
    let normalized = normalize_drafts("jobset.x-k8s.io", "JobSet", &mut document, &Gates::default());
    let fields = |errors: api::field::ErrorList| -> Vec<Problem> {
        errors.iter().map(|error| problem(error.path.as_str(), error.to_string())).collect()
    };
    warnings.extend(normalized.map_err(fields)?);
    let metadata = &mut document["metadata"];
    if metadata["name"].as_str().unwrap_or_default().is_empty() {
        return Err(vec![problem("metadata", "metadata.name: Required value".to_owned())]);
    }
    if metadata["namespace"].is_null() {
        metadata["namespace"] = "default".into();
    }
    let unknown = job_set::unknown_fields(&document);
    if !unknown.is_empty() {
        return Err(fields(unknown));
    }
    let job_set: JobSet = serde_json::from_value(document).map_err(|error| vec![problem("spec", error.to_string())])?;
    let errors = job_set.validate();
    if !errors.is_empty() {
        return Err(fields(errors));
    }
    let uid = uid_of(manifest);
    let text = objects_of_job_set(&job_set, uid).map_err(|message| vec![problem("spec.scheduling", message)])?;
    Ok(format!(", as if the server had given it uid {uid}\n{text}"))
}

fn objects_of_job_set(job_set: &JobSet, uid: &str) -> Result<String, String> {
    let owner = OwnerReference {
        api_version: job_set::API_VERSION.to_owned(),
        kind: "JobSet".to_owned(),
        name: job_set.metadata.name.clone().unwrap_or_default(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let workload = job_set.builder(owner.clone()).build_workload().map_err(|error| error.to_string())?;
    let mut stored = workload.clone();
    stored.metadata.uid = Some(PLACEHOLDER_UID.to_owned());
    let group_owners = vec![workload_owner(&stored, SchedulingVersion::default())];
    let options = BuildOptions { owner: Some(owner), group_owners, ..BuildOptions::default() };
    let groups = Builder::from_workload(stored, options).build_groups().map_err(|error| error.to_string())?;

    let origin = CompileOrigin::job_set(job_set.item());
    let mut objects = vec![yaml(&workload, &origin)?];
    for group in &groups {
        objects.push(match group {
            BuiltGroup::Composite(group) => yaml(group, &origin)?,
            BuiltGroup::Pods(group) => yaml(group, &origin)?,
        });
    }
    Ok(objects.join("---\n"))
}

fn yaml(object: &impl Serialize, origin: &CompileOrigin) -> Result<String, String> {
    // Through JSON, whose maps are sorted: apiVersion, kind, metadata, spec.
    let value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    let text = serde_saphyr::to_string(&value).map_err(|error| error.to_string())?;
    Ok(annotate::annotate(&text, &origin.notes(&value)))
}

#[cfg(test)]
mod tests;
