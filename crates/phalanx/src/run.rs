//! `phalanx run`: manifests on an in-memory control plane, live progress, a table, then exit.

mod progress; // the state of all work
mod ended_jobs; // Jobs that ended and were deleted since
mod obstacles; // why work can never end
mod run_outcome; // the result of a run
mod warnings; // Warning Events of the objects of a run
mod progress_view; // draws progress on a terminal
pub mod report; // where each pod is, as table and JSON

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::gates::Gates;
use api::views::{JobView, NodeView, PodView, View as _, WorkloadView};
use api::{Clock, Random, Revision, Timestamp};
use controlplane::{Config, ControlPlane, ControlPlaneEnvironment};
use http::Method;
use nodes::cluster::Cluster;
use runtime::TokioClock;
use scheduler_core::RemedyStatus;
use serde_json::{Value, json};
use store::{Committer, HistoryLimits, Store};
use tokio::time::Instant;

use crate::cli::{self, RunArgs, RunOutputFormat};
use crate::client::api_request;
use crate::command_error::CommandError;
use crate::commands::apply;
use crate::config::Configuration;
use crate::gates;
use crate::manifest::{self, Manifest, Problem};
use crate::run::ended_jobs::EndedJobs;
use crate::run::obstacles::ClusterFacts;
use crate::run::progress::{ClusterSnapshot, TrackedWork};
use crate::run::progress_view::ProgressView;
use crate::run::report::RunReport;
use crate::run::run_outcome::RunOutcome;
use crate::run::warnings::WarningWatcher;

/// Nodes without `--nodes` and `--cluster`.
pub const DEFAULT_NODES: u32 = 16;
/// How often progress is computed and drawn.
const REDRAW: Duration = Duration::from_millis(100);
/// How long the command waits for the last Events.
const FINAL_EVENTS_TIMEOUT: Duration = Duration::from_millis(50);
/// For how many refusals without remedies the scheduler is queried, and how long that may take in total.
const MAX_REMEDIES: usize = 20;
const REMEDIES_TIMEOUT: Duration = Duration::from_secs(5);

/// `phalanx run`: returns the exit code.
pub fn command(args: &RunArgs) -> u8 {
    let input = manifest::read_all(&args.files).map_err(CommandError::from).and_then(|read| Ok((read, config(args)?)));
    let (manifests, config) = match input {
        Ok(input) => input,
        Err(failure) => return failure.report(),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return cli::EXIT_CANNOT_START;
        }
    };
    runtime.block_on(async {
        if let Err(problems) = validate_manifests(&manifests, config.gates).await {
            return cli::report_problems(&problems);
        }
        run(args, &manifests, config).await
    })
}

/// Options over file over defaults.
fn config(args: &RunArgs) -> Result<Config, CommandError> {
    let mut file = Configuration::read_or_default(args.config.as_deref())?;
    file.nodes.run_seconds = args.run_seconds.unwrap_or(file.nodes.run_seconds);
    let gates = gates::resolve(&args.feature_gates, &file.server.feature_gates).map_err(CommandError::usage)?;
    let chosen = resolve_cluster(args.cluster.as_deref(), args.nodes, &file)?;
    Ok(file.plane(gates, chosen.unwrap_or_else(|| Cluster::default_of(DEFAULT_NODES))))
}

/// Real time, real randomness, objects in memory.
pub fn in_memory_environment() -> ControlPlaneEnvironment {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::now()));
    let store = Store::in_memory(HistoryLimits::default());
    ControlPlaneEnvironment {
        clock,
        random: Random::seeded(rand::random()),
        committer: Committer::in_place(store.clone()),
        store,
    }
}

/// Creates every manifest on a temporary server before any work runs, to find all problems. Prints its warnings.
pub async fn validate_manifests(manifests: &[Manifest], gates: Gates) -> Result<Vec<Value>, Vec<Problem>> {
    let environment = in_memory_environment();
    let server = controlplane::ApiServer::new(apiserver::Config {
        store: environment.store,
        committer: environment.committer,
        clock: environment.clock,
        random: environment.random,
        gates,
    })
    .expect("a store in memory is never full");
    let admin = controlplane::Identity { user: "system:admin".to_owned(), groups: vec!["system:masters".to_owned()] };
    apply::create_all(&server.client(admin), manifests, |warning| eprintln!("warning: {warning}")).await
}

