//! Compares compiled scheduling objects with Kubernetes: `cargo xtask conformance builder`.
//!
//! Jobs: kube-controller-manager creates Workload and PodGroup for generated Jobs, and we compile the same stored Jobs.
//! With the same uids the names are the same, too. Trees: kube-apiserver accepts everything that the builder accepts.

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
    /// The seed of Jobs and trees
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
/// How long kube-controller-manager may take for all Jobs, also on a busy machine.
const CREATE_TIMEOUT_SECONDS: u64 = 180;
const POLL: Duration = Duration::from_millis(200);
/// The maximum number of reported differences.
const MAX_REPORTED: usize = 5;

/// Compares, prints a report, and fails on any difference.
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

/// The random generator of a run.
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
/// Upstream: Jobs whose names have more than 57 characters or dots get no group. Ours do, so they are not generated
/// here.
fn job(generator: &CaseGenerator, number: usize) -> Value {
    let name =
        format!("{}{number}", ["j", "train-", "a-rather-long-name-of-a-job-with-many-words-"][generator.below(3)]);
    let parallelism = generator.number_between(1, 6);
    let mut spec = json!({
        "parallelism": parallelism,
        "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "registry.example/main:1"}],
        }},
    });
    if generator.once_in(2) {
        spec["completions"] = json!(parallelism);
        spec["completionMode"] = json!(generator.choose(&["Indexed", "NonIndexed"]));
    }
    if generator.once_in(3) {
        spec["template"]["spec"]["priorityClassName"] = json!(CLASS);
    }
    if !generator.once_in(5) {
        spec["scheduling"] = scheduling(generator, parallelism, &mut spec["template"]["spec"]);
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
}

fn scheduling(generator: &CaseGenerator, parallelism: i32, pod: &mut Value) -> Value {
    let mut blocks = Map::new();
    let is_gang = generator.once_in(2);
    if is_gang {
        let gang = if generator.once_in(2) {
            json!({})
        } else {
            json!({"minCount": generator.number_between(1, parallelism as usize)})
        };
        blocks.insert("schedulingPolicy".to_owned(), json!({ "gang": gang }));
    } else if generator.once_in(2) {
        blocks.insert("schedulingPolicy".to_owned(), json!({"basic": {}}));
    }
    if generator.once_in(2) {
        let key = generator.choose(&["topology.kubernetes.io/zone", "topology.kubernetes.io/rack", "rack"]);
        blocks.insert("schedulingConstraints".to_owned(), json!({"topology": [{"key": key}]}));
    }
    if generator.once_in(2) {
        let mode = if is_gang && generator.once_in(2) { "all" } else { "single" };
        blocks.insert("disruptionMode".to_owned(), json!({ mode: {} }));
    }
    if generator.once_in(4) {
        let claims: Vec<Value> = (0..generator.number_between(1, 3))
            .map(|at| {
                let field = generator.choose(&["resourceClaimName", "resourceClaimTemplateName"]);
                json!({"name": format!("claim-{at}"), *field: format!("shared-{at}")})
            })
            .collect();
        pod["resourceClaims"] = json!(claims);
        blocks.insert("resourceClaims".to_owned(), json!(claims));
    }
    Value::Object(blocks)
}

async fn compare_jobs(client: &Client, args: &Args) -> anyhow::Result<()> {
    let generator = CaseGenerator::seeded(args.seed);
    let mut jobs = Vec::new();
    for number in 0..args.jobs {
        jobs.push(create_object(client, &path_of("batch/v1", "jobs"), &job(&generator, number)).await?);
    }
    let (workloads, groups) = wait_for_objects(client, &jobs).await?;
    let mut differences = Vec::new();
    for job in &jobs {
        let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
        let (theirs, their_group) = (&workloads[uid], &groups[uid]);
        let view = JobView::decode(job.to_string().as_bytes())?;
        let workload_uid = theirs["metadata"]["uid"].as_str().unwrap_or_default();
        let (workload, group) = controllers::job::scheduling::compile_objects(&view, workload_uid)?
            .with_context(|| format!("no objects are compiled for {job:#}"))?;
        let workload = with_defaults(client, "workloads", serde_json::to_value(workload)?).await?;
        let group = with_defaults(client, "podgroups", serde_json::to_value(group)?).await?;
        differences.extend([(theirs, workload), (their_group, group)].iter().filter_map(|(theirs, ours)| {
            let (mut their_differences, mut our_differences) = (Vec::new(), Vec::new());
            collect_differences(
                "",
                Some(&normalize(theirs)),
                Some(&normalize(ours)),
                &mut their_differences,
                &mut our_differences,
            );
            let is_same = their_differences.is_empty() && our_differences.is_empty();
            let scheduling = &job["spec"]["scheduling"];
            (!is_same).then(|| {
                format!(
                    "theirs: {}\nours:   {}\nasked:  {scheduling}",
                    their_differences.join("; "),
                    our_differences.join("; ")
                )
            })
        }));
    }
    println!("{} Jobs, {} objects compared, {} differ", jobs.len(), 2 * jobs.len(), differences.len());
    let reported: Vec<String> = differences.iter().take(MAX_REPORTED).cloned().collect();
    ensure!(differences.is_empty(), "kube-controller-manager creates other objects:\n{}", reported.join("\n\n"));
    Ok(())
}

