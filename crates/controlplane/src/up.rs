//! A server process: objects on disk, control loops on the caller's runtime; the store's writer, the scheduler's core and
//! the network edge on their own threads.

mod edge_thread; // its network edge, on its own runtime
mod early_ack; // a planted defect: writes are acknowledged before they are durable

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Random};
use apiserver::edge::pki::{Pki, PkiError};
use apiserver::edge::{self, kubeconfig, private_file};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nodes::cluster::Cluster;
use scheduler::CoreMode;
use store::disk::{Disk, DiskOptions, OpenError};
use store::{Backend, BackendError, Committer, ListQuery, Store, WriterThread};
use tokio::time::Instant;

use self::early_ack::EarlyAckBackend;
use self::edge_thread::EdgeThread;
use crate::node_differences::NodeDifferences;
use crate::{Component, Config, ControlPlane, ControlPlaneEnvironment, StartError};

/// How long the process may take from its first connection to being ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// The first interval between two checks of readiness. It doubles each time.
const READY_POLL: Duration = Duration::from_millis(10);
const MAX_READY_POLL: Duration = Duration::from_secs(1);

/// Where objects, certificates and the token are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataLocation {
    /// In this directory.
    Directory(PathBuf),
    /// In memory, until the process ends.
    Memory,
}

/// Settings of a server process.
pub struct UpSettings {
    /// Where its data is stored.
    pub data: DataLocation,
    /// Addresses to listen on; the first that can be bound is used.
    pub listen: Vec<SocketAddr>,
    /// Additional names and addresses of its certificate.
    pub certificate_names: Vec<String>,
    /// How far back history reaches.
    pub history: store::HistoryLimits,
    /// Acknowledge writes before they are on disk, so that a check can show that it detects the loss. Tests only.
    pub acknowledge_early: bool,
    /// Limits for clients.
    pub limits: edge::EdgeLimits,
    /// Nodes for a cluster without nodes. `plane.cluster` is added in any case.
    pub first_nodes: Cluster,
    /// What runs.
    pub plane: Config,
}

