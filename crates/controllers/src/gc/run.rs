//! The loop: changes become uids in the work queue, and each uid is reconciled.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::views::{ObjectKey, OwnerRef};
use futures::FutureExt;
use futures::future::{BoxFuture, join, join_all};
use futures::stream::{self, StreamExt};
use kube::{Client, Error};
use runtime::{Backoff, WorkQueue, WorkResult, log_retry, reconcile_span, record_revision};
use tracing::Instrument;

use super::decide::{GcAction, OwnerState, decide, owner_kind};
use super::execute::{delete_object, look_up_owner, remove_finalizer, remove_owner_refs};
use super::graph::{Graph, GraphObject};
use super::{GcContext, ReadableKinds, WatchedKind};

/// How many objects are reconciled concurrently.
const WORKERS: usize = 20;
const RETRY: Backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(60) };

struct Collector {
    client: Client,
    served: ReadableKinds,
    graph: Mutex<Graph>,
    queue: WorkQueue<String>,
}

/// Runs the garbage collector forever.
pub fn run(ctx: GcContext) -> BoxFuture<'static, ()> {
    run_forever(ctx).boxed()
}

async fn run_forever(ctx: GcContext) {
    let GcContext { client, served, mut kinds, metrics } = ctx;
    // An owner whose kind is still being listed would be looked up in vain.
    join_all(kinds.iter_mut().map(|kind| &mut kind.synced)).await;
    let queue = WorkQueue::with_metrics(RETRY, metrics.queue("garbage_collector_attempt_to_delete"));
    let collector = Collector { client, served, graph: Mutex::new(Graph::default()), queue };
    join(collector.watch(kinds), collector.work()).await;
}

impl Collector {
    async fn watch(&self, kinds: Vec<WatchedKind>) {
        let mut changes = stream::select_all(kinds.into_iter().map(|kind| kind.changes));
        while let Some(change) = changes.next().await {
            let affected = self.graph().apply(change.old, change.new);
            affected.into_iter().for_each(|uid| self.queue.add(uid));
        }
    }

    async fn work(&self) {
        let reconcile_key = |uid: String| {
            let (kind, object) = self.describe(&uid);
            let span = reconcile_span("gc", kind, &object, Some(&uid));
            async move {
                match self.reconcile(&uid).await {
                    Ok(()) => WorkResult::Done,
                    Err(error) => {
                        log_retry("gc", format_args!("{kind} {object}"), &error);
                        WorkResult::Failed
                    }
                }
            }
            .instrument(span)
        };
        self.queue.work(WORKERS, reconcile_key).await;
    }

    /// Kind and key of the object with this uid; empty if it is gone.
    fn describe(&self, uid: &str) -> (&'static str, ObjectKey) {
        let graph = self.graph();
        graph
            .get(uid)
            .map(|object| (object.resource().kind, object.meta().key()))
            .unwrap_or(("", ObjectKey::new("", "")))
    }

    /// Observes, decides and executes. The write is observed as a change, which queues the next reconcile.
    async fn reconcile(&self, uid: &str) -> Result<(), Error> {
        let mut looked_up = BTreeMap::new();
        loop {
            let Some((object, action)) = self.decide(uid, &looked_up) else { return Ok(()) };
            if looked_up.is_empty() {
                record_revision(object.meta());
            }
            let client = &self.client;
            return match action {
                GcAction::Keep => Ok(()),
                GcAction::LookUpOwners(owners) => {
                    self.look_up_owners(&object, owners, &mut looked_up).await?;
                    continue;
                }
                GcAction::RemoveOwnerRefs(positions) => remove_owner_refs(client, &object, &positions).await,
                GcAction::OrphanDependents => self.orphan_dependents(&object).await,
                GcAction::RemoveFinalizer(finalizer) => remove_finalizer(client, &object, finalizer).await,
                GcAction::Delete => delete_object(client, &object, "Background").await,
                GcAction::DeleteForeground => delete_object(client, &object, "Foreground").await,
            };
        }
    }

    fn decide(&self, uid: &str, looked_up: &BTreeMap<String, OwnerState>) -> Option<(GraphObject, GcAction)> {
        let graph = self.graph();
        let object = graph.get(uid)?;
        let action = decide(&graph, object, looked_up);
        Some((object.clone(), action))
    }

    async fn look_up_owners(
        &self,
        object: &GraphObject,
        owners: Vec<OwnerRef>,
        looked_up: &mut BTreeMap<String, OwnerState>,
    ) -> Result<(), Error> {
        for owner in owners {
            let served = owner_kind(&owner).filter(|resource| self.served.contains(resource));
            let state = match served {
                Some(resource) => look_up_owner(&self.client, resource, &owner, &object.meta().namespace).await?,
                None => {
                    let (kind, api_version) = (&owner.kind, &owner.api_version);
                    tracing::info!(object = %object.meta().key(), kind, api_version, "the server does not serve the kind of an owner: the object is kept");
                    OwnerState::Solid
                }
            };
            if state == OwnerState::Absent {
                self.graph().mark_absent(&owner.uid);
            }
            looked_up.insert(owner.uid, state);
        }
        Ok(())
    }

    async fn orphan_dependents(&self, owner: &GraphObject) -> Result<(), Error> {
        let dependents: Vec<GraphObject> = self.graph().dependents(owner.uid()).cloned().collect();
        for dependent in &dependents {
            let is_owner = |position: &usize| dependent.owners()[*position].uid == owner.uid();
            let positions: Vec<usize> = (0..dependent.owners().len()).filter(is_owner).collect();
            remove_owner_refs(&self.client, dependent, &positions).await?;
        }
        Ok(())
    }

    // Locked for one read or change, never across an await.
    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