/// The nodes of `--cluster` or `--nodes`, else those of the configuration file; `None` if neither has any.
pub fn resolve_cluster(
    path: Option<&Path>,
    count: Option<u32>,
    configuration: &Configuration,
) -> Result<Option<Cluster>, Vec<Problem>> {
    let from_count = |count: u64| Cluster::default_of(u32::try_from(count).unwrap_or(u32::MAX));
    match (path, count, &configuration.nodes.cluster) {
        (Some(path), _, _) => cluster_from(path).map(Some),
        (None, Some(count), _) => Ok(Some(Cluster::default_of(count))),
        (None, None, Some(path)) => cluster_from(path).map(Some),
        (None, None, None) => Ok(configuration.nodes.count.map(from_count)),
    }
}

/// Reads a file of kind Cluster.
pub fn cluster_from(file: &Path) -> Result<Cluster, Vec<Problem>> {
    let problem = |message: String| vec![Problem { file: file.to_owned(), line: None, message }];
    let text = manifest::read_text(file).map_err(|problem| vec![problem])?;
    let documents = manifest::parse(file, &text).map_err(|problem| vec![problem])?;
    let [document] = documents.as_slice() else {
        return Err(problem(format!("must have one document of kind Cluster, has {}", documents.len())));
    };
    Cluster::from_document(&document.document).map_err(|errors| {
        errors.iter().map(|error| document.problem(error.path.as_str(), &error.to_string())).collect()
    })
}

async fn run(args: &RunArgs, manifests: &[Manifest], config: Config) -> u8 {
    let started = Instant::now();
    let pod_defaults = config.nodes.pod_defaults;
    let profiles = &config.scheduler.core.profiles;
    let scheduler_names = profiles.iter().map(|profile| profile.scheduler_name.clone()).collect();
    let plane = match ControlPlane::start(in_memory_environment(), config).await {
        Ok(plane) => plane,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return cli::EXIT_CANNOT_START;
        }
    };
    let ended_jobs = EndedJobs::follow(plane.caches());
    // The warnings were printed when the manifests were checked.
    match apply::create_all(&plane.client(), manifests, |_| {}).await {
        Ok(created) => wait_for_cache_sync(&plane, &created).await,
        Err(problems) => return cli::report_problems(&problems),
    }
    let facts = ClusterFacts {
        scheduler_names,
        priority_classes: priority_classes(&plane).await,
        refused_templates: refused_templates(&plane).await,
        pod_defaults,
    };
    let outcome = watch_until_ended(&plane, facts, ended_jobs, started + args.timeout).await;
    let nodes = plane.cache::<NodeView>().all();
    let nodes = nodes.into_iter().map(|node| (node.metadata.name.clone(), node)).collect();
    let report = RunReport { works: &outcome.works, nodes, elapsed: started.elapsed() };
    match args.output {
        Some(RunOutputFormat::Json) => println!("{:#}", report.json(outcome.as_str(), &outcome.warnings)),
        None if outcome.works.is_empty() => {}
        None => println!("{}", report.table()),
    }
    eprintln!("{}", report.summary());
    outcome.explanation(args.timeout).iter().for_each(|line| progress_view::print_message(line));
    outcome.exit_code()
}

/// Waits until the caches have the created objects, so that the first survey is complete.
async fn wait_for_cache_sync(plane: &ControlPlane, created: &[Value]) {
    for resource in api::kinds::ALL {
        let of_kind = created.iter().filter(|object| object["kind"] == resource.kind);
        let versions = of_kind.filter_map(|object| object["metadata"]["resourceVersion"].as_str());
        if let Some(newest) = versions.filter_map(Revision::parse).max() {
            plane.caches().wait_for_revision(resource, newest).await;
        }
    }
}

/// All PriorityClasses. The manifests are applied, and no other client can add one.
async fn priority_classes(plane: &ControlPlane) -> BTreeSet<String> {
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let classes = api_request::list(&plane.client(), path, &[], api_request::METADATA).await.unwrap_or_default();
    api_request::items(&classes["items"]).map(|class| api_request::text(&class["metadata"]["name"])).collect()
}

