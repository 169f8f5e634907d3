//! The scheduler's decisions alone, no API: milliseconds per group for each shape.
//!
//! All nodes, groups and pods are shown to the core first. Then each `next` is timed by itself; telling the core that
//! a bind went well, and showing it the bound pod as the watch would, is timed apart. Each case has a process of its own,
//! so that its memory is its own, too.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api::quantity::Quantity;
use api::views::{ContainerView, Meta, NodeView, PodGroupView, PodView, SchedulingGroupView};
use api::{Pairs, Timestamp};
use k8s_openapi::api::scheduling::v1beta1::{
    BasicSchedulingPolicy, GangSchedulingPolicy, PodGroupSchedulingConstraints, TopologyConstraint,
};
use scheduler_core::{Change, Config, Core, Outcome, Verdict};

use crate::bench_life::peak_mb_of;
use crate::shapes::{Case, NAMESPACE, Policy, RACK, rack};

/// Options of `cargo xtask bench core`.
#[derive(clap::Args)]
pub struct Args {
    /// Run only this case, such as gang-1000x3, tas-750x4, single-10000-of-50, single-10000-behind-10000 or
    /// gang-3x1000@50000; other sizes are named alike
    #[arg(long)]
    pub case: Option<String>,
    /// Count instructions under valgrind instead of measuring time: the machine's load does not matter to them
    #[arg(long)]
    pub instructions: bool,
    /// Also write one JSON object a line to this file
    #[arg(long)]
    pub json: Option<std::path::PathBuf>,
}

const CASES: [&str; 21] = [
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
    "gang-1000x3@50000",
    "gang-10000x3@50000",
    "gang-3x1000@50000",
    "tas-750x4@50000",
    "tas-3x1000@50000",
    "single-10000@50000",
    "single-500000@50000",
];
/// Those whose instructions are counted: valgrind is fifty times slower.
const COUNTED: [&str; 5] = ["gang-1000x3", "gang-3x1000", "tas-750x4", "tas-3x1000", "single-1000"];

pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut json = args.json.as_ref().map(File::create).transpose().context("the file for --json")?;
    if let (Some(case), false) = (&args.case, args.instructions) {
        let measured = measure(&case.parse()?)?;
        println!("{HEADING}\n{measured}");
        return json.map_or(Ok(()), |mut file| Ok(writeln!(file, "{}", measured.to_json())?));
    }
    let all: &[&str] = if args.instructions { &COUNTED } else { &CASES };
    let names = args.case.as_deref().map_or(all.to_vec(), |case| vec![case]);
    println!("{}", if args.instructions { COUNTED_HEADING } else { HEADING });
    for name in names {
        let case: Case = name.parse()?;
        let line = if args.instructions { count(&case)? } else { apart(&case, json.as_mut())? };
        println!("{line}");
    }
    Ok(())
}

const HEADING: &str =
    "case                         mean ms    p50 ms    p99 ms    max ms    observe µs    pods/s  total s   rss MB";
const COUNTED_HEADING: &str = "case                         instructions  per decision       per pod";

/// Measures one case in a process of its own, and returns its row.
fn apart(case: &Case, json: Option<&mut File>) -> anyhow::Result<String> {
    let scratch = crate::up::Scratch::new("bench-core")?;
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
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().last().unwrap_or_default().to_owned())
}

/// Counts the instructions of all decisions of one case.
fn count(case: &Case) -> anyhow::Result<String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*scheduler_core::state::Core::next*"])
        .arg("--callgrind-out-file=/dev/null")
        .arg(std::env::current_exe()?)
        .args(["bench", "core", "--case", &case.name])
        .output()
        .context("running valgrind, which counts the instructions: install it")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{case} under valgrind: {}: {said}", output.status);
    let counted = said.lines().find_map(|line| line.split("Collected : ").nth(1));
    let counted: u64 = counted.context("valgrind tells what it collected")?.trim().parse()?;
    ensure!(counted > 0, "valgrind did not find Core::next");
    let decisions = if case.policy == Policy::Single { case.pods() } else { case.groups } + case.blocked;
    let per = |count: usize| counted / count.max(1) as u64;
    Ok(format!("{case:<27} {counted:>13} {:>13} {:>13}", per(decisions), per(case.pods())))
}

struct Measured {
    case: Case,
    decides: Vec<Duration>,
    observing: Duration,
}

/// What has been shown to the core.
struct Shown {
    core: Core,
    pods: BTreeMap<api::views::ObjectKey, Arc<PodView>>,
}

