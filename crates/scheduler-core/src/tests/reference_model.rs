//! A plain model of the cluster, against which decisions on generated clusters are checked.

use std::collections::{BTreeMap, BTreeSet};

/// A plain reference model of the cluster.
#[derive(Default)]
pub(super) struct ReferenceModel {
    pub(super) nodes: BTreeMap<String, ModelNode>,
    pub(super) pods: BTreeMap<String, ModelPod>,
    pub(super) groups: BTreeMap<String, ModelGroup>,
    pub(super) created_count: usize,
}

pub(super) struct ModelNode {
    pub(super) gpu: i64,
    pub(super) pods: i64,
    pub(super) rack: Option<String>,
    pub(super) tainted: bool,
}

pub(super) struct ModelPod {
    pub(super) gpu: i64,
    pub(super) port: bool,
    pub(super) group: Option<String>,
    /// Set when the pod is placed.
    pub(super) node: Option<String>,
    /// Whether the watch has shown it bound.
    pub(super) observed_bound: bool,
    pub(super) succeeded: bool,
    /// Whether it succeeded in an earlier run of its group: a pod was created after all others had ended.
    pub(super) is_past: bool,
}

pub(super) struct ModelGroup {
    pub(super) min_count: Option<usize>,
    pub(super) in_rack: bool,
    pub(super) priority: u8,
}

impl ReferenceModel {
    pub(super) fn placed<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a ModelPod> {
        self.pods.values().filter(move |pod| pod.group.as_deref() == Some(group) && pod.node.is_some())
    }

    /// Members that succeeded in the current run.
    pub(super) fn succeeded_count(&self, group: &str) -> i64 {
        let members = self.pods.values().filter(|pod| pod.group.as_deref() == Some(group));
        members.filter(|pod| pod.succeeded && !pod.is_past).count() as i64
    }

    pub(super) fn free_slots(&self, name: &str, gpu: i64) -> i64 {
        let node = &self.nodes[name];
        let on: Vec<_> = self.pods.values().filter(|pod| pod.node.as_deref() == Some(name)).collect();
        let free_gpu = node.gpu - on.iter().map(|pod| pod.gpu).sum::<i64>();
        if node.tainted { 0 } else { (free_gpu / gpu).min(node.pods - on.len() as i64).max(0) }
    }

    pub(super) fn pending_sizes(&self, group: &str) -> Vec<i64> {
        let members = self.pods.values().filter(|pod| pod.group.as_deref() == Some(group));
        members.filter(|pod| pod.node.is_none() && !pod.succeeded).map(|pod| pod.gpu).collect()
    }

    pub(super) fn is_mixed(&self, group: &str) -> bool {
        self.pending_sizes(group).windows(2).any(|sizes| sizes[0] != sizes[1])
    }

    /// How many of the group's pending pods fit at most, by exhaustive search.
    pub(super) fn fits_at_most(&self, group: &str) -> usize {
        let sizes = self.pending_sizes(group);
        let inside = |rack: Option<&String>| -> usize {
            let nodes = self.nodes.iter().filter(|(_, node)| rack.is_none() || node.rack.as_ref() == rack);
            most_that_fit(&sizes, nodes.map(|(name, node)| self.free_on(name, node)).collect())
        };
        if !self.groups[group].in_rack {
            return inside(None);
        }
        let pinned = self.racks_of(group);
        let racks: BTreeSet<&String> = match pinned.len() {
            _ if self.is_outside(group) => BTreeSet::new(),
            0 => self.nodes.values().filter_map(|node| node.rack.as_ref()).collect(),
            1 => pinned.iter().collect(),
            _ => BTreeSet::new(),
        };
        racks.into_iter().map(|rack| inside(Some(rack))).max().unwrap_or(0)
    }

    /// Free GPUs and pod slots of a node.
    pub(super) fn free_on(&self, name: &str, node: &ModelNode) -> (i64, i64) {
        let on: Vec<_> = self.pods.values().filter(|pod| pod.node.as_deref() == Some(name)).collect();
        let free = (node.gpu - on.iter().map(|pod| pod.gpu).sum::<i64>(), node.pods - on.len() as i64);
        if node.tainted { (0, 0) } else { free }
    }

    /// No waiting unit fits: no change that freed capacity was missed.
    pub(super) fn assert_nothing_more_fits(&self) {
        for (name, group) in &self.groups {
            let (fits, placed) = (self.fits_at_most(name), self.placed(name).count());
            let wanted = group.min_count.unwrap_or(1).saturating_sub(placed + self.succeeded_count(name) as usize);
            assert!(fits < wanted.max(1), "{name} fits but was not woken");
        }
        let singles = self.pods.iter().filter(|(_, pod)| pod.group.is_none() && pod.node.is_none() && !pod.succeeded);
        for (name, pod) in singles.filter(|(_, pod)| pod.gpu > 0 && !pod.port) {
            assert!(self.nodes.keys().all(|node| self.free_slots(node, pod.gpu) == 0), "{name} fits but was not woken");
        }
    }

