//! Classes: pods that are equal in every field that a filter or score reads.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use rustc_hash::FxHashMap;
use types::SmallMap;
use types::views::{PodSpecView, PodView};

use crate::cluster::names::{NameId, NameTable};
use crate::cluster::{Cluster, Effect, NodeIndex, TopologyId, UsedIds, full_name};
use crate::demand::ClassCount;
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::demand::requests::Usage;
use crate::index::ClassIndex;
use crate::plugins::Plugins;
use crate::plugins::filters::LoadAssumption;
use crate::plugins::profile::Profile;
use crate::queue::cluster_events::ClusterEvents;

/// Pods that are equal in everything that the filters and scores of their profile read. Equal classes are interned
/// once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Class {
    /// The profile's position in the configuration.
    profile: usize,
    /// Always set: nodes count it even if no plugin reads it.
    pub(crate) usage: Arc<Usage>,
    /// Sorted, without repetitions.
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) required: RequiredNodes,
    /// Preferred terms with their weights.
    pub(crate) preferred: Vec<(i32, Term)>,
    /// Set only for a pod that names a node it is not bound to. The API shows a pod with a node name as bound, so
    /// only "would it fit there" queries set it.
    pub(crate) node_name: Option<NameId>,
    /// Container images by their full names; an image is listed once for each time the pod names it.
    pub(crate) images: Vec<NameId>,
    labels: KeyValues,
    annotations: KeyValues,
    /// Values inferred from the spec, by name; 0 is left out.
    inferred: Vec<(&'static str, u64)>,
}

/// Keys and values, by key.
type KeyValues = Vec<(Box<str>, Box<str>)>;

/// The nodes that a class requires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RequiredNodes {
    pub(crate) selector: Vec<(NameId, NameId)>,
    /// One of these must match; `None`: no such requirement.
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

/// How a requirement compares the value of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// It is one of the values.
    In,
    /// It is none of the values, or there is no label.
    NotIn,
    /// There is a label.
    Exists,
    /// There is no label.
    DoesNotExist,
    /// It is a larger integer.
    Gt(i64),
    /// It is a smaller integer.
    Lt(i64),
    /// Matches nothing.
    Unknown,
}

/// A toleration; a `None` field matches everything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Toleration {
    pub(crate) key: Option<NameId>,
    pub(crate) operator: TolerationOperator,
    pub(crate) value: NameId,
    pub(crate) effect: Option<Effect>,
}

/// How a toleration compares the value of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TolerationOperator {
    /// The values are equal.
    Equal,
    /// Any value.
    Exists,
    /// Tolerates nothing. Upstream: `Lt` and `Gt` exist behind an alpha gate that is off.
    Unknown,
}

impl Class {
    /// The value of a pod label that some filter or score of the profile reads.
    pub fn label(&self, key: &str) -> Option<&str> {
        value_of(&self.labels, key)
    }

