//! How much of every node is taken. Kept from one bind to the next and brought up to date from the store's log, so that
//! a bind costs the same however many pods there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::core::requests::{self, Amounts};
use api::views::{NodeView, View};
use api::{Revision, Uid};
use futures::FutureExt;
use store::{Event, Key, List, Op, Store, Stored, Watcher};

use crate::object::Object;
use crate::selection::kept_field;

const LOG: &str = "the present is never gone";

/// So many different amounts are remembered.
const SHAPES_MAX: usize = 1024;

/// What is taken of every node, and who holds what is about to be.
pub(crate) struct Capacity {
    store: Store,
    pods: Arc<str>,
    nodes: Arc<str>,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    /// `None` until the first bind.
    log: Option<Watcher>,
    nodes: BTreeMap<String, Node>,
    /// What each pod that is on a node takes of it, by uid.
    placed: BTreeMap<Uid, Taken>,
    /// What pods take, each amount once: most pods are like many others.
    shapes: BTreeSet<Arc<Amounts>>,
    /// What binds under way will take, by uid of the pod.
    held: BTreeMap<Uid, Vec<Held>>,
    /// The number of the next bind.
    next: u64,
    /// The number of the first bind since the ledger was last made anew.
    first: u64,
}

#[derive(Default)]
struct Node {
    /// By resource, what is not zero; `pods` counts the pods. Wide enough for any number of pods that ask for as much as
    /// can be written: whoever makes a pod may put it on a node by its name, and nothing of that may end the count.
    taken: BTreeMap<String, i128>,
    /// What there is, as the node's object said at this revision.
    allocatable: Option<(Revision, Amounts)>,
}

#[derive(Clone)]
struct Taken {
    node: Arc<str>,
    amounts: Arc<Amounts>,
}

struct Held {
    /// Tells binds of the same pod apart.
    number: u64,
    taken: Taken,
    /// The one who bound went away without learning how it ended, and it may still take effect.
    abandoned: bool,
}

/// Why a pod does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Short {
    resource: String,
    asked: i64,
    free: i64,
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Short { resource, asked, free } = self;
        let (asked, free) = (requests::written(resource, *asked), requests::written(resource, *free));
        write!(f, "insufficient {resource}: {free} free, {asked} asked for")
    }
}

/// Room that is held for a bind under way.
pub(crate) struct Hold<'a> {
    capacity: &'a Capacity,
    uid: Uid,
    number: u64,
    settled: bool,
}

impl Hold<'_> {
    /// The bind has ended: the pod is on the node, or it is not.
    pub fn settle(mut self, bound: bool) {
        self.settled = true;
        let mut ledger = self.capacity.lock();
        // Whoever looked at the log meanwhile may have counted the pod, which ended the hold.
        let Some(held) = ledger.end_hold(&self.uid, |held| held.number == self.number) else { return };
        // In a ledger that was made anew since, the pod may have come and gone; the next look at the log tells.
        if bound && self.number >= ledger.first {
            ledger.placed.insert(std::mem::take(&mut self.uid), held.taken);
        } else {
            ledger.free(&held.taken);
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let mut ledger = self.capacity.lock();
        let held = ledger.held.get_mut(&self.uid).into_iter().flatten();
        held.filter(|held| held.number == self.number).for_each(|held| held.abandoned = true);
    }
}

impl Capacity {
    /// The nodes and pods in `store`.
    pub fn of(store: Store) -> Capacity {
        Capacity { store, pods: "pods".into(), nodes: "nodes".into(), ledger: Mutex::default() }
    }

