//! Components in one process, for a server in another.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Random};
use apiserver::{Health, Identity};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use nodes::cluster::Cluster;
use runtime::election::{self, Election, Fence, LeadershipState};
use runtime::{Backoff, Capabilities, ListWatchConfig, Reachability, request};
use tokio::sync::watch;

use crate::caches::{CachedKind, Caches};
use crate::config::{Component, Config};
use crate::control_loops;
use crate::identity;
use crate::process::{ClientFactory, Process};

/// The API groups that a server may not serve, or only in another version.
const DISCOVERED_GROUPS: [&str; 1] = ["scheduling.k8s.io"];
/// How long the scheduler waits for its connections before it starts.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Back-off between attempts to create the simulated nodes.
const REGISTER_BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// Components for a server in another process. Dropping it aborts them; [`RemoteComponents::stop`] also waits until
/// they have ended.
pub struct RemoteComponents {
    process: Process,
    reachability: Reachability,
    health: Health,
    candidacy: Option<Candidacy>,
}

/// The candidacy of this process in a leader election.
struct Candidacy {
    settings: election::ElectionSettings,
    /// Not behind the fence: it writes the Lease itself.
    client: kube::Client,
    leadership: watch::Receiver<LeadershipState>,
    /// The state for which the components were last started or stopped.
    applied: LeadershipState,
}

impl RemoteComponents {
    /// Fills the caches that the components of `config` read, then starts the components; returns when all of them run
    /// or, with leader election, could run. [`RemoteComponents::follow_election`] starts them on the leader.
    ///
    /// A server that cannot be reached is retried; `health` and the log report it.
    pub fn start(
        clock: Arc<dyn Clock>,
        random: Random,
        client: kube::Client,
        health: Health,
        config: Config,
    ) -> BoxFuture<'static, RemoteComponents> {
        RemoteComponents::start_all(clock, random, client, health, config).boxed()
    }

    async fn start_all(
        clock: Arc<dyn Clock>,
        random: Random,
        client: kube::Client,
        health: Health,
        config: Config,
    ) -> RemoteComponents {
        let kinds = kinds_read_by(&config);
        let mut fence = None;
        let mut election = None;
        if let Some(settings) = config.election.clone() {
            let (leadership, election_fence, campaign) =
                Election::of(client.clone(), settings.clone(), Arc::clone(&clock), random.clone());
            fence = Some(election_fence);
            election = Some((
                Candidacy { settings, client: client.clone(), leadership, applied: LeadershipState::Standby },
                campaign,
            ));
        }
        let mut remote = RemoteComponents::start_caches(clock, random, client, health, config, &kinds, fence).await;
        let Process { config, .. } = &remote.process;
        if config.components.contains(&Component::Scheduler) {
            connect(&remote.process.client_of(&control_loops::SCHEDULER), config.scheduler.max_binds_in_flight).await;
        }
        match election {
            // Only now, so that the leader can start at once.
            Some((candidacy, campaign)) => {
                remote.process.spawn("election".to_owned(), campaign);
                remote.candidacy = Some(candidacy);
                remote.health.pass("components");
            }
            None => remote.start_components().await,
        }
        remote
    }

    async fn start_components(&mut self) {
        let RemoteComponents { process, health, .. } = self;
        if process.config.components.contains(&Component::Nodes) {
            health.fail("nodes", "the simulated nodes are not created yet");
            register_nodes(process).await;
            health.pass("nodes");
        }
        for component in process.config.components.clone() {
            process.start_component(component);
        }
        health.pass("components");
    }

    /// Starts every cache and no component, for a process that only reads.
    pub async fn start_caches_only(clock: Arc<dyn Clock>, random: Random, client: kube::Client) -> RemoteComponents {
        let config = Config { components: BTreeSet::new(), ..Config::for_cluster(Cluster::default()) };
        RemoteComponents::start_caches(
            clock,
            random,
            client,
            Health::default(),
            config,
            &control_loops::cached_kinds(),
            None,
        )
        .await
    }

    async fn start_caches(
        clock: Arc<dyn Clock>,
        random: Random,
        client: kube::Client,
        health: Health,
        config: Config,
        kinds: &BTreeSet<CachedKind>,
        fence: Option<Fence>,
    ) -> RemoteComponents {
        let reachability = Reachability::default();
        let list_watch = ListWatchConfig {
            random: Some(random.clone()),
            reachability: Some(reachability.clone()),
            ..ListWatchConfig::default()
        };
        // All components of such a process are one user: that of the kubeconfig.
        let client = fence.map_or(client.clone(), |fence| fence.wrap(client));
        let clients: ClientFactory = Arc::new(move |_: &Identity| client.clone());
        let mut process = Process::new(clock, random, clients, list_watch, config);
        health.fail("caches", "the server has not been read yet");
        let discovery_client = process.client(&identity::caches());
        let (capabilities, refresh) =
            Capabilities::of(discovery_client, &DISCOVERED_GROUPS, reachability.clone(), process.random.clone());
        process.capabilities = capabilities;
        process.spawn("caches/capabilities".to_owned(), refresh);
        process.spawn("caches/probe".to_owned(), reachability.clone().probe(process.client(&identity::caches())));
        process.start_caches(kinds).await;
        health.pass("caches");
        RemoteComponents { process, reachability, health, candidacy: None }
    }

    /// The caches; those that no component reads are empty.
    pub fn caches(&self) -> &Caches {
        &self.process.caches
    }

    /// Sets readiness, and returns the name of a task that has ended by itself, which is a defect.
    pub fn check_health(&self) -> Option<&str> {
        if self.reachability.is_reachable() {
            self.health.pass("server");
            self.process.check_binds(&self.health);
        } else {
            self.health.fail("server", "it cannot be read");
        }
        match self.candidacy.as_ref().map(|candidacy| candidacy.applied) {
            Some(LeadershipState::Lost) => self.health.fail("lease", "it was lost, and cannot be read or acquired"),
            Some(LeadershipState::Standby | LeadershipState::Leading(_)) => self.health.pass("lease"),
            None => {}
        }
        let ended = self.process.ended_task()?;
        self.health.fail("components", format!("{ended} ended by itself"));
        Some(ended)
    }

    /// Waits for a change of leadership, and starts or stops the components; without leader election it waits for
    /// ever.
    pub fn follow_election(&mut self) -> BoxFuture<'_, ()> {
        self.apply_leadership_change().boxed()
    }

    async fn apply_leadership_change(&mut self) {
        let Some(candidacy) = &mut self.candidacy else { return std::future::pending().await };
        // The task that sends lives as long as the process.
        if candidacy.leadership.changed().await.is_err() {
            return std::future::pending().await;
        }
        let state = *candidacy.leadership.borrow();
        if state == candidacy.applied {
            return;
        }
        candidacy.applied = state;
        // Also if the Lease was lost and acquired again in between: another process may have decided since.
        for component in self.process.config.components.clone() {
            self.process.stop_component(component);
        }
        if let LeadershipState::Leading(_) = state {
            // A caller may drop this future at any time. Nothing in it waits: nodes have no leader election.
            self.start_components().await;
        }
    }

    /// Aborts every task, and returns when all have ended.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        self.stop_all().boxed()
    }

    async fn stop_all(self) {
        let clock = Arc::clone(&self.process.clock);
        self.process.stop().await;
        // Only now that no component writes any more.
        if let Some(Candidacy { settings, client, .. }) = self.candidacy {
            election::release_lease(&client, &settings, clock.as_ref()).await;
        }
    }
}

