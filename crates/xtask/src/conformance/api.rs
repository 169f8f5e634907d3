//! The same questions to the real kube-apiserver and to ours: `cargo xtask conformance api`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::kube::Client;
use anyhow::{Context, bail, ensure};
use api::gates::Gates;
use api::{Clock, Random, Timestamp};
use apiserver::{Identity, Server};
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use runtime::TokioClock;
use serde_json::{Value, json};
use store::{Committer, Limits, Store};

use super::ask::Answer;
use super::cases::{AS_IT_IS, Case, cases, fields_count};
use super::compare::compare;
use super::expected::{self, Expected};
use super::kinds::{KINDS, Kind, NAMESPACE};
use super::report::{self, Asked, Row};
use super::tables::{self, Compared};
use super::{CASES, ask};
use crate::kube::{self, ControlPlane, Plan};

/// Options of `cargo xtask conformance api`.
#[derive(clap::Args)]
pub struct Args {
    /// What chooses the cases
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many cases; 0 for every one there is
    #[arg(long, default_value_t = CASES)]
    pub cases: usize,
    /// Only this kind (may be given several times)
    #[arg(long)]
    pub kind: Vec<String>,
    /// Where the differences go [default: target/conformance-api.txt]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Also write every differing case to this file, one JSON object a line
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// How many questions are under way at a time
    #[arg(long, default_value_t = 24)]
    pub clients: usize,
}

/// Admission of the real server that we do not have and do not want here: service accounts.
const WITHOUT_ADMISSION: [&str; 1] = ["ServiceAccount"];

/// Asks, tells, and fails where the servers differ in more than is allowed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let plan = Plan { without_admission: WITHOUT_ADMISSION.to_vec(), ..Plan::default() };
    if !kube::programs_are_there(&plan.programs())? {
        return Ok(());
    }
    let start = Instant::now();
    let root = crate::repository_root()?;
    let control_plane = ControlPlane::start("conformance", &plan)?;
    eprintln!("{:>5.1} s: kube-apiserver {} is up", start.elapsed().as_secs_f64(), kube::VERSION);
    let wanted = expected::read(&root)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let Told { rows, asked, tables } = runtime.block_on(both(args, &root, &control_plane, &wanted))?;
    drop(control_plane);
    let out = args.out.clone().unwrap_or_else(|| target_folder(&root).join("conformance-api.txt"));
    let table = report::table(&rows);
    let seconds = start.elapsed().as_secs_f64();
    let head = format!("seed {}, {} cases, {seconds:.1} s\n\n{table}", args.seed, asked.len());
    let wanted = report::wanted(&wanted, &asked);
    let text = format!("{head}\n{wanted}{}\n{}", report::differences(&asked), tables.text());
    std::fs::write(&out, text).with_context(|| out.display().to_string())?;
    if let Some(file) = &args.json {
        let lines: String = asked.iter().filter_map(report::as_json).map(|line| format!("{line}\n")).collect();
        std::fs::write(file, lines).with_context(|| file.display().to_string())?;
    }
    println!(
        "{head}tables: {} rows, {} differ\n\ndifferences: {}",
        tables.rows,
        tables.differences.len(),
        out.display()
    );
    let mut shortfalls = report::shortfalls(&rows);
    if !tables.differences.is_empty() {
        shortfalls.push(format!("{} of {} rows of tables differ, none may", tables.differences.len(), tables.rows));
    }
    ensure!(shortfalls.is_empty(), "the servers differ in more than is allowed:\n{}", shortfalls.join("\n"));
    Ok(())
}

/// Where this build's files lie, whoever chose the folder.
fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Both servers: the real one first.
struct Servers {
    theirs: Client,
    ours: Client,
}

/// What came of asking both.
struct Told<'a> {
    rows: Vec<Row>,
    asked: Vec<Asked<'a>>,
    tables: Compared,
}

