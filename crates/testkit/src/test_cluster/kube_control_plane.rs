//! The real Kubernetes control plane: its server and its other controllers, our components as processes that use it
//! through a fault proxy, the wall clock.
//!
//! `cargo xtask kube test` starts the control plane and passes its addresses in the environment. Tests that do not
//! share it run one at a time, and each begins by deleting the objects of the last one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::kinds::{self, ApiResource};
use api::{Clock, Random, Timestamp};
use controlplane::{Caches, Component, ControlLoop, RemoteComponents, control_loops};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use runtime::request::{self, PatchKind};
use runtime::{TokioClock, is_not_found};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::RecordedWrite;
use super::component_process::ComponentProcess;
use super::rbac;
use super::write_recorder::WriteRecorder;
use crate::fault::{Faults, Proxy};

/// How much longer a step may take here than on virtual time: the machine may be busy.
pub const TIMEOUT_FACTOR: u32 = 10;
/// The upper limit of all timeouts.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(300);
/// Durations that a test chooses freely are divided by this.
pub const SPEEDUP: u32 = 10;
/// The shortened initial backoff of failed pods.
pub const POD_BACKOFF: Duration = Duration::from_secs(1);
/// The time limit for deleting the objects of an earlier test.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// Whether the real control plane is selected for this process.
pub fn is_chosen() -> bool {
    match std::env::var("PHALANX_TEST_CLUSTER") {
        Err(_) => false,
        Ok(name) if name.is_empty() || name == "embedded" => false,
        Ok(name) if name == "kube" => true,
        Ok(name) => panic!("PHALANX_TEST_CLUSTER={name}: must be embedded or kube; `cargo xtask kube test` sets it"),
    }
}

/// The lock of the one test that uses the control plane.
pub fn lock_exclusive() -> MutexGuard<'static, ()> {
    static EXCLUSIVE: Mutex<()> = Mutex::new(());
    // A test that panicked no longer uses the control plane.
    EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The real control plane with our components.
pub struct KubeControlPlane {
    client: Client,
    /// Has the caches and runs no component.
    observer: RemoteComponents,
    recorder: WriteRecorder,
    clock: Arc<dyn Clock>,
    nodes: u32,
    /// The proxy between each component and the server.
    proxies: BTreeMap<Component, Proxy>,
    tenancy: Tenancy,
    /// How often a component was started.
    starts: AtomicU32,
    processes: Mutex<BTreeMap<Component, ComponentProcess>>,
}

/// Which components are ours, and whether tests share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// Only the Job controller; for one test at a time.
    Exclusive,
    /// All controllers of Jobs except the garbage collector, which the suite disables in kube-controller-manager; for
    /// concurrent tests. Backoffs are shorter, because they pass on the wall clock.
    Shared,
}

impl Tenancy {
    /// Our controllers. On the shared control plane these are all but those that kube-controller-manager runs there.
    pub fn controllers(self) -> Vec<&'static ControlLoop> {
        let of_kubernetes = [&control_loops::GC, &control_loops::DISRUPTION, &control_loops::NAMESPACE];
        match self {
            Tenancy::Exclusive => vec![&control_loops::JOB],
            Tenancy::Shared => {
                control_loops::controllers().filter(|controller| !of_kubernetes.contains(controller)).collect()
            }
        }
    }
}

