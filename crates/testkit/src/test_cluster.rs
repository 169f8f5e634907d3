//! A control plane for one test. Embedded: in one process, on the paused clock, seeded. On kube: the real control plane
//! with our components as processes, on the wall clock.

mod objects; // the objects in the cluster's namespace
mod kubelet; // pod statuses that a kubelet or an eviction writes
mod shared; // one real control plane for tests that run concurrently
mod kube_control_plane; // the real control plane
mod component_process; // a component as a process
mod rbac; // the roles of such components
mod write_recorder; // every write on a real server

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::gates::Gates;
use api::views::View;
use api::{Revision, Timestamp, kinds};
use controlplane::{Caches, Component, Config, ControlPlane, ControlPlaneEnvironment, Metrics};
use kube::Client;
use nodes::cluster::Cluster;
use runtime::Cache;
use serde_json::Value;
use store::{HistoryLimits, Op};
use tokio::time::Instant;

use self::kube_control_plane::{KubeControlPlane, Tenancy};
pub use self::shared::on_shared_test_cluster;
use crate::fault::{FaultRule, Faults, RuleId};
use crate::virtual_time;

/// Runs a test on the selected test cluster: on the paused clock, or with `PHALANX_TEST_CLUSTER=kube` on the wall clock. The
/// test begins with [`TestCluster::start`].
pub fn on_test_cluster<T>(scenario: impl Future<Output = T>) -> T {
    if !kube_control_plane::is_chosen() {
        return crate::on_paused_clock(scenario);
    }
    let _exclusive = kube_control_plane::lock_exclusive();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(scenario)
}

/// Whether the real control plane is selected, on the wall clock.
pub fn is_on_kube() -> bool {
    kube_control_plane::is_chosen()
}

/// `count` seeds on the embedded cluster; one on kube, where the seed has no effect.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    0..if kube_control_plane::is_chosen() { 1 } else { count }
}

/// A control plane for one test, and a namespace in it.
pub struct TestCluster {
    backend: TestBackend,
    faults: Faults,
    /// The namespace of its objects.
    namespace: String,
    /// How often components had been started when the test began, on a shared control plane.
    initial_starts: u32,
}

enum TestBackend {
    Embedded {
        plane: Box<ControlPlane>,
        environment: ControlPlaneEnvironment,
        _missed_wakeups: Box<NoMissedWakeups>,
    },
    /// May be shared with other tests.
    Kube(Arc<KubeControlPlane>),
}

/// Every test ends with this check: no unit waited although it fitted.
struct NoMissedWakeups(Metrics);

impl Drop for NoMissedWakeups {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.0.missed_wakeups(), 0, "units that fit were not woken");
        }
    }
}

const DEFAULT_NAMESPACE: &str = "default";

/// One write, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedWrite {
    /// Its position in the order of all writes.
    pub revision: Revision,
    /// `pods`, `batch/jobs`, ….
    pub resource: String,
    /// Whether this write created the object.
    pub created: bool,
    /// Whether this write deleted the object.
    pub deleted: bool,
    /// The object after the write.
    pub object: Value,
}

impl RecordedWrite {
    /// The object's name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The object's namespace; empty for a cluster-scoped kind.
    pub fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"].as_str().unwrap_or_default()
    }
}

impl TestCluster {
    /// All components run, with `nodes` nodes of 8 GPUs in racks of 8. Embedded, all randomness comes from `seed`. For
    /// tests that run on both test clusters: call it in [`on_test_cluster`].
    pub async fn start(seed: u64, nodes: u32) -> TestCluster {
        if kube_control_plane::is_chosen() {
            let (kube, faults) = TestCluster::start_on_kube(seed, nodes).await;
            for gate in ["GenericWorkload", "TopologyAwareWorkloadScheduling"] {
                assert!(kube.is_gate_enabled(gate).await, "this test needs a control plane with {gate} on");
            }
            return TestCluster {
                backend: TestBackend::Kube(Arc::new(kube)),
                faults,
                namespace: DEFAULT_NAMESPACE.to_owned(),
                initial_starts: 0,
            };
        }
        TestCluster::embedded(seed, Cluster::default_of(nodes)).await
    }

    /// The same with a gate off in the server, which drops the gate's fields and does not serve its kinds. Components
    /// that are processes have the gate on.
    pub async fn with_gate_off(gate: &str, seed: u64, nodes: u32) -> TestCluster {
        if kube_control_plane::is_chosen() {
            let (kube, faults) = TestCluster::start_on_kube(seed, nodes).await;
            assert!(!kube.is_gate_enabled(gate).await, "this test needs a control plane with {gate} off");
            return TestCluster {
                backend: TestBackend::Kube(Arc::new(kube)),
                faults,
                namespace: DEFAULT_NAMESPACE.to_owned(),
                initial_starts: 0,
            };
        }
        let off = Gates::from_settings(&[(gate.to_owned(), "false".to_owned())]).expect("the gate exists");
        TestCluster::with_config(seed, Config { gates: off.gates, ..Config::for_cluster(Cluster::default_of(nodes)) })
            .await
    }

