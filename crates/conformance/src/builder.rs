//! What we compile, held against the real Kubernetes: `cargo xtask conformance builder`.
//!
//! Jobs: kube-controller-manager makes Workload and PodGroup of generated Jobs, and we compile the same stored Jobs; with
//! the same uids the names are the same, too. Trees: whatever the builder accepts, the real kube-apiserver accepts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ::kube::Client;
use anyhow::{Context, ensure};
use api::Random;
use api::views::{JobView, View};
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};
use supervisor::kubernetes::{self, ControlPlaneConfig, KubeControlPlane};
use workloadbuilder::field::Path;
use workloadbuilder::target::{BuildTarget, SchedulingVersion};
use workloadbuilder::{
    BuildOptions, Builder, BuiltGroup, DisruptionMode, PolicyKind, ResourceClaim, SchedulingConfig,
    SchedulingConstraints, SchedulingPolicy, WorkloadItem, names,
};

use crate::api_server::compare::{collect_differences, without_nulls};
use crate::api_server::requests::{ServerResponse, send};

/// Options of `cargo xtask conformance builder`.
#[derive(clap::Args)]
pub struct Args {
    /// What chooses Jobs and trees
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many Jobs are compared
    #[arg(long, default_value_t = 200)]
    pub jobs: usize,
    /// How many trees are generated
    #[arg(long, default_value_t = 600)]
    pub trees: usize,
}

const NAMESPACE: &str = "default";
const CLASS: &str = "builder-high";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// How long kube-controller-manager may take for all Jobs, a busy machine included.
const CREATE_TIMEOUT_SECONDS: u64 = 180;
const POLL: Duration = Duration::from_millis(200);
/// So many differences are told in full.
const MAX_REPORTED: usize = 5;

/// Compares, tells, and fails where there is a difference that is not wanted.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let plan = ControlPlaneConfig { controllers: true, ..ControlPlaneConfig::default() };
    if !kubernetes::ensure_programs(&plan.required_programs())? {
        return Ok(());
    }
    let control_plane = KubeControlPlane::start("builder", &plan)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = control_plane.client().await?;
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": CLASS},
            "value": 1000});
        create_object(&client, CLASSES, &class).await?;
        compare_jobs(&client, args).await?;
        check_trees(&client, args).await
    })
}

async fn create_object(client: &Client, path: &str, object: &Value) -> anyhow::Result<Value> {
    let ServerResponse { code, message, object: made, .. } =
        send(client, Method::POST, path, serde_json::to_vec(object)?).await?;
    made.with_context(|| format!("{path} was refused with {code}: {message}\n{object:#}"))
}

fn path_of(api_version: &str, plural: &str) -> String {
    format!("/apis/{api_version}/namespaces/{NAMESPACE}/{plural}")
}

/// Draws from the one generator of a run.
pub(super) struct CaseGenerator(Random);

impl CaseGenerator {
    pub(super) fn seeded(seed: u64) -> CaseGenerator {
        CaseGenerator(Random::seeded(seed))
    }

    pub(super) fn below(&self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).expect("less than a usize")
    }

    /// True once in `times`.
    pub(super) fn once_in(&self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn choose<'a, T>(&self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    fn number_between(&self, from: usize, to: usize) -> i32 {
        i32::try_from(from + self.below(to - from + 1)).expect("a small number")
    }
}

/// A root Job that the API accepts.
///
/// Upstream: names past 57 characters or with dots get no group there, and ours do; they are left out here.
fn job(draw: &CaseGenerator, number: usize) -> Value {
    let name = format!("{}{number}", ["j", "train-", "a-rather-long-name-of-a-job-with-many-words-"][draw.below(3)]);
    let parallelism = draw.number_between(1, 6);
    let mut spec = json!({
        "parallelism": parallelism,
        "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "registry.example/main:1"}],
        }},
    });
    if draw.once_in(2) {
        spec["completions"] = json!(parallelism);
        spec["completionMode"] = json!(draw.choose(&["Indexed", "NonIndexed"]));
    }
    if draw.once_in(3) {
        spec["template"]["spec"]["priorityClassName"] = json!(CLASS);
    }
    if !draw.once_in(5) {
        spec["scheduling"] = scheduling(draw, parallelism, &mut spec["template"]["spec"]);
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
}

