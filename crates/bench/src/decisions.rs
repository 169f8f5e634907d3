//! The scheduler's decisions alone, without the API: milliseconds per group for each shape.
//!
//! All nodes, groups and pods are created first, in the form of the scheduler's caches, and passed to the core. Then
//! each `next` is timed. Reporting a successful bind to the core, and passing the bound pod as the watch would, are
//! timed separately. Each case runs in a process of its own, so that its memory can be measured.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api::quantity::Quantity;
use api::views::{
    AffinityView, ContainerView, ImageView, MetaView, NodeView, ObjectKey, PodGroupView, PodView, SchedulingGroupView,
};
use api::{SmallMap, Timestamp};
use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::api::scheduling::v1beta1::{
    BasicSchedulingPolicy, GangSchedulingPolicy, PodGroupSchedulingConstraints, TopologyConstraint,
};
use scheduler_core::{BindOutcome, ClusterChange, Config, Core, DecisionAction};

use crate::pod_life::{peak_mb_of, resident_mb_of};
use crate::scheduling_cases::{CasePolicy, CaseVariant, NAMESPACE, RACK, SchedulingCase, rack};

mod day; // a day on virtual time: waits, and what reservations keep idle
mod explained; // beside explanations on another thread
mod instructions; // counted under valgrind and compared with recorded counts
mod waiting; // changes beside thousands of waiting gangs

/// Options of `cargo xtask bench core`.
#[derive(clap::Args)]
pub struct Args {
    /// Run only this case, such as gang-1000x3, tas-750x4, single-10000-of-50, single-10000-behind-10000,
    /// gang-3x1000@50000, daemon-50000@50000, churn-1000@1000 or gang-9x1000-beside-1500000@150000; other sizes have
    /// names of the same form. Only by name run explained-1000 (decisions while 1,000 waiting gangs are explained), and
    /// waiting-10000, waiting-10000-of-50, waiting-10000-of-900 and waiting-10000-leader (changes beside 10,000 waiting
    /// gangs)
    #[arg(long)]
    pub case: Option<String>,
    /// Simulate a day of hopeless gangs, large gangs and small pods on 512 nodes, with and without reservations
    #[arg(long, conflicts_with_all = ["case", "instructions"])]
    pub day: bool,
    /// The seed of the day
    #[arg(long, requires = "day", default_value_t = 1)]
    pub seed: u64,
    /// Count instructions under valgrind instead of measuring time: they do not depend on the load of the machine
    #[arg(long)]
    pub instructions: bool,
    /// Compare the instructions with those in this file, and fail if they differ by more than a tenth
    #[arg(long, requires = "instructions", value_name = "FILE")]
    pub check: Option<std::path::PathBuf>,
    /// Also write one JSON object per line to this file
    #[arg(long)]
    pub json: Option<std::path::PathBuf>,
}

const CASES: [&str; 30] = [
    "gang-1000x3",
    "gang-3000x3",
    "gang-3x1000",
    "gang-9x1000",
    "basic-1000x3",
    "basic-3000x3",
    "basic-3x1000",
    "basic-9x1000",
    "tas-750x4",
    "tas-3x1000",
    "single-10000",
    "single-10000-behind-10000",
    "single-10000-of-50",
    "single-10000-of-500",
    "gang-100x64",
    "gang-100x64-leader",
    "gang-100x64-of-5",
    "gang-1000x3@50000",
    "gang-10000x3@50000",
    "gang-3x1000@50000",
    "gang-100x64@50000",
    "gang-100x64-leader@50000",
    "gang-100x64-of-5@50000",
    "tas-750x4@50000",
    "tas-3x1000@50000",
    "single-10000@50000",
    "single-500000@50000",
    "daemon-50000@50000",
    "churn-1000@1000",
    "gang-9x1000-beside-1500000@150000",
];

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.instructions {
        return instructions::run(args.case.as_deref(), args.check.as_deref());
    }
    if args.case.as_deref() == Some(explained::CASE) {
        return explained::run();
    }
    if let Some(case) = args.case.as_deref().filter(|case| waiting::CASES.contains(case)) {
        return waiting::run(case);
    }
    let mut json = args.json.as_ref().map(File::create).transpose().context("the file for --json")?;
    if args.day {
        let lines = day::run(args.seed).into_iter().map(|line| format!("{line}\n")).collect::<String>();
        return json.map_or(Ok(()), |mut file| Ok(file.write_all(lines.as_bytes())?));
    }
    println!("{HEADING}");
    if let Some(case) = &args.case {
        let measured = measure(&case.parse()?)?;
        println!("{measured}");
        return json.map_or(Ok(()), |mut file| Ok(writeln!(file, "{}", measured.to_json())?));
    }
    for name in CASES {
        println!("{}", measure_in_child_process(&name.parse()?, json.as_mut())?);
    }
    Ok(())
}

