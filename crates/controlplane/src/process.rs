//! The components of one process and what they share, for any server.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::views::View;
use api::{Clock, Random};
use apiserver::{Health, Identity};
use runtime::{Cache, Capabilities, ListWatchConfig, Recorder};
use scheduler::{BindMonitor, Query, SchedulerHandle};
use tokio::task::JoinHandle;

use crate::caches::{CachedKind, Caches};
use crate::config::{Component, Config};
use crate::control_loop::ControlLoop;
use crate::control_loops;
use crate::identity;

/// A bind without an outcome for this long is stuck: each of its requests has timed out several times by then.
const STUCK_AFTER: Duration = Duration::from_secs(120);

/// Makes the clients of components: of the server in this process, or of a cluster.
pub type ClientFactory = Arc<dyn Fn(&Identity) -> kube::Client + Send + Sync>;

/// Wraps the clients of components, for example to inject faults in a test.
pub type ClientWrapper = Arc<dyn Fn(&Identity, kube::Client) -> kube::Client + Send + Sync>;

/// What runs in one process. Dropping it aborts its tasks; [`Process::stop`] also waits until they have ended.
pub(crate) struct Process {
    pub clock: Arc<dyn Clock>,
    pub random: Random,
    pub config: Config,
    client_factory: ClientFactory,
    list_watch: ListWatchConfig,
    pub caches: Caches,
    pub scheduler: SchedulerHandle,
    pub bind_monitor: BindMonitor,
    /// Which kinds the server has. Set by the owner of the process if the server is another process.
    pub capabilities: Capabilities,
    /// Tasks by name. The name of a component's task starts with the component.
    tasks: BTreeMap<String, JoinHandle<()>>,
}

impl Process {
    /// A process in which nothing runs yet.
    pub fn new(
        clock: Arc<dyn Clock>,
        random: Random,
        clients: ClientFactory,
        list_watch: ListWatchConfig,
        config: Config,
    ) -> Process {
        let clients = match config.client_wrapper.clone() {
            None => clients,
            Some(wrap) => Arc::new(move |identity: &Identity| wrap(identity, clients(identity))) as ClientFactory,
        };
        let (caches, scheduler) = (Caches::new(&control_loops::cached_kinds()), SchedulerHandle::default());
        let (capabilities, tasks) = (Capabilities::everything(), BTreeMap::new());
        if config.components.contains(&Component::Scheduler) {
            let (pods, pod_groups) = (caches.get().clone(), caches.get().clone());
            config.queries.open(Query { handle: scheduler.clone(), pods, pod_groups });
        }
        Process {
            clock,
            random,
            config,
            client_factory: clients,
            list_watch,
            caches,
            scheduler,
            bind_monitor: BindMonitor::default(),
            capabilities,
            tasks,
        }
    }

    /// A client of `identity`.
    pub fn client(&self, identity: &Identity) -> kube::Client {
        (self.client_factory)(identity)
    }

    /// A client of a control loop.
    pub fn client_of(&self, control_loop: &ControlLoop) -> kube::Client {
        self.client(&control_loop.identity())
    }

    /// A cache that a control loop reads. Panics if the control loop does not declare the kind: its cache may be empty
    /// in a process that runs only this control loop.
    pub fn cache<V: View>(&self, control_loop: &ControlLoop) -> Cache<V> {
        let kind = CachedKind::of::<V>();
        let ControlLoop { name, reads, .. } = control_loop;
        assert!(reads.contains(&kind), "control loop {name} reads {kind:?}, which its `reads` do not declare");
        self.caches.get::<V>().clone()
    }

    /// Starts the caches of `kinds`, and returns when each has synced.
    pub async fn start_caches(&mut self, kinds: &BTreeSet<CachedKind>) {
        let caches = self.caches.clone();
        for kind in kinds {
            let client = self.client(&identity::caches());
            let list_and_watch = caches.erased(*kind).list_and_watch(client, self.list_watch.clone());
            self.spawn(format!("caches/{}", kind.resource().plural), list_and_watch);
        }
        for kind in kinds {
            caches.erased(*kind).wait_for_sync().await;
        }
    }

    /// Creates the simulated nodes that do not exist yet.
    pub async fn register_nodes(&self) -> Result<(), kube::Error> {
        nodes::register(&self.client_of(&control_loops::NODES), &self.config.cluster, self.clock.now()).await
    }

    /// Starts the control loops of `component`.
    pub fn start_component(&mut self, component: Component) {
        for control_loop in control_loops::ALL {
            if control_loop.component == component && self.config.enables(control_loop) {
                let future = (control_loop.start)(self, control_loop);
                self.spawn(format!("{component:?}/{}", control_loop.name), future);
            }
        }
    }

    /// Aborts the control loops of `component`.
    pub fn stop_component(&mut self, component: Component) {
        let prefix = format!("{component:?}/");
        self.tasks.retain(|name, task| {
            let is_of_component = name.starts_with(&prefix);
            if is_of_component {
                task.abort();
            }
            !is_of_component
        });
        if component == Component::Scheduler {
            self.bind_monitor.clear();
        }
    }

    /// Sets liveness by the oldest bind. A bind that is stuck although the server can be read ends only with the process.
    pub fn check_binds(&self, health: &Health) {
        match self.bind_monitor.oldest().filter(|oldest| *oldest >= STUCK_AFTER) {
            Some(oldest) => {
                let seconds = oldest.as_secs();
                health.fail_liveness("binds", format!("a bind has been without an outcome for {seconds} s"));
            }
            None => health.pass("binds"),
        }
    }

    /// The name of a task that has ended by itself, which is a defect.
    pub fn ended_task(&self) -> Option<&str> {
        self.tasks.iter().find(|(_, task)| task.is_finished()).map(|(name, _)| name.as_str())
    }

    /// Aborts every task, and returns when all have ended.
    pub async fn stop(mut self) {
        let tasks = std::mem::take(&mut self.tasks);
        tasks.values().for_each(JoinHandle::abort);
        for (name, task) in tasks {
            if task.await.is_err_and(|error| error.is_panic()) {
                tracing::error!("task {name} panicked");
            }
        }
    }

    /// The metrics of the controllers.
    pub fn controller_metrics(&self) -> controllers::Metrics {
        self.config.metrics.controllers.clone()
    }

    /// Writes the Events of a control loop, which name `source` as their component.
    pub fn recorder(&mut self, control_loop: &ControlLoop, source: &str) -> Recorder {
        let client = self.client_of(control_loop);
        let (recorder, writer) = Recorder::new(source, client, self.clock.clone(), self.random.clone());
        self.spawn(format!("{:?}/events of {source}", control_loop.component), writer);
        recorder
    }

    /// Runs `future` until the process stops.
    pub fn spawn(&mut self, name: String, future: impl Future<Output = ()> + Send + 'static) {
        self.tasks.insert(name, tokio::spawn(future));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        for task in self.tasks.values() {
            task.abort();
        }
    }
}
