//! The parts of one process and what they share, whichever server they talk to.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::gates::Gate;
use api::views::View;
use api::{Clock, Random};
use apiserver::{Health, Identity};
use runtime::{Cache, Capabilities, ListWatchConfig, Recorder};
use scheduler::{BindMonitor, Query, SchedulerHandle};
use tokio::task::JoinHandle;

use crate::caches::{CachedKind, Caches, task_name};
use crate::config::{Component, Config, Controller};
use crate::identity;

/// A bind without an outcome for this long is stuck: every request of it has ended several times by then.
const STUCK_AFTER: Duration = Duration::from_secs(120);

/// Where a part gets its client from: the server in this process, or a cluster's.
pub type ClientFactory = Arc<dyn Fn(&Identity) -> kube::Client + Send + Sync>;

/// Puts something between a part and its server, such as faults for a test.
pub type ClientWrapper = Arc<dyn Fn(&Identity, kube::Client) -> kube::Client + Send + Sync>;

/// What runs in one process. Dropping it stops it, though [`Process::stop`] alone says when.
pub(crate) struct Process {
    pub clock: Arc<dyn Clock>,
    pub random: Random,
    pub config: Config,
    client_factory: ClientFactory,
    list_watch: ListWatchConfig,
    pub caches: Caches,
    pub answers: SchedulerHandle,
    monitor: BindMonitor,
    /// What the server has; whoever makes the process knows whether that has to be asked.
    pub capabilities: Capabilities,
    /// What runs, by name; tasks of a part bear its name in front.
    tasks: BTreeMap<String, JoinHandle<()>>,
}

impl Process {
    /// Nothing runs yet.
    pub fn new(
        clock: Arc<dyn Clock>,
        random: Random,
        clients: ClientFactory,
        list_watch: ListWatchConfig,
        config: Config,
    ) -> Process {
        let clients = match config.client_wrapper.clone() {
            None => clients,
            Some(wrap) => Arc::new(move |who: &Identity| wrap(who, clients(who))) as ClientFactory,
        };
        let (caches, answers) = (Caches::new(), SchedulerHandle::default());
        let (capabilities, tasks) = (Capabilities::everything(), BTreeMap::new());
        if config.components.contains(&Component::Scheduler) {
            let (pods, pod_groups) = (caches.pods.clone(), caches.pod_groups.clone());
            config.queries.open(Query { handle: answers.clone(), pods, pod_groups });
        }
        let monitor = BindMonitor::default();
        Process {
            clock,
            random,
            config,
            client_factory: clients,
            list_watch,
            caches,
            answers,
            monitor,
            capabilities,
            tasks,
        }
    }

    /// A client of `who`.
    pub fn client(&self, identity: &Identity) -> kube::Client {
        (self.client_factory)(identity)
    }

    /// Keeps the caches of `kinds`, and returns when each has seen the whole of its kind once.
    pub async fn start_caches(&mut self, kinds: &BTreeSet<CachedKind>) {
        let caches = self.caches.clone();
        for kind in kinds {
            match kind {
                CachedKind::Namespaces => self.start_cache(caches.namespaces.clone()),
                CachedKind::Nodes => self.start_cache(caches.nodes.clone()),
                CachedKind::PodGroups => self.start_cache(caches.pod_groups.clone()),
                CachedKind::CompositePodGroups => self.start_cache(caches.composite_pod_groups.clone()),
                CachedKind::Workloads => self.start_cache(caches.workloads.clone()),
                CachedKind::CronJobs => self.start_cache(caches.cron_jobs.clone()),
                CachedKind::Jobs => self.start_cache(caches.jobs.clone()),
                CachedKind::Budgets => self.start_cache(caches.budgets.clone()),
                CachedKind::Pods => self.start_cache(caches.pods.clone()),
            }
        }
        caches.wait_for_sync(kinds).await;
    }

    fn start_cache<V: View>(&mut self, cache: Cache<V>) {
        let client = self.client(&identity::caches());
        let name = format!("caches/{}", task_name(&cache));
        let list_watch = self.list_watch.clone();
        self.spawn(name, runtime::list_and_watch(client, cache, list_watch));
    }

    /// Makes the simulated nodes that are not there yet.
    pub async fn register_nodes(&self) -> Result<(), kube::Error> {
        nodes::register(&self.client(&identity::nodes()), &self.config.cluster, self.clock.now()).await
    }

