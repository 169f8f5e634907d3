//! The home on a real Kubernetes control plane: its server and its other controllers, our parts as processes that reach
//! it through a fault proxy, the wall clock.
//!
//! `cargo xtask kube test` starts the control plane and says in the environment where everything is. Tests run one at a
//! time there, and each begins by taking away what the one before left.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::views::View;
use api::{Clock, Random, Timestamp};
use controlplane::{Caches, Component, RemoteComponents};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::request::{self, PatchKind};
use runtime::{Cache, TokioClock, is_not_found};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::RecordedWrite;
use super::component_process::ComponentProcess;
use super::rbac;
use super::write_recorder::WriteRecorder;
use crate::fault::{Faults, Proxy};

/// How much longer something may take here than in virtual time: the machine does it all, and may be busy.
pub const TIMEOUT_FACTOR: u32 = 10;
/// But nothing may take longer than this.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(300);
/// Durations that a test chose freely are this much shorter here.
pub const SPEEDUP: u32 = 10;
/// The first wait for the successor of a failed pod, where it is shortened.
pub const POD_BACKOFF: Duration = Duration::from_secs(1);
/// How long an earlier test's objects may take to go.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// Kinds whose objects a test leaves behind, owners first.
const CLEANUP_RESOURCES: [&str; 5] = [
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads",
    "/api/v1/namespaces/default/pods",
    "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
    "/api/v1/nodes",
];

/// Whether this process was told to test on a real control plane.
pub fn is_chosen() -> bool {
    match std::env::var("PHALANX_HOME") {
        Err(_) => false,
        Ok(home) if home.is_empty() || home == "embedded" => false,
        Ok(home) if home == "kube" => true,
        Ok(home) => panic!("PHALANX_HOME={home}: embedded and kube are known; `cargo xtask kube test` sets it"),
    }
}

/// Held by the one test that uses the control plane now.
pub fn lock_exclusive() -> MutexGuard<'static, ()> {
    static EXCLUSIVE: Mutex<()> = Mutex::new(());
    // A test that failed has let go of the control plane as well.
    EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A control plane of real programs, with our parts.
pub struct KubeControlPlane {
    client: Client,
    /// Keeps the caches, and runs no part.
    observer: RemoteComponents,
    recorder: WriteRecorder,
    clock: Arc<dyn Clock>,
    nodes: u32,
    /// What stands between each part and the server.
    proxies: BTreeMap<Component, Proxy>,
    tenancy: Tenancy,
    /// How often a part was started.
    starts: AtomicU32,
    processes: Mutex<BTreeMap<Component, ComponentProcess>>,
}

/// How much of the control plane is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// The Job controller and no other; for one test at a time.
    Exclusive,
    /// All that Jobs come and go with but the garbage collector, as the suite for it leaves them out of the real one; for
    /// tests side by side. Fixed waits are shorter, because they pass on the wall clock.
    Shared,
}

