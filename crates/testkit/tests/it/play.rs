//! Plays a story of `scenarios` while things go wrong: the controllers end at one of their writes, rules of faults hold for
//! a while.

use std::collections::VecDeque;
use std::time::Duration;

use controlplane::Part;
use nodes::cluster::Cluster;
use testkit::fault::{Fault, Refusal, Requests, Rule, RuleId, Verb, verb, writes};
use testkit::{Home, on_paused_clock};
use tokio::time::Instant;

use crate::end_state::{equivalent, never_too_many};
use crate::scenarios::Scenario;

/// Within this every story has ended, back-off after back-off included.
pub const BUDGET: Duration = Duration::from_secs(900);
/// What comes late has come by then.
const SETTLED_SECONDS: u32 = 30;
/// How often a story is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Kinds that the Job controller keeps caches of, as the store names them.
pub const KINDS: [&str; 4] = ["batch/jobs", "pods", "scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups"];

/// Writes of all controllers. Events are told or lost, and nobody waits for them; who leads is no part of a story.
pub fn writes_of_controllers() -> Requests {
    let controllers = [
        "job-controller",
        "cronjob-controller",
        "ttl-after-finished-controller",
        "generic-garbage-collector",
        "podgroup-protection-controller",
        "pod-garbage-collector",
    ];
    let of = writes().not_of("events").not_of("coordination.k8s.io/leases");
    controllers.into_iter().fold(of, |of, user| of.by(user))
}

/// A story under way.
pub struct Play {
    /// Where it is played.
    pub home: Home,
    scenario: Scenario,
    /// What fails tests are told.
    pub case: String,
    deadline: Instant,
    /// At which of their writes the controllers end, counted from their last start, and how.
    ends: VecDeque<(Fault, u64)>,
    /// The rule of the next such write.
    ends_at: Option<RuleId>,
    /// How often the controllers have ended.
    pub ended: usize,
    /// Set until everything goes well again.
    heals_at: Option<Instant>,
}

impl Play {
    /// The story on a home of its own, on virtual time.
    pub async fn embedded(scenario: Scenario, case: String) -> Play {
        Play::on(Home::embedded(7, Cluster::default_of(2)).await, scenario, case)
    }

    /// The story on this home.
    pub fn on(home: Home, scenario: Scenario, case: String) -> Play {
        let deadline = Instant::now() + home.patience(BUDGET);
        Play { home, scenario, case, deadline, ends: VecDeque::new(), ends_at: None, ended: 0, heals_at: None }
    }

    /// The controllers end at their `nth` write from now on; said again, at another after that.
    pub fn end_at(&mut self, fault: Fault, nth: u64) {
        self.ends.push_back((fault, nth));
    }

    /// All faults end after so long; what a watch has lost for good by then comes back with the next list.
    pub fn heal_after(&mut self, time: Duration) {
        self.heals_at = Some(Instant::now() + time);
    }

    /// The whole story, from its first step to its end.
    pub async fn through(&mut self) {
        for (number, step) in (self.scenario.steps)(&self.home).into_iter().enumerate() {
            self.until(&format!("step {number}"), step.when).await;
            for ask in (step.then)(&self.home) {
                ask.by(&self.home).await;
            }
        }
        self.until("the end", self.scenario.ended).await;
    }

    /// Waits for what comes late.
    pub async fn settle(&mut self) {
        let seconds: u64 = self.home.seconds(SETTLED_SECONDS).parse().expect("a number of seconds");
        let settled = self.heals_at.unwrap_or_else(Instant::now).max(Instant::now()) + Duration::from_secs(seconds);
        self.until("rest", move |_| Instant::now() >= settled).await;
        self.until("the end", self.scenario.ended).await;
    }

    /// What held at every moment, and what is left.
    pub fn outcome(&self) -> Vec<String> {
        let history = self.home.history();
        never_too_many(&history, &self.case);
        equivalent(&history)
    }

    /// Waits; meanwhile does the chores, starts the controllers anew when it is time, and ends the faults when it is time.
    async fn until(&mut self, what: &str, check: impl Fn(&Home) -> bool) {
        loop {
            self.end_controllers();
            if self.heals_at.is_some_and(|at| Instant::now() >= at) {
                self.heals_at = None;
                self.heal();
            }
            for ask in (self.scenario.chore)(&self.home) {
                // The pod may be gone, which a cache that is late does not show.
                ask.try_by(&self.home).await;
            }
            if check(&self.home) {
                return;
            }
            let so_far = || equivalent(&self.home.history()).join("\n");
            assert!(Instant::now() < self.deadline, "{}: {what}: not in time\n{}", self.case, so_far());
            match self.ends_at {
                None => tokio::time::sleep(LOOK).await,
                Some(rule) => {
                    let _ = tokio::time::timeout(LOOK, self.home.faults().happened(rule)).await;
                }
            }
        }
    }

    /// Ends the controllers if it is time, and says when it is time again.
    fn end_controllers(&mut self) {
        if let Some(rule) = self.ends_at.filter(|rule| self.home.faults().counts(*rule).done > 0) {
            self.home.restart(Part::Controllers);
            self.home.faults().remove(rule);
            self.ends_at = None;
            self.ended += 1;
        }
        if self.ends_at.is_none()
            && let Some((fault, nth)) = self.ends.pop_front()
        {
            self.ends_at = Some(self.home.fault(Rule::on(writes_of_controllers(), fault).nth(nth)));
        }
    }

    fn heal(&self) {
        self.home.faults().clear();
        for kind in KINDS {
            self.home.fault(Rule::on(verb(Verb::Watch).of(kind), Fault::Answer(Refusal::Expired)).first(1));
        }
    }
}

/// The story when nothing goes wrong: what is left, and how many writes the controllers need.
pub fn undisturbed(scenario: Scenario) -> (Vec<String>, u64) {
    on_paused_clock(async {
        let mut play = Play::embedded(scenario, format!("{}, undisturbed", scenario.name)).await;
        let writes = play.home.fault(Rule::on(writes_of_controllers(), Fault::Count));
        play.through().await;
        play.settle().await;
        (play.outcome(), play.home.faults().counts(writes).done)
    })
}
