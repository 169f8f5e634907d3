//! Decisions while waiting groups are explained on another thread: what forks cost the decisions.
//!
//! 5,000 nodes with ten running pods each. 1,000 gangs wait, because each needs 16 empty nodes of one rack. Gangs of
//! three come, are decided and leave, as fast as the core decides. Meanwhile all waiting gangs are explained once, a few
//! with each fork. Then as many gangs are decided without explanations, on the same core.

use std::sync::Arc;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api::Timestamp;
use api::quantity::Quantity;
use api::views::{ObjectKey, PodView, SchedulingGroupView};
use scheduler_core::{BindOutcome, ClusterChange, Config, Core, DecisionAction, ExplainTask, Fork, Unit};

use super::{container, meta, node, percentile, pod, pod_group};
use crate::scheduling_cases::{DEFAULT_NODES, NAMESPACE, SchedulingCase};

/// The name for `--case`.
pub const CASE: &str = "explained-1000";

const WAITING_GANGS: usize = 1_000;
const PODS_PER_WAITING_GANG: usize = 16;
const RUNNING_PODS_PER_NODE: usize = 10;
/// How many gangs are explained with one fork.
const BATCH: usize = 16;
/// Runs with and without explanations, in turn.
const ROUNDS: usize = 5;

/// Measures the case and prints a line for each round and the medians.
pub fn run() -> anyhow::Result<()> {
    let mut load = Load::new()?;
    println!("round    decisions   beside   p50 ms  p99 ms   max ms   alone p50   p99   ratio   forks  p50 ms  max ms");
    let mut ratios = Vec::new();
    for round in 1..=ROUNDS {
        let explained = load.decide_while_explaining()?;
        let alone = load.decide_alone(explained.decisions.len())?;
        let (beside, decisions, forks) = (explained.beside, &explained.decisions, &explained.forks);
        ratios.push(percentile(decisions, 50) / percentile(&alone, 50));
        println!(
            "{round:<8} {:>9} {beside:>8} {:>8.4} {:>7.4} {:>8.4} {:>11.4} {:>5.3} {:>7.3} {:>7} {:>7.3} {:>7.3}",
            decisions.len(),
            percentile(decisions, 50),
            percentile(decisions, 99),
            percentile(decisions, 100),
            percentile(&alone, 50),
            percentile(&alone, 99),
            ratios[round - 1],
            forks.len(),
            percentile(forks, 50),
            percentile(forks, 100),
        );
        // The core never waits for the explainer: were explanations on its thread, no decision would be beside one.
        ensure!(beside > decisions.len() / 2, "only {beside} decisions were made beside an explanation");
    }
    ratios.sort_unstable_by(f64::total_cmp);
    println!("p50 with explanations is {:.3} times that without, the median of {ROUNDS} rounds", ratios[ROUNDS / 2]);
    Ok(())
}

/// Times of one run with explanations.
struct ExplainedRun {
    decisions: Vec<Duration>,
    /// Decisions that began and ended while an explanation was in progress.
    beside: usize,
    /// Making a fork with its tasks.
    forks: Vec<Duration>,
}

struct Load {
    core: Core,
    case: SchedulingCase,
    next_gang: usize,
}

