//! The one task of all simulated kubelets: changes in, writes out, and sleep until the next step is due.

use std::sync::Arc;
use std::time::Duration;

use api::views::{NodeView, PodView, View};
use api::{Clock, Timestamp};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use kube::Client;
use runtime::request::{self, PatchKind, WriteResponse};
use runtime::{Backoff, Cache, EventKind, ObjectRef, Recorder};
use runtime::{is_conflict, is_not_found, is_retriable, reconcile_span, record_observed};
use tracing::Instrument;

use crate::due_queue::{DueQueue, KubeletTask, TaskOutcome};
use crate::pod_lifecycle::{KubeletAction, PodDefaults};
use crate::status::PodWrite;

/// Dependencies of the kubelets.
pub struct KubeletContext {
    /// A client with the identity of nodes.
    pub client: Client,
    /// All pods.
    pub pods: Cache<PodView>,
    /// All nodes; those with the label `phalanx.dev/simulated: "true"` are ours.
    pub nodes: Cache<NodeView>,
    /// Clock.
    pub clock: Arc<dyn Clock>,
    /// For Events.
    pub recorder: Recorder,
    /// Settings.
    pub config: Config,
}

/// Settings of the kubelets.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Limit of writes in flight, over all nodes.
    pub writes_in_flight: usize,
    /// Backoff of failed writes.
    pub backoff: Backoff,
    /// What holds for pods without annotations.
    pub pod_defaults: PodDefaults,
}

impl Default for Config {
    fn default() -> Config {
        let backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) };
        Config { writes_in_flight: 64, backoff, pod_defaults: PodDefaults::default() }
    }
}

/// Runs every pod that is bound to a simulated node. Never returns.
///
/// Upstream: a kubelet also writes an Event for every image, container and kill. Ours does not repeat the status in Events,
/// because they would be most of the writes of a large gang.
pub fn run(ctx: KubeletContext) -> BoxFuture<'static, ()> {
    run_forever(ctx).boxed()
}

async fn run_forever(ctx: KubeletContext) {
    let KubeletContext { client, pods, nodes, clock, recorder, config } = ctx;
    let mut pod_changes = pods.subscribe();
    let mut node_changes = nodes.subscribe();
    let mut due_queue = DueQueue::new(config.backoff, config.pod_defaults);
    let mut writes = FuturesUnordered::new();
    loop {
        let now = clock.now();
        while let Some(change) = node_changes.try_next() {
            due_queue.observe_node(&change);
        }
        while let Some(change) = pod_changes.try_next() {
            due_queue.observe_pod(&change, now);
        }
        while writes.len() < config.writes_in_flight
            && let Some(task) = due_queue.take(now)
        {
            let span = reconcile_span("nodes", PodView::RESOURCE.kind, task.pod.metadata.key(), None);
            writes.push(execute(&client, &recorder, task).instrument(span));
        }
        // At the limit of writes, only the end of one allows another.
        let due = due_queue.next_due().filter(|_| writes.len() < config.writes_in_flight);
        tokio::select! {
            biased;
            Some((task, outcome)) = writes.next(), if !writes.is_empty() => {
                due_queue.complete(&task, outcome, clock.now());
            }
            () = node_changes.wait_until_ready() => {}
            () = pod_changes.wait_until_ready() => {}
            () = tokio::time::sleep(until(due.unwrap_or(now), now)), if due.is_some() => {}
        }
    }
}

async fn execute(client: &Client, recorder: &Recorder, task: KubeletTask) -> (KubeletTask, TaskOutcome) {
    record_observed(&task.pod.metadata);
    let mut path = PodView::RESOURCE.object_path(&task.pod.metadata.key());
    let response = match &task.write {
        PodWrite::Status(body) => {
            path.push_str("/status");
            request::patch(client, &path, PatchKind::Merge, body).await
        }
        PodWrite::Delete(options) => request::delete(client, &path, options).await,
    };
    record_rejection(recorder, &task, &response);
    let outcome = outcome(&task, response);
    (task, outcome)
}

/// A pod with an invalid annotation gets an Event as well as a status.
fn record_rejection(recorder: &Recorder, task: &KubeletTask, response: &Result<WriteResponse, kube::Error>) {
    if let (KubeletAction::Refuse { message }, Ok(_)) = (&task.action, response) {
        recorder.event(&ObjectRef::of(&*task.pod), EventKind::Warning, "InvalidAnnotation", "Starting", message);
    }
}

fn outcome(task: &KubeletTask, response: Result<WriteResponse, kube::Error>) -> TaskOutcome {
    match response {
        Ok(response) => TaskOutcome::Written(response.revision),
        Err(error) if is_not_found(&error) => TaskOutcome::Gone,
        Err(error) if is_conflict(&error) => TaskOutcome::Conflict,
        Err(error) => {
            let (key, action) = (task.pod.metadata.key(), task.action.name());
            // Other errors are retried, too: a write for a newer version of the pod may be accepted.
            if is_retriable(&error) {
                tracing::debug!("pod {key}: {action} failed: {error}");
            } else {
                tracing::warn!("pod {key}: {action} was refused: {error}");
            }
            TaskOutcome::Failed
        }
    }
}

fn until(due: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO)
}