/// The process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The value.
        address: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The data directory cannot be created.
    #[error("cannot create the data directory {}", directory.display())]
    Directory {
        /// The value.
        directory: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The data directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The data cannot be read.
    #[error("the data directory cannot be read")]
    Read(#[source] BackendError),
    /// Certificates or the token cannot be read or created.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The control plane does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The edge does not start.
    #[error("cannot start the network edge")]
    Edge(#[source] std::io::Error),
    /// It runs, but does not become ready.
    #[error("not ready within {} s: {last}", READY_TIMEOUT.as_secs())]
    NotReady {
        /// The last error.
        last: String,
    },
}

/// A running server process. End it with [`ServerProcess::stop`].
pub struct ServerProcess {
    plane: ControlPlane,
    edge: EdgeThread,
    /// `None` when objects are in memory, where writes are durable at once.
    writer: Option<WriterThread>,
    address: SocketAddr,
    pki: Pki,
    node_differences: NodeDifferences,
}

impl ServerProcess {
    /// Starts store, writer, control loops, then the edge; returns when all of them run.
    ///
    /// `on_fatal` is called when the disk fails, on the writer's thread and before pending writes get a response. It should
    /// end the process.
    pub async fn start(
        clock: Arc<dyn Clock>,
        random: Random,
        settings: UpSettings,
        on_fatal: impl FnOnce(&BackendError) + Send + 'static,
    ) -> Result<ServerProcess, UpError> {
        let UpSettings {
            data,
            listen,
            certificate_names: names,
            history,
            acknowledge_early,
            limits,
            first_nodes,
            mut plane,
        } = settings;
        let now = clock.now();
        let store = open(&data, history, acknowledge_early, now)?;
        let listener = bind(&listen)?;
        let address = listener.local_addr().map_err(UpError::Edge)?;
        let pki = match &data {
            DataLocation::Directory(directory) => {
                Pki::ensure(&directory.join("pki"), &certificate_names(names, address), now)?
            }
            DataLocation::Memory => Pki::in_memory(&certificate_names(names, address), now)?,
        };
        let (committer, writer) = match &data {
            DataLocation::Directory(_) => {
                let (committer, writer) = Committer::on_thread(store.clone(), on_fatal);
                (committer, Some(writer))
            }
            DataLocation::Memory => (Committer::in_place(store.clone()), None),
        };
        let runs_nodes = plane.components.contains(&Component::Nodes);
        let node_differences =
            if runs_nodes { NodeDifferences::find(&store, &plane.cluster) } else { NodeDifferences::default() };
        if runs_nodes && has_no_nodes(&store) {
            plane.cluster.nodes.extend(first_nodes.nodes);
        }
        plane.scheduler.core_mode = CoreMode::OnThread;
        let plane = ControlPlane::start(ControlPlaneEnvironment { clock, random, store, committer }, plane).await?;
        let health = plane.server().health();
        health.pass("caches");
        health.pass("components");
        let config = edge::Config { pki: pki.clone(), limits };
        let edge = EdgeThread::start(listener, plane.server().clone(), config).map_err(UpError::Edge)?;
        Ok(ServerProcess { plane, edge, writer, address, pki, node_differences })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How the nodes that existed before the start differ from those of [`UpSettings::plane`].
    pub fn node_differences(&self) -> &NodeDifferences {
        &self.node_differences
    }

    /// Its URL on this machine: `https://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        format!("https://{}", SocketAddr::new(ip, self.address.port()))
    }

    /// The administrator's kubeconfig, as YAML.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::admin(&self.pki, &self.url())
    }

    /// The control plane inside.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// Returns once `/readyz` responds with 200 to a client that connects like any other.
    pub fn wait_until_ready(&self) -> BoxFuture<'_, Result<(), UpError>> {
        self.poll_readyz().boxed()
    }

    async fn poll_readyz(&self) -> Result<(), UpError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut poll = READY_POLL;
        loop {
            let readyz = self.get_readyz().await;
            match readyz {
                Ok(()) => return Ok(()),
                Err(last) if Instant::now() >= deadline => return Err(UpError::NotReady { last }),
                Err(_) => tokio::time::sleep(poll).await,
            }
            poll = (poll * 2).min(MAX_READY_POLL);
        }
    }

    async fn get_readyz(&self) -> Result<(), String> {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig()).map_err(|error| error.to_string())?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = kube::Client::try_from(config.map_err(|error| error.to_string())?);
        let request = http::Request::get("/readyz").body(Vec::new()).expect("a well-formed request");
        let response = client.map_err(|error| error.to_string())?.request_text(request).await;
        response.map(|_| ()).map_err(|error| runtime::failure::message(&error))
    }

    /// Sets liveness by the oldest bind, and returns what has ended by itself, which is a defect; readiness fails from then on.
    pub fn ended_task(&self) -> Option<String> {
        self.plane.check_binds();
        let ended = match self.plane.ended_task() {
            Some(task) => task.to_owned(),
            None if self.edge.has_ended() => "the network edge".to_owned(),
            None => return None,
        };
        self.plane.server().health().fail("components", format!("{ended} ended by itself"));
        Some(ended)
    }

    /// Stops the edge, then the control loops, then the writer, so that every acknowledged write is stored.
    pub async fn stop(self) {
        let ServerProcess { plane, edge, writer, .. } = self;
        edge.stop().await;
        plane.stop().await;
        if let Some(writer) = writer {
            writer.join();
        }
    }
}

fn open(
    data: &DataLocation,
    history: store::HistoryLimits,
    early: bool,
    now: api::Timestamp,
) -> Result<Store, UpError> {
    let DataLocation::Directory(directory) = data else { return Ok(Store::in_memory(history)) };
    make_directory(directory)?;
    let disk: Box<dyn Backend> = Box::new(Disk::open(directory, DiskOptions::new(now))?);
    let disk = if early { Box::new(EarlyAckBackend::new(disk)) } else { disk };
    Store::open(disk, history).map_err(UpError::Read)
}

fn make_directory(directory: &Path) -> Result<(), UpError> {
    private_file::make_dir(directory).map_err(|source| UpError::Directory { directory: directory.to_owned(), source })
}

fn bind(addresses: &[SocketAddr]) -> Result<TcpListener, UpError> {
    let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    let bound = TcpListener::bind(addresses).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|source| UpError::Listen { address: texts.join(" or "), source })
}

/// The configured names and the address of the listener.
fn certificate_names(names: Vec<String>, address: SocketAddr) -> Vec<String> {
    let own = (!address.ip().is_unspecified()).then(|| address.ip().to_string());
    names.into_iter().chain(own).collect()
}

fn has_no_nodes(store: &Store) -> bool {
    let mut found = false;
    let query = ListQuery { limit: Some(1), ..ListQuery::all(&"nodes".into()) };
    let listed = store.list(&query, &mut |_| {
        found = true;
        true
    });
    listed.is_ok() && !found
}
