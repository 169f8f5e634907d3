//! Removes the protection finalizer of deleted groups once they have no live members: pods of a PodGroup, groups of a
//! CompositePodGroup.
//!
//! In: the caches of PodGroups, CompositePodGroups and pods.
//! Out: finalizer removals. Admission adds the finalizer to every PodGroup; a CompositePodGroup has it if its creator
//! added it.
//! Promises: a group that is being deleted stays while a member that has not ended, or a child group, names it, and is gone
//! soon afterwards. A pod of another owner is no member and does not keep the group, as in the scheduler.
//! Never: adds the finalizer; deletes anything.

use std::sync::Arc;
use std::time::Duration;

use api::scheduling::PROTECTION_FINALIZER;
use api::views::{CompositePodGroupView, MetaView, ObjectKey, PodGroupView, PodView, View};
use futures::FutureExt;
use futures::future::{BoxFuture, join4};
use runtime::{Backoff, Cache, CacheChange, WorkQueue, WorkResult, log_retry, reconcile_span, record_observed};
use tracing::Instrument;

use crate::{Metrics, finalizer};

/// How many groups are reconciled concurrently.
const WORKERS: usize = 5;
const RETRY: Backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(60) };

/// What the controller uses. `pods` is indexed by group, groups by their parent.
pub struct PodGroupProtectionContext {
    /// The API server.
    pub client: kube::Client,
    /// All CompositePodGroups.
    pub composite_pod_groups: Cache<CompositePodGroupView>,
    /// All PodGroups.
    pub pod_groups: Cache<PodGroupView>,
    /// All pods.
    pub pods: Cache<PodView>,
    /// Metrics.
    pub metrics: Metrics,
}

/// A deleted group that may wait for its members.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GroupKey {
    /// A PodGroup, for its pods.
    PodGroup(ObjectKey),
    /// A CompositePodGroup, for its groups.
    CompositePodGroup(ObjectKey),
}

impl GroupKey {
    /// Its kind and its key.
    fn object(&self) -> (&'static str, &ObjectKey) {
        match self {
            GroupKey::PodGroup(key) => (PodGroupView::RESOURCE.kind, key),
            GroupKey::CompositePodGroup(key) => (CompositePodGroupView::RESOURCE.kind, key),
        }
    }
}

/// Runs the controller forever.
pub fn run(ctx: PodGroupProtectionContext) -> BoxFuture<'static, ()> {
    run_forever(ctx).boxed()
}

async fn run_forever(ctx: PodGroupProtectionContext) {
    ctx.composite_pod_groups.wait_for_sync().await;
    ctx.pod_groups.wait_for_sync().await;
    ctx.pods.wait_for_sync().await;
    let queue = WorkQueue::with_metrics(RETRY, ctx.metrics.queue("podgroupprotection"));
    join4(watch_composites(&ctx, &queue), watch_groups(&ctx, &queue), watch_pods(&ctx, &queue), work(&ctx, &queue))
        .await;
}

async fn watch_composites(ctx: &PodGroupProtectionContext, queue: &WorkQueue<GroupKey>) {
    let mut cursor = ctx.composite_pod_groups.subscribe();
    loop {
        let CacheChange { old, new } = cursor.next().await;
        match (old, new) {
            (_, Some(group)) if awaits_finalizer_removal(&group.metadata) => {
                queue.add(GroupKey::CompositePodGroup(group.metadata.key()))
            }
            (Some(gone), None) => {
                let above = gone.spec.parent_composite_pod_group_name.as_deref();
                parent(&gone.metadata.namespace, above).into_iter().for_each(|parent| queue.add(parent));
            }
            _ => {}
        }
    }
}

/// A group that is gone may have been the last child that its parent waited for.
async fn watch_groups(ctx: &PodGroupProtectionContext, queue: &WorkQueue<GroupKey>) {
    let mut cursor = ctx.pod_groups.subscribe();
    loop {
        let CacheChange { old, new } = cursor.next().await;
        match (old, new) {
            (_, Some(group)) if awaits_finalizer_removal(&group.metadata) => {
                queue.add(GroupKey::PodGroup(group.metadata.key()))
            }
            (Some(gone), None) => {
                let above = gone.spec.parent_composite_pod_group_name.as_deref();
                parent(&gone.metadata.namespace, above).into_iter().for_each(|parent| queue.add(parent));
            }
            _ => {}
        }
    }
}

