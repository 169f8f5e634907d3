//! Changes beside thousands of waiting gangs: what each change costs, and how many decisions it causes.
//!
//! 1,000 full nodes. 10,000 gangs of eight pods wait. Then running pods end, one after the other: each leaves room for
//! one pod of a waiting gang, and every eighth lets a gang start. Its pods are the next to run and end. The clock stands
//! still, so nothing is reserved and no unit is decided because time has passed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api::Timestamp;
use api::quantity::Quantity;
use api::views::{ObjectKey, PodView};
use scheduler_core::{BindOutcome, ClusterChange, Config, Core, DecisionAction, QueueEvent, SubQueue};

use super::{container, meta, node, percentile, pod, pod_group};
use crate::scheduling_cases::SchedulingCase;

/// The names for `--case`: equal gangs, gangs of 50 and of 900 sizes, and gangs whose leader has another size.
pub const CASES: [&str; 4] = ["waiting-10000", "waiting-10000-of-50", "waiting-10000-of-900", "waiting-10000-leader"];

const NODES: usize = 1_000;
const CPUS_PER_NODE: usize = 4;
const GANGS: usize = 10_000;
const PODS_PER_GANG: usize = 8;
const CHANGES: usize = 4_000;

/// Measures a case and prints a line.
pub fn run(name: &str) -> anyhow::Result<()> {
    let mut load = Load::new(name)?;
    load.core.take_incoming();
    let mut run = WaitingRun::default();
    for _ in 0..CHANGES {
        load.end_one(&mut run)?;
    }
    ensure!(run.started > CHANGES / PODS_PER_GANG / 2, "only {} gangs started", run.started);
    let incoming = load.core.take_incoming();
    let woken = incoming.get(&(SubQueue::Active, QueueEvent::AssignedPodDelete)).map_or(0, |counts| counts.units);
    let waiting = load.core.sub_queue_counts(SubQueue::Unschedulable).groups;
    let decisions = run.started + run.refused;
    run.changes.sort_unstable();
    let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(&run.changes, percent) * 1e3);
    println!("waiting  changes   p50 µs   p99 µs   max µs   woken  started  refused  decisions per change, per woken");
    println!(
        "{waiting:>7} {CHANGES:>8} {p50:>8.1} {p99:>8.1} {max:>8.1} {woken:>7} {:>8} {:>8} {:>20.2} {:>10.2}",
        run.started,
        run.refused,
        decisions as f64 / CHANGES as f64,
        decisions as f64 / woken.max(1) as f64,
    );
    Ok(())
}

#[derive(Default)]
struct WaitingRun {
    /// The time of each change with all decisions that it caused.
    changes: Vec<Duration>,
    started: usize,
    refused: usize,
}

struct Load {
    core: Core,
    /// Pods that run, in the order in which they end.
    running: VecDeque<Arc<PodView>>,
    case: SchedulingCase,
}

impl Load {
    /// Full nodes and waiting gangs.
    fn new(name: &str) -> anyhow::Result<Load> {
        let shape = name.replacen(&format!("waiting-{GANGS}"), &format!("gang-{GANGS}x{PODS_PER_GANG}"), 1);
        let mut load = Load { core: Core::new(Config::default()), running: VecDeque::new(), case: shape.parse()? };
        for index in 0..NODES {
            let node = Arc::new(node(index));
            load.core.observe(ClusterChange::Node { old: None, new: Some(Arc::clone(&node)) });
            for number in 0..CPUS_PER_NODE {
                let mut pod = PodView { metadata: meta(format!("running-{index:05}-{number}")), ..PodView::default() };
                pod.spec.node_name = node.metadata.name.clone();
                pod.spec.containers = vec![container(Quantity::whole(1))];
                let pod = Arc::new(pod);
                load.core.observe(ClusterChange::Pod { old: None, new: Some(Arc::clone(&pod)) });
                load.running.push_back(pod);
            }
        }
        for group in 0..GANGS {
            let view = pod_group(&load.case, group).map(Arc::new).context("gangs have a PodGroup")?;
            load.core.observe(ClusterChange::PodGroup { old: None, new: Some(view) });
            for index in 0..PODS_PER_GANG {
                let view = Arc::new(load.member(group, index));
                load.core.observe(ClusterChange::Pod { old: None, new: Some(view) });
            }
        }
        let mut refused = 0;
        while let Some(decision) = load.core.next(Timestamp::UNIX_EPOCH) {
            ensure!(matches!(decision.action, DecisionAction::Wait(_)), "{} does not wait", decision.unit);
            refused += 1;
        }
        println!("{name}: {refused} decisions until all gangs wait");
        Ok(load)
    }

    /// Up to one CPU, so that a pod of any gang fits where another has ended. All pods of a gang have one size; a leader
    /// requests half as much as the others.
    fn member(&self, group: usize, index: usize) -> PodView {
        let mut member = pod(&self.case, group, index);
        let size = 1_000 - i64::try_from(group % self.case.classes).unwrap_or_default();
        let is_leader = self.case.has_leaders && index == 0;
        member.spec.containers = vec![container(Quantity::milli(if is_leader { size / 2 } else { size }))];
        member
    }

    /// The pod that has run longest ends, and what fits now is placed.
    fn end_one(&mut self, run: &mut WaitingRun) -> anyhow::Result<()> {
        let ended = self.running.pop_front().context("pods run")?;
        let started = Instant::now();
        self.core.observe(ClusterChange::Pod { old: Some(ended), new: None });
        let mut took = started.elapsed();
        loop {
            let started = Instant::now();
            let decision = self.core.next(Timestamp::UNIX_EPOCH);
            took += started.elapsed();
            let Some(decision) = decision else { break };
            let DecisionAction::Bind(placements) = decision.action else {
                run.refused += 1;
                continue;
            };
            run.started += 1;
            for placement in placements {
                let unbound = self.member_named(&placement.pod)?;
                let mut bound = unbound.clone();
                bound.spec.node_name = placement.node;
                let bound = Arc::new(bound);
                self.core.settled(BindOutcome::Bound { pod: placement.pod, uid: placement.uid }, Timestamp::UNIX_EPOCH);
                let change = ClusterChange::Pod { old: Some(Arc::new(unbound)), new: Some(Arc::clone(&bound)) };
                self.core.observe(change);
                self.running.push_back(bound);
            }
        }
        run.changes.push(took);
        Ok(())
    }

    fn member_named(&self, key: &ObjectKey) -> anyhow::Result<PodView> {
        let (_, numbers) = key.name.split_once('-').context("pods are numbered")?;
        let (group, index) = numbers.split_once('-').context("pods are numbered in their group")?;
        Ok(self.member(group.parse()?, index.parse()?))
    }
}
