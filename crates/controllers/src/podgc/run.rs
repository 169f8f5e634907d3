//! The loop: changes become tasks, tasks delete pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Timestamp;
use api::views::{NodeView, ObjectKey, PodView, View};
use futures::FutureExt;
use futures::future::{BoxFuture, join3};
use kube::Error;
use runtime::request::get;
use runtime::{CacheChange, WorkQueue, WorkResult, is_not_found, log_retry, reconcile_span, record_observed};
use tracing::{Instrument, Span};

use super::PodGcContext;
use super::decide::{PodGcReason, beyond_threshold, force_delete_reason, is_out_of_service};
use super::execute::mark_failed_and_delete;

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PodGcTask {
    /// A pod that is being deleted.
    Pod(ObjectKey),
    /// All pods of a node that is declared out of service.
    OutOfServiceNode(String),
    /// All pods of a node that is missing.
    MissingNode(String),
    /// All pods that have ended.
    TerminatedPods,
}

impl PodGcTask {
    /// The span of the task.
    fn span(&self) -> Span {
        let (kind, object) = self.object();
        reconcile_span("podgc", kind, object, None)
    }

    /// The kind and key of its object.
    fn object(&self) -> (&'static str, String) {
        match self {
            PodGcTask::Pod(key) => (PodView::RESOURCE.kind, key.to_string()),
            PodGcTask::OutOfServiceNode(node) | PodGcTask::MissingNode(node) => (NodeView::RESOURCE.kind, node.clone()),
            PodGcTask::TerminatedPods => (PodView::RESOURCE.kind, "all terminated".to_owned()),
        }
    }
}

/// Runs the collector forever.
pub fn run(ctx: PodGcContext) -> BoxFuture<'static, ()> {
    run_forever(ctx).boxed()
}

async fn run_forever(ctx: PodGcContext) {
    ctx.nodes.wait_for_sync().await;
    ctx.pods.wait_for_sync().await;
    let (queue, missing) = (
        WorkQueue::with_metrics(ctx.config.retry, ctx.metrics.queue("orphaned_pods_nodes")),
        NodeQuarantine::default(),
    );
    join3(watch_nodes(&ctx, &queue, &missing), watch_pods(&ctx, &queue, &missing), work(&ctx, &queue, &missing)).await;
}

/// Since when each node is missing. A restart starts all quarantines again.
#[derive(Default)]
struct NodeQuarantine(Mutex<BTreeMap<String, Timestamp>>);

impl NodeQuarantine {
    /// The node is missing, since the first call for it.
    fn add(&self, ctx: &PodGcContext, queue: &WorkQueue<PodGcTask>, node: &str) {
        self.lock().entry(node.to_owned()).or_insert(ctx.clock.now());
        queue.add_after(PodGcTask::MissingNode(node.to_owned()), ctx.config.quarantine);
    }

    /// The node exists.
    fn remove(&self, node: &str) {
        self.lock().remove(node);
    }