fn show(case: &Case) -> Shown {
    let (mut core, mut pods) = (Core::new(Config::default()), BTreeMap::new());
    for index in 0..case.nodes {
        core.observe(Change::Node { old: None, new: Some(Arc::new(node(index))) });
    }
    for index in 0..case.blocked {
        core.observe(Change::Pod { old: None, new: Some(Arc::new(blocked_pod(index))) });
    }
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
    Shown { core, pods }
}

fn measure(case: &Case) -> anyhow::Result<Measured> {
    let now = Timestamp::UNIX_EPOCH;
    let Shown { mut core, mut pods } = show(case);
    let (mut decides, mut observing, mut bound, mut refused) = (Vec::new(), Duration::ZERO, 0, 0);
    loop {
        let started = Instant::now();
        let decision = core.next(now);
        let took = started.elapsed();
        let Some(decision) = decision else { break };
        decides.push(took);
        let Verdict::Bind(placements) = decision.verdict else {
            refused += 1;
            continue;
        };
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
    ensure!(bound == case.pods(), "{bound} pods were placed, not all {}", case.pods());
    // Each once: nothing that happened meanwhile could have helped them.
    ensure!(refused == case.blocked, "{refused} refusals of {} pods that fit nowhere", case.blocked);
    decides.sort_unstable();
    Ok(Measured { case: case.clone(), decides, observing })
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
        self.observing.as_secs_f64() * 1e6 / self.case.pods().max(1) as f64
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "case": self.case.name,
            "system": "core",
            "nodes": self.case.nodes,
            "pods": self.case.pods(),
            "groups": if self.case.policy == Policy::Single { 0 } else { self.case.groups },
            "seconds": self.seconds(),
            "pods_per_second": self.case.pods() as f64 / self.seconds(),
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
        let (observe, rate) = (self.observe_us_per_pod(), self.case.pods() as f64 / self.seconds());
        write!(f, "{:<26} {mean:>9} {p50:>9} {p99:>9} {max:>9} ", self.case)?;
        write!(f, "{observe:>13.2} {rate:>9.0} {:>8.3} {:>8.0}", self.seconds(), rss_mb().unwrap_or(f64::NAN))
    }
}

/// Peak resident memory of this process, where the system tells.
fn rss_mb() -> Option<f64> {
    peak_mb_of(std::path::Path::new("/proc/self/status")).ok()
}

fn node(index: usize) -> NodeView {
    let mut node = NodeView::default();
    node.metadata.name = format!("node-{index:05}");
    node.metadata.labels = Pairs::from([
        ("kubernetes.io/hostname".to_owned(), node.metadata.name.clone()),
        ("topology.kubernetes.io/zone".to_owned(), rack(index).replace("rack", "zone")),
        (RACK.to_owned(), rack(index)),
    ]);
    node.status.allocatable = Pairs::from([
        ("cpu".to_owned(), Quantity::whole(4)),
        ("memory".to_owned(), Quantity::whole(32 << 30)),
        ("pods".to_owned(), Quantity::whole(110)),
    ]);
    node
}

fn meta(name: String) -> Meta {
    Meta { uid: format!("uid-{name}"), name, namespace: NAMESPACE.to_owned(), ..Meta::default() }
}

fn pod_group(case: &Case, group: usize) -> Option<PodGroupView> {
    let mut view = PodGroupView { metadata: meta(Case::group_name(group)), ..PodGroupView::default() };
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
    let mut pod = PodView { metadata: meta(Case::pod_name(group, index)), ..PodView::default() };
    pod.spec.scheduler_name = "default-scheduler".to_owned();
    if case.policy != Policy::Single {
        pod.spec.scheduling_group = Some(SchedulingGroupView { pod_group_name: Some(Case::group_name(group)) });
    }
    let milli_cpu = case.milli_cpu(group * case.pods_per_group + index);
    pod.spec.containers = vec![container(Quantity::milli(milli_cpu))];
    pod
}

/// Wants more than any node has.
fn blocked_pod(index: usize) -> PodView {
    let mut pod = PodView { metadata: meta(format!("blocked-{index:05}")), ..PodView::default() };
    pod.spec.scheduler_name = "default-scheduler".to_owned();
    pod.spec.priority = Some(1_000);
    pod.spec.containers = vec![container(Quantity::whole(5))];
    pod
}

fn container(cpu: Quantity) -> ContainerView {
    let mut container = ContainerView::default();
    container.resources.requests =
        Pairs::from([("cpu".to_owned(), cpu), ("memory".to_owned(), Quantity::whole(100 << 20))]);
    container
}
