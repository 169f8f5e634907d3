//! Parts of ours in one process, against a server elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Random};
use apiserver::{Health, Identity};
use futures::future::join_all;
use nodes::cluster::Cluster;
use runtime::election::{self, Election, Fence, Standing};
use runtime::{Backoff, Capabilities, ListWatchConfig, Reach, request};
use tokio::sync::watch;

use crate::caches::{Caches, Kept};
use crate::config::{Config, Controller, Part};
use crate::identity;
use crate::process::{Clients, Process};

/// The API groups of which a server may have nothing, or only another version.
const DISCOVERED: [&str; 1] = ["scheduling.k8s.io"];
/// How long the scheduler waits for its connections before it begins.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Waits between attempts to make the simulated nodes.
const REGISTER_BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// Parts that run against a server elsewhere. Dropping it stops them, though [`OnCluster::stop`] alone says when.
pub struct OnCluster {
    process: Process,
    reach: Reach,
    health: Health,
    candidacy: Option<Candidacy>,
}

/// The part that this process takes in an election.
struct Candidacy {
    settings: election::Settings,
    /// Not behind the fence: the lease itself is written with it.
    client: kube::Client,
    standing: watch::Receiver<Standing>,
    /// What the parts were last started or stopped for.
    known: Standing,
}

impl OnCluster {
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
    ) -> OnCluster {
        let kinds = read_by(&config);
        let mut fence = None;
        let mut standing = None;
        if let Some(settings) = config.election.clone() {
            let (told, closed, campaign) =
                Election::of(client.clone(), settings.clone(), Arc::clone(&clock), random.clone());
            fence = Some(closed);
            standing = Some((
                Candidacy { settings, client: client.clone(), standing: told, known: Standing::Waiting },
                campaign,
            ));
        }
        let mut parts = OnCluster::reading(clock, random, client, health, config, &kinds, fence).await;
        let Process { config, .. } = &parts.process;
        if config.parts.contains(&Part::Scheduler) {
            connect(&parts.process.client(&identity::scheduler()), config.scheduler.binds_in_flight).await;
        }
        match standing {
            // Only now, so that whoever wins can start at once.
            Some((candidacy, campaign)) => {
                parts.process.spawn("election".to_owned(), campaign);
                parts.candidacy = Some(candidacy);
                parts.health.pass("parts");
            }
            None => parts.start_parts().await,
        }
        parts
    }

    async fn start_parts(&mut self) {
        let OnCluster { process, health, .. } = self;
        if process.config.parts.contains(&Part::Nodes) {
            health.fail("nodes", "the simulated nodes are not made yet");
            register_nodes(process).await;
            health.pass("nodes");
        }
        for part in process.config.parts.clone() {
            process.start_part(part);
        }
        health.pass("parts");
    }

    /// Every cache and no part: for whoever only looks.
    pub async fn watching(clock: Arc<dyn Clock>, random: Random, client: kube::Client) -> OnCluster {
        let config = Config { parts: BTreeSet::new(), ..Config::on(Cluster::default()) };
        OnCluster::reading(clock, random, client, Health::default(), config, &Kept::ALL.into(), None).await
    }

    async fn reading(
        clock: Arc<dyn Clock>,
        random: Random,
        client: kube::Client,
        health: Health,
        config: Config,
        kinds: &BTreeSet<Kept>,
        fence: Option<Fence>,
    ) -> OnCluster {
        let reach = Reach::default();
        let list_watch =
            ListWatchConfig { random: Some(random.clone()), reach: Some(reach.clone()), ..ListWatchConfig::default() };
        // All parts of such a process are one user: that of the kubeconfig.
        let client = fence.map_or(client.clone(), |fence| fence.around(client));
        let clients: Clients = Arc::new(move |_: &Identity| client.clone());
        let mut process = Process::new(clock, random, clients, list_watch, config);
        health.fail("caches", "the server has not been read yet");
        let asking = process.client(&identity::caches());
        let (capabilities, keeping) = Capabilities::of(asking, &DISCOVERED, reach.clone(), process.random.clone());
        process.capabilities = capabilities;
        process.spawn("caches/capabilities".to_owned(), keeping);
        process.spawn("caches/probe".to_owned(), reach.clone().probe(process.client(&identity::caches())));
        process.start_caches(kinds).await;
        health.pass("caches");
        OnCluster { process, reach, health, candidacy: None }
    }

    /// The caches; those that none of the parts reads are empty.
    pub fn caches(&self) -> &Caches {
        &self.process.caches
    }

    /// Has readiness say how things stand, and returns what ended by itself, which nothing ever should.
    pub fn look(&self) -> Option<&str> {
        if self.reach.is_well() {
            self.health.pass("server");
            self.process.look_at_binds(&self.health);
        } else {
            self.health.fail("server", "it cannot be read right now");
        }
        match self.candidacy.as_ref().map(|candidacy| candidacy.known) {
            Some(Standing::Lost) => self.health.fail("lease", "it was lost, and cannot be read or taken since"),
            Some(Standing::Waiting | Standing::Leading(_)) => self.health.pass("lease"),
            None => {}
        }
        let ended = self.process.ended()?;
        self.health.fail("parts", format!("{ended} ended by itself"));
        Some(ended)
    }

    /// Waits until the election has news, and starts or stops the parts as it says; without an election it waits for ever.
    pub async fn elected(&mut self) {
        let Some(candidacy) = &mut self.candidacy else { return std::future::pending().await };
        // The task that tells lives as long as the process.
        if candidacy.standing.changed().await.is_err() {
            return std::future::pending().await;
        }
        let standing = *candidacy.standing.borrow();
        if standing == candidacy.known {
            return;
        }
        candidacy.known = standing;
        // Also where it was lost and won again meanwhile: another process may have decided since.
        for part in self.process.config.parts.clone() {
            self.process.stop_part(part);
        }
        if let Standing::Leading(_) = standing {
            // Callers stop waiting at any time. Nothing in there waits: nodes take part in no election.
            self.start_parts().await;
        }
    }

    /// Ends everything that runs, and returns when it has ended.
    pub async fn stop(self) {
        let clock = Arc::clone(&self.process.clock);
        self.process.stop().await;
        // Only now that nothing of ours writes any more.
        if let Some(Candidacy { settings, client, .. }) = self.candidacy {
            election::give_back(&client, &settings, clock.as_ref()).await;
        }
    }
}

