//! The values of field selectors, packed into one string. Every pod and every Event has about ten, and separate
//! strings would take more memory than the object's bytes.

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
        self.iter().find(|(path, _)| *path == name).map(|(_, value)| value)
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

    /// The number of fields.
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
            write!(values, "{}:{value}", value.len()).expect("writing to a string never fails");
        }
        SelectableFields { names: intern_names(&names), values: values.into_boxed_str() }
    }
}

impl fmt::Debug for SelectableFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The shared copy of a list of paths. Paths are constants of the code that writes objects, so there are few lists and
/// they can be leaked.
fn intern_names(names: &[&'static str]) -> &'static [&'static str] {
    static LISTS: InternTable<[&'static str]> = InternTable::new(FxHashSet::with_hasher(FxBuildHasher));
    intern(&LISTS, names, |names| Box::leak(names.into()))
}

/// The shared copy of a path that was read from disk.
pub(crate) fn intern_name(name: &str) -> &'static str {
    static NAMES: InternTable<str> = InternTable::new(FxHashSet::with_hasher(FxBuildHasher));
    intern(&NAMES, name, |name| Box::leak(name.into()))
}

/// Interned values.
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
    fn fields_round_trip_whatever_they_contain() {
        let given = [("spec.nodeName", "n-1"), ("reason", ""), ("source", "3:abc:ü\u{0}"), ("type", "Normal")];
        let fields: SelectableFields = given.into_iter().collect();
        assert_eq!(fields.iter().collect::<Vec<_>>(), given);
        assert_eq!((fields.get("source"), fields.get("spec")), (Some("3:abc:ü\u{0}"), None));
        assert_eq!((fields.len(), fields.is_empty()), (4, false));
        assert_eq!(SelectableFields::default(), std::iter::empty::<(&'static str, &str)>().collect());
    }
}
