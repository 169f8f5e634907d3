//! A compact map with string keys, for maps of a few entries that never change.
//!
//! A B-tree allocates a node for eleven entries with its first entry: half a kilobyte for a single label. Caches hold
//! hundreds of thousands of such maps.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Index;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::interned_str::InternedStr;

/// Entries in the order of their keys, each key once, in one allocation of exactly their size.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SmallMap<V>(Box<[(InternedStr, V)]>);

impl<V> SmallMap<V> {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&V> {
        self.position(key).ok().map(|index| &self.0[index].1)
    }

    /// Whether there is an entry for `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_ok()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The entries, in the order of their keys.
    pub fn iter(&self) -> Iter<'_, V> {
        self.into_iter()
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Inserts an entry. It moves all other entries: for building a map, not for use in a loop.
    pub fn insert(&mut self, key: impl Into<InternedStr>, value: V) {
        let key = key.into();
        match self.position(&key) {
            Ok(index) => self.0[index].1 = value,
            Err(index) => {
                let mut entries = std::mem::take(&mut self.0).into_vec();
                entries.insert(index, (key, value));
                self.0 = entries.into_boxed_slice();
            }
        }
    }

    /// The position of `key`, or where to insert it.
    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(held, _)| (**held).cmp(key))
    }

    /// Of several entries with one key, the last one is kept.
    fn from_entries(mut entries: Vec<(InternedStr, V)>) -> SmallMap<V> {
        if !entries.is_sorted_by(|(one, _), (next, _)| one < next) {
            // Reversed, so that the entry to keep comes first. The stable sort keeps that order among equal keys.
            entries.reverse();
            entries.sort_by(|(one, _), (next, _)| one.cmp(next));
            entries.dedup_by(|(later, _), (kept, _)| later == kept);
        }
        SmallMap(entries.into_boxed_slice())
    }
}

impl<V> Default for SmallMap<V> {
    fn default() -> SmallMap<V> {
        SmallMap(Box::default())
    }
}

impl<V: fmt::Debug> fmt::Debug for SmallMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<V> Index<&str> for SmallMap<V> {
    type Output = V;

    /// Panics if there is no entry for `key`.
    fn index(&self, key: &str) -> &V {
        self.get(key).expect("there is an entry for the key")
    }
}

impl<K: Into<InternedStr>, V> FromIterator<(K, V)> for SmallMap<V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> SmallMap<V> {
        SmallMap::from_entries(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl<K: Into<InternedStr>, V, const N: usize> From<[(K, V); N]> for SmallMap<V> {
    fn from(entries: [(K, V); N]) -> SmallMap<V> {
        entries.into_iter().collect()
    }
}

/// The entries of a [`SmallMap`], in the order of their keys.
pub struct Iter<'a, V>(std::slice::Iter<'a, (InternedStr, V)>);

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (&'a str, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (&**key, value))
    }
}

impl<'a, V> IntoIterator for &'a SmallMap<V> {
    type Item = (&'a str, &'a V);
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Iter<'a, V> {
        Iter(self.0.iter())
    }
}

impl<V: Serialize> Serialize for SmallMap<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for SmallMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SmallMap<V>, D::Error> {
        deserializer.deserialize_map(SmallMapVisitor(PhantomData))
    }
}

struct SmallMapVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for SmallMapVisitor<V> {
    type Value = SmallMap<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<SmallMap<V>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = fields.next_entry()? {
            entries.push(entry);
        }
        Ok(SmallMap::from_entries(entries))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::SmallMap;

    proptest! {
        #[test]
        fn small_map_equals_a_b_tree_map(entries in prop::collection::vec(("[a-d]{0,2}", any::<u8>()), 0..12), extra in "[a-d]{0,2}") {
            let mut map: BTreeMap<String, u8> = entries.iter().cloned().collect();
            let mut pairs: SmallMap<u8> = entries.into_iter().collect();
            for step in 0..2 {
                prop_assert_eq!(pairs.iter().collect::<Vec<_>>(), map.iter().map(|(k, v)| (k.as_str(), v)).collect::<Vec<_>>());
                prop_assert_eq!(pairs.get(&extra), map.get(&extra));
                prop_assert_eq!(pairs.contains_key(&extra), map.contains_key(&extra));
                prop_assert_eq!((pairs.len(), pairs.is_empty()), (map.len(), map.is_empty()));
                pairs.insert(extra.clone(), step);
                map.insert(extra.clone(), step);
            }
        }

        #[test]
        fn document_decodes_as_into_a_b_tree_map(entries in prop::collection::vec(("[a-c]", any::<u8>()), 0..6)) {
            let fields: Vec<String> = entries.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            let text = format!("{{{}}}", fields.join(","));
            let pairs: SmallMap<u8> = serde_json::from_str(&text).expect("a document");
            let map: BTreeMap<String, u8> = serde_json::from_str(&text).expect("a document");
            prop_assert_eq!(pairs, map.into_iter().collect());
        }
    }
}
