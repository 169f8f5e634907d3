//! The core on its thread and in place: the same history gives the same decisions, turn by turn.
#![allow(clippy::unwrap_used)]

use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use api::Random;
use api::views::{NodeView, ObjectKey, PodGroupView, PodView, View};
use futures::FutureExt;
use scheduler_core::Placement;
use serde_json::{Value, json};

use super::*;

/// A clock that tests advance.
struct ManualClock(Mutex<Timestamp>);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// Both modes of the core, with the same inputs.
struct CorePair {
    clock: Arc<ManualClock>,
    in_place: CoreDriver,
    on_thread: CoreDriver,
    remedies_count: usize,
}

impl CorePair {
    fn new() -> CorePair {
        let clock = Arc::new(ManualClock(Mutex::new(Timestamp::UNIX_EPOCH)));
        let driver = |core_mode| {
            // Short turns show that the remaining decisions follow.
            let config = Config { core_mode, max_decisions_per_turn: 3, ..Config::default() };
            CoreDriver::new(&config, clock.clone(), Metrics::default())
        };
        let (in_place, on_thread) = (driver(CoreMode::InPlace), driver(CoreMode::OnThread));
        CorePair { clock, in_place, on_thread, remedies_count: 0 }
    }

    fn observe(&mut self, change: ClusterChange) {
        self.in_place.observe(change.clone());
        self.on_thread.observe(change);
    }

    fn settled(&mut self, outcome: BindOutcome) {
        self.in_place.settled(outcome.clone());
        self.on_thread.settled(outcome);
    }

    /// Runs turns until no decision is left.
    async fn decisions(&mut self) -> Vec<DecisionRecord> {
        let mut all = Vec::new();
        loop {
            let decisions = self.in_place.run_turn().now_or_never().expect("in place, a turn does not wait");
            let same = self.on_thread.run_turn().await;
            assert_eq!(format!("{decisions:?}"), format!("{same:?}"));
            if self.on_thread.is_explaining() {
                self.on_thread.explained().await;
            }
            all.extend(decisions);
            if !self.in_place.has_work() {
                break;
            }
        }
        // The end of a batch causes a turn, which has nothing to decide here.
        while self.on_thread.has_work() {
            assert!(self.on_thread.run_turn().await.is_empty());
            if self.on_thread.is_explaining() {
                self.on_thread.explained().await;
            }
        }
        assert_eq!(self.in_place.due_in(), self.on_thread.due_in());
        let remedies = [self.in_place.take_remedies(), self.on_thread.take_remedies()];
        assert_eq!(remedies[0], remedies[1]);
        self.remedies_count += remedies[0].len();
        all
    }
}

fn metadata(name: &str) -> Value {
    json!({"namespace": "ns", "name": name, "uid": format!("uid-{name}")})
}

fn node(name: &str, cpu: u64) -> Arc<NodeView> {
    let resources = json!({"cpu": cpu.to_string(), "pods": "110"});
    view(&json!({"metadata": {"name": name, "uid": name}, "status": {"allocatable": resources, "capacity": resources}}))
}

fn gang(name: &str, min_count: u64) -> Arc<PodGroupView> {
    let spec = json!({"schedulingPolicy": {"gang": {"minCount": min_count}}});
    view(&json!({"metadata": metadata(name), "spec": spec}))
}

fn pod(name: &str, group: Option<&str>, node: Option<&str>) -> Arc<PodView> {
    let spec = json!({
        "schedulerName": "default-scheduler",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "schedulingGroup": group.map(|group| json!({"podGroupName": group})),
        "nodeName": node.unwrap_or_default(),
    });
    view(&json!({"metadata": metadata(name), "spec": spec}))
}

fn view<V: View>(document: &Value) -> Arc<V> {
    Arc::new(V::decode(document.to_string().as_bytes()).unwrap())
}

/// A random history: nodes, gangs and pods are created, pods are deleted, binds succeed, are observed later, or fail.
struct RandomHistory {
    random: Random,
    cores: CorePair,
    pods: Vec<Arc<PodView>>,
    binding: Vec<Placement>,
    steps: u64,
    bound: usize,
    refused: usize,
}

