//! One cache per kind, shared by all control loops of a process.

use std::collections::BTreeSet;

use api::kinds::ApiResource;
use api::views::{
    CompositePodGroupView, CronJobView, JobView, NamespaceView, NodeView, PodDisruptionBudgetView, PodGroupView,
    PodView, View, WorkloadView,
};
use runtime::Cache;

/// The caches of one process. Those that no control loop reads stay empty. A clone of a cache is a handle on the same
/// cache.
#[derive(Clone)]
pub struct Caches {
    /// Pods, by controller, node and group.
    pub pods: Cache<PodView>,
    /// Nodes.
    pub nodes: Cache<NodeView>,
    /// CronJobs.
    pub cron_jobs: Cache<CronJobView>,
    /// Jobs, by controller and by the Workload they name.
    pub jobs: Cache<JobView>,
    /// Workloads, by controller reference.
    pub workloads: Cache<WorkloadView>,
    /// CompositePodGroups, by their parent.
    pub composite_pod_groups: Cache<CompositePodGroupView>,
    /// PodGroups, by their Workload and by their parent.
    pub pod_groups: Cache<PodGroupView>,
    /// Namespaces.
    pub namespaces: Cache<NamespaceView>,
    /// PodDisruptionBudgets, by namespace.
    pub budgets: Cache<PodDisruptionBudgetView>,
}

impl Caches {
    /// Empty caches with the indexes that control loops use.
    pub(crate) fn new() -> Caches {
        Caches {
            pods: Cache::new(&[PodView::BY_CONTROLLER, PodView::BY_ORPHAN_LABEL, PodView::BY_NODE, PodView::BY_GROUP]),
            nodes: Cache::new(&[]),
            cron_jobs: Cache::new(&[]),
            jobs: Cache::new(&[
                JobView::BY_CONTROLLER,
                JobView::BY_WORKLOAD_REF,
                JobView::BY_TEMPLATE_GROUP,
                JobView::BY_SELECTOR,
            ]),
            workloads: Cache::new(&[WorkloadView::BY_CONTROLLER_REF]),
            composite_pod_groups: Cache::new(&[CompositePodGroupView::BY_PARENT]),
            pod_groups: Cache::new(&[PodGroupView::BY_WORKLOAD, PodGroupView::BY_PARENT]),
            namespaces: Cache::new(&[]),
            budgets: Cache::new(&[PodDisruptionBudgetView::BY_NAMESPACE]),
        }
    }

    /// Resolves when the caches of `kinds` have synced.
    pub(crate) async fn wait_for_sync(&self, kinds: &BTreeSet<CachedKind>) {
        for kind in kinds {
            match kind {
                CachedKind::Namespaces => self.namespaces.wait_for_sync().await,
                CachedKind::Nodes => self.nodes.wait_for_sync().await,
                CachedKind::PodGroups => self.pod_groups.wait_for_sync().await,
                CachedKind::CompositePodGroups => self.composite_pod_groups.wait_for_sync().await,
                CachedKind::Workloads => self.workloads.wait_for_sync().await,
                CachedKind::CronJobs => self.cron_jobs.wait_for_sync().await,
                CachedKind::Jobs => self.jobs.wait_for_sync().await,
                CachedKind::Budgets => self.budgets.wait_for_sync().await,
                CachedKind::Pods => self.pods.wait_for_sync().await,
            }
        }
    }
}

/// A cached kind, in the order in which caches start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CachedKind {
    Namespaces,
    Nodes,
    PodGroups,
    CompositePodGroups,
    Workloads,
    CronJobs,
    Jobs,
    Budgets,
    Pods,
}

impl CachedKind {
    /// Every kind.
    pub const ALL: [CachedKind; 9] = [
        CachedKind::Namespaces,
        CachedKind::Nodes,
        CachedKind::PodGroups,
        CachedKind::CompositePodGroups,
        CachedKind::Workloads,
        CachedKind::CronJobs,
        CachedKind::Jobs,
        CachedKind::Budgets,
        CachedKind::Pods,
    ];
}

impl CachedKind {
    /// Where the kind is served.
    pub fn resource(self) -> &'static ApiResource {
        match self {
            CachedKind::Namespaces => NamespaceView::RESOURCE,
            CachedKind::Nodes => NodeView::RESOURCE,
            CachedKind::PodGroups => PodGroupView::RESOURCE,
            CachedKind::CompositePodGroups => CompositePodGroupView::RESOURCE,
            CachedKind::Workloads => WorkloadView::RESOURCE,
            CachedKind::CronJobs => CronJobView::RESOURCE,
            CachedKind::Jobs => JobView::RESOURCE,
            CachedKind::Budgets => PodDisruptionBudgetView::RESOURCE,
            CachedKind::Pods => PodView::RESOURCE,
        }
    }
}

/// Names a cache's task.
pub(crate) fn task_name<V: View>(_cache: &Cache<V>) -> &'static str {
    V::RESOURCE.plural
}
