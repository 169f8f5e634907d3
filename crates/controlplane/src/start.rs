//! The list of what runs, and how it starts and stops.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::gates::Gates;
use api::views::View;
use api::{Clock, Random};
use apiserver::{Audit, Identity, Server};
use nodes::cluster::Cluster;
use runtime::{Cache, Recorder};
use scheduler::Answers;
use store::{Committer, Store};
use tokio::task::JoinHandle;

use crate::caches::{Caches, task_name};
use crate::identity;

/// The world a control plane lives in. All of it comes from outside, so that a test can be the world.
#[derive(Clone)]
pub struct World {
    /// Wall time of objects; shares its origin with tokio's clock.
    pub clock: Arc<dyn Clock>,
    /// The one generator.
    pub random: Random,
    /// Where objects are kept.
    pub store: Store,
    /// How writes get there.
    pub committer: Committer,
}

/// A part of the control plane that can be left out or started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Jobs, garbage, protected PodGroups, deleted namespaces.
    Controllers,
    /// The scheduler.
    Scheduler,
    /// The simulated kubelets.
    Nodes,
}

impl Part {
    /// Every part, in the order they start.
    pub const ALL: [Part; 3] = [Part::Nodes, Part::Controllers, Part::Scheduler];
}

/// How the control plane runs.
#[derive(Clone)]
pub struct Config {
    /// What of workload-aware scheduling is on.
    pub gates: Gates,
    /// The simulated nodes.
    pub cluster: Cluster,
    /// The parts that run.
    pub parts: BTreeSet<Part>,
    /// Settings of the Job controller.
    pub job: controllers::job::Config,
    /// Settings of the scheduler.
    pub scheduler: scheduler::Config,
    /// How long Events live after their last write.
    pub event_ttl: Duration,
    /// Whether a bind is refused that would take more of a node than there is.
    pub check_capacity: bool,
    /// Who is told of every write.
    pub audit: Option<Audit>,
}

impl Config {
    /// Everything runs, on the nodes of `cluster`.
    pub fn on(cluster: Cluster) -> Config {
        Config {
            gates: Gates::default(),
            cluster,
            parts: Part::ALL.into(),
            job: controllers::job::Config::default(),
            scheduler: scheduler::Config::default(),
            event_ttl: apiserver::EVENT_TTL,
            check_capacity: true,
            audit: None,
        }
    }
}

