//! When a refusal or a success is written. Pure: views and what was last published in, conditions out.

use std::cmp::Reverse;
use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, PodGroupView};
use scheduler_core::{BUILT_IN_FILTERS, PluginId, Refusal, RefusalCause, RefusalReason, Unit};

use crate::announce::conditions::{self, INITIALLY_SCHEDULED, SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE};

/// The messages of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalMessage {
    /// The kind of obstacle.
    pub cause: RefusalCause,
    /// The obstacle without numbers. On a busy cluster numbers change with every pod; only another obstacle is reported.
    pub obstacle: String,
    /// For the condition and Events of the group, or the Event of a single pod.
    pub message: String,
    /// For the condition of each pod. For a group member it names the group, whose condition has the numbers.
    pub pod_message: String,
    /// Whether the group lacks pods that it needs, so it has a condition about this; it has none about pods beyond those.
    pub is_on_group: bool,
}

impl RefusalMessage {
    /// The messages of `refusal`.
    pub fn of(refusal: &Refusal) -> RefusalMessage {
        let obstacle = obstacle(refusal);
        let pod_message = match &refusal.unit {
            Unit::Group(group) => format!("waiting for PodGroup {group}: {obstacle}"),
            Unit::Pod(_) => refusal.pod_message(),
        };
        let is_on_group = matches!(refusal.unit, Unit::Group(_)) && !refusal.is_about_extra_pods();
        RefusalMessage { cause: refusal.cause.clone(), message: refusal.message(), obstacle, pod_message, is_on_group }
    }

    /// Whether its pods are marked unschedulable: the unit was tried on the nodes, or needs what only other schedulers
    /// support. An autoscaler adds nodes for such pods, so pods that no node would help are not among them.
    ///
    /// Upstream: pods with terms that this scheduler does not support are tried, and marked when they do not fit.
    pub fn is_unschedulable(&self) -> bool {
        match self.cause {
            RefusalCause::DoesNotFit
            | RefusalCause::NoDomain { .. }
            | RefusalCause::MembersSplit { .. }
            | RefusalCause::UnsupportedTerms { .. }
            | RefusalCause::ParentNotBasic { .. } => true,
            RefusalCause::Incomplete
            | RefusalCause::NoPodGroup
            | RefusalCause::NoParent { .. }
            | RefusalCause::ParentCycle { .. }
            | RefusalCause::Gated
            | RefusalCause::OtherOwner { .. }
            | RefusalCause::PriorityMismatch { .. } => false,
        }
    }

    /// Whether the unit lacks pods or objects.
    ///
    /// Upstream: such pods stay outside of the queue and have no condition.
    pub fn is_incomplete(&self) -> bool {
        matches!(
            self.cause,
            RefusalCause::Incomplete
                | RefusalCause::NoPodGroup
                | RefusalCause::NoParent { .. }
                | RefusalCause::ParentCycle { .. }
                | RefusalCause::Gated
        )
    }
}

/// The obstacle of a refusal: kinds of reasons without the numbers of nodes.
fn obstacle(refusal: &Refusal) -> String {
    match (&refusal.cause, &refusal.unit) {
        (RefusalCause::DoesNotFit, _) if refusal.nodes_count == 0 => "there are no nodes".to_owned(),
        (RefusalCause::DoesNotFit, Unit::Pod(_)) => {
            refusal.reasons.0.keys().map(|reason| reason.text.as_str()).collect::<Vec<_>>().join(", ")
        }
        (RefusalCause::DoesNotFit, Unit::Group(_)) => {
            let (reasons, place) = match &refusal.nearest {
                Some(domain) => (&domain.reasons, format!(" in one {}", short_key(&domain.key))),
                None => (&refusal.reasons, String::new()),
            };
            // One reason only, because the others change with every pod. It is that of the nodes that passed most filters:
            // what these lack is what is short. Nodes of another kind fail earlier, and are mostly more.
            let last = reasons.0.iter().max_by_key(|(reason, count)| (filter_stage(reason), **count, Reverse(*reason)));
            match last {
                Some((RefusalReason { resource: Some(resource), .. }, _)) => format!("not enough {resource}{place}"),
                Some((reason, _)) => format!("no node fits{place}: {}", reason.text.replacen("node(s)", "nodes", 1)),
                None => format!("no node fits{place}"),
            }
        }
        (RefusalCause::Incomplete, _) => "fewer pods exist than it needs".to_owned(),
        (RefusalCause::Gated, _) => "some of its pods are gated".to_owned(),
        _ => refusal.plain_message(),
    }
}

/// Grows with the number of filters that a node passed that was refused for this reason.
fn filter_stage(reason: &RefusalReason) -> usize {
    let last = 2 * BUILT_IN_FILTERS.len();
    let position = BUILT_IN_FILTERS.iter().position(|filter| filter.id == reason.plugin);
    match &reason.plugin {
        // Reservations begin and end, and matter only if nothing else is short.
        plugin if *plugin == PluginId::RESERVATION => last - 1,
        // Not a filter.
        plugin if *plugin == PluginId::TOPOLOGY => 0,
        // Custom filters come last.
        _ => position.map_or(last, |at| 2 * (at + 1)),
    }
}

/// A label key without its prefix: `rack` of `topology.kubernetes.io/rack`.
fn short_key(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

/// What was last published about a refused unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedRefusal {
    /// Its messages.
    pub message: RefusalMessage,
    /// When.
    pub at: Timestamp,
}

/// When a message is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishTime {
    /// It has been published.
    Never,
    /// Publish it now.
    Now,
    /// The last one was too recent; check again at this time.
    At(Timestamp),
}

