//! One gang on a laptop: an in-memory control plane, the manifests, live progress, a table, then exit.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::gates::Gates;
use api::{Clock, Random, Revision, Timestamp};
use controlplane::{Config, ControlPlane, World};
use nodes::cluster::Cluster;
use runtime::TokioClock;
use serde_json::Value;
use store::{Committer, Limits, Store};
use tokio::time::Instant;

use crate::apply;
use crate::cli::{self, Output, RunArgs};
use crate::gates;
use crate::manifest::{self, Manifest, Problem};
use crate::progress::{self, Ending, Seen, State, Work};
use crate::report::Report;
use crate::view::View;

/// Nodes without `--nodes` and `--cluster`.
pub const NODES_DEFAULT: u32 = 16;
/// How often progress is looked at and drawn.
const REDRAW: Duration = Duration::from_millis(100);

/// `phalanx run`: returns the exit code.
pub fn command(args: &RunArgs) -> u8 {
    let input = manifest::read_all(&args.files).and_then(|manifests| Ok((manifests, cluster(args)?)));
    let (manifests, cluster) = match input {
        Ok(input) => input,
        Err(problems) => return cli::refuse(&problems),
    };
    let gates = match gates::of(&args.feature_gates, &[]) {
        Ok(gates) => gates,
        Err(message) => {
            eprintln!("error: {message}");
            return cli::BAD_INPUT;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return cli::CANNOT_START;
        }
    };
    runtime.block_on(async {
        if let Err(problems) = check(&manifests, gates).await {
            return cli::refuse(&problems);
        }
        run(args, &manifests, Config { gates, ..Config::on(cluster) }).await
    })
}

/// A world of its own: real time, real randomness, objects in memory.
pub fn world() -> World {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::now()));
    let store = Store::in_memory(Limits::default());
    World { clock, random: Random::seeded(rand::random()), committer: Committer::in_place(store.clone()), store }
}

/// Has a server judge every manifest before anything runs: it keeps the objects and is thrown away.
pub async fn check(manifests: &[Manifest], gates: Gates) -> Result<Vec<Value>, Vec<Problem>> {
    let world = world();
    let server = controlplane::Server::new(apiserver::Config {
        store: world.store,
        committer: world.committer,
        clock: world.clock,
        random: world.random,
        gates,
    })
    .expect("memory has room");
    let admin = controlplane::Identity { user: "system:admin".to_owned(), groups: vec!["system:masters".to_owned()] };
    apply::create_all(&server.client(admin), manifests).await
}

fn cluster(args: &RunArgs) -> Result<Cluster, Vec<Problem>> {
    match &args.cluster {
        None => Ok(Cluster::default_of(args.nodes.unwrap_or(NODES_DEFAULT))),
        Some(file) => cluster_from(file),
    }
}

/// Reads a file of kind Cluster.
pub fn cluster_from(file: &Path) -> Result<Cluster, Vec<Problem>> {
    let problem = |message: String| vec![Problem { file: file.to_owned(), line: None, message }];
    let text = manifest::read_text(file).map_err(|problem| vec![problem])?;
    let documents = manifest::parse(file, &text).map_err(|problem| vec![problem])?;
    let [document] = documents.as_slice() else {
        return Err(problem(format!("one document of kind Cluster is wanted, {} are there", documents.len())));
    };
    Cluster::from_document(&document.document).map_err(|errors| {
        errors.iter().map(|error| document.problem(error.path.as_str(), &error.to_string())).collect()
    })
}

async fn run(args: &RunArgs, manifests: &[Manifest], config: Config) -> u8 {
    let started = Instant::now();
    let plane = match ControlPlane::start(world(), config).await {
        Ok(plane) => plane,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return cli::CANNOT_START;
        }
    };
    match apply::create_all(&plane.client(), manifests).await {
        Ok(created) => seen(&plane, &created).await,
        Err(problems) => return cli::refuse(&problems),
    }
    let outcome = follow(&plane, started + args.timeout).await;
    let nodes = plane.caches().nodes.all();
    let nodes = nodes.into_iter().map(|node| (node.metadata.name.clone(), node)).collect();
    let report = Report { works: &outcome.works, nodes, elapsed: started.elapsed() };
    match args.output {
        Some(Output::Json) => println!("{:#}", report.json(outcome.word())),
        None => println!("{}", report.table()),
    }
    eprintln!("{}", report.summary());
    for line in outcome.explanation(args.timeout) {
        eprintln!("{line}");
    }
    outcome.exit_code()
}

/// Waits until the caches show what was created, so that the first look misses nothing.
async fn seen(plane: &ControlPlane, created: &[Value]) {
    let last = |kind: &str| {
        let of_kind = created.iter().filter(|object| object["kind"] == kind);
        let versions = of_kind.filter_map(|object| object["metadata"]["resourceVersion"].as_str());
        versions.filter_map(Revision::parse).max().unwrap_or_default()
    };
    let caches = plane.caches();
    caches.jobs.reached(last("Job")).await;
    caches.pod_groups.reached(last("PodGroup")).await;
    caches.pods.reached(last("Pod")).await;
}

/// How it ended, and where everything stood then.
struct Outcome {
    works: Vec<Work>,
    /// `None`: time ran out.
    ending: Option<Ending>,
    /// A part of the control plane that died.
    broken: Option<String>,
}

/// Draws progress until there is an ending, time runs out, or a part dies.
async fn follow(plane: &ControlPlane, deadline: Instant) -> Outcome {
    let mut view = View::new();
    let (works, ending, broken) = loop {
        let works = look(plane);
        view.show(&works);
        let broken = plane.ended().map(str::to_owned);
        let ending = progress::ending(&works);
        if ending.is_some() || broken.is_some() || Instant::now() >= deadline {
            break (works, ending, broken);
        }
        tokio::time::sleep(REDRAW).await;
    };
    view.finish();
    Outcome { works, ending, broken }
}

fn look(plane: &ControlPlane) -> Vec<Work> {
    let caches = plane.caches();
    progress::survey(&Seen {
        jobs: caches.jobs.all(),
        pod_groups: caches.pod_groups.all(),
        pods: caches.pods.all(),
        waiting: plane.answers().waiting(),
    })
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self.ending {
            _ if self.broken.is_some() => "broken",
            Some(Ending::Settled) if self.exit_code() == cli::DONE => "done",
            Some(Ending::Settled) => "failed",
            Some(Ending::Hopeless) => "unplaceable",
            None => "timeout",
        }
    }

    fn exit_code(&self) -> u8 {
        let failed = self.works.iter().any(|work| work.state == State::Failed);
        match self.ending {
            _ if self.broken.is_some() => cli::CANNOT_START,
            Some(Ending::Settled) if !failed => cli::DONE,
            _ => cli::FAILED,
        }
    }

    /// Why it did not end well, a line for each piece of work concerned.
    fn explanation(&self, timeout: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(part) = &self.broken {
            lines.push(format!(
                "error: {part} ended by itself, which is a defect of Phalanx; PHALANX_LOG=debug says more"
            ));
        }
        if self.ending.is_none() && self.broken.is_none() {
            lines.push(format!("error: time ran out after {} s (--timeout)", timeout.as_secs()));
        }
        for work in self.works.iter().filter(|work| work.state != State::Done) {
            if let Some(refusal) = &work.refusal {
                let never = if self.ending == Some(Ending::Hopeless) { "cannot be placed: " } else { "" };
                lines.push(format!("{}: {never}{}", work.title, refusal.message()));
            }
            if let Some(failure) = &work.failure {
                lines.push(format!("{}: failed: {failure}", work.title));
            }
        }
        lines
    }
}