/// The object as kube-apiserver would store it.
async fn with_defaults(client: &Client, plural: &str, mut object: Value) -> anyhow::Result<Value> {
    let path = format!("{}?dryRun=All", path_of(SchedulingVersion::V1beta1.api_version(), plural));
    // Its own name exists already: the compared object has it.
    let name = std::mem::replace(&mut object["metadata"]["name"], json!("ours"));
    let mut stored = create_object(client, &path, &object).await?;
    stored["metadata"]["name"] = name;
    Ok(stored)
}

/// Workloads and PodGroups by the uid of their Job, once every Job has one of each.
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
            "kube-controller-manager created no Workload and PodGroup within {CREATE_TIMEOUT_SECONDS} s for {without:#}"
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

/// An object without the fields that only a server or only we set: identity and times, values of admission, our
/// managed-by annotation, and the count that our scheduler reads (docs/decisions/0001).
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

/// A tree of at most `depth` levels below this item. Most of it is valid; some values exceed the limits of the API.
fn item(generator: &CaseGenerator, depth: usize, number: &mut usize) -> WorkloadItem {
    *number += 1;
    let wrong = || generator.once_in(40);
    let name =
        format!("{}-{number}", if wrong() { "not.a.label" } else { generator.choose(&["t", "workers", "rack"]) });
    let is_composite = depth > 0 && generator.once_in(2);
    let is_gang = generator.once_in(2);
    let policy = match generator.below(2) {
        _ if is_gang => Some(SchedulingPolicy::Gang {
            min_count: if wrong() { None } else { Some(if wrong() { 0 } else { generator.number_between(1, 3) }) },
        }),
        0 => None,
        _ => Some(SchedulingPolicy::Basic),
    };
    let key = || if wrong() { "not a key" } else { generator.choose(&["topology.kubernetes.io/zone", "rack"]) };
    let constraints = generator.once_in(3).then(|| SchedulingConstraints {
        topology: (0..if wrong() { 2 } else { 1 }).map(|_| key().to_owned()).collect(),
    });
    let claim = |at: usize| {
        let is_template = generator.once_in(2);
        ResourceClaim {
            name: format!("claim-{at}"),
            resource_claim_name: (!is_template || wrong()).then(|| "shared".to_owned()),
            resource_claim_template_name: is_template.then(|| "made".to_owned()),
        }
    };
    let claims = if is_composite && !wrong() { 0 } else { generator.below(if wrong() { 7 } else { 3 }) };
    let modes = if is_gang || wrong() { 3 } else { 2 };
    let default_config = SchedulingConfig {
        policy,
        constraints,
        disruption_mode: [None, Some(DisruptionMode::Single), Some(DisruptionMode::All)][generator.below(modes)],
        resource_claims: (0..claims).map(claim).collect(),
        priority_class_name: generator.once_in(3).then(|| CLASS.to_owned()),
    };
    let children = if is_composite {
        (0..=generator.below(2)).map(|_| item(generator, depth - 1, number)).collect()
    } else {
        Vec::new()
    };
    WorkloadItem { default_config, children, ..WorkloadItem::new(name, Path::new("spec")) }
}

async fn check_trees(client: &Client, args: &Args) -> anyhow::Result<()> {
    let generator = CaseGenerator::seeded(args.seed ^ 0x7ee5);
    let (mut built, mut objects, mut refused) = (0, 0, Vec::new());
    for tree in 0..args.trees {
        let Some(documents) = compile_tree(&generator, tree)? else { continue };
        built += 1;
        for (plural, document) in documents {
            objects += 1;
            let api_version = document["apiVersion"].as_str().unwrap_or_default();
            let path = format!("{}?dryRun=All", path_of(api_version, plural));
            let response = send(client, Method::POST, &path, serde_json::to_vec(&document)?).await?;
            if !response.is_accepted() {
                refused.push(format!("{}\n{document:#}", response.message));
            }
        }
    }
    println!(
        "{} trees, {built} accepted by the builder, {objects} objects of them, {} refused",
        args.trees,
        refused.len()
    );
    ensure!(built * 4 >= args.trees, "hardly any tree was accepted: the generator is useless");
    let reported: Vec<String> = refused.iter().take(MAX_REPORTED).cloned().collect();
    ensure!(refused.is_empty(), "kube-apiserver refuses objects of the builder:\n{}", reported.join("\n\n"));
    Ok(())
}

/// The objects that the builder creates for a generated tree, by plural; `None` if it refuses the tree.
fn compile_tree(generator: &CaseGenerator, tree: usize) -> anyhow::Result<Option<Vec<(&'static str, Value)>>> {
    let (mut number, depth) = (0, generator.below(5));
    let items: Vec<WorkloadItem> = (0..=generator.below(2)).map(|_| item(generator, depth, &mut number)).collect();
    let version = *generator.choose(&[SchedulingVersion::V1beta1, SchedulingVersion::V1alpha3]);
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
    let workload = builder.build_workload().context("a valid tree can be built")?;
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
