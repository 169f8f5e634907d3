//! The whole control plane in one process: its own server, and every part on that.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::gates::{Gate, Gates};
use api::{Clock, Random, Revision};
use apiserver::{Identity, OtherAnswer, Server};
use futures::FutureExt;
use runtime::ListWatchConfig;
use scheduler::{Answers, Reply};
use store::{Committer, Store};

use crate::caches::{Caches, Kept};
use crate::config::{Config, Part};
use crate::identity;
use crate::process::{Clients, Process};

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

/// The kinds that the server has. The caches of the others are whole as they are: empty.
fn served(gates: &Gates, caches: &Caches) -> BTreeSet<Kept> {
    let mut kinds = BTreeSet::from(Kept::ALL);
    if !gates.enabled(Gate::GenericWorkload) {
        kinds.remove(&Kept::PodGroups);
        kinds.remove(&Kept::Workloads);
        caches.pod_groups.replace(Vec::new(), &BTreeSet::new(), Revision::ZERO);
        caches.workloads.replace(Vec::new(), &BTreeSet::new(), Revision::ZERO);
    }
    if !gates.enabled(Gate::GenericWorkload) || !gates.enabled(Gate::CompositePodGroup) {
        kinds.remove(&Kept::CompositePodGroups);
        caches.composite_pod_groups.replace(Vec::new(), &BTreeSet::new(), Revision::ZERO);
    }
    kinds
}

fn told(reply: Reply) -> OtherAnswer {
    match reply {
        Reply::Found(document) => OtherAnswer::Found(document),
        Reply::Refused(code, why) => OtherAnswer::Refused(code, why),
    }
}

/// A running control plane. Dropping it stops it, though [`ControlPlane::stop`] alone says when.
pub struct ControlPlane {
    server: Server,
    process: Process,
}

impl ControlPlane {
    /// Server, caches, nodes, then the parts; returns when all of them run.
    pub async fn start(world: World, config: Config) -> Result<ControlPlane, StartError> {
        let World { clock, random, store, committer } = world;
        let mut server = Server::new(apiserver::Config {
            store,
            committer,
            clock: clock.clone(),
            random: random.clone(),
            gates: config.gates,
        })?
        .with_event_ttl(config.event_ttl);
        let counted = config.metrics.clone();
        server = server.with_metrics(Arc::new(move |text: &mut String| counted.write(text)));
        let inquiries = config.inquiries.clone();
        server = server.with_answers(Arc::new(move |path: &str, query: &str| {
            let (inquiries, path, query) = (inquiries.clone(), path.to_owned(), query.to_owned());
            let answering = async move { inquiries.answer(&path, &query).await };
            answering.map(|reply| reply.map(told)).boxed()
        }));
        if !config.check_capacity {
            server = server.without_capacity_check();
        }
        if let Some(audit) = &config.audit {
            server = server.with_audit(audit.clone());
        }
        let inside = server.clone();
        let clients: Clients = Arc::new(move |who: &Identity| inside.client(who.clone()));
        // The server is in this process: large pages are cheap, and each page counts what is left.
        let list_watch = ListWatchConfig { page_limit: Some(5_000), ..ListWatchConfig::default() };
        let mut process = Process::new(clock, random, clients, list_watch, config);
        process.spawn("server/expiry".to_owned(), server.clone().expire());
        process.start_caches(&served(&process.config.gates, &process.caches)).await;
        if process.config.parts.contains(&Part::Nodes) {
            process.register_nodes().await.map_err(StartError::Nodes)?;
        }
        for part in process.config.parts.clone() {
            process.start_part(part);
        }
        Ok(ControlPlane { server, process })
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
        &self.process.caches
    }

    /// What the scheduler refuses right now, and why.
    pub fn answers(&self) -> &Answers {
        &self.process.answers
    }

    /// Ends `part` wherever it is and starts it again with nothing in memory.
    pub fn restart(&mut self, part: Part) {
        self.stop_part(part);
        self.start_part(part);
    }

    /// Ends `part` wherever it is.
    pub fn stop_part(&mut self, part: Part) {
        self.process.stop_part(part);
    }

    /// Starts `part`.
    pub fn start_part(&mut self, part: Part) {
        self.process.start_part(part);
    }

    /// The name of a task that ended by itself, which none ever should.
    pub fn ended(&self) -> Option<&str> {
        self.process.ended()
    }

    /// Has the server's liveness say whether binds end.
    pub fn look_at_binds(&self) {
        self.process.look_at_binds(self.server.health());
    }

    /// Ends everything that runs, and returns when it has ended.
    pub async fn stop(self) {
        self.process.stop().await;
    }
}
