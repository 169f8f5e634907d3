//! Jobs with faulty watches: watches stall, events are lost, duplicated or reordered, and writes get wrong responses.
//! At every write there is no extra pod, each index succeeds once, and the end state is the same as without faults.

use std::ops::Range;
use std::time::Duration;

use api::Random;
use testkit::fault::{EventFault, Fault, FaultRule, InjectedStatus, events_of, writes};
use testkit::on_paused_clock;

use crate::end_state::assert_equivalent;
use crate::scenario_run::{KINDS, ScenarioRun, run_without_faults};
use crate::scenarios::{CHILDREN, ELASTIC, GANG, PLAIN, SUSPENDED, Scenario};

/// When the faults end.
const FAULT_DURATION: Duration = Duration::from_secs(60);

/// Runs the scenario under `rules`, and compares the end state with `want`.
fn check_same_end_state(scenario: Scenario, want: &[String], case: String, rules: Vec<FaultRule>) {
    on_paused_clock(async {
        let mut run = ScenarioRun::embedded(scenario, case).await;
        let rules: Vec<_> = rules.into_iter().map(|rule| run.cluster.inject_fault(rule)).collect();
        run.clear_faults_after(FAULT_DURATION);
        run.run_to_end().await;
        run.wait_until_settled().await;
        let applied: u64 = rules.iter().map(|rule| run.cluster.faults().counts(*rule).applied).sum();
        assert!(applied > 0, "{}: no fault was applied", run.case);
        assert_equivalent(&run.checked_end_state(), want, &run.case);
    });
}

#[test]
fn a_stalled_watch_only_delays_the_end_state() {
    for scenario in [PLAIN, GANG, SUSPENDED, ELASTIC, CHILDREN] {
        let (want, _) = run_without_faults(scenario);
        for kind in KINDS {
            for (seconds, nth) in [(5, 2), (17, 1), (30, 1)] {
                let case = format!("{}: {kind} stalled for {seconds} s at event {nth}", scenario.name);
                let stall = EventFault::Delay(Duration::from_secs(seconds));
                // Children use the Workload of their parent: there is only one event.
                let nth = if kind == "scheduling.k8s.io/workloads" { 1 } else { nth };
                check_same_end_state(
                    scenario,
                    &want,
                    case,
                    vec![FaultRule::on_events(events_of(kind), stall).nth(nth)],
                );
            }
        }
    }
}

// Upstream: a correct server does not lose events. kube-controller-manager creates an extra pod then.
#[test]
fn a_lost_event_creates_no_extra_pod() {
    for scenario in [PLAIN, GANG] {
        let (want, _) = run_without_faults(scenario);
        for (kind, events) in [("pods", 12), ("batch/jobs", 3), (KINDS[2], 1), (KINDS[3], 1)] {
            for nth in 1..=events {
                let case = format!("{}: event {nth} of {kind} is lost", scenario.name);
                check_same_end_state(
                    scenario,
                    &want,
                    case,
                    vec![FaultRule::on_events(events_of(kind), EventFault::Drop).nth(nth)],
                );
            }
        }
    }
}

#[test]
fn duplicate_and_reordered_events_do_not_change_the_end_state() {
    for scenario in [PLAIN, GANG, SUSPENDED, ELASTIC, CHILDREN] {
        let (want, _) = run_without_faults(scenario);
        let late = EventFault::Postpone(Duration::from_secs(1));
        for (what, fault, every) in [("twice", EventFault::Repeat, 1), ("reordered", late, 2)] {
            let case = format!("{}: events {what}", scenario.name);
            let rules = KINDS.map(|kind| FaultRule::on_events(events_of(kind), fault).every_nth(every));
            check_same_end_state(scenario, &want, case, rules.to_vec());
        }
    }
}

/// The scenario under mixed faults of these seeds.
fn check_under_mixed_faults(scenario: Scenario, seeds: Range<u64>) {
    let (want, _) = run_without_faults(scenario);
    for seed in seeds {
        check_same_end_state(scenario, &want, format!("{}: seed {seed}", scenario.name), mixed_faults(seed));
    }
}

#[test]
fn a_plain_job_has_no_extra_pods_under_mixed_faults() {
    check_under_mixed_faults(PLAIN, 0..6);
}

#[test]
fn a_gang_job_has_no_extra_pods_under_mixed_faults() {
    check_under_mixed_faults(GANG, 100..106);
}

#[test]
fn a_suspended_gang_resumes_unchanged_under_mixed_faults() {
    check_under_mixed_faults(SUSPENDED, 200..206);
}

#[test]
fn an_elastic_gang_reaches_its_size_under_mixed_faults() {
    check_under_mixed_faults(ELASTIC, 300..306);
}

#[test]
fn children_of_one_parent_have_one_group_each_under_mixed_faults() {
    check_under_mixed_faults(CHILDREN, 400..406);
}

/// Another event fault for the watch of each kind, and faults for one write in ten.
fn mixed_faults(seed: u64) -> Vec<FaultRule> {
    let random = Random::seeded(seed);
    let watch = |kind: &&'static str| {
        let events = events_of(kind);
        match random.below(5) {
            0 => {
                let stall = EventFault::Delay(Duration::from_secs(5 + random.below(26)));
                FaultRule::on_events(events, stall).nth(1 + random.below(3))
            }
            1 => FaultRule::on_events(events, EventFault::Drop).with_chance(100, random.next_u64()),
            2 => FaultRule::on_events(events, EventFault::Repeat).with_chance(400, random.next_u64()),
            3 => FaultRule::on_events(events, EventFault::Cut).with_chance(100, random.next_u64()),
            _ => FaultRule::on_events(events, EventFault::Postpone(Duration::from_secs(1)))
                .with_chance(300, random.next_u64()),
        }
    };
    let write_faults = [
        Fault::Respond(InjectedStatus::Conflict),
        Fault::Respond(InjectedStatus::TooManyRequests { retry_after_seconds: 1 }),
        Fault::Respond(InjectedStatus::InternalError),
        Fault::RespondAfter(InjectedStatus::InternalError),
        Fault::RespondAfter(InjectedStatus::Timeout),
        Fault::CutResponse,
    ];
    let on_writes =
        |fault: Fault| FaultRule::on(writes().not_on_resource("events"), fault).with_chance(17, random.next_u64());
    KINDS.iter().map(watch).chain(write_faults.into_iter().map(on_writes)).collect()
}
