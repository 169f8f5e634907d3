//! One real control plane for tests that run concurrently, each in its own namespace.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use controlplane::Config;
use nodes::cluster::Cluster;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use super::kube_control_plane::{KubeControlPlane, Tenancy};
use super::{TestBackend, TestCluster, kube_control_plane};
use crate::fault::Faults;

const SEED: u64 = 17;
/// Enough for all concurrent tests: full nodes are the subject of other tests.
const NODES: u32 = 16;

/// Runs a test in its own namespace, with all components and enough nodes: on the paused clock, or with
/// `PHALANX_TEST_CLUSTER=kube` on a control plane that it shares with concurrent tests.
pub fn on_shared_test_cluster<T>(scenario: impl AsyncFnOnce(TestCluster) -> T) -> T {
    if !kube_control_plane::is_chosen() {
        return crate::on_paused_clock(async {
            let cluster = TestCluster::with_config(SEED, Config::for_cluster(Cluster::default_of(NODES))).await;
            scenario(cluster.in_new_namespace("lab").await).await
        });
    }
    // It runs the proxies of the components, which outlive the test that started them.
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime can be built")
    });
    runtime.block_on(async {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let (kube, faults) = shared_control_plane().await;
        let starts_before = kube.component_starts();
        let cluster = TestCluster {
            backend: TestBackend::Kube(kube),
            faults,
            namespace: String::new(),
            initial_starts: starts_before,
        };
        scenario(cluster.in_new_namespace(&format!("lab-{}", COUNT.fetch_add(1, Ordering::Relaxed))).await).await
    })
}

/// The current control plane, or a new one if no test has one.
async fn shared_control_plane() -> (Arc<KubeControlPlane>, Faults) {
    static SHARED: Mutex<Option<(Weak<KubeControlPlane>, Faults)>> = Mutex::const_new(None);
    let mut shared = SHARED.lock().await;
    if let Some((kube, faults)) = &*shared
        && let Some(kube) = kube.upgrade()
    {
        return (kube, faults.clone());
    }
    let faults = Faults::default();
    let kube = Arc::new(KubeControlPlane::start(SEED, NODES, Tenancy::Shared, &faults).await);
    *shared = Some((Arc::downgrade(&kube), faults.clone()));
    (kube, faults)
}

impl TestCluster {
    /// The same control plane, in a new namespace.
    async fn in_new_namespace(self, namespace: &str) -> TestCluster {
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.request("POST", "/api/v1/namespaces", &manifest).await.expect("the namespace does not exist yet");
        TestCluster { namespace: namespace.to_owned(), ..self }
    }

    /// The backoff after a pod's first failure.
    pub fn pod_backoff(&self) -> Duration {
        match &self.backend {
            TestBackend::Embedded { .. } => Config::for_cluster(Cluster::default()).job.pod_backoff.initial,
            TestBackend::Kube(_) => kube_control_plane::POD_BACKOFF,
        }
    }

    /// Whether another test may have killed the controllers since this one began.
    pub(super) fn may_controllers_have_restarted(&self) -> bool {
        match &self.backend {
            TestBackend::Embedded { .. } => false,
            TestBackend::Kube(kube) => kube.component_starts() > self.initial_starts,
        }
    }

    /// Whether the garbage collector is ours.
    pub fn has_own_gc(&self) -> bool {
        matches!(self.backend, TestBackend::Embedded { .. })
    }
}
