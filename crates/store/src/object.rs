//! An object as stored: its bytes, and the few values that selectors and collectors read.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use types::views::ObjectKey;
use types::{Revision, SmallMap, Timestamp, Uid};

use crate::fields::SelectableFields;
use crate::packing::DocumentBytes;

/// The key of an object.
///
/// Within a resource, keys sort as the API lists: by namespace, then by name. That is why `resource` comes last.
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

/// The values that can be read without decoding the bytes. The writer of the object fills them in. Every version of
/// every object has them, so only values that are read are here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredMeta {
    /// Identity over the object's lifetime.
    pub uid: Uid,
    /// Labels, for label selectors.
    pub labels: SmallMap<String>,
    /// Selectable fields, for field selectors.
    pub fields: SelectableFields,
    /// Whether the object is being deleted.
    pub deleting: bool,
    /// When the object expires; unset: never. The store only lists expired objects ([`crate::Store::expired`]); the
    /// server deletes them.
    pub expires: Option<Timestamp>,
}

impl StoredMeta {
    /// Whether both are equal apart from the expiry.
    pub fn equals_ignoring_expiry(&self, other: &StoredMeta) -> bool {
        let StoredMeta { uid, labels, fields, deleting, expires: _ } = self;
        (uid, labels, fields, deleting) == (&other.uid, &other.labels, &other.fields, &other.deleting)
    }
}

/// An object's canonical JSON without its resource version, which is known only at commit.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    bytes: Vec<u8>,
    version_offset: usize,
}

impl Document {
    /// A document with `"resourceVersion":""` in its metadata; `offset` is the position between those two quotes.
    ///
    /// Panics when `offset` is not between two quotes.
    pub fn new(bytes: Vec<u8>, offset: usize) -> Document {
        assert!(
            offset > 0 && bytes.get(offset - 1) == Some(&b'"') && bytes.get(offset) == Some(&b'"'),
            "the resource version's position is between two quotes"
        );
        Document { bytes, version_offset: offset }
    }

    /// The size of the JSON without its resource version.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The JSON with `revision` as resource version.
    pub fn with_revision(&self, revision: Revision) -> Bytes {
        let (head, tail) = self.bytes.split_at(self.version_offset);
        // One allocation of the exact size: every stored object is one of these.
        Bytes::from([head, revision.to_string().as_bytes(), tail].concat())
    }

    /// Whether `stored` is this document, apart from its revision.
    pub fn matches_stored(&self, stored: &StoredObject) -> bool {
        let (head, tail) = self.bytes.split_at(self.version_offset);
        // Compared in place: most writes differ early, and no copy is needed.
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
    /// Its key, which all versions of an object share.
    pub key: Arc<StoreKey>,
    /// Its canonical JSON, with `revision` as resource version.
    pub(crate) document: DocumentBytes,
    /// The values that selectors read.
    pub meta: StoredMeta,
    /// The revision that created the object.
    pub created: Revision,
    /// The revision of this version.
    pub revision: Revision,
}

impl StoredObject {
    /// Its canonical JSON, with `revision` as resource version. Decompresses a packed document: call it once.
    pub fn bytes(&self) -> Bytes {
        self.document.bytes()
    }

    /// The size of the JSON.
    pub fn size(&self) -> usize {
        self.document.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let text = r#"{"metadata":{"resourceVersion":""},"x":1}"#;
        Document::new(text.as_bytes().to_vec(), text.find("\"\"").expect("the version is empty") + 1)
    }

    #[test]
    fn the_revision_is_inserted_at_its_offset() {
        assert_eq!(document().with_revision(Revision(42)), r#"{"metadata":{"resourceVersion":"42"},"x":1}"#);
    }

    #[test]
    fn a_document_matches_its_stored_form() {
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
    fn an_offset_elsewhere_is_refused() {
        Document::new(b"{}".to_vec(), 1);
    }
}