    /// How much of the node's quarantine is left; `None` if it is not missing.
    fn remaining(&self, ctx: &PodGcContext, node: &str) -> Option<Duration> {
        let since = *self.lock().get(node)?;
        let missed = Duration::try_from(ctx.clock.now().duration_since(since)).unwrap_or_default();
        Some(ctx.config.quarantine.saturating_sub(missed))
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = BTreeMap<String, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn watch_nodes(ctx: &PodGcContext, queue: &WorkQueue<PodGcTask>, quarantine: &NodeQuarantine) {
    let mut cursor = ctx.nodes.subscribe();
    loop {
        let CacheChange { old, new } = cursor.next().await;
        match (old, new) {
            (Some(gone), None) => quarantine.add(ctx, queue, &gone.metadata.name),
            (_, Some(node)) => {
                quarantine.remove(&node.metadata.name);
                if is_out_of_service(&node) {
                    queue.add(PodGcTask::OutOfServiceNode(node.metadata.name.clone()));
                }
            }
            (None, None) => {}
        }
    }
}

async fn watch_pods(ctx: &PodGcContext, queue: &WorkQueue<PodGcTask>, quarantine: &NodeQuarantine) {
    let mut cursor = ctx.pods.subscribe();
    loop {
        let CacheChange { old, new } = cursor.next().await;
        let Some(pod) = new else { continue };
        if pod.is_finished() && !old.is_some_and(|old| old.is_finished()) {
            queue.add_after(PodGcTask::TerminatedPods, ctx.config.gc_period);
        }
        let node = node_of(ctx, &pod);
        if force_delete_reason(&pod, node.as_deref()).is_some() {
            queue.add(PodGcTask::Pod(pod.metadata.key()));
        }
        if let Some(name) = pod.node_name().filter(|_| node.is_none()) {
            quarantine.add(ctx, queue, name);
        }
    }
}

fn node_of(ctx: &PodGcContext, pod: &PodView) -> Option<Arc<NodeView>> {
    ctx.nodes.get(&ObjectKey::new("", pod.node_name()?))
}

async fn work(ctx: &PodGcContext, queue: &WorkQueue<PodGcTask>, quarantine: &NodeQuarantine) {
    // One at a time: these pods are not urgent.
    let run = |task: PodGcTask| {
        let span = task.span();
        run_task(ctx, quarantine, task).instrument(span)
    };
    queue.work(1, run).await;
}

async fn run_task(ctx: &PodGcContext, quarantine: &NodeQuarantine, task: PodGcTask) -> WorkResult {
    let left = match &task {
        PodGcTask::MissingNode(node) => quarantine.remaining(ctx, node).unwrap_or_default(),
        _ => Duration::ZERO,
    };
    if !left.is_zero() {
        // It returned in between, and is missing again.
        return WorkResult::RequeueAfter(left);
    }
    let mut failure = None;
    match pods_to_delete(ctx, &task).await {
        Err(error) => failure = Some(error),
        Ok(pods) => {
            for (pod, reason) in pods {
                tracing::info!(pod = %pod.metadata.key(), reason = reason.name(), "deleting a pod");
                // A pod that cannot be deleted must not block the others.
                let ended = mark_failed_and_delete(&ctx.client, &pod, reason, ctx.clock.now()).await;
                ctx.metrics.pod_collected(&pod.metadata.namespace, reason, ended.is_ok());
                failure = failure.or(ended.err());
            }
        }
    }
    match failure {
        None => WorkResult::Done,
        Some(error) => {
            let (kind, object) = task.object();
            log_retry("podgc", format_args!("{kind} {object}"), &error);
            WorkResult::Failed
        }
    }
}

/// Observes and decides: the pods of a task to delete, each with its reason.
async fn pods_to_delete(ctx: &PodGcContext, task: &PodGcTask) -> Result<Vec<(Arc<PodView>, PodGcReason)>, Error> {
    let because = |reason: PodGcReason| move |pod: Arc<PodView>| (pod, reason);
    Ok(match task {
        PodGcTask::Pod(key) => {
            let pod = ctx.pods.get(key);
            pod.iter().for_each(|pod| record_observed(&pod.metadata));
            force_deletable(ctx, pod.into_iter().collect())
        }
        PodGcTask::OutOfServiceNode(node) => {
            ctx.nodes.get(&ObjectKey::new("", node)).iter().for_each(|node| record_observed(&node.metadata));
            force_deletable(ctx, ctx.pods.by_index(&PodView::BY_NODE, node))
        }
        PodGcTask::TerminatedPods => {
            let pods = beyond_threshold(ctx.config.terminated_pod_threshold, ctx.pods.all());
            pods.into_iter().map(because(PodGcReason::Terminated)).collect()
        }
        PodGcTask::MissingNode(node) if is_missing(ctx, node).await? => {
            let pods = ctx.pods.by_index(&PodView::BY_NODE, node);
            pods.into_iter().map(because(PodGcReason::Orphaned)).collect()
        }
        PodGcTask::MissingNode(_) => Vec::new(),
    })
}

fn force_deletable(ctx: &PodGcContext, pods: Vec<Arc<PodView>>) -> Vec<(Arc<PodView>, PodGcReason)> {
    let with_reason = |pod: Arc<PodView>| {
        let reason = force_delete_reason(&pod, node_of(ctx, &pod).as_deref())?;
        Some((pod, reason))
    };
    pods.into_iter().filter_map(with_reason).collect()
}

/// Whether the node is really gone. The cache of nodes may lag behind that of pods, so the server is read.
async fn is_missing(ctx: &PodGcContext, name: &str) -> Result<bool, Error> {
    let key = ObjectKey::new("", name);
    if ctx.nodes.get(&key).is_some() {
        return Ok(false);
    }
    match get(&ctx.client, &NodeView::RESOURCE.object_path(&key)).await {
        Ok(_) => Ok(false),
        Err(error) if is_not_found(&error) => Ok(true),
        Err(error) => Err(error),
    }
}