async fn both<'a>(
    args: &Args,
    root: &Path,
    control_plane: &ControlPlane,
    wanted: &'a [Expected],
) -> anyhow::Result<Told<'a>> {
    let servers = Servers { theirs: control_plane.client().await?, ours: our_server()?.client(Identity::admin()) };
    prepare(&servers).await?;
    let is_asked =
        |kind: &Kind| args.kind.is_empty() || args.kind.iter().any(|name| name.eq_ignore_ascii_case(kind.kind));
    let kinds: Vec<&'static Kind> = KINDS.iter().filter(|kind| is_asked(kind)).collect();
    ensure!(!kinds.is_empty(), "--kind {}: no such kind is asked about", args.kind.join(" --kind "));
    let weights: usize = KINDS.iter().map(|kind| kind.weight).sum();
    let tables = tables::compare(root, &servers.theirs, &servers.ours, &kinds).await?;
    eprintln!("{} rows of tables, {} differ", tables.rows, tables.differences.len());
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for kind in kinds {
        let start = Instant::now();
        let count = (args.cases > 0).then(|| (args.cases * kind.weight).div_ceil(weights));
        let cases = cases(root, kind, args.seed, count)?;
        if !serves(&servers.theirs, kind).await? {
            bail!("the real server does not serve {}", kind.title());
        }
        if !serves(&servers.ours, kind).await? {
            corpus_is_accepted(&servers.theirs, &cases).await?;
            rows.push(Row::unasked(kind, cases.len(), "is not served by ours".to_owned()));
            continue;
        }
        let fields = fields_count(&cases);
        let under_way = if kind.alone { 1 } else { args.clients };
        let questions = stream::iter(cases.into_iter().map(|case| question(&servers, case, wanted)));
        let asked: Vec<Asked<'a>> = questions.buffered(under_way).try_collect().await?;
        eprintln!("{:>5.1} s: {} cases of {}", start.elapsed().as_secs_f64(), asked.len(), kind.title());
        rows.push(Row::of(kind, fields, &asked));
        all.extend(asked);
    }
    Ok(Told { rows, asked: all, tables })
}

/// Nothing is compared, but the corpus can still be held against the real server.
async fn corpus_is_accepted(theirs: &Client, cases: &[Case]) -> anyhow::Result<()> {
    for case in cases.iter().filter(|case| case.mutation.class == AS_IT_IS) {
        accepted_as_it_is(case, &ask::ask(theirs, case).await?)?;
    }
    Ok(())
}

fn accepted_as_it_is(case: &Case, theirs: &[Answer]) -> anyhow::Result<()> {
    let last = theirs.last().context("a case has a step")?;
    let (kind, name) = (case.kind.title(), case.base.name());
    ensure!(last.is_accepted(), "{kind} {name} of the corpus is refused: {}", last.message);
    Ok(())
}

async fn question<'a>(servers: &Servers, case: Case, wanted: &'a [Expected]) -> anyhow::Result<Asked<'a>> {
    let asking = futures::future::try_join(ask::ask(&servers.theirs, &case), ask::ask(&servers.ours, &case));
    let (theirs, ours) = asking.await.with_context(|| format!("{}: {:?}", case.name, case.mutation))?;
    if case.mutation.class == AS_IT_IS {
        accepted_as_it_is(&case, &theirs)?;
    }
    let difference = compare(&theirs, &ours);
    let expected = difference.as_ref().and_then(|difference| expected::find(wanted, &case, difference));
    Ok(Asked { case, theirs, ours, difference, expected })
}

/// Our server in this process, with nothing but memory.
fn our_server() -> anyhow::Result<Server> {
    let store = Store::in_memory(Limits::default());
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::now()));
    let committer = Committer::in_place(store.clone());
    let (random, gates) = (Random::seeded(1), Gates::default());
    Ok(Server::new(apiserver::Config { store, committer, clock, random, gates })?)
}

async fn serves(client: &Client, kind: &Kind) -> anyhow::Result<bool> {
    let answer = ask::send(client, Method::GET, &kind.root(), Vec::new()).await?;
    let resources = answer.object.as_ref().and_then(|object| object["resources"].as_array().cloned());
    Ok(resources.unwrap_or_default().iter().any(|resource| resource["name"] == kind.plural))
}

/// What the corpus takes for granted, on both servers.
async fn prepare(servers: &Servers) -> anyhow::Result<()> {
    let class = |name: &str, value: i32, policy: &str| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "preemptionPolicy": policy})
    };
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let probe = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-"},
        "spec": {"priorityClassName": "conformance-never", "containers": [{"name": "a", "image": "a"}]}});
    for client in [&servers.theirs, &servers.ours] {
        made(client, "/api/v1/namespaces", &namespace).await?;
        made(client, classes, &class("conformance-high", 1000, "PreemptLowerPriority")).await?;
        made(client, classes, &class("conformance-never", 500, "Never")).await?;
        // Admission reads classes from a cache that is a moment behind.
        made(client, &format!("/api/v1/namespaces/{NAMESPACE}/pods"), &probe).await?;
    }
    Ok(())
}

async fn made(client: &Client, path: &str, object: &Value) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = ask::send(client, Method::POST, path, object.to_string().into_bytes()).await?;
        if answer.is_accepted() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{path}: {} {}", answer.code, answer.message);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
