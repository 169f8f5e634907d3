//! Parts of ours in one process, against a server elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Random};
use apiserver::{Health, Identity};
use futures::future::join_all;
use nodes::cluster::Cluster;
use runtime::election::{self, Election, Fence, LeadershipState};
use runtime::{Backoff, Capabilities, ListWatchConfig, Reachability, request};
use tokio::sync::watch;

use crate::caches::{CachedKind, Caches};
use crate::config::{Component, Config};
use crate::control_loops;
use crate::identity;
use crate::process::{ClientFactory, Process};

/// The API groups of which a server may have nothing, or only another version.
const DISCOVERED_GROUPS: [&str; 1] = ["scheduling.k8s.io"];
/// How long the scheduler waits for its connections before it begins.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Waits between attempts to make the simulated nodes.
const REGISTER_BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// Parts that run against a server elsewhere. Dropping it stops them, though [`OnCluster::stop`] alone says when.
pub struct RemoteComponents {
    process: Process,
    reachability: Reachability,
    health: Health,
    candidacy: Option<Candidacy>,
}

/// The part that this process takes in an election.
struct Candidacy {
    settings: election::ElectionSettings,
    /// Not behind the fence: the lease itself is written with it.
    client: kube::Client,
    leadership: watch::Receiver<LeadershipState>,
    /// What the parts were last started or stopped for.
    applied: LeadershipState,
}

impl RemoteComponents {
    /// Fills the caches that the parts of `config` read, then starts the parts; returns when all of them run or, if there
    /// is an election, when they could. [`OnCluster::elected`] starts them once it is won.
    ///
    /// A server that cannot be reached is tried until it can: `health` and the log say so meanwhile.
    pub async fn start(
        clock: Arc<dyn Clock>,
        random: Random,
        client: kube::Client,
        health: Health,
        config: Config,
    ) -> RemoteComponents {
        let kinds = kinds_read_by(&config);
        let mut fence = None;
        let mut standing = None;
        if let Some(settings) = config.election.clone() {
            let (told, closed, campaign) =
                Election::of(client.clone(), settings.clone(), Arc::clone(&clock), random.clone());
            fence = Some(closed);
            standing = Some((
                Candidacy { settings, client: client.clone(), leadership: told, applied: LeadershipState::Standby },
                campaign,
            ));
        }
        let mut parts = RemoteComponents::start_caches(clock, random, client, health, config, &kinds, fence).await;
        let Process { config, .. } = &parts.process;
        if config.components.contains(&Component::Scheduler) {
            connect(&parts.process.client_of(&control_loops::SCHEDULER), config.scheduler.max_binds_in_flight).await;
        }
        match standing {
            // Only now, so that whoever wins can start at once.
            Some((candidacy, campaign)) => {
                parts.process.spawn("election".to_owned(), campaign);
                parts.candidacy = Some(candidacy);
                parts.health.pass("parts");
            }
            None => parts.start_components().await,
        }
        parts
    }

    async fn start_components(&mut self) {
        let RemoteComponents { process, health, .. } = self;
        if process.config.components.contains(&Component::Nodes) {
            health.fail("nodes", "the simulated nodes are not made yet");
            register_nodes(process).await;
            health.pass("nodes");
        }
        for part in process.config.components.clone() {
            process.start_component(part);
        }
        health.pass("parts");
    }

    /// Every cache and no part: for whoever only looks.
    pub async fn start_caches_only(clock: Arc<dyn Clock>, random: Random, client: kube::Client) -> RemoteComponents {
        let config = Config { components: BTreeSet::new(), ..Config::for_cluster(Cluster::default()) };
        RemoteComponents::start_caches(clock, random, client, Health::default(), config, &CachedKind::ALL.into(), None)
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
        let reach = Reachability::default();
        let list_watch = ListWatchConfig {
            random: Some(random.clone()),
            reachability: Some(reach.clone()),
            ..ListWatchConfig::default()
        };
        // All parts of such a process are one user: that of the kubeconfig.
        let client = fence.map_or(client.clone(), |fence| fence.wrap(client));
        let clients: ClientFactory = Arc::new(move |_: &Identity| client.clone());
        let mut process = Process::new(clock, random, clients, list_watch, config);
        health.fail("caches", "the server has not been read yet");
        let asking = process.client(&identity::caches());
        let (capabilities, keeping) =
            Capabilities::of(asking, &DISCOVERED_GROUPS, reach.clone(), process.random.clone());
        process.capabilities = capabilities;
        process.spawn("caches/capabilities".to_owned(), keeping);
        process.spawn("caches/probe".to_owned(), reach.clone().probe(process.client(&identity::caches())));
        process.start_caches(kinds).await;
        health.pass("caches");
        RemoteComponents { process, reachability: reach, health, candidacy: None }
    }

