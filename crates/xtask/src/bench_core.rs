//! The scheduler's decisions alone, no API: milliseconds per group for each shape.
//!
//! All nodes, groups and pods are shown to the core first. Then each `next` is timed by itself; telling the core that
//! a bind went well, and showing it the bound pod as the watch would, is timed apart.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use api::quantity::Quantity;
use api::views::{ContainerView, Meta, NodeView, PodGroupView, PodView, SchedulingGroupView};
use api::{Pairs, Timestamp};
use k8s_openapi::api::scheduling::v1beta1::{
    BasicSchedulingPolicy, GangSchedulingPolicy, PodGroupSchedulingConstraints, TopologyConstraint,
};
use scheduler_core::{Change, Config, Core, Outcome, Verdict};

/// Options of `cargo xtask bench core`.
#[derive(clap::Args)]
pub struct Args {
    /// Run only this case, such as gang-1000x3, basic-1000x3, tas-750x4 or single-10000; other sizes are named alike
    #[arg(long)]
    pub case: Option<String>,
    /// Also write one JSON object a line to this file
    #[arg(long)]
    pub json: Option<std::path::PathBuf>,
}

const CASES: [&str; 6] = ["gang-1000x3", "gang-3x1000", "tas-750x4", "tas-3x1000", "basic-1000x3", "single-10000"];
const NODES: usize = 5000;
const NODES_PER_RACK: usize = 100;
const RACK: &str = "topology.kubernetes.io/rack";

pub fn run(args: &Args) -> anyhow::Result<()> {
    let names = args.case.as_deref().map_or_else(|| CASES.to_vec(), |case| vec![case]);
    let cases: Vec<Case> = names.into_iter().map(str::parse).collect::<Result<_, _>>()?;
    let mut json = args.json.as_ref().map(File::create).transpose().context("the file for --json")?;
    println!(
        "{:<14} {:>9} {:>9} {:>9} {:>9}  {:>12} {:>9}",
        "case", "mean ms", "p50 ms", "p99 ms", "max ms", "observe µs", "pods/s"
    );
    for case in cases {
        let measured = measure(&case)?;
        println!("{measured}");
        if let Some(file) = &mut json {
            writeln!(file, "{}", measured.to_json())?;
        }
    }
    Ok(())
}

/// A shape of load: groups x pods in each.
struct Case {
    name: String,
    policy: Policy,
    groups: usize,
    pods_per_group: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Gang,
    GangInRack,
    Basic,
    Single,
}

impl FromStr for Case {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Case> {
        let unknown = || format!("no case is called {name}; there are {}", CASES.join(", "));
        let (kind, size) = name.split_once('-').with_context(unknown)?;
        let policy = match kind {
            "gang" => Policy::Gang,
            "tas" => Policy::GangInRack,
            "basic" => Policy::Basic,
            "single" => Policy::Single,
            _ => anyhow::bail!(unknown()),
        };
        let (groups, pods) = size.split_once('x').unwrap_or((size, "1"));
        let (groups, pods_per_group) = (groups.parse().with_context(unknown)?, pods.parse().with_context(unknown)?);
        Ok(Case { name: name.to_owned(), policy, groups, pods_per_group })
    }
}

struct Measured {
    case: String,
    groups: usize,
    pods: usize,
    decides: Vec<Duration>,
    observing: Duration,
}

fn measure(case: &Case) -> anyhow::Result<Measured> {
    let now = Timestamp::UNIX_EPOCH;
    let mut core = Core::new(Config::default());
    for index in 0..NODES {
        core.observe(Change::Node { old: None, new: Some(Arc::new(node(index))) });
    }
    let mut pods = BTreeMap::new();
    for group in 0..case.groups {
        if let Some(group) = pod_group(case, group) {
            core.observe(Change::PodGroup { old: None, new: Some(Arc::new(group)) });
        }
        for index in 0..case.pods_per_group {
            let pod = Arc::new(pod(case, group, index));
            pods.insert(pod.metadata.key(), Arc::clone(&pod));
            core.observe(Change::Pod { old: None, new: Some(pod) });
        }
    }
    let (mut decides, mut observing, mut bound) = (Vec::new(), Duration::ZERO, 0);
    loop {
        let started = Instant::now();
        let decision = core.next(now);
        let took = started.elapsed();
        let Some(decision) = decision else { break };
        decides.push(took);
        let Verdict::Bind(placements) = decision.verdict else { anyhow::bail!("{} was refused", decision.unit) };
        bound += placements.len();
        for placement in placements {
            let old = pods.remove(&placement.pod).context("a pod is bound once")?;
            let mut new = (*old).clone();
            new.spec.node_name = placement.node;
            let change = Change::Pod { old: Some(old), new: Some(Arc::new(new)) };
            let started = Instant::now();
            core.settled(Outcome::Bound { pod: placement.pod, uid: placement.uid }, now);
            core.observe(change);
            observing += started.elapsed();
        }
    }
    anyhow::ensure!(bound == case.groups * case.pods_per_group, "{bound} pods were placed, not all");
    decides.sort_unstable();
    Ok(Measured { case: case.name.clone(), groups: case.groups, pods: bound, decides, observing })
}