impl RandomHistory {
    fn chance(&self, one_in: u64) -> bool {
        self.random.below(one_in) == 0
    }

    async fn step(&mut self) {
        self.steps += 1;
        match self.random.below(8) {
            0 => {
                let node = node(&format!("n{}", self.steps), 1 + self.random.below(4));
                self.cores.observe(ClusterChange::Node { old: None, new: Some(node) });
            }
            1 => {
                let gang = gang(&format!("g{}", self.random.below(6)), 1 + self.random.below(4));
                self.cores.observe(ClusterChange::PodGroup { old: None, new: Some(gang) });
            }
            2..=4 => {
                let group = format!("g{}", self.random.below(6));
                let pod = pod(&format!("p{}", self.steps), Some(&*group).filter(|_| !self.chance(3)), None);
                self.pods.push(pod.clone());
                self.cores.observe(ClusterChange::Pod { old: None, new: Some(pod) });
            }
            5 if !self.pods.is_empty() => {
                let at = self.random.below(self.pods.len() as u64) as usize;
                let pod = self.pods.swap_remove(at);
                self.cores.observe(ClusterChange::Pod { old: Some(pod), new: None });
            }
            _ => self.settle_one(),
        }
        *self.cores.clock.0.lock().unwrap() += Duration::from_millis(self.random.below(700));
        if self.chance(2) {
            for decision in self.cores.decisions().await {
                match decision.decision.action {
                    DecisionAction::Bind(placements) => self.binding.extend(placements),
                    DecisionAction::Wait(_) => self.refused += 1,
                    DecisionAction::Release(_) => {}
                }
            }
        }
    }

    fn settle_one(&mut self) {
        let Some(Placement { pod: key, uid, node }) = self.binding.pop() else { return };
        if self.chance(3) {
            self.cores.settled(BindOutcome::Failed { pod: key, uid });
            return;
        }
        self.cores.settled(BindOutcome::Bound { pod: key.clone(), uid });
        self.bound += 1;
        if let Some(old) = self.pods.iter_mut().find(|pod| pod.metadata.key() == key) {
            let new = pod(&key.name, old.group_name(), Some(&node));
            let old = std::mem::replace(old, new.clone());
            self.cores.observe(ClusterChange::Pod { old: Some(old), new: Some(new) });
        }
    }
}

#[tokio::test]
async fn the_same_history_gives_the_same_decisions_on_the_thread_and_in_place() {
    let (mut bound, mut refused, mut remedies) = (0, 0, 0);
    for seed in 0..40 {
        println!("seed {seed}");
        let (pods, binding) = (Vec::new(), Vec::new());
        let (random, cores) = (Random::seeded(seed), CorePair::new());
        let mut history = RandomHistory { random, cores, pods, binding, steps: 0, bound: 0, refused: 0 };
        for _ in 0..150 {
            history.step().await;
        }
        bound += history.bound;
        refused += history.refused;
        remedies += history.cores.remedies_count;
    }
    assert!(bound > 100 && refused > 100, "too few decisions to compare: {bound} {refused}");
    assert!(remedies > 100, "too few searches for remedies to compare: {remedies}");
}

#[tokio::test]
async fn a_turn_without_changes_does_not_reach_the_core() {
    let mut cores = CorePair::new();
    cores.observe(ClusterChange::Node { old: None, new: Some(node("n", 2)) });
    cores.observe(ClusterChange::Pod { old: None, new: Some(pod("a", None, None)) });
    assert_eq!(cores.decisions().await.len(), 1);
    cores.settled(BindOutcome::Bound { pod: ObjectKey::new("ns", "a"), uid: "uid-a".to_owned() });
    assert!(cores.decisions().await.is_empty());
    assert_eq!((cores.in_place.inputs.len(), cores.on_thread.inputs.len()), (1, 1), "it is sent with the next change");
    cores.observe(ClusterChange::Node { old: None, new: Some(node("m", 2)) });
    cores.decisions().await;
    assert_eq!((cores.in_place.inputs.len(), cores.on_thread.inputs.len()), (0, 0));
}

