//! All objects and their owners, updated from changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use api::Uid;
use api::kinds::ApiResource;
use api::views::{MetaView, OwnerRef, View};

/// Finalizer of foreground deletion: dependents are deleted first.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of orphan deletion: dependents stay.
pub const ORPHAN: &str = "orphan";

/// How many uids of deleted objects are remembered. A forgotten one is read from the server again.
const MAX_ABSENT: usize = 100_000;

/// The ownership of an object. It shares the object with its cache instead of copying: the graph has one for every
/// object.
#[derive(Clone)]
pub struct GraphObject(Arc<dyn OwnershipView>);

/// What the graph needs from a view of any kind.
trait OwnershipView: Send + Sync {
    fn resource(&self) -> &'static ApiResource;
    fn metadata(&self) -> &MetaView;
}

impl<V: View> OwnershipView for V {
    fn resource(&self) -> &'static ApiResource {
        V::RESOURCE
    }

    fn metadata(&self) -> &MetaView {
        self.meta()
    }
}

impl GraphObject {
    /// The object of `view`.
    pub fn of<V: View>(view: Arc<V>) -> GraphObject {
        GraphObject(view)
    }

    /// Its kind.
    pub fn resource(&self) -> &'static ApiResource {
        self.0.resource()
    }

    /// Its metadata.
    pub fn meta(&self) -> &MetaView {
        self.0.metadata()
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.meta().uid
    }

    /// Its owners, in the order of the document.
    pub fn owners(&self) -> &[OwnerRef] {
        &self.meta().owner_references
    }

    /// Whether it is in foreground deletion and waits for its dependents.
    pub fn waits_for_dependents(&self) -> bool {
        self.meta().is_deleting() && self.meta().has_finalizer(FOREGROUND)
    }

    /// Whether it is in orphan deletion and waits until its dependents no longer refer to it.
    pub fn orphans_dependents(&self) -> bool {
        self.meta().is_deleting() && self.meta().has_finalizer(ORPHAN)
    }

    /// Whether ownership is the same. It is for nearly all changes.
    fn has_same_ownership(&self, other: &GraphObject) -> bool {
        let (one, other) = (self.meta(), other.meta());
        one.owner_references == other.owner_references
            && one.finalizers == other.finalizers
            && one.is_deleting() == other.is_deleting()
    }
}

impl fmt::Debug for GraphObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource().plural, self.meta().key())
    }
}

/// All objects and their owners.
#[derive(Debug, Default)]
pub struct Graph {
    objects: BTreeMap<Uid, GraphObject>,
    /// Pairs of an owner, which may not be in `objects`, and one of its dependents.
    dependents: BTreeSet<(Uid, Uid)>,
    absent: BTreeSet<Uid>,
    /// The same uids, oldest first.
    absent_in_order: VecDeque<Uid>,
}

impl Graph {
    /// The object with that uid.
    pub fn get(&self, uid: &str) -> Option<&GraphObject> {
        self.objects.get(&Uid::from(uid))
    }

    /// The objects that name `uid` as an owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &GraphObject> {
        let owner = Uid::from(uid);
        let first = Bound::Included((owner.clone(), Uid::default()));
        let pairs = self.dependents.range((first, Bound::Unbounded)).take_while(move |(of, _)| *of == owner);
        pairs.filter_map(|(_, dependent)| self.objects.get(dependent))
    }

    /// Whether the object is known to be gone. Uids are not reused.
    pub fn is_absent(&self, uid: &str) -> bool {
        self.absent.contains(&Uid::from(uid))
    }

    /// Records that there is no object with this uid.
    pub fn mark_absent(&mut self, uid: &str) {
        let uid = Uid::from(uid);
        if self.absent.insert(uid.clone()) {
            self.absent_in_order.push_back(uid);
        }
        if self.absent_in_order.len() > MAX_ABSENT {
            self.absent_in_order.pop_front().into_iter().for_each(|oldest| _ = self.absent.remove(&oldest));
        }
    }

    /// Applies a change and returns the uids of the objects to reconcile because of it.
    pub fn apply(&mut self, old: Option<GraphObject>, new: Option<GraphObject>) -> Vec<String> {
        let mut affected = Vec::new();
        if let (Some(old), Some(new)) = (&old, &new)
            && old.has_same_ownership(new)
        {
            // Still replaced, so that the graph does not keep the old object in memory.
            self.objects.insert(Uid::from(new.uid()), new.clone());
            return affected;
        }
        let was_deleting = old.as_ref().is_some_and(|old| old.meta().is_deleting());
        if let Some(old) = &old {
            self.forget(old);
            // An owner may wait for this object.
            affected.extend(old.owners().iter().map(|owner| owner.uid.clone()));
        }
        match new {
            Some(new) => {
                let uid = Uid::from(new.uid());
                for owner in new.owners() {
                    self.dependents.insert((Uid::from(owner.uid.as_str()), uid.clone()));
                }
                affected.push(new.uid().to_owned());
                if new.meta().is_deleting() && !was_deleting {
                    affected.extend(self.uids_of_dependents(new.uid()));
                }
                self.objects.insert(uid, new);
            }
            None => {
                let uid = old.as_ref().map(GraphObject::uid).unwrap_or_default();
                affected.extend(self.uids_of_dependents(uid));
                self.mark_absent(uid);
            }
        }
        affected
    }

    fn uids_of_dependents(&self, uid: &str) -> impl Iterator<Item = String> {
        self.dependents(uid).map(|dependent| dependent.uid().to_owned())
    }

    fn forget(&mut self, old: &GraphObject) {
        let uid = Uid::from(old.uid());
        self.objects.remove(&uid);
        for owner in old.owners() {
            self.dependents.remove(&(Uid::from(owner.uid.as_str()), uid.clone()));
        }
    }
}