const HEADING: &str = "case                                mean ms    p50 ms    p99 ms    max ms    observe µs    pods/s  total s   rss MB  core MB";

/// Measures one case in a process of its own, and returns its row.
fn measure_in_child_process(case: &SchedulingCase, json: Option<&mut File>) -> anyhow::Result<String> {
    let scratch = supervisor::ScratchDir::new("bench-core")?;
    let file = scratch.path().join("case.json");
    let output = Command::new(std::env::current_exe()?)
        .args(["bench", "core", "--case", &case.name, "--json"])
        .arg(&file)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "{case}: {}", output.status);
    if let Some(all) = json {
        all.write_all(&std::fs::read(&file)?)?;
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    Ok(stdout.lines().last().unwrap_or_default().to_owned())
}

struct CoreMeasurement {
    case: SchedulingCase,
    decision_times: Vec<Duration>,
    observe_time: Duration,
    /// The memory of the core, if the system reports it. It includes the names of nodes in the views of bound pods.
    core_mb: Option<f64>,
}

/// All objects, as the scheduler's caches have them: each once and shared.
struct CoreInput {
    nodes: Vec<Arc<NodeView>>,
    groups: Vec<Arc<PodGroupView>>,
    running: Vec<Arc<PodView>>,
    blocked: Vec<Arc<PodView>>,
    pods: BTreeMap<ObjectKey, Arc<PodView>>,
}

impl CoreInput {
    fn of(case: &SchedulingCase) -> CoreInput {
        let pods = (0..case.groups).flat_map(|group| (0..case.pods_per_group).map(move |index| (group, index)));
        let pods = pods.map(|(group, index)| Arc::new(pod(case, group, index)));
        CoreInput {
            nodes: (0..case.nodes).map(|index| Arc::new(node(index))).collect(),
            groups: (0..case.groups).filter_map(|group| pod_group(case, group)).map(Arc::new).collect(),
            running: (0..case.running).map(|index| Arc::new(running_pod(case, index))).collect(),
            blocked: (0..case.blocked).map(|index| Arc::new(blocked_pod(index))).collect(),
            pods: pods.map(|pod| (pod.metadata.key(), pod)).collect(),
        }
    }

    fn observe_all(&self, core: &mut Core) {
        let nodes = self.nodes.iter().map(|node| ClusterChange::Node { old: None, new: Some(Arc::clone(node)) });
        let groups =
            self.groups.iter().map(|group| ClusterChange::PodGroup { old: None, new: Some(Arc::clone(group)) });
        let pods = self.running.iter().chain(&self.blocked).chain(self.pods.values());
        let pods = pods.map(|pod| ClusterChange::Pod { old: None, new: Some(Arc::clone(pod)) });
        nodes.chain(groups).chain(pods).for_each(|change| core.observe(change));
    }
}

impl CoreInput {
    /// The `step`-th change: a node has pulled an image, or has another label.
    fn change_node(&mut self, step: usize, core: &mut Core) {
        let at = step * 7 % self.nodes.len();
        let mut node = (*self.nodes[at]).clone();
        if step.is_multiple_of(2) {
            let names = vec![image(step % 3).into()];
            node.status.images.push(ImageView { names, size_bytes: GIB });
        } else {
            node.metadata.labels.insert("version".to_owned(), step.to_string());
        }
        let new = Arc::new(node);
        let old = std::mem::replace(&mut self.nodes[at], Arc::clone(&new));
        core.observe(ClusterChange::Node { old: Some(old), new: Some(new) });
    }
}

