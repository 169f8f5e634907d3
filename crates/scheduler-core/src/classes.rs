//! Pods that are alike: whatever no filter and no score reads does not tell two pods apart.

use std::sync::Arc;

use api::views::PodView;
use k8s_openapi::api::core::v1 as core;
use rustc_hash::FxHashMap;

use crate::cluster::{Cluster, Effect};
use crate::filters::{FILTERS, Wakes};
use crate::index::KeptIndex;
use crate::names::{NameId, Names};
use crate::requests::Usage;

/// Everything placement reads about a pod: one field per [`Parts`](crate::filters::Parts). Equal classes are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Class {
    pub(crate) usage: Arc<Usage>,
    /// Sorted, without repetitions.
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) required: RequiredNodes,
    /// Preferred terms with their weights.
    pub(crate) preferred: Vec<(i32, Term)>,
    /// Set only for a pod that names a node it is not bound to. The API shows a pod with a node name as bound, so
    /// only questions of the kind "would it fit there" fill it.
    pub(crate) node_name: Option<NameId>,
}

/// Which nodes a class must go to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RequiredNodes {
    pub(crate) selector: Vec<(NameId, NameId)>,
    /// One of these must match; `None`: there is no such demand.
    pub(crate) terms: Option<Vec<Term>>,
}

/// One alternative of node affinity: all requirements must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) labels: Vec<Requirement>,
    /// On `metadata.name`, the only field there is.
    pub(crate) names: Vec<Requirement>,
}

/// `key operator values`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Requirement {
    pub(crate) key: NameId,
    pub(crate) operator: Operator,
    pub(crate) values: Vec<NameId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
    /// Matches nothing.
    Unknown,
}

/// A toleration; `None` covers everything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Toleration {
    pub(crate) key: Option<NameId>,
    pub(crate) operator: TolerationOperator,
    pub(crate) value: NameId,
    pub(crate) effect: Option<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TolerationOperator {
    Equal,
    Exists,
    /// Covers nothing. Upstream: `Lt` and `Gt` exist behind an alpha gate that is off.
    Unknown,
}

impl Class {
    /// The class of a pod that waits for a node.
    pub(crate) fn of(pod: &PodView, cluster: &mut Cluster) -> Class {
        let usage = Arc::new(Usage::of(&pod.spec, cluster));
        let names = &mut cluster.names;
        let affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let terms = affinity.and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref());
        let preferred = affinity.and_then(|nodes| nodes.preferred_during_scheduling_ignored_during_execution.as_ref());
        let mut tolerations: Vec<_> = pod.spec.tolerations.iter().map(|own| Toleration::of(own, names)).collect();
        tolerations.sort_unstable();
        tolerations.dedup();
        let selector = pod.spec.node_selector.iter();
        Class {
            usage,
            tolerations,
            required: RequiredNodes {
                selector: selector.map(|(key, value)| (names.intern(key), names.intern(value))).collect(),
                terms: terms.map(|any| any.node_selector_terms.iter().map(|term| Term::of(term, names)).collect()),
            },
            preferred: preferred
                .into_iter()
                .flatten()
                .filter(|wish| wish.weight != 0)
                .map(|wish| (wish.weight, Term::of(&wish.preference, names)))
                .collect(),
            node_name: None,
        }
    }

    /// Which kinds of change can make room for pods of this class.
    fn wakes(&self) -> Wakes {
        FILTERS.iter().fold(Wakes::NONE, |wakes, filter| wakes | filter.wakes(self))
    }
}

impl Toleration {
    fn of(toleration: &core::Toleration, names: &mut Names) -> Toleration {
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Toleration {
            key: filled(&toleration.key).map(|key| names.intern(&key)),
            operator: match toleration.operator.as_deref() {
                None | Some("" | "Equal") => TolerationOperator::Equal,
                Some("Exists") => TolerationOperator::Exists,
                Some(_) => TolerationOperator::Unknown,
            },
            value: names.intern(toleration.value.as_deref().unwrap_or_default()),
            effect: filled(&toleration.effect).and_then(|effect| Effect::parse(&effect)),
        }
    }
}

impl Term {
    fn of(term: &core::NodeSelectorTerm, names: &mut Names) -> Term {
        let mut all = |wants: &Option<Vec<core::NodeSelectorRequirement>>| -> Vec<Requirement> {
            wants.iter().flatten().map(|want| Requirement::of(want, names)).collect()
        };
        Term { labels: all(&term.match_expressions), names: all(&term.match_fields) }
    }
}