    /// Starts `part`.
    pub fn start_component(&mut self, component: Component) {
        match component {
            Component::Controllers => self.start_controllers(),
            Component::Scheduler => self.start_scheduler(),
            Component::Nodes => self.start_nodes(),
        }
    }

    /// Ends `part` wherever it is.
    pub fn stop_component(&mut self, component: Component) {
        let prefix = format!("{component:?}/");
        self.tasks.retain(|name, task| {
            let ends = name.starts_with(&prefix);
            if ends {
                task.abort();
            }
            !ends
        });
        if component == Component::Scheduler {
            self.monitor.clear();
        }
    }

    /// Has liveness say whether binds end. One that does not, though the server can be read, ends only with the process.
    pub fn check_binds(&self, health: &Health) {
        match self.monitor.oldest().filter(|oldest| *oldest >= STUCK_AFTER) {
            Some(oldest) => {
                let seconds = oldest.as_secs();
                health.fail_liveness("binds", format!("a bind has been without an outcome for {seconds} s"));
            }
            None => health.pass("binds"),
        }
    }

    /// The name of a task that ended by itself, which none ever should.
    pub fn ended_task(&self) -> Option<&str> {
        self.tasks.iter().find(|(_, task)| task.is_finished()).map(|(name, _)| name.as_str())
    }

    /// Ends everything that runs, and returns when it has ended.
    pub async fn stop(mut self) {
        let tasks = std::mem::take(&mut self.tasks);
        tasks.values().for_each(JoinHandle::abort);
        for (name, task) in tasks {
            if task.await.is_err_and(|error| error.is_panic()) {
                tracing::error!("{name} had panicked");
            }
        }
    }

    fn start_nodes(&mut self) {
        let recorder = self.recorder("kubelet", Component::Nodes, &identity::nodes());
        let parts = nodes::KubeletContext {
            client: self.client(&identity::nodes()),
            pods: self.caches.pods.clone(),
            nodes: self.caches.nodes.clone(),
            clock: self.clock.clone(),
            recorder,
            config: self.config.nodes,
        };
        self.spawn("Nodes/kubelets".to_owned(), nodes::run(parts));
    }

    fn start_scheduler(&mut self) {
        let name = self.config.scheduler.name().to_owned();
        let recorder = self.recorder(&name, Component::Scheduler, &identity::scheduler());
        let parts = scheduler::SchedulerContext {
            client: self.client(&identity::scheduler()),
            pods: self.caches.pods.clone(),
            nodes: self.caches.nodes.clone(),
            pod_groups: self.caches.pod_groups.clone(),
            composite_pod_groups: self.caches.composite_pod_groups.clone(),
            clock: self.clock.clone(),
            recorder,
            config: self.scheduler_config(),
            handle: self.answers.clone(),
            metrics: self.config.metrics.scheduler.clone(),
            monitor: self.monitor.clone(),
        };
        self.spawn("Scheduler/loop".to_owned(), scheduler::run(parts));
    }

    fn scheduler_config(&self) -> scheduler::Config {
        let mut config = self.config.scheduler.clone();
        config.by_groups &= self.config.gates.enabled(Gate::GenericWorkload);
        // A pod of a gang that is released has to be made again, and not to be counted as a failure: another Job controller
        // may not see to that. Where ours is another process, the groups that it made tell.
        let runs_jobs = self.config.components.contains(&Component::Controllers)
            && self.config.controllers.contains(&Controller::Job);
        config.core.release_only_ours = !runs_jobs;
        config
    }

    fn start_controllers(&mut self) {
        for controller in self.config.controllers.clone() {
            match controller {
                Controller::Job => self.start_job(),
                Controller::CronJob => self.start_cron_jobs(),
                Controller::Ttl => self.start_ttl(),
                Controller::Gc => self.start_gc(),
                Controller::PodGc => self.start_pod_gc(),
                Controller::Disruption => self.start_disruption(),
                Controller::PodGroupProtection => self.start_protection(),
                Controller::Namespace => self.start_namespaces(),
            }
        }
    }

    fn start_job(&mut self) {
        let who = identity::controller("job-controller");
        let recorder = self.recorder("job-controller", Component::Controllers, &who);
        let parts = controllers::job::JobContext {
            client: self.client(&who),
            jobs: self.caches.jobs.clone(),
            pods: self.caches.pods.clone(),
            workloads: self.caches.workloads.clone(),
            pod_groups: self.caches.pod_groups.clone(),
            namespaces: self.caches.namespaces.clone(),
            clock: self.clock.clone(),
            capabilities: self.capabilities.clone(),
            recorder,
            config: self.config.job.clone(),
            gates: self.config.gates,
            metrics: self.counters(),
        };
        self.spawn("Controllers/job".to_owned(), controllers::job::run(parts));
    }