/// Opens as many connections as there are concurrent binds. Otherwise the first gang waits for that many handshakes
/// while the server is busiest.
async fn connect(client: &kube::Client, count: usize) {
    let requests = join_all((0..count).map(|_| request::get(client, "/version")));
    // Responses do not matter: a connection that fails now is opened by the first bind.
    let _ = tokio::time::timeout(CONNECT_TIMEOUT, requests).await;
}

async fn register_nodes(process: &Process) {
    let mut failures = 0;
    while let Err(error) = ready_nodes(process).await {
        failures += 1;
        let cause = runtime::failure::message(&error);
        tracing::warn!("cannot register the simulated nodes: {cause}; retrying");
        tokio::time::sleep(REGISTER_BACKOFF.jittered(failures, &process.random)).await;
    }
}

async fn ready_nodes(process: &Process) -> Result<(), kube::Error> {
    process.register_nodes().await?;
    nodes::clear_not_ready(&process.client_of(&control_loops::NODES)).await
}

/// The kinds that the control loops of `config` read. Other kinds are not listed, and need no rights.
fn kinds_read_by(config: &Config) -> BTreeSet<CachedKind> {
    let running = control_loops::ALL.iter().copied().filter(|control_loop| config.runs(control_loop));
    running.flat_map(|control_loop| control_loop.reads).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_loop::ControlLoop;
    use crate::control_loops::{CRON_JOB, JOB, NAMESPACE, TTL};

    #[test]
    fn a_process_caches_only_what_its_control_loops_read() {
        let only = |component: Component, controllers: &[&'static ControlLoop]| {
            let config = Config {
                components: [component].into(),
                controllers: controllers.to_vec(),
                ..Config::for_cluster(Cluster::default())
            };
            kinds_read_by(&config).into_iter().map(|kind| kind.resource().plural).collect::<Vec<&str>>()
        };
        assert_eq!(only(Component::Scheduler, &[]), ["nodes", "pods", "compositepodgroups", "podgroups"]);
        assert_eq!(only(Component::Nodes, &[&JOB, &NAMESPACE]), ["nodes", "pods"]);
        assert_eq!(only(Component::Controllers, &[&NAMESPACE]), ["namespaces"]);
        assert_eq!(only(Component::Controllers, &[&CRON_JOB, &TTL]), ["cronjobs", "jobs"]);
        assert_eq!(only(Component::Controllers, &[&JOB]), ["namespaces", "pods", "jobs", "podgroups", "workloads"]);
    }
}
