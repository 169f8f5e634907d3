//! Who owns whom, kept up to date from changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use api::Uid;
use api::kinds::ApiResource;
use api::views::{MetaView, OwnerRef, View};

/// On an owner: its dependents go first.
pub const FOREGROUND: &str = "foregroundDeletion";
/// On an owner: its dependents stay.
pub const ORPHAN: &str = "orphan";

/// How many uids of vanished objects are remembered; a forgotten one is asked for again.
const MAX_ABSENT: usize = 100_000;

/// An object as far as ownership goes. It is the one that its cache holds, not a copy: there are as many of these as
/// there are objects.
#[derive(Clone)]
pub struct GraphObject(Arc<dyn OwnershipView>);

/// What is asked of a view of any kind.
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
    /// The object that `view` shows.
    pub fn of<V: View>(view: Arc<V>) -> GraphObject {
        GraphObject(view)
    }

    /// Its kind.
    pub fn resource(&self) -> &'static ApiResource {
        self.0.resource()
    }

    /// Where it is, and which.
    pub fn meta(&self) -> &MetaView {
        self.0.metadata()
    }

    /// Which it is.
    pub fn uid(&self) -> &str {
        &self.meta().uid
    }

    /// Its owners, in the order of the document.
    pub fn owners(&self) -> &[OwnerRef] {
        &self.meta().owner_references
    }

    /// Whether it is being deleted and waits for its dependents to go first.
    pub fn waits_for_dependents(&self) -> bool {
        self.meta().is_deleting() && self.meta().has_finalizer(FOREGROUND)
    }

    /// Whether it is being deleted and waits for its dependents to be let go.
    pub fn orphans_dependents(&self) -> bool {
        self.meta().is_deleting() && self.meta().has_finalizer(ORPHAN)
    }

    /// Whether nothing is different that ownership depends on; so it is for nearly all changes.
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
    /// An owner, which may be unknown here, and one of its dependents.
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

    /// Whether the object was there and is no more. Uids never come back.
    pub fn is_absent(&self, uid: &str) -> bool {
        self.absent.contains(&Uid::from(uid))
    }

    /// Takes in that there is no object with this uid.
    pub fn mark_absent(&mut self, uid: &str) {
        let uid = Uid::from(uid);
        if self.absent.insert(uid.clone()) {
            self.absent_in_order.push_back(uid);
        }
        if self.absent_in_order.len() > MAX_ABSENT {
            self.absent_in_order.pop_front().into_iter().for_each(|oldest| _ = self.absent.remove(&oldest));
        }
    }

    /// Takes a change in, and returns the uids of the objects that have to be looked at because of it.
    pub fn apply(&mut self, old: Option<GraphObject>, new: Option<GraphObject>) -> Vec<String> {
        let mut affected = Vec::new();
        if let (Some(old), Some(new)) = (&old, &new)
            && old.has_same_ownership(new)
        {
            // Still taken in: the state that the cache has left behind is not to live on here.
            self.objects.insert(Uid::from(new.uid()), new.clone());
            return affected;
        }
        let was_deleting = old.as_ref().is_some_and(|old| old.meta().is_deleting());
        if let Some(old) = &old {
            self.forget(old);
            // An owner that waits for this object may have waited for just this.
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
