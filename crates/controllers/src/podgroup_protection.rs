//! Lets deleted PodGroups go once no live pod belongs to them.
//!
//! In: the caches of PodGroups and pods.
//! Out: the protection finalizer, which admission puts on every PodGroup, taken off.
//! Promises: a PodGroup that is being deleted stays while a pod that has not ended names it, and goes soon afterwards.
//! Never: adds the finalizer; looks at owners; deletes anything.

use std::sync::Arc;
use std::time::Duration;

use api::scheduling::PROTECTION_FINALIZER;
use api::views::{ObjectKey, PodGroupView, PodView, View};
use futures::future::join3;
use futures::{StreamExt, stream};
use runtime::{Backoff, Cache, Change, WorkQueue};

use crate::finalizer;

/// How many groups are worked on side by side.
const WORKERS: usize = 5;
const RETRY: Backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(60) };

/// What the controller is made of. `pods` is indexed by group.
pub struct Parts {
    /// The API server.
    pub client: kube::Client,
    /// All PodGroups.
    pub pod_groups: Cache<PodGroupView>,
    /// All pods.
    pub pods: Cache<PodView>,
}

/// Runs the controller for ever.
pub async fn run(parts: Parts) {
    parts.pod_groups.synced().await;
    parts.pods.synced().await;
    let queue = WorkQueue::new(RETRY);
    join3(watch_groups(&parts, &queue), watch_pods(&parts, &queue), work(&parts, &queue)).await;
}

async fn watch_groups(parts: &Parts, queue: &WorkQueue<ObjectKey>) {
    let mut cursor = parts.pod_groups.subscribe();
    loop {
        let Change { new, .. } = cursor.next().await;
        if let Some(group) = new.filter(|group| waits(group)) {
            queue.add(group.metadata.key());
        }
    }
}

/// A pod that ended, went or was replaced may have been the last that its group waited for.
async fn watch_pods(parts: &Parts, queue: &WorkQueue<ObjectKey>) {
    let mut cursor = parts.pods.subscribe();
    loop {
        let Change { old, new } = cursor.next().await;
        let used = old.as_deref().and_then(group_in_use);
        if let Some(group) = used.filter(|_| new.as_deref().and_then(group_in_use).is_none())
            && parts.pod_groups.get(&group).is_some_and(|group| waits(&group))
        {
            queue.add(group);
        }
    }
}

async fn work(parts: &Parts, queue: &WorkQueue<ObjectKey>) {
    let keys = stream::unfold((), |()| async { Some((queue.next().await, ())) });
    keys.for_each_concurrent(WORKERS, |key| async move {
        match reconcile(parts, &key).await {
            Ok(()) => queue.forget(&key),
            Err(error) => {
                tracing::warn!(pod_group = %key, %error, "letting it go will be tried again");
                queue.add_with_backoff(key.clone());
            }
        }
        queue.done(&key);
    })
    .await;
}

/// Observe, decide, do.
async fn reconcile(parts: &Parts, key: &ObjectKey) -> Result<(), kube::Error> {
    let Some(group) = parts.pod_groups.get(key) else { return Ok(()) };
    let pods = parts.pods.by_index(&PodView::BY_GROUP, &key.to_string());
    if !may_go(&group, &pods) {
        return Ok(());
    }
    let (path, meta) = (PodGroupView::RESOURCE.object_path(key), &group.metadata);
    finalizer::remove(&parts.client, &path, &meta.uid, &meta.finalizers, PROTECTION_FINALIZER).await
}

/// Whether nothing keeps a deleted group any longer. A pod that is being deleted still runs.
fn may_go(group: &PodGroupView, pods: &[Arc<PodView>]) -> bool {
    waits(group) && pods.iter().all(|pod| pod.is_finished())
}

/// Whether the group is deleted and held by us.
fn waits(group: &PodGroupView) -> bool {
    group.metadata.is_deleting() && group.metadata.has_finalizer(PROTECTION_FINALIZER)
}

/// The group that this pod keeps in use.
fn group_in_use(pod: &PodView) -> Option<ObjectKey> {
    let group = pod.group_name().filter(|_| !pod.is_finished())?;
    Some(ObjectKey::new(&pod.metadata.namespace, group))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deleted_group_goes_when_its_last_pod_has_ended() {
        let group = |deleted: bool, finalizers: &[&str]| {
            let at = deleted.then_some("2026-01-01T00:00:00Z");
            let document = json!({"metadata": {"name": "g", "deletionTimestamp": at, "finalizers": finalizers}});
            PodGroupView::decode(document.to_string().as_bytes()).unwrap()
        };
        let pod = |phase: &str| {
            let document = json!({"metadata": {"name": "p"}, "status": {"phase": phase}});
            Arc::new(PodView::decode(document.to_string().as_bytes()).unwrap())
        };
        let ours = [PROTECTION_FINALIZER];
        for (case, group, phases, want) in [
            ("nobody deletes it", group(false, &ours), vec![], false),
            ("no pod", group(true, &ours), vec![], true),
            ("pods that ended", group(true, &ours), vec!["Succeeded", "Failed"], true),
            ("one that runs", group(true, &ours), vec!["Succeeded", "Running"], false),
            ("one that waits", group(true, &ours), vec!["Pending"], false),
            ("others hold it", group(true, &["other/x"]), vec![], false),
        ] {
            let pods: Vec<_> = phases.into_iter().map(pod).collect();
            assert_eq!(may_go(&group, &pods), want, "{case}");
        }
    }
}
