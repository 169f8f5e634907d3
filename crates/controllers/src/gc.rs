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
mod execute; // does what was decided

use api::views::View;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use runtime::Cache;

use graph::GraphObject;

pub use run::run;

use crate::Metrics;

/// What the garbage collector is made of.
pub struct GcContext {
    client: kube::Client,
    kinds: Vec<WatchedKind>,
    metrics: Metrics,
}

/// One kind, reduced to what ownership needs.
struct WatchedKind {
    synced: BoxFuture<'static, ()>,
    changes: BoxStream<'static, ObjectChange>,
}

/// One object before and after.
#[derive(Debug)]
struct ObjectChange {
    old: Option<GraphObject>,
    new: Option<GraphObject>,
}

impl GcContext {
    /// A collector that looks at no kind yet.
    pub fn new(client: kube::Client, metrics: Metrics) -> GcContext {
        GcContext { client, kinds: Vec::new(), metrics }
    }

    /// Also collects the objects in `cache`.
    #[must_use]
    pub fn with_cache<V: View>(mut self, cache: &Cache<V>) -> GcContext {
        let awaited = cache.clone();
        let cursor = cache.subscribe();
        let changes = stream::unfold(cursor, |mut cursor| async move {
            let change = cursor.next().await;
            Some((ObjectChange { old: change.old.map(GraphObject::of), new: change.new.map(GraphObject::of) }, cursor))
        });
        let synced = Box::pin(async move { awaited.wait_for_sync().await });
        self.kinds.push(WatchedKind { synced, changes: changes.boxed() });
        self
    }
}
