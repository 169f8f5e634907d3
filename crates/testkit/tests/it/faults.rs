//! Jobs and gangs with faults between the components and the server (promise 9).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::Random;
use api::views::{Condition, JobView, PodGroupView, PodView, WorkloadView};
use controlplane::{Component, Config, Health, RemoteComponents};
use nodes::cluster::Cluster;
use runtime::{Backoff, TokioClock};
use serde_json::{Value, json};
use testkit::fault::{
    EventFault, Fault, FaultRule, InjectedStatus, Proxy, RequestMatcher, RuleId, Verb, all_requests, events_of, verb,
    writes,
};
use testkit::{RecordedWrite, TestCluster, job, on_paused_clock};

/// The time limit of every run, including retries.
const BUDGET: Duration = Duration::from_secs(600);
const BUSY: InjectedStatus = InjectedStatus::TooManyRequests { retry_after_seconds: 1 };

/// The kinds in the caches of the components.
const KINDS: [&str; 5] = ["pods", "batch/jobs", "nodes", "scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups"];

/// Faults of one write: applied or not, with an error or without a response.
const FAULTS: [Fault; 4] = [
    Fault::Cut,
    Fault::CutResponse,
    Fault::Respond(InjectedStatus::Conflict),
    Fault::RespondAfter(InjectedStatus::Timeout),
];

/// One fault of an applied write and one of a refused write, where more would only take time.
const REPRESENTATIVE_FAULTS: [Fault; 2] = [Fault::CutResponse, Fault::Respond(InjectedStatus::Conflict)];

/// A Job with more completions than parallelism, and its expected end state.
#[derive(Clone, Copy, Debug)]
struct TestJob {
    name: &'static str,
    parallelism: usize,
    completions: usize,
    /// Whether each of its pods has an index.
    indexed: bool,
    /// Whether its pods succeed.
    succeeds: bool,
    /// How many pods it needs.
    pods: usize,
}

const INDEXED: TestJob =
    TestJob { name: "indexed", parallelism: 3, completions: 5, indexed: true, succeeds: true, pods: 5 };
const PLAIN: TestJob = TestJob { name: "plain", indexed: false, ..INDEXED };
const FAILING: TestJob = TestJob { name: "failing", parallelism: 1, succeeds: false, pods: 3, ..PLAIN };

impl TestJob {
    /// A gang Job whose pods run for two seconds with two GPUs each.
    fn manifest(&self) -> Value {
        let job =
            job(self.name).spec("parallelism", self.parallelism).spec("completions", self.completions).gang().gpus(2);
        let job = if self.indexed { job.indexed() } else { job };
        // A failing Job fails with its last pod.
        let job = job.spec("backoffLimit", self.pods - 1).annotate("phalanx.dev/run-seconds", "2");
        job.annotate("phalanx.dev/exit-code", if self.succeeds { "0" } else { "1" }).build()
    }
}

/// A running Job.
struct JobRun {
    work: TestJob,
    cluster: TestCluster,
    rules: Vec<RuleId>,
}

/// A finished Job.
struct FinishedRun {
    work: TestJob,
    cluster: TestCluster,
    job: Arc<JobView>,
    rules: Vec<RuleId>,
}

impl JobRun {
    /// Creates the Job under `rules`.
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

/// The Job, once it has finished and the finalizers of its pods are removed.
fn finished_job(cluster: &TestCluster) -> Option<Arc<JobView>> {
    let job = cluster.cache::<JobView>().all().pop()?;
    let is_finished = ["Complete", "Failed"].iter().any(|kind| Condition::is_true(&job.status.conditions, kind));
    let has_finalizers = cluster.cache::<PodView>().all().iter().any(|pod| !pod.metadata.finalizers.is_empty());
    (is_finished && !has_finalizers).then_some(job)
}

/// The number of writes that match `of` in a run without faults.
fn count_writes(work: TestJob, of: &RequestMatcher) -> u64 {
    let writes = on_paused_clock(async {
        let case = format!("the {} Job without faults", work.name);
        let ran = JobRun::begin(work, [FaultRule::on(of.clone(), Fault::Count)]).await.wait_until_ended(&case).await;
        ran.assert_exact_at_every_write(&case);
        ran.times_applied(0)
    });
    assert!(writes > 0, "no request matches");
    writes
}

/// Runs the Job once for each of `faults` and each of its writes that match `of`, with the fault at just that write.
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
    /// How often the rule at `position` was applied.
    fn times_applied(&self, position: usize) -> u64 {
        self.cluster.faults().counts(self.rules[position]).applied
    }

