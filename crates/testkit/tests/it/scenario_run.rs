//! Runs a scenario of `scenarios` with faults: the controllers crash at one of their writes, or fault rules apply for a
//! while.

use std::collections::VecDeque;
use std::time::Duration;

use controlplane::Component;
use nodes::cluster::Cluster;
use testkit::fault::{Fault, FaultRule, InjectedStatus, RequestMatcher, RuleId, Verb, verb, writes};
use testkit::{TestCluster, on_paused_clock};
use tokio::time::Instant;

use crate::end_state::{assert_never_too_many_pods, end_state_lines};
use crate::scenarios::Scenario;

/// The time limit of every scenario, including repeated backoff.
pub const BUDGET: Duration = Duration::from_secs(900);
/// How long late writes may take.
const SETTLED_SECONDS: u32 = 30;
/// How often a scenario is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The kinds in the caches of the Job controller, by their names in the store.
pub const KINDS: [&str; 4] = ["batch/jobs", "pods", "scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups"];

/// Writes of all controllers, without Events, which may be lost, and without Leases, which are not part of a scenario.
pub fn writes_of_controllers() -> RequestMatcher {
    let controllers = [
        "job-controller",
        "cronjob-controller",
        "ttl-after-finished-controller",
        "generic-garbage-collector",
        "podgroup-protection-controller",
        "pod-garbage-collector",
    ];
    let of = writes().not_on_resource("events").not_on_resource("coordination.k8s.io/leases");
    controllers.into_iter().fold(of, |of, user| of.by_user(user))
}

/// A running scenario.
pub struct ScenarioRun {
    /// The test cluster that it runs on.
    pub cluster: TestCluster,
    scenario: Scenario,
    /// The name of the case in failure messages.
    pub case: String,
    deadline: Instant,
    /// The write at which the controllers crash, counted from their last start, and the fault of that write.
    pending_crashes: VecDeque<(Fault, u64)>,
    /// The rule of the next crash.
    crash_rule: Option<RuleId>,
    /// How often the controllers have crashed.
    pub crashes: usize,
    /// When the faults end; `None` after that.
    clear_faults_at: Option<Instant>,
}

impl ScenarioRun {
    /// The scenario on its own cluster, on virtual time.
    pub async fn embedded(scenario: Scenario, case: String) -> ScenarioRun {
        ScenarioRun::on(TestCluster::embedded(7, Cluster::default_of(2)).await, scenario, case)
    }

    /// The scenario on this cluster.
    pub fn on(cluster: TestCluster, scenario: Scenario, case: String) -> ScenarioRun {
        let deadline = Instant::now() + cluster.scaled_timeout(BUDGET);
        ScenarioRun {
            cluster,
            scenario,
            case,
            deadline,
            pending_crashes: VecDeque::new(),
            crash_rule: None,
            crashes: 0,
            clear_faults_at: None,
        }
    }

    /// The controllers crash at their `nth` write from now on. Repeated calls add later crashes.
    pub fn crash_at(&mut self, fault: Fault, nth: u64) {
        self.pending_crashes.push_back((fault, nth));
    }

    /// All faults end after this time. Watches then expire, so that the next list has the lost events.
    pub fn clear_faults_after(&mut self, time: Duration) {
        self.clear_faults_at = Some(Instant::now() + time);
    }

    /// Runs the whole scenario.
    pub async fn run_to_end(&mut self) {
        for (number, step) in (self.scenario.steps)(&self.cluster).into_iter().enumerate() {
            self.wait_until(&format!("step {number}"), step.condition).await;
            for request in (step.requests)(&self.cluster) {
                request.send(&self.cluster).await;
            }
        }
        self.wait_until("the end", self.scenario.has_ended).await;
    }

    /// Waits for late writes.
    pub async fn wait_until_settled(&mut self) {
        let seconds: u64 =
            self.cluster.scaled_seconds(SETTLED_SECONDS).parse().expect("scaled_seconds returns a number");
        let settled =
            self.clear_faults_at.unwrap_or_else(Instant::now).max(Instant::now()) + Duration::from_secs(seconds);
        self.wait_until("the cluster settles", move |_| Instant::now() >= settled).await;
        self.wait_until("the end", self.scenario.has_ended).await;
    }

    /// Checks the invariants at every write, and returns the end state.
    pub fn checked_end_state(&self) -> Vec<String> {
        let history = self.cluster.history();
        assert_never_too_many_pods(&history, &self.case);
        end_state_lines(&history)
    }

    /// Waits. Meanwhile it sends the requests of kubelets, crashes the controllers and ends the faults when they are
    /// due.
    async fn wait_until(&mut self, what: &str, check: impl Fn(&TestCluster) -> bool) {
        loop {
            self.crash_controllers_if_due();
            if self.clear_faults_at.is_some_and(|at| Instant::now() >= at) {
                self.clear_faults_at = None;
                self.clear_faults();
            }
            for request in (self.scenario.kubelet_requests)(&self.cluster) {
                // The pod may be deleted already, because the cache may be stale.
                request.try_send(&self.cluster).await;
            }
            if check(&self.cluster) {
                return;
            }
            let so_far = || end_state_lines(&self.cluster.history()).join("\n");
            assert!(Instant::now() < self.deadline, "{}: {what}: timed out\n{}", self.case, so_far());
            match self.crash_rule {
                None => tokio::time::sleep(POLL_INTERVAL).await,
                Some(rule) => {
                    let _ = tokio::time::timeout(POLL_INTERVAL, self.cluster.faults().wait_until_applied(rule)).await;
                }
            }
        }
    }

    /// Restarts the controllers if their crash rule was applied, and adds the rule of the next crash.
    fn crash_controllers_if_due(&mut self) {
        if let Some(rule) = self.crash_rule.filter(|rule| self.cluster.faults().counts(*rule).applied > 0) {
            self.cluster.restart_component(Component::Controllers);
            self.cluster.faults().remove(rule);
            self.crash_rule = None;
            self.crashes += 1;
        }
        if self.crash_rule.is_none()
            && let Some((fault, nth)) = self.pending_crashes.pop_front()
        {
            self.crash_rule = Some(self.cluster.inject_fault(FaultRule::on(writes_of_controllers(), fault).nth(nth)));
        }
    }

    fn clear_faults(&self) {
        self.cluster.faults().clear();
        for kind in KINDS {
            self.cluster.inject_fault(
                FaultRule::on(verb(Verb::Watch).on_resource(kind), Fault::Respond(InjectedStatus::Expired)).first_n(1),
            );
        }
    }
}

/// The scenario without faults: the end state, and the number of writes of the controllers.
pub fn run_without_faults(scenario: Scenario) -> (Vec<String>, u64) {
    on_paused_clock(async {
        let mut run = ScenarioRun::embedded(scenario, format!("{} without faults", scenario.name)).await;
        let writes = run.cluster.inject_fault(FaultRule::on(writes_of_controllers(), Fault::Count));
        run.run_to_end().await;
        run.wait_until_settled().await;
        (run.checked_end_state(), run.cluster.faults().counts(writes).applied)
    })
}