    /// The value of a pod annotation that some filter or score of the profile reads.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        value_of(&self.annotations, key)
    }

    /// The value of this name that some filter or score of the profile infers from the pod's spec.
    pub fn inferred(&self, name: &str) -> u64 {
        self.inferred.iter().find(|(named, _)| *named == name).map_or(0, |(_, value)| *value)
    }

    /// The class of a pending pod.
    pub(crate) fn of(pod: &PodView, reads: &ReadSet, cluster: &mut Cluster) -> Class {
        let usage = Arc::new(Usage::of(pod, cluster));
        let names = &mut cluster.names;
        let affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let terms = affinity.and_then(|nodes| nodes.required_during_scheduling_ignored_during_execution.as_ref());
        let preferred = affinity.and_then(|nodes| nodes.preferred_during_scheduling_ignored_during_execution.as_ref());
        let mut tolerations: Vec<_> = pod.spec.tolerations.iter().map(|own| Toleration::of(own, names)).collect();
        tolerations.sort_unstable();
        tolerations.dedup();
        let selector = pod.spec.node_selector.iter();
        let class = Class {
            profile: 0,
            usage,
            tolerations,
            required: RequiredNodes {
                selector: selector.map(|(key, value)| (names.intern(key), names.intern(value))).collect(),
                terms: terms.map(|terms| Term::all_of(&terms.node_selector_terms, names)),
            },
            preferred: preferred.map(|terms| Term::weighted(terms, names)).unwrap_or_default(),
            node_name: None,
            images: if reads.fields.contains(PodSpecFields::IMAGES) { images(pod, names) } else { Vec::new() },
            labels: key_values(&reads.labels, |key| pod.metadata.labels.get(key).map(String::as_str)),
            annotations: key_values(&reads.annotations, |key| pod.metadata.annotations.get(key).map(String::as_str)),
            inferred: inferred(reads, &pod.spec),
        };
        if class.required.mentions(NameId::HOSTNAME) {
            cluster.track_hostnames();
        }
        Class { usage: Arc::clone(&class.usage), ..class.limited_to(reads) }
    }

    /// The class of a pod in a profile that reads every field and infers the values in `reads`.
    pub(crate) fn with_everything(pod: &PodView, reads: &ReadSet, cluster: &mut Cluster) -> Class {
        let keys = |texts: &SmallMap<String>| texts.keys().map(str::to_owned).collect();
        let (labels, annotations) = (keys(&pod.metadata.labels), keys(&pod.metadata.annotations));
        let everything = ReadSet { fields: PodSpecFields::ALL, labels, annotations, inferred: reads.inferred.clone() };
        let class = Class::of(pod, &everything, cluster);
        Class { node_name: pod.node_name().map(|name| cluster.names.intern(name)), ..class }
    }

    /// Adds the names and resources that it has.
    pub(crate) fn add_used(&self, used: &mut UsedIds) {
        used.add_usage(&self.usage);
        let tolerations = self.tolerations.iter().flat_map(|own| own.key.into_iter().chain([own.value]));
        let selector = self.required.selector.iter().flat_map(|(key, value)| [*key, *value]);
        used.add_names(tolerations.chain(selector).chain(self.node_name).chain(self.images.iter().copied()));
        let preferred = self.preferred.iter().map(|(_, term)| term);
        let terms = self.required.terms.iter().flatten().chain(preferred);
        for requirement in terms.flat_map(|term| term.labels.iter().chain(&term.names)) {
            used.add_names(std::iter::once(requirement.key).chain(requirement.values.iter().copied()));
        }
    }

    /// The same class with only the fields in `reads`.
    pub(crate) fn limited_to(self, reads: &ReadSet) -> Class {
        let Class { profile, usage, tolerations, required, preferred, node_name, images, .. } = self;
        let Class { mut labels, mut annotations, mut inferred, .. } = self;
        labels.retain(|(key, _)| reads.labels.contains(&**key));
        annotations.retain(|(key, _)| reads.annotations.contains(&**key));
        inferred.retain(|(name, _)| reads.inferred.contains_key(name));
        let has = |field| reads.fields.contains(field);
        Class {
            profile,
            usage: if has(PodSpecFields::USAGE) { usage } else { Arc::new(usage.only_counts()) },
            tolerations: if has(PodSpecFields::TOLERATIONS) { tolerations } else { Vec::new() },
            required: if has(PodSpecFields::REQUIRED_NODES) { required } else { RequiredNodes::default() },
            preferred: if has(PodSpecFields::PREFERRED_NODES) { preferred } else { Vec::new() },
            node_name: node_name.filter(|_| has(PodSpecFields::NODE_NAME)),
            images: if has(PodSpecFields::IMAGES) { images } else { Vec::new() },
            labels,
            annotations,
            inferred,
        }
    }
}

fn value_of<'a>(texts: &'a KeyValues, key: &str) -> Option<&'a str> {
    texts.iter().find(|(named, _)| &**named == key).map(|(_, value)| &**value)
}

fn key_values<'a>(keys: &BTreeSet<String>, value_of: impl Fn(&str) -> Option<&'a str>) -> KeyValues {
    keys.iter().filter_map(|key| Some((key.as_str().into(), value_of(key)?.into()))).collect()
}

fn inferred(reads: &ReadSet, spec: &PodSpecView) -> Vec<(&'static str, u64)> {
    let values = reads.inferred.values().map(|value| (value.name, (value.infer)(spec)));
    values.filter(|(_, value)| *value != 0).collect()
}