fn scheduling(draw: &CaseGenerator, parallelism: i32, pod: &mut Value) -> Value {
    let mut blocks = Map::new();
    let is_gang = draw.once_in(2);
    if is_gang {
        let gang =
            if draw.once_in(2) { json!({}) } else { json!({"minCount": draw.number_between(1, parallelism as usize)}) };
        blocks.insert("schedulingPolicy".to_owned(), json!({ "gang": gang }));
    } else if draw.once_in(2) {
        blocks.insert("schedulingPolicy".to_owned(), json!({"basic": {}}));
    }
    if draw.once_in(2) {
        let key = draw.choose(&["topology.kubernetes.io/zone", "topology.kubernetes.io/rack", "rack"]);
        blocks.insert("schedulingConstraints".to_owned(), json!({"topology": [{"key": key}]}));
    }
    if draw.once_in(2) {
        let mode = if is_gang && draw.once_in(2) { "all" } else { "single" };
        blocks.insert("disruptionMode".to_owned(), json!({ mode: {} }));
    }
    if draw.once_in(4) {
        let claims: Vec<Value> = (0..draw.number_between(1, 3))
            .map(|at| {
                let field = draw.choose(&["resourceClaimName", "resourceClaimTemplateName"]);
                json!({"name": format!("claim-{at}"), *field: format!("shared-{at}")})
            })
            .collect();
        pod["resourceClaims"] = json!(claims);
        blocks.insert("resourceClaims".to_owned(), json!(claims));
    }
    Value::Object(blocks)
}

async fn compare_jobs(client: &Client, args: &Args) -> anyhow::Result<()> {
    let draw = CaseGenerator::seeded(args.seed);
    let mut jobs = Vec::new();
    for number in 0..args.jobs {
        jobs.push(create_object(client, &path_of("batch/v1", "jobs"), &job(&draw, number)).await?);
    }
    let (workloads, groups) = wait_for_objects(client, &jobs).await?;
    let mut differences = Vec::new();
    for job in &jobs {
        let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
        let (theirs, their_group) = (&workloads[uid], &groups[uid]);
        let view = JobView::decode(job.to_string().as_bytes())?;
        let workload_uid = theirs["metadata"]["uid"].as_str().unwrap_or_default();
        let (workload, group) = controllers::job::scheduling::compile_objects(&view, workload_uid)?
            .with_context(|| format!("we make nothing of {job:#}"))?;
        let workload = with_defaults(client, "workloads", serde_json::to_value(workload)?).await?;
        let group = with_defaults(client, "podgroups", serde_json::to_value(group)?).await?;
        differences.extend([(theirs, workload), (their_group, group)].iter().filter_map(|(theirs, ours)| {
            let (mut there, mut here) = (Vec::new(), Vec::new());
            collect_differences("", Some(&normalize(theirs)), Some(&normalize(ours)), &mut there, &mut here);
            let is_same = there.is_empty() && here.is_empty();
            let asked = &job["spec"]["scheduling"];
            (!is_same).then(|| format!("theirs: {}\nours:   {}\nasked:  {asked}", there.join("; "), here.join("; ")))
        }));
    }
    println!("{} Jobs, {} objects compared, {} differ", jobs.len(), 2 * jobs.len(), differences.len());
    let told: Vec<String> = differences.iter().take(MAX_REPORTED).cloned().collect();
    ensure!(differences.is_empty(), "kube-controller-manager makes other objects:\n{}", told.join("\n\n"));
    Ok(())
}

