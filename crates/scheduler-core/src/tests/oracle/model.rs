//! The state that the changes of a history lead to, and what follows from it. Nothing is carried over from an earlier
//! decision but what the core promises to remember.

use std::collections::{BTreeMap, BTreeSet};

use types::Timestamp;

use crate::tests::reference_model::{FreeNode, PodShape, most_pods_that_fit};

/// All nodes, pods and groups.
#[derive(Default)]
pub(super) struct ClusterModel {
    pub(super) nodes: BTreeMap<String, NodeState>,
    pub(super) pods: BTreeMap<String, PodState>,
    pub(super) groups: BTreeMap<String, GroupState>,
}

#[derive(Default)]
pub(super) struct NodeState {
    pub(super) gpu: i64,
    pub(super) cpu: i64,
    pub(super) pods: i64,
    pub(super) rack: Option<String>,
    pub(super) is_tainted: bool,
    pub(super) has_ssd: bool,
    /// Another scheduler has bound more to it than it has.
    pub(super) has_surplus: bool,
    pub(super) overcommitted_since: Option<Timestamp>,
}

#[derive(Clone)]
pub(super) struct PodState {
    pub(super) shape: PodShape,
    pub(super) group: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) stage: PodStage,
    pub(super) is_terminating: bool,
    /// Its GPUs once the result of its bind is known, if it was resized meanwhile.
    pub(super) resized_gpu: Option<i64>,
    /// It succeeded in an earlier run of its group.
    pub(super) is_past: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodStage {
    Gated,
    Pending,
    /// A pending pod of another scheduler.
    Nominated(Nomination),
    /// A bind was sent, and its result is unknown.
    InFlight(String),
    Bound(String),
    Succeeded,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nomination {
    pub(super) node: String,
    /// Units of this priority and of lower ones leave it its room.
    pub(super) priority: u8,
}

#[derive(Default)]
pub(super) struct GroupState {
    /// The PodGroup was deleted.
    pub(super) is_forgotten: bool,
    /// None for a Basic group.
    pub(super) min_count: Option<usize>,
    /// How many pods it can still have at once, where that is declared.
    pub(super) expected_count: Option<usize>,
    pub(super) in_rack: bool,
    pub(super) priority: u8,
    /// The Job it belongs to; pods of other Jobs are not members.
    pub(super) owner: Option<String>,
    /// The condition `PodGroupInitiallyScheduled`.
    pub(super) is_reached: bool,
    /// Its quorum was bound at once since it last started.
    pub(super) had_quorum: bool,
    /// The current core decided its last start.
    pub(super) start_observed: bool,
    /// The current core observed members that were terminating already. Those that it observed first do not show it that
    /// the gang was whole; pods that have started would.
    pub(super) has_unclear_start: bool,
    /// The core reported that the current run continues the one before.
    pub(super) is_continued: bool,
    pub(super) is_half_bound: bool,
    /// Since when, with the same number of binds in flight.
    pub(super) half_bound_since: Option<(Timestamp, usize)>,
}

impl PodState {
    /// The node that it uses.
    pub(super) fn node(&self) -> Option<&String> {
        match &self.stage {
            PodStage::InFlight(node) | PodStage::Bound(node) => Some(node),
            PodStage::Gated | PodStage::Pending | PodStage::Nominated(_) | PodStage::Succeeded => None,
        }
    }

    /// Its bind succeeded or failed.
    pub(super) fn settle(&mut self, stage: PodStage) {
        self.stage = stage;
        self.shape.gpu = self.resized_gpu.take().unwrap_or(self.shape.gpu);
    }

    pub(super) fn is_bound(&self) -> bool {
        matches!(self.stage, PodStage::Bound(_))
    }

    /// Whether it is to be placed.
    pub(super) fn is_pending(&self) -> bool {
        self.stage == PodStage::Pending && !self.is_terminating
    }
}

impl ClusterModel {
    /// The pods that name the group.
    fn naming<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a PodState> {
        self.pods.values().filter(move |pod| pod.group.as_deref() == Some(group))
    }

    /// Those of them that the group may have.
    pub(super) fn members<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a PodState> {
        self.naming(group).filter(|pod| self.is_member(pod))
    }

    pub(super) fn is_member(&self, pod: &PodState) -> bool {
        let Some(state) = pod.group.as_ref().map(|group| &self.groups[group]) else { return false };
        state.is_forgotten || state.owner.is_none() || state.owner == pod.owner
    }

    /// Members on nodes that count for the group.
    pub(super) fn placed<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a PodState> {
        self.members(group).filter(|pod| pod.node().is_some() && !(pod.is_bound() && pod.is_terminating))
    }

    /// Members whose bind was sent, and its result is unknown.
    pub(super) fn in_flight_count(&self, group: &str) -> usize {
        self.members(group).filter(|pod| matches!(pod.stage, PodStage::InFlight(_))).count()
    }

    pub(super) fn pending<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a PodState> {
        self.members(group).filter(|pod| pod.is_pending())
    }

    fn succeeded_count(&self, group: &str) -> usize {
        self.members(group).filter(|pod| pod.stage == PodStage::Succeeded && !pod.is_past).count()
    }

    fn counted(&self, group: &str) -> usize {
        self.placed(group).count() + self.succeeded_count(group)
    }

    /// How many members a gang needs; none for a Basic group.
    fn quorum(&self, group: &str) -> Option<usize> {
        let existing = self.counted(group) + self.pending(group).count();
        let state = &self.groups[group];
        let can_be = state.expected_count.map_or(usize::MAX, |expected| expected + self.succeeded_count(group));
        let min_count = state.min_count.filter(|_| !state.is_forgotten)?.min(can_be).max(1);
        Some(if state.is_continued { min_count.min(existing).max(1) } else { min_count })
    }

    fn has_had_quorum(&self, group: &str) -> bool {
        let state = &self.groups[group];
        state.had_quorum || (state.is_reached && !state.start_observed)
    }

    /// The least number of pods that a decision about the group must place.
    pub(super) fn required_count(&self, group: &str) -> usize {
        let runs_on = self.groups[group].is_reached && self.placed(group).count() > 0 && self.has_had_quorum(group);
        let wanted = self.quorum(group).filter(|_| !runs_on).unwrap_or(1);
        wanted.saturating_sub(self.counted(group)).max(1)
    }

    /// Whether a Basic group waits for gated pods before its domain is chosen.
    fn waits_for_gates(&self, group: &str) -> bool {
        let state = &self.groups[group];
        let is_gated = |pod: &PodState| pod.stage == PodStage::Gated;
        state.min_count.is_none()
            && state.in_rack
            && self.placed(group).count() == 0
            && self.naming(group).any(is_gated)
    }

    /// Whether the group can be decided and enough of its pods fit, by exhaustive search.
    pub(super) fn group_fits(&self, group: &str) -> bool {
        let shapes: Vec<_> = self.pending(group).map(|pod| pod.shape).collect();
        let required = self.required_count(group);
        if self.groups[group].is_forgotten || shapes.len() < required || self.waits_for_gates(group) {
            return false;
        }
        let priority = self.groups[group].priority;
        let fits_in = |rack: Option<&String>| {
            let inside = self.nodes.iter().filter(|(_, node)| rack.is_none() || node.rack.as_ref() == rack);
            most_pods_that_fit(&shapes, inside.map(|(name, _)| self.free_for(name, priority))) >= required
        };
        if !self.groups[group].in_rack {
            return fits_in(None);
        }
        let Some(mut racks) = self.racks_of(group) else { return false };
        if racks.is_empty() {
            racks = self.nodes.values().filter_map(|node| node.rack.clone()).collect();
        } else if racks.len() > 1 {
            return false;
        }
        racks.iter().any(|rack| fits_in(Some(rack)))
    }

    pub(super) fn pod_fits(&self, name: &str) -> bool {
        let shape = self.pods[name].shape;
        self.nodes.keys().any(|node| self.free_for(node, 0).takes(shape))
    }

    /// The racks of its members; none if one of them is on a node without a rack.
    pub(super) fn racks_of(&self, group: &str) -> Option<BTreeSet<String>> {
        let nodes = self.placed(group).filter_map(|pod| self.nodes.get(pod.node()?));
        nodes.map(|node| node.rack.clone()).collect()
    }

    /// What is free on a node for a unit of a priority, beside pods that are nominated to the node.
    fn free_for(&self, name: &str, unit_priority: u8) -> FreeNode {
        let is_respected = |stage: &PodStage| match stage {
            PodStage::Nominated(Nomination { node, priority }) => node == name && *priority >= unit_priority,
            _ => false,
        };
        let nominated: Vec<_> = self.pods.values().filter(|pod| is_respected(&pod.stage)).collect();
        let free = self.free(name);
        FreeNode {
            gpu: free.gpu - nominated.iter().map(|pod| pod.shape.gpu).sum::<i64>(),
            cpu: free.cpu - nominated.iter().map(|pod| pod.shape.cpu).sum::<i64>(),
            pods: free.pods - nominated.len() as i64,
            ..free
        }
    }

    /// What is free on a node.
    pub(super) fn free(&self, name: &str) -> FreeNode {
        let node = &self.nodes[name];
        let on: Vec<_> = self.pods.values().filter(|pod| pod.node().is_some_and(|node| node == name)).collect();
        let pods = if node.is_tainted { 0 } else { node.pods - on.len() as i64 };
        FreeNode {
            number: name[1..].parse().expect("nodes have numbers"),
            gpu: node.gpu - on.iter().map(|pod| pod.shape.gpu).sum::<i64>(),
            cpu: node.cpu - on.iter().map(|pod| pod.shape.cpu).sum::<i64>(),
            pods,
            has_ssd: node.has_ssd,
        }
    }

    /// A pod that was just placed must fit beside the others.
    pub(super) fn assert_placed_within_capacity(&self, name: &str) {
        let pod = &self.pods[name];
        let node = pod.node().expect("it was placed");
        let priority = pod.group.as_ref().map_or(0, |group| self.groups[group].priority);
        let free = self.free_for(node, priority);
        let without_it = FreeNode {
            gpu: free.gpu + pod.shape.gpu,
            cpu: free.cpu + pod.shape.cpu,
            pods: free.pods + i64::from(!self.nodes[node].is_tainted),
            ..free
        };
        assert!(without_it.takes(pod.shape), "{name} does not fit on {node}: {without_it:?}");
    }

    /// Whether the pods bound to a node need more than it has.
    pub(super) fn is_overcommitted(&self, name: &str) -> bool {
        let is_counted = |pod: &&PodState| !pod.is_terminating && pod.stage == PodStage::Bound(name.to_owned());
        let on: Vec<_> = self.pods.values().filter(is_counted).collect();
        let node = &self.nodes[name];
        let sum = |amount: fn(&PodShape) -> i64| on.iter().map(|pod| amount(&pod.shape)).sum::<i64>();
        sum(|shape| shape.gpu) > node.gpu || sum(|shape| shape.cpu) > node.cpu || on.len() as i64 > node.pods
    }

    /// A decision places pods of the group.
    pub(super) fn note_start(&mut self, group: &str) {
        if self.placed(group).count() == 0 {
            let state = self.groups.get_mut(group).expect("a decided group exists");
            (state.had_quorum, state.start_observed, state.has_unclear_start) = (false, true, false);
        }
    }

    /// Nodes that are no longer over-committed start anew.
    pub(super) fn update_nodes(&mut self) {
        for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
            if !self.is_overcommitted(&name) {
                let node = self.nodes.get_mut(&name).expect("it exists");
                (node.has_surplus, node.overcommitted_since) = (false, None);
            }
        }
    }

    /// Records which gangs have their quorum, and which are half bound.
    pub(super) fn update_groups(&mut self) {
        for name in self.groups.keys().cloned().collect::<Vec<_>>() {
            let Some(quorum) = self.quorum(&name) else {
                let state = self.groups.get_mut(&name).expect("it exists");
                (state.is_half_bound, state.half_bound_since) = (false, None);
                continue;
            };
            let has_quorum = self.has_quorum(&name);
            self.groups.get_mut(&name).expect("it exists").had_quorum |= has_quorum;
            let is_half_bound =
                self.placed(&name).count() > 0 && !self.has_had_quorum(&name) && self.counted(&name) < quorum;
            let state = self.groups.get_mut(&name).expect("it exists");
            state.is_half_bound = is_half_bound;
            state.half_bound_since.take_if(|_| !is_half_bound);
        }
    }

    /// Whether the group's quorum is bound.
    pub(super) fn has_quorum(&self, group: &str) -> bool {
        let bound = self.placed(group).filter(|pod| pod.is_bound()).count() + self.succeeded_count(group);
        self.quorum(group).is_some_and(|quorum| bound >= quorum)
    }

    /// A new core knows only what objects show.
    pub(super) fn forget_observations(&mut self) {
        self.pods.values_mut().for_each(|pod| pod.is_past = false);
        for name in self.groups.keys().cloned().collect::<Vec<_>>() {
            let state = self.groups.get_mut(&name).expect("it exists");
            (state.is_continued, state.start_observed, state.half_bound_since) = (false, false, None);
            // Terminating members may be evidence that the gang was whole.
            let bound = self.members(&name).filter(|pod| pod.is_bound()).count() + self.succeeded_count(&name);
            let has_quorum = self.quorum(&name).is_some_and(|quorum| bound >= quorum);
            let has_unclear_start = self.members(&name).any(|pod| pod.is_bound() && pod.is_terminating);
            let state = self.groups.get_mut(&name).expect("it exists");
            (state.had_quorum, state.has_unclear_start) = (has_quorum, has_unclear_start);
        }
        self.nodes.values_mut().for_each(|node| (node.has_surplus, node.overcommitted_since) = (false, None));
    }
}
