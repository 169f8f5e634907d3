//! The list of what runs, and how it starts and stops.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

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
    /// Job controller and garbage collector.
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
            audit: None,
        }
    }
}

/// The control plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The nodes could not be made.
    #[error("cannot register the simulated nodes")]
    Nodes(#[source] kube::Error),
}

/// A running control plane. Dropping it stops it.
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
        });
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

    async fn start_caches(&mut self) {
        let caches = self.caches.clone();
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
        self.spawn(name, runtime::keep(client, cache, runtime::ListWatchConfig::default()));
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
