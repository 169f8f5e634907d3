//! What filters and scores read of a pod. Fields that none of them reads do not distinguish classes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::BitOr;

use types::views::PodSpecView;

/// What a filter or score reads of a pod: fields of its spec, values inferred from it, and labels and annotations by
/// key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSet {
    pub(crate) fields: PodSpecFields,
    pub(crate) labels: BTreeSet<String>,
    pub(crate) annotations: BTreeSet<String>,
    pub(crate) inferred: BTreeMap<&'static str, InferredValue>,
}

/// A value that a filter or score infers from a pod's spec, such as a set of flags. Pods with the same value share a
/// class, whatever fields it is inferred from.
#[derive(Clone, Copy, Debug)]
pub struct InferredValue {
    /// Its name. Values of the same name must be inferred by the same function.
    pub name: &'static str,
    /// The value; 0 for nearly all pods.
    pub infer: fn(&PodSpecView) -> u64,
}

/// The name stands for the function.
impl PartialEq for InferredValue {
    fn eq(&self, other: &InferredValue) -> bool {
        self.name == other.name
    }
}

impl Eq for InferredValue {}

impl ReadSet {
    /// Only these fields; [`PodSpecFields::NONE`] for nothing at all.
    pub fn fields(fields: PodSpecFields) -> ReadSet {
        ReadSet { fields, ..ReadSet::default() }
    }

    /// The value of the pod's label `key` as well.
    pub fn with_label(mut self, key: &str) -> ReadSet {
        self.labels.insert(key.to_owned());
        self
    }

    /// The value of the pod's annotation `key` as well.
    pub fn with_annotation(mut self, key: &str) -> ReadSet {
        self.annotations.insert(key.to_owned());
        self
    }

    /// A value inferred from the pod's spec as well.
    pub fn with_inferred(mut self, value: InferredValue) -> ReadSet {
        self.inferred.insert(value.name, value);
        self
    }

    /// The union of both.
    pub(crate) fn union(mut self, other: &ReadSet) -> ReadSet {
        self.fields = self.fields | other.fields;
        self.labels.extend(other.labels.iter().cloned());
        self.annotations.extend(other.annotations.iter().cloned());
        self.inferred.extend(&other.inferred);
        self
    }
}

/// A set of the spec fields that placement reads. Each is one field of [`Class`](crate::Class).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodSpecFields(u8);

impl PodSpecFields {
    /// None of them.
    pub const NONE: PodSpecFields = PodSpecFields(0);
    /// Requested resources and host ports.
    pub const USAGE: PodSpecFields = PodSpecFields(1);
    /// Tolerations.
    pub const TOLERATIONS: PodSpecFields = PodSpecFields(2);
    /// The node selector and the required terms of node affinity.
    pub const REQUIRED_NODES: PodSpecFields = PodSpecFields(4);
    /// The preferred terms of node affinity.
    pub const PREFERRED_NODES: PodSpecFields = PodSpecFields(8);
    /// The node that the pod names.
    pub const NODE_NAME: PodSpecFields = PodSpecFields(16);
    /// Container images.
    pub const IMAGES: PodSpecFields = PodSpecFields(32);

    /// All of them.
    pub(crate) const ALL: PodSpecFields = PodSpecFields(63);

    pub(crate) fn contains(self, other: PodSpecFields) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for PodSpecFields {
    type Output = PodSpecFields;
    fn bitor(self, other: PodSpecFields) -> PodSpecFields {
        PodSpecFields(self.0 | other.0)
    }
}