    /// Holds what `pod` asks for on `node`, if it is free. A node without an object has no capacity that could be
    /// exceeded.
    pub fn hold(&self, pod: &Object, node: &str) -> Result<Hold<'_>, Short> {
        let uid = Uid::from(pod.uid());
        let mut ledger = self.up_to_date();
        let amounts = ledger.shared(taken_by(&pod.document()["spec"]));
        if let Some(object) = self.store.get(&Key::new(&self.nodes, "", node)) {
            ledger.check(&object, &uid, &amounts)?;
        }
        let number = ledger.next;
        ledger.next += 1;
        let taken = Taken { node: node.into(), amounts };
        ledger.node(node).take(&taken.amounts);
        ledger.held.entry(uid.clone()).or_default().push(Held { number, taken, abandoned: false });
        Ok(Hold { capacity: self, uid, number, settled: false })
    }

    /// The ledger with every write that the store has shown.
    fn up_to_date(&self) -> MutexGuard<'_, Ledger> {
        let mut ledger = self.lock();
        loop {
            // Ready at once while there is something to read.
            let read = ledger.log.as_mut().map(|log| log.next().now_or_never());
            match read {
                Some(None) => return ledger,
                Some(Some(Ok(events))) => events.iter().for_each(|event| ledger.apply(event)),
                // Nobody has bound a pod for so long that the log has moved on, or nobody ever has.
                Some(Some(Err(_))) | None => self.rebuild(&mut ledger),
            }
        }
    }

    fn rebuild(&self, ledger: &mut Ledger) {
        let query = List::all(&self.pods);
        let listed = self.store.list(&query, &mut |stored| node_of(stored).is_some()).expect(LOG);
        let mut known = std::mem::take(&mut ledger.placed);
        ledger.nodes.retain(|_, node| {
            node.taken.clear();
            node.allocatable.is_some()
        });
        let held: Vec<Taken> = ledger.held.values().flatten().map(|held| held.taken.clone()).collect();
        held.iter().for_each(|taken| ledger.node(&taken.node).take(&taken.amounts));
        for stored in &listed.items {
            match known.remove(&stored.meta.uid) {
                Some(taken) => ledger.place(&stored.meta.uid, taken),
                None => ledger.place_stored(stored),
            }
            ledger.forget_abandoned(&stored.meta.uid);
        }
        ledger.first = ledger.next;
        ledger.log = Some(self.store.watch(&self.pods, listed.revision).expect(LOG));
    }

    // Held for the time of a look or a change, never across an await.
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    fn node(&mut self, name: &str) -> &mut Node {
        if !self.nodes.contains_key(name) {
            self.nodes.insert(name.to_owned(), Node::default());
        }
        self.nodes.get_mut(name).expect("inserted when it was missing")
    }

    /// Most changes of a pod leave it where it is, and need no more than a look at two fields.
    fn apply(&mut self, event: &Event) {
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
                    self.free(&gone);
                }
            }
        }
        self.forget_abandoned(uid);
    }

    /// Counts a pod that is on a node. Where it came there by a bind, what was held is what it takes.
    fn place_stored(&mut self, stored: &Stored) {
        let Some(node) = node_of(stored) else { return };
        let uid = &stored.meta.uid;
        match self.end_hold(uid, |held| *held.taken.node == *node) {
            Some(held) => drop(self.placed.insert(uid.clone(), held.taken)),
            None => {
                let amounts = self.shared(read_taken(stored));
                self.place(uid, Taken { node: node.into(), amounts });
            }
        }
    }

    /// These amounts, kept once however many pods take them.
    fn shared(&mut self, amounts: Amounts) -> Arc<Amounts> {
        if let Some(known) = self.shapes.get(&amounts) {
            return Arc::clone(known);
        }
        if self.shapes.len() >= SHAPES_MAX {
            self.shapes.clear();
        }
        let new = Arc::new(amounts);
        self.shapes.insert(Arc::clone(&new));
        new
    }

    fn place(&mut self, uid: &Uid, taken: Taken) {
        self.node(&taken.node).take(&taken.amounts);
        self.placed.insert(uid.clone(), taken);
    }

    fn free(&mut self, taken: &Taken) {
        let node = self.node(&taken.node);
        node.free(&taken.amounts);
        // A pod may name a node that does not exist; of such nothing stays.
        if node.taken.is_empty() && node.allocatable.is_none() {
            self.nodes.remove(&*taken.node);
        }
    }

    /// Takes a hold of this pod out of the books; what it holds still counts as taken.
    fn end_hold(&mut self, uid: &Uid, is_it: impl Fn(&Held) -> bool) -> Option<Held> {
        let held = self.held.get_mut(uid)?;
        let ended = held.iter().position(is_it).map(|position| held.swap_remove(position));
        if held.is_empty() {
            self.held.remove(uid);
        }
        ended
    }

    /// The pod was placed or is gone: a bind that nobody waited for has taken effect, or never will.
    fn forget_abandoned(&mut self, uid: &Uid) {
        while let Some(held) = self.end_hold(uid, |held| held.abandoned) {
            self.free(&held.taken);
        }
    }

    fn check(&mut self, node: &Stored, uid: &Uid, asked: &Amounts) -> Result<(), Short> {
        let name = &node.key.name;
        // What an abandoned bind of this very pod holds is what is now asked for again.
        let own = self.held.get(uid).into_iter().flatten();
        let own = own.filter(|held| held.abandoned && *held.taken.node == **name);
        let own: Vec<Arc<Amounts>> = own.map(|held| held.taken.amounts.clone()).collect();
        let of = |amounts: &Amounts, resource: &str| amounts.get(resource).copied().map_or(0, i128::from);
        let entry = self.node(name);
        entry.read_allocatable(node);
        for (resource, asked) in asked {
            let again: i128 = own.iter().map(|amounts| of(amounts, resource)).sum();
            let all = entry.allocatable.as_ref().map_or(0, |(_, allocatable)| of(allocatable, resource));
            let free = all - entry.taken.get(resource).copied().unwrap_or(0) + again;
            if i128::from(*asked) > free {
                // It is less than what is asked for, so it can be written.
                let free = i64::try_from(free.max(0)).unwrap_or(*asked);
                return Err(Short { resource: resource.clone(), asked: *asked, free });
            }
        }
        Ok(())
    }
}

