//! The core, with virtual time around it: every decision is executed at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use api::quantity::Quantity;
use api::views::{NodeView, ObjectKey, PodGroupView, PodView, SchedulingGroupView};
use api::{SmallMap, Timestamp};
use k8s_openapi::api::scheduling::v1beta1::{GangSchedulingPolicy, PodGroupSchedulingConstraints, TopologyConstraint};
use scheduler_core::{BindOutcome, ClusterChange, Config, Core, DecisionAction, Placement, Unit};

use super::trace::{ARRIVALS_END, DayTrace, DayUnit, GPUS_PER_NODE, NODES, NODES_PER_RACK, UnitKind};
use super::{DaySummary, WaitTimes};
use crate::decisions::{container, meta};
use crate::scheduling_cases::RACK;

const GPU: &str = "nvidia.com/gpu";
/// Units that have not started by then are counted as waiting.
const END: Duration = Duration::from_secs(48 * 3600);

/// A change of the cluster at a point of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DayEvent {
    /// The unit at this position arrives.
    Arrival(usize),
    /// It ends, and its pods are deleted.
    End(usize),
}

/// One run of a day.
pub struct DaySimulation<'a> {
    core: Core,
    trace: &'a DayTrace,
    now: Timestamp,
    events: BinaryHeap<Reverse<(Timestamp, DayEvent)>>,
    /// The pods of units that have not ended, by unit.
    pods: BTreeMap<usize, BTreeMap<ObjectKey, Arc<PodView>>>,
    groups: BTreeMap<usize, Arc<PodGroupView>>,
    /// How many pods of each unit are bound, and when the last one was.
    bound_counts: BTreeMap<usize, usize>,
    started: BTreeMap<usize, Timestamp>,
    /// GPUs in use, and GPUs × seconds until the last arrival.
    used_gpus: i64,
    used_gpu_seconds: f64,
}

impl<'a> DaySimulation<'a> {
    /// Runs until all units have ended that can start.
    pub fn run(trace: &'a DayTrace, config: Config) -> DaySummary {
        let mut simulation = DaySimulation {
            core: Core::new(config),
            trace,
            now: Timestamp::UNIX_EPOCH,
            events: BinaryHeap::new(),
            pods: BTreeMap::new(),
            groups: BTreeMap::new(),
            bound_counts: BTreeMap::new(),
            started: BTreeMap::new(),
            used_gpus: 0,
            used_gpu_seconds: 0.0,
        };
        simulation.create_cluster();
        for (at, unit) in trace.units.iter().enumerate() {
            simulation.events.push(Reverse((Timestamp::UNIX_EPOCH + unit.arrival, DayEvent::Arrival(at))));
        }
        while !simulation.is_over() {
            simulation.step();
        }
        simulation.summary()
    }

