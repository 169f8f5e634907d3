//! Whether a gang that once had its `minCount` still has it, and when a change of that is worth a write. Pure.

use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, PodView};

use crate::conditions::{self, DEGRADED};
use crate::say::Due;

/// How long a gang may lack pods before that is said. Pods that all go together, as when their Job is suspended, leave no
/// word behind, nor does one that is replaced at once.
const SAID_AFTER: Duration = Duration::from_secs(1);

/// Where one pod of a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It waits for a node.
    Waiting,
    /// It has one, and has not ended.
    Bound,
    /// It ran to its end: it did its part.
    Succeeded,
    /// It failed, or is on its way out.
    Lost,
}

impl Place {
    /// Where `pod` stands.
    pub fn of(pod: &PodView) -> Place {
        if pod.status.phase == api::views::PodPhase::Succeeded {
            Place::Succeeded
        } else if pod.is_finished() || pod.metadata.is_deleting() {
            Place::Lost
        } else if pod.node_name().is_some() {
            Place::Bound
        } else {
            Place::Waiting
        }
    }
}

/// How many pods of a group stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods without a node.
    pub waiting: usize,
    /// Pods on a node.
    pub bound: usize,
    /// Pods that ran to their end and still exist.
    pub succeeded: usize,
}

impl Counts {
    /// One pod more or one less stands there.
    pub fn count(&mut self, place: Place, more: bool) {
        let count = match place {
            Place::Waiting => &mut self.waiting,
            Place::Bound => &mut self.bound,
            Place::Succeeded => &mut self.succeeded,
            Place::Lost => return,
        };
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
    }

    /// Whether a gang of `min_count` has begun and lacks pods. One of which nothing is left lacks nothing: it has not
    /// begun anew, as after a suspension.
    pub fn fall_short_of(self, min_count: usize) -> bool {
        self.bound + self.succeeded < min_count && self.bound + self.waiting > 0
    }

    fn words(self, min_count: usize) -> String {
        let Counts { waiting, bound, succeeded } = self;
        let done = if succeeded > 0 { format!(", {succeeded} succeeded") } else { String::new() };
        format!("{bound} of minCount {min_count} pods bound{done}, {waiting} waiting")
    }
}

/// What was last said about a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The condition.
    pub condition: Condition,
    /// When.
    pub at: Timestamp,
}

/// The condition that a gang of `min_count`, which had that many once, should carry; none if it never lacked a pod.
/// `refused` is why those that wait find no place: `PodGroupInitiallyScheduled` is True for good, and cannot say it.
pub fn condition(
    counts: Counts,
    min_count: usize,
    held: &[Condition],
    said: Option<&Said>,
    refused: Option<&str>,
) -> Option<Condition> {
    let last = said.map(|said| &said.condition).or_else(|| held.iter().find(|one| one.kind == DEGRADED));
    let words = counts.words(min_count);
    if counts.fall_short_of(min_count) {
        let why = refused.map(|why| format!(": {why}")).unwrap_or_default();
        Some(Condition { message: words + &why, ..conditions::holds(DEGRADED, "BelowMinCount") })
    } else {
        let was = last.filter(|last| last.status == "True")?;
        // What is gone as a whole is not there again either; it only lacks nothing.
        let reason = if counts == Counts::default() { "NoPods" } else { "MinCountBound" };
        debug_assert_eq!(was.kind, DEGRADED);
        Some(conditions::fails(DEGRADED, reason, &words))
    }
}

/// Since when things are as they are.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    /// The gang lacks pods.
    pub short: Timestamp,
    /// The numbers are these.
    pub counts: Timestamp,
}

/// When `wanted` is to be said: a change of status at once, a mere change of numbers at most once per `pause`; either only
/// when it has lasted a moment, but that all is well again is said without delay.
pub fn due(
    wanted: &Condition,
    held: &[Condition],
    said: Option<&Said>,
    since: Since,
    now: Timestamp,
    pause: Duration,
) -> Due {
    let last = said.map(|said| &said.condition).or_else(|| held.iter().find(|one| one.kind == DEGRADED));
    let same =
        |one: &Condition| (&one.status, &one.reason, &one.message) == (&wanted.status, &wanted.reason, &wanted.message);
    if last.is_some_and(same) {
        return Due::Never;
    }
    let at = match last.filter(|last| last.status == wanted.status) {
        Some(_) => said.map_or(now, |said| said.at + pause).max(since.counts + SAID_AFTER),
        None if wanted.status == "True" => since.short + SAID_AFTER,
        None => now,
    };
    if now >= at { Due::Now } else { Due::At(at) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn counts(bound: usize, succeeded: usize, waiting: usize) -> Counts {
        Counts { waiting, bound, succeeded }
    }

    fn said(status: &str, message: &str) -> Said {
        let condition = Condition {
            status: status.into(),
            message: message.into(),
            ..conditions::holds(DEGRADED, "BelowMinCount")
        };
        Said { condition, at: at(100) }
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
            ("at first", None, vec![], 105, 105, Due::At(at(106))),
            ("a moment later", None, vec![], 105, 106, Due::Now),
            ("said already", Some(&same), vec![], 105, 200, Due::Never),
            ("said before a restart", None, vec![wanted.clone()], 105, 200, Due::Never),
            ("other numbers", Some(&numbers), vec![], 105, 105, Due::At(at(110))),
            ("other numbers later", Some(&numbers), vec![], 105, 110, Due::Now),
            ("numbers that may pass", Some(&numbers), vec![], 120, 120, Due::At(at(121))),
        ] {
            let since = Since { short: at(since), counts: at(since) };
            assert_eq!(due(&wanted, &held, said, since, at(now), pause), want, "{case}");
        }
        let over = said("False", "4 of 4").condition;
        let since = Since { short: at(105), counts: at(105) };
        assert_eq!(due(&over, &[], Some(&same), since, at(105), pause), Due::Now);
    }
}