fn measure(case: &SchedulingCase) -> anyhow::Result<CoreMeasurement> {
    let now = Timestamp::UNIX_EPOCH;
    let mut views = CoreInput::of(case);
    let own_mb = memory_mb(resident_mb_of);
    let mut core = Core::new(Config::default());
    views.observe_all(&mut core);
    let (mut decision_times, mut observe_time, mut bound, mut refused) = (Vec::new(), Duration::ZERO, 0, 0);
    loop {
        if case.variant == CaseVariant::NodeChurn {
            views.change_node(decision_times.len(), &mut core);
        }
        let started = Instant::now();
        let decision = core.next(now);
        let took = started.elapsed();
        let Some(decision) = decision else { break };
        decision_times.push(took);
        let DecisionAction::Bind(placements) = decision.action else {
            refused += 1;
            continue;
        };
        bound += placements.len();
        for placement in placements {
            let view = views.pods.get_mut(&placement.pod).context("only pods of the input are bound")?;
            let mut new = (**view).clone();
            new.spec.node_name = placement.node;
            let new = Arc::new(new);
            let old = std::mem::replace(view, Arc::clone(&new));
            let change = ClusterChange::Pod { old: Some(Arc::clone(&old)), new: Some(new) };
            let started = Instant::now();
            core.settled(BindOutcome::Bound { pod: placement.pod, uid: placement.uid }, now);
            core.observe(change);
            observe_time += started.elapsed();
        }
    }
    ensure!(bound == case.pods(), "{bound} pods were placed, not all {}", case.pods());
    let builds = core.index_builds_count();
    // Leaders have classes of their own.
    let classes = case.classes * (1 + usize::from(case.has_leaders)) + usize::from(case.blocked > 0);
    let expected = if case.variant == CaseVariant::NamedNodes { 0 } else { classes as u64 };
    ensure!(builds <= expected, "{builds} indexes were built for {expected} classes");
    // Each once: no event could have helped them.
    ensure!(refused == case.blocked, "{refused} refusals for {} pods that fit nowhere", case.blocked);
    decision_times.sort_unstable();
    let core_mb = memory_mb(resident_mb_of).zip(own_mb).map(|(all, own)| all - own);
    Ok(CoreMeasurement { case: case.clone(), decision_times, observe_time, core_mb })
}

impl CoreMeasurement {
    fn percentile(&self, percent: usize) -> f64 {
        percentile(&self.decision_times, percent)
    }

    fn seconds(&self) -> f64 {
        (self.decision_times.iter().sum::<Duration>() + self.observe_time).as_secs_f64()
    }

    fn mean(&self) -> f64 {
        self.decision_times.iter().sum::<Duration>().as_secs_f64() * 1e3 / self.decision_times.len().max(1) as f64
    }

    fn observe_us_per_pod(&self) -> f64 {
        self.observe_time.as_secs_f64() * 1e6 / self.case.pods().max(1) as f64
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "case": self.case.name,
            "system": "core",
            "nodes": self.case.nodes,
            "pods": self.case.pods(),
            "groups": if self.case.policy == CasePolicy::Single { 0 } else { self.case.groups },
            "seconds": self.seconds(),
            "pods_per_second": self.case.pods() as f64 / self.seconds(),
            "decide_ms_mean": self.mean(),
            "decide_ms_p50": self.percentile(50),
            "decide_ms_p99": self.percentile(99),
            "rss_mb": memory_mb(peak_mb_of),
            "core_mb": self.core_mb,
            "observe_us_per_pod": self.observe_us_per_pod(),
        })
    }
}

impl fmt::Display for CoreMeasurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [mean, p50, p99, max] =
            [self.mean(), self.percentile(50), self.percentile(99), self.percentile(100)].map(|ms| format!("{ms:.4}"));
        let (observe, rate) = (self.observe_us_per_pod(), self.case.pods() as f64 / self.seconds());
        write!(f, "{:<33} {mean:>9} {p50:>9} {p99:>9} {max:>9} ", self.case)?;
        let [rss, core] = [memory_mb(peak_mb_of), self.core_mb].map(|mb| mb.unwrap_or(f64::NAN));
        write!(f, "{observe:>13.2} {rate:>9.0} {:>8.3} {rss:>8.0} {core:>8.0}", self.seconds())
    }
}

/// The smallest of the sorted times that at least `percent` of them did not exceed, in milliseconds.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// Memory of this process, if the system reports it.
fn memory_mb(which: impl Fn(&Path) -> anyhow::Result<f64>) -> Option<f64> {
    which(Path::new("/proc/self/status")).ok()
}