    /// The nodes, and in each rack one pod that never ends.
    fn create_cluster(&mut self) {
        for index in 0..NODES {
            let node = Arc::new(node(index));
            self.core.observe(ClusterChange::Node { old: None, new: Some(Arc::clone(&node)) });
            if index.is_multiple_of(NODES_PER_RACK) {
                let mut pod = pod(format!("forever-{index}"), 1, None);
                pod.spec.node_name.clone_from(&node.metadata.name);
                self.core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(pod)) });
            }
        }
    }

    /// Whether only hopeless units are left, or the time is over.
    fn is_over(&self) -> bool {
        let is_hopeless = |at: &usize| self.trace.units[*at].kind == UnitKind::Hopeless;
        (self.events.is_empty() && self.pods.keys().all(is_hopeless)) || self.now >= Timestamp::UNIX_EPOCH + END
    }

    /// Everything that happens at the next point of time.
    fn step(&mut self) {
        let event_at = self.events.peek().map(|Reverse((at, _))| *at);
        let next = event_at.into_iter().chain(self.core.next_at()).min().unwrap_or(Timestamp::UNIX_EPOCH + END);
        let next = next.max(self.now + Duration::from_millis(1));
        let arrivals_end = Timestamp::UNIX_EPOCH + ARRIVALS_END;
        let counted = next.min(arrivals_end).duration_since(self.now.min(arrivals_end));
        self.used_gpu_seconds += counted.as_secs_f64() * self.used_gpus as f64;
        self.now = next;
        while let Some(Reverse((_, event))) = self.events.peek().filter(|Reverse((at, _))| *at <= self.now).copied() {
            self.events.pop();
            match event {
                DayEvent::Arrival(at) => self.create_unit(at),
                DayEvent::End(at) => self.delete_unit(at),
            }
        }
        while let Some(decision) = self.core.next(self.now) {
            if let DecisionAction::Bind(placements) = decision.action {
                self.bind(unit_number(&decision.unit), placements);
            }
        }
    }

    fn create_unit(&mut self, at: usize) {
        let unit = &self.trace.units[at];
        let group = (unit.kind != UnitKind::Small).then(|| format!("unit-{at}"));
        if let Some(name) = &group {
            let group = Arc::new(pod_group(name, unit));
            self.core.observe(ClusterChange::PodGroup { old: None, new: Some(Arc::clone(&group)) });
            self.groups.insert(at, group);
        }
        for index in 0..unit.pods {
            let pod = Arc::new(pod(format!("unit-{at}-{index}"), unit.gpus, group.as_deref()));
            self.core.observe(ClusterChange::Pod { old: None, new: Some(Arc::clone(&pod)) });
            self.pods.entry(at).or_default().insert(pod.metadata.key(), pod);
        }
    }

    fn delete_unit(&mut self, at: usize) {
        self.used_gpus -= self.trace.units[at].gpus * self.trace.units[at].pods as i64;
        for pod in self.pods.remove(&at).unwrap_or_default().into_values() {
            self.core.observe(ClusterChange::Pod { old: Some(pod), new: None });
        }
        if let Some(group) = self.groups.remove(&at) {
            self.core.observe(ClusterChange::PodGroup { old: Some(group), new: None });
        }
    }

    /// The pods run at once. The unit ends when its duration has passed since its last pod was bound.
    fn bind(&mut self, at: usize, placements: Vec<Placement>) {
        let unit = &self.trace.units[at];
        let bound = self.bound_counts.entry(at).or_default();
        *bound += placements.len();
        self.used_gpus += unit.gpus * placements.len() as i64;
        if *bound == unit.pods {
            self.started.insert(at, self.now);
            self.events.push(Reverse((self.now + unit.duration, DayEvent::End(at))));
        }
        let pods = self.pods.get_mut(&at).expect("only units that exist are decided");
        for placement in placements {
            let view = pods.get_mut(&placement.pod).expect("only pods that exist are bound");
            let mut new = (**view).clone();
            new.spec.node_name = placement.node;
            let new = Arc::new(new);
            let old = std::mem::replace(view, Arc::clone(&new));
            self.core.settled(BindOutcome::Bound { pod: placement.pod, uid: placement.uid }, self.now);
            self.core.observe(ClusterChange::Pod { old: Some(old), new: Some(new) });
        }
    }

    fn summary(mut self) -> DaySummary {
        let seconds = self.now.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
        let mut kinds: BTreeMap<UnitKind, WaitTimes> = UnitKind::ALL.map(|kind| (kind, WaitTimes::default())).into();
        for (at, unit) in self.trace.units.iter().enumerate() {
            let arrived = Timestamp::UNIX_EPOCH + unit.arrival;
            let wait = self.started.get(&at).map(|started| started.duration_since(arrived).unsigned_abs());
            kinds.entry(unit.kind).or_default().add(wait);
        }
        kinds.values_mut().for_each(|waits| waits.started.sort_by(f64::total_cmp));
        let all_gpus = (NODES as i64 * GPUS_PER_NODE) as f64;
        DaySummary {
            kinds: kinds.into_iter().collect(),
            seconds,
            used_share: self.used_gpu_seconds / (all_gpus * ARRIVALS_END.as_secs_f64()),
            reserved_idle_share: self.core.take_reserved_idle_seconds() / seconds,
        }
    }
}

/// The position of a unit in the trace, from its name: `unit-7`, or `unit-7-0` for a single pod.
fn unit_number(unit: &Unit) -> usize {
    let number = unit.key().name.split('-').nth(1).and_then(|number| number.parse().ok());
    number.expect("all names of units have this form")
}

fn node(index: usize) -> NodeView {
    let mut node = NodeView::default();
    node.metadata.name = format!("node-{index:03}");
    node.metadata.labels = SmallMap::from([(RACK, format!("rack-{}", index / NODES_PER_RACK))]);
    node.status.allocatable = SmallMap::from([
        ("cpu", Quantity::whole(96)),
        ("memory", Quantity::whole(1 << 40)),
        ("pods", Quantity::whole(110)),
        (GPU, Quantity::whole(GPUS_PER_NODE)),
    ]);
    node
}

fn pod(name: String, gpus: i64, group: Option<&str>) -> PodView {
    let mut pod = PodView { metadata: meta(name), ..PodView::default() };
    pod.spec.scheduler_name = "default-scheduler".into();
    pod.spec.scheduling_group = group.map(|name| SchedulingGroupView { pod_group_name: Some(name.to_owned()) });
    let mut container = container(Quantity::whole(1));
    container.resources.requests = SmallMap::from([("cpu", Quantity::whole(1)), (GPU, Quantity::whole(gpus))]);
    pod.spec.containers = vec![container];
    pod
}

fn pod_group(name: &str, unit: &DayUnit) -> PodGroupView {
    let mut view = PodGroupView { metadata: meta(name.to_owned()), ..PodGroupView::default() };
    view.spec.scheduling_policy.gang = Some(GangSchedulingPolicy { min_count: unit.pods as i32 });
    let topology = unit.in_rack.then(|| vec![TopologyConstraint { key: RACK.to_owned() }]);
    view.spec.scheduling_constraints =
        topology.map(|topology| PodGroupSchedulingConstraints { topology: Some(topology) });
    view
}