/// Opens as many connections as there will be binds at once. Without them the first gang waits for so many handshakes,
/// which the server pays for at the very moment when it has the most to do.
async fn connect(client: &kube::Client, count: usize) {
    let answers = join_all((0..count).map(|_| request::get(client, "/version")));
    // Whatever they are: what does not connect now does so with its first bind.
    let _ = tokio::time::timeout(CONNECT_MAX, answers).await;
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
    nodes::clear_not_ready(&process.client(&identity::nodes())).await
}

/// The kinds that the parts of `config` read: nothing else is asked of the server, nor needs to be allowed.
fn read_by(config: &Config) -> BTreeSet<Kept> {
    let mut kinds = BTreeSet::new();
    for part in &config.parts {
        match part {
            Part::Nodes => kinds.extend([Kept::Nodes, Kept::Pods]),
            Part::Scheduler => {
                kinds.extend([Kept::Nodes, Kept::PodGroups, Kept::CompositePodGroups, Kept::Pods]);
            }
            Part::Controllers => config.controllers.iter().for_each(|controller| match controller {
                Controller::Job => {
                    kinds.extend([Kept::Namespaces, Kept::PodGroups, Kept::Workloads, Kept::Jobs, Kept::Pods]);
                }
                Controller::CronJob => kinds.extend([Kept::CronJobs, Kept::Jobs]),
                Controller::Ttl => kinds.extend([Kept::Jobs]),
                Controller::PodGc => kinds.extend([Kept::Nodes, Kept::Pods]),
                Controller::Disruption => kinds.extend([Kept::Budgets, Kept::Pods]),
                Controller::Gc => {
                    kinds.extend([Kept::PodGroups, Kept::CompositePodGroups, Kept::Workloads]);
                    kinds.extend([Kept::CronJobs, Kept::Jobs, Kept::Pods]);
                }
                Controller::PodGroupProtection => {
                    kinds.extend([Kept::PodGroups, Kept::CompositePodGroups, Kept::Pods]);
                }
                Controller::Namespace => kinds.extend([Kept::Namespaces]),
            }),
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_reads_no_more_than_it_needs() {
        let only = |part: Part, controllers: &[Controller]| {
            let config = Config {
                parts: [part].into(),
                controllers: controllers.iter().copied().collect(),
                ..Config::on(Cluster::default())
            };
            read_by(&config).into_iter().collect::<Vec<Kept>>()
        };
        let groups = [Kept::Nodes, Kept::PodGroups, Kept::CompositePodGroups, Kept::Pods];
        assert_eq!(only(Part::Scheduler, &[]), groups);
        assert_eq!(only(Part::Nodes, &Controller::ALL), [Kept::Nodes, Kept::Pods]);
        assert_eq!(only(Part::Controllers, &[Controller::Namespace]), [Kept::Namespaces]);
        assert_eq!(only(Part::Controllers, &[Controller::CronJob, Controller::Ttl]), [Kept::CronJobs, Kept::Jobs]);
        let job = only(Part::Controllers, &[Controller::Job]);
        assert_eq!(job, [Kept::Namespaces, Kept::PodGroups, Kept::Workloads, Kept::Jobs, Kept::Pods]);
    }
}