impl KubeControlPlane {
    /// The control plane of `$KUBECONFIG` with `nodes` simulated nodes and no objects of earlier tests.
    pub async fn start(seed: u64, nodes: u32, tenancy: Tenancy, faults: &Faults) -> KubeControlPlane {
        let client = client(None).await;
        delete_leftovers(&client).await;
        rbac::grant_roles(&client, tenancy).await;
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::now()));
        let observer = RemoteComponents::start_caches_only(clock.clone(), Random::seeded(seed), client.clone()).await;
        let recorder = WriteRecorder::start(&client).await;
        let (proxies, starts, processes) = (BTreeMap::new(), AtomicU32::new(0), Mutex::default());
        let mut kube =
            KubeControlPlane { client, observer, recorder, clock, nodes, proxies, tenancy, starts, processes };
        for component in Component::ALL {
            let component_client = self::client(Some(rbac::user_of(component))).await;
            rbac::assert_not_admin(&component_client).await;
            let proxy = Proxy::start(faults, user_of(component), component_client).await;
            kube.proxies.insert(component, proxy.expect("there is a free port on loopback"));
            kube.start_component(component);
        }
        kube
    }

    /// Whether the gate is on in the server.
    pub async fn is_gate_enabled(&self, gate: &str) -> bool {
        let metrics = request::get(&self.client, "/metrics").await.expect("the server serves its metrics");
        let metrics = String::from_utf8_lossy(&metrics);
        let name = format!("kubernetes_feature_enabled{{name=\"{gate}\"");
        let line = metrics.lines().find(|line| line.starts_with(&name));
        line.unwrap_or_else(|| panic!("the server does not know the gate {gate}")).ends_with(" 1")
    }

    /// An administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The caches of the cluster's objects.
    pub fn caches(&self) -> &Caches {
        self.observer.caches()
    }

    /// The time on the clock that objects use.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Kills the component's process and starts another.
    pub fn restart_component(&self, component: Component) {
        self.start_component(component);
    }

    /// Kills the component's process.
    pub fn stop_component(&self, component: Component) {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).remove(&component);
    }

    /// Starts the component. If it has a process, that is killed first.
    pub fn start_component(&self, component: Component) {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        self.starts.fetch_add(1, Ordering::Relaxed);
        // The old process has ended when the new one starts.
        processes.remove(&component);
        let kubeconfig = self.proxies[&component].kubeconfig();
        processes.insert(component, ComponentProcess::start(component, self.nodes, self.tenancy, &kubeconfig));
    }

    /// How often a component was started.
    pub fn component_starts(&self) -> u32 {
        self.starts.load(Ordering::Relaxed)
    }

    /// Why the test cannot continue, if a component has ended.
    pub fn exited_component(&self) -> Option<String> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes
            .values()
            .find_map(ComponentProcess::exit_report)
            .or_else(|| self.observer.check_health().map(str::to_owned))
    }

    /// Returns once the recorder has every write that the caches show.
    pub async fn wait_until_recorded(&self) {
        for (resource, revision) in self.caches().newest_revisions() {
            self.recorder.wait_for_revision(&resource.store_name(), revision).await;
        }
    }

    /// The writes since the start for which `is_wanted` holds, in order.
    pub fn history(&self, is_wanted: impl Fn(&RecordedWrite) -> bool) -> Vec<RecordedWrite> {
        self.recorder.writes(is_wanted)
    }
}

/// The user of a component for fault rules. Its caches have the same user, because a process has one kubeconfig.
fn user_of(component: Component) -> &'static str {
    match component {
        Component::Controllers => "system:serviceaccount:kube-system:job-controller",
        Component::Scheduler => "system:kube-scheduler",
        Component::Nodes => "system:phalanx:nodes",
    }
}

/// The administrator's client or, by impersonation, that of a user.
async fn client(user: Option<&str>) -> Client {
    let file = Kubeconfig::from_env().expect("the kubeconfig can be read");
    let file = file.expect("KUBECONFIG is set: `cargo xtask kube test` does that");
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.expect("the kubeconfig is valid");
    config.default_retry = false;
    config.auth_info.impersonate = user.map(str::to_owned);
    config.auth_info.impersonate_groups = user.map(|_| vec!["system:authenticated".to_owned()]);
    Client::try_from(config).expect("a client can be built from the kubeconfig")
}

/// The collections that tests leave objects in, in reverse order of the registry: Jobs before pods, nodes last. Events
/// expire, and the server creates cluster-scoped objects of its own.
fn cleanup_paths() -> impl Iterator<Item = String> {
    let is_left = |kind: &&&ApiResource| kind.namespaced || **kind == kinds::NODE;
    let stored = kinds::ALL.iter().rev().filter(|kind| !kind.is_stored_elsewhere() && **kind != kinds::EVENT);
    stored.filter(is_left).map(|kind| kind.collection_path("default"))
}

/// Deletes the objects of an earlier test. Its components have ended, so their finalizers are removed here.
async fn delete_leftovers(client: &Client) {
    let deadline = Instant::now() + CLEANUP_TIMEOUT;
    for path in cleanup_paths() {
        loop {
            let bytes = match request::get(client, &path).await {
                // A server without the kind has no objects of it.
                Err(error) if is_not_found(&error) => break,
                result => result.unwrap_or_else(|error| panic!("{path}: {error}")),
            };
            let listed: Value = serde_json::from_slice(&bytes).expect("a list is JSON");
            let items = listed["items"].as_array().cloned().unwrap_or_default();
            if items.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "{path}: {} objects of an earlier test remain", items.len());
            let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
            let _ = request::delete(client, &path, &options).await;
            for item in items.iter().filter(|item| item["metadata"]["finalizers"].is_array()) {
                let object = format!("{path}/{}", item["metadata"]["name"].as_str().unwrap_or_default());
                let patch = json!({"metadata": {"finalizers": null}});
                match request::patch(client, &object, PatchKind::Merge, &patch).await {
                    Err(error) if !is_not_found(&error) => eprintln!("{object}: {error}"),
                    _ => {}
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
