//! Whether a gang that once had its `minCount` still has it, and when a change of that is worth a write. Pure.

use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, PodView};

use crate::conditions::{self, DEGRADED};
use crate::publish::PublishTime;

/// How long a gang may lack pods before that is said. Pods that all go together, as when their Job is suspended, leave no
/// word behind, nor does one that is replaced at once.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// Where one pod of a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It waits for a node.
    Waiting,
    /// It has one, and has not ended.
    Bound,
    /// It ran to its end: it did its part.
    Succeeded,
    /// It failed, or is on its way out.
    Lost,
}

impl MemberState {
    /// Where `pod` stands.
    pub fn of(pod: &PodView) -> MemberState {
        if pod.status.phase == api::views::PodPhase::Succeeded {
            MemberState::Succeeded
        } else if pod.is_finished() || pod.metadata.is_deleting() {
            MemberState::Lost
        } else if pod.node_name().is_some() {
            MemberState::Bound
        } else {
            MemberState::Waiting
        }
    }
}

/// How many pods of a group stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// Pods without a node.
    pub waiting: usize,
    /// Pods on a node.
    pub bound: usize,
    /// Pods that ran to their end and still exist.
    pub succeeded: usize,
}

impl MemberCounts {
    /// One pod more or one less stands there.
    pub fn count(&mut self, place: MemberState, more: bool) {
        let count = match place {
            MemberState::Waiting => &mut self.waiting,
            MemberState::Bound => &mut self.bound,
            MemberState::Succeeded => &mut self.succeeded,
            MemberState::Lost => return,
        };
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
    }

    /// Whether a gang of `min_count` has begun and lacks pods. One of which nothing is left lacks nothing: it has not
    /// begun anew, as after a suspension.
    pub fn are_below(self, min_count: usize) -> bool {
        self.bound + self.succeeded < min_count && self.bound + self.waiting > 0
    }

    fn message(self, min_count: usize) -> String {
        let MemberCounts { waiting, bound, succeeded } = self;
        let done = if succeeded > 0 { format!(", {succeeded} succeeded") } else { String::new() };
        format!("{bound} of minCount {min_count} pods bound{done}, {waiting} waiting")
    }
}

/// What was last said about a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedCondition {
    /// The condition.
    pub condition: Condition,
    /// When.
    pub at: Timestamp,
}

/// The condition that a gang of `min_count`, which had that many once, should carry; none if it never lacked a pod.
/// `refused` is why those that wait find no place: `PodGroupInitiallyScheduled` is True for good, and cannot say it.
pub fn condition(
    counts: MemberCounts,
    min_count: usize,
    held: &[Condition],
    said: Option<&PublishedCondition>,
    refused: Option<&str>,
) -> Option<Condition> {
    let last = said.map(|said| &said.condition).or_else(|| held.iter().find(|one| one.kind == DEGRADED));
    let words = counts.message(min_count);
    if counts.are_below(min_count) {
        let why = refused.map(|why| format!(": {why}")).unwrap_or_default();
        Some(Condition { message: words + &why, ..conditions::true_condition(DEGRADED, "BelowMinCount") })
    } else {
        let was = last.filter(|last| last.status == "True")?;
        // What is gone as a whole is not there again either; it only lacks nothing.
        let reason = if counts == MemberCounts::default() { "NoPods" } else { "MinCountBound" };
        debug_assert_eq!(was.kind, DEGRADED);
        Some(conditions::false_condition(DEGRADED, reason, &words))
    }
}

/// Since when things are as they are.
#[derive(Clone, Copy, Debug)]
pub struct DegradedSince {
    /// The gang lacks pods.
    pub short: Timestamp,
    /// The numbers are these.
    pub counts: Timestamp,
}

