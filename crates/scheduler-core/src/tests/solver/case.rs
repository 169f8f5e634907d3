//! One gang and the nodes that it competes for, in plain numbers, and the core's decision about it.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Taint, Toleration};
use k8s_openapi::api::scheduling::v1beta1::{GangSchedulingPolicy, PodGroupSchedulingConstraints, TopologyConstraint};
use types::quantity::Quantity;
use types::views::{ContainerView, MetaView, NodeView, ObjectKey, PodGroupView, PodView, SchedulingGroupView};
use types::{SmallMap, Timestamp};

use crate::{ClusterChange, Config, Core, DecisionAction, Unit};

/// The resources of a case, in the order of [`Amounts`].
const RESOURCES: [&str; 3] = ["cpu", "memory", "nvidia.com/gpu"];
/// An amount of each resource.
pub(super) type Amounts = [i64; 3];
/// The key of the taint that some classes tolerate.
const TAINT: &str = "dedicated";

/// A gang and its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SolverCase {
    pub(super) nodes: Vec<SolverNode>,
    pub(super) classes: Vec<SolverClass>,
    pub(super) min_count: usize,
    /// Whether all pods must be in one rack.
    pub(super) in_rack: bool,
}

/// A node, with the pods that are bound to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SolverNode {
    pub(super) allocatable: Amounts,
    pub(super) pods: i64,
    pub(super) rack: Option<u64>,
    /// The value of the label that some classes select.
    pub(super) disk: u64,
    pub(super) tainted: bool,
    pub(super) bound: Vec<Amounts>,
}

/// Equal pods of the gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SolverClass {
    pub(super) requests: Amounts,
    pub(super) count: usize,
    pub(super) tolerates: bool,
    pub(super) disk: Option<u64>,
}

/// What the core decided.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The node of each placed pod: positions of the class and of the node.
    Placed(Vec<(usize, usize)>),
    Refused {
        proven: bool,
    },
}

impl SolverNode {
    /// What is left beside the bound pods: amounts and pods.
    pub(super) fn free(&self) -> (Amounts, i64) {
        let mut free = self.allocatable;
        self.bound.iter().for_each(|pod| (0..free.len()).for_each(|resource| free[resource] -= pod[resource]));
        (free, self.pods - self.bound.len() as i64)
    }

    /// Whether pods of the class may run here, free capacity aside.
    pub(super) fn allows(&self, class: &SolverClass) -> bool {
        (!self.tainted || class.tolerates) && class.disk.is_none_or(|disk| disk == self.disk)
    }
}

impl SolverCase {
    pub(super) fn pods_count(&self) -> usize {
        self.classes.iter().map(|class| class.count).sum()
    }

    /// Each set of nodes in which the whole gang may be placed.
    pub(super) fn regions(&self) -> Vec<Vec<&SolverNode>> {
        if !self.in_rack {
            return vec![self.nodes.iter().collect()];
        }
        let mut racks: Vec<u64> = self.nodes.iter().filter_map(|node| node.rack).collect();
        racks.sort_unstable();
        racks.dedup();
        let nodes_of = |rack: &u64| self.nodes.iter().filter(|node| node.rack == Some(*rack)).collect();
        racks.iter().map(nodes_of).collect()
    }

