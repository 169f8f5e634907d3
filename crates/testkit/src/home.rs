//! A control plane for one test. Embedded: in one process, on the paused clock, seeded. On kube: the real programs and our
//! parts as processes, on the wall clock.

mod inhabitants; // what lives in a home's namespace
mod kubelet; // what only a kubelet may say of a pod, said by the test
mod shared; // one real control plane for tests that run side by side
mod on_kube; // the real control plane
mod process; // a part of ours as a process
mod rights; // what such a part may do
mod record; // every write on a real server

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::gates::Gates;
use api::{Revision, Timestamp};
use controlplane::{Caches, Config, ControlPlane, Part, World};
use kube::Client;
use nodes::cluster::Cluster;
use serde_json::Value;
use store::{Limits, Op};
use tokio::time::Instant;

use self::on_kube::{Extent, Kube};
pub use self::shared::on_shared_home;
use crate::fault::{Faults, Rule, RuleId};

/// Every resource the server keeps, by its name in the store.
const RESOURCES: [&str; 9] = [
    "namespaces",
    "nodes",
    "pods",
    "events",
    "batch/cronjobs",
    "batch/jobs",
    "scheduling.k8s.io/priorityclasses",
    "scheduling.k8s.io/workloads",
    "scheduling.k8s.io/podgroups",
];

/// Runs a test where this process was told to: on the clock that jumps, or with `PHALANX_HOME=kube` on the wall clock.
/// What it does begins with [`Home::start`].
pub fn on_home<T>(scenario: impl Future<Output = T>) -> T {
    if !on_kube::is_chosen() {
        return simulator::on_virtual_time(scenario);
    }
    let _alone = on_kube::alone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(scenario)
}

/// Whether tests of both homes run on the real one, on the wall clock.
pub fn is_on_kube() -> bool {
    on_kube::is_chosen()
}

/// So many seeds on the embedded home; on kube one, because there it chooses nothing.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    0..if on_kube::is_chosen() { 1 } else { count }
}

/// A control plane for one test, and a namespace in it.
pub struct Home {
    place: Place,
    faults: Faults,
    /// Where its objects are made.
    namespace: String,
    /// How often parts had been started when it began, where others start them too.
    starts_before: u32,
}

enum Place {
    Embedded {
        plane: Box<ControlPlane>,
        world: World,
    },
    /// Shared with other tests, or not.
    Kube(Arc<Kube>),
}