impl Measured {
    /// The smallest time that at least `percent` of the decisions did not exceed.
    fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.decides.len() * percent).div_ceil(100).max(1);
        self.decides.get(rank - 1).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    fn seconds(&self) -> f64 {
        (self.decides.iter().sum::<Duration>() + self.observing).as_secs_f64()
    }

    fn mean(&self) -> f64 {
        self.decides.iter().sum::<Duration>().as_secs_f64() * 1e3 / self.decides.len().max(1) as f64
    }

    fn observe_us_per_pod(&self) -> f64 {
        self.observing.as_secs_f64() * 1e6 / self.pods.max(1) as f64
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "case": self.case,
            "system": "core",
            "nodes": NODES,
            "pods": self.pods,
            "groups": self.groups,
            "seconds": self.seconds(),
            "pods_per_second": self.pods as f64 / self.seconds(),
            "decide_ms_mean": self.mean(),
            "decide_ms_p50": self.percentile(50),
            "decide_ms_p99": self.percentile(99),
            "rss_mb": rss_mb(),
            "observe_us_per_pod": self.observe_us_per_pod(),
        })
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [mean, p50, p99, max] =
            [self.mean(), self.percentile(50), self.percentile(99), self.percentile(100)].map(|ms| format!("{ms:.4}"));
        let (observe, rate) = (self.observe_us_per_pod(), self.pods as f64 / self.seconds());
        write!(f, "{:<14} {mean:>9} {p50:>9} {p99:>9} {max:>9}  {observe:>12.2} {rate:>9.0}", self.case)
    }
}

/// Peak resident memory of this process, where the system tells.
fn rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}

fn node(index: usize) -> NodeView {
    let mut node = NodeView::default();
    node.metadata.name = format!("node-{index:05}");
    let rack = index / NODES_PER_RACK;
    node.metadata.labels = Pairs::from([
        ("kubernetes.io/hostname".to_owned(), node.metadata.name.clone()),
        ("topology.kubernetes.io/zone".to_owned(), format!("zone-{rack}")),
        (RACK.to_owned(), format!("rack-{rack}")),
    ]);
    node.status.allocatable = Pairs::from([
        ("cpu".to_owned(), Quantity::whole(4)),
        ("memory".to_owned(), Quantity::whole(32 << 30)),
        ("pods".to_owned(), Quantity::whole(110)),
    ]);
    node
}

fn meta(name: String) -> Meta {
    Meta { uid: format!("uid-{name}"), name, namespace: "bench".to_owned(), ..Meta::default() }
}

fn pod_group(case: &Case, group: usize) -> Option<PodGroupView> {
    let mut view = PodGroupView { metadata: meta(format!("group-{group:04}")), ..PodGroupView::default() };
    match case.policy {
        Policy::Single => return None,
        Policy::Basic => view.spec.scheduling_policy.basic = Some(BasicSchedulingPolicy::default()),
        Policy::Gang | Policy::GangInRack => {
            let gang = GangSchedulingPolicy { min_count: case.pods_per_group as i32 };
            view.spec.scheduling_policy.gang = Some(gang);
        }
    }
    if case.policy == Policy::GangInRack {
        let topology = Some(vec![TopologyConstraint { key: RACK.to_owned() }]);
        view.spec.scheduling_constraints = Some(PodGroupSchedulingConstraints { topology });
    }
    Some(view)
}

fn pod(case: &Case, group: usize, index: usize) -> PodView {
    let mut pod = PodView { metadata: meta(format!("pod-{group:05}-{index:04}")), ..PodView::default() };
    pod.spec.scheduler_name = "default-scheduler".to_owned();
    if case.policy != Policy::Single {
        pod.spec.scheduling_group = Some(SchedulingGroupView { pod_group_name: Some(format!("group-{group:04}")) });
    }
    let mut container = ContainerView::default();
    container.resources.requests =
        Pairs::from([("cpu".to_owned(), Quantity::milli(100)), ("memory".to_owned(), Quantity::whole(100 << 20))]);
    pod.spec.containers = vec![container];
    pod
}
