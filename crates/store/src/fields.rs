//! What field selectors read of an object, packed into one text. Every pod and every event has some ten of them, so
//! each as a text of its own would take more room than the object's bytes.

use std::fmt::{self, Write as _};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use rustc_hash::{FxBuildHasher, FxHashSet};

/// Paths and values of an object's selectable fields.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SelectableFields {
    /// The paths, in the writer's order.
    names: &'static [&'static str],
    /// For each path its value's length in bytes, a colon, and the value.
    values: Box<str>,
}

impl SelectableFields {
    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(held, _)| *held == name).map(|(_, value)| value)
    }

    /// Paths and values, in the writer's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let mut rest = &*self.values;
        self.names.iter().map(move |name| {
            let (length, behind) = rest.split_once(':').expect("a length ends with a colon");
            let (value, behind) = behind.split_at(length.parse().expect("a length is a number"));
            rest = behind;
            (*name, value)
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl<V: AsRef<str>> FromIterator<(&'static str, V)> for SelectableFields {
    fn from_iter<I: IntoIterator<Item = (&'static str, V)>>(fields: I) -> SelectableFields {
        let (mut names, mut values) = (Vec::new(), String::new());
        for (name, value) in fields {
            let value = value.as_ref();
            names.push(name);
            write!(values, "{}:{value}", value.len()).expect("a text takes in what is written to it");
        }
        SelectableFields { names: intern_names(&names), values: values.into_boxed_str() }
    }
}

impl fmt::Debug for SelectableFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The one copy of a list of paths. Paths come from the code of whoever wrote the object, and which of them an object
/// has changes little, so there are few lists and they may live as long as the process.
fn intern_names(names: &[&'static str]) -> &'static [&'static str] {
    static LISTS: InternTable<[&'static str]> = InternTable::new(FxHashSet::with_hasher(FxBuildHasher));
    intern(&LISTS, names, |names| Box::leak(names.into()))
}

/// The one copy of a path that was read from a disk.
pub(crate) fn intern_name(name: &str) -> &'static str {
    static NAMES: InternTable<str> = InternTable::new(FxHashSet::with_hasher(FxBuildHasher));
    intern(&NAMES, name, |name| Box::leak(name.into()))
}

/// What was seen once.
type InternTable<T> = Mutex<FxHashSet<&'static T>>;

fn intern<T: ?Sized + Eq + Hash>(known: &InternTable<T>, value: &T, keep: impl FnOnce(&T) -> &'static T) -> &'static T {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(copy) = known.get(value) {
        return copy;
    }
    let new = keep(value);
    known.insert(new);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_comes_out_whatever_it_holds() {
        let given = [("spec.nodeName", "n-1"), ("reason", ""), ("source", "3:abc:ü\u{0}"), ("type", "Normal")];
        let fields: SelectableFields = given.into_iter().collect();
        assert_eq!(fields.iter().collect::<Vec<_>>(), given);
        assert_eq!((fields.get("source"), fields.get("spec")), (Some("3:abc:ü\u{0}"), None));
        assert_eq!((fields.len(), fields.is_empty()), (4, false));
        assert_eq!(SelectableFields::default(), std::iter::empty::<(&'static str, &str)>().collect());
    }
}