    fn start_cron_jobs(&mut self) {
        let who = identity::controller("cronjob-controller");
        let recorder = self.recorder("cronjob-controller", Component::Controllers, &who);
        let parts = controllers::cronjob::CronJobContext {
            client: self.client(&who),
            cron_jobs: self.caches.cron_jobs.clone(),
            jobs: self.caches.jobs.clone(),
            clock: self.clock.clone(),
            recorder,
            config: controllers::cronjob::Config::default(),
            metrics: self.counters(),
        };
        self.spawn("Controllers/cronjob".to_owned(), controllers::cronjob::run(parts));
    }

    fn start_ttl(&mut self) {
        let parts = controllers::ttl::TtlContext {
            client: self.client(&identity::controller("ttl-after-finished-controller")),
            jobs: self.caches.jobs.clone(),
            clock: self.clock.clone(),
            metrics: self.counters(),
        };
        self.spawn("Controllers/ttl".to_owned(), controllers::ttl::run(parts));
    }

    fn start_pod_gc(&mut self) {
        let parts = controllers::podgc::PodGcContext {
            client: self.client(&identity::controller("pod-garbage-collector")),
            pods: self.caches.pods.clone(),
            nodes: self.caches.nodes.clone(),
            clock: self.clock.clone(),
            config: self.config.pod_gc.clone(),
            metrics: self.counters(),
        };
        self.spawn("Controllers/pod gc".to_owned(), controllers::podgc::run(parts));
    }

    fn start_disruption(&mut self) {
        let who = identity::controller("disruption-controller");
        // The component that kube-controller-manager's disruption controller names.
        let recorder = self.recorder("controllermanager", Component::Controllers, &who);
        let parts = controllers::disruption::DisruptionContext {
            client: self.client(&who),
            budgets: self.caches.budgets.clone(),
            pods: self.caches.pods.clone(),
            clock: self.clock.clone(),
            recorder,
            metrics: self.counters(),
        };
        self.spawn("Controllers/disruption".to_owned(), controllers::disruption::run(parts));
    }

    fn start_gc(&mut self) {
        let client = self.client(&identity::controller("generic-garbage-collector"));
        let caches = &self.caches;
        let collector = controllers::gc::GcContext::new(client, self.counters())
            .with_cache(&caches.cron_jobs)
            .with_cache(&caches.jobs)
            .with_cache(&caches.workloads)
            .with_cache(&caches.composite_pod_groups)
            .with_cache(&caches.pod_groups)
            .with_cache(&caches.pods);
        self.spawn("Controllers/gc".to_owned(), controllers::gc::run(collector));
    }

    // Upstream: without gate GenericWorkload this controller is absent, and groups from before can never go.
    fn start_protection(&mut self) {
        let protection = controllers::podgroup_protection::PodGroupProtectionContext {
            client: self.client(&identity::controller("podgroup-protection-controller")),
            composite_pod_groups: self.caches.composite_pod_groups.clone(),
            pod_groups: self.caches.pod_groups.clone(),
            pods: self.caches.pods.clone(),
            metrics: self.counters(),
        };
        let protection = controllers::podgroup_protection::run(protection);
        self.spawn("Controllers/podgroup protection".to_owned(), protection);
    }

    fn start_namespaces(&mut self) {
        let namespaces = controllers::namespace::NamespaceContext {
            client: self.client(&identity::controller("namespace-controller")),
            namespaces: self.caches.namespaces.clone(),
            clock: self.clock.clone(),
            config: controllers::namespace::Config::default(),
            metrics: self.counters(),
        };
        self.spawn("Controllers/namespaces".to_owned(), controllers::namespace::run(namespaces));
    }

    fn counters(&self) -> controllers::Metrics {
        self.config.metrics.controllers.clone()
    }

    fn recorder(&mut self, component: &str, part: Component, identity: &Identity) -> Recorder {
        let client = self.client(identity);
        let (recorder, writer) = Recorder::new(component, client, self.clock.clone(), self.random.clone());
        self.spawn(format!("{part:?}/events of {component}"), writer);
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