    async fn start_on_kube(seed: u64, nodes: u32) -> (KubeControlPlane, Faults) {
        let faults = Faults::default();
        (KubeControlPlane::start(seed, nodes, Tenancy::Exclusive, &faults).await, faults)
    }

    /// All components run, with the nodes of `nodes`; all randomness comes from `seed`. For tests that need the paused
    /// clock, the store or the internals of components: call it on the paused clock.
    pub async fn embedded(seed: u64, nodes: Cluster) -> TestCluster {
        TestCluster::with_config(seed, Config::for_cluster(nodes)).await
    }

    /// The same with this configuration.
    pub async fn with_config(seed: u64, config: Config) -> TestCluster {
        TestCluster::starting_at("2026-01-01T00:00:00Z", seed, config).await
    }

    /// The same with a clock that starts at `origin`.
    pub async fn starting_at(origin: &str, seed: u64, config: Config) -> TestCluster {
        // A run that selects the real control plane must not take this for a test of it.
        assert!(
            !kube_control_plane::is_chosen(),
            "this test runs only on the embedded cluster: do not select it with PHALANX_TEST_CLUSTER=kube"
        );
        let origin: Timestamp = origin.parse().expect("a valid time");
        // Tests read the history, so none of it may be compacted.
        let limits = HistoryLimits { max_history_bytes: 4 << 30, max_history_age: Duration::from_secs(1 << 30) };
        let environment = virtual_time::environment(seed, origin, limits);
        let faults = Faults::default();
        let config = Config { client_wrapper: Some(faults.client_wrapper(config.client_wrapper)), ..config };
        let missed_wakeups = Box::new(NoMissedWakeups(config.metrics.clone()));
        let plane = ControlPlane::start(environment.clone(), config)
            .await
            .expect("a control plane with an empty in-memory store starts");
        TestCluster {
            backend: TestBackend::Embedded { plane: Box::new(plane), environment, _missed_wakeups: missed_wakeups },
            faults,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            initial_starts: 0,
        }
    }

    /// An administrator's client.
    pub fn client(&self) -> Client {
        match &self.backend {
            TestBackend::Embedded { plane, .. } => plane.client(),
            TestBackend::Kube(kube) => kube.client(),
        }
    }

    /// The caches of the cluster's objects; embedded, these are the ones that the components share.
    pub fn caches(&self) -> &Caches {
        match &self.backend {
            TestBackend::Embedded { plane, .. } => plane.caches(),
            TestBackend::Kube(kube) => kube.caches(),
        }
    }

    /// The cache of one kind.
    pub fn cache<V: View>(&self) -> &Cache<V> {
        self.caches().get()
    }

    /// The control plane itself. Only the embedded cluster has it in this process.
    pub fn plane(&self) -> &ControlPlane {
        match &self.backend {
            TestBackend::Embedded { plane, .. } => plane,
            TestBackend::Kube(_) => panic!("on kube the components are other processes"),
        }
    }

    /// The time on the clock that objects use.
    pub fn now(&self) -> Timestamp {
        match &self.backend {
            TestBackend::Embedded { environment, .. } => environment.clock.now(),
            TestBackend::Kube(kube) => kube.now(),
        }
    }

    /// Whether the server refuses a bind that would over-commit a node.
    pub fn checks_binds(&self) -> bool {
        matches!(self.backend, TestBackend::Embedded { .. })
    }

    /// Kills a component at any point and starts it again with empty memory.
    pub fn restart_component(&mut self, component: Component) {
        match &mut self.backend {
            TestBackend::Embedded { plane, .. } => plane.restart(component),
            TestBackend::Kube(kube) => kube.restart_component(component),
        }
    }

    /// Kills a component at any point.
    pub fn stop_component(&mut self, component: Component) {
        match &mut self.backend {
            TestBackend::Embedded { plane, .. } => plane.stop_component(component),
            TestBackend::Kube(kube) => kube.stop_component(component),
        }
    }

    /// Starts a stopped component with empty memory.
    pub fn start_component(&mut self, component: Component) {
        match &mut self.backend {
            TestBackend::Embedded { plane, .. } => plane.start_component(component),
            TestBackend::Kube(kube) => kube.start_component(component),
        }
    }

    /// The value of the annotation `phalanx.dev/run-seconds` for a pod that runs about `seconds`; shorter on the wall
    /// clock.
    pub fn scaled_seconds(&self, seconds: u32) -> String {
        let scaled = match &self.backend {
            TestBackend::Embedded { .. } => seconds,
            TestBackend::Kube(_) => seconds.div_ceil(kube_control_plane::SPEEDUP),
        };
        scaled.to_string()
    }

    /// Lets time pass; less of it on the wall clock.
    pub async fn advance(&self, time: Duration) {
        let scaled = match &self.backend {
            TestBackend::Embedded { .. } => time,
            TestBackend::Kube(_) => time / kube_control_plane::SPEEDUP,
        };
        tokio::time::sleep(scaled).await;
    }