fn node(index: usize) -> NodeView {
    let mut node = NodeView::default();
    node.metadata.name = node_name(index);
    node.metadata.labels = SmallMap::from([
        ("kubernetes.io/hostname".to_owned(), node.metadata.name.clone()),
        ("topology.kubernetes.io/zone".to_owned(), rack(index).replace("rack", "zone")),
        (RACK.to_owned(), rack(index)),
    ]);
    node.status.allocatable = SmallMap::from([
        ("cpu".to_owned(), Quantity::whole(4)),
        ("memory".to_owned(), Quantity::whole(32 << 30)),
        ("pods".to_owned(), Quantity::whole(110)),
    ]);
    node
}

const GIB: i64 = 1 << 30;

/// An image that some nodes have.
fn image(number: usize) -> String {
    format!("registry.example/trainer-{number}:v1")
}

fn running_pod(case: &SchedulingCase, index: usize) -> PodView {
    let mut pod = PodView { metadata: meta(format!("running-{index:07}")), ..PodView::default() };
    pod.spec.node_name = node_name(index % case.nodes);
    pod.spec.containers = vec![container(Quantity::milli(100))];
    pod
}

/// Node affinity for one node, as the DaemonSet controller writes it.
fn affinity_of(node: usize) -> AffinityView {
    let name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node_name(node)]),
    };
    let terms = vec![NodeSelectorTerm { match_fields: Some(vec![name]), match_expressions: None }];
    let required = Some(NodeSelector { node_selector_terms: terms });
    let nodes =
        NodeAffinity { required_during_scheduling_ignored_during_execution: required, ..NodeAffinity::default() };
    AffinityView { node_affinity: Some(nodes), ..AffinityView::default() }
}

fn node_name(index: usize) -> String {
    format!("node-{index:05}")
}

fn meta(name: String) -> MetaView {
    MetaView { uid: format!("uid-{name}"), name, namespace: NAMESPACE.to_owned(), ..MetaView::default() }
}

fn pod_group(case: &SchedulingCase, group: usize) -> Option<PodGroupView> {
    let mut view = PodGroupView { metadata: meta(SchedulingCase::group_name(group)), ..PodGroupView::default() };
    match case.policy {
        CasePolicy::Single => return None,
        CasePolicy::Basic => view.spec.scheduling_policy.basic = Some(BasicSchedulingPolicy::default()),
        CasePolicy::Gang | CasePolicy::GangInRack => {
            let gang = GangSchedulingPolicy { min_count: case.pods_per_group as i32 };
            view.spec.scheduling_policy.gang = Some(gang);
        }
    }
    if case.policy == CasePolicy::GangInRack {
        let topology = Some(vec![TopologyConstraint { key: RACK.to_owned() }]);
        view.spec.scheduling_constraints = Some(PodGroupSchedulingConstraints { topology });
    }
    Some(view)
}

fn pod(case: &SchedulingCase, group: usize, index: usize) -> PodView {
    let mut pod = PodView { metadata: meta(SchedulingCase::pod_name(group, index)), ..PodView::default() };
    pod.spec.scheduler_name = "default-scheduler".into();
    if case.policy != CasePolicy::Single {
        pod.spec.scheduling_group =
            Some(SchedulingGroupView { pod_group_name: Some(SchedulingCase::group_name(group)) });
    }
    let number = group * case.pods_per_group + index;
    pod.spec.containers = vec![container(Quantity::milli(case.milli_cpu(number)))];
    match case.variant {
        CaseVariant::Plain => {}
        CaseVariant::NamedNodes => pod.spec.affinity = Some(Box::new(affinity_of(number % case.nodes))),
        CaseVariant::NodeChurn => pod.spec.containers[0].image = image(0),
    }
    pod
}

/// Requests more than any node has.
fn blocked_pod(index: usize) -> PodView {
    let mut pod = PodView { metadata: meta(format!("blocked-{index:05}")), ..PodView::default() };
    pod.spec.scheduler_name = "default-scheduler".into();
    pod.spec.priority = Some(1_000);
    pod.spec.containers = vec![container(Quantity::whole(5))];
    pod
}

fn container(cpu: Quantity) -> ContainerView {
    let mut container = ContainerView::default();
    container.resources.requests =
        SmallMap::from([("cpu".to_owned(), cpu), ("memory".to_owned(), Quantity::whole(100 << 20))]);
    container
}
