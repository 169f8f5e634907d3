//! The allocated capacity of every node. It is updated from the store's log at each bind, so the cost of a bind does
//! not depend on the number of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::core::requests::{self, ResourceAmounts};
use api::kinds;
use api::views::{NodeView, View};
use api::{Revision, Uid};
use futures::FutureExt;
use store::{ListQuery, Op, Store, StoreEvent, StoreKey, StoredObject, Watcher};

use crate::read::selection::stored_field;
use crate::resources::object::ApiObject;

const LOG: &str = "the current revision is never compacted";

/// The maximum number of interned amounts.
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
    /// The usage of each pod that is on a node, by uid.
    placed: BTreeMap<Uid, PodUsage>,
    /// Interned amounts: most pods have the same requests as many others.
    shared_amounts: BTreeSet<Arc<ResourceAmounts>>,
    /// What pending binds will allocate, by uid of the pod.
    pending: BTreeMap<Uid, Vec<PendingBind>>,
    /// The number of the next bind.
    next_number: u64,
    /// The number of the first bind since the last rebuild of the ledger.
    first_number: u64,
}

#[derive(Default)]
struct NodeCapacity {
    /// Non-zero amounts by resource; `pods` is the number of pods. `i128` holds the sum of any number of pods with the
    /// largest requests: a user can create pods with a node name and any requests, and the sum must not overflow.
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
    /// Distinguishes binds of the same pod.
    number: u64,
    usage: PodUsage,
    /// Whether the request was cancelled before its result. The bind may still be committed.
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
        let InsufficientCapacity { resource, requested, free } = self;
        let (requested, free) =
            (requests::format_amount(resource, *requested), requests::format_amount(resource, *free));
        write!(f, "insufficient {resource}: {free} free, {requested} requested")
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
    /// Ends the reservation. `bound`: whether the pod is on the node now.
    pub fn finish(mut self, bound: bool) {
        self.finished = true;
        let mut ledger = self.capacity.lock();
        // Another bind may have read the pod from the log, which ended the reservation.
        let Some(pending) = ledger.remove_pending(&self.uid, |pending| pending.number == self.number) else { return };
        // In a ledger that was rebuilt since, the pod may already be deleted. The next read of the log decides.
        if bound && self.number >= ledger.first_number {
            ledger.placed.insert(std::mem::take(&mut self.uid), pending.usage);
        } else {
            ledger.release(&pending.usage);
        }
    }
}

impl Drop for CapacityReservation<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut ledger = self.capacity.lock();
        let pending = ledger.pending.get_mut(&self.uid).into_iter().flatten();
        pending.filter(|pending| pending.number == self.number).for_each(|pending| pending.abandoned = true);
    }
}

impl Capacity {
    /// The capacity of the nodes in `store`.
    pub fn new(store: Store) -> Capacity {
        let [pods, nodes] = [kinds::POD, kinds::NODE].map(|kind| kind.store_name().into());
        Capacity { store, pods, nodes, ledger: Mutex::default() }
    }

