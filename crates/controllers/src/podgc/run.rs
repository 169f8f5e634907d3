//! The loop: what changes becomes errands, errands become pods that go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Timestamp;
use api::views::{NodeView, ObjectKey, PodView, View};
use futures::future::join3;
use kube::Error;
use runtime::request::get;
use runtime::{Change, WorkQueue, Worked, is_not_found};

use super::Parts;
use super::carry_out::end;
use super::decide::{Reason, beyond, goes_at_once, is_out_of_service};

/// What is worked on, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Errand {
    /// A pod that is being deleted.
    Pod(ObjectKey),
    /// All pods of a node that is declared out of service.
    OutOfService(String),
    /// All pods of a node that is missing.
    Missing(String),
    /// All pods that have ended.
    Ended,
}

/// Runs the collector for ever.
pub async fn run(parts: Parts) {
    parts.nodes.synced().await;
    parts.pods.synced().await;
    let (queue, missing) =
        (WorkQueue::counted(parts.config.retry, parts.metrics.queue("orphaned_pods_nodes")), Missing::default());
    join3(watch_nodes(&parts, &queue, &missing), watch_pods(&parts, &queue, &missing), work(&parts, &queue, &missing))
        .await;
}

/// Since when each missing node is missed. A restart begins all quarantines anew.
#[derive(Default)]
struct Missing(Mutex<BTreeMap<String, Timestamp>>);

impl Missing {
    /// The node is missed, and has been since the first time this was said.
    fn note(&self, parts: &Parts, queue: &WorkQueue<Errand>, node: &str) {
        self.lock().entry(node.to_owned()).or_insert(parts.clock.now());
        queue.add_after(Errand::Missing(node.to_owned()), parts.config.quarantine);
    }

    /// The node is there.
    fn clear(&self, node: &str) {
        self.lock().remove(node);
    }

    /// How much of the node's quarantine is left; none at all if it is not missed.
    fn left(&self, parts: &Parts, node: &str) -> Option<Duration> {
        let since = *self.lock().get(node)?;
        let missed = Duration::try_from(parts.clock.now().duration_since(since)).unwrap_or_default();
        Some(parts.config.quarantine.saturating_sub(missed))
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = BTreeMap<String, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn watch_nodes(parts: &Parts, queue: &WorkQueue<Errand>, missing: &Missing) {
    let mut cursor = parts.nodes.subscribe();
    loop {
        let Change { old, new } = cursor.next().await;
        match (old, new) {
            (Some(gone), None) => missing.note(parts, queue, &gone.metadata.name),
            (_, Some(node)) => {
                missing.clear(&node.metadata.name);
                if is_out_of_service(&node) {
                    queue.add(Errand::OutOfService(node.metadata.name.clone()));
                }
            }
            (None, None) => {}
        }
    }
}

async fn watch_pods(parts: &Parts, queue: &WorkQueue<Errand>, missing: &Missing) {
    let mut cursor = parts.pods.subscribe();
    loop {
        let Change { old, new } = cursor.next().await;
        let Some(pod) = new else { continue };
        if pod.is_finished() && !old.is_some_and(|old| old.is_finished()) {
            queue.add_after(Errand::Ended, parts.config.gather);
        }
        let node = node_of(parts, &pod);
        if goes_at_once(&pod, node.as_deref()).is_some() {
            queue.add(Errand::Pod(pod.metadata.key()));
        }
        if let Some(name) = pod.node_name().filter(|_| node.is_none()) {
            missing.note(parts, queue, name);
        }
    }
}

fn node_of(parts: &Parts, pod: &PodView) -> Option<Arc<NodeView>> {
    parts.nodes.get(&ObjectKey::new("", pod.node_name()?))
}

async fn work(parts: &Parts, queue: &WorkQueue<Errand>, missing: &Missing) {
    // One after the other: nobody waits for these pods.
    queue.work(1, |errand| run_errand(parts, missing, errand)).await;
}

async fn run_errand(parts: &Parts, missing: &Missing, errand: Errand) -> Worked {
    let left = match &errand {
        Errand::Missing(node) => missing.left(parts, node).unwrap_or_default(),
        _ => Duration::ZERO,
    };
    if !left.is_zero() {
        // It came back meanwhile, and is missed again.
        return Worked::Later(left);
    }
    let mut failure = None;
    match lost(parts, &errand).await {
        Err(error) => failure = Some(error),
        Ok(pods) => {
            for (pod, reason) in pods {
                tracing::info!(pod = %pod.metadata.key(), ?reason, "nobody else takes this pod away");
                // One pod that is in the way must not keep the others.
                let ended = end(&parts.client, &pod, reason, parts.clock.now()).await;
                parts.metrics.pod_collected(&pod.metadata.namespace, reason, ended.is_ok());
                failure = failure.or(ended.err());
            }
        }
    }
    match failure {
        None => Worked::Done,
        Some(error) => {
            tracing::warn!(?errand, %error, "will be tried again");
            Worked::Failed
        }
    }
}

/// Observe and decide: the pods that an errand means, and why each goes.
async fn lost(parts: &Parts, errand: &Errand) -> Result<Vec<(Arc<PodView>, Reason)>, Error> {
    let because = |reason: Reason| move |pod: Arc<PodView>| (pod, reason);
    Ok(match errand {
        Errand::Pod(key) => deleted(parts, parts.pods.get(key).into_iter().collect()),
        Errand::OutOfService(node) => deleted(parts, parts.pods.by_index(&PodView::BY_NODE, node)),
        Errand::Ended => {
            let pods = beyond(parts.config.terminated_max, parts.pods.all());
            pods.into_iter().map(because(Reason::Terminated)).collect()
        }
        Errand::Missing(node) if is_missing(parts, node).await? => {
            let pods = parts.pods.by_index(&PodView::BY_NODE, node);
            pods.into_iter().map(because(Reason::Orphaned)).collect()
        }
        Errand::Missing(_) => Vec::new(),
    })
}

fn deleted(parts: &Parts, pods: Vec<Arc<PodView>>) -> Vec<(Arc<PodView>, Reason)> {
    let going = |pod: Arc<PodView>| {
        let reason = goes_at_once(&pod, node_of(parts, &pod).as_deref())?;
        Some((pod, reason))
    };
    pods.into_iter().filter_map(going).collect()
}

/// Whether the node is really gone. The cache of nodes may lag behind that of pods, so the server is asked.
async fn is_missing(parts: &Parts, name: &str) -> Result<bool, Error> {
    let key = ObjectKey::new("", name);
    if parts.nodes.get(&key).is_some() {
        return Ok(false);
    }
    match get(&parts.client, &NodeView::RESOURCE.object_path(&key)).await {
        Ok(_) => Ok(false),
        Err(error) if is_not_found(&error) => Ok(true),
        Err(error) => Err(error),
    }
}
