//! A control plane for one test. Embedded: in one process, on the paused clock, seeded. On kube: the real programs and our
//! parts as processes, on the wall clock.

mod kinds; // the kinds of objects, as the server lists them
mod objects; // the objects in the cluster's namespace
mod kubelet; // what only a kubelet may say of a pod, said by the test
mod shared; // one real control plane for tests that run side by side
mod kube_control_plane; // the real control plane
mod component_process; // a part of ours as a process
mod rbac; // what such a part may do
mod write_recorder; // every write on a real server

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::gates::Gates;
use api::{Revision, Timestamp};
use controlplane::{Caches, Component, Config, ControlPlane, ControlPlaneEnvironment};
use kube::Client;
use nodes::cluster::Cluster;
use serde_json::Value;
use store::{HistoryLimits, Op};
use tokio::time::Instant;

use self::kube_control_plane::{KubeControlPlane, Tenancy};
pub use self::shared::on_shared_test_cluster;
use crate::fault::{FaultRule, Faults, RuleId};
use crate::virtual_time;

/// Runs a test where this process was told to: on the clock that jumps, or with `PHALANX_HOME=kube` on the wall clock.
/// What it does begins with [`Home::start`].
pub fn on_test_cluster<T>(scenario: impl Future<Output = T>) -> T {
    if !kube_control_plane::is_chosen() {
        return crate::on_paused_clock(scenario);
    }
    let _alone = kube_control_plane::lock_exclusive();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(scenario)
}

/// Whether tests of both homes run on the real one, on the wall clock.
pub fn is_on_kube() -> bool {
    kube_control_plane::is_chosen()
}

/// So many seeds on the embedded home; on kube one, because there it chooses nothing.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    0..if kube_control_plane::is_chosen() { 1 } else { count }
}

/// A control plane for one test, and a namespace in it.
pub struct TestCluster {
    backend: TestBackend,
    faults: Faults,
    /// Where its objects are made.
    namespace: String,
    /// How often parts had been started when it began, where others start them too.
    initial_starts: u32,
}

enum TestBackend {
    Embedded {
        plane: Box<ControlPlane>,
        environment: ControlPlaneEnvironment,
    },
    /// Shared with other tests, or not.
    Kube(Arc<KubeControlPlane>),
}

const DEFAULT_NAMESPACE: &str = "default";

