//! Compares the responses of kube-apiserver and of our server to the same requests: `cargo xtask conformance api`.

pub mod cases; // the requests
pub mod compare; // compares two responses
pub mod corpus; // valid objects
pub mod document_path; // paths in a document
pub mod expected_differences; // differences that do not count
pub mod kinds; // the compared kinds
mod mutate; // changes of a document
mod report; // the results
pub mod requests; // one server's response
mod tables; // objects as rows of a table

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::kube::Client;
use anyhow::{Context, bail, ensure};
use api::gates::Gates;
use api::{Clock, Random, Timestamp};
use apiserver::{ApiServer, Identity};
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use runtime::TokioClock;
use serde_json::{Value, json};
use store::{Committer, HistoryLimits, Store};
use supervisor::kubernetes::{self, ControlPlaneConfig, KubeControlPlane};

use self::cases::{ApiCase, UNCHANGED, cases, fields_count};
use self::compare::compare;
use self::expected_differences::ExpectedDifference;
use self::kinds::{ComparedKind, NAMESPACE};
use self::report::{ComparedCase, KindSummary};
use self::requests::ServerResponse;
use self::tables::TableComparison;

/// Options of `cargo xtask conformance api`.
#[derive(clap::Args)]
pub struct Args {
    /// The seed that selects the cases
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many cases; 0 for all of them
    #[arg(long, default_value_t = CASES)]
    pub cases: usize,
    /// Only this kind (may be given several times)
    #[arg(long)]
    pub kind: Vec<String>,
    /// The file of the differences [default: target/conformance-api.txt]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Also write every differing case to this file, one JSON object per line
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// How many requests are in flight
    #[arg(long, default_value_t = 24)]
    pub clients: usize,
}

/// The default number of cases.
pub const CASES: usize = 6000;

/// Admission of the real server that we do not have: service accounts, the finalizer that the volume controllers remove,
/// and the check of StorageClasses when a claim grows.
const WITHOUT_ADMISSION: [&str; 3] = ["ServiceAccount", "StorageObjectInUseProtection", "PersistentVolumeClaimResize"];

/// Compares the servers, prints a report, and fails if they differ in more than is allowed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let plan = ControlPlaneConfig { disabled_admission: WITHOUT_ADMISSION.to_vec(), ..ControlPlaneConfig::default() };
    if !kubernetes::ensure_programs(&plan.required_programs())? {
        return Ok(());
    }
    let start = Instant::now();
    let root = supervisor::repository_root()?;
    let control_plane = KubeControlPlane::start("conformance", &plan)?;
    eprintln!("{:>5.1} s: kube-apiserver {} is up", start.elapsed().as_secs_f64(), kubernetes::VERSION);
    let expected = expected_differences::read(&root)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ApiComparison { summaries: rows, cases: compared, tables } =
        runtime.block_on(compare_servers(args, &root, &control_plane, &expected))?;
    drop(control_plane);
    let out = args.out.clone().unwrap_or_else(|| target_folder(&root).join("conformance-api.txt"));
    let table = report::table(&rows);
    let seconds = start.elapsed().as_secs_f64();
    let head = format!("seed {}, {} cases, {seconds:.1} s\n\n{table}", args.seed, compared.len());
    let expected = report::expected_counts(&expected, &compared);
    let text = format!("{head}\n{expected}{}\n{}", report::differences(&compared), tables.text());
    std::fs::write(&out, text).with_context(|| out.display().to_string())?;
    if let Some(file) = &args.json {
        let lines: String = compared.iter().filter_map(report::as_json).map(|line| format!("{line}\n")).collect();
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

/// The target folder of this build.
fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Both servers: kube-apiserver first.
struct Servers {
    theirs: Client,
    ours: Client,
}

/// The results of the comparison.
struct ApiComparison<'a> {
    summaries: Vec<KindSummary>,
    cases: Vec<ComparedCase<'a>>,
    tables: TableComparison,
}