fn images(pod: &PodView, names: &mut NameTable) -> Vec<NameId> {
    let containers =
        pod.spec.init_containers.iter().chain(&pod.spec.containers).map(|container| container.image.as_str());
    let all = containers.chain(pod.spec.volumes.images.iter().map(|reference| &**reference));
    let mut images: Vec<_> = all.map(|image| names.intern(&full_name(image))).collect();
    images.sort_unstable();
    images
}

impl RequiredNodes {
    fn mentions(&self, key: NameId) -> bool {
        let mut labels = self.terms.iter().flatten().flat_map(|term| &term.labels);
        self.selector.iter().any(|(selected, _)| *selected == key) || labels.any(|requirement| requirement.key == key)
    }
}

impl Toleration {
    fn of(toleration: &core::Toleration, names: &mut NameTable) -> Toleration {
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
    pub(crate) fn all_of(terms: &[core::NodeSelectorTerm], names: &mut NameTable) -> Vec<Term> {
        terms.iter().map(|term| Term::of(term, names)).collect()
    }

    /// Preferred terms with their weights; terms with weight 0 are dropped.
    pub(crate) fn weighted(terms: &[core::PreferredSchedulingTerm], names: &mut NameTable) -> Vec<(i32, Term)> {
        let terms = terms.iter().filter(|term| term.weight != 0);
        terms.map(|term| (term.weight, Term::of(&term.preference, names))).collect()
    }

    fn of(term: &core::NodeSelectorTerm, names: &mut NameTable) -> Term {
        let mut all = |requirements: &Option<Vec<core::NodeSelectorRequirement>>| -> Vec<Requirement> {
            requirements.iter().flatten().map(|requirement| Requirement::of(requirement, names)).collect()
        };
        Term { labels: all(&term.match_expressions), names: all(&term.match_fields) }
    }
}

impl Requirement {
    fn of(requirement: &core::NodeSelectorRequirement, names: &mut NameTable) -> Requirement {
        let values = requirement.values.as_deref().unwrap_or_default();
        let number = || values.first().and_then(|value| value.parse().ok());
        let operator = match requirement.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => number().map_or(Operator::Unknown, Operator::Gt),
            "Lt" => number().map_or(Operator::Unknown, Operator::Lt),
            _ => Operator::Unknown,
        };
        let values = values.iter().map(|value| names.intern(value)).collect();
        Requirement { key: names.intern(&requirement.key), operator, values }
    }
}

/// Identifies a class; never reused, so a stale id has no class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(NonZeroU64);

/// The classes of pending pods, and of recently pending ones: the next Job is often like the last.
#[derive(Debug)]
pub(crate) struct Classes {
    profiles: Vec<Arc<Plugins>>,
    /// Whether this holds for the plugins of every profile.
    all_monotone: bool,
    ids: FxHashMap<Arc<Class>, ClassId>,
    entries: FxHashMap<ClassId, ClassEntry>,
    next_id: NonZeroU64,
    /// Counts uses of indexes; the index with the smallest number is the least recently used.
    uses: u64,
    /// The size of all indexes together.
    bytes: usize,
    max_bytes: usize,
    /// The number of indexes that were built from all nodes.
    builds_count: u64,
}

#[derive(Debug)]
struct ClassEntry {
    class: Arc<Class>,
    events: ClusterEvents,
    /// Pods that use the class.
    pods_count: usize,
    index: Option<Box<ClassIndex>>,
    /// The size of the index when it was last used.
    bytes: usize,
    last_use: u64,
}

impl Classes {
    /// No classes yet. Their indexes use at most `max_bytes`, or there is only one.
    pub(crate) fn new(max_bytes: usize, profiles: &[Profile], cluster: &mut Cluster) -> Classes {
        let profiles: Vec<_> = profiles.iter().map(|profile| Arc::new(Plugins::of(profile, cluster))).collect();
        Classes {
            all_monotone: profiles.iter().all(|profile| profile.is_monotone()),
            profiles,
            ids: FxHashMap::default(),
            entries: FxHashMap::default(),
            next_id: NonZeroU64::MIN,
            uses: 0,
            bytes: 0,
            max_bytes,
            builds_count: 0,
        }
    }