/// The object as the real server would keep it.
async fn with_defaults(client: &Client, plural: &str, mut object: Value) -> anyhow::Result<Value> {
    let path = format!("{}?dryRun=All", path_of(SchedulingVersion::V1beta1.api_version(), plural));
    // Its own name is taken: by the one it is compared with.
    let name = std::mem::replace(&mut object["metadata"]["name"], json!("ours"));
    let mut kept = create_object(client, &path, &object).await?;
    kept["metadata"]["name"] = name;
    Ok(kept)
}

/// Workloads and PodGroups by the uid of the Job that owns them, once every Job has one of each.
async fn wait_for_objects(
    client: &Client,
    jobs: &[Value],
) -> anyhow::Result<(BTreeMap<String, Value>, BTreeMap<String, Value>)> {
    let deadline = Instant::now() + Duration::from_secs(CREATE_TIMEOUT_SECONDS);
    loop {
        let workloads = by_owner(client, "workloads").await?;
        let groups = by_owner(client, "podgroups").await?;
        let has_both = |job: &&Value| {
            let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
            workloads.contains_key(uid) && groups.contains_key(uid)
        };
        let Some(without) = jobs.iter().find(|job| !has_both(job)) else { return Ok((workloads, groups)) };
        ensure!(
            Instant::now() < deadline,
            "kube-controller-manager made no Workload and PodGroup within {CREATE_TIMEOUT_SECONDS} s of {without:#}"
        );
        tokio::time::sleep(POLL).await;
    }
}

async fn by_owner(client: &Client, plural: &str) -> anyhow::Result<BTreeMap<String, Value>> {
    let path = path_of(SchedulingVersion::V1beta1.api_version(), plural);
    let list = send(client, Method::GET, &path, Vec::new()).await?.object.context("a list")?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let owner = |item: &Value| Some(item["metadata"]["ownerReferences"][0]["uid"].as_str()?.to_owned());
    Ok(items.into_iter().filter_map(|item| Some((owner(&item)?, item))).collect())
}

/// An object without what only a server or only we add: identity and times, what admission resolves, the mark by which we
/// know what we made, and the count that our scheduler reads (docs/decisions/0001).
fn normalize(object: &Value) -> Value {
    let mut metadata = object["metadata"].as_object().cloned().unwrap_or_default();
    let server_set = ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers"];
    metadata.retain(|name, _| !server_set.contains(&name.as_str()));
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("phalanx.dev/managed-by");
        annotations.remove("phalanx.dev/expected-count");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    let mut spec = object["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|name, _| !["priority", "preemptionPolicy"].contains(&name.as_str()));
    }
    without_nulls(json!({"metadata": metadata, "spec": spec}))
}

/// A tree of at most `depth` levels below this item. Most of it is right; here and there it is more than the API holds.
fn item(draw: &CaseGenerator, depth: usize, number: &mut usize) -> WorkloadItem {
    *number += 1;
    let wrong = || draw.once_in(40);
    let name = format!("{}-{number}", if wrong() { "not.a.label" } else { draw.choose(&["t", "workers", "rack"]) });
    let is_composite = depth > 0 && draw.once_in(2);
    let is_gang = draw.once_in(2);
    let policy = match draw.below(2) {
        _ if is_gang => Some(SchedulingPolicy::Gang {
            min_count: if wrong() { None } else { Some(if wrong() { 0 } else { draw.number_between(1, 3) }) },
        }),
        0 => None,
        _ => Some(SchedulingPolicy::Basic),
    };
    let key = || if wrong() { "not a key" } else { draw.choose(&["topology.kubernetes.io/zone", "rack"]) };
    let constraints = draw.once_in(3).then(|| SchedulingConstraints {
        topology: (0..if wrong() { 2 } else { 1 }).map(|_| key().to_owned()).collect(),
    });
    let claim = |at: usize| {
        let is_template = draw.once_in(2);
        ResourceClaim {
            name: format!("claim-{at}"),
            resource_claim_name: (!is_template || wrong()).then(|| "shared".to_owned()),
            resource_claim_template_name: is_template.then(|| "made".to_owned()),
        }
    };
    let claims = if is_composite && !wrong() { 0 } else { draw.below(if wrong() { 7 } else { 3 }) };
    let modes = if is_gang || wrong() { 3 } else { 2 };
    let default_config = SchedulingConfig {
        policy,
        constraints,
        disruption_mode: [None, Some(DisruptionMode::Single), Some(DisruptionMode::All)][draw.below(modes)],
        resource_claims: (0..claims).map(claim).collect(),
        priority_class_name: draw.once_in(3).then(|| CLASS.to_owned()),
    };
    let children =
        if is_composite { (0..=draw.below(2)).map(|_| item(draw, depth - 1, number)).collect() } else { Vec::new() };
    WorkloadItem { default_config, children, ..WorkloadItem::new(name, Path::new("spec")) }
}