impl KubeControlPlane {
    /// The control plane of `$KUBECONFIG` with `nodes` simulated nodes and nothing else of a test before.
    pub async fn start(seed: u64, nodes: u32, extent: Tenancy, faults: &Faults) -> KubeControlPlane {
        let client = client(None).await;
        delete_leftovers(&client).await;
        rbac::grant_roles(&client, extent).await;
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::now()));
        let looking = RemoteComponents::start_caches_only(clock.clone(), Random::seeded(seed), client.clone()).await;
        let record = WriteRecorder::start(&client).await;
        let (proxies, starts, processes) = (BTreeMap::new(), AtomicU32::new(0), Mutex::default());
        let mut kube = KubeControlPlane {
            client,
            observer: looking,
            recorder: record,
            clock,
            nodes,
            proxies,
            tenancy: extent,
            starts,
            processes,
        };
        for part in Component::ALL {
            let its_own = self::client(Some(rbac::user_of(part))).await;
            rbac::assert_not_admin(&its_own).await;
            let proxy = Proxy::start(faults, user_of(part), its_own).await;
            kube.proxies.insert(part, proxy.expect("a free port on loopback"));
            kube.start_component(part);
        }
        kube
    }

    /// Whether the server has the feature of this gate on.
    pub async fn is_gate_enabled(&self, gate: &str) -> bool {
        let metrics = request::get(&self.client, "/metrics").await.expect("the server tells its metrics");
        let metrics = String::from_utf8_lossy(&metrics);
        let name = format!("kubernetes_feature_enabled{{name=\"{gate}\"");
        let line = metrics.lines().find(|line| line.starts_with(&name));
        line.unwrap_or_else(|| panic!("the server knows no gate {gate}")).ends_with(" 1")
    }

    /// An administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// What the test sees of the cluster.
    pub fn caches(&self) -> &Caches {
        self.observer.caches()
    }

    /// The time objects carry.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Kills the part's process and starts another.
    pub fn restart_component(&self, part: Component) {
        self.start_component(part);
    }

    /// Kills the part's process.
    pub fn stop_component(&self, part: Component) {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).remove(&part);
    }

    /// Starts the part, and ends its process before if there is one.
    pub fn start_component(&self, part: Component) {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        self.starts.fetch_add(1, Ordering::Relaxed);
        // The one before has ended when the next begins.
        processes.remove(&part);
        let kubeconfig = self.proxies[&part].kubeconfig();
        processes.insert(part, ComponentProcess::start(part, self.nodes, self.tenancy, &kubeconfig));
    }

    /// How often a part was started.
    pub fn component_starts(&self) -> u32 {
        self.starts.load(Ordering::Relaxed)
    }

    /// Why the test cannot go on, if a part has ended.
    pub fn exited_component(&self) -> Option<String> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes
            .values()
            .find_map(ComponentProcess::exit_report)
            .or_else(|| self.observer.check_health().map(str::to_owned))
    }

    /// Returns once the record has all that the caches show.
    pub async fn wait_until_recorded(&self) {
        let caches = self.caches();
        for (resource, revision) in [
            ("nodes", newest_revision(&caches.nodes)),
            ("namespaces", newest_revision(&caches.namespaces)),
            ("pods", newest_revision(&caches.pods)),
            ("batch/cronjobs", newest_revision(&caches.cron_jobs)),
            ("batch/jobs", newest_revision(&caches.jobs)),
            ("policy/poddisruptionbudgets", newest_revision(&caches.budgets)),
            ("scheduling.k8s.io/workloads", newest_revision(&caches.workloads)),
            ("scheduling.k8s.io/podgroups", newest_revision(&caches.pod_groups)),
            ("scheduling.k8s.io/compositepodgroups", newest_revision(&caches.composite_pod_groups)),
        ] {
            self.recorder.wait_for_revision(resource, revision).await;
        }
    }

    /// Every write since the start that is wanted, in order.
    pub fn history(&self, wanted: impl Fn(&RecordedWrite) -> bool) -> Vec<RecordedWrite> {
        self.recorder.writes(wanted)
    }
}

/// Who a part is to the rules of faults. Here its caches are the same user, since a process has one kubeconfig.
fn user_of(part: Component) -> &'static str {
    match part {
        Component::Controllers => "system:serviceaccount:kube-system:job-controller",
        Component::Scheduler => "system:kube-scheduler",
        Component::Nodes => "system:phalanx:nodes",
    }
}

fn newest_revision<V: View>(cache: &Cache<V>) -> api::Revision {
    cache.all().iter().map(|object| object.meta().resource_version).max().unwrap_or_default()
}

/// The administrator's client or, by impersonation, that of a user.
async fn client(user: Option<&str>) -> Client {
    let file = Kubeconfig::from_env().expect("a kubeconfig that can be read");
    let file = file.expect("KUBECONFIG is set: `cargo xtask kube test` does that");
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.expect("a kubeconfig that makes sense");
    config.default_retry = false;
    config.auth_info.impersonate = user.map(str::to_owned);
    config.auth_info.impersonate_groups = user.map(|_| vec!["system:authenticated".to_owned()]);
    Client::try_from(config).expect("a client for the kubeconfig")
}

/// Takes away what an earlier test left. Its parts are gone, so nobody lets go of what they held.
async fn delete_leftovers(client: &Client) {
    let deadline = Instant::now() + CLEANUP_TIMEOUT;
    for path in CLEANUP_RESOURCES {
        loop {
            let bytes = match request::get(client, path).await {
                // A server that does not have the kind has nothing to take away.
                Err(error) if is_not_found(&error) => break,
                answer => answer.unwrap_or_else(|error| panic!("{path}: {error}")),
            };
            let listed: Value = serde_json::from_slice(&bytes).expect("a list");
            let items = listed["items"].as_array().cloned().unwrap_or_default();
            if items.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "{path}: {} objects of an earlier test stay", items.len());
            let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
            let _ = request::delete(client, path, &options).await;
            for item in items.iter().filter(|item| item["metadata"]["finalizers"].is_array()) {
                let object = format!("{path}/{}", item["metadata"]["name"].as_str().unwrap_or_default());
                let freed = json!({"metadata": {"finalizers": null}});
                match request::patch(client, &object, PatchKind::Merge, &freed).await {
                    Err(error) if !is_not_found(&error) => eprintln!("{object}: {error}"),
                    _ => {}
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
