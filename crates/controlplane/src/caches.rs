//! One cache per kind, shared by all parts of a process.

use api::views::{JobView, NamespaceView, NodeView, PodGroupView, PodView, View, WorkloadView};
use runtime::Cache;

/// The caches of one process. Parts get clones, which are handles on the same cache.
#[derive(Clone)]
pub struct Caches {
    /// Pods, by controller, node and group.
    pub pods: Cache<PodView>,
    /// Nodes.
    pub nodes: Cache<NodeView>,
    /// Jobs.
    pub jobs: Cache<JobView>,
    /// Workloads, by the object they stand for.
    pub workloads: Cache<WorkloadView>,
    /// PodGroups, by their Workload.
    pub pod_groups: Cache<PodGroupView>,
    /// Namespaces.
    pub namespaces: Cache<NamespaceView>,
}

impl Caches {
    /// Empty caches with the indexes the parts ask by.
    pub(crate) fn new() -> Caches {
        Caches {
            pods: Cache::new(&[PodView::BY_CONTROLLER, PodView::BY_NODE, PodView::BY_GROUP]),
            nodes: Cache::new(&[]),
            jobs: Cache::new(&[]),
            workloads: Cache::new(&[WorkloadView::BY_CONTROLLER_REF]),
            pod_groups: Cache::new(&[PodGroupView::BY_WORKLOAD]),
            namespaces: Cache::new(&[]),
        }
    }

    /// Resolves when every cache has seen the whole of its kind once.
    pub(crate) async fn synced(&self) {
        self.pods.synced().await;
        self.nodes.synced().await;
        self.jobs.synced().await;
        self.workloads.synced().await;
        self.pod_groups.synced().await;
        self.namespaces.synced().await;
    }
}

/// Names a cache's task.
pub(crate) fn task_name<V: View>(_cache: &Cache<V>) -> &'static str {
    V::RESOURCE.plural
}
