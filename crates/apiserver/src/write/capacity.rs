//! How much of every node is taken. Kept from one bind to the next and brought up to date from the store's log, so that
//! a bind costs the same however many pods there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::core::requests::{self, ResourceAmounts};
use api::views::{NodeView, View};
use api::{Revision, Uid};
use futures::FutureExt;
use store::{ListQuery, Op, Store, StoreEvent, StoreKey, StoredObject, Watcher};

use crate::read::selection::stored_field;
use crate::resources::object::ApiObject;

const LOG: &str = "the current revision is never compacted";

/// So many different amounts are remembered.
const MAX_SHARED_AMOUNTS: usize = 1024;

/// The allocated capacity of every node, and reservations of pending binds.
pub(crate) struct Capacity {
    store: Store,
    pods: Arc<str>,
    nodes: Arc<str>,
    ledger: Mutex<CapacityLedger>,
}

#[derive(Default)]
struct CapacityLedger {
    /// `None` until the first bind.
    log: Option<Watcher>,
    nodes: BTreeMap<String, NodeCapacity>,
    /// What each pod that is on a node takes of it, by uid.
    placed: BTreeMap<Uid, PodUsage>,
    /// What pods take, each amount once: most pods are like many others.
    shared_amounts: BTreeSet<Arc<ResourceAmounts>>,
    /// What pending binds will allocate, by uid of the pod.
    pending: BTreeMap<Uid, Vec<PendingBind>>,
    /// The number of the next bind.
    next_number: u64,
    /// The number of the first bind since the ledger was last made anew.
    first_number: u64,
}

#[derive(Default)]
struct NodeCapacity {
    /// By resource, what is not zero; `pods` counts the pods. Wide enough for any number of pods that ask for as much as
    /// can be written: whoever makes a pod may put it on a node by its name, and nothing of that may end the count.
    used: BTreeMap<String, i128>,
    /// The capacity that the node's object had at this revision.
    allocatable: Option<(Revision, ResourceAmounts)>,
}

#[derive(Clone)]
struct PodUsage {
    node: Arc<str>,
    amounts: Arc<ResourceAmounts>,
}

struct PendingBind {
    /// Tells binds of the same pod apart.
    number: u64,
    usage: PodUsage,
    /// The client that bound was cancelled before the result, and the bind may still take effect.
    abandoned: bool,
}

/// Why a pod does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InsufficientCapacity {
    resource: String,
    requested: i64,
    free: i64,
}

impl fmt::Display for InsufficientCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InsufficientCapacity { resource, requested: asked, free } = self;
        let (asked, free) = (requests::format_amount(resource, *asked), requests::format_amount(resource, *free));
        write!(f, "insufficient {resource}: {free} free, {asked} asked for")
    }
}

/// Capacity that is reserved for a pending bind.
pub(crate) struct CapacityReservation<'a> {
    capacity: &'a Capacity,
    uid: Uid,
    number: u64,
    finished: bool,
}

impl CapacityReservation<'_> {
    /// The bind has ended: the pod is on the node, or it is not.
    pub fn finish(mut self, bound: bool) {
        self.finished = true;
        let mut ledger = self.capacity.lock();
        // Another reader of the log may have counted the pod meanwhile, which ended the reservation.
        let Some(held) = ledger.remove_pending(&self.uid, |held| held.number == self.number) else { return };
        // In a ledger that was rebuilt since, the pod may have come and gone; the next read of the log decides.
        if bound && self.number >= ledger.first_number {
            ledger.placed.insert(std::mem::take(&mut self.uid), held.usage);
        } else {
            ledger.release(&held.usage);
        }
    }
}

impl Drop for CapacityReservation<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut ledger = self.capacity.lock();
        let held = ledger.pending.get_mut(&self.uid).into_iter().flatten();
        held.filter(|held| held.number == self.number).for_each(|held| held.abandoned = true);
    }
}

impl Capacity {
    /// The nodes and pods in `store`.
    pub fn new(store: Store) -> Capacity {
        Capacity { store, pods: "pods".into(), nodes: "nodes".into(), ledger: Mutex::default() }
    }

