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

use api::views::{ResourceRef, View};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use runtime::Cache;

use graph::Object;

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
            let change = cursor.next().await;
            Some((ObjectChange { old: change.old.map(Object::of), new: change.new.map(Object::of) }, cursor))
        });
        let synced = Box::pin(async move { awaited.synced().await });
        self.kinds.push(Kind { resource: V::RESOURCE, synced, changes: changes.boxed() });
        self
    }
}
