//! Static properties of a node: labels, taints, images, declared features, whether it is cordoned.

use types::views::NodeView;

use super::images::NodeImage;
use crate::cluster::names::{NameId, NameTable};
use crate::queue::cluster_events::ClusterEvents;

/// What static filters read about a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeInfo {
    pub(crate) name: NameId,
    /// False while only pods of the node were observed, or after it was deleted.
    pub(crate) present: bool,
    pub(crate) unschedulable: bool,
    /// Sorted by key.
    labels: Vec<(NameId, NameId)>,
    pub(crate) taints: Vec<Taint>,
    /// Sorted by name; an image is listed once under each of its names.
    pub(crate) images: Box<[NodeImage]>,
    /// Sorted.
    declared_features: Box<[NameId]>,
}

/// A taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Taint {
    pub(crate) key: NameId,
    pub(crate) value: NameId,
    pub(crate) effect: Effect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// They are not placed there.
    NoSchedule,
    /// Other nodes are preferred.
    PreferNoSchedule,
    /// They are not placed there, and leave.
    NoExecute,
}

impl Effect {
    pub(crate) fn parse(text: &str) -> Option<Effect> {
        match text {
            "NoSchedule" => Some(Effect::NoSchedule),
            "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
            "NoExecute" => Some(Effect::NoExecute),
            _ => None,
        }
    }
}

impl NodeInfo {
    pub(super) fn absent(name: NameId) -> NodeInfo {
        NodeInfo { name, ..NodeInfo::default() }
    }

    pub(super) fn of(view: &NodeView, name: NameId, names: &mut NameTable) -> NodeInfo {
        let labels = view.metadata.labels.iter();
        let mut labels: Vec<_> = labels.map(|(key, value)| (names.intern(key), names.intern(value))).collect();
        labels.sort_unstable();
        let mut taints = Vec::new();
        for taint in &view.spec.taints {
            if let Some(effect) = Effect::parse(&taint.effect) {
                let value = names.intern(taint.value.as_deref().unwrap_or_default());
                taints.push(Taint { key: names.intern(&taint.key), value, effect });
            }
        }
        let images = view.status.images.iter();
        let sized = images.flat_map(|image| image.names.iter().map(|name| (name, image.size_bytes)));
        let mut images: Vec<_> = sized.map(|(name, size)| (names.intern(name), size)).collect();
        images.sort_by_key(|(name, _)| *name);
        images.dedup_by_key(|(name, _)| *name);
        let features = view.status.declared_features.iter();
        let mut declared_features: Box<[_]> = features.map(|feature| names.intern(feature)).collect();
        declared_features.sort_unstable();
        NodeInfo {
            name,
            present: true,
            unschedulable: view.spec.unschedulable,
            labels,
            taints,
            images: images.into(),
            declared_features,
        }
    }

    /// The size of an image, if the node has it.
    pub(crate) fn image_bytes(&self, image: NameId) -> Option<i64> {
        let at = self.images.binary_search_by_key(&image, |(name, _)| *name).ok()?;
        Some(self.images[at].1)
    }

    /// Whether its kubelet declares a feature.
    pub(crate) fn declares(&self, feature: NameId) -> bool {
        self.declared_features.binary_search(&feature).is_ok()
    }

    /// Every name it has.
    pub(super) fn names(&self) -> impl Iterator<Item = NameId> + '_ {
        let labels = self.labels.iter().flat_map(|(key, value)| [*key, *value]);
        let taints = self.taints.iter().flat_map(|taint| [taint.key, taint.value]);
        let images = self.images.iter().map(|(image, _)| *image);
        std::iter::once(self.name)
            .chain(labels)
            .chain(taints)
            .chain(images)
            .chain(self.declared_features.iter().copied())
    }

    /// The keys of its labels.
    pub(crate) fn label_keys(&self) -> impl Iterator<Item = NameId> + '_ {
        self.labels.iter().map(|(key, _)| *key)
    }

    /// The value of a label.
    pub(crate) fn label(&self, key: NameId) -> Option<NameId> {
        let at = self.labels.binary_search_by_key(&key, |(named, _)| *named).ok()?;
        Some(self.labels[at].1)
    }

    /// The cluster events between `before` and this.
    pub(super) fn changes_since(&self, before: &NodeInfo) -> ClusterEvents {
        if self.present && !before.present {
            return ClusterEvents::NODE_ADD;
        }
        let mut events = ClusterEvents::NONE;
        if self.labels != before.labels {
            events |= ClusterEvents::NODE_LABELS;
        }
        if self.taints != before.taints || self.unschedulable != before.unschedulable {
            events |= ClusterEvents::NODE_TAINTS;
        }
        if self.declared_features != before.declared_features {
            events |= ClusterEvents::NODE_DECLARED_FEATURES;
        }
        if self.images != before.images {
            events |= ClusterEvents::NODE_IMAGES;
        }
        events
    }
}