    /// The time limit on this cluster for something that takes at most `time` on virtual time.
    pub fn scaled_timeout(&self, time: Duration) -> Duration {
        match &self.backend {
            TestBackend::Embedded { .. } => time,
            TestBackend::Kube(_) => (time * kube_control_plane::TIMEOUT_FACTOR).min(kube_control_plane::MAX_TIMEOUT),
        }
    }

    /// Adds a rule between the server and all clients but [`TestCluster::client`].
    pub fn inject_fault(&self, rule: FaultRule) -> RuleId {
        self.faults.add(rule)
    }

    /// The fault rules and their counts.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Creates the object of a manifest; panics with the server's error if it is refused.
    pub async fn create(&self, manifest: &Value) -> Value {
        self.try_create(manifest).await.unwrap_or_else(|error| panic!("{} was refused: {error}", manifest["kind"]))
    }

    /// Creates the object of a manifest.
    pub async fn try_create(&self, manifest: &Value) -> Result<Value, kube::Error> {
        let resource = manifest["kind"].as_str().and_then(kinds::by_kind);
        let resource = resource.unwrap_or_else(|| panic!("the server does not serve {}", manifest["kind"]));
        let mut manifest = manifest.clone();
        if resource.namespaced {
            manifest["metadata"]["namespace"] = self.namespace.as_str().into();
        }
        self.request("POST", &resource.collection_path(&self.namespace), &manifest).await
    }

    /// Sends a request with a JSON body and reads a JSON response.
    pub async fn request(&self, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", content);
        let request = request
            .body(serde_json::to_vec(body).expect("a value can be serialized"))
            .expect("the request is well-formed");
        self.client().request(request).await
    }

    /// Waits until `check` returns a value. After `timeout` of virtual time, or a multiple of it on the wall clock, it
    /// panics with the last writes. When it returns, [`TestCluster::history`] has every write that `check` can have
    /// seen.
    pub async fn eventually<T>(
        &self,
        what: &str,
        timeout: Duration,
        mut check: impl FnMut(&TestCluster) -> Option<T>,
    ) -> T {
        let timeout = self.scaled_timeout(timeout);
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(found) = check(self) {
                if let TestBackend::Kube(kube) = &self.backend {
                    kube.wait_until_recorded().await;
                }
                return found;
            }
            if let Some(component) = self.exited_component() {
                panic!("{what}: {component} ended unexpectedly");
            }
            assert!(Instant::now() < deadline, "{what}: timed out after {timeout:?}\n{}", self.tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn exited_component(&self) -> Option<String> {
        match &self.backend {
            TestBackend::Embedded { plane, .. } => plane.ended_task().map(str::to_owned),
            TestBackend::Kube(kube) => kube.exited_component(),
        }
    }

    /// Every write to every kind that the server serves, in order. On the real control plane: those since the start,
    /// without the ones in the namespaces of the control plane itself, and on a shared one only those in the namespace
    /// of this test.
    pub fn history(&self) -> Vec<RecordedWrite> {
        let (plane, environment) = match &self.backend {
            TestBackend::Embedded { plane, environment, .. } => (plane, environment),
            TestBackend::Kube(kube) => {
                let is_shared = self.namespace != DEFAULT_NAMESPACE;
                return kube.history(|write| if is_shared { write.namespace() == self.namespace } else { true });
            }
        };
        let resources = plane.server().resources().iter().filter(|resource| !resource.is_stored_elsewhere());
        let mut writes: Vec<RecordedWrite> =
            resources.flat_map(|resource| history_of(environment, &resource.store_name)).collect();
        writes.sort_by_key(|write| write.revision);
        writes
    }

    /// The whole history as text, one line for each write.
    pub fn transcript(&self) -> String {
        let line = |write: &RecordedWrite| format!("{} {} {}\n", write.revision, write.resource, write.object);
        self.history().iter().map(line).collect()
    }

    fn tail(&self) -> String {
        let transcript = self.transcript();
        let lines: Vec<&str> = transcript.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

/// Every write to one resource, as the store has them.
fn history_of(environment: &ControlPlaneEnvironment, resource: &Arc<str>) -> Vec<RecordedWrite> {
    let mut watcher = environment.store.watch(resource, Revision::ZERO).expect("a test's history is never compacted");
    let mut writes = Vec::new();
    // `next` is ready at once while history is left, so one poll is enough.
    while let Some(batch) = futures::FutureExt::now_or_never(watcher.next()) {
        for event in batch.expect("a test's history is never compacted") {
            writes.push(RecordedWrite {
                revision: event.object.revision,
                resource: resource.to_string(),
                created: event.previous.is_none(),
                deleted: event.op == Op::Delete,
                object: serde_json::from_slice(&event.object.bytes()).expect("the store contains JSON"),
            });
        }
    }
    writes
}