    /// Reserves the requests of `pod` on `node`, if they fit. A node without an object has no capacity to exceed.
    pub fn reserve(&self, pod: &ApiObject, node: &str) -> Result<CapacityReservation<'_>, InsufficientCapacity> {
        let uid = Uid::from(pod.uid());
        let mut ledger = self.synced_ledger();
        let amounts = ledger.intern(requests_of(&pod.document()["spec"]));
        if let Some(object) = self.store.get(&StoreKey::new(&self.nodes, "", node)) {
            ledger.check(&object, &uid, &amounts)?;
        }
        let number = ledger.next_number;
        ledger.next_number += 1;
        let usage = PodUsage { node: node.into(), amounts };
        ledger.node(node).add(&usage.amounts);
        ledger.pending.entry(uid.clone()).or_default().push(PendingBind { number, usage, abandoned: false });
        Ok(CapacityReservation { capacity: self, uid, number, finished: false })
    }

    /// The ledger, with every write of the store applied.
    fn synced_ledger(&self) -> MutexGuard<'_, CapacityLedger> {
        let mut ledger = self.lock();
        loop {
            // Ready at once while the log has events.
            let read = ledger.log.as_mut().map(|log| log.next().now_or_never());
            match read {
                Some(None) => return ledger,
                Some(Some(Ok(events))) => events.iter().for_each(|event| ledger.apply(event)),
                // The log was compacted since the last bind, or this is the first bind.
                Some(Some(Err(_))) | None => self.rebuild(&mut ledger),
            }
        }
    }

    fn rebuild(&self, ledger: &mut CapacityLedger) {
        let query = ListQuery::all(&self.pods);
        let page = self.store.list(&query, &mut |stored| node_of(stored).is_some()).expect(LOG);
        let mut known = std::mem::take(&mut ledger.placed);
        ledger.nodes.retain(|_, node| {
            node.used.clear();
            node.allocatable.is_some()
        });
        let pending: Vec<PodUsage> = ledger.pending.values().flatten().map(|pending| pending.usage.clone()).collect();
        pending.iter().for_each(|usage| ledger.node(&usage.node).add(&usage.amounts));
        for stored in &page.items {
            match known.remove(&stored.meta.uid) {
                Some(usage) => ledger.place(&stored.meta.uid, usage),
                None => ledger.place_stored(stored),
            }
            ledger.forget_abandoned(&stored.meta.uid);
        }
        ledger.first_number = ledger.next_number;
        ledger.log = Some(self.store.watch(&self.pods, page.revision).expect(LOG));
    }

    // Locked only for a read or a change, never across an await.
    fn lock(&self) -> MutexGuard<'_, CapacityLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CapacityLedger {
    fn node(&mut self, name: &str) -> &mut NodeCapacity {
        if !self.nodes.contains_key(name) {
            self.nodes.insert(name.to_owned(), NodeCapacity::default());
        }
        self.nodes.get_mut(name).expect("inserted above")
    }

    /// Most changes of a pod do not change its node, and only two fields are compared.
    fn apply(&mut self, event: &StoreEvent) {
        let before = event.previous.as_deref().and_then(node_of);
        let after = Some(&*event.object).filter(|_| event.op == Op::Put).and_then(node_of);
        if before == after {
            return;
        }
        let uid = &event.object.meta.uid;
        match after {
            // The bind has already counted it.
            Some(node) if self.placed.get(uid).is_some_and(|usage| *usage.node == *node) => {}
            Some(_) => self.place_stored(&event.object),
            None => {
                if let Some(gone) = self.placed.remove(uid) {
                    self.release(&gone);
                }
            }
        }
        self.forget_abandoned(uid);
    }

    /// Counts a pod that is on a node. If it was bound, its reservation becomes its usage.
    fn place_stored(&mut self, stored: &StoredObject) {
        let Some(node) = node_of(stored) else { return };
        let uid = &stored.meta.uid;
        match self.remove_pending(uid, |pending| *pending.usage.node == *node) {
            Some(pending) => drop(self.placed.insert(uid.clone(), pending.usage)),
            None => {
                let amounts = self.intern(read_requests(stored));
                self.place(uid, PodUsage { node: node.into(), amounts });
            }
        }
    }

    /// The shared copy of these amounts.
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

    fn place(&mut self, uid: &Uid, usage: PodUsage) {
        self.node(&usage.node).add(&usage.amounts);
        self.placed.insert(uid.clone(), usage);
    }

    fn release(&mut self, usage: &PodUsage) {
        let node = self.node(&usage.node);
        node.subtract(&usage.amounts);
        // A pod may have the name of a node that does not exist. Such an entry is removed with its last pod.
        if node.used.is_empty() && node.allocatable.is_none() {
            self.nodes.remove(&*usage.node);
        }
    }

    /// Removes the reservation of this pod; its amount still counts as allocated.
    fn remove_pending(&mut self, uid: &Uid, matches: impl Fn(&PendingBind) -> bool) -> Option<PendingBind> {
        let pending = self.pending.get_mut(uid)?;
        let ended = pending.iter().position(matches).map(|position| pending.swap_remove(position));
        if pending.is_empty() {
            self.pending.remove(uid);
        }
        ended
    }

    /// The pod was placed or deleted: an abandoned bind has been committed, or never will be.
    fn forget_abandoned(&mut self, uid: &Uid) {
        while let Some(pending) = self.remove_pending(uid, |pending| pending.abandoned) {
            self.release(&pending.usage);
        }
    }

    fn check(
        &mut self,
        node: &StoredObject,
        uid: &Uid,
        requested: &ResourceAmounts,
    ) -> Result<(), InsufficientCapacity> {
        let name = &node.key.name;
        // An abandoned bind of the same pod has already reserved the same amount.
        let own = self.pending.get(uid).into_iter().flatten();
        let own = own.filter(|pending| pending.abandoned && *pending.usage.node == **name);
        let own: Vec<Arc<ResourceAmounts>> = own.map(|pending| pending.usage.amounts.clone()).collect();
        let of = |amounts: &ResourceAmounts, resource: &str| amounts.get(resource).copied().map_or(0, i128::from);
        let entry = self.node(name);
        entry.read_allocatable(node);
        for (resource, requested) in requested {
            let own_reserved: i128 = own.iter().map(|amounts| of(amounts, resource)).sum();
            let all = entry.allocatable.as_ref().map_or(0, |(_, allocatable)| of(allocatable, resource));
            let free = all - entry.used.get(resource).copied().unwrap_or(0) + own_reserved;
            if i128::from(*requested) > free {
                // It is less than the request, so it fits into an `i64`.
                let free = i64::try_from(free.max(0)).unwrap_or(*requested);
                return Err(InsufficientCapacity { resource: resource.clone(), requested: *requested, free });
            }
        }
        Ok(())
    }
}