const DEFAULT: &str = "default";

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
    /// Everything runs, on so many nodes of 8 GPUs, racks of 8. Embedded, all randomness comes from `seed`. For tests that
    /// hold on both homes: call it in [`on_home`].
    pub async fn start(seed: u64, nodes: u32) -> Home {
        if on_kube::is_chosen() {
            let (kube, faults) = Home::kube(seed, nodes).await;
            for gate in ["GenericWorkload", "TopologyAwareWorkloadScheduling"] {
                assert!(kube.enables(gate).await, "this test needs a control plane with {gate} on");
            }
            return Home {
                place: Place::Kube(Arc::new(kube)),
                faults,
                namespace: DEFAULT.to_owned(),
                starts_before: 0,
            };
        }
        Home::embedded(seed, Cluster::default_of(nodes)).await
    }

    /// The same where the server leaves a feature off, and drops or does not serve what belongs to it. Our parts have it on
    /// where they are processes of their own.
    pub async fn without(gate: &str, seed: u64, nodes: u32) -> Home {
        if on_kube::is_chosen() {
            let (kube, faults) = Home::kube(seed, nodes).await;
            assert!(!kube.enables(gate).await, "this test needs a control plane with {gate} off");
            return Home {
                place: Place::Kube(Arc::new(kube)),
                faults,
                namespace: DEFAULT.to_owned(),
                starts_before: 0,
            };
        }
        let off = Gates::set(&[(gate.to_owned(), "false".to_owned())]).expect("a gate that is there");
        Home::with_config(seed, Config { gates: off.gates, ..Config::on(Cluster::default_of(nodes)) }).await
    }

    async fn kube(seed: u64, nodes: u32) -> (Kube, Faults) {
        let faults = Faults::default();
        (Kube::start(seed, nodes, Extent::Alone, &faults).await, faults)
    }

    /// Everything runs, on the nodes of `cluster`; all randomness comes from `seed`. For tests that need the paused clock,
    /// the store or the parts' insides: call it on the paused clock.
    pub async fn embedded(seed: u64, cluster: Cluster) -> Home {
        Home::with_config(seed, Config::on(cluster)).await
    }

    /// The same with a configuration of the test's own.
    pub async fn with_config(seed: u64, config: Config) -> Home {
        Home::beginning_at("2026-01-01T00:00:00Z", seed, config).await
    }

    /// The same on a day of the test's own.
    pub async fn beginning_at(origin: &str, seed: u64, config: Config) -> Home {
        // Whoever chose the other home must not take this for a test of it.
        assert!(
            !on_kube::is_chosen(),
            "this test runs on the embedded home alone: leave it out where PHALANX_HOME=kube"
        );
        let origin: Timestamp = origin.parse().expect("a time");
        // History is what tests look at: none of it may be forgotten.
        let limits = Limits { history_bytes: 4 << 30, history_age: Duration::from_secs(1 << 30) };
        let world = simulator::world(seed, origin, limits);
        let faults = Faults::default();
        let config = Config { wrap: Some(faults.around(config.wrap)), ..config };
        let plane = ControlPlane::start(world.clone(), config).await.expect("an empty in-memory home can always start");
        Home {
            place: Place::Embedded { plane: Box::new(plane), world },
            faults,
            namespace: DEFAULT.to_owned(),
            starts_before: 0,
        }
    }

    /// An administrator's client.
    pub fn client(&self) -> Client {
        match &self.place {
            Place::Embedded { plane, .. } => plane.client(),
            Place::Kube(kube) => kube.client(),
        }
    }

    /// What the test sees of the cluster; embedded, these are the caches that the parts share.
    pub fn caches(&self) -> &Caches {
        match &self.place {
            Place::Embedded { plane, .. } => plane.caches(),
            Place::Kube(kube) => kube.caches(),
        }
    }

    /// The control plane itself, which only the embedded home can show.
    pub fn plane(&self) -> &ControlPlane {
        match &self.place {
            Place::Embedded { plane, .. } => plane,
            Place::Kube(_) => panic!("on kube the parts are processes of their own"),
        }
    }

    /// The time objects carry.
    pub fn now(&self) -> Timestamp {
        match &self.place {
            Place::Embedded { world, .. } => world.clock.now(),
            Place::Kube(kube) => kube.now(),
        }
    }

    /// Whether a bind that would over-commit a node is refused here, as our server does unless it is told otherwise.
    pub fn checks_binds(&self) -> bool {
        matches!(self.place, Place::Embedded { .. })
    }

    /// Ends a part wherever it is and starts it again with nothing in memory.
    pub fn restart(&mut self, part: Part) {
        match &mut self.place {
            Place::Embedded { plane, .. } => plane.restart(part),
            Place::Kube(kube) => kube.restart(part),
        }
    }

    /// Ends a part wherever it is.
    pub fn stop(&mut self, part: Part) {
        match &mut self.place {
            Place::Embedded { plane, .. } => plane.stop_part(part),
            Place::Kube(kube) => kube.stop_part(part),
        }
    }

    /// Starts a part that was stopped, with nothing in memory.
    pub fn go_on(&mut self, part: Part) {
        match &mut self.place {
            Place::Embedded { plane, .. } => plane.start_part(part),
            Place::Kube(kube) => kube.start_part(part),
        }
    }

    /// How long a pod that is to run about `seconds` runs here, for its annotation `phalanx.dev/run-seconds`.
    pub fn seconds(&self, seconds: u32) -> String {
        let here = match &self.place {
            Place::Embedded { .. } => seconds,
            Place::Kube(_) => seconds.div_ceil(on_kube::HASTE),
        };
        here.to_string()
    }

    /// Lets so much time pass in which nothing is to happen; less of it on the wall clock.
    pub async fn pass(&self, time: Duration) {
        let here = match &self.place {
            Place::Embedded { .. } => time,
            Place::Kube(_) => time / on_kube::HASTE,
        };
        tokio::time::sleep(here).await;
    }

    /// How long something may take here that takes at most `time` where nothing else is to be done.
    pub fn patience(&self, time: Duration) -> Duration {
        match &self.place {
            Place::Embedded { .. } => time,
            Place::Kube(_) => (time * on_kube::PATIENCE).min(on_kube::PATIENCE_MAX),
        }
    }

    /// From now on `rule` holds between the server and everything but [`Home::client`].
    pub fn fault(&self, rule: Rule) -> RuleId {
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
        let plural = match manifest["kind"].as_str() {
            Some("CronJob") => "cronjobs",
            Some("Job") => "jobs",
            Some("Pod") => "pods",
            Some("PodGroup") => "podgroups",
            Some("Workload") => "workloads",
            other => panic!("no path for kind {other:?}"),
        };
        let mut manifest = manifest.clone();
        manifest["metadata"]["namespace"] = self.namespace.as_str().into();
        self.request("POST", &self.path(plural), &manifest).await
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
    pub async fn eventually<T>(&self, what: &str, budget: Duration, mut check: impl FnMut(&Home) -> Option<T>) -> T {
        let budget = self.patience(budget);
        let deadline = Instant::now() + budget;
        loop {
            if let Some(found) = check(self) {
                if let Place::Kube(kube) = &self.place {
                    kube.recorded().await;
                }
                return found;
            }
            if let Some(part) = self.ended_part() {
                panic!("{what}: {part} ended by itself");
            }
            assert!(Instant::now() < deadline, "{what}: not within {budget:?}\n{}", self.tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn ended_part(&self) -> Option<String> {
        match &self.place {
            Place::Embedded { plane, .. } => plane.ended().map(str::to_owned),
            Place::Kube(kube) => kube.ended(),
        }
    }

    /// Every write there was, in order; on kube, every one since the start, and of a home that is shared only those in its
    /// namespace.
    pub fn history(&self) -> Vec<Change> {
        let world = match &self.place {
            Place::Embedded { world, .. } => world,
            Place::Kube(kube) if self.namespace == DEFAULT => return kube.history(|_| true),
            Place::Kube(kube) => {
                return kube.history(|change| change.object["metadata"]["namespace"] == *self.namespace);
            }
        };
        let mut changes: Vec<Change> = RESOURCES.iter().flat_map(|resource| history_of(world, resource)).collect();
        changes.sort_by_key(|change| change.revision);
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

/// Every write to one resource, as the store keeps them.
fn history_of(world: &World, resource: &str) -> Vec<Change> {
    let name: Arc<str> = resource.into();
    let mut watcher = world.store.watch(&name, Revision::ZERO).expect("a test's history is never cut");
    let mut changes = Vec::new();
    // `next` is ready at once while history is left, so one poll is enough.
    while let Some(batch) = futures::FutureExt::now_or_never(watcher.next()) {
        for event in batch.expect("a test's history is never cut") {
            changes.push(Change {
                revision: event.object.revision,
                resource: resource.to_owned(),
                created: event.previous.is_none(),
                deleted: event.op == Op::Delete,
                object: serde_json::from_slice(&event.object.bytes()).expect("the store keeps JSON"),
            });
        }
    }
    changes
}