/// When `wanted` is to be said: a change of status at once, a mere change of numbers at most once per `pause`; either only
/// when it has lasted a moment, but that all is well again is said without delay.
pub fn publish_time(
    wanted: &Condition,
    held: &[Condition],
    said: Option<&PublishedCondition>,
    since: DegradedSince,
    now: Timestamp,
    pause: Duration,
) -> PublishTime {
    let last = said.map(|said| &said.condition).or_else(|| held.iter().find(|one| one.kind == DEGRADED));
    let same =
        |one: &Condition| (&one.status, &one.reason, &one.message) == (&wanted.status, &wanted.reason, &wanted.message);
    if last.is_some_and(same) {
        return PublishTime::Never;
    }
    let at = match last.filter(|last| last.status == wanted.status) {
        Some(_) => said.map_or(now, |said| said.at + pause).max(since.counts + REPORT_AFTER),
        None if wanted.status == "True" => since.short + REPORT_AFTER,
        None => now,
    };
    if now >= at { PublishTime::Now } else { PublishTime::At(at) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn counts(bound: usize, succeeded: usize, waiting: usize) -> MemberCounts {
        MemberCounts { waiting, bound, succeeded }
    }

    fn said(status: &str, message: &str) -> PublishedCondition {
        let condition = Condition {
            status: status.into(),
            message: message.into(),
            ..conditions::true_condition(DEGRADED, "BelowMinCount")
        };
        PublishedCondition { condition, at: at(100) }
    }

    #[test]
    fn a_gang_of_four_is_degraded_while_pods_of_it_are_missing() {
        let short = said("True", "x");
        for (case, counts, said, want) in [
            ("all bound", counts(4, 0, 0), None, ""),
            ("one replaced", counts(3, 0, 1), None, "True BelowMinCount 3 of minCount 4 pods bound, 1 waiting"),
            ("one lost for good", counts(3, 0, 0), None, "True BelowMinCount 3 of minCount 4 pods bound, 0 waiting"),
            ("some have done their part", counts(1, 3, 0), None, ""),
            (
                "one failed beside them",
                counts(1, 2, 1),
                None,
                "True BelowMinCount 1 of minCount 4 pods bound, 2 succeeded, 1 waiting",
            ),
            ("suspended", counts(0, 0, 0), None, ""),
            ("starts anew", counts(0, 0, 4), None, "True BelowMinCount 0 of minCount 4 pods bound, 4 waiting"),
            ("whole again", counts(4, 0, 0), Some(&short), "False MinCountBound 4 of minCount 4 pods bound, 0 waiting"),
            ("gone since", counts(0, 0, 0), Some(&short), "False NoPods 0 of minCount 4 pods bound, 0 waiting"),
        ] {
            let text = |refused: Option<&str>| {
                let wanted = condition(counts, 4, &[], said, refused);
                wanted.map(|c| format!("{} {} {}", c.status, c.reason, c.message)).unwrap_or_default()
            };
            assert_eq!(text(None), want, "{case}");
            let why = if want.starts_with("True") { ": no room" } else { "" };
            assert_eq!(text(Some("no room")), format!("{want}{why}"), "{case}, and refused");
        }
    }

    #[test]
    fn a_change_is_said_once_and_numbers_after_a_pause() {
        let pause = Duration::from_secs(10);
        let wanted = said("True", "3 of 4").condition;
        let (same, numbers) = (said("True", "3 of 4"), said("True", "2 of 4"));
        for (case, said, held, since, now, want) in [
            ("at first", None, vec![], 105, 105, PublishTime::At(at(106))),
            ("a moment later", None, vec![], 105, 106, PublishTime::Now),
            ("said already", Some(&same), vec![], 105, 200, PublishTime::Never),
            ("said before a restart", None, vec![wanted.clone()], 105, 200, PublishTime::Never),
            ("other numbers", Some(&numbers), vec![], 105, 105, PublishTime::At(at(110))),
            ("other numbers later", Some(&numbers), vec![], 105, 110, PublishTime::Now),
            ("numbers that may pass", Some(&numbers), vec![], 120, 120, PublishTime::At(at(121))),
        ] {
            let since = DegradedSince { short: at(since), counts: at(since) };
            assert_eq!(publish_time(&wanted, &held, said, since, at(now), pause), want, "{case}");
        }
        let over = said("False", "4 of 4").condition;
        let since = DegradedSince { short: at(105), counts: at(105) };
        assert_eq!(publish_time(&over, &[], Some(&same), since, at(105), pause), PublishTime::Now);
    }
}