impl Node {
    fn take(&mut self, amounts: &Amounts) {
        for (resource, amount) in amounts {
            match self.taken.get_mut(resource) {
                Some(taken) => *taken += i128::from(*amount),
                None => drop(self.taken.insert(resource.clone(), i128::from(*amount))),
            }
        }
    }

    fn free(&mut self, amounts: &Amounts) {
        for (resource, amount) in amounts {
            let taken = self.taken.get_mut(resource).expect("only what was taken is freed");
            *taken -= i128::from(*amount);
            if *taken == 0 {
                self.taken.remove(resource);
            }
        }
    }

    fn read_allocatable(&mut self, node: &Stored) {
        if self.allocatable.as_ref().is_some_and(|(revision, _)| *revision == node.revision) {
            return;
        }
        let view = NodeView::decode(&node.bytes()).unwrap_or_default();
        self.allocatable = Some((node.revision, requests::amounts(&view.status.allocatable)));
    }
}

/// The node that the pod takes room of: it is bound there and has not ended.
fn node_of(pod: &Stored) -> Option<&str> {
    let node = kept_field(&pod.meta, "spec.nodeName");
    let ended = matches!(kept_field(&pod.meta, "status.phase"), "Succeeded" | "Failed");
    (!node.is_empty() && !ended).then_some(node)
}

fn read_taken(pod: &Stored) -> Amounts {
    taken_by(&Object::stored(pod).document()["spec"])
}

/// What a pod with this spec takes: what it requests, and one of the pods that the node can have.
fn taken_by(spec: &serde_json::Value) -> Amounts {
    let mut amounts = requests::total(spec);
    amounts.insert("pods".to_owned(), 1);
    amounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_only_pods_name_is_forgotten_with_its_last_pod() {
        let mut ledger = Ledger::default();
        let amounts = Arc::new(Amounts::from([("pods".to_owned(), 1), ("example.com/made-up".to_owned(), i64::MAX)]));
        let taken = Taken { node: "made-up".into(), amounts };
        ledger.place(&Uid::from("one"), taken.clone());
        ledger.place(&Uid::from("other"), taken.clone());
        ledger.free(&taken);
        assert_eq!(ledger.nodes["made-up"].taken["pods"], 1);
        ledger.free(&taken);
        assert!(ledger.nodes.is_empty());
    }
}