    /// The caches; those that none of the parts reads are empty.
    pub fn caches(&self) -> &Caches {
        &self.process.caches
    }

    /// Has readiness say how things stand, and returns what ended by itself, which nothing ever should.
    pub fn check_health(&self) -> Option<&str> {
        if self.reachability.is_reachable() {
            self.health.pass("server");
            self.process.check_binds(&self.health);
        } else {
            self.health.fail("server", "it cannot be read right now");
        }
        match self.candidacy.as_ref().map(|candidacy| candidacy.applied) {
            Some(LeadershipState::Lost) => self.health.fail("lease", "it was lost, and cannot be read or taken since"),
            Some(LeadershipState::Standby | LeadershipState::Leading(_)) => self.health.pass("lease"),
            None => {}
        }
        let ended = self.process.ended_task()?;
        self.health.fail("parts", format!("{ended} ended by itself"));
        Some(ended)
    }

    /// Waits until the election has news, and starts or stops the parts as it says; without an election it waits for ever.
    pub async fn follow_election(&mut self) {
        let Some(candidacy) = &mut self.candidacy else { return std::future::pending().await };
        // The task that tells lives as long as the process.
        if candidacy.leadership.changed().await.is_err() {
            return std::future::pending().await;
        }
        let standing = *candidacy.leadership.borrow();
        if standing == candidacy.applied {
            return;
        }
        candidacy.applied = standing;
        // Also where it was lost and won again meanwhile: another process may have decided since.
        for part in self.process.config.components.clone() {
            self.process.stop_component(part);
        }
        if let LeadershipState::Leading(_) = standing {
            // Callers stop waiting at any time. Nothing in there waits: nodes take part in no election.
            self.start_components().await;
        }
    }

    /// Ends everything that runs, and returns when it has ended.
    pub async fn stop(self) {
        let clock = Arc::clone(&self.process.clock);
        self.process.stop().await;
        // Only now that nothing of ours writes any more.
        if let Some(Candidacy { settings, client, .. }) = self.candidacy {
            election::release_lease(&client, &settings, clock.as_ref()).await;
        }
    }
}

/// Opens as many connections as there will be binds at once. Without them the first gang waits for so many handshakes,
/// which the server pays for at the very moment when it has the most to do.
async fn connect(client: &kube::Client, count: usize) {
    let answers = join_all((0..count).map(|_| request::get(client, "/version")));
    // Whatever they are: what does not connect now does so with its first bind.
    let _ = tokio::time::timeout(CONNECT_TIMEOUT, answers).await;
}

async fn register_nodes(process: &Process) {
    let mut failures = 0;
    while let Err(error) = ready_nodes(process).await {
        failures += 1;
        let said = runtime::failure::message(&error);
        tracing::warn!("cannot register the simulated nodes: {said}; trying again");
        tokio::time::sleep(REGISTER_BACKOFF.jittered(failures, &process.random)).await;
    }
}

async fn ready_nodes(process: &Process) -> Result<(), kube::Error> {
    process.register_nodes().await?;
    nodes::clear_not_ready(&process.client_of(&control_loops::NODES)).await
}

/// The kinds that the control loops of `config` read. Other kinds are not listed, and need no rights.
fn kinds_read_by(config: &Config) -> BTreeSet<CachedKind> {
    let running = control_loops::ALL.into_iter().filter(|control_loop| config.runs(control_loop));
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
            kinds_read_by(&config).into_iter().collect::<Vec<CachedKind>>()
        };
        let groups = [CachedKind::Nodes, CachedKind::PodGroups, CachedKind::CompositePodGroups, CachedKind::Pods];
        assert_eq!(only(Component::Scheduler, &[]), groups);
        assert_eq!(only(Component::Nodes, &[&JOB, &NAMESPACE]), [CachedKind::Nodes, CachedKind::Pods]);
        assert_eq!(only(Component::Controllers, &[&NAMESPACE]), [CachedKind::Namespaces]);
        assert_eq!(only(Component::Controllers, &[&CRON_JOB, &TTL]), [CachedKind::CronJobs, CachedKind::Jobs]);
        let job = only(Component::Controllers, &[&JOB]);
        assert_eq!(
            job,
            [CachedKind::Namespaces, CachedKind::PodGroups, CachedKind::Workloads, CachedKind::Jobs, CachedKind::Pods]
        );
    }
}