async fn compare_servers<'a>(
    args: &Args,
    root: &Path,
    control_plane: &KubeControlPlane,
    expected: &'a [ExpectedDifference],
) -> anyhow::Result<ApiComparison<'a>> {
    let servers = Servers { theirs: control_plane.client().await?, ours: our_server()?.client(Identity::admin()) };
    prepare(&servers).await?;
    let is_selected =
        |kind: &ComparedKind| args.kind.is_empty() || args.kind.iter().any(|name| name.eq_ignore_ascii_case(kind.kind));
    let all_kinds = kinds::read(root)?;
    let weights: usize = all_kinds.iter().map(|kind| kind.weight).sum();
    let kinds: Vec<ComparedKind> = all_kinds.into_iter().filter(is_selected).collect();
    ensure!(!kinds.is_empty(), "--kind {}: no such kind is compared", args.kind.join(" --kind "));
    let tables = tables::compare(root, &servers.theirs, &servers.ours, &kinds).await?;
    eprintln!("{} rows of tables, {} differ", tables.rows, tables.differences.len());
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for kind in kinds {
        let start = Instant::now();
        let count = (args.cases > 0).then(|| (args.cases * kind.weight).div_ceil(weights));
        let cases = cases(root, kind, args.seed, count)?;
        if !serves(&servers.theirs, &kind).await? {
            bail!("kube-apiserver does not serve {}", kind.title());
        }
        if !serves(&servers.ours, &kind).await? {
            check_corpus(&servers.theirs, &cases).await?;
            rows.push(KindSummary::skipped(kind, cases.len(), "is not served by ours".to_owned()));
            continue;
        }
        let fields = fields_count(&cases);
        let in_flight = if kind.sequential { 1 } else { args.clients };
        let comparisons = stream::iter(cases.into_iter().map(|case| compare_case(&servers, case, expected)));
        let compared: Vec<ComparedCase<'a>> = comparisons.buffered(in_flight).try_collect().await?;
        eprintln!("{:>5.1} s: {} cases of {}", start.elapsed().as_secs_f64(), compared.len(), kind.title());
        rows.push(KindSummary::summarize(kind, fields, &compared));
        all.extend(compared);
    }
    Ok(ApiComparison { summaries: rows, cases: all, tables })
}

/// Nothing is compared, but the corpus is checked with kube-apiserver.
async fn check_corpus(theirs: &Client, cases: &[ApiCase]) -> anyhow::Result<()> {
    for case in cases.iter().filter(|case| case.mutation.class == UNCHANGED) {
        check_accepted(case, &requests::run_case(theirs, case).await?)?;
    }
    Ok(())
}

fn check_accepted(case: &ApiCase, theirs: &[ServerResponse]) -> anyhow::Result<()> {
    let last = theirs.last().context("a case has a step")?;
    let (kind, name) = (case.kind.title(), case.base.name());
    ensure!(last.is_accepted(), "{kind} {name} of the corpus is refused: {}", last.message);
    Ok(())
}

async fn compare_case<'a>(
    servers: &Servers,
    case: ApiCase,
    expected: &'a [ExpectedDifference],
) -> anyhow::Result<ComparedCase<'a>> {
    let responses =
        futures::future::try_join(requests::run_case(&servers.theirs, &case), requests::run_case(&servers.ours, &case));
    let (theirs, ours) = responses.await.with_context(|| format!("{}: {:?}", case.name, case.mutation))?;
    if case.mutation.class == UNCHANGED {
        check_accepted(&case, &theirs)?;
    }
    let difference = compare(&theirs, &ours);
    let expected = difference.as_ref().and_then(|difference| expected_differences::find(expected, &case, difference));
    Ok(ComparedCase { case, theirs, ours, difference, expected })
}

/// Our server in this process, with a store in memory.
fn our_server() -> anyhow::Result<ApiServer> {
    let store = Store::in_memory(HistoryLimits::default());
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::now()));
    let committer = Committer::in_place(store.clone());
    let (random, gates) = (Random::seeded(1), Gates::default());
    Ok(ApiServer::new(apiserver::Config { store, committer, clock, random, gates })?)
}

async fn serves(client: &Client, kind: &ComparedKind) -> anyhow::Result<bool> {
    let response = requests::send(client, Method::GET, &kind.root(), Vec::new()).await?;
    let resources = response.object.as_ref().and_then(|object| object["resources"].as_array().cloned());
    Ok(resources.unwrap_or_default().iter().any(|resource| resource["name"] == kind.plural))
}

/// Creates the objects that the corpus refers to, on both servers.
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
        create_object(client, "/api/v1/namespaces", &namespace).await?;
        create_object(client, classes, &class("conformance-high", 1000, "PreemptLowerPriority")).await?;
        create_object(client, classes, &class("conformance-never", 500, "Never")).await?;
        // Admission reads classes from a cache that is slightly behind.
        create_object(client, &format!("/api/v1/namespaces/{NAMESPACE}/pods"), &probe).await?;
    }
    Ok(())
}

async fn create_object(client: &Client, path: &str, object: &Value) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let response = requests::send(client, Method::POST, path, object.to_string().into_bytes()).await?;
        if response.is_accepted() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{path}: {} {}", response.code, response.message);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