impl NodeCapacity {
    fn add(&mut self, amounts: &ResourceAmounts) {
        for (resource, amount) in amounts {
            match self.used.get_mut(resource) {
                Some(usage) => *usage += i128::from(*amount),
                None => drop(self.used.insert(resource.clone(), i128::from(*amount))),
            }
        }
    }

    fn subtract(&mut self, amounts: &ResourceAmounts) {
        for (resource, amount) in amounts {
            let usage = self.used.get_mut(resource).expect("only allocated amounts are released");
            *usage -= i128::from(*amount);
            if *usage == 0 {
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

/// The node whose capacity the pod uses: the pod is bound there and has not ended.
fn node_of(pod: &StoredObject) -> Option<&str> {
    let node = stored_field(&pod.meta, "spec.nodeName");
    let ended = matches!(stored_field(&pod.meta, "status.phase"), "Succeeded" | "Failed");
    (!node.is_empty() && !ended).then_some(node)
}

fn read_requests(pod: &StoredObject) -> ResourceAmounts {
    requests_of(&ApiObject::from_stored(pod).document()["spec"])
}

/// The usage of a pod with this spec: its requests, and one pod.
fn requests_of(spec: &serde_json::Value) -> ResourceAmounts {
    let mut amounts = requests::pod_requests(spec);
    amounts.insert("pods".to_owned(), 1);
    amounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_a_node_is_removed_with_its_last_pod() {
        let mut ledger = CapacityLedger::default();
        let amounts =
            Arc::new(ResourceAmounts::from([("pods".to_owned(), 1), ("example.com/made-up".to_owned(), i64::MAX)]));
        let usage = PodUsage { node: "made-up".into(), amounts };
        ledger.place(&Uid::from("one"), usage.clone());
        ledger.place(&Uid::from("other"), usage.clone());
        ledger.release(&usage);
        assert_eq!(ledger.nodes["made-up"].used["pods"], 1);
        ledger.release(&usage);
        assert!(ledger.nodes.is_empty());
    }
}
