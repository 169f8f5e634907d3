//! One cache per kind, shared by all parts of a process.

use std::collections::BTreeSet;

use api::views::{
    CompositePodGroupView, CronJobView, JobView, NamespaceView, NodeView, PodDisruptionBudgetView, PodGroupView,
    PodView, View, WorkloadView,
};
use runtime::Cache;

/// The caches of one process; those that none of its parts reads stay empty. Parts get clones, which are handles on the same cache.
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
    /// Workloads, by the object they stand for.
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
    /// Empty caches with the indexes the parts ask by.
    pub(crate) fn new() -> Caches {
        Caches {
            pods: Cache::new(&[PodView::BY_CONTROLLER, PodView::BY_LOOSE_LABEL, PodView::BY_NODE, PodView::BY_GROUP]),
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

    /// Resolves when the caches of `kinds` have seen the whole of their kind once.
    pub(crate) async fn synced(&self, kinds: &BTreeSet<Kept>) {
        for kind in kinds {
            match kind {
                Kept::Namespaces => self.namespaces.synced().await,
                Kept::Nodes => self.nodes.synced().await,
                Kept::PodGroups => self.pod_groups.synced().await,
                Kept::CompositePodGroups => self.composite_pod_groups.synced().await,
                Kept::Workloads => self.workloads.synced().await,
                Kept::CronJobs => self.cron_jobs.synced().await,
                Kept::Jobs => self.jobs.synced().await,
                Kept::Budgets => self.budgets.synced().await,
                Kept::Pods => self.pods.synced().await,
            }
        }
    }
}

/// A kind that is kept in a cache, in the order in which caches start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kept {
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

impl Kept {
    /// Every kind.
    pub const ALL: [Kept; 9] = [
        Kept::Namespaces,
        Kept::Nodes,
        Kept::PodGroups,
        Kept::CompositePodGroups,
        Kept::Workloads,
        Kept::CronJobs,
        Kept::Jobs,
        Kept::Budgets,
        Kept::Pods,
    ];
}

/// Names a cache's task.
pub(crate) fn task_name<V: View>(_cache: &Cache<V>) -> &'static str {
    V::RESOURCE.plural
}