    /// Holds what `pod` asks for on `node`, if it is free. A node without an object has no capacity that could be
    /// exceeded.
    pub fn reserve(&self, pod: &ApiObject, node: &str) -> Result<CapacityReservation<'_>, InsufficientCapacity> {
        let uid = Uid::from(pod.uid());
        let mut ledger = self.synced_ledger();
        let amounts = ledger.intern(requests_of(&pod.document()["spec"]));
        if let Some(object) = self.store.get(&StoreKey::new(&self.nodes, "", node)) {
            ledger.check(&object, &uid, &amounts)?;
        }
        let number = ledger.next_number;
        ledger.next_number += 1;
        let taken = PodUsage { node: node.into(), amounts };
        ledger.node(node).add(&taken.amounts);
        ledger.pending.entry(uid.clone()).or_default().push(PendingBind { number, usage: taken, abandoned: false });
        Ok(CapacityReservation { capacity: self, uid, number, finished: false })
    }

    /// The ledger with every write that the store has shown.
    fn synced_ledger(&self) -> MutexGuard<'_, CapacityLedger> {
        let mut ledger = self.lock();
        loop {
            // Ready at once while there is something to read.
            let read = ledger.log.as_mut().map(|log| log.next().now_or_never());
            match read {
                Some(None) => return ledger,
                Some(Some(Ok(events))) => events.iter().for_each(|event| ledger.apply(event)),
                // The log has moved on since the last bind, or there was none.
                Some(Some(Err(_))) | None => self.rebuild(&mut ledger),
            }
        }
    }

    fn rebuild(&self, ledger: &mut CapacityLedger) {
        let query = ListQuery::all(&self.pods);
        let listed = self.store.list(&query, &mut |stored| node_of(stored).is_some()).expect(LOG);
        let mut known = std::mem::take(&mut ledger.placed);
        ledger.nodes.retain(|_, node| {
            node.used.clear();
            node.allocatable.is_some()
        });
        let held: Vec<PodUsage> = ledger.pending.values().flatten().map(|held| held.usage.clone()).collect();
        held.iter().for_each(|taken| ledger.node(&taken.node).add(&taken.amounts));
        for stored in &listed.items {
            match known.remove(&stored.meta.uid) {
                Some(taken) => ledger.place(&stored.meta.uid, taken),
                None => ledger.place_stored(stored),
            }
            ledger.forget_abandoned(&stored.meta.uid);
        }
        ledger.first_number = ledger.next_number;
        ledger.log = Some(self.store.watch(&self.pods, listed.revision).expect(LOG));
    }

    // Held for the time of a look or a change, never across an await.
    fn lock(&self) -> MutexGuard<'_, CapacityLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CapacityLedger {
    fn node(&mut self, name: &str) -> &mut NodeCapacity {
        if !self.nodes.contains_key(name) {
            self.nodes.insert(name.to_owned(), NodeCapacity::default());
        }
        self.nodes.get_mut(name).expect("inserted when it was missing")
    }

    /// Most changes of a pod leave it where it is, and need no more than a look at two fields.
    fn apply(&mut self, event: &StoreEvent) {
        let before = event.previous.as_deref().and_then(node_of);
        let after = Some(&*event.object).filter(|_| event.op == Op::Put).and_then(node_of);
        if before == after {
            return;
        }
        let uid = &event.object.meta.uid;
        match after {
            // Who bound it has counted it already.
            Some(node) if self.placed.get(uid).is_some_and(|taken| *taken.node == *node) => {}
            Some(_) => self.place_stored(&event.object),
            None => {
                if let Some(gone) = self.placed.remove(uid) {
                    self.release(&gone);
                }
            }
        }
        self.forget_abandoned(uid);
    }

    /// Counts a pod that is on a node. Where it came there by a bind, what was held is what it takes.
    fn place_stored(&mut self, stored: &StoredObject) {
        let Some(node) = node_of(stored) else { return };
        let uid = &stored.meta.uid;
        match self.remove_pending(uid, |held| *held.usage.node == *node) {
            Some(held) => drop(self.placed.insert(uid.clone(), held.usage)),
            None => {
                let amounts = self.intern(read_requests(stored));
                self.place(uid, PodUsage { node: node.into(), amounts });
            }
        }
    }

    /// These amounts, kept once however many pods take them.
    fn intern(&mut self, amounts: ResourceAmounts) -> Arc<ResourceAmounts> {
        if let Some(known) = self.shared_amounts.get(&amounts) {
            return Arc::clone(known);
        }
        if self.shared_amounts.len() >= MAX_SHARED_AMOUNTS {
            self.shared_amounts.clear();
        }
        let new = Arc::new(amounts);
        self.shared_amounts.insert(Arc::clone(&new));
        new
    }

    fn place(&mut self, uid: &Uid, taken: PodUsage) {
        self.node(&taken.node).add(&taken.amounts);
        self.placed.insert(uid.clone(), taken);
    }

    fn release(&mut self, taken: &PodUsage) {
        let node = self.node(&taken.node);
        node.subtract(&taken.amounts);
        // A pod may name a node that does not exist; of such nothing stays.
        if node.used.is_empty() && node.allocatable.is_none() {
            self.nodes.remove(&*taken.node);
        }
    }

    /// Removes the reservation of this pod; its amount still counts as allocated.
    fn remove_pending(&mut self, uid: &Uid, is_it: impl Fn(&PendingBind) -> bool) -> Option<PendingBind> {
        let held = self.pending.get_mut(uid)?;
        let ended = held.iter().position(is_it).map(|position| held.swap_remove(position));
        if held.is_empty() {
            self.pending.remove(uid);
        }
        ended
    }

    /// The pod was placed or deleted: an abandoned bind has taken effect, or never will.
    fn forget_abandoned(&mut self, uid: &Uid) {
        while let Some(held) = self.remove_pending(uid, |held| held.abandoned) {
            self.release(&held.usage);
        }
    }

    fn check(&mut self, node: &StoredObject, uid: &Uid, asked: &ResourceAmounts) -> Result<(), InsufficientCapacity> {
        let name = &node.key.name;
        // An abandoned bind of the same pod has reserved what is requested again.
        let own = self.pending.get(uid).into_iter().flatten();
        let own = own.filter(|held| held.abandoned && *held.usage.node == **name);
        let own: Vec<Arc<ResourceAmounts>> = own.map(|held| held.usage.amounts.clone()).collect();
        let of = |amounts: &ResourceAmounts, resource: &str| amounts.get(resource).copied().map_or(0, i128::from);
        let entry = self.node(name);
        entry.read_allocatable(node);
        for (resource, asked) in asked {
            let again: i128 = own.iter().map(|amounts| of(amounts, resource)).sum();
            let all = entry.allocatable.as_ref().map_or(0, |(_, allocatable)| of(allocatable, resource));
            let free = all - entry.used.get(resource).copied().unwrap_or(0) + again;
            if i128::from(*asked) > free {
                // It is less than the request, so it can be printed.
                let free = i64::try_from(free.max(0)).unwrap_or(*asked);
                return Err(InsufficientCapacity { resource: resource.clone(), requested: *asked, free });
            }
        }
        Ok(())
    }
}

