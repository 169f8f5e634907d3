//! Nodes by the value of one label: the domains of a topology key.

use rustc_hash::FxHashMap;

use super::{NodeIndex, NodeInfo};
use crate::cluster::names::NameId;

/// A topology key that a group has requested. No id is used twice, so what is cached for one that was removed is never
/// taken for another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopologyId(u64);

impl TopologyId {
    pub(super) fn next(self) -> TopologyId {
        TopologyId(self.0 + 1)
    }
}

/// One value of a topology key. Numbered in the order of observation; the number of a domain without nodes is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DomainId(u32);

impl DomainId {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// The domains of one key.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    id: TopologyId,
    key: NameId,
    /// Incremented whenever a node enters or leaves a domain.
    version: u64,
    domain_of: Vec<Option<DomainId>>,
    domains: Vec<Domain>,
    /// Domains with nodes.
    by_value: FxHashMap<NameId, DomainId>,
    /// Domains without nodes. The last one is reused first.
    free: Vec<DomainId>,
}

/// The domains of a set of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct OccupiedDomains {
    /// Their domains, each once, in the order of the first node in each.
    pub(crate) domains: Vec<DomainId>,
    /// Nodes in no domain: without the label, or deleted.
    pub(crate) outside: Vec<NodeIndex>,
}

impl OccupiedDomains {
    /// Adds a node.
    pub(crate) fn add(&mut self, node: NodeIndex, topology: &Topology) {
        match topology.domain_of(node) {
            Some(domain) if self.domains.contains(&domain) => {}
            Some(domain) => self.domains.push(domain),
            None => self.outside.push(node),
        }
    }
}

#[derive(Clone, Debug)]
struct Domain {
    value: NameId,
    /// Sorted.
    nodes: Vec<NodeIndex>,
    /// Pods on these nodes, tentative ones included.
    pods_count: i64,
}

impl Topology {
    pub(super) fn new(id: TopologyId, key: NameId) -> Topology {
        Topology {
            id,
            key,
            version: 0,
            domain_of: Vec::new(),
            domains: Vec::new(),
            by_value: FxHashMap::default(),
            free: Vec::new(),
        }
    }

    /// Moves a node with `pods_count` pods into the domain of its label. Returns whether the domain changed.
    pub(super) fn set(&mut self, index: NodeIndex, node: &NodeInfo, pods_count: i64) -> bool {
        let next = node.label(self.key).map(|value| self.domain(value));
        let before = self.domain_of(index);
        if before == next {
            return false;
        }
        // Allocated only now: a user who creates a PodGroup can choose a key that no node has.
        if self.domain_of.len() <= index.at() {
            self.domain_of.resize(index.at() + 1, None);
        }
        self.domain_of[index.at()] = next;
        self.version += 1;
        if let Some(domain) = before {
            let Domain { nodes, pods_count: sum, value } = &mut self.domains[domain.at()];
            nodes.remove(nodes.binary_search(&index).expect("a node is listed in its domain"));
            *sum -= pods_count;
            if nodes.is_empty() {
                self.by_value.remove(&std::mem::replace(value, NameId::EMPTY));
                self.free.push(domain);
            }
        }
        if let Some(domain) = next {
            let Domain { nodes, pods_count: sum, .. } = &mut self.domains[domain.at()];
            let at = nodes.binary_search(&index).expect_err("a node is listed in one domain, once");
            nodes.insert(at, index);
            *sum += pods_count;
        }
        true
    }

    /// Adds `sign` to the pods of a node.
    pub(super) fn count(&mut self, index: NodeIndex, sign: i64) {
        if let Some(domain) = self.domain_of(index) {
            self.domains[domain.at()].pods_count += sign;
        }
    }

    pub(super) fn id(&self) -> TopologyId {
        self.id
    }

    /// Its key and the values of its domains.
    pub(super) fn names(&self) -> impl Iterator<Item = NameId> + '_ {
        std::iter::once(self.key).chain(self.domains.iter().map(|domain| domain.value))
    }

    pub(crate) fn key(&self) -> NameId {
        self.key
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The domain of a node, if it has the label.
    pub(crate) fn domain_of(&self, index: NodeIndex) -> Option<DomainId> {
        self.domain_of.get(index.at()).copied().flatten()
    }

    /// Every domain, those without nodes included.
    pub(crate) fn domains(&self) -> impl ExactSizeIterator<Item = DomainId> + use<> {
        (0..self.domains.len() as u32).map(DomainId)
    }

    /// The nodes of a domain, in the order of their indices.
    pub(crate) fn nodes(&self, domain: DomainId) -> &[NodeIndex] {
        &self.domains[domain.at()].nodes
    }

    /// How many pods are on the nodes of a domain.
    pub(crate) fn pods_count(&self, domain: DomainId) -> i64 {
        self.domains[domain.at()].pods_count
    }

    /// The label value of a domain with nodes.
    pub(crate) fn value(&self, domain: DomainId) -> NameId {
        self.domains[domain.at()].value
    }

    /// Whether it has a row for each node.
    #[cfg(test)]
    pub(super) fn has_table(&self) -> bool {
        self.domain_of.capacity() > 0
    }

    fn domain(&mut self, value: NameId) -> DomainId {
        *self.by_value.entry(value).or_insert_with(|| {
            let domain = self.free.pop().unwrap_or(DomainId(self.domains.len() as u32));
            if domain.at() == self.domains.len() {
                self.domains.push(Domain { value, nodes: Vec::new(), pods_count: 0 });
            }
            self.domains[domain.at()].value = value;
            domain
        })
    }
}