    /// A core decides the case with this many search steps.
    pub(super) fn decide(&self, max_search_steps: usize) -> Verdict {
        let mut core = Core::new(Config { max_search_steps, ..Config::default() });
        for (at, node) in self.nodes.iter().enumerate() {
            core.observe(ClusterChange::Node { old: None, new: Some(Arc::new(node_view(at, node))) });
            for (number, requests) in node.bound.iter().enumerate() {
                let mut pod = pod_view(format!("bound-{at}-{number}"), requests);
                pod.spec.node_name = format!("n{at}");
                core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(pod)) });
            }
        }
        core.observe(ClusterChange::PodGroup { old: None, new: Some(Arc::new(self.pod_group_view())) });
        for (at, class) in self.classes.iter().enumerate() {
            for number in 0..class.count {
                let pod = member_view(format!("p{at}-{number}"), class);
                core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(pod)) });
            }
        }
        let decision = core.next(Timestamp::UNIX_EPOCH).expect("the gang is complete");
        assert_eq!(decision.unit, Unit::Group(ObjectKey::new("ns", "gang")));
        match decision.action {
            DecisionAction::Bind(placements) => {
                let at = |name: &str| name[1..].split('-').next().and_then(|at| at.parse().ok()).expect("a number");
                Verdict::Placed(placements.iter().map(|one| (at(&one.pod.name), at(&one.node))).collect())
            }
            DecisionAction::Wait(refusal) => Verdict::Refused { proven: refusal.proven },
            DecisionAction::Release(release) => panic!("nothing is half bound: {release:?}"),
        }
    }

    /// Panics unless the placement reaches `minCount`, is in one region and over-commits no node.
    pub(super) fn check_placement(&self, placed: &[(usize, usize)]) {
        assert!(placed.len() >= self.min_count, "{} pods are placed\n{self}", placed.len());
        let mut free: Vec<(Amounts, i64)> = self.nodes.iter().map(SolverNode::free).collect();
        let mut counts = vec![0; self.classes.len()];
        for (class_at, node_at) in placed {
            let (class, node) = (&self.classes[*class_at], &self.nodes[*node_at]);
            assert!(node.allows(class), "class {class_at} on node {node_at}\n{self}");
            counts[*class_at] += 1;
            free[*node_at].1 -= 1;
            (0..class.requests.len()).for_each(|resource| free[*node_at].0[resource] -= class.requests[resource]);
        }
        assert!(counts.iter().zip(&self.classes).all(|(count, class)| *count <= class.count), "{counts:?}\n{self}");
        for (at, (amounts, pods)) in free.iter().enumerate() {
            let is_used = placed.iter().any(|(_, node)| *node == at);
            assert!(!is_used || *pods >= 0 && amounts.iter().all(|left| *left >= 0), "node {at} is full\n{self}");
        }
        let mut racks: Vec<_> = placed.iter().map(|(_, node)| self.nodes[*node].rack).collect();
        racks.dedup();
        assert!(!self.in_rack || matches!(racks[..], [Some(_)]), "racks {racks:?}\n{self}");
    }

    fn pod_group_view(&self) -> PodGroupView {
        let mut view = PodGroupView { metadata: meta("gang".to_owned()), ..PodGroupView::default() };
        view.spec.scheduling_policy.gang = Some(GangSchedulingPolicy { min_count: self.min_count as i32 });
        if self.in_rack {
            let topology = Some(vec![TopologyConstraint { key: "rack".to_owned() }]);
            view.spec.scheduling_constraints = Some(PodGroupSchedulingConstraints { topology });
        }
        view
    }
}

fn meta(name: String) -> MetaView {
    MetaView { uid: format!("uid-{name}"), name, namespace: "ns".to_owned(), ..MetaView::default() }
}

fn quantities(amounts: &Amounts) -> impl Iterator<Item = (&'static str, Quantity)> {
    RESOURCES.into_iter().zip(amounts.iter().map(|amount| Quantity::whole(*amount)))
}

fn node_view(at: usize, node: &SolverNode) -> NodeView {
    let mut view = NodeView { metadata: meta(format!("n{at}")), ..NodeView::default() };
    let rack = node.rack.map(|rack| ("rack", format!("r{rack}")));
    view.metadata.labels = rack.into_iter().chain([("disk", node.disk.to_string())]).collect();
    let pods = ("pods", Quantity::whole(node.pods));
    view.status.allocatable = quantities(&node.allocatable).chain([pods]).collect();
    if node.tainted {
        view.spec.taints = vec![Taint { key: TAINT.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }];
    }
    view
}

fn pod_view(name: String, requests: &Amounts) -> PodView {
    let mut pod = PodView { metadata: meta(name), ..PodView::default() };
    pod.spec.scheduler_name = "default-scheduler".into();
    let mut container = ContainerView::default();
    container.resources.requests = quantities(requests).filter(|(_, amount)| amount.value() > 0).collect();
    pod.spec.containers = vec![container];
    pod
}

fn member_view(name: String, class: &SolverClass) -> PodView {
    let mut pod = pod_view(name, &class.requests);
    pod.spec.scheduling_group = Some(SchedulingGroupView { pod_group_name: Some("gang".to_owned()) });
    if class.tolerates {
        let (key, operator) = (Some(TAINT.to_owned()), Some("Exists".to_owned()));
        pod.spec.tolerations = vec![Toleration { key, operator, ..Toleration::default() }];
    }
    if let Some(disk) = class.disk {
        pod.spec.node_selector = SmallMap::from([("disk", disk.to_string())]);
    }
    pod
}

/// As text, for the message of a failed test.
impl fmt::Display for SolverCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.in_rack { " in one rack" } else { "" };
        writeln!(f, "gang of {} with minCount {}{place}", self.pods_count(), self.min_count)?;
        self.classes.iter().try_for_each(|class| writeln!(f, "  {class:?}"))?;
        self.nodes.iter().try_for_each(|node| writeln!(f, "  {node:?}"))
    }
}