impl Load {
    /// A core with running pods and waiting gangs.
    fn new() -> anyhow::Result<Load> {
        let mut core = Core::new(Config::default());
        for index in 0..DEFAULT_NODES {
            let node = Arc::new(node(index));
            core.observe(ClusterChange::Node { old: None, new: Some(Arc::clone(&node)) });
            for number in 0..RUNNING_PODS_PER_NODE {
                let mut running = single(&format!("running-{index:05}-{number}"), Quantity::milli(100));
                running.spec.node_name = node.metadata.name.clone();
                core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(running)) });
            }
        }
        let waiting: SchedulingCase = format!("tas-{WAITING_GANGS}x{PODS_PER_WAITING_GANG}").parse()?;
        for group in 0..WAITING_GANGS {
            let mut view = pod_group(&waiting, group).context("gangs have a PodGroup")?;
            view.metadata = meta(waiting_name(group));
            core.observe(ClusterChange::PodGroup { old: None, new: Some(Arc::new(view)) });
            for index in 0..PODS_PER_WAITING_GANG {
                let mut member = pod(&waiting, group, index);
                member.metadata = meta(format!("{}-{index:02}", waiting_name(group)));
                member.spec.scheduling_group = Some(SchedulingGroupView { pod_group_name: Some(waiting_name(group)) });
                member.spec.containers = vec![container(Quantity::whole(4))];
                core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(member)) });
            }
        }
        let mut refused = 0;
        while let Some(decision) = core.next(Timestamp::UNIX_EPOCH) {
            ensure!(matches!(decision.action, DecisionAction::Wait(_)), "{} does not wait", decision.unit);
            refused += 1;
        }
        ensure!(refused == WAITING_GANGS, "{refused} of {WAITING_GANGS} gangs wait");
        Ok(Load { core, case: "gang-1x3".parse()?, next_gang: 0 })
    }

    /// Decides gangs until each waiting one is explained on another thread.
    fn decide_while_explaining(&mut self) -> anyhow::Result<ExplainedRun> {
        let (batches, received) = channel::<(Fork, Vec<ExplainTask>)>();
        let (ended, end) = channel();
        let mut run = ExplainedRun { decisions: Vec::new(), beside: 0, forks: Vec::new() };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (mut fork, tasks) in received {
                    let explained = tasks.into_iter().map(|task| fork.explain(task).0);
                    let refused = explained.filter(|explanation| explanation.refusal.is_some()).count();
                    if ended.send(refused).is_err() {
                        return;
                    }
                }
            });
            let (mut asked, mut refused) = (0, 0);
            while refused < WAITING_GANGS {
                if asked == refused {
                    let started = Instant::now();
                    let groups = asked..(asked + BATCH).min(WAITING_GANGS);
                    asked = groups.end;
                    let unit = |group| Unit::Group(ObjectKey::new(NAMESPACE, waiting_name(group)));
                    let tasks = groups.filter_map(|group| self.core.explain_task(&unit(group), &[])).collect();
                    let batch = (self.core.fork(), tasks);
                    run.forks.push(started.elapsed());
                    batches.send(batch).context("the explainer runs")?;
                }
                run.decisions.push(self.decide_one()?);
                match end.try_recv() {
                    Ok(count) => refused += count,
                    Err(TryRecvError::Empty) => run.beside += 1,
                    Err(TryRecvError::Disconnected) => anyhow::bail!("the explainer has ended"),
                }
            }
            drop(batches);
            run.decisions.sort_unstable();
            run.forks.sort_unstable();
            Ok(run)
        })
    }

    fn decide_alone(&mut self, count: usize) -> anyhow::Result<Vec<Duration>> {
        let mut decisions = (0..count).map(|_| self.decide_one()).collect::<anyhow::Result<Vec<Duration>>>()?;
        decisions.sort_unstable();
        Ok(decisions)
    }

    /// A gang comes, is decided and leaves. Returns the time of the decision.
    fn decide_one(&mut self) -> anyhow::Result<Duration> {
        let gang = self.next_gang;
        self.next_gang += 1;
        let group = pod_group(&self.case, gang).map(Arc::new).context("gangs have a PodGroup")?;
        self.core.observe(ClusterChange::PodGroup { old: None, new: Some(Arc::clone(&group)) });
        let pods: Vec<Arc<PodView>> = (0..3).map(|index| Arc::new(pod(&self.case, gang, index))).collect();
        for pod in &pods {
            self.core.observe(ClusterChange::Pod { old: None, new: Some(Arc::clone(pod)) });
        }
        let started = Instant::now();
        let decision = self.core.next(Timestamp::UNIX_EPOCH).context("a gang that fits is decided")?;
        let took = started.elapsed();
        let DecisionAction::Bind(placements) = decision.action else { anyhow::bail!("{} waits", decision.unit) };
        for placement in placements {
            let bound = BindOutcome::Bound { pod: placement.pod, uid: placement.uid };
            self.core.settled(bound, Timestamp::UNIX_EPOCH);
        }
        for pod in pods {
            self.core.observe(ClusterChange::Pod { old: Some(pod), new: None });
        }
        self.core.observe(ClusterChange::PodGroup { old: Some(group), new: None });
        Ok(took)
    }
}

fn waiting_name(group: usize) -> String {
    format!("waiting-{group:04}")
}

fn single(name: &str, cpu: Quantity) -> PodView {
    let mut pod = PodView { metadata: meta(name.to_owned()), ..PodView::default() };
    pod.spec.scheduler_name = "default-scheduler".into();
    pod.spec.containers = vec![container(cpu)];
    pod
}
