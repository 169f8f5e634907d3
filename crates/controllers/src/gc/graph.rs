//! Who owns whom, kept up to date from changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::views::{ObjectKey, OwnerRef, ResourceRef};

/// On an owner: its dependents go first.
pub const FOREGROUND: &str = "foregroundDeletion";
/// On an owner: its dependents stay.
pub const ORPHAN: &str = "orphan";

/// How many uids of vanished objects are remembered; a forgotten one is asked for again.
const ABSENT_MAX: usize = 100_000;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Its kind.
    pub resource: ResourceRef,
    /// Its namespace and name.
    pub key: ObjectKey,
}

/// An object as far as ownership goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Where it is.
    pub id: Id,
    /// Which it is.
    pub uid: String,
    /// Its owners, in the order of the document.
    pub owners: Vec<OwnerRef>,
    /// Its finalizers, in the order of the document.
    pub finalizers: Vec<String>,
    /// Whether deletion was asked for.
    pub deleting: bool,
}

impl Object {
    /// Whether it is being deleted and waits for its dependents to go first.
    pub fn waits_for_dependents(&self) -> bool {
        self.deleting && self.finalizers.iter().any(|held| held == FOREGROUND)
    }

    /// Whether it is being deleted and waits for its dependents to be let go.
    pub fn orphans_dependents(&self) -> bool {
        self.deleting && self.finalizers.iter().any(|held| held == ORPHAN)
    }
}

/// All objects and their owners.
#[derive(Debug, Default)]
pub struct Graph {
    objects: BTreeMap<String, Object>,
    /// Uids of dependents by the uid of an owner, which may be unknown here.
    dependents: BTreeMap<String, BTreeSet<String>>,
    absent: BTreeSet<String>,
    /// The same uids, oldest first.
    absent_in_order: VecDeque<String>,
}

impl Graph {
    /// The object with that uid.
    pub fn get(&self, uid: &str) -> Option<&Object> {
        self.objects.get(uid)
    }

    /// The objects that name `uid` as an owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Object> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|uid| self.objects.get(uid))
    }

    /// Whether the object was there and is no more. Uids never come back.
    pub fn is_absent(&self, uid: &str) -> bool {
        self.absent.contains(uid)
    }

    /// Takes in that there is no object with this uid.
    pub fn note_absent(&mut self, uid: &str) {
        if self.absent.insert(uid.to_owned()) {
            self.absent_in_order.push_back(uid.to_owned());
        }
        if self.absent_in_order.len() > ABSENT_MAX {
            self.absent_in_order.pop_front().into_iter().for_each(|oldest| _ = self.absent.remove(&oldest));
        }
    }

    /// Takes a change in, and returns the uids of the objects that have to be looked at because of it.
    pub fn apply(&mut self, old: Option<&Object>, new: Option<Object>) -> Vec<String> {
        let mut affected = Vec::new();
        let was_deleting = old.is_some_and(|old| old.deleting);
        if let Some(old) = old {
            self.forget(old);
            // An owner that waits for this object may have waited for just this.
            affected.extend(old.owners.iter().map(|owner| owner.uid.clone()));
        }
        match new {
            Some(new) => {
                for owner in &new.owners {
                    self.dependents.entry(owner.uid.clone()).or_default().insert(new.uid.clone());
                }
                affected.push(new.uid.clone());
                if new.deleting && !was_deleting {
                    affected.extend(self.dependents.get(&new.uid).into_iter().flatten().cloned());
                }
                self.objects.insert(new.uid.clone(), new);
            }
            None => {
                let uid = old.map(|old| old.uid.clone()).unwrap_or_default();
                affected.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
                self.note_absent(&uid);
            }
        }
        affected
    }

    fn forget(&mut self, old: &Object) {
        self.objects.remove(&old.uid);
        for owner in &old.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&old.uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}
