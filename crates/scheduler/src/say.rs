//! When a refusal or a success is worth a write. Pure: views and memories in, what to write out.

use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, PodGroupView};
use scheduler_core::{Cause, Refusal};

use crate::conditions::{self, INITIALLY_SCHEDULED, SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE};

/// A refusal in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// What kind of obstacle it is.
    pub cause: Cause,
    /// For the group (or the single pod's event).
    pub message: String,
    /// For each of its pods: `0/N nodes are available: …`.
    pub pod_message: String,
    /// The domain that came nearest to fitting, where there are domains.
    pub nearest: Option<String>,
}

impl Words {
    /// What `refusal` says.
    pub fn of(refusal: &Refusal) -> Words {
        Words {
            cause: refusal.cause.clone(),
            message: refusal.message(),
            pod_message: refusal.pod_message(),
            nearest: refusal.nearest.as_ref().map(|nearest| nearest.value.clone()),
        }
    }
}

/// What was last said about a refused unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Those words.
    pub words: Words,
    /// When.
    pub at: Timestamp,
}

/// What to do about words that may be worth saying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// They have been said.
    Never,
    /// Say them now.
    Now,
    /// Too much has been said lately; look again then.
    At(Timestamp),
}

/// Whether `words` are to be said now. News (nothing said yet, another cause or nearest domain) at once; a mere change of
/// numbers at most once per `pause`, because on a busy cluster they change with every pod.
pub fn due(words: &Words, said: Option<&Said>, now: Timestamp, pause: Duration) -> Due {
    let Some(said) = said else { return Due::Now };
    if said.words == *words {
        return Due::Never;
    }
    let (before, again) = (&said.words, said.at + pause);
    let is_news = (&before.cause, &before.nearest) != (&words.cause, &words.nearest);
    if is_news || now >= again { Due::Now } else { Due::At(again) }
}

/// The condition `group` should carry, if it does not yet, given how many of its pods are bound, those that succeeded
/// included, why it is refused, and what the server said to the last bind that it did not take.
///
/// Upstream: sets True when it hands the pods to binding, so a group whose binds then fail is called scheduled. We
/// wait for the binds. Like upstream it never goes back to False.
pub fn condition_for(
    group: &PodGroupView,
    bound: usize,
    succeeded: usize,
    refused: Option<&Words>,
    bind_error: Option<&str>,
) -> Option<Condition> {
    let held = &group.status.conditions;
    if Condition::is_true(held, INITIALLY_SCHEDULED) {
        return None;
    }
    // A Basic group has no number to reach; its first pod shows that it can be scheduled.
    let needed = group.quorum(succeeded).unwrap_or(1);
    let wanted = if bound >= needed {
        // Upstream: no message. How many there are now is told by `Degraded`, where they become too few.
        let message = if bound == 1 { "1 pod bound".to_owned() } else { format!("{bound} pods bound") };
        Condition { message, ..conditions::holds(INITIALLY_SCHEDULED, SCHEDULED) }
    } else if let Some(refused) = refused {
        conditions::fails(INITIALLY_SCHEDULED, UNSCHEDULABLE, &refused.message)
    } else {
        conditions::fails(INITIALLY_SCHEDULED, SCHEDULER_ERROR, bind_error?)
    };
    (!conditions::says(held, &wanted)).then_some(wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use api::views::View;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn words(message: &str, nearest: &str) -> Words {
        Words {
            cause: Cause::NoRoom,
            message: message.into(),
            pod_message: String::new(),
            nearest: Some(nearest.into()),
        }
    }

    #[test]
    fn news_is_said_at_once_and_numbers_after_a_pause() {
        let pause = Duration::from_secs(10);
        let said = Said { words: words("3 of 4 fit", "rack1"), at: at(100) };
        for (case, new, said, now, want) in [
            ("first words", words("3 of 4 fit", "rack1"), None, 100, Due::Now),
            ("the same words", words("3 of 4 fit", "rack1"), Some(&said), 500, Due::Never),
            ("other numbers soon after", words("2 of 4 fit", "rack1"), Some(&said), 104, Due::At(at(110))),
            ("other numbers later", words("2 of 4 fit", "rack1"), Some(&said), 110, Due::Now),
            ("another domain", words("3 of 4 fit", "rack2"), Some(&said), 101, Due::Now),
            ("another cause", Words { cause: Cause::Incomplete, ..said.words.clone() }, Some(&said), 101, Due::Now),
        ] {
            assert_eq!(due(&new, said, at(now), pause), want, "{case}");
        }
    }

    #[test]
    fn group_condition_follows_binds_first_and_refusals_second() {
        let gang = r#""spec":{"schedulingPolicy":{"gang":{"minCount":3}}}"#;
        let basic = r#""spec":{"schedulingPolicy":{"basic":{}}}"#;
        let has = |status: &str, reason: &str, message: &str| {
            format!(
                r#""status":{{"conditions":[{{"type":"PodGroupInitiallyScheduled","status":"{status}","reason":"{reason}","message":"{message}"}}]}}"#
            )
        };
        let nothing = r#""status":{}"#.to_owned();
        let refused = words("no room", "rack1");
        for (case, spec, status, bound, refused, want) in [
            ("not judged yet", gang, &nothing, 0, None, ""),
            ("refused", gang, &nothing, 0, Some(&refused), "False Unschedulable no room"),
            ("refused as before", gang, &has("False", "Unschedulable", "no room"), 0, Some(&refused), ""),
            ("binds still in flight", gang, &nothing, 2, None, ""),
            ("bound", gang, &nothing, 3, None, "True Scheduled 3 pods bound"),
            (
                "bound after a refusal",
                gang,
                &has("False", "Unschedulable", "x"),
                4,
                None,
                "True Scheduled 4 pods bound",
            ),
            ("bound, the rest refused", gang, &nothing, 3, Some(&refused), "True Scheduled 3 pods bound"),
            ("was bound once", gang, &has("True", "Scheduled", ""), 1, Some(&refused), ""),
            ("basic with one pod bound", basic, &nothing, 1, None, "True Scheduled 1 pod bound"),
            ("basic refused", basic, &nothing, 0, Some(&refused), "False Unschedulable no room"),
        ] {
            let group = PodGroupView::decode(format!("{{{spec},{status}}}").as_bytes()).unwrap();
            let text = |c: Condition| format!("{} {} {}", c.status, c.reason, c.message);
            assert_eq!(condition_for(&group, bound, 0, refused, None).map(text).unwrap_or_default(), want, "{case}");
            // A bind that the server did not take is only told where nothing else is.
            let with_error = condition_for(&group, bound, 0, refused, Some("pod a: full"));
            let is_silent = want.is_empty() && refused.is_none();
            let want = if is_silent { "False SchedulerError pod a: full" } else { want };
            assert_eq!(with_error.map(text).unwrap_or_default(), want, "{case}, and a bind was not taken");
        }
    }
}
