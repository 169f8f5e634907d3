//! Jobs and gangs while things go wrong between the parts and the server, and what holds all the same (promise 9).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::Random;
use api::views::{Condition, JobView};
use controlplane::{Component, Config, Health, RemoteComponents};
use nodes::cluster::Cluster;
use runtime::{Backoff, TokioClock};
use serde_json::{Value, json};
use testkit::fault::{
    EventFault, Fault, FaultRule, InjectedStatus, Proxy, RequestMatcher, RuleId, Verb, all_requests, events_of, verb,
    writes,
};
use testkit::{RecordedWrite, TestCluster, job, on_paused_clock};

/// Within this everything has ended, however often it was tried again.
const BUDGET: Duration = Duration::from_secs(600);
const BUSY: InjectedStatus = InjectedStatus::TooManyRequests { retry_after_seconds: 1 };

/// Every kind that a cache is kept of, namespaces aside.
const KINDS: [&str; 5] = ["pods", "batch/jobs", "nodes", "scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups"];

/// What may happen to one write of a part: never or at last, and the part is told so or not.
const FAULTS: [Fault; 4] = [
    Fault::Cut,
    Fault::CutResponse,
    Fault::Respond(InjectedStatus::Conflict),
    Fault::RespondAfter(InjectedStatus::Timeout),
];

/// One of each sort, where more would only cost time.
const REPRESENTATIVE_FAULTS: [Fault; 2] = [Fault::CutResponse, Fault::Respond(InjectedStatus::Conflict)];

/// A Job, and what is to become of it whatever goes wrong. It has more work than places.
#[derive(Clone, Copy, Debug)]
struct TestJob {
    name: &'static str,
    parallelism: usize,
    completions: usize,
    /// Whether each of its pods has an index.
    indexed: bool,
    /// Whether its pods succeed.
    succeeds: bool,
    /// How many pods it takes.
    pods: usize,
}

const INDEXED: TestJob =
    TestJob { name: "indexed", parallelism: 3, completions: 5, indexed: true, succeeds: true, pods: 5 };
const PLAIN: TestJob = TestJob { name: "plain", indexed: false, ..INDEXED };
const FAILING: TestJob = TestJob { name: "failing", parallelism: 1, succeeds: false, pods: 3, ..PLAIN };

impl TestJob {
    /// A gang Job of pods that take two seconds and two GPUs each.
    fn manifest(&self) -> Value {
        let job =
            job(self.name).spec("parallelism", self.parallelism).spec("completions", self.completions).gang().gpus(2);
        let job = if self.indexed { job.indexed() } else { job };
        // As many failures as are forgiven, and one more.
        let job = job.spec("backoffLimit", self.pods - 1).annotate("phalanx.dev/run-seconds", "2");
        job.annotate("phalanx.dev/exit-code", if self.succeeds { "0" } else { "1" }).build()
    }
}

/// A Job under way.
struct JobRun {
    work: TestJob,
    cluster: TestCluster,
    rules: Vec<RuleId>,
}

/// The same after its end.
struct FinishedRun {
    work: TestJob,
    cluster: TestCluster,
    job: Arc<JobView>,
    rules: Vec<RuleId>,
}

impl JobRun {
    /// Posts the Job, under `rules`.
    async fn begin(work: TestJob, rules: impl IntoIterator<Item = FaultRule>) -> JobRun {
        let cluster = TestCluster::embedded(7, Cluster::default_of(1)).await;
        let rules = rules.into_iter().map(|rule| cluster.inject_fault(rule)).collect();
        cluster.create(&work.manifest()).await;
        JobRun { work, cluster, rules }
    }

    async fn wait_until_ended(self, case: &str) -> FinishedRun {
        let JobRun { work, cluster, rules } = self;
        let job = cluster.eventually(case, BUDGET, finished_job).await;
        FinishedRun { work, cluster, job, rules }
    }
}

/// Runs the indexed Job under `rules` to its end.
async fn run(case: &str, rules: impl IntoIterator<Item = FaultRule>) -> FinishedRun {
    JobRun::begin(INDEXED, rules).await.wait_until_ended(case).await
}

/// The Job, once it has ended and let go of its pods.
fn finished_job(cluster: &TestCluster) -> Option<Arc<JobView>> {
    let job = cluster.caches().jobs.all().pop()?;
    let ended = ["Complete", "Failed"].iter().any(|kind| Condition::is_true(&job.status.conditions, kind));
    let held = cluster.caches().pods.all().iter().any(|pod| !pod.metadata.finalizers.is_empty());
    (ended && !held).then_some(job)
}