impl Requirement {
    fn of(want: &core::NodeSelectorRequirement, names: &mut Names) -> Requirement {
        let values = want.values.as_deref().unwrap_or_default();
        let number = || values.first().and_then(|value| value.parse().ok());
        let operator = match want.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => number().map_or(Operator::Unknown, Operator::Gt),
            "Lt" => number().map_or(Operator::Unknown, Operator::Lt),
            _ => Operator::Unknown,
        };
        let values = values.iter().map(|value| names.intern(value)).collect();
        Requirement { key: names.intern(&want.key), operator, values }
    }
}

/// Stands for a class; never reused, so a stale one finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(u64);

/// The classes of pending pods, and of those that were pending not long ago: the next Job is often like the last.
#[derive(Debug)]
pub(crate) struct Classes {
    ids: FxHashMap<Arc<Class>, ClassId>,
    entries: FxHashMap<ClassId, Entry>,
    next_id: u64,
    /// Counts uses of indexes; the one with the smallest number was used least recently.
    uses: u64,
    kept_count: usize,
    kept_max: usize,
}

#[derive(Debug)]
struct Entry {
    class: Arc<Class>,
    wakes: Wakes,
    /// Pods that hold the class.
    pods_count: usize,
    index: Option<Box<KeptIndex>>,
    last_use: u64,
}

impl Classes {
    /// No classes yet, and at most `kept_max` indexes at a time.
    pub(crate) fn new(kept_max: usize) -> Classes {
        Classes {
            ids: FxHashMap::default(),
            entries: FxHashMap::default(),
            next_id: 0,
            uses: 0,
            kept_count: 0,
            kept_max: kept_max.max(1),
        }
    }

    /// The id of a class, held by one more pod from now on.
    pub(crate) fn hold(&mut self, class: Class) -> ClassId {
        if let Some(id) = self.ids.get(&class) {
            self.entries.get_mut(id).expect("a named class is kept").pods_count += 1;
            return *id;
        }
        let id = ClassId(self.next_id);
        self.next_id += 1;
        let class = Arc::new(class);
        self.ids.insert(Arc::clone(&class), id);
        self.entries.insert(id, Entry { wakes: class.wakes(), class, pods_count: 1, index: None, last_use: 0 });
        id
    }

    /// One pod less holds the class. It is forgotten with its last pod, or with its index if it has one.
    pub(crate) fn release(&mut self, id: ClassId) {
        let entry = self.entries.get_mut(&id).expect("a held class is kept");
        entry.pods_count -= 1;
        if entry.pods_count == 0 && entry.index.is_none() {
            self.forget(id);
        }
    }

    /// The class behind an id.
    pub(crate) fn get(&self, id: ClassId) -> Option<&Arc<Class>> {
        self.entries.get(&id).map(|entry| &entry.class)
    }

    /// Which kinds of change can make room for a class.
    pub(crate) fn wakes(&self, id: ClassId) -> Wakes {
        self.entries.get(&id).map_or(Wakes::NONE, |entry| entry.wakes)
    }

    /// The class with its index, which has seen every change of the cluster.
    pub(crate) fn caught_up(&mut self, id: ClassId, cluster: &Cluster) -> (&Arc<Class>, &mut KeptIndex) {
        self.uses += 1;
        if self.entries[&id].index.is_none() {
            self.make_room();
            self.kept_count += 1;
        }
        let entry = self.entries.get_mut(&id).expect("a held class is kept");
        entry.last_use = self.uses;
        let index = match &mut entry.index {
            Some(index) => {
                index.catch_up(&entry.class, cluster);
                index
            }
            empty => empty.insert(Box::new(KeptIndex::of(&entry.class, cluster))),
        };
        (&entry.class, index)
    }

    /// Panics unless every kept index, caught up, equals one made anew.
    #[cfg(test)]
    pub(crate) fn assert_fresh(&mut self, cluster: &Cluster) {
        let kept = self.entries.iter().filter(|(_, entry)| entry.index.is_some());
        let ids: Vec<_> = kept.map(|(id, _)| *id).collect();
        assert!(ids.len() == self.kept_count && ids.len() <= self.kept_max);
        for id in ids {
            let (class, index) = self.caught_up(id, cluster);
            index.assert_fresh(class, cluster);
        }
    }

    /// Drops the index that was not used for the longest time, when there are too many.
    fn make_room(&mut self) {
        if self.kept_count < self.kept_max {
            return;
        }
        let kept = self.entries.iter_mut().filter(|(_, entry)| entry.index.is_some());
        // Each use has its own number, so the order of the map does not matter.
        let (id, entry) = kept.min_by_key(|(_, entry)| entry.last_use).expect("there are kept indexes");
        entry.index = None;
        self.kept_count -= 1;
        if entry.pods_count == 0 {
            let id = *id;
            self.forget(id);
        }
    }

    fn forget(&mut self, id: ClassId) {
        let entry = self.entries.remove(&id).expect("a class is forgotten once");
        self.ids.remove(&entry.class);
    }
}
