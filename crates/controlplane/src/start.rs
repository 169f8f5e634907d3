//! The whole control plane in one process: its own server, and every component on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::gates::Gates;
use api::views::View;
use api::{Clock, Random};
use apiserver::{ApiServer, ExtensionResponse, Identity};
use futures::FutureExt;
use futures::future::BoxFuture;
use runtime::{Cache, ListWatchConfig};
use scheduler::{QueryResponse, SchedulerHandle};
use store::{Committer, Store};

use crate::caches::{CachedKind, Caches};
use crate::config::{Component, Config};
use crate::identity;
use crate::process::{ClientFactory, Process};

/// What a control plane gets from outside, so that a test can provide it.
#[derive(Clone)]
pub struct ControlPlaneEnvironment {
    /// Wall time of objects; shares its origin with tokio's clock.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub random: Random,
    /// The store.
    pub store: Store,
    /// Commits writes to the store.
    pub committer: Committer,
}

/// The control plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The server could not create the objects that always exist.
    #[error(transparent)]
    Server(#[from] apiserver::BootstrapError),
    /// The nodes could not be created.
    #[error("cannot register the simulated nodes")]
    Nodes(#[source] kube::Error),
}

impl StartError {
    /// Whether the disk is too full for the first objects of a cluster.
    pub fn is_disk_full(&self) -> bool {
        match self {
            StartError::Server(error) => error.is_full(),
            StartError::Nodes(kube::Error::Api(status)) => status.code == 507,
            StartError::Nodes(_) => false,
        }
    }
}

/// The kinds that the server serves. The caches of the others are synced and empty.
fn served_kinds(gates: &Gates, caches: &Caches) -> BTreeSet<CachedKind> {
    let (served, absent): (BTreeSet<_>, BTreeSet<_>) =
        caches.kinds().partition(|kind| kind.resource().is_served(gates));
    absent.into_iter().for_each(|kind| caches.erased(kind).sync_empty());
    served
}

fn extension_response(response: QueryResponse) -> ExtensionResponse {
    let QueryResponse { code, body } = response;
    ExtensionResponse { code, body }
}

/// A running control plane. Dropping it aborts its tasks; [`ControlPlane::stop`] also waits until they have ended.
pub struct ControlPlane {
    server: ApiServer,
    process: Process,
}

impl ControlPlane {
    /// Starts server, caches, nodes, then the components; returns when all of them run.
    pub fn start(
        environment: ControlPlaneEnvironment,
        config: Config,
    ) -> BoxFuture<'static, Result<ControlPlane, StartError>> {
        ControlPlane::start_all(environment, config).boxed()
    }

    async fn start_all(environment: ControlPlaneEnvironment, config: Config) -> Result<ControlPlane, StartError> {
        let ControlPlaneEnvironment { clock, random, store, committer } = environment;
        let mut server = ApiServer::new(apiserver::Config {
            store,
            committer,
            clock: clock.clone(),
            random: random.clone(),
            gates: config.gates,
        })?
        .with_event_ttl(config.event_ttl);
        let metrics = config.metrics.clone();
        server = server.with_extra_metrics(Arc::new(move |text: &mut String| metrics.write(text)));
        let queries = config.queries.clone();
        server = server.with_extension(Arc::new(move |path: &str, query: &str| {
            let (queries, path, query) = (queries.clone(), path.to_owned(), query.to_owned());
            let response = async move { queries.respond(&path, &query).await };
            response.map(|response| response.map(extension_response)).boxed()
        }));
        if !config.check_capacity {
            server = server.without_capacity_check();
        }
        if let Some(audit) = &config.audit {
            server = server.with_audit(audit.clone());
        }
        let local_server = server.clone();
        let clients: ClientFactory = Arc::new(move |identity: &Identity| local_server.client(identity.clone()));
        // The server is in this process: large pages are cheap, and each page counts the remaining objects.
        let list_watch = ListWatchConfig { page_limit: Some(5_000), ..ListWatchConfig::default() };
        let mut process = Process::new(clock, random, clients, list_watch, config);
        process.spawn("server/expiry".to_owned(), server.clone().expire());
        process.start_caches(&served_kinds(&process.config.gates, &process.caches)).await;
        if process.config.components.contains(&Component::Nodes) {
            process.register_nodes().await.map_err(StartError::Nodes)?;
        }
        for component in process.config.components.clone() {
            process.start_component(component);
        }
        Ok(ControlPlane { server, process })
    }

    /// The API server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// A client with the rights of an administrator.
    pub fn client(&self) -> kube::Client {
        self.server.client(identity::admin())
    }

    /// A client with this identity.
    pub fn client_of(&self, identity: Identity) -> kube::Client {
        self.server.client(identity)
    }

    /// The shared caches.
    pub fn caches(&self) -> &Caches {
        &self.process.caches
    }

    /// The shared cache of one kind.
    pub fn cache<V: View>(&self) -> &Cache<V> {
        self.caches().get()
    }

    /// The scheduler, for queries.
    pub fn scheduler(&self) -> &SchedulerHandle {
        &self.process.scheduler
    }

    /// Aborts `component` at any await point and starts it again without its memory.
    pub fn restart(&mut self, component: Component) {
        self.stop_component(component);
        self.start_component(component);
    }

    /// Aborts `component` at any await point.
    pub fn stop_component(&mut self, component: Component) {
        self.process.stop_component(component);
    }

    /// Starts `component`.
    pub fn start_component(&mut self, component: Component) {
        self.process.start_component(component);
    }

    /// The name of a task that has ended by itself, which is a defect.
    pub fn ended_task(&self) -> Option<&str> {
        self.process.ended_task()
    }

    /// Sets the server's liveness by the oldest bind.
    pub fn check_binds(&self) {
        self.process.check_binds(self.server.health());
    }

    /// Aborts every task, and returns when all have ended.
    pub async fn stop(self) {
        self.process.stop().await;
    }
}