/// How many writes of a run in which nothing goes wrong are `of` these.
fn count_writes(work: TestJob, of: &RequestMatcher) -> u64 {
    let writes = on_paused_clock(async {
        let case = format!("nothing goes wrong for the {} Job", work.name);
        let ran = JobRun::begin(work, [FaultRule::on(of.clone(), Fault::Count)]).await.wait_until_ended(&case).await;
        ran.assert_exact_at_every_write(&case);
        ran.times_applied(0)
    });
    assert!(writes > 0, "a test of nothing");
    writes
}

/// Runs the Job once for each of `faults` and each of its writes that are `of` these, and lets just that one go wrong.
fn at_every_write(work: TestJob, of: RequestMatcher, faults: &[Fault], check: impl Fn(&FinishedRun, &str)) {
    let writes = count_writes(work, &of);
    for fault in faults {
        for n in 1..=writes {
            on_paused_clock(async {
                let case = format!("{} Job, {fault:?} at write {n} of {writes}", work.name);
                let ran = JobRun::begin(work, [FaultRule::on(of.clone(), fault.clone()).nth(n)])
                    .await
                    .wait_until_ended(&case)
                    .await;
                assert_eq!(ran.times_applied(0), 1, "{case}");
                check(&ran, &case);
            });
        }
    }
}

impl FinishedRun {
    /// How often the rule at `position` was done.
    fn times_applied(&self, position: usize) -> u64 {
        self.cluster.faults().counts(self.rules[position]).applied
    }

    /// What holds in the end, whatever went wrong before.
    fn assert_end_state(&self, case: &str) {
        let (TestJob { completions, indexed, succeeds, pods, .. }, status) = (self.work, &self.job.status);
        let verdict = if succeeds { "Complete" } else { "Failed" };
        assert!(Condition::is_true(&status.conditions, verdict), "{case}: {status:?}");
        let counts = (status.succeeded as usize, status.failed as usize, status.active);
        assert_eq!(counts, if succeeds { (completions, 0, 0) } else { (0, pods, 0) }, "{case}");
        let indexes = if indexed { format!("0-{}", completions - 1) } else { String::new() };
        assert_eq!(status.completed_indexes, indexes, "{case}");
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        assert!(uncounted.succeeded.is_empty() && uncounted.failed.is_empty(), "{case}: {uncounted:?}");
        let caches = self.cluster.caches();
        assert_eq!((caches.workloads.all().len(), caches.pod_groups.all().len()), (1, 1), "{case}: made once");
        assert!(caches.pods.all().iter().all(|pod| pod.group_name().is_some()), "{case}: no pod outside the group");
        assert_eq!(caches.pods.all().len(), pods, "{case}: nothing is left over");
    }

    /// What holds at every moment as well.
    fn assert_exact_at_every_write(&self, case: &str) {
        self.assert_end_state(case);
        let history = self.cluster.history();
        let peak = pods_over_time(&history, is_active).into_iter().map(|pods| pods.len()).max();
        assert_eq!(peak, Some(self.work.parallelism), "{case}: as many pods as asked for, and never more");
        let made = history.iter().filter(|change| change.resource == "pods" && change.created).count();
        assert_eq!(made, self.work.pods, "{case}: no pod in vain");
    }
}

