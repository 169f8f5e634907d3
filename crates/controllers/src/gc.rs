//! Deletes objects whose owners are gone, and helps owners that wait for their dependents.
//!
//! In: metadata of every kind it is given a cache of.
//! Out: deletes, owner references and finalizers taken away.
//! Promises: nothing is deleted unless every owner was seen to go (by a watch or by asking the server for its uid), or
//! waits for its dependents to go first.
//! Never: creates anything; looks at a spec. Objects with an owner of an unknown kind are left alone.

pub mod run; // the loop: changes to uids, uids to actions; read this first
pub mod decide; // what is to be done about one object
pub mod graph; // who owns whom
mod carry_out; // does what was decided

use api::views::{Meta, ResourceRef, View};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use runtime::Cache;

use graph::{Id, Object};

pub use run::run;

use crate::Metrics;

/// What the garbage collector is made of.
pub struct Parts {
    client: kube::Client,
    kinds: Vec<Kind>,
    metrics: Metrics,
}

/// One kind, reduced to what ownership needs.
struct Kind {
    resource: ResourceRef,
    synced: BoxFuture<'static, ()>,
    changes: BoxStream<'static, ObjectChange>,
}

/// One object before and after.
#[derive(Debug)]
struct ObjectChange {
    old: Option<Object>,
    new: Option<Object>,
}

impl Parts {
    /// A collector that looks at no kind yet.
    pub fn new(client: kube::Client, metrics: Metrics) -> Parts {
        Parts { client, kinds: Vec::new(), metrics }
    }

    /// Also collects the objects in `cache`.
    #[must_use]
    pub fn over<V: View>(mut self, cache: &Cache<V>) -> Parts {
        let awaited = cache.clone();
        let cursor = cache.subscribe();
        let changes = stream::unfold(cursor, |mut cursor| async move {
            loop {
                let change = cursor.next().await;
                let (old, new) = (change.old.as_ref().map(|old| old.meta()), change.new.as_ref().map(|new| new.meta()));
                if !is_same_to_us(old, new) {
                    let reduce = |meta| object::<V>(meta);
                    return Some((ObjectChange { old: old.map(reduce), new: new.map(reduce) }, cursor));
                }
            }
        });
        let synced = Box::pin(async move { awaited.synced().await });
        self.kinds.push(Kind { resource: V::RESOURCE, synced, changes: changes.boxed() });
        self
    }
}

/// Whether nothing changed that ownership depends on; so it is for nearly all changes.
fn is_same_to_us(old: Option<&Meta>, new: Option<&Meta>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return false };
    old.owner_references == new.owner_references
        && old.finalizers == new.finalizers
        && old.is_deleting() == new.is_deleting()
}

fn object<V: View>(meta: &Meta) -> Object {
    Object {
        id: Id { resource: V::RESOURCE, key: meta.key() },
        uid: meta.uid.clone(),
        owners: meta.owner_references.clone(),
        finalizers: meta.finalizers.clone(),
        deleting: meta.is_deleting(),
    }
}
