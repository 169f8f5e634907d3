//! Which components and control loops run in one process, and with which settings.

use std::collections::BTreeSet;
use std::time::Duration;

use api::gates::Gates;
use apiserver::AuditSink;
use nodes::cluster::Cluster;

use crate::control_loop::ControlLoop;
use crate::control_loops;
use crate::metrics::Metrics;
use crate::process::ClientWrapper;
use crate::queries::SchedulerQueries;

/// A component of the control plane. Each can be left out and restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The controllers.
    Controllers,
    /// The scheduler.
    Scheduler,
    /// The simulated kubelets.
    Nodes,
}

impl Component {
    /// Every component.
    pub const ALL: [Component; 3] = [Component::Nodes, Component::Controllers, Component::Scheduler];

    /// Whether its processes elect a leader by default.
    pub(crate) fn elects_leader(self) -> bool {
        self != Component::Nodes
    }
}

/// Settings of a process.
#[derive(Clone)]
pub struct Config {
    /// Feature gates.
    pub gates: Gates,
    /// The simulated nodes.
    pub cluster: Cluster,
    /// The components that run.
    pub components: BTreeSet<Component>,
    /// The controllers that run where [`Component::Controllers`] does.
    pub controllers: Vec<&'static ControlLoop>,
    /// Settings of the Job controller.
    pub job: controllers::job::Config,
    /// Settings of the pod garbage collector.
    pub pod_gc: controllers::podgc::Config,
    /// Settings of the scheduler.
    pub scheduler: scheduler::Config,
    /// Settings of the simulated kubelets.
    pub nodes: nodes::Config,
    /// How long the server keeps Events after their last write. Not used by [`RemoteComponents`](crate::RemoteComponents).
    pub event_ttl: Duration,
    /// Whether the server refuses a bind that over-commits a node.
    pub check_capacity: bool,
    /// Where the server audits every write.
    pub audit: Option<AuditSink>,
    /// Metrics. Clones of a configuration share them.
    pub metrics: Metrics,
    /// Queries to the scheduler. Clones of a configuration share them.
    pub queries: SchedulerQueries,
    /// Wraps every client of components and caches, but not the administrator's.
    pub client_wrapper: Option<ClientWrapper>,
    /// The Lease that [`RemoteComponents`](crate::RemoteComponents) wait for; without one they start at once. A
    /// [`ControlPlane`](crate::ControlPlane) needs none: only one process can open its store.
    pub election: Option<runtime::election::ElectionSettings>,
}

impl Config {
    /// All components and controllers, on the nodes of `cluster`.
    pub fn for_cluster(cluster: Cluster) -> Config {
        Config {
            gates: Gates::default(),
            cluster,
            components: Component::ALL.into(),
            controllers: control_loops::controllers().collect(),
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
    /// Whether `control_loop` runs in this process.
    pub fn runs(&self, control_loop: &ControlLoop) -> bool {
        self.components.contains(&control_loop.component) && self.enables(control_loop)
    }

    /// Whether `control_loop` runs where its component does.
    pub(crate) fn enables(&self, control_loop: &ControlLoop) -> bool {
        control_loop.component != Component::Controllers || self.controllers.contains(&control_loop)
    }
}
