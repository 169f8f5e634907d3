//! The garbage collector: deletes objects whose owners are gone, and finishes foreground and orphan deletion of owners.
//!
//! In: metadata of every kind whose cache it gets.
//! Out: deletes; removals of owner references and finalizers.
//! Promises: an object is deleted only if every owner is gone (seen by a watch, or read from the server by uid), or
//! waits for its dependents in foreground deletion.
//! Never: creates anything; reads a spec; deletes an object with an owner of an unknown kind.

pub mod run; // the loop: changes to uids, uids to actions; read this first
pub mod decide; // the action for one object
pub mod graph; // objects and their owners
mod execute; // executes it

use api::Gates;
use api::kinds::ApiResource;
use api::views::View;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use runtime::{Cache, Capabilities};

use graph::GraphObject;

pub use run::run;

use crate::Metrics;

/// What the garbage collector uses.
pub struct GcContext {
    client: kube::Client,
    served: ReadableKinds,
    kinds: Vec<WatchedKind>,
    metrics: Metrics,
}

/// Kinds that can be read. An owner of another kind is unknown, which does not mean that it is gone.
#[derive(Clone, Debug)]
pub struct ReadableKinds {
    /// The kinds of another server.
    pub capabilities: Capabilities,
    /// The gates of our own: kinds whose gate is off stay in its store.
    pub gates: Gates,
}

impl ReadableKinds {
    fn contains(&self, resource: &ApiResource) -> bool {
        resource.is_served(&self.gates) && self.capabilities.serves(resource)
    }
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
    /// A collector without kinds.
    pub fn new(client: kube::Client, served: ReadableKinds, metrics: Metrics) -> GcContext {
        GcContext { client, served, kinds: Vec::new(), metrics }
    }

    /// Also collects the objects in `cache`.
    #[must_use]
    pub fn with_cache<V: View>(mut self, cache: &Cache<V>) -> GcContext {
        let synced_cache = cache.clone();
        let cursor = cache.subscribe();
        let changes = stream::unfold(cursor, |mut cursor| async move {
            let change = cursor.next().await;
            Some((ObjectChange { old: change.old.map(GraphObject::of), new: change.new.map(GraphObject::of) }, cursor))
        });
        let synced = Box::pin(async move { synced_cache.wait_for_sync().await });
        self.kinds.push(WatchedKind { synced, changes: changes.boxed() });
        self
    }
}