    /// Asserts the expected end state.
    fn assert_end_state(&self, case: &str) {
        let (TestJob { completions, indexed, succeeds, pods, .. }, status) = (self.work, &self.job.status);
        let condition = if succeeds { "Complete" } else { "Failed" };
        assert!(Condition::is_true(&status.conditions, condition), "{case}: {status:?}");
        let counts = (status.succeeded as usize, status.failed as usize, status.active);
        assert_eq!(counts, if succeeds { (completions, 0, 0) } else { (0, pods, 0) }, "{case}");
        let indexes = if indexed { format!("0-{}", completions - 1) } else { String::new() };
        assert_eq!(status.completed_indexes, indexes, "{case}");
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        assert!(uncounted.succeeded.is_empty() && uncounted.failed.is_empty(), "{case}: {uncounted:?}");
        let caches = self.cluster.caches();
        assert_eq!(
            (caches.get::<WorkloadView>().all().len(), caches.get::<PodGroupView>().all().len()),
            (1, 1),
            "{case}: created once"
        );
        assert!(
            caches.get::<PodView>().all().iter().all(|pod| pod.group_name().is_some()),
            "{case}: no pod outside the group"
        );
        assert_eq!(caches.get::<PodView>().all().len(), pods, "{case}: there are no extra pods");
    }

    /// Asserts the end state and the invariants at every write.
    fn assert_exact_at_every_write(&self, case: &str) {
        self.assert_end_state(case);
        let history = self.cluster.history();
        let peak = pods_over_time(&history, is_active).into_iter().map(|pods| pods.len()).max();
        assert_eq!(peak, Some(self.work.parallelism), "{case}: the maximum number of active pods");
        let created = history.iter().filter(|change| change.resource == "pods" && change.created).count();
        assert_eq!(created, self.work.pods, "{case}: no extra pod was created");
    }
}

fn is_active(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_string()
        && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// The pods for which `count` holds, after every write of a pod.
fn pods_over_time(history: &[RecordedWrite], count: fn(&Value) -> bool) -> Vec<Vec<&Value>> {
    let mut pods: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut states = Vec::new();
    for change in history.iter().filter(|change| change.resource == "pods") {
        if change.deleted {
            pods.remove(change.name());
        } else {
            pods.insert(change.name(), &change.object);
        }
        states.push(pods.values().copied().filter(|pod| count(pod)).collect());
    }
    states
}

/// Writes of one component, without Events, which may be lost.
fn writes_of(component: &str) -> RequestMatcher {
    writes().by_user(component).not_on_resource("events")
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
    for (component, user) in [
        (Component::Controllers, "job-controller"),
        (Component::Scheduler, "kube-scheduler"),
        (Component::Nodes, "nodes"),
    ] {
        let of = writes_of(user);
        let writes = count_writes(INDEXED, &of);
        // The write, or its response, never arrives; then the component crashes.
        for fault in [Fault::Delay(BUDGET), Fault::DelayResponse(BUDGET)] {
            for n in 1..=writes {
                on_paused_clock(async {
                    let case = format!("{component:?} crashes with {fault:?} at write {n} of {writes}");
                    let mut run = JobRun::begin(INDEXED, [FaultRule::on(of.clone(), fault.clone()).nth(n)]).await;
                    let rule = run.rules[0];
                    let reached = |cluster: &TestCluster| (cluster.faults().counts(rule).applied == 1).then_some(());
                    run.cluster.eventually(&case, BUDGET, reached).await;
                    run.cluster.restart_component(component);
                    run.wait_until_ended(&case).await.assert_exact_at_every_write(&case);
                });
            }
        }
    }
}

// A duplicated create makes two pods if the server generates their names; one of them has to be deleted.
#[test]
fn a_duplicated_write_does_not_change_the_end_state() {
    for component in ["job-controller", "kube-scheduler", "nodes"] {
        at_every_write(INDEXED, writes_of(component), &[Fault::Repeat], FinishedRun::assert_end_state);
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
            assert!(hit > 0, "{case}: no fault was applied");
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
                    let case = format!("{kind} stalled for {seconds} s at event {nth}");
                    let stall = EventFault::Delay(Duration::from_secs(seconds));
                    let ran = run(&case, [FaultRule::on_events(events_of(kind), stall).nth(nth)]).await;
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
            assert!(ran.times_applied(0) > 0, "{case}: no fault was applied");
            ran.assert_exact_at_every_write(&case);
        });
    }
}

