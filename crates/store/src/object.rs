//! An object as the store keeps it: bytes, and beside them the few values that selectors and collectors read.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use types::views::ObjectKey;
use types::{Revision, SmallMap, Timestamp, Uid};

use crate::fields::SelectableFields;
use crate::packing::DocumentBytes;

/// Names an object of one resource.
///
/// Within a resource keys order as the API lists: by namespace, then by name. That is why `resource` comes last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreKey {
    /// Empty for cluster-scoped resources.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// `group/plural`, or the plural alone in the core group: `scheduling.k8s.io/podgroups`, `pods`.
    pub resource: Arc<str>,
}

impl StoreKey {
    /// The key of an object of `resource`.
    pub fn new(resource: &Arc<str>, namespace: impl Into<String>, name: impl Into<String>) -> StoreKey {
        StoreKey { namespace: namespace.into(), name: name.into(), resource: Arc::clone(resource) }
    }

    /// Namespace and name.
    pub fn object_key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.clone(), self.name.clone())
    }
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.resource, self.name)
        } else {
            write!(f, "{} {}/{}", self.resource, self.namespace, self.name)
        }
    }
}

/// What may be asked of an object without decoding its bytes. The writer of the object fills it in. Every version of every
/// object has one, so what nobody asks for is not here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredMeta {
    /// Identity over the object's life.
    pub uid: Uid,
    /// What label selectors read.
    pub labels: SmallMap<String>,
    /// What field selectors read.
    pub fields: SelectableFields,
    /// Whether deletion was asked for.
    pub deleting: bool,
    /// When the object has outlived its use; unset: never. The store only lists such objects ([`crate::Store::expired`]):
    /// who wrote them takes them away.
    pub expires: Option<Timestamp>,
}

impl StoredMeta {
    /// Whether both say the same about the object, the end of its life aside.
    pub fn equals_ignoring_expiry(&self, other: &StoredMeta) -> bool {
        let StoredMeta { uid, labels, fields, deleting, expires: _ } = self;
        (uid, labels, fields, deleting) == (&other.uid, &other.labels, &other.fields, &other.deleting)
    }
}

/// An object's canonical JSON, complete but for its resource version, which only the commit knows.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    bytes: Vec<u8>,
    version_offset: usize,
}

impl Document {
    /// A document with `"resourceVersion":""` in its metadata; `hole` is the offset between those two quotes.
    ///
    /// Panics when the hole is anywhere but between two quotes.
    pub fn new(bytes: Vec<u8>, hole: usize) -> Document {
        assert!(
            hole > 0 && bytes.get(hole - 1) == Some(&b'"') && bytes.get(hole) == Some(&b'"'),
            "the hole for the resource version lies between two quotes"
        );
        Document { bytes, version_offset: hole }
    }

    /// How many bytes the JSON has, its resource version aside.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The JSON with `revision` in its place.
    pub fn with_revision(&self, revision: Revision) -> Bytes {
        let (head, tail) = self.bytes.split_at(self.version_offset);
        // Joined in a single go, in just the room that they need: every object is kept like this.
        Bytes::from([head, revision.to_string().as_bytes(), tail].concat())
    }

    /// Whether `stored` is this document, its revision aside.
    pub fn matches_stored(&self, stored: &StoredObject) -> bool {
        let (head, tail) = self.bytes.split_at(self.version_offset);
        // Compared in place: most writes differ early on, and none needs a copy for this question.
        stored
            .bytes()
            .strip_prefix(head)
            .and_then(|rest| rest.strip_suffix(tail))
            .is_some_and(|between| between == stored.revision.to_string().as_bytes())
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({})", String::from_utf8_lossy(&self.bytes))
    }
}

/// What a version of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The object was created or changed.
    Put,
    /// The object was deleted; its last state is kept, under the revision of the delete.
    Delete,
}

/// One version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Its name, which all versions of an object share.
    pub key: Arc<StoreKey>,
    /// Its canonical JSON, with `revision` as resource version.
    pub(crate) document: DocumentBytes,
    /// What selectors read.
    pub meta: StoredMeta,
    /// The revision that created the object.
    pub created: Revision,
    /// The revision of this version.
    pub revision: Revision,
}

impl StoredObject {
    /// Its canonical JSON, with `revision` as resource version. Not free for an object at rest: to be asked for once.
    pub fn bytes(&self) -> Bytes {
        self.document.bytes()
    }

    /// How many bytes the JSON has.
    pub fn size(&self) -> usize {
        self.document.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let text = r#"{"metadata":{"resourceVersion":""},"x":1}"#;
        Document::new(text.as_bytes().to_vec(), text.find("\"\"").expect("there is a hole") + 1)
    }

    #[test]
    fn the_revision_goes_into_the_hole() {
        assert_eq!(document().with_revision(Revision(42)), r#"{"metadata":{"resourceVersion":"42"},"x":1}"#);
    }

    #[test]
    fn a_document_is_the_same_as_what_it_became() {
        let stored = |bytes: Bytes| StoredObject {
            key: Arc::new(StoreKey::new(&Arc::from("pods"), "a", "b")),
            document: DocumentBytes::Plain(bytes),
            meta: StoredMeta::default(),
            created: Revision(42),
            revision: Revision(42),
        };
        assert!(document().matches_stored(&stored(document().with_revision(Revision(42)))));
        assert!(!document().matches_stored(&stored(document().with_revision(Revision(41)))));
        assert!(
            !document().matches_stored(&stored(Bytes::from_static(br#"{"metadata":{"resourceVersion":"42"},"x":2}"#)))
        );
    }

    #[test]
    #[should_panic(expected = "between two quotes")]
    fn a_hole_elsewhere_is_refused() {
        Document::new(b"{}".to_vec(), 1);
    }
}
