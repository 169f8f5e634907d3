//! Jobs while the parts hear badly: watches stand still, events are lost, come twice or overtake each other, and writes are
//! answered wrongly. Watched from outside at every write, there is never a pod too many, each index succeeds once, and
//! in the end nothing is left that would not be there otherwise.

use std::ops::Range;
use std::time::Duration;

use api::Random;
use testkit::fault::{EventFault, Fault, Refusal, Rule, events_of, writes};
use testkit::on_paused_clock;

use crate::end_state::is_equivalent;
use crate::play::{KINDS, Play, undisturbed};
use crate::scenarios::{CHILDREN, ELASTIC, GANG, PLAIN, SUSPENDED, Scenario};

/// When everything goes well again.
const HEALED: Duration = Duration::from_secs(60);

/// Plays the story under `rules`, and holds what is left against `want`.
fn plays_as_ever(scenario: Scenario, want: &[String], case: String, rules: Vec<Rule>) {
    on_paused_clock(async {
        let mut play = Play::embedded(scenario, case).await;
        let rules: Vec<_> = rules.into_iter().map(|rule| play.home.fault(rule)).collect();
        play.heal_after(HEALED);
        play.through().await;
        play.settle().await;
        let done: u64 = rules.iter().map(|rule| play.home.faults().counts(*rule).done).sum();
        assert!(done > 0, "{}: a test of nothing", play.case);
        is_equivalent(&play.outcome(), want, &play.case);
    });
}

#[test]
fn a_frozen_watch_changes_nothing_but_the_time_it_takes() {
    for scenario in [PLAIN, GANG, SUSPENDED, ELASTIC, CHILDREN] {
        let (want, _) = undisturbed(scenario);
        for kind in KINDS {
            for (seconds, nth) in [(5, 2), (17, 1), (30, 1)] {
                let case = format!("{}: {kind} frozen for {seconds} s at event {nth}", scenario.name);
                let freeze = EventFault::Delay(Duration::from_secs(seconds));
                // Somebody else's Workload is all that children need: one event.
                let nth = if kind == "scheduling.k8s.io/workloads" { 1 } else { nth };
                plays_as_ever(scenario, &want, case, vec![Rule::on_events(events_of(kind), freeze).nth(nth)]);
            }
        }
    }
}

// Upstream: no server does this, and kube-controller-manager makes a pod too many then.
#[test]
fn a_lost_event_makes_no_pod_too_many() {
    for scenario in [PLAIN, GANG] {
        let (want, _) = undisturbed(scenario);
        for (kind, events) in [("pods", 12), ("batch/jobs", 3), (KINDS[2], 1), (KINDS[3], 1)] {
            for nth in 1..=events {
                let case = format!("{}: event {nth} of {kind} is lost", scenario.name);
                plays_as_ever(scenario, &want, case, vec![Rule::on_events(events_of(kind), EventFault::Drop).nth(nth)]);
            }
        }
    }
}

#[test]
fn every_event_twice_and_every_other_one_late_change_nothing() {
    for scenario in [PLAIN, GANG, SUSPENDED, ELASTIC, CHILDREN] {
        let (want, _) = undisturbed(scenario);
        let late = EventFault::Postpone(Duration::from_secs(1));
        for (what, fault, every) in [("twice", EventFault::Repeat, 1), ("overtaken", late, 2)] {
            let case = format!("{}: events {what}", scenario.name);
            let rules = KINDS.map(|kind| Rule::on_events(events_of(kind), fault).every(every));
            plays_as_ever(scenario, &want, case, rules.to_vec());
        }
    }
}

/// The story under six mixtures of all that can go wrong.
fn under_mixtures(scenario: Scenario, seeds: Range<u64>) {
    let (want, _) = undisturbed(scenario);
    for seed in seeds {
        plays_as_ever(scenario, &want, format!("{}: seed {seed}", scenario.name), mixture(seed));
    }
}

#[test]
fn whatever_goes_wrong_at_once_a_plain_job_has_never_a_pod_too_many_and_leaves_nothing() {
    under_mixtures(PLAIN, 0..6);
}

#[test]
fn whatever_goes_wrong_at_once_a_gang_has_never_a_pod_too_many_and_leaves_nothing() {
    under_mixtures(GANG, 100..106);
}

#[test]
fn whatever_goes_wrong_at_once_a_gang_that_rests_goes_on_as_it_was() {
    under_mixtures(SUSPENDED, 200..206);
}

#[test]
fn whatever_goes_wrong_at_once_an_elastic_gang_has_the_size_that_was_asked_for() {
    under_mixtures(ELASTIC, 300..306);
}

#[test]
fn whatever_goes_wrong_at_once_children_of_one_parent_have_a_group_each() {
    under_mixtures(CHILDREN, 400..406);
}

/// Something else for each kind's watch, and one write in ten that goes wrong.
fn mixture(seed: u64) -> Vec<Rule> {
    let random = Random::seeded(seed);
    let watch = |kind: &&'static str| {
        let events = events_of(kind);
        match random.below(5) {
            0 => {
                let freeze = EventFault::Delay(Duration::from_secs(5 + random.below(26)));
                Rule::on_events(events, freeze).nth(1 + random.below(3))
            }
            1 => Rule::on_events(events, EventFault::Drop).chance(100, random.next_u64()),
            2 => Rule::on_events(events, EventFault::Repeat).chance(400, random.next_u64()),
            3 => Rule::on_events(events, EventFault::Cut).chance(100, random.next_u64()),
            _ => Rule::on_events(events, EventFault::Postpone(Duration::from_secs(1))).chance(300, random.next_u64()),
        }
    };
    let answers = [
        Fault::Answer(Refusal::Conflict),
        Fault::Answer(Refusal::TooManyRequests { retry_after_seconds: 1 }),
        Fault::Answer(Refusal::InternalError),
        Fault::AnswerAfter(Refusal::InternalError),
        Fault::AnswerAfter(Refusal::Timeout),
        Fault::CutAnswer,
    ];
    let wrong = |fault: Fault| Rule::on(writes().not_of("events"), fault).chance(17, random.next_u64());
    KINDS.iter().map(watch).chain(answers.into_iter().map(wrong)).collect()
}