fn is_active(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_string()
        && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// After every write of a pod, the pods that `count`, as they are then.
fn pods_over_time(history: &[RecordedWrite], count: fn(&Value) -> bool) -> Vec<Vec<&Value>> {
    let mut pods: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut moments = Vec::new();
    for change in history.iter().filter(|change| change.resource == "pods") {
        if change.deleted {
            pods.remove(change.name());
        } else {
            pods.insert(change.name(), &change.object);
        }
        moments.push(pods.values().copied().filter(|pod| count(pod)).collect());
    }
    moments
}

/// Writes of one part, its Events aside: those are told or lost, and nobody waits for them.
fn writes_of(part: &str) -> RequestMatcher {
    writes().by_user(part).not_on_resource("events")
}

#[test]
fn a_job_is_counted_exactly_whichever_controller_write_fails() {
    at_every_write(INDEXED, writes_of("job-controller"), &FAULTS, FinishedRun::assert_exact_at_every_write);
    for work in [PLAIN, FAILING] {
        at_every_write(
            work,
            writes_of("job-controller"),
            &REPRESENTATIVE_FAULTS,
            FinishedRun::assert_exact_at_every_write,
        );
    }
}

#[test]
fn a_job_is_counted_exactly_whichever_scheduler_write_fails() {
    at_every_write(
        INDEXED,
        writes_of("kube-scheduler"),
        &REPRESENTATIVE_FAULTS,
        FinishedRun::assert_exact_at_every_write,
    );
}

#[test]
fn a_job_is_counted_exactly_whichever_node_write_fails() {
    at_every_write(INDEXED, writes_of("nodes"), &REPRESENTATIVE_FAULTS, FinishedRun::assert_exact_at_every_write);
}

// Shows: S000-35
#[test]
fn a_component_that_crashes_at_any_write_resumes() {
    for (part, user) in [
        (Component::Controllers, "job-controller"),
        (Component::Scheduler, "kube-scheduler"),
        (Component::Nodes, "nodes"),
    ] {
        let of = writes_of(user);
        let writes = count_writes(INDEXED, &of);
        // The write is under way for ever; then its part ends.
        for fault in [Fault::Delay(BUDGET), Fault::DelayResponse(BUDGET)] {
            for n in 1..=writes {
                on_paused_clock(async {
                    let case = format!("{part:?} ends with {fault:?} at write {n} of {writes}");
                    let mut run = JobRun::begin(INDEXED, [FaultRule::on(of.clone(), fault.clone()).nth(n)]).await;
                    let rule = run.rules[0];
                    let reached = |cluster: &TestCluster| (cluster.faults().counts(rule).applied == 1).then_some(());
                    run.cluster.eventually(&case, BUDGET, reached).await;
                    run.cluster.restart_component(part);
                    run.wait_until_ended(&case).await.assert_exact_at_every_write(&case);
                });
            }
        }
    }
}

// A create that comes twice makes two pods when the server draws their names; one of them has to go again.
#[test]
fn a_duplicated_write_does_not_change_the_end_state() {
    for part in ["job-controller", "kube-scheduler", "nodes"] {
        at_every_write(INDEXED, writes_of(part), &[Fault::Repeat], FinishedRun::assert_end_state);
    }
}

#[test]
fn a_job_is_counted_exactly_while_one_write_in_five_fails() {
    for seed in 0..8 {
        on_paused_clock(async {
            let case = format!("seed {seed}");
            let busy = [
                Fault::Respond(BUSY),
                Fault::Respond(InjectedStatus::Unavailable),
                Fault::RespondAfter(InjectedStatus::InternalError),
            ];
            let faults = FAULTS.into_iter().chain(busy).zip(0..);
            let rules = faults.map(|(fault, nth)| {
                FaultRule::on(writes().not_on_resource("events"), fault).with_chance(30, seed * 10 + nth)
            });
            let ran = run(&case, rules).await;
            let hit: u64 = (0..ran.rules.len()).map(|position| ran.times_applied(position)).sum();
            assert!(hit > 0, "{case}: a test of nothing");
            ran.assert_exact_at_every_write(&case);
        });
    }
}

#[test]
fn conflicts_and_429_delay_status_writes_and_lose_none() {
    for refusal in [InjectedStatus::Conflict, BUSY, InjectedStatus::Unavailable] {
        on_paused_clock(async {
            let case = format!("{refusal:?}");
            let rule = FaultRule::on(writes().on_subresource("status"), Fault::Respond(refusal)).first_n(10);
            let ran = run(&case, [rule]).await;
            assert_eq!(ran.times_applied(0), 10, "{case}");
            ran.assert_exact_at_every_write(&case);
        });
    }
}

#[test]
fn a_stalled_watch_never_causes_extra_pods() {
    for kind in KINDS {
        for nth in [1, 2, 4, 7, 12] {
            for seconds in [5, 30] {
                on_paused_clock(async {
                    let case = format!("{kind} frozen for {seconds} s at event {nth}");
                    let freeze = EventFault::Delay(Duration::from_secs(seconds));
                    let ran = run(&case, [FaultRule::on_events(events_of(kind), freeze).nth(nth)]).await;
                    ran.assert_exact_at_every_write(&case);
                });
            }
        }
    }
}

#[test]
fn a_broken_watch_resumes_where_it_ended() {
    for fault in [EventFault::Cut, EventFault::Expire] {
        for nth in 1..20 {
            on_paused_clock(async {
                let case = format!("{fault:?} at event {nth} of every kind");
                let rules = KINDS.map(|kind| FaultRule::on_events(events_of(kind), fault).nth(nth));
                let ran = run(&case, rules).await;
                assert_eq!(ran.times_applied(0), 1, "{case}: pods have more events than that");
                ran.assert_exact_at_every_write(&case);
            });
        }
    }
}

#[test]
fn duplicate_events_change_nothing() {
    on_paused_clock(async {
        let ran =
            run("every event twice", KINDS.map(|kind| FaultRule::on_events(events_of(kind), EventFault::Repeat))).await;
        assert!((0..KINDS.len()).filter(|&kind| KINDS[kind] != "nodes").all(|kind| ran.times_applied(kind) > 0));
        ran.assert_exact_at_every_write("every event twice");
    });
}

#[test]
fn a_job_is_counted_exactly_while_events_are_reordered() {
    for seed in 0..10 {
        on_paused_clock(async {
            let case = format!("seed {seed}");
            let late = EventFault::Postpone(Duration::from_secs(1));
            let rules = KINDS.map(|kind| FaultRule::on_events(events_of(kind), late).with_chance(400, seed));
            let run = JobRun::begin(INDEXED, rules).await;
            clear_faults_after(&run.cluster, Duration::from_secs(60)).await;
            let ran = run.wait_until_ended(&case).await;
            assert!(ran.times_applied(0) > 0, "{case}: a test of nothing");
            ran.assert_exact_at_every_write(&case);
        });
    }
}

// No server does this. A pod that is missing from the watch for good is not made again in its place.
#[test]
fn a_job_is_counted_exactly_when_events_are_lost() {
    for seed in 0..10 {
        on_paused_clock(async {
            let case = format!("seed {seed}");
            let rules =
                KINDS.map(|kind| FaultRule::on_events(events_of(kind), EventFault::Drop).with_chance(200, seed));
            let run = JobRun::begin(INDEXED, rules).await;
            clear_faults_after(&run.cluster, Duration::from_secs(20)).await;
            let ran = run.wait_until_ended(&case).await;
            assert!((0..KINDS.len()).any(|kind| ran.times_applied(kind) > 0), "{case}: a test of nothing");
            ran.assert_exact_at_every_write(&case);
        });
    }
}

/// Ends all faults after so long; what a watch has lost for good by then comes back with the next list.
async fn clear_faults_after(cluster: &TestCluster, after: Duration) {
    tokio::time::sleep(after).await;
    cluster.faults().clear();
    for kind in KINDS {
        cluster.inject_fault(
            FaultRule::on(verb(Verb::Watch).on_resource(kind), Fault::Respond(InjectedStatus::Expired)).first_n(1),
        );
    }
}

fn holds_a_node(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string() && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// The group of each pod, in the order in which they got their nodes.
fn bound_in_order(history: &[RecordedWrite]) -> Vec<&str> {
    let mut bound = BTreeSet::new();
    let pods = history.iter().filter(|change| change.resource == "pods" && holds_a_node(&change.object));
    let first = pods.filter(|change| bound.insert(change.name().to_owned()));
    first.map(|change| change.object["spec"]["schedulingGroup"]["podGroupName"].as_str().unwrap()).collect()
}

// Two gangs, each with six of the node's eight GPUs: there is only ever room for one.
#[test]
fn gangs_stay_whole_and_nodes_within_capacity_whichever_bind_fails() {
    for fault in [
        Fault::Cut,
        Fault::CutResponse,
        Fault::Respond(InjectedStatus::Conflict),
        Fault::RespondAfter(InjectedStatus::Timeout),
    ] {
        for n in 1..=6 {
            on_paused_clock(async {
                let case = format!("{fault:?} at bind {n}");
                let cluster = TestCluster::embedded(7, Cluster::default_of(1)).await;
                let rule = cluster.inject_fault(
                    FaultRule::on(writes().on_resource("pods").on_subresource("binding"), fault.clone()).nth(n),
                );
                for name in ["red", "blue"] {
                    let gang = job(name).pods(3).indexed().gang().gpus(2).annotate("phalanx.dev/run-seconds", "5");
                    cluster.create(&gang.build()).await;
                }
                cluster
                    .eventually(&case, BUDGET, |cluster| {
                        cluster.caches().jobs.all().iter().all(|job| job.status.succeeded == 3).then_some(())
                    })
                    .await;
                assert_eq!(cluster.faults().counts(rule).applied, 1, "{case}");
                let history = cluster.history();
                let most = pods_over_time(&history, holds_a_node).into_iter().map(|pods| pods.len()).max();
                assert!(most <= Some(4), "{case}: more than eight GPUs in use");
                let mut gangs = bound_in_order(&history);
                gangs.dedup();
                assert_eq!(gangs.len(), 2, "{case}: one gang begins before the other is whole: {gangs:?}");
            });
        }
    }
}

#[test]
fn deleting_a_job_deletes_everything_whichever_garbage_collector_request_fails() {
    let of = || all_requests().by_user("generic-garbage-collector");
    let delete = async |case: &str, rule: FaultRule| {
        let cluster = TestCluster::embedded(7, Cluster::default_of(1)).await;
        cluster.create(&job("gone").pods(3).gang().annotate("phalanx.dev/run-seconds", "1000").build()).await;
        cluster
            .eventually(case, BUDGET, |cluster| {
                cluster.caches().jobs.all().pop().filter(|job| job.status.ready == Some(3))
            })
            .await;
        let rule = cluster.inject_fault(rule);
        let path = "/apis/batch/v1/namespaces/default/jobs/gone";
        cluster.request("DELETE", path, &json!({"propagationPolicy": "Background"})).await.unwrap();
        cluster
            .eventually(case, BUDGET, |cluster| {
                let caches = cluster.caches();
                let left = caches.pods.all().len() + caches.pod_groups.all().len() + caches.workloads.all().len();
                (left == 0 && caches.jobs.all().is_empty()).then_some(())
            })
            .await;
        cluster.faults().counts(rule).applied
    };
    let asked = on_paused_clock(delete("nothing goes wrong", FaultRule::on(of(), Fault::Count)));
    assert!(asked > 0, "a test of nothing");
    for fault in FAULTS {
        for n in 1..=asked {
            let case = format!("{fault:?} at request {n} of {asked}");
            on_paused_clock(delete(&case, FaultRule::on(of(), fault.clone()).nth(n)));
        }
    }
}

/// On the wall clock and over real sockets: parts as they run beside a server elsewhere.
#[test]
fn a_job_is_counted_exactly_by_components_behind_a_faulty_network() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let nobody = Config { components: BTreeSet::new(), ..Config::for_cluster(Cluster::default_of(1)) };
        let cluster = TestCluster::with_config(7, nobody).await;
        let proxy = Proxy::start(cluster.faults(), "parts", cluster.client()).await.unwrap();
        let lost = cluster.inject_fault(
            FaultRule::on(writes().by_user("parts").not_on_resource("events"), Fault::CutResponse).every_nth(5),
        );
        let broken = cluster
            .inject_fault(FaultRule::on_events(events_of("pods").by_user("parts"), EventFault::Cut).every_nth(9));
        let mut config = Config::for_cluster(Cluster::default_of(1));
        config.job.retry = Backoff { initial: Duration::from_millis(50), max: Duration::from_secs(1) };
        let clock = Arc::new(TokioClock::starting_at(cluster.now()));
        let client = proxy.client().unwrap();
        let parts = RemoteComponents::start(clock, Random::seeded(7), client, Health::default(), config).await;
        cluster.create(&INDEXED.manifest()).await;
        let job = cluster.eventually("the Job ends", Duration::from_secs(60), finished_job).await;
        parts.stop().await;
        let done = [lost, broken].map(|rule| cluster.faults().counts(rule).applied);
        assert!(done.iter().all(|done| *done > 0), "{done:?}");
        FinishedRun { work: INDEXED, cluster, job, rules: Vec::new() }.assert_exact_at_every_write("over HTTP");
    });
}

#[test]
fn the_same_faults_give_the_same_history() {
    let history = || {
        on_paused_clock(async {
            let cuts = FaultRule::on(all_requests(), Fault::CutResponse).with_chance(50, 3);
            let late =
                FaultRule::on_events(all_requests(), EventFault::Delay(Duration::from_millis(30))).with_chance(100, 4);
            run("twice the same", [cuts, late]).await.cluster.transcript()
        })
    };
    assert_eq!(history(), history());
}
