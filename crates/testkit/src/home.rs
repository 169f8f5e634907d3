//! A control plane for one test: in one process, on the paused clock, seeded.

use std::sync::Arc;
use std::time::Duration;

use api::{Revision, Timestamp};
use controlplane::{Caches, Config, ControlPlane, Part, World};
use kube::Client;
use nodes::cluster::Cluster;
use serde_json::Value;
use store::{Limits, Op};
use tokio::time::Instant;

/// Every resource the server keeps, by its name in the store.
const RESOURCES: [&str; 8] = [
    "namespaces",
    "nodes",
    "pods",
    "events",
    "batch/jobs",
    "scheduling.k8s.io/priorityclasses",
    "scheduling.k8s.io/workloads",
    "scheduling.k8s.io/podgroups",
];

/// A control plane for one test.
pub struct Home {
    plane: ControlPlane,
    world: World,
}

/// One write, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
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

impl Change {
    /// The object's name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

impl Home {
    /// Everything runs, on the nodes of `cluster`; all randomness comes from `seed`. Call it on the paused clock.
    pub async fn embedded(seed: u64, cluster: Cluster) -> Home {
        Home::with_config(seed, Config::on(cluster)).await
    }

    /// The same with a configuration of the test's own.
    pub async fn with_config(seed: u64, config: Config) -> Home {
        let origin: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a constant");
        // History is what tests look at: none of it may be forgotten.
        let limits = Limits { history_bytes: 4 << 30, history_age: Duration::from_secs(1 << 30) };
        let world = simulator::world(seed, origin, limits);
        let plane = ControlPlane::start(world.clone(), config).await.expect("an empty in-memory home can always start");
        Home { plane, world }
    }

    /// An administrator's client.
    pub fn client(&self) -> Client {
        self.plane.client()
    }

    /// The shared caches.
    pub fn caches(&self) -> &Caches {
        self.plane.caches()
    }

    /// The control plane itself.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// The time objects carry.
    pub fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    /// Ends a part wherever it is and starts it again with nothing in memory.
    pub fn restart(&mut self, part: Part) {
        self.plane.restart(part);
    }

    /// Creates the object of a manifest; panics with the server's answer when it is refused.
    pub async fn create(&self, manifest: &Value) -> Value {
        self.try_create(manifest).await.unwrap_or_else(|error| panic!("{} was refused: {error}", manifest["kind"]))
    }

    /// Creates the object of a manifest.
    pub async fn try_create(&self, manifest: &Value) -> Result<Value, kube::Error> {
        let path = match manifest["kind"].as_str() {
            Some("Job") => "/apis/batch/v1/namespaces/default/jobs",
            Some("Pod") => "/api/v1/namespaces/default/pods",
            Some("PodGroup") => "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
            Some("Workload") => "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads",
            other => panic!("no path for kind {other:?}"),
        };
        self.request("POST", path, manifest).await
    }

    /// Sends a request with a JSON body and reads a JSON answer.
    pub async fn request(&self, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(serde_json::to_vec(body).expect("a JSON value")).expect("a well-formed request");
        self.client().request(request).await
    }

    /// Waits until `check` finds what it looks for; panics after `budget` of virtual time with everything there is.
    pub async fn eventually<T>(&self, what: &str, budget: Duration, mut check: impl FnMut(&Home) -> Option<T>) -> T {
        let deadline = Instant::now() + budget;
        loop {
            if let Some(found) = check(self) {
                return found;
            }
            if let Some(part) = self.plane.ended() {
                panic!("{what}: {part} ended by itself");
            }
            assert!(Instant::now() < deadline, "{what}: not within {budget:?}\n{}", self.tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Every write there was, in order.
    pub fn history(&self) -> Vec<Change> {
        let mut changes: Vec<Change> = RESOURCES.iter().flat_map(|resource| self.history_of(resource)).collect();
        changes.sort_by_key(|change| change.revision);
        changes
    }

    fn history_of(&self, resource: &str) -> Vec<Change> {
        let name: Arc<str> = resource.into();
        let mut watcher = self.world.store.watch(&name, Revision::ZERO).expect("a test's history is never cut");
        let mut changes = Vec::new();
        // `next` is ready at once while history is left, so one poll is enough.
        while let Some(batch) = futures::FutureExt::now_or_never(watcher.next()) {
            for event in batch.expect("a test's history is never cut") {
                changes.push(Change {
                    revision: event.object.revision,
                    resource: resource.to_owned(),
                    created: event.previous.is_none(),
                    deleted: event.op == Op::Delete,
                    object: serde_json::from_slice(&event.object.bytes).expect("the store keeps JSON"),
                });
            }
        }
        changes
    }

    /// The whole history as text, one write a line.
    pub fn transcript(&self) -> String {
        let line = |change: &Change| format!("{} {} {}\n", change.revision, change.resource, change.object);
        self.history().iter().map(line).collect()
    }

    fn tail(&self) -> String {
        let transcript = self.transcript();
        let lines: Vec<&str> = transcript.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}