/// Why the server refuses the pods of Jobs, by the uid of the Job, found with a dry run. The reason stays valid, because
/// all manifests are applied.
async fn refused_templates(plane: &ControlPlane) -> BTreeMap<String, String> {
    let (client, mut dry_runs, mut refused) = (plane.client(), BTreeMap::new(), BTreeMap::new());
    for job in plane.cache::<JobView>().all() {
        let Some(raw) = &job.spec.template.raw else { continue };
        let template: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let namespace = job.metadata.namespace.as_str();
        // The response depends on nothing else, and many Jobs may be equal.
        let pod_spec = (namespace.to_owned(), template["spec"].to_string());
        if !dry_runs.contains_key(&pod_spec) {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}, "spec": template["spec"],
            });
            let path = format!("{}?dryRun=All", PodView::RESOURCE.collection_path(namespace));
            let (response, _) =
                api_request::write_with_warnings(&client, Method::POST, &path, api_request::JSON, &pod).await;
            let reason = match response {
                Err(kube::Error::Api(status)) if status.code == 403 => Some(status.message.clone()),
                _ => None,
            };
            dry_runs.insert(pod_spec.clone(), reason);
        }
        if let Some(Some(message)) = dry_runs.get(&pod_spec) {
            let reason = message.split_once(" is forbidden: ").map_or(message.as_str(), |(_, reason)| reason);
            refused.insert(job.metadata.uid.clone(), reason.to_owned());
        }
    }
    refused
}

/// Draws progress until all work has ended or is stuck, the time is over, or a task of the control plane fails.
async fn watch_until_ended(
    plane: &ControlPlane,
    facts: ClusterFacts,
    mut ended_jobs: EndedJobs,
    deadline: Instant,
) -> RunOutcome {
    let client = plane.client();
    let (mut view, mut warnings) = (ProgressView::new(), WarningWatcher::new(&client));
    let mut events = Vec::new();
    let (ending, failed_task) = loop {
        let works = survey_caches(plane, &facts, &mut ended_jobs);
        warnings.report(&events, &works).iter().for_each(|line| view.print_line(&format!("warning: {line}")));
        view.show(&works);
        let failed_task = plane.ended_task().map(str::to_owned);
        let ending = progress::ending(&works);
        if ending.is_some() || failed_task.is_some() || Instant::now() >= deadline {
            break (ending, failed_task);
        }
        events = warnings.until(Instant::now() + REDRAW).await;
    };
    events = warnings.until(Instant::now() + FINAL_EVENTS_TIMEOUT).await;
    let mut works = survey_caches(plane, &facts, &mut ended_jobs);
    let ending = progress::ending(&works).or(ending);
    warnings.report(&events, &works).iter().for_each(|line| view.print_line(&format!("warning: {line}")));
    view.show(&works);
    view.finish();
    // Without a response in time the refusals are printed without remedies.
    _ = tokio::time::timeout(REMEDIES_TIMEOUT, add_remedies(plane, &mut works)).await;
    RunOutcome { works, ending, failed_component: failed_task, warnings: warnings.into_log() }
}

/// Gets remedies from the scheduler for refusals that have none yet.
async fn add_remedies(plane: &ControlPlane, works: &mut [TrackedWork]) {
    let has_none = |work: &&mut TrackedWork| {
        let refusal = work.refusal.as_ref().filter(|_| work.obstacle.is_none());
        refusal.is_some_and(|refusal| !matches!(refusal.remedies, RemedyStatus::Found(_)))
    };
    for work in works.iter_mut().filter(has_none).take(MAX_REMEDIES) {
        let Some(unit) = work.refusal.as_ref().map(|refusal| refusal.unit.clone()) else { continue };
        let placed = work.pods.iter().filter(|pod| pod.node_name().is_some()).cloned().collect();
        let Ok(Some(explained)) = plane.scheduler().explain(unit, placed).await else { return };
        work.refusal = explained.refusal.or(work.refusal.take());
    }
}

fn survey_caches(plane: &ControlPlane, facts: &ClusterFacts, ended_jobs: &mut EndedJobs) -> Vec<TrackedWork> {
    let caches = plane.caches();
    let workloads = caches.get::<WorkloadView>().all();
    let mut snapshot = ClusterSnapshot {
        now: Timestamp::now(),
        workloads: workloads.iter().map(|workload| (workload.metadata.key(), workload.metadata.uid.clone())).collect(),
        cron_jobs: caches.get().all(),
        jobs: caches.get().all(),
        pod_groups: caches.get().all(),
        pods: caches.get().all(),
        waiting: plane.scheduler().refusals(),
        facts: facts.clone(),
    };
    ended_jobs.add_to(&mut snapshot);
    progress::survey(&snapshot)
}
