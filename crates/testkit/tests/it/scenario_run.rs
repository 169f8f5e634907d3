//! Plays a story of `scenarios` while things go wrong: the controllers end at one of their writes, rules of faults hold for
//! a while.

use std::collections::VecDeque;
use std::time::Duration;

use controlplane::Component;
use nodes::cluster::Cluster;
use testkit::fault::{Fault, FaultRule, InjectedStatus, RequestMatcher, RuleId, Verb, verb, writes};
use testkit::{TestCluster, on_paused_clock};
use tokio::time::Instant;

use crate::end_state::{assert_never_too_many_pods, end_state_lines};
use crate::scenarios::Scenario;

/// Within this every story has ended, back-off after back-off included.
pub const BUDGET: Duration = Duration::from_secs(900);
/// What comes late has come by then.
const SETTLED_SECONDS: u32 = 30;
/// How often a story is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Kinds that the Job controller keeps caches of, as the store names them.
pub const KINDS: [&str; 4] = ["batch/jobs", "pods", "scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups"];

/// Writes of all controllers. Events are told or lost, and nobody waits for them; who leads is no part of a story.
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

/// A story under way.
pub struct ScenarioRun {
    /// Where it is played.
    pub home: TestCluster,
    scenario: Scenario,
    /// What fails tests are told.
    pub case: String,
    deadline: Instant,
    /// At which of their writes the controllers end, counted from their last start, and how.
    pending_crashes: VecDeque<(Fault, u64)>,
    /// The rule of the next such write.
    crash_rule: Option<RuleId>,
    /// How often the controllers have ended.
    pub crashes: usize,
    /// Set until everything goes well again.
    clear_faults_at: Option<Instant>,
}

impl ScenarioRun {
    /// The story on a home of its own, on virtual time.
    pub async fn embedded(scenario: Scenario, case: String) -> ScenarioRun {
        ScenarioRun::on(TestCluster::embedded(7, Cluster::default_of(2)).await, scenario, case)
    }

    /// The story on this home.
    pub fn on(home: TestCluster, scenario: Scenario, case: String) -> ScenarioRun {
        let deadline = Instant::now() + home.scaled_timeout(BUDGET);
        ScenarioRun {
            home,
            scenario,
            case,
            deadline,
            pending_crashes: VecDeque::new(),
            crash_rule: None,
            crashes: 0,
            clear_faults_at: None,
        }
    }

    /// The controllers end at their `nth` write from now on; said again, at another after that.
    pub fn crash_at(&mut self, fault: Fault, nth: u64) {
        self.pending_crashes.push_back((fault, nth));
    }

    /// All faults end after so long; what a watch has lost for good by then comes back with the next list.
    pub fn clear_faults_after(&mut self, time: Duration) {
        self.clear_faults_at = Some(Instant::now() + time);
    }

    /// The whole story, from its first step to its end.
    pub async fn run_to_end(&mut self) {
        for (number, step) in (self.scenario.steps)(&self.home).into_iter().enumerate() {
            self.wait_until(&format!("step {number}"), step.condition).await;
            for ask in (step.requests)(&self.home) {
                ask.send(&self.home).await;
            }
        }
        self.wait_until("the end", self.scenario.has_ended).await;
    }

    /// Waits for what comes late.
    pub async fn wait_until_settled(&mut self) {
        let seconds: u64 = self.home.scaled_seconds(SETTLED_SECONDS).parse().expect("a number of seconds");
        let settled =
            self.clear_faults_at.unwrap_or_else(Instant::now).max(Instant::now()) + Duration::from_secs(seconds);
        self.wait_until("rest", move |_| Instant::now() >= settled).await;
        self.wait_until("the end", self.scenario.has_ended).await;
    }

    /// What held at every moment, and what is left.
    pub fn checked_end_state(&self) -> Vec<String> {
        let history = self.home.history();
        assert_never_too_many_pods(&history, &self.case);
        end_state_lines(&history)
    }

    /// Waits; meanwhile does the chores, starts the controllers anew when it is time, and ends the faults when it is time.
    async fn wait_until(&mut self, what: &str, check: impl Fn(&TestCluster) -> bool) {
        loop {
            self.crash_controllers_if_due();
            if self.clear_faults_at.is_some_and(|at| Instant::now() >= at) {
                self.clear_faults_at = None;
                self.clear_faults();
            }
            for ask in (self.scenario.kubelet_requests)(&self.home) {
                // The pod may be gone, which a cache that is late does not show.
                ask.try_send(&self.home).await;
            }
            if check(&self.home) {
                return;
            }
            let so_far = || end_state_lines(&self.home.history()).join("\n");
            assert!(Instant::now() < self.deadline, "{}: {what}: not in time\n{}", self.case, so_far());
            match self.crash_rule {
                None => tokio::time::sleep(POLL_INTERVAL).await,
                Some(rule) => {
                    let _ = tokio::time::timeout(POLL_INTERVAL, self.home.faults().wait_until_applied(rule)).await;
                }
            }
        }
    }

    /// Ends the controllers if it is time, and says when it is time again.
    fn crash_controllers_if_due(&mut self) {
        if let Some(rule) = self.crash_rule.filter(|rule| self.home.faults().counts(*rule).applied > 0) {
            self.home.restart_component(Component::Controllers);
            self.home.faults().remove(rule);
            self.crash_rule = None;
            self.crashes += 1;
        }
        if self.crash_rule.is_none()
            && let Some((fault, nth)) = self.pending_crashes.pop_front()
        {
            self.crash_rule = Some(self.home.inject_fault(FaultRule::on(writes_of_controllers(), fault).nth(nth)));
        }
    }

    fn clear_faults(&self) {
        self.home.faults().clear();
        for kind in KINDS {
            self.home.inject_fault(
                FaultRule::on(verb(Verb::Watch).on_resource(kind), Fault::Respond(InjectedStatus::Expired)).first_n(1),
            );
        }
    }
}

/// The story when nothing goes wrong: what is left, and how many writes the controllers need.
pub fn run_without_faults(scenario: Scenario) -> (Vec<String>, u64) {
    on_paused_clock(async {
        let mut play = ScenarioRun::embedded(scenario, format!("{}, undisturbed", scenario.name)).await;
        let writes = play.home.inject_fault(FaultRule::on(writes_of_controllers(), Fault::Count));
        play.run_to_end().await;
        play.wait_until_settled().await;
        (play.checked_end_state(), play.home.faults().counts(writes).applied)
    })
}