// A correct server does not lose events. A pod that is missing from the watch is not created again.
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
            assert!((0..KINDS.len()).any(|kind| ran.times_applied(kind) > 0), "{case}: no fault was applied");
            ran.assert_exact_at_every_write(&case);
        });
    }
}

/// Ends all faults after this time. Watches then expire, so that the next list has the lost events.
async fn clear_faults_after(cluster: &TestCluster, after: Duration) {
    tokio::time::sleep(after).await;
    cluster.faults().clear();
    for kind in KINDS {
        cluster.inject_fault(
            FaultRule::on(verb(Verb::Watch).on_resource(kind), Fault::Respond(InjectedStatus::Expired)).first_n(1),
        );
    }
}

fn is_on_node(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string() && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// The group of each pod, in the order of their binds.
fn bound_in_order(history: &[RecordedWrite]) -> Vec<&str> {
    let mut bound = BTreeSet::new();
    let pods = history.iter().filter(|change| change.resource == "pods" && is_on_node(&change.object));
    let first = pods.filter(|change| bound.insert(change.name().to_owned()));
    first.map(|change| change.object["spec"]["schedulingGroup"]["podGroupName"].as_str().unwrap()).collect()
}

// Two gangs, each with six of the node's eight GPUs: only one fits at a time.
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
                        cluster.cache::<JobView>().all().iter().all(|job| job.status.succeeded == 3).then_some(())
                    })
                    .await;
                assert_eq!(cluster.faults().counts(rule).applied, 1, "{case}");
                let history = cluster.history();
                let max_pods = pods_over_time(&history, is_on_node).into_iter().map(|pods| pods.len()).max();
                assert!(max_pods <= Some(4), "{case}: more than eight GPUs in use");
                let mut gangs = bound_in_order(&history);
                gangs.dedup();
                assert_eq!(gangs.len(), 2, "{case}: one gang starts before the other is whole: {gangs:?}");
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
                cluster.cache::<JobView>().all().pop().filter(|job| job.status.ready == Some(3))
            })
            .await;
        let rule = cluster.inject_fault(rule);
        let path = "/apis/batch/v1/namespaces/default/jobs/gone";
        cluster.request("DELETE", path, &json!({"propagationPolicy": "Background"})).await.unwrap();
        cluster
            .eventually(case, BUDGET, |cluster| {
                let caches = cluster.caches();
                let left = caches.get::<PodView>().all().len()
                    + caches.get::<PodGroupView>().all().len()
                    + caches.get::<WorkloadView>().all().len();
                (left == 0 && caches.get::<JobView>().all().is_empty()).then_some(())
            })
            .await;
        cluster.faults().counts(rule).applied
    };
    let requests = on_paused_clock(delete("without faults", FaultRule::on(of(), Fault::Count)));
    assert!(requests > 0, "no request matches");
    for fault in FAULTS {
        for n in 1..=requests {
            let case = format!("{fault:?} at request {n} of {requests}");
            on_paused_clock(delete(&case, FaultRule::on(of(), fault.clone()).nth(n)));
        }
    }
}

/// On the wall clock and over real sockets: components of a remote server.
#[test]
fn a_job_is_counted_exactly_by_components_behind_a_faulty_network() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let no_components = Config { components: BTreeSet::new(), ..Config::for_cluster(Cluster::default_of(1)) };
        let cluster = TestCluster::with_config(7, no_components).await;
        let proxy = Proxy::start(cluster.faults(), "components", cluster.client()).await.unwrap();
        let lost = cluster.inject_fault(
            FaultRule::on(writes().by_user("components").not_on_resource("events"), Fault::CutResponse).every_nth(5),
        );
        let broken = cluster
            .inject_fault(FaultRule::on_events(events_of("pods").by_user("components"), EventFault::Cut).every_nth(9));
        let mut config = Config::for_cluster(Cluster::default_of(1));
        config.job.retry = Backoff { initial: Duration::from_millis(50), max: Duration::from_secs(1) };
        let clock = Arc::new(TokioClock::starting_at(cluster.now()));
        let client = proxy.client().unwrap();
        let components = RemoteComponents::start(clock, Random::seeded(7), client, Health::default(), config).await;
        cluster.create(&INDEXED.manifest()).await;
        let job = cluster.eventually("the Job finishes", Duration::from_secs(60), finished_job).await;
        components.stop().await;
        let applied = [lost, broken].map(|rule| cluster.faults().counts(rule).applied);
        assert!(applied.iter().all(|count| *count > 0), "{applied:?}");
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
