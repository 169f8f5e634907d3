//! What runs in one process, and with which settings.

use std::collections::BTreeSet;
use std::time::Duration;

use api::gates::Gates;
use apiserver::AuditSink;
use nodes::cluster::Cluster;

use crate::metrics::Metrics;
use crate::process::ClientWrapper;
use crate::queries::SchedulerQueries;

/// A part of the control plane that can be left out or started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Jobs and CronJobs, garbage, protected PodGroups, deleted namespaces.
    Controllers,
    /// The scheduler.
    Scheduler,
    /// The simulated kubelets.
    Nodes,
}

impl Component {
    /// Every part, in the order they start.
    pub const ALL: [Component; 3] = [Component::Nodes, Component::Controllers, Component::Scheduler];
}

/// One of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Makes Workloads, PodGroups and pods of Jobs, and counts how the pods end.
    Job,
    /// Makes Jobs at the times that CronJobs name.
    CronJob,
    /// Deletes Jobs some time after their end.
    Ttl,
    /// Deletes what has lost its owners.
    Gc,
    /// Takes away pods that nobody else will.
    PodGc,
    /// Counts for PodDisruptionBudgets.
    Disruption,
    /// Keeps PodGroups while live pods name them.
    PodGroupProtection,
    /// Empties deleted namespaces.
    Namespace,
}

impl Controller {
    /// Every controller, in the order they start.
    pub const ALL: [Controller; 8] = [
        Controller::Job,
        Controller::CronJob,
        Controller::Ttl,
        Controller::Gc,
        Controller::PodGc,
        Controller::Disruption,
        Controller::PodGroupProtection,
        Controller::Namespace,
    ];
}

/// How the control plane, or a part of it, runs.
#[derive(Clone)]
pub struct Config {
    /// What of workload-aware scheduling is on.
    pub gates: Gates,
    /// The simulated nodes.
    pub cluster: Cluster,
    /// The parts that run.
    pub components: BTreeSet<Component>,
    /// The controllers that run where [`Part::Controllers`] does.
    pub controllers: BTreeSet<Controller>,
    /// Settings of the Job controller.
    pub job: controllers::job::Config,
    /// Settings of the collector of pods.
    pub pod_gc: controllers::podgc::Config,
    /// Settings of the scheduler.
    pub scheduler: scheduler::Config,
    /// Settings of the simulated kubelets.
    pub nodes: nodes::Config,
    /// How long Events live after their last write. The server's; no concern of parts of a cluster.
    pub event_ttl: Duration,
    /// Whether a bind is refused that would take more of a node than there is. The server's.
    pub check_capacity: bool,
    /// Who is told of every write. The server's.
    pub audit: Option<AuditSink>,
    /// Where the parts count. Copies of a configuration share it.
    pub metrics: Metrics,
    /// Where the scheduler is asked. Copies of a configuration share it.
    pub queries: SchedulerQueries,
    /// Put around every client that parts and caches get, not around the administrator's.
    pub client_wrapper: Option<ClientWrapper>,
    /// The lease that the parts of a cluster wait for; without one they run at once. No concern of a whole control plane,
    /// whose store only one process can open.
    pub election: Option<runtime::election::ElectionSettings>,
}

impl Config {
    /// Everything runs, on the nodes of `cluster`.
    pub fn for_cluster(cluster: Cluster) -> Config {
        Config {
            gates: Gates::default(),
            cluster,
            components: Component::ALL.into(),
            controllers: Controller::ALL.into(),
            job: controllers::job::Config::default(),
            pod_gc: controllers::podgc::Config::default(),
            scheduler: scheduler::Config::default(),
            nodes: nodes::Config::default(),
            event_ttl: apiserver::EVENT_TTL,
            check_capacity: true,
            audit: None,
            metrics: Metrics::default(),
            queries: SchedulerQueries::default(),
            client_wrapper: None,
            election: None,
        }
    }
}
