//! Packed documents. A document that has not changed for as long as the history reaches is stored as its difference
//! from another document of its resource (the dictionary): most are similar, and few are read again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict, uncompressed_size};

use crate::object::StoredObject;

/// An object's canonical JSON, plain or packed.
#[derive(Clone)]
pub(crate) enum DocumentBytes {
    /// As it is sent: documents that were written recently.
    Plain(Bytes),
    /// Its size and its difference from the dictionary.
    Packed(Box<[u8]>, Arc<Bytes>),
}

impl DocumentBytes {
    /// The JSON.
    pub fn bytes(&self) -> Bytes {
        match self {
            DocumentBytes::Plain(bytes) => bytes.clone(),
            DocumentBytes::Packed(difference, dictionary) => {
                let whole = decompress_size_prepended_with_dict(difference, dictionary);
                Bytes::from(whole.expect("what was packed is unpacked with the same dictionary"))
            }
        }
    }

    /// The size of the JSON.
    pub fn size(&self) -> usize {
        match self {
            DocumentBytes::Plain(bytes) => bytes.len(),
            DocumentBytes::Packed(difference, _) => {
                let (size, _) = uncompressed_size(difference).expect("a packed document starts with its size");
                size
            }
        }
    }
}

impl PartialEq for DocumentBytes {
    fn eq(&self, other: &DocumentBytes) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for DocumentBytes {}

impl fmt::Debug for DocumentBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.bytes()))
    }
}

/// Shorter documents are not packed.
const MIN_PACKED_BYTES: usize = 256;
/// Maximum size of a dictionary, which is read for every document that is packed.
const MAX_DICTIONARY_BYTES: usize = 8 << 10;
/// A document that does not pack to a third of its size becomes the new dictionary, if the current one was used this
/// often. Resources whose objects are all different do not replace their dictionary with each object.
const MIN_DICTIONARY_USES: u32 = 256;

/// Packs documents, each with the dictionary of its resource.
#[derive(Default)]
pub(crate) struct Packer {
    dictionaries: BTreeMap<Arc<str>, Dictionary>,
}

struct Dictionary {
    text: Arc<Bytes>,
    uses: u32,
}

impl Packer {
    /// The same version of the object, packed; `None` where packing does not help.
    pub fn pack(&mut self, object: &StoredObject) -> Option<StoredObject> {
        let DocumentBytes::Plain(plain) = &object.document else { return None };
        if plain.len() < MIN_PACKED_BYTES {
            return None;
        }
        let resource = &object.key.resource;
        if !self.dictionaries.contains_key(resource) {
            self.dictionaries.insert(Arc::clone(resource), Dictionary::new(plain));
        }
        let dictionary = self.dictionaries.get_mut(resource).expect("inserted when it was missing");
        dictionary.uses += 1;
        let difference = compress_prepend_size_with_dict(plain, &dictionary.text);
        let like = Arc::clone(&dictionary.text);
        if difference.len() * 3 > plain.len() && dictionary.uses >= MIN_DICTIONARY_USES {
            *dictionary = Dictionary::new(plain);
        }
        // Unpacking costs time, so a small gain is not worth it.
        (difference.len() * 4 < plain.len() * 3).then(|| StoredObject {
            document: DocumentBytes::Packed(difference.into_boxed_slice(), like),
            key: Arc::clone(&object.key),
            meta: object.meta.clone(),
            created: object.created,
            revision: object.revision,
        })
    }
}

impl Dictionary {
    fn new(text: &Bytes) -> Dictionary {
        Dictionary { text: Arc::new(Bytes::copy_from_slice(&text[..text.len().min(MAX_DICTIONARY_BYTES)])), uses: 0 }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use types::{Revision, Timestamp};

    use super::*;
    use crate::commit::{ObjectWrite, Precondition};
    use crate::object::{Document, Op, StoreKey, StoredMeta};
    use crate::{HistoryLimits, Store};

    fn document(name: &str, filling: &str) -> Document {
        let head = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":""#);
        Document::new(format!(r#"{head}"}},"spec":"{filling}"}}"#).into_bytes(), head.len())
    }

    fn object(resource: &str, name: &str, filling: &str) -> StoredObject {
        StoredObject {
            key: Arc::new(StoreKey::new(&Arc::from(resource), "ns", name)),
            document: DocumentBytes::Plain(document(name, filling).with_revision(Revision(7))),
            meta: StoredMeta::default(),
            created: Revision(1),
            revision: Revision(7),
        }
    }

    /// A string without repetitions.
    fn noise(seed: u32, length: usize) -> String {
        let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        let letter = |state: u32| char::from(b'A' + (state >> 24) as u8 % 26);
        std::iter::successors(Some(seed), next).skip(1).take(length).map(letter).collect()
    }

    #[test]
    fn a_packed_object_is_equal_and_smaller() {
        let (mut packer, filling) = (Packer::default(), noise(1, 2_000));
        for name in ["one", "another", "a-third"] {
            let plain = object("pods", name, &filling);
            let packed = packer.pack(&plain).unwrap();
            assert_eq!((&packed, packed.bytes(), packed.size()), (&plain, plain.bytes(), plain.size()), "{name}");
            let DocumentBytes::Packed(difference, _) = &packed.document else { panic!("{name} is packed") };
            assert!(difference.len() < plain.size() / 10, "{name}: {} of {}", difference.len(), plain.size());
            assert!(packer.pack(&packed).is_none(), "once is enough");
        }
    }

    #[test]
    fn a_document_unlike_others_is_not_packed() {
        let mut packer = Packer::default();
        packer.pack(&object("pods", "first", &noise(1, 2_000)));
        assert!(packer.pack(&object("pods", "other", &noise(2, 2_000))).is_none());
        assert!(packer.pack(&object("pods", "short", "")).is_none(), "short documents are not packed either");
        let large = object("configs", "large", &noise(3, 100_000));
        packer.pack(&large);
        assert_eq!(packer.dictionaries[&large.key.resource].text.len(), MAX_DICTIONARY_BYTES);
    }

    #[test]
    fn a_dictionary_that_no_longer_fits_is_replaced() {
        let (mut packer, filling) = (Packer::default(), noise(2, 2_000));
        packer.pack(&object("pods", "old", &noise(1, 2_000)));
        let tries =
            (0..2 * MIN_DICTIONARY_USES).filter(|n| packer.pack(&object("pods", &n.to_string(), &filling)).is_some());
        assert_eq!(tries.count() as u32, MIN_DICTIONARY_USES + 1, "the old one was used often enough first");
    }

    #[test]
    fn an_object_older_than_the_history_is_packed_and_still_equal() {
        let store = Store::in_memory(HistoryLimits { max_history_bytes: 0, ..HistoryLimits::default() });
        let pods: Arc<str> = Arc::from("pods");
        let filling = noise(1, 2_000);
        let write = |name: &str, expect| {
            let (key, document) = (StoreKey::new(&pods, "ns", name), document(name, &filling));
            let write = ObjectWrite { key, precondition: expect, op: Op::Put, document, meta: StoredMeta::default() };
            store.commit(vec![write], Timestamp::UNIX_EPOCH).unwrap().remove(0).unwrap()
        };
        let returned = write("a", Precondition::Absent);
        let stored = store.get(&returned.key).unwrap();
        assert!(matches!((&returned.document, &stored.document), (DocumentBytes::Plain(_), DocumentBytes::Packed(..))));
        assert_eq!(returned, stored);
        let unchanged = write("a", Precondition::At(stored.revision));
        assert_eq!(unchanged.revision, stored.revision, "a write that changes nothing keeps its revision");
    }
}