    pub(super) fn racks_of(&self, group: &str) -> BTreeSet<String> {
        let nodes = self.placed(group).filter_map(|pod| self.nodes.get(pod.node.as_deref()?));
        nodes.filter_map(|node| node.rack.clone()).collect()
    }

    /// Whether members are on a node that is in no rack any more.
    pub(super) fn is_outside(&self, group: &str) -> bool {
        let mut nodes = self.placed(group).filter_map(|pod| self.nodes.get(pod.node.as_deref()?));
        nodes.any(|node| node.rack.is_none())
    }

    /// A node may have shrunk under its pods; a newly placed pod must fit into what it has now.
    pub(super) fn assert_not_overcommitted(&self, name: &str, placed: &str) {
        let node = self.nodes.get(name).expect("pods are placed only on existing nodes");
        let on: Vec<_> = self.pods.values().filter(|pod| pod.node.as_deref() == Some(name)).collect();
        let gpu = on.iter().map(|pod| pod.gpu).sum::<i64>();
        assert!(gpu <= node.gpu || self.pods[placed].gpu == 0, "{gpu} of {} GPUs used on {name}", node.gpu);
        assert!(on.len() as i64 <= node.pods, "too many pods on {name}");
        assert!(on.iter().filter(|pod| pod.port).count() <= 1, "one host port twice on {name}");
        assert!(!node.tainted, "{name} is tainted");
    }

    pub(super) fn assert_atomic_and_together(&self, group: &str) {
        let placed = self.placed(group).count() + self.succeeded_count(group) as usize;
        assert!(placed >= self.groups[group].min_count.unwrap_or(1), "{group} has {placed} pods placed");
        if self.groups[group].in_rack {
            assert_eq!(self.racks_of(group).len(), 1, "{group} is spread over racks");
            assert!(!self.is_outside(group), "a member of {group} is in no rack");
        }
    }
}

/// The most pods of these sizes that fit on nodes with this free capacity.
pub(super) fn most_that_fit(sizes: &[i64], nodes: Vec<(i64, i64)>) -> usize {
    let pods: Vec<_> = sizes.iter().map(|gpu| PodShape { gpu: *gpu, ..PodShape::default() }).collect();
    let nodes = nodes.into_iter().map(|(gpu, pods)| FreeNode { gpu, pods, cpu: 0, has_ssd: false, number: 0 });
    most_pods_that_fit(&pods, nodes)
}

/// What a pod requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodShape {
    pub(super) gpu: i64,
    pub(super) cpu: i64,
    /// Only nodes with an SSD will do.
    pub(super) on_ssd: bool,
    /// Only the node of this number will do.
    pub(super) on_node: Option<u8>,
}

/// What is free on a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeNode {
    pub(super) number: u8,
    pub(super) gpu: i64,
    pub(super) cpu: i64,
    pub(super) pods: i64,
    pub(super) has_ssd: bool,
}

impl FreeNode {
    /// Whether one pod fits.
    pub(super) fn takes(&self, pod: PodShape) -> bool {
        let has = |free: i64, requested: i64| requested == 0 || requested <= free;
        let may_be_here = (self.has_ssd || !pod.on_ssd) && pod.on_node.is_none_or(|node| node == self.number);
        has(self.gpu, pod.gpu) && has(self.cpu, pod.cpu) && self.pods > 0 && may_be_here
    }
}

/// The most of these pods that fit on the nodes. Computes, node by node, all counts per shape that a fill of the nodes
/// can leave.
pub(super) fn most_pods_that_fit(pods: &[PodShape], nodes: impl Iterator<Item = FreeNode>) -> usize {
    let mut counts: BTreeMap<PodShape, usize> = BTreeMap::new();
    pods.iter().for_each(|pod| *counts.entry(*pod).or_default() += 1);
    let (shapes, counts): (Vec<PodShape>, Vec<usize>) = counts.into_iter().unzip();
    let mut left: BTreeSet<Vec<usize>> = BTreeSet::from([counts.clone()]);
    for node in nodes {
        // One more pod at a time, as long as it fits.
        let mut reached: BTreeSet<(Vec<usize>, i64, i64, i64)> =
            left.into_iter().map(|left| (left, node.gpu, node.cpu, node.pods)).collect();
        let mut next: Vec<_> = reached.iter().cloned().collect();
        while let Some((left, gpu, cpu, pods)) = next.pop() {
            for (at, shape) in shapes.iter().enumerate().filter(|(at, _)| left[*at] > 0) {
                if (FreeNode { gpu, cpu, pods, ..node }).takes(*shape) {
                    let mut fewer = left.clone();
                    fewer[at] -= 1;
                    let state = (fewer, gpu - shape.gpu, cpu - shape.cpu, pods - 1);
                    if reached.insert(state.clone()) {
                        next.push(state);
                    }
                }
            }
        }
        left = reached.into_iter().map(|(left, ..)| left).collect();
    }
    let all: usize = counts.iter().sum();
    left.into_iter().map(|left| all - left.into_iter().sum::<usize>()).max().unwrap_or(0)
}
