//! The task that all simulated kubelets share: changes in, writes out, and sleep between them.

use std::sync::Arc;
use std::time::Duration;

use api::views::{NodeView, PodView, View};
use api::{Clock, Timestamp};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use runtime::request::{self, PatchKind, WriteResponse};
use runtime::{Backoff, Cache, EventKind, ObjectRef, Recorder, is_conflict, is_not_found, is_retriable};

use crate::due_queue::{DueQueue, KubeletTask, TaskOutcome};
use crate::pod_lifecycle::{KubeletAction, PodDefaults};
use crate::status::PodWrite;

/// What the kubelets work with.
pub struct KubeletContext {
    /// With the rights of nodes.
    pub client: Client,
    /// All pods.
    pub pods: Cache<PodView>,
    /// All nodes; those with the label `phalanx.dev/simulated: "true"` are ours.
    pub nodes: Cache<NodeView>,
    /// The time of objects.
    pub clock: Arc<dyn Clock>,
    /// For what the user must know.
    pub recorder: Recorder,
    /// Settings.
    pub config: Config,
}

/// Settings of the kubelets.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many writes may be under way at once, over all nodes.
    pub writes_in_flight: usize,
    /// How long a failed write waits before it is done again.
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

/// Runs every pod that is bound to a simulated node, for ever.
///
/// Upstream: a kubelet also writes an Event for every image, container and kill. Ours stays silent about what the status
/// says, because a gang of thousands would spend most of its writes on them.
pub async fn run(ctx: KubeletContext) {
    let KubeletContext { client, pods, nodes, clock, recorder, config } = ctx;
    let mut pod_changes = pods.subscribe();
    let mut node_changes = nodes.subscribe();
    let mut agenda = DueQueue::new(config.backoff, config.pod_defaults);
    let mut writes = FuturesUnordered::new();
    loop {
        let now = clock.now();
        while let Some(change) = node_changes.try_next() {
            agenda.observe_node(&change);
        }
        while let Some(change) = pod_changes.try_next() {
            agenda.observe_pod(&change, now);
        }
        while writes.len() < config.writes_in_flight
            && let Some(task) = agenda.take(now)
        {
            writes.push(execute(&client, task));
        }
        // With all hands full, time alone changes nothing.
        let due = agenda.next_due().filter(|_| writes.len() < config.writes_in_flight);
        tokio::select! {
            biased;
            Some((task, answer)) = writes.next(), if !writes.is_empty() => {
                record_rejection(&recorder, &task, &answer);
                agenda.complete(&task, outcome(&task, answer), clock.now());
            }
            () = node_changes.wait_until_ready() => {}
            () = pod_changes.wait_until_ready() => {}
            () = tokio::time::sleep(until(due.unwrap_or(now), now)), if due.is_some() => {}
        }
    }
}

async fn execute(client: &Client, task: KubeletTask) -> (KubeletTask, Result<WriteResponse, kube::Error>) {
    let mut path = PodView::RESOURCE.object_path(&task.pod.metadata.key());
    let answer = match &task.write {
        PodWrite::Status(body) => {
            path.push_str("/status");
            request::patch(client, &path, PatchKind::Merge, body).await
        }
        PodWrite::Delete(options) => request::delete(client, &path, options).await,
    };
    (task, answer)
}

/// A pod that cannot be run as it asks to be is an event as well as a status.
fn record_rejection(recorder: &Recorder, task: &KubeletTask, answer: &Result<WriteResponse, kube::Error>) {
    if let (KubeletAction::Refuse { message }, Ok(_)) = (&task.action, answer) {
        recorder.event(&ObjectRef::of(&*task.pod), EventKind::Warning, "InvalidAnnotation", "Starting", message);
    }
}

fn outcome(task: &KubeletTask, answer: Result<WriteResponse, kube::Error>) -> TaskOutcome {
    match answer {
        Ok(answer) => TaskOutcome::Written(answer.revision),
        Err(error) if is_not_found(&error) => TaskOutcome::Gone,
        Err(error) if is_conflict(&error) => TaskOutcome::Conflict,
        Err(error) => {
            let key = task.pod.metadata.key();
            // What no repetition mends is still repeated: the next version of the pod may be accepted.
            if is_retriable(&error) {
                tracing::debug!("pod {key}: {:?} failed: {error}", task.action);
            } else {
                tracing::warn!("pod {key}: {:?} was refused: {error}", task.action);
            }
            TaskOutcome::Failed
        }
    }
}

fn until(due: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO)
}
