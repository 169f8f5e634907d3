//! What all kinds share: identity, version, labels, owners.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::kinds::ApiResource;
use crate::revision::Revision;
use crate::small_map::SmallMap;

/// A kind as a cache sees it.
pub trait View: Send + Sync + fmt::Debug + Sized + 'static {
    /// The kind, from the registry.
    const RESOURCE: &'static ApiResource;

    /// The object's metadata.
    fn meta(&self) -> &MetaView;

    /// Reads the view from the object's JSON; fields that no view has are skipped without being decoded.
    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error>;

    /// Lets go of what no control loop reads of an object in this state. Caches hold objects so: most objects of a
    /// cluster have ended, and only those that have not are looked at closely.
    fn strip(&mut self) {}
}

/// Namespace and name; the namespace is empty for cluster-scoped kinds. Orders as the API lists: namespace, then name.
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
    /// Identity over the object's life; a re-created object has another.
    pub uid: String,
    /// Version of this state of the object.
    pub resource_version: Revision,
    /// Counts changes of the spec, for kinds that count them.
    pub generation: i64,
    /// Labels.
    pub labels: SmallMap<String>,
    /// Annotations, without the copy of the manifest that kubectl keeps there.
    #[serde(deserialize_with = "annotations_without_last_applied")]
    pub annotations: SmallMap<String>,
    /// Owners; at most one has `controller: true`.
    #[serde(deserialize_with = "tight")]
    pub owner_references: Vec<OwnerRef>,
    /// Who must act before the object may go.
    #[serde(deserialize_with = "tight")]
    pub finalizers: Vec<String>,
    /// When the server took the object in.
    pub creation_timestamp: Option<Timestamp>,
    /// Set once deletion was asked for and something (a finalizer, a grace period) holds the object.
    pub deletion_timestamp: Option<Timestamp>,
    /// How long before that it was asked for.
    pub deletion_grace_period_seconds: Option<i32>,
}

/// A list without room for more. Lists are read into room for four, and caches hold them by the hundred thousand.
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

    /// The owner that manages this object, if any.
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Whether deletion was asked for.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether `finalizer` is on the object.
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
    /// Whether the owner manages this object.
    pub controller: bool,
    /// Whether foreground deletion of the owner waits for this object.
    pub block_owner_deletion: bool,
}

/// A condition in the form that pods, nodes, Jobs and PodGroups share.
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
    /// Text for people.
    pub message: String,
    /// When `status` last changed.
    pub last_transition_time: Option<Timestamp>,
}

impl Condition {
    /// Whether `conditions` hold `kind` with status True.
    pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
        conditions.iter().any(|condition| condition.kind == kind && condition.status == "True")
    }
}

/// One way to look objects up in a cache besides their key.
pub struct Index<V> {
    /// Name of the index, unique per cache.
    pub name: &'static str,
    /// The values under which an object is found.
    pub values: fn(&V) -> Vec<String>,
}

// Not derived: an index is copyable whatever the view is.
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
