//! The `Degraded` condition: whether a gang that once had `minCount` pods still has them, and when to write it. Pure.

use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, PodView};

use crate::announce::conditions::{self, DEGRADED};
use crate::announce::publish::PublishTime;

/// How long a gang may lack pods before it is reported. So neither pods that are deleted together, as when their Job is
/// suspended, nor a pod that is replaced at once cause a write.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// State of one pod of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has no node yet.
    Waiting,
    /// It has a node, and has not ended.
    Bound,
    /// It succeeded.
    Succeeded,
    /// It failed, or is being deleted.
    Lost,
}

impl MemberState {
    /// The state of `pod`.
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

/// Pods of a group by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// Pods without a node.
    pub waiting: usize,
    /// Pods on a node.
    pub bound: usize,
    /// Pods that succeeded and still exist.
    pub succeeded: usize,
}

impl MemberCounts {
    /// Adds (`more`) or removes one pod in `state`.
    pub fn count(&mut self, state: MemberState, more: bool) {
        let count = match state {
            MemberState::Waiting => &mut self.waiting,
            MemberState::Bound => &mut self.bound,
            MemberState::Succeeded => &mut self.succeeded,
            MemberState::Lost => return,
        };
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
    }

    /// Whether a gang of `min_count` has started and lacks pods. A gang without any pods lacks none: it has not started
    /// again, as after a suspension.
    pub fn are_below(self, min_count: usize) -> bool {
        self.bound + self.succeeded < min_count && self.bound + self.waiting > 0
    }

    fn message(self, min_count: usize) -> String {
        let MemberCounts { waiting, bound, succeeded } = self;
        let succeeded_text = if succeeded > 0 { format!(", {succeeded} succeeded") } else { String::new() };
        format!("{bound} of minCount {min_count} pods bound{succeeded_text}, {waiting} waiting")
    }
}

/// The last published condition of a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedCondition {
    /// The condition.
    pub condition: Condition,
    /// When.
    pub at: Timestamp,
}

/// The condition that a gang should have which once had `min_count` pods; `None` if it never lacked a pod. `refused` is why
/// its pending pods do not fit: `PodGroupInitiallyScheduled` stays True and cannot report it.
pub fn condition(
    counts: MemberCounts,
    min_count: usize,
    current: &[Condition],
    published: Option<&PublishedCondition>,
    refused: Option<&str>,
) -> Option<Condition> {
    let last = last_condition(current, published);
    let message = counts.message(min_count);
    if counts.are_below(min_count) {
        let reason = refused.map(|refused| format!(": {refused}")).unwrap_or_default();
        Some(Condition { message: message + &reason, ..conditions::true_condition(DEGRADED, "BelowMinCount") })
    } else {
        let was_true = last.filter(|last| last.status == "True")?;
        // A gang without any pods is not complete again; it only lacks none.
        let reason = if counts == MemberCounts::default() { "NoPods" } else { "MinCountBound" };
        debug_assert_eq!(was_true.kind, DEGRADED);
        Some(conditions::false_condition(DEGRADED, reason, &message))
    }
}

/// The condition that was published last, or that the object has.
fn last_condition<'a>(current: &'a [Condition], published: Option<&'a PublishedCondition>) -> Option<&'a Condition> {
    let held = || current.iter().find(|condition| condition.kind == DEGRADED);
    published.map(|published| &published.condition).or_else(held)
}

/// Since when the present state lasts.
#[derive(Clone, Copy, Debug)]
pub struct DegradedSince {
    /// Since when the gang lacks pods.
    pub short: Timestamp,
    /// Since when the numbers are unchanged.
    pub counts: Timestamp,
}