/// A pod that ended, is gone or was replaced may have been the last that its group waited for.
async fn watch_pods(ctx: &PodGroupProtectionContext, queue: &WorkQueue<GroupKey>) {
    let mut cursor = ctx.pods.subscribe();
    loop {
        let change = cursor.next().await;
        if let Some(group) = group_left_by(&change)
            && ctx.pod_groups.get(&group).is_some_and(|group| awaits_finalizer_removal(&group.metadata))
        {
            queue.add(GroupKey::PodGroup(group));
        }
    }
}

async fn work(ctx: &PodGroupProtectionContext, queue: &WorkQueue<GroupKey>) {
    let reconcile_key = |group: GroupKey| {
        let (kind, key) = group.object();
        let span = reconcile_span("podgroup-protection", kind, key, None);
        async move {
            match reconcile(ctx, &group).await {
                Ok(()) => WorkResult::Done,
                Err(error) => {
                    let (kind, key) = group.object();
                    log_retry("podgroup-protection", format_args!("{kind} {key}"), &error);
                    WorkResult::Failed
                }
            }
        }
        .instrument(span)
    };
    queue.work(WORKERS, reconcile_key).await;
}

/// Observes, decides and executes.
async fn reconcile(ctx: &PodGroupProtectionContext, group: &GroupKey) -> Result<(), kube::Error> {
    match group {
        GroupKey::PodGroup(key) => {
            let Some(group) = ctx.pod_groups.get(key).filter(|group| awaits_finalizer_removal(&group.metadata)) else {
                return Ok(());
            };
            record_observed(&group.metadata);
            let pods = ctx.pods.by_index(&PodView::BY_GROUP, &key.to_string());
            if members_ended(&group, &pods) { remove_finalizer(ctx, &*group).await } else { Ok(()) }
        }
        GroupKey::CompositePodGroup(key) => {
            let group = ctx.composite_pod_groups.get(key).filter(|group| awaits_finalizer_removal(&group.metadata));
            let Some(group) = group else { return Ok(()) };
            record_observed(&group.metadata);
            let above = key.to_string();
            let childless = ctx.pod_groups.by_index(&PodGroupView::BY_PARENT, &above).is_empty()
                && ctx.composite_pod_groups.by_index(&CompositePodGroupView::BY_PARENT, &above).is_empty();
            if childless { remove_finalizer(ctx, &*group).await } else { Ok(()) }
        }
    }
}

async fn remove_finalizer<V: View>(ctx: &PodGroupProtectionContext, group: &V) -> Result<(), kube::Error> {
    let meta = group.meta();
    let path = V::RESOURCE.object_path(&meta.key());
    finalizer::remove(&ctx.client, &path, &meta.uid, &meta.finalizers, PROTECTION_FINALIZER).await
}

/// Whether none of the pods that name the group keeps it any longer. A pod that is being deleted still runs.
// Upstream: any pod keeps it, so that a pending pod that no scheduler ever places blocks a Job's foreground
// deletion.
fn members_ended(group: &PodGroupView, pods: &[Arc<PodView>]) -> bool {
    pods.iter().all(|pod| pod.is_finished() || !group.admits(pod))
}

/// Whether the group is being deleted and has our finalizer.
fn awaits_finalizer_removal(meta: &MetaView) -> bool {
    meta.is_deleting() && meta.has_finalizer(PROTECTION_FINALIZER)
}

/// The parent of a group that is gone.
fn parent(namespace: &str, parent: Option<&str>) -> Option<GroupKey> {
    parent.map(|parent| GroupKey::CompositePodGroup(ObjectKey::new(namespace, parent)))
}

/// The group that a pod no longer keeps in use. A new pod of the same name may be in another group, and a pod with another
/// controller is no longer a member.
fn group_left_by(change: &CacheChange<PodView>) -> Option<ObjectKey> {
    let old = change.old.as_deref().and_then(group_in_use)?;
    let new = change.new.as_deref().and_then(group_in_use);
    (new.as_ref() != Some(&old)).then_some(old.0)
}