    /// The same profiles without any class. New classes get ids that this value has not used yet.
    pub(crate) fn without_classes(&self) -> Classes {
        Classes {
            profiles: self.profiles.clone(),
            ids: FxHashMap::default(),
            entries: FxHashMap::default(),
            next_id: self.next_id,
            uses: 0,
            bytes: 0,
            all_monotone: self.all_monotone,
            max_bytes: self.max_bytes,
            builds_count: 0,
        }
    }

    /// Adds a class of the value that this is a copy of, with its id there.
    pub(crate) fn add_shared(&mut self, id: ClassId, class: Arc<Class>) {
        if !self.entries.contains_key(&id) {
            self.add(id, class);
        }
    }

    /// The plugins for this `schedulerName`; the first profile if several have it.
    pub(crate) fn profile(&self, scheduler_name: &str) -> Option<&Arc<Plugins>> {
        self.profiles.iter().find(|profile| profile.scheduler_name == scheduler_name)
    }

    /// The class of a pod. A pod of no profile gets one of the first profile.
    pub(crate) fn class_of(&self, pod: &PodView, cluster: &mut Cluster) -> Class {
        let same_name = |profile: &Arc<Plugins>| pod.spec.scheduler_name == profile.scheduler_name;
        let profile = self.profiles.iter().position(same_name).unwrap_or(0);
        let reads = self.profiles.get(profile).map(|profile| &profile.reads);
        Class { profile, ..Class::of(pod, reads.unwrap_or(&ReadSet::default()), cluster) }
    }

    /// The filters and scores of a class.
    pub(crate) fn plugins(&self, class: &Class) -> &Arc<Plugins> {
        &self.profiles[class.profile]
    }

    /// Whether more pods on nodes never help pods of these classes. Only then are sums of slots upper bounds.
    pub(crate) fn are_monotone(&self, class_counts: &[ClassCount]) -> bool {
        self.all_monotone || class_counts.iter().all(|count| self.is_monotone(count.class))
    }

    /// The same for one class.
    pub(crate) fn is_monotone(&self, id: ClassId) -> bool {
        self.all_monotone || self.get(id).is_none_or(|class| self.plugins(class).is_monotone())
    }

    /// The same for every class there can be.
    pub(crate) fn all_monotone(&self) -> bool {
        self.all_monotone
    }

    /// The `schedulerName` of the pods of a class.
    pub(crate) fn scheduler_name(&self, id: ClassId) -> Option<&str> {
        self.get(id).map(|class| self.plugins(class).scheduler_name.as_str())
    }

    /// How many more pods of a class fit on a node.
    pub(crate) fn slots(&self, id: ClassId, node: NodeIndex, cluster: &Cluster) -> u32 {
        let Some(class) = self.get(id) else { return 0 };
        self.plugins(class).slots(class, node, cluster, LoadAssumption::Now)
    }

    /// The same without any pods on the node.
    pub(crate) fn slots_when_empty(&self, id: ClassId, node: NodeIndex, cluster: &Cluster) -> u32 {
        let Some(class) = self.get(id) else { return 0 };
        self.plugins(class).slots(class, node, cluster, LoadAssumption::Empty)
    }

    /// The id of a class, used by one more pod from now on.
    pub(crate) fn acquire(&mut self, class: Class) -> ClassId {
        if let Some(id) = self.ids.get(&class) {
            self.entries.get_mut(id).expect("a class with an id has an entry").pods_count += 1;
            return *id;
        }
        let id = ClassId(self.next_id);
        self.next_id = self.next_id.checked_add(1).expect("class ids do not overflow 64 bits");
        self.add(id, Arc::new(class));
        id
    }

    fn add(&mut self, id: ClassId, class: Arc<Class>) {
        self.ids.insert(Arc::clone(&class), id);
        let events = self.plugins(&class).events_to_register(&class);
        self.entries.insert(id, ClassEntry { class, events, pods_count: 1, index: None, bytes: 0, last_use: 0 });
    }

