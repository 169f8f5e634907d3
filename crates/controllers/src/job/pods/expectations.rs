//! Jobs whose pods may be incomplete in the cache.
//!
//! A create whose response was lost may have created a pod with an unknown name, and an event may be late or lost. A
//! decision from such a cache could create a pod twice, so the pods of such a Job are listed on the server first. This
//! is only in memory: a restart lists everything anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::Revision;
use api::views::{JobView, MetaView, PodView, View};
use runtime::request::get;
use serde::Deserialize;

use super::claims::list_path;
use crate::job::JobContext;
use crate::job::execute::StepError;
use crate::job::observe::is_controlled_by;

/// The uids of those Jobs.
#[derive(Debug, Default)]
pub struct Expectations(Mutex<BTreeSet<String>>);

impl Expectations {
    /// Marks the cached pods of this Job as possibly incomplete.
    pub fn mark_uncertain(&self, uid: &str) {
        self.lock().insert(uid.to_owned());
    }

    /// If the Job is marked, lists its pods on the server and returns once the cache agrees.
    pub async fn verify(&self, ctx: &JobContext, job: &JobView) -> Result<(), StepError> {
        let uid = &job.metadata.uid;
        if !self.lock().contains(uid) {
            return Ok(());
        }
        verify_cache(ctx, job).await.map_err(StepError::ReadPods)?;
        self.forget(uid);
        Ok(())
    }

    /// The Job is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists the pods of the Job and waits until the cache agrees with the list.
async fn verify_cache(ctx: &JobContext, job: &JobView) -> Result<(), kube::Error> {
    let path = list_path(job, &PodView::RESOURCE.collection_path(&job.metadata.namespace));
    let list: PodMetadataList =
        serde_json::from_slice(&get(&ctx.client, &path).await?).map_err(kube::Error::SerdeError)?;
    let (uid, revision) = (&job.metadata.uid, list.metadata.resource_version);
    let listed = list.items.into_iter().map(|item| item.metadata);
    let listed: Vec<MetaView> = listed.filter(|meta| is_controlled_by(meta, uid)).collect();
    let agree = || {
        let mut cached = ctx.pods.by_index(&PodView::BY_CONTROLLER, uid);
        cached.extend(ctx.pods.by_index(&PodView::BY_CONTROLLER, &PodView::counted_index_value(uid)));
        let cached: Vec<&MetaView> = cached.iter().map(|pod| &pod.metadata).collect();
        cache_matches(&cached, &listed, revision)
    };
    // The revision of a list is the server's and may be that of another kind: the cache need not reach it to agree.
    ctx.pods.wait_for_revision_or(revision, agree).await;
    if !agree() {
        ctx.pods.relist().await;
    }
    Ok(())
}

/// Whether the cached pods agree with the list of the server at `revision`, or are newer.
fn cache_matches(cached: &[&MetaView], listed: &[MetaView], revision: Revision) -> bool {
    let versions: BTreeMap<&str, Revision> =
        cached.iter().map(|meta| (meta.uid.as_str(), meta.resource_version)).collect();
    let live: BTreeSet<&str> = listed.iter().map(|meta| meta.uid.as_str()).collect();
    let is_cached =
        |live: &MetaView| versions.get(live.uid.as_str()).is_some_and(|version| *version >= live.resource_version);
    let is_known = |cached: &MetaView| cached.resource_version > revision || live.contains(cached.uid.as_str());
    listed.iter().all(is_cached) && cached.iter().all(|meta| is_known(meta))
}

/// The metadata of a list of pods.
#[derive(Deserialize)]
struct PodMetadataList {
    metadata: MetaView,
    #[serde(default)]
    items: Vec<PodMetadata>,
}

#[derive(Deserialize)]
struct PodMetadata {
    metadata: MetaView,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(uid: &str, revision: u64) -> MetaView {
        MetaView { uid: uid.to_owned(), resource_version: Revision(revision), ..MetaView::default() }
    }

    #[test]
    fn a_cache_with_a_missing_outdated_or_deleted_pod_does_not_match() {
        let (a, b) = (meta("a", 3), meta("b", 5));
        for (case, cached, listed, want) in [
            ("the same", vec![&a, &b], vec![a.clone(), b.clone()], true),
            ("a pod is missing", vec![&a], vec![a.clone(), b.clone()], false),
            ("a pod is outdated", vec![&a, &b], vec![a.clone(), meta("b", 6)], false),
            ("a pod has changed since", vec![&b], vec![meta("b", 4)], true),
            ("a pod is gone", vec![&a, &b], vec![b.clone()], false),
            ("a pod was created since", vec![&a, &meta("c", 9)], vec![a.clone()], true),
        ] {
            assert_eq!(cache_matches(&cached, &listed, Revision(8)), want, "{case}");
        }
    }
}
