//! When a refusal or a success is worth a write. Pure: views and memories in, what to write out.

use std::cmp::Reverse;
use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, PodGroupView};
use scheduler_core::{Reason, Refusal, RefusalCause, Unit};

use crate::conditions::{self, INITIALLY_SCHEDULED, SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE};

/// A refusal in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalMessage {
    /// What kind of obstacle it is.
    pub cause: RefusalCause,
    /// The obstacle without numbers. On a busy cluster numbers change with every pod; only another obstacle is news.
    pub obstacle: String,
    /// For the group (or the single pod's event).
    pub message: String,
    /// For each of its pods. That of a group's pod names the group, whose condition has the numbers.
    pub pod_message: String,
    /// The group lacks pods that it needs, so that it has a condition about this. Of pods beyond those it has none.
    pub is_on_group: bool,
}

impl RefusalMessage {
    /// What `refusal` says.
    pub fn of(refusal: &Refusal) -> RefusalMessage {
        let obstacle = obstacle(refusal);
        let pod_message = match &refusal.unit {
            Unit::Group(group) => format!("waiting for PodGroup {group}: {obstacle}"),
            Unit::Pod(_) => refusal.pod_message(),
        };
        let is_told_by_group = matches!(refusal.unit, Unit::Group(_)) && !refusal.is_about_extra_pods();
        RefusalMessage {
            cause: refusal.cause.clone(),
            message: refusal.message(),
            obstacle,
            pod_message,
            is_on_group: is_told_by_group,
        }
    }

    /// Whether the unit could not be placed on any nodes yet, because what it consists of is not there. Its pods are not
    /// unschedulable, and nothing that adds nodes should take them for it.
    ///
    /// Upstream: such pods stay outside of the queue and have no condition.
    pub fn is_incomplete(&self) -> bool {
        matches!(self.cause, RefusalCause::Incomplete | RefusalCause::NoPodGroup | RefusalCause::Gated)
    }
}

/// What stands in the way of `refusal`'s unit: the kinds of reasons, and not how many nodes have each.
fn obstacle(refusal: &Refusal) -> String {
    match (&refusal.cause, &refusal.unit) {
        (RefusalCause::DoesNotFit, _) if refusal.nodes_count == 0 => "there are no nodes".to_owned(),
        (RefusalCause::DoesNotFit, Unit::Pod(_)) => refusal.reasons.0.keys().cloned().collect::<Vec<_>>().join(", "),
        (RefusalCause::DoesNotFit, Unit::Group(_)) => {
            let (reasons, place) = match &refusal.nearest {
                Some(domain) => (&domain.reasons, format!(" in one {}", short_key(&domain.key))),
                None => (&refusal.reasons, String::new()),
            };
            // One reason alone: which others there are changes with every pod. Nodes that came farthest lack least, and
            // what they lack is what is short; nodes of another kind are refused before, and mostly are more.
            let last = reasons.0.iter().max_by_key(|(reason, count)| (filter_stage(reason), **count, Reverse(*reason)));
            match last.map(|(reason, _)| reason.strip_prefix("Insufficient ").ok_or(reason)) {
                Some(Ok(resource)) => format!("not enough {resource}{place}"),
                Some(Err(reason)) => format!("no room{place}: {}", reason.replacen("node(s)", "nodes", 1)),
                None => format!("no room{place}"),
            }
        }
        (RefusalCause::Incomplete, _) => "fewer pods exist than it needs".to_owned(),
        (RefusalCause::Gated, _) => "some of its pods are gated".to_owned(),
        _ => refusal.plain_message(),
    }
}

/// How far a node came that was refused for this: filters look at it in this order, as in kube-scheduler.
fn filter_stage(reason: &str) -> usize {
    let order = [
        "TopologyPlacementGenerator",
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        // Reservations begin and end, and matter only if nothing else is short.
        "Reservation",
        "NodeResourcesFit",
    ];
    // Filters of one's own come last, too.
    let plugin = Reason::plugin_of(reason).unwrap_or("NodeResourcesFit");
    order.iter().position(|known| *known == plugin).unwrap_or(0)
}

/// A label key without its prefix: `rack` of `topology.kubernetes.io/rack`.
fn short_key(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

/// What was last said about a refused unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedRefusal {
    /// Those words.
    pub words: RefusalMessage,
    /// When.
    pub at: Timestamp,
}

/// What to do about words that may be worth saying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishTime {
    /// They have been said.
    Never,
    /// Say them now.
    Now,
    /// Too much has been said lately; look again then.
    At(Timestamp),
}

/// Whether `words` say more than other numbers: another cause or obstacle than was last said.
pub fn is_new_cause(words: &RefusalMessage, said: Option<&PublishedRefusal>) -> bool {
    said.is_none_or(|said| (&said.words.cause, &said.words.obstacle) != (&words.cause, &words.obstacle))
}