    /// One pod less uses the class. The class is removed with its last pod, unless it has an index worth keeping:
    /// users can create any number of classes of pods that fit nowhere.
    pub(crate) fn release(&mut self, id: ClassId) {
        let entry = self.entries.get_mut(&id).expect("an acquired class has an entry");
        entry.pods_count -= 1;
        if entry.pods_count == 0 && entry.index.as_ref().is_none_or(|index| !index.is_worth_keeping()) {
            self.remove(id);
        }
    }

    /// The class behind an id.
    pub(crate) fn get(&self, id: ClassId) -> Option<&Arc<Class>> {
        self.entries.get(&id).map(|entry| &entry.class)
    }

    /// Every class.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Class> {
        self.entries.values().map(|entry| &*entry.class)
    }

    /// Drops what indexes cache for topologies that are not `used`.
    pub(crate) fn retain_topologies(&mut self, used: impl Fn(TopologyId) -> bool) {
        let indexes = self.entries.values_mut().filter_map(|entry| entry.index.as_mut());
        indexes.for_each(|index| index.retain_topologies(&used));
    }

    /// Which cluster events can free capacity for a class.
    pub(crate) fn events_to_register(&self, id: ClassId) -> ClusterEvents {
        self.entries.get(&id).map_or(ClusterEvents::NONE, |entry| entry.events)
    }

    /// The class with its index, brought up to date with the cluster.
    pub(crate) fn with_current_index(&mut self, id: ClassId, cluster: &Cluster) -> (&Arc<Class>, &mut ClassIndex) {
        self.uses += 1;
        let entry = self.entries.get_mut(&id).expect("an acquired class has an entry");
        entry.last_use = self.uses;
        let is_current = entry.index.as_ref().is_some_and(|index| index.is_current(cluster));
        if !is_current {
            match &mut entry.index {
                Some(index) => {
                    index.catch_up(&entry.class, cluster);
                }
                empty => {
                    let plugins = Arc::clone(&self.profiles[entry.class.profile]);
                    let index = ClassIndex::of(&entry.class, plugins, cluster);
                    self.builds_count += u64::from(index.has_all_nodes());
                    *empty = Some(Box::new(index));
                }
            }
            let bytes = entry.index.as_ref().map_or(0, |index| index.bytes());
            self.bytes += bytes;
            self.bytes -= std::mem::replace(&mut entry.bytes, bytes);
            self.evict_indexes();
        }
        let entry = self.entries.get_mut(&id).expect("an acquired class has an entry");
        (&entry.class, entry.index.as_mut().expect("the index was built above"))
    }

    /// How many indexes were built from all nodes so far: one for each class, and again if it was dropped.
    pub(crate) fn builds_count(&self) -> u64 {
        self.builds_count
    }

    /// The number of classes.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Panics unless every cached index, brought up to date, equals a newly built one.
    #[cfg(test)]
    pub(crate) fn assert_fresh(&mut self, cluster: &Cluster) {
        let mut cached: Vec<_> = self.entries.values_mut().filter(|entry| entry.index.is_some()).collect();
        assert_eq!(cached.iter().map(|entry| entry.bytes).sum::<usize>(), self.bytes);
        assert!(self.bytes <= self.max_bytes || cached.len() == 1);
        for ClassEntry { class, index, .. } in cached.iter_mut().map(|entry| &mut **entry) {
            let index = index.as_mut().expect("only entries with an index are checked");
            index.catch_up(class, cluster);
            index.assert_fresh(class, cluster);
        }
    }

    /// Drops the least recently used indexes while all together are too large, but never the last used one.
    fn evict_indexes(&mut self) {
        while self.bytes > self.max_bytes {
            let others =
                self.entries.iter_mut().filter(|(_, entry)| entry.index.is_some() && entry.last_use < self.uses);
            // Each use has a distinct number, so the order of the map does not matter.
            let Some((id, entry)) = others.min_by_key(|(_, entry)| entry.last_use) else { return };
            entry.index = None;
            self.bytes -= std::mem::take(&mut entry.bytes);
            if entry.pods_count == 0 {
                let id = *id;
                self.remove(id);
            }
        }
    }

    fn remove(&mut self, id: ClassId) {
        let entry = self.entries.remove(&id).expect("a class is removed once");
        self.bytes -= entry.bytes;
        self.ids.remove(&entry.class);
    }
}