/// Whether `message` differs from the published one in more than numbers: in cause or obstacle.
pub fn is_new_cause(message: &RefusalMessage, published: Option<&PublishedRefusal>) -> bool {
    let Some(PublishedRefusal { message: published, .. }) = published else { return true };
    (&published.cause, &published.obstacle) != (&message.cause, &message.obstacle)
}

/// When `message` is published. A new cause at once; a mere change of numbers at most once per `pause`, because on a busy
/// cluster they change with every pod.
pub fn publish_time(
    message: &RefusalMessage,
    published: Option<&PublishedRefusal>,
    now: Timestamp,
    pause: Duration,
) -> PublishTime {
    let Some(published) = published else { return PublishTime::Now };
    if published.message == *message {
        return PublishTime::Never;
    }
    let next = published.at + pause;
    if is_new_cause(message, Some(published)) || now >= next { PublishTime::Now } else { PublishTime::At(next) }
}

/// The condition `PodGroupInitiallyScheduled` that `group` should have, if it does not have it yet. `bound` includes pods
/// that succeeded; `bind_error` is the server's response to the last bind that failed.
///
/// Upstream: sets True when binding begins, so a group whose binds then fail is called scheduled. We
/// wait for the binds. Like upstream, the condition never returns to False.
pub fn condition_for(
    group: &PodGroupView,
    bound: usize,
    succeeded: usize,
    refused: Option<&RefusalMessage>,
    bind_error: Option<&str>,
) -> Option<Condition> {
    let current = &group.status.conditions;
    if Condition::is_true(current, INITIALLY_SCHEDULED) {
        return None;
    }
    // A Basic group has no number to reach; its first pod shows that it can be scheduled.
    let needed = group.quorum(succeeded).unwrap_or(1);
    let wanted = if bound >= needed {
        // Upstream: no message. The text stays true whatever happens to the group later. `Degraded` has the present number
        // of pods when they become too few.
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
    (!conditions::is_current(current, &wanted)).then_some(wanted)
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

    fn refusal_message(message: &str, obstacle: &str) -> RefusalMessage {
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
    fn a_new_cause_is_published_at_once_and_numbers_after_a_pause() {
        let pause = Duration::from_secs(10);
        let published = PublishedRefusal { message: refusal_message("3 of 4 fit", "not enough cpu"), at: at(100) };
        for (case, message, published, now, want) in [
            ("first message", refusal_message("3 of 4 fit", "not enough cpu"), None, 100, PublishTime::Now),
            (
                "the same message",
                refusal_message("3 of 4 fit", "not enough cpu"),
                Some(&published),
                500,
                PublishTime::Never,
            ),
            (
                "other numbers soon after",
                refusal_message("2 of 4 fit", "not enough cpu"),
                Some(&published),
                104,
                PublishTime::At(at(110)),
            ),
            (
                "other numbers later",
                refusal_message("2 of 4 fit", "not enough cpu"),
                Some(&published),
                110,
                PublishTime::Now,
            ),
            (
                "another obstacle",
                refusal_message("3 of 4 fit", "not enough memory"),
                Some(&published),
                101,
                PublishTime::Now,
            ),
            (
                "another cause",
                RefusalMessage { cause: RefusalCause::Incomplete, ..published.message.clone() },
                Some(&published),
                101,
                PublishTime::Now,
            ),
        ] {
            assert_eq!(publish_time(&message, published, at(now), pause), want, "{case}");
        }
    }

    #[test]
    fn the_obstacle_is_that_of_the_nodes_that_passed_most_filters() {
        let reason = |plugin: PluginId, text: &str| RefusalReason { text: text.to_owned(), plugin, resource: None };
        let insufficient = |resource: &str| RefusalReason {
            resource: Some(resource.to_owned()),
            ..reason(PluginId::NODE_RESOURCES_FIT, &format!("Insufficient {resource}"))
        };
        let selector = &reason(PluginId::NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector");
        let taint = &reason(PluginId::TAINT_TOLERATION, "node(s) had untolerated taint(s)");
        let reserved = &reason(PluginId::RESERVATION, "node(s) were reserved for ns/g");
        let custom = &reason(PluginId::new("SmokeDetector"), "node(s) were on fire");
        let (cpu, gpu) = (&insufficient("cpu"), &insufficient("nvidia.com/gpu"));
        for (reasons, want) in [
            (vec![(selector, 90), (gpu, 10)], "not enough nvidia.com/gpu"),
            (vec![(taint, 90), (selector, 10)], "no node fits: nodes didn't match Pod's node affinity/selector"),
            (vec![(cpu, 8), (gpu, 10), (taint, 100)], "not enough nvidia.com/gpu"),
            (vec![(reserved, 9), (gpu, 1)], "not enough nvidia.com/gpu"),
            (vec![(reserved, 1), (taint, 9)], "no node fits: nodes were reserved for ns/g"),
            (vec![(custom, 11), (gpu, 10)], "no node fits: nodes were on fire"),
        ] {
            let reasons = Histogram(reasons.into_iter().map(|(reason, count)| (reason.clone(), count)).collect());
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
        let refused = refusal_message("no room", "not enough cpu");
        for (case, spec, status, bound, refused, want) in [
            ("not decided yet", gang, &nothing, 0, None, ""),
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
            // The error of a failed bind is reported only without another condition.
            let with_error = condition_for(&group, bound, 0, refused, Some("pod a: full"));
            let has_none = want.is_empty() && refused.is_none();
            let want = if has_none { "False SchedulerError pod a: full" } else { want };
            assert_eq!(with_error.map(text).unwrap_or_default(), want, "{case}, and a bind failed");
        }
    }
}