#[tokio::test]
async fn a_panic_of_a_thread_reaches_the_waiting_task() {
    let mut thread = WorkerThread::<(), ()>::start("panics", |()| panic!("a defect of the core"));
    let mut call = thread.call(());
    let panic = AssertUnwindSafe(thread.output(&mut call)).catch_unwind().await.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a defect of the core"));
}

#[tokio::test]
async fn a_drop_waits_for_the_end_of_the_thread() {
    let (ended, has_ended) = channel::<()>();
    let thread = WorkerThread::<(), ()>::start("ends", move |()| {
        let _sender_lives_as_long_as_the_thread = &ended;
    });
    drop(thread);
    assert_eq!(has_ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
}

/// A driver whose explainer waits before each batch until the test sends to the channel.
fn blocked_explainer() -> (CoreDriver, std::sync::mpsc::Sender<()>) {
    let (unblock, blocked) = channel();
    let explain = move |batch: ExplainBatch| {
        blocked.recv().unwrap();
        batch.run()
    };
    let clock = Arc::new(ManualClock(Mutex::new(Timestamp::UNIX_EPOCH)));
    let config = Config { core_mode: CoreMode::OnThread, ..Config::default() };
    (CoreDriver::with_explainer(&config, clock, Metrics::default(), explain), unblock)
}

fn created(object: Arc<PodView>) -> ClusterChange {
    ClusterChange::Pod { old: None, new: Some(object) }
}

#[tokio::test]
async fn decisions_are_made_while_an_explanation_is_in_progress() {
    let (mut driver, unblock) = blocked_explainer();
    driver.observe(ClusterChange::Node { old: None, new: Some(node("n", 2)) });
    driver.observe(ClusterChange::PodGroup { old: None, new: Some(gang("g", 3)) });
    ["a", "b", "c"].into_iter().for_each(|name| driver.observe(created(pod(name, Some("g"), None))));
    let (response, mut explained) = oneshot::channel();
    let unit = Unit::Group(ObjectKey::new("ns", "g"));
    driver.request(SchedulerRequest::Explain { unit, placed: Vec::new(), response });
    let refused = driver.run_turn().await;
    assert!(matches!(refused[0].decision.action, DecisionAction::Wait(_)) && driver.is_explaining());
    // The explainer is blocked. The core binds pods, and more requests wait without causing turns.
    for name in ["x", "y"] {
        driver.observe(created(pod(name, None, None)));
        let (response, _) = oneshot::channel();
        driver.request(SchedulerRequest::Queue { response });
        let decided = driver.run_turn().await;
        assert!(
            matches!(&decided[0].decision.action, DecisionAction::Bind(placements) if placements[0].pod.name == name)
        );
        assert!(!driver.has_work() && explained.try_recv().is_err());
    }
    unblock.send(()).unwrap();
    driver.explained().await;
    // It is the explanation of the moment when it was requested: two pods of the gang fitted.
    let text = explained.await.unwrap().unwrap().lines().join("\n");
    assert!(text.contains("2 of 3 pods fit"), "{text}");
    assert!(driver.has_work(), "the end of the batch causes a turn");
    unblock.send(()).unwrap();
}

#[tokio::test]
async fn requests_beyond_a_limit_wait_in_the_channel() {
    let (mut driver, unblock) = blocked_explainer();
    let responses: Vec<_> = (0..=MAX_WAITING_REQUESTS)
        .map(|_| {
            let (response, responded) = oneshot::channel();
            driver.request(SchedulerRequest::Queue { response });
            responded
        })
        .collect();
    assert!(!driver.accepts_requests());
    driver.run_turn().await;
    assert!(driver.accepts_requests(), "all are in the batch, which has one fork");
    unblock.send(()).unwrap();
    driver.explained().await;
    for response in responses {
        assert_eq!(response.await.unwrap(), []);
    }
}
