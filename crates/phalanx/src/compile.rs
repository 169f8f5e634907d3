//! What a Job would get, without a server: the same code that the Job controller runs.

use api::gates::Gates;
use api::views::{JobView, View};
use controllers::job::scheduling::compiled;
use serde::Serialize;
use serde_json::Value;

use crate::cli::{self, CompileArgs};
use crate::manifest::{self, Manifest, Problem};
use crate::run;

/// Stands in for the uids that a server would assign.
const UID_UNKNOWN: &str = "00000000-0000-0000-0000-000000000000";

/// `phalanx compile`: returns the exit code.
pub fn command(args: &CompileArgs) -> u8 {
    match manifest::read_all(&args.files).and_then(|manifests| compile_all(&manifests)) {
        Ok(text) => {
            print!("{text}");
            cli::DONE
        }
        Err(problems) => cli::refuse(&problems),
    }
}

/// The objects of every Job in `manifests`, as YAML documents.
fn compile_all(manifests: &[Manifest]) -> Result<String, Vec<Problem>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| vec![manifests[0].problem("", &format!("cannot start: {error}"))])?;
    let stored = runtime.block_on(run::check(manifests, Gates::default()))?;
    let jobs: Vec<(&Manifest, Value)> =
        manifests.iter().zip(stored).filter(|(manifest, _)| manifest.document["kind"] == "Job").collect();
    if jobs.is_empty() {
        return Err(vec![manifests[0].problem("kind", "compile takes Jobs, and there is none")]);
    }
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for (manifest, job) in jobs {
        match compile(manifest, job) {
            Ok(document) => documents.push(document),
            Err(message) => problems.push(manifest.problem("spec.scheduling", &message)),
        }
    }
    if problems.is_empty() { Ok(documents.join("---\n")) } else { Err(problems) }
}

fn compile(manifest: &Manifest, mut job: Value) -> Result<String, String> {
    let uid = manifest.document["metadata"]["uid"].as_str().unwrap_or(UID_UNKNOWN);
    job["metadata"]["uid"] = uid.into();
    let job = JobView::decode(job.to_string().as_bytes()).map_err(|error| error.to_string())?;
    let Some((workload, pod_group)) = compiled(&job, UID_UNKNOWN).map_err(|error| error.to_string())? else {
        return Ok(format!("# {}: no objects; its pod template names a PodGroup of its own\n", manifest.title()));
    };
    let mut text = format!("# {}, as if the server had given it uid {uid}\n", manifest.title());
    text.push_str(&yaml(&workload)?);
    text.push_str("---\n");
    text.push_str(&yaml(&pod_group)?);
    Ok(text)
}

fn yaml(object: &impl Serialize) -> Result<String, String> {
    // By way of JSON, whose maps are sorted: apiVersion, kind, metadata, spec.
    let value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    serde_saphyr::to_string(&value).map_err(|error| error.to_string())
}