/// The group that this pod keeps in use if it is a member, and the uid of its controller, which decides that.
fn group_in_use(pod: &PodView) -> Option<(ObjectKey, Option<&str>)> {
    let group = pod.group_name().filter(|_| !pod.is_finished())?;
    let controller = pod.metadata.controller().map(|owner| owner.uid.as_str());
    Some((ObjectKey::new(&pod.metadata.namespace, group), controller))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    // Shows: U-TestHasActivePods, U-TestHandlePodGroupUpdate
    #[test]
    fn a_deleted_group_loses_its_finalizer_when_its_last_pod_has_ended() {
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
            ("it is not being deleted", group(false, &ours), vec![], false),
            ("no pod", group(true, &ours), vec![], true),
            ("pods that ended", group(true, &ours), vec!["Succeeded", "Failed"], true),
            ("one that runs", group(true, &ours), vec!["Succeeded", "Running"], false),
            ("one that is pending", group(true, &ours), vec!["Pending"], false),
            ("it has only another finalizer", group(true, &["other/x"]), vec![], false),
        ] {
            let pods: Vec<_> = phases.into_iter().map(pod).collect();
            assert_eq!(awaits_finalizer_removal(&group.metadata) && members_ended(&group, &pods), want, "{case}");
        }
    }

    // Pods that named another Job's group stayed pending forever, and with them the groups and their Jobs.
    #[test]
    fn only_members_keep_a_deleted_group() {
        let owned = |owner: &str| {
            let (kind, uid) = owner.split_once('/').unwrap_or_default();
            let owner = json!({"apiVersion": "batch/v1", "kind": kind, "name": uid, "uid": uid, "controller": true});
            json!({"name": "x", "ownerReferences": if kind.is_empty() { json!([]) } else { json!([owner]) }})
        };
        for (case, group, pod, keeps) in [
            ("its own", "Job/a", "Job/a", true),
            ("another Job's", "Job/a", "Job/b", false),
            ("one without a controller", "Job/a", "", false),
            ("one of a child of the owner", "JobSet/s", "Job/a", true),
            ("any, if the group has no controller", "", "Job/a", true),
        ] {
            let group = PodGroupView::decode(json!({"metadata": owned(group)}).to_string().as_bytes()).unwrap();
            let pod = PodView::decode(json!({"metadata": owned(pod)}).to_string().as_bytes()).unwrap();
            assert_eq!(!members_ended(&group, &[Arc::new(pod)]), keeps, "{case}");
        }
    }

    #[test]
    fn a_group_is_enqueued_when_a_pod_ends_is_deleted_or_is_replaced() {
        let pod = |group: &str, phase: &str| {
            let spec = json!({"schedulingGroup": {"podGroupName": group}});
            let document =
                json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": {"phase": phase}});
            Some(Arc::new(PodView::decode(document.to_string().as_bytes()).unwrap()))
        };
        let orphaned = pod("g", "Running");
        let owned = |uid: &str| {
            let mut pod = PodView::clone(orphaned.as_ref().unwrap());
            let owner = api::views::OwnerRef { uid: uid.to_owned(), controller: true, ..Default::default() };
            pod.metadata.owner_references = vec![owner];
            Some(Arc::new(pod))
        };
        for (case, old, new, want) in [
            ("it lost its controller", owned("a"), orphaned.clone(), true),
            ("it has the same", owned("a"), owned("a"), false),
            ("it was created", None, pod("g", "Pending"), false),
            ("it runs", pod("g", "Pending"), pod("g", "Running"), false),
            ("it ended", pod("g", "Running"), pod("g", "Failed"), true),
            ("it had ended", pod("g", "Failed"), None, false),
            ("it is gone", pod("g", "Running"), None, true),
            ("another of its name is in another group", pod("g", "Running"), pod("h", "Running"), true),
            ("another of its name is in the same", pod("g", "Running"), pod("g", "Pending"), false),
        ] {
            let left = group_left_by(&CacheChange { old, new });
            assert_eq!(left, want.then(|| ObjectKey::new("ns", "g")), "{case}");
        }
    }

    #[test]
    fn a_deleted_child_enqueues_its_composite_group() {
        let child = |parent: Option<&str>| {
            let document = json!({
                "metadata": {"name": "g", "namespace": "ns"}, "spec": {"parentCompositePodGroupName": parent},
            });
            PodGroupView::decode(document.to_string().as_bytes()).unwrap()
        };
        let parent = |group: &PodGroupView| {
            parent(&group.metadata.namespace, group.spec.parent_composite_pod_group_name.as_deref())
        };
        assert_eq!(parent(&child(Some("above"))), Some(GroupKey::CompositePodGroup(ObjectKey::new("ns", "above"))));
        assert_eq!(parent(&child(None)), None);
    }
}