/// When `wanted` is published: a change of status at once, a mere change of numbers at most once per `pause`. Both must have
/// lasted for `REPORT_AFTER`, except that a change to False is published without delay.
pub fn publish_time(
    wanted: &Condition,
    current: &[Condition],
    published: Option<&PublishedCondition>,
    since: DegradedSince,
    now: Timestamp,
    pause: Duration,
) -> PublishTime {
    let last = last_condition(current, published);
    let is_same = |condition: &Condition| {
        (&condition.status, &condition.reason, &condition.message) == (&wanted.status, &wanted.reason, &wanted.message)
    };
    if last.is_some_and(is_same) {
        return PublishTime::Never;
    }
    let at = match last.filter(|last| last.status == wanted.status) {
        Some(_) => published.map_or(now, |published| published.at + pause).max(since.counts + REPORT_AFTER),
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

    fn published(status: &str, message: &str) -> PublishedCondition {
        let condition = Condition {
            status: status.into(),
            message: message.into(),
            ..conditions::true_condition(DEGRADED, "BelowMinCount")
        };
        PublishedCondition { condition, at: at(100) }
    }

    #[test]
    fn a_gang_is_degraded_while_it_lacks_pods() {
        let short = published("True", "x");
        for (case, counts, published, want) in [
            ("all bound", counts(4, 0, 0), None, ""),
            ("one replaced", counts(3, 0, 1), None, "True BelowMinCount 3 of minCount 4 pods bound, 1 waiting"),
            ("one lost for good", counts(3, 0, 0), None, "True BelowMinCount 3 of minCount 4 pods bound, 0 waiting"),
            ("some have succeeded", counts(1, 3, 0), None, ""),
            (
                "some have succeeded and one failed",
                counts(1, 2, 1),
                None,
                "True BelowMinCount 1 of minCount 4 pods bound, 2 succeeded, 1 waiting",
            ),
            ("suspended", counts(0, 0, 0), None, ""),
            ("starts again", counts(0, 0, 4), None, "True BelowMinCount 0 of minCount 4 pods bound, 4 waiting"),
            (
                "complete again",
                counts(4, 0, 0),
                Some(&short),
                "False MinCountBound 4 of minCount 4 pods bound, 0 waiting",
            ),
            ("all pods deleted", counts(0, 0, 0), Some(&short), "False NoPods 0 of minCount 4 pods bound, 0 waiting"),
        ] {
            let text = |refused: Option<&str>| {
                let wanted = condition(counts, 4, &[], published, refused);
                wanted.map(|c| format!("{} {} {}", c.status, c.reason, c.message)).unwrap_or_default()
            };
            assert_eq!(text(None), want, "{case}");
            let reason = if want.starts_with("True") { ": no node fits" } else { "" };
            assert_eq!(text(Some("no node fits")), format!("{want}{reason}"), "{case}, and refused");
        }
    }

    #[test]
    fn a_change_is_published_once_and_numbers_after_a_pause() {
        let pause = Duration::from_secs(10);
        let wanted = published("True", "3 of 4").condition;
        let (same, numbers) = (published("True", "3 of 4"), published("True", "2 of 4"));
        for (case, published, current, since, now, want) in [
            ("at first", None, vec![], 105, 105, PublishTime::At(at(106))),
            ("a moment later", None, vec![], 105, 106, PublishTime::Now),
            ("published already", Some(&same), vec![], 105, 200, PublishTime::Never),
            ("published before a restart", None, vec![wanted.clone()], 105, 200, PublishTime::Never),
            ("other numbers", Some(&numbers), vec![], 105, 105, PublishTime::At(at(110))),
            ("other numbers later", Some(&numbers), vec![], 105, 110, PublishTime::Now),
            ("numbers that may be temporary", Some(&numbers), vec![], 120, 120, PublishTime::At(at(121))),
        ] {
            let since = DegradedSince { short: at(since), counts: at(since) };
            assert_eq!(publish_time(&wanted, &current, published, since, at(now), pause), want, "{case}");
        }
        let complete = published("False", "4 of 4").condition;
        let since = DegradedSince { short: at(105), counts: at(105) };
        assert_eq!(publish_time(&complete, &[], Some(&same), since, at(105), pause), PublishTime::Now);
    }
}
