//! Fields that all kinds share: identity, version, labels, owners.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::kinds::ApiResource;
use crate::revision::Revision;
use crate::small_map::SmallMap;

/// A kind as a cache stores it.
pub trait View: Send + Sync + fmt::Debug + Sized + 'static {
    /// The kind, from the registry.
    const RESOURCE: &'static ApiResource;

    /// The indexes that control loops use.
    const INDEXES: &'static [Index<Self>] = &[];

    /// The object's metadata.
    fn meta(&self) -> &MetaView;

    /// Decodes the view from the object's JSON. Fields that the view does not have are skipped.
    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error>;

    /// Drops the fields that no control loop reads of an object in this state. Caches store objects stripped: most
    /// objects of a cluster have finished, and only the others need all fields.
    fn strip(&mut self) {}
}

/// Namespace and name. The namespace is empty for cluster-scoped kinds. Ordered as the API lists: namespace, then name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl ObjectKey {
    /// The key of `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> ObjectKey {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// Metadata without managed fields and without annotations that only other tools read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaView {
    /// The object's name.
    pub name: String,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Identity of the object. A re-created object has a different one.
    pub uid: String,
    /// Revision of the last write to the object.
    pub resource_version: Revision,
    /// Number of changes of the spec, for kinds that count them.
    pub generation: i64,
    /// Labels.
    pub labels: SmallMap<String>,
    /// Annotations, without kubectl's copy of the manifest.
    #[serde(deserialize_with = "annotations_without_last_applied")]
    pub annotations: SmallMap<String>,
    /// Owners; at most one has `controller: true`.
    #[serde(deserialize_with = "tight")]
    pub owner_references: Vec<OwnerRef>,
    /// Finalizers that must be removed before the object is deleted.
    #[serde(deserialize_with = "tight")]
    pub finalizers: Vec<String>,
    /// When the object was created.
    pub creation_timestamp: Option<Timestamp>,
    /// Set when deletion was requested and a finalizer or grace period delays it.
    pub deletion_timestamp: Option<Timestamp>,
    /// The grace period of the deletion.
    pub deletion_grace_period_seconds: Option<i32>,
}

/// A list without spare capacity. Decoding allocates for four items, and caches hold hundreds of thousands of lists.
pub(crate) fn tight<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::deserialize(from)?;
    list.shrink_to_fit();
    Ok(list)
}

impl MetaView {
    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.clone(), self.name.clone())
    }

    /// The owner reference with `controller: true`.
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Whether deletion was requested.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether the object has `finalizer`.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| held == finalizer)
    }
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn annotations_without_last_applied<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SmallMap<String>, D::Error> {
    let annotations = SmallMap::<String>::deserialize(deserializer)?;
    if !annotations.contains_key(LAST_APPLIED) {
        return Ok(annotations);
    }
    Ok(annotations.iter().filter(|(name, _)| *name != LAST_APPLIED).map(|(name, text)| (name, text.clone())).collect())
}

/// `metadata.ownerReferences[]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerRef {
    /// `group/version` of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner, in the same namespace or cluster-scoped.
    pub name: String,
    /// Identity of the owner.
    pub uid: String,
    /// Whether the owner is the controller of this object.
    pub controller: bool,
    /// Whether foreground deletion of the owner waits for this object.
    pub block_owner_deletion: bool,
}

/// A condition in the format that pods, nodes, Jobs and PodGroups share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Condition type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// CamelCase reason.
    pub reason: String,
    /// Message for people.
    pub message: String,
    /// When `status` last changed.
    pub last_transition_time: Option<Timestamp>,
}

impl Condition {
    /// Whether `conditions` has `kind` with status True.
    pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
        conditions.iter().any(|condition| condition.kind == kind && condition.status == "True")
    }
}

/// An index of a cache.
pub struct Index<V> {
    /// Name of the index, unique per cache.
    pub name: &'static str,
    /// The values under which an object is indexed.
    pub values: fn(&V) -> Vec<String>,
}

// Not derived: an index can be copied even if the view cannot.
impl<V> Clone for Index<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Index<V> {}

impl<V> fmt::Debug for Index<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({})", self.name)
    }
}