async fn check_trees(client: &Client, args: &Args) -> anyhow::Result<()> {
    let draw = CaseGenerator::seeded(args.seed ^ 0x7ee5);
    let (mut built, mut objects, mut refused) = (0, 0, Vec::new());
    for tree in 0..args.trees {
        let Some(documents) = compile_tree(&draw, tree)? else { continue };
        built += 1;
        for (plural, document) in documents {
            objects += 1;
            let api_version = document["apiVersion"].as_str().unwrap_or_default();
            let path = format!("{}?dryRun=All", path_of(api_version, plural));
            let answer = send(client, Method::POST, &path, serde_json::to_vec(&document)?).await?;
            if !answer.is_accepted() {
                refused.push(format!("{}\n{document:#}", answer.message));
            }
        }
    }
    println!(
        "{} trees, {built} accepted by the builder, {objects} objects of them, {} refused",
        args.trees,
        refused.len()
    );
    ensure!(built * 4 >= args.trees, "hardly any tree was accepted: the generator shows nothing");
    let told: Vec<String> = refused.iter().take(MAX_REPORTED).cloned().collect();
    ensure!(refused.is_empty(), "kube-apiserver refuses what the builder made:\n{}", told.join("\n\n"));
    Ok(())
}

/// What the builder makes of a generated tree, by plural; `None` where it refuses the tree.
fn compile_tree(draw: &CaseGenerator, tree: usize) -> anyhow::Result<Option<Vec<(&'static str, Value)>>> {
    let (mut number, depth) = (0, draw.below(5));
    let items: Vec<WorkloadItem> = (0..=draw.below(2)).map(|_| item(draw, depth, &mut number)).collect();
    let version = *draw.choose(&[SchedulingVersion::V1beta1, SchedulingVersion::V1alpha3]);
    let owner = OwnerReference {
        api_version: "example.com/v1".to_owned(),
        kind: "Training".to_owned(),
        name: format!("tree-{tree}"),
        uid: "0b5e".to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let options = BuildOptions {
        name: names::workload_name(&owner.name, &owner.uid),
        namespace: NAMESPACE.to_owned(),
        owner: Some(owner),
        allowed_policies: vec![PolicyKind::Basic, PolicyKind::Gang],
        allowed_disruption_modes: vec![DisruptionMode::Single, DisruptionMode::All],
        target: BuildTarget { version, ..BuildTarget::default() },
        ..BuildOptions::default()
    };
    let builder = Builder::with_items(items, options.clone());
    if !builder.validate(None).is_empty() {
        return Ok(None);
    }
    let workload = builder.build_workload().context("what is valid can be built")?;
    let mut documents = vec![("workloads", version.to_document(&workload).context("every version has Workloads")?)];
    for group in Builder::from_workload(workload, options).build_groups()? {
        documents.push(match &group {
            BuiltGroup::Pods(group) => {
                ("podgroups", version.to_document(group).context("every version has PodGroups")?)
            }
            BuiltGroup::Composite(group) => {
                ("compositepodgroups", version.to_document(group).context("these versions have composites")?)
            }
        });
    }
    Ok(Some(documents))
}