/// Whether `words` are to be said now. News at once; a mere change of numbers at most once per `pause`, because on a busy
/// cluster they change with every pod.
pub fn publish_time(
    words: &RefusalMessage,
    said: Option<&PublishedRefusal>,
    now: Timestamp,
    pause: Duration,
) -> PublishTime {
    let Some(said) = said else { return PublishTime::Now };
    if said.words == *words {
        return PublishTime::Never;
    }
    let again = said.at + pause;
    if is_new_cause(words, Some(said)) || now >= again { PublishTime::Now } else { PublishTime::At(again) }
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
    refused: Option<&RefusalMessage>,
    bind_error: Option<&str>,
) -> Option<Condition> {
    let held = &group.status.conditions;
    if Condition::is_true(held, INITIALLY_SCHEDULED) {
        return None;
    }
    // A Basic group has no number to reach; its first pod shows that it can be scheduled.
    let needed = group.quorum(succeeded).unwrap_or(1);
    let wanted = if bound >= needed {
        // Upstream: no message. Here it stays true whatever becomes of the group: how many there are now is told by
        // `Degraded`, where they become too few.
        let message = match (group.min_count().is_some(), needed) {
            (false, _) => "its first pod was bound".to_owned(),
            (true, 1) => "the 1 pod it needs was bound".to_owned(),
            (true, _) => format!("the {needed} pods it needs were bound"),
        };
        Condition { message, ..conditions::true_condition(INITIALLY_SCHEDULED, SCHEDULED) }
    } else if let Some(refused) = refused {
        conditions::false_condition(INITIALLY_SCHEDULED, UNSCHEDULABLE, &refused.message)
    } else {
        conditions::false_condition(INITIALLY_SCHEDULED, SCHEDULER_ERROR, bind_error?)
    };
    (!conditions::is_current(held, &wanted)).then_some(wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use api::views::{ObjectKey, View};
    use scheduler_core::{ExcludedCounts, Histogram, RemedyStatus};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn words(message: &str, obstacle: &str) -> RefusalMessage {
        let (obstacle, message) = (obstacle.to_owned(), message.to_owned());
        RefusalMessage {
            cause: RefusalCause::DoesNotFit,
            obstacle,
            message,
            pod_message: String::new(),
            is_on_group: true,
        }
    }

    #[test]
    fn news_is_said_at_once_and_numbers_after_a_pause() {
        let pause = Duration::from_secs(10);
        let said = PublishedRefusal { words: words("3 of 4 fit", "not enough cpu"), at: at(100) };
        for (case, new, said, now, want) in [
            ("first words", words("3 of 4 fit", "not enough cpu"), None, 100, PublishTime::Now),
            ("the same words", words("3 of 4 fit", "not enough cpu"), Some(&said), 500, PublishTime::Never),
            (
                "other numbers soon after",
                words("2 of 4 fit", "not enough cpu"),
                Some(&said),
                104,
                PublishTime::At(at(110)),
            ),
            ("other numbers later", words("2 of 4 fit", "not enough cpu"), Some(&said), 110, PublishTime::Now),
            ("another obstacle", words("3 of 4 fit", "not enough memory"), Some(&said), 101, PublishTime::Now),
            (
                "another cause",
                RefusalMessage { cause: RefusalCause::Incomplete, ..said.words.clone() },
                Some(&said),
                101,
                PublishTime::Now,
            ),
        ] {
            assert_eq!(publish_time(&new, said, at(now), pause), want, "{case}");
        }
    }

    #[test]
    fn the_obstacle_is_what_the_nodes_lack_that_came_farthest() {
        let selector = "node(s) didn't match Pod's node affinity/selector";
        let (taint, gpu) = ("node(s) had untolerated taint(s)", "Insufficient nvidia.com/gpu");
        for (reasons, want) in [
            (vec![(selector, 90), (gpu, 10)], "not enough nvidia.com/gpu"),
            (vec![(taint, 90), (selector, 10)], "no room: nodes didn't match Pod's node affinity/selector"),
            (vec![("Insufficient cpu", 8), (gpu, 10), (taint, 100)], "not enough nvidia.com/gpu"),
            (vec![("node(s) were reserved for ns/g", 9), (gpu, 1)], "not enough nvidia.com/gpu"),
            (vec![("node(s) were reserved for ns/g", 1), (taint, 9)], "no room: nodes were reserved for ns/g"),
            (vec![("node(s) were on fire", 11), (gpu, 10)], "no room: nodes were on fire"),
        ] {
            let reasons = Histogram(reasons.into_iter().map(|(text, count)| (text.to_owned(), count)).collect());
            let refusal = Refusal {
                unit: Unit::Group(ObjectKey::new("ns", "g")),
                cause: RefusalCause::DoesNotFit,
                is_gang: true,
                wanted_count: 3,
                pods_count: 3,
                placed_count: 0,
                fits_count: 0,
                nodes_count: 100,
                nearest: None,
                reasons,
                domains: [].into(),
                proven: true,
                can_fit_later: true,
                excluded: ExcludedCounts::default(),
                remedies: RemedyStatus::NotSearched,
            };
            assert_eq!(RefusalMessage::of(&refusal).pod_message, format!("waiting for PodGroup ns/g: {want}"));
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
        let refused = words("no room", "not enough cpu");
        for (case, spec, status, bound, refused, want) in [
            ("not judged yet", gang, &nothing, 0, None, ""),
            ("refused", gang, &nothing, 0, Some(&refused), "False Unschedulable no room"),
            ("refused as before", gang, &has("False", "Unschedulable", "no room"), 0, Some(&refused), ""),
            ("binds still in flight", gang, &nothing, 2, None, ""),
            ("bound", gang, &nothing, 3, None, "True Scheduled the 3 pods it needs were bound"),
            (
                "bound after a refusal",
                gang,
                &has("False", "Unschedulable", "x"),
                4,
                None,
                "True Scheduled the 3 pods it needs were bound",
            ),
            (
                "bound, the rest refused",
                gang,
                &nothing,
                3,
                Some(&refused),
                "True Scheduled the 3 pods it needs were bound",
            ),
            ("was bound once", gang, &has("True", "Scheduled", ""), 1, Some(&refused), ""),
            ("basic with one pod bound", basic, &nothing, 1, None, "True Scheduled its first pod was bound"),
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