/// The control plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The server could not make what is always there.
    #[error(transparent)]
    Server(#[from] apiserver::BeginError),
    /// The nodes could not be made.
    #[error("cannot register the simulated nodes")]
    Nodes(#[source] kube::Error),
}

impl StartError {
    /// Whether the disk has no room for what a cluster begins with.
    pub fn is_full(&self) -> bool {
        match self {
            StartError::Server(error) => error.is_full(),
            StartError::Nodes(kube::Error::Api(status)) => status.code == 507,
            StartError::Nodes(_) => false,
        }
    }
}

/// A running control plane. Dropping it stops it, though [`ControlPlane::stop`] alone says when.
pub struct ControlPlane {
    world: World,
    config: Config,
    server: Server,
    caches: Caches,
    answers: Answers,
    /// What runs, by name; tasks of a part bear its name in front.
    tasks: BTreeMap<String, JoinHandle<()>>,
}

impl ControlPlane {
    /// Server, caches, nodes, then the parts; returns when all of them run.
    pub async fn start(world: World, config: Config) -> Result<ControlPlane, StartError> {
        let mut server = Server::new(apiserver::Config {
            store: world.store.clone(),
            committer: world.committer.clone(),
            clock: world.clock.clone(),
            random: world.random.clone(),
            gates: config.gates,
        })?
        .with_event_ttl(config.event_ttl);
        if !config.check_capacity {
            server = server.without_capacity_check();
        }
        if let Some(audit) = &config.audit {
            server = server.with_audit(audit.clone());
        }
        let mut plane = ControlPlane {
            world,
            config,
            server,
            caches: Caches::new(),
            answers: Answers::default(),
            tasks: BTreeMap::new(),
        };
        plane.spawn("server/expiry".to_owned(), plane.server.clone().expire());
        plane.start_caches().await;
        if plane.config.parts.contains(&Part::Nodes) {
            plane.register_nodes().await?;
        }
        for part in plane.config.parts.clone() {
            plane.start_part(part);
        }
        Ok(plane)
    }

    /// The API server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// A client with the rights of an administrator.
    pub fn client(&self) -> kube::Client {
        self.server.client(identity::admin())
    }

    /// A client of someone else.
    pub fn client_of(&self, identity: Identity) -> kube::Client {
        self.server.client(identity)
    }

    /// The shared caches.
    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// What the scheduler refuses right now, and why.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Ends `part` wherever it is and starts it again with nothing in memory.
    pub fn restart(&mut self, part: Part) {
        self.stop_part(part);
        self.start_part(part);
    }

    /// Ends `part` wherever it is.
    pub fn stop_part(&mut self, part: Part) {
        let prefix = format!("{part:?}/");
        self.tasks.retain(|name, task| {
            let ends = name.starts_with(&prefix);
            if ends {
                task.abort();
            }
            !ends
        });
    }

    /// Starts `part`.
    pub fn start_part(&mut self, part: Part) {
        match part {
            Part::Controllers => self.start_controllers(),
            Part::Scheduler => self.start_scheduler(),
            Part::Nodes => self.start_nodes(),
        }
    }

    /// The name of a task that ended by itself, which none ever should.
    pub fn ended(&self) -> Option<&str> {
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

    async fn start_caches(&mut self) {
        let caches = self.caches.clone();
        self.keep(caches.namespaces.clone());
        self.keep(caches.nodes.clone());
        self.keep(caches.pod_groups.clone());
        self.keep(caches.workloads.clone());
        self.keep(caches.jobs.clone());
        self.keep(caches.pods.clone());
        caches.synced().await;
    }

    fn keep<V: View>(&mut self, cache: Cache<V>) {
        let client = self.server.client(identity::caches());
        let name = format!("caches/{}", task_name(&cache));
        // The server is in this process: large pages are cheap, and each page counts what is left.
        let config = runtime::ListWatchConfig { page_limit: Some(5_000), ..runtime::ListWatchConfig::default() };
        self.spawn(name, runtime::keep(client, cache, config));
    }

    async fn register_nodes(&self) -> Result<(), StartError> {
        let client = self.server.client(identity::nodes());
        nodes::register(&client, &self.config.cluster, self.world.clock.now()).await.map_err(StartError::Nodes)
    }

    fn start_nodes(&mut self) {
        let recorder = self.recorder("kubelet", Part::Nodes, identity::nodes());
        let parts = nodes::Parts {
            client: self.server.client(identity::nodes()),
            pods: self.caches.pods.clone(),
            nodes: self.caches.nodes.clone(),
            clock: self.world.clock.clone(),
            recorder,
            config: nodes::Config::default(),
        };
        self.spawn("Nodes/kubelets".to_owned(), nodes::run(parts));
    }

    fn start_scheduler(&mut self) {
        let recorder = self.recorder("default-scheduler", Part::Scheduler, identity::scheduler());
        let parts = scheduler::Parts {
            client: self.server.client(identity::scheduler()),
            pods: self.caches.pods.clone(),
            nodes: self.caches.nodes.clone(),
            pod_groups: self.caches.pod_groups.clone(),
            clock: self.world.clock.clone(),
            recorder,
            config: self.config.scheduler.clone(),
            answers: self.answers.clone(),
        };
        self.spawn("Scheduler/loop".to_owned(), scheduler::run(parts));
    }

    fn start_controllers(&mut self) {
        let who = identity::controller("job-controller");
        let recorder = self.recorder("job-controller", Part::Controllers, who.clone());
        let parts = controllers::job::Parts {
            client: self.server.client(who),
            jobs: self.caches.jobs.clone(),
            pods: self.caches.pods.clone(),
            workloads: self.caches.workloads.clone(),
            pod_groups: self.caches.pod_groups.clone(),
            clock: self.world.clock.clone(),
            recorder,
            config: self.config.job.clone(),
            gates: self.config.gates,
        };
        self.spawn("Controllers/job".to_owned(), controllers::job::run(parts));
        let client = self.server.client(identity::controller("generic-garbage-collector"));
        let caches = &self.caches;
        let collector = controllers::gc::Parts::new(client)
            .over(&caches.jobs)
            .over(&caches.workloads)
            .over(&caches.pod_groups)
            .over(&caches.pods);
        self.spawn("Controllers/gc".to_owned(), controllers::gc::run(collector));
        // Upstream: without gate GenericWorkload this controller is absent, and groups from before can never go.
        let protection = controllers::podgroup_protection::Parts {
            client: self.server.client(identity::controller("podgroup-protection-controller")),
            pod_groups: self.caches.pod_groups.clone(),
            pods: self.caches.pods.clone(),
        };
        let protection = controllers::podgroup_protection::run(protection);
        self.spawn("Controllers/podgroup protection".to_owned(), protection);
        let namespaces = controllers::namespace::Parts {
            client: self.server.client(identity::controller("namespace-controller")),
            namespaces: self.caches.namespaces.clone(),
            clock: self.world.clock.clone(),
            config: controllers::namespace::Config::default(),
        };
        self.spawn("Controllers/namespaces".to_owned(), controllers::namespace::run(namespaces));
    }

    fn recorder(&mut self, component: &str, part: Part, who: Identity) -> Recorder {
        let client = self.server.client(who);
        let (recorder, writer) = Recorder::new(component, client, self.world.clock.clone(), self.world.random.clone());
        self.spawn(format!("{part:?}/events of {component}"), writer);
        recorder
    }

    fn spawn(&mut self, name: String, future: impl Future<Output = ()> + Send + 'static) {
        self.tasks.insert(name, tokio::spawn(future));
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for task in self.tasks.values() {
            task.abort();
        }
    }
}
