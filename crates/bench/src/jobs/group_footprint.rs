//! The memory of Workloads with their PodGroups: in the store, and in a cache.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use api::views::{Index, PodGroupView, View, WorkloadView};
use api::{Random, Revision, Timestamp};
use controlplane::{Component, Config, ControlPlane, ControlPlaneEnvironment, control_loops};
use futures::future::try_join_all;
use nodes::cluster::Cluster;
use runtime::{Cache, TokioClock, request};
use serde_json::{Value, json};
use store::{Committer, HistoryLimits, ListQuery, Store};

use crate::pod_life::resident_mb_of;

/// Several equal caches, so that free memory of the allocator hardly counts.
const CACHES: usize = 10;
const POLL: Duration = Duration::from_millis(20);
/// How long the controller may take.
const TIMEOUT_SECONDS: u64 = 120;

/// The memory of a number of pairs.
pub struct GroupFootprint {
    pairs: usize,
    stored_mb: f64,
    cached_mb: f64,
}

impl GroupFootprint {
    /// For people.
    pub fn text(&self) -> String {
        let GroupFootprint { pairs, stored_mb, cached_mb } = self;
        format!(
            "{pairs} Workloads with their PodGroups: {stored_mb:.1} MB stored, {cached_mb:.1} MB in a cache of both"
        )
    }

    /// For programs.
    pub fn line(&self) -> Value {
        json!({"case": format!("pairs-{}", self.pairs), "system": "phalanx-embedded", "pairs": self.pairs,
            "stored_mb": self.stored_mb, "cached_mb": self.cached_mb})
    }
}

/// Lets the Job controller create the objects of that many suspended gang Jobs, and measures them.
pub fn measure(pairs: usize) -> anyhow::Result<GroupFootprint> {
    eprintln!("pairs-{pairs}: starting");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let store = runtime.block_on(store_with_groups(pairs))?;
    let (workloads, groups) = (documents::<WorkloadView>(&store)?, documents::<PodGroupView>(&store)?);
    ensure!(workloads.len() == pairs && groups.len() == pairs, "not every Job has its objects");
    let stored: usize = workloads.iter().chain(&groups).map(Vec::len).sum();
    let before = resident_mb_of(Path::new("/proc/self/status"))?;
    let mut caches = Vec::with_capacity(CACHES);
    for _ in 0..CACHES {
        let workloads = filled(&workloads, &[WorkloadView::BY_CONTROLLER_REF])?;
        caches.push((workloads, filled(&groups, &[PodGroupView::BY_WORKLOAD, PodGroupView::BY_PARENT])?));
    }
    let cached_mb = (resident_mb_of(Path::new("/proc/self/status"))? - before) / CACHES as f64;
    Ok(GroupFootprint { pairs, stored_mb: stored as f64 / 1e6, cached_mb })
}

/// A store with the objects.
async fn store_with_groups(pairs: usize) -> anyhow::Result<Store> {
    let store = Store::in_memory(HistoryLimits::default());
    let environment = ControlPlaneEnvironment {
        clock: Arc::new(TokioClock::starting_at(Timestamp::now())),
        random: Random::seeded(1),
        committer: Committer::in_place(store.clone()),
        store: store.clone(),
    };
    let mut config = Config::for_cluster(Cluster::default());
    config.components = [Component::Controllers].into();
    config.controllers = vec![&control_loops::JOB];
    let plane = ControlPlane::start(environment, config).await?;
    let client = plane.client();
    let jobs: Vec<usize> = (0..pairs).collect();
    for chunk in jobs.chunks(500) {
        let path = "/apis/batch/v1/namespaces/default/jobs";
        let posts = chunk.iter().map(|index| {
            let job = job(*index);
            let client = &client;
            async move { request::post(client, path, &job).await }
        });
        try_join_all(posts).await?;
    }
    let all = async {
        while plane.cache::<PodGroupView>().len() < pairs {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(TIMEOUT_SECONDS), all).await?;
    plane.stop().await;
    Ok(store)
}

/// A suspended gang: it has its objects, but no pods.
fn job(index: usize) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("training-{index}")},
        "spec": {
            "suspend": true, "completions": 8, "parallelism": 8, "completionMode": "Indexed",
            "scheduling": {"schedulingPolicy": {"gang": {"minCount": 8}}},
            "template": {"spec": {"restartPolicy": "Never", "containers": [{
                "name": "main", "image": "registry.example/main:1",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }]}},
        },
    })
}

/// All objects of a kind in their stored form.
fn documents<V: View>(store: &Store) -> anyhow::Result<Vec<Vec<u8>>> {
    let resource = format!("{}/{}", V::RESOURCE.group, V::RESOURCE.plural);
    let page = store.list(&ListQuery::all(&resource.into()), &mut |_| true)?;
    Ok(page.items.iter().map(|item| item.bytes().to_vec()).collect())
}

fn filled<V: View>(documents: &[Vec<u8>], indexes: &[Index<V>]) -> anyhow::Result<Cache<V>> {
    let cache = Cache::new(indexes);
    let objects: Result<Vec<V>, _> = documents.iter().map(|document| V::decode(document)).collect();
    cache.replace(objects?, &BTreeSet::new(), Revision::ZERO);
    Ok(cache)
}