/// One write, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedWrite {
    /// Its place in the order of all writes.
    pub revision: Revision,
    /// `pods`, `batch/jobs`, ….
    pub resource: String,
    /// Whether this write made the object.
    pub created: bool,
    /// Whether this write removed the object.
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
    /// Everything runs, on so many nodes of 8 GPUs, racks of 8. Embedded, all randomness comes from `seed`. For tests that
    /// hold on both homes: call it in [`on_home`].
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

    /// The same where the server leaves a feature off, and drops or does not serve what belongs to it. Our parts have it on
    /// where they are processes of their own.
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
        let off = Gates::from_settings(&[(gate.to_owned(), "false".to_owned())]).expect("a gate that is there");
        TestCluster::with_config(seed, Config { gates: off.gates, ..Config::for_cluster(Cluster::default_of(nodes)) })
            .await
    }

    async fn start_on_kube(seed: u64, nodes: u32) -> (KubeControlPlane, Faults) {
        let faults = Faults::default();
        (KubeControlPlane::start(seed, nodes, Tenancy::Exclusive, &faults).await, faults)
    }

    /// Everything runs, on the nodes of `cluster`; all randomness comes from `seed`. For tests that need the paused clock,
    /// the store or the parts' insides: call it on the paused clock.
    pub async fn embedded(seed: u64, cluster: Cluster) -> TestCluster {
        TestCluster::with_config(seed, Config::for_cluster(cluster)).await
    }

    /// The same with a configuration of the test's own.
    pub async fn with_config(seed: u64, config: Config) -> TestCluster {
        TestCluster::starting_at("2026-01-01T00:00:00Z", seed, config).await
    }

    /// The same on a day of the test's own.
    pub async fn starting_at(origin: &str, seed: u64, config: Config) -> TestCluster {
        // A run that selects the real control plane must not take this for a test of it.
        assert!(
            !kube_control_plane::is_chosen(),
            "this test runs on the embedded home alone: leave it out where PHALANX_HOME=kube"
        );
        let origin: Timestamp = origin.parse().expect("a time");
        // History is what tests look at: none of it may be forgotten.
        let limits = HistoryLimits { max_history_bytes: 4 << 30, max_history_age: Duration::from_secs(1 << 30) };
        let environment = virtual_time::environment(seed, origin, limits);
        let faults = Faults::default();
        let config = Config { client_wrapper: Some(faults.client_wrapper(config.client_wrapper)), ..config };
        let plane =
            ControlPlane::start(environment.clone(), config).await.expect("an empty in-memory home can always start");
        TestCluster {
            backend: TestBackend::Embedded { plane: Box::new(plane), environment },
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

    /// What the test sees of the cluster; embedded, these are the caches that the parts share.
    pub fn caches(&self) -> &Caches {
        match &self.backend {
            TestBackend::Embedded { plane, .. } => plane.caches(),
            TestBackend::Kube(kube) => kube.caches(),
        }
    }

    /// The control plane itself, which only the embedded home can show.
    pub fn plane(&self) -> &ControlPlane {
        match &self.backend {
            TestBackend::Embedded { plane, .. } => plane,
            TestBackend::Kube(_) => panic!("on kube the parts are processes of their own"),
        }
    }

    /// The time objects carry.
    pub fn now(&self) -> Timestamp {
        match &self.backend {
            TestBackend::Embedded { environment, .. } => environment.clock.now(),
            TestBackend::Kube(kube) => kube.now(),
        }
    }

    /// Whether a bind that would over-commit a node is refused here, as our server does unless it is told otherwise.
    pub fn checks_binds(&self) -> bool {
        matches!(self.backend, TestBackend::Embedded { .. })
    }

    /// Ends a part wherever it is and starts it again with nothing in memory.
    pub fn restart_component(&mut self, part: Component) {
        match &mut self.backend {
            TestBackend::Embedded { plane, .. } => plane.restart(part),
            TestBackend::Kube(kube) => kube.restart_component(part),
        }
    }

    /// Ends a part wherever it is.
    pub fn stop_component(&mut self, part: Component) {
        match &mut self.backend {
            TestBackend::Embedded { plane, .. } => plane.stop_component(part),
            TestBackend::Kube(kube) => kube.stop_component(part),
        }
    }

    /// Starts a part that was stopped, with nothing in memory.
    pub fn start_component(&mut self, part: Component) {
        match &mut self.backend {
            TestBackend::Embedded { plane, .. } => plane.start_component(part),
            TestBackend::Kube(kube) => kube.start_component(part),
        }
    }

    /// How long a pod that is to run about `seconds` runs here, for its annotation `phalanx.dev/run-seconds`.
    pub fn scaled_seconds(&self, seconds: u32) -> String {
        let here = match &self.backend {
            TestBackend::Embedded { .. } => seconds,
            TestBackend::Kube(_) => seconds.div_ceil(kube_control_plane::SPEEDUP),
        };
        here.to_string()
    }

    /// Lets so much time pass in which nothing is to happen; less of it on the wall clock.
    pub async fn advance(&self, time: Duration) {
        let here = match &self.backend {
            TestBackend::Embedded { .. } => time,
            TestBackend::Kube(_) => time / kube_control_plane::SPEEDUP,
        };
        tokio::time::sleep(here).await;
    }

    /// How long something may take here that takes at most `time` where nothing else is to be done.
    pub fn scaled_timeout(&self, time: Duration) -> Duration {
        match &self.backend {
            TestBackend::Embedded { .. } => time,
            TestBackend::Kube(_) => (time * kube_control_plane::TIMEOUT_FACTOR).min(kube_control_plane::MAX_TIMEOUT),
        }
    }

    /// From now on `rule` holds between the server and everything but [`Home::client`].
    pub fn inject_fault(&self, rule: FaultRule) -> RuleId {
        self.faults.add(rule)
    }

    /// What goes wrong, and what each rule has counted.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Creates the object of a manifest; panics with the server's answer when it is refused.
    pub async fn create(&self, manifest: &Value) -> Value {
        self.try_create(manifest).await.unwrap_or_else(|error| panic!("{} was refused: {error}", manifest["kind"]))
    }

    /// Creates the object of a manifest.
    pub async fn try_create(&self, manifest: &Value) -> Result<Value, kube::Error> {
        let resource = kinds::all().iter().find(|resource| manifest["kind"] == resource.kind);
        let resource = resource.unwrap_or_else(|| panic!("the server does not serve {}", manifest["kind"]));
        let mut manifest = manifest.clone();
        if resource.namespaced {
            manifest["metadata"]["namespace"] = self.namespace.as_str().into();
        }
        self.request("POST", &kinds::collection_in(resource, &self.namespace), &manifest).await
    }

    /// Sends a request with a JSON body and reads a JSON answer.
    pub async fn request(&self, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(serde_json::to_vec(body).expect("a JSON value")).expect("a well-formed request");
        self.client().request(request).await
    }

    /// Waits until `check` finds what it looks for; panics after `budget` of virtual time, or a multiple of it on the wall
    /// clock, with everything there is. When it returns, [`Home::history`] has all that `check` can have seen.
    pub async fn eventually<T>(
        &self,
        what: &str,
        budget: Duration,
        mut check: impl FnMut(&TestCluster) -> Option<T>,
    ) -> T {
        let budget = self.scaled_timeout(budget);
        let deadline = Instant::now() + budget;
        loop {
            if let Some(found) = check(self) {
                if let TestBackend::Kube(kube) = &self.backend {
                    kube.wait_until_recorded().await;
                }
                return found;
            }
            if let Some(part) = self.exited_component() {
                panic!("{what}: {part} ended by itself");
            }
            assert!(Instant::now() < deadline, "{what}: not within {budget:?}\n{}", self.tail());
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
    /// without the ones in the namespaces of the control plane itself, and on a shared one only those in the namespace of
    /// this test.
    pub fn history(&self) -> Vec<RecordedWrite> {
        let (plane, environment) = match &self.backend {
            TestBackend::Embedded { plane, environment } => (plane, environment),
            TestBackend::Kube(kube) => {
                let is_shared = self.namespace != DEFAULT_NAMESPACE;
                return kube.history(|write| if is_shared { write.namespace() == self.namespace } else { true });
            }
        };
        let resources = kinds::stored(plane.server().resources());
        let mut writes: Vec<RecordedWrite> =
            resources.flat_map(|resource| history_of(environment, &resource.store_name)).collect();
        writes.sort_by_key(|write| write.revision);
        writes
    }

    /// The whole history as text, one write a line.
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