impl NodeCapacity {
    fn add(&mut self, amounts: &ResourceAmounts) {
        for (resource, amount) in amounts {
            match self.used.get_mut(resource) {
                Some(taken) => *taken += i128::from(*amount),
                None => drop(self.used.insert(resource.clone(), i128::from(*amount))),
            }
        }
    }

    fn subtract(&mut self, amounts: &ResourceAmounts) {
        for (resource, amount) in amounts {
            let taken = self.used.get_mut(resource).expect("only what was taken is freed");
            *taken -= i128::from(*amount);
            if *taken == 0 {
                self.used.remove(resource);
            }
        }
    }

    fn read_allocatable(&mut self, node: &StoredObject) {
        if self.allocatable.as_ref().is_some_and(|(revision, _)| *revision == node.revision) {
            return;
        }
        let view = NodeView::decode(&node.bytes()).unwrap_or_default();
        self.allocatable = Some((node.revision, requests::amounts(&view.status.allocatable)));
    }
}

/// The node whose capacity the pod uses: it is bound there and has not ended.
fn node_of(pod: &StoredObject) -> Option<&str> {
    let node = stored_field(&pod.meta, "spec.nodeName");
    let ended = matches!(stored_field(&pod.meta, "status.phase"), "Succeeded" | "Failed");
    (!node.is_empty() && !ended).then_some(node)
}

fn read_requests(pod: &StoredObject) -> ResourceAmounts {
    requests_of(&ApiObject::from_stored(pod).document()["spec"])
}

/// What a pod with this spec takes: what it requests, and one of the pods that the node can have.
fn requests_of(spec: &serde_json::Value) -> ResourceAmounts {
    let mut amounts = requests::pod_requests(spec);
    amounts.insert("pods".to_owned(), 1);
    amounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_only_pods_name_is_forgotten_with_its_last_pod() {
        let mut ledger = CapacityLedger::default();
        let amounts =
            Arc::new(ResourceAmounts::from([("pods".to_owned(), 1), ("example.com/made-up".to_owned(), i64::MAX)]));
        let taken = PodUsage { node: "made-up".into(), amounts };
        ledger.place(&Uid::from("one"), taken.clone());
        ledger.place(&Uid::from("other"), taken.clone());
        ledger.release(&taken);
        assert_eq!(ledger.nodes["made-up"].used["pods"], 1);
        ledger.release(&taken);
        assert!(ledger.nodes.is_empty());
    }
}
