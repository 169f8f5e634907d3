//! The conditions that a deleted namespace should have, and what to do next.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, NamespaceView};
use jiff::SignedDuration;

/// The finalizer of this controller, in `spec.finalizers`.
pub const FINALIZER: &str = "kubernetes";

/// What was found in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceContent {
    /// Errors of discovery.
    pub discovery_errors: Vec<String>,
    /// Errors of deletes.
    pub deletion_errors: Vec<String>,
    /// The remaining objects, one entry per kind.
    pub remaining: Vec<RemainingObjects>,
}

/// Remaining objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemainingObjects {
    /// `plural.group`.
    pub kind: String,
    /// How many.
    pub count: usize,
    /// How many of them have each finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl NamespaceContent {
    /// Whether it is certain that nothing remains.
    pub fn is_empty(&self) -> bool {
        self.discovery_errors.is_empty() && self.deletion_errors.is_empty() && self.remaining.is_empty()
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceStep {
    /// Objects remain: reconcile again later.
    Recheck,
    /// The namespace is empty, but a create may be in flight: reconcile again after this time.
    WaitBeforeFinalize(Duration),
    /// The namespace is empty and stays so.
    Finalize,
}

/// Whether the namespace is being deleted and has our finalizer.
pub fn awaits_finalize(namespace: &NamespaceView) -> bool {
    namespace.metadata.is_deleting() && namespace.spec.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

/// What to do after `found`.
pub fn next_step(
    namespace: &NamespaceView,
    found: &NamespaceContent,
    min_termination: Duration,
    now: Timestamp,
) -> NamespaceStep {
    if !found.is_empty() {
        return NamespaceStep::Recheck;
    }
    let deleted = namespace.metadata.deletion_timestamp.unwrap_or(now);
    let passed = now.duration_since(deleted);
    let remaining = SignedDuration::try_from(min_termination).unwrap_or(SignedDuration::MAX) - passed;
    match Duration::try_from(remaining) {
        Ok(wait) if !wait.is_zero() => NamespaceStep::WaitBeforeFinalize(wait),
        _ => NamespaceStep::Finalize,
    }
}

/// The conditions for `found`, with upstream's messages; `None` if the namespace has them. Other conditions stay.
pub fn conditions(namespace: &NamespaceView, found: &NamespaceContent, now: Timestamp) -> Option<Vec<Condition>> {
    let before = &namespace.status.conditions;
    let mut conditions = before.clone();
    for mut wanted in desired_conditions(found) {
        match conditions.iter_mut().find(|condition| condition.kind == wanted.kind) {
            Some(condition) => {
                wanted.last_transition_time = condition.last_transition_time;
                if *condition != wanted {
                    *condition = Condition { last_transition_time: Some(now), ..wanted };
                }
            }
            None => conditions.push(Condition { last_transition_time: Some(now), ..wanted }),
        }
    }
    (conditions != *before).then_some(conditions)
}

fn desired_conditions(found: &NamespaceContent) -> [Condition; 5] {
    let NamespaceContent { discovery_errors: undiscovered, deletion_errors: undeleted, remaining: left } = found;
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for (finalizer, count) in left.iter().flat_map(|left| &left.finalizers) {
        *finalizers.entry(finalizer).or_default() += count;
    }
    let left: Vec<String> =
        left.iter().map(|left| format!("{} has {} resource instances", left.kind, left.count)).collect();
    let remaining_finalizers: Vec<String> =
        finalizers.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")).collect();
    [
        problem(
            "NamespaceDeletionDiscoveryFailure",
            ("ResourcesDiscovered", "All resources successfully discovered"),
            ("DiscoveryFailed", format!("Discovery failed for some groups, {} failing: ", undiscovered.len())),
            undiscovered,
        ),
        // Never true: group versions come from discovery, where they have one form only.
        problem(
            "NamespaceDeletionGroupVersionParsingFailure",
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
            ("GroupVersionParsingFailed", String::new()),
            &[],
        ),
        problem(
            "NamespaceDeletionContentFailure",
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            ("ContentDeletionFailed", format!("Failed to delete all resource types, {} remaining: ", undeleted.len())),
            undeleted,
        ),
        problem(
            "NamespaceContentRemaining",
            ("ContentRemoved", "All content successfully removed"),
            ("SomeResourcesRemain", "Some resources are remaining: ".to_owned()),
            &left,
        ),
        problem(
            "NamespaceFinalizersRemaining",
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            ("SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: ".to_owned()),
            &remaining_finalizers,
        ),
    ]
}

/// A condition that is True while there are `problems`.
fn problem(kind: &str, fine: (&str, &str), bad: (&str, String), problems: &[String]) -> Condition {
    let (status, reason, message) = if problems.is_empty() {
        ("False", fine.0, fine.1.to_owned())
    } else {
        ("True", bad.0, bad.1 + &problems.join(", "))
    };
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use api::views::View;
    use serde_json::json;

    use super::*;

    const MIN_TERMINATION: Duration = Duration::from_secs(2);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn namespace() -> NamespaceView {
        let document = json!({
            "metadata": {"name": "a", "deletionTimestamp": at(0).to_string()}, "spec": {"finalizers": ["kubernetes"]},
        });
        NamespaceView::decode(document.to_string().as_bytes()).unwrap()
    }

    fn pods(count: usize) -> NamespaceContent {
        let finalizers = BTreeMap::from([("example.com/x".to_owned(), 1)]);
        NamespaceContent {
            remaining: vec![RemainingObjects { kind: "pods.".to_owned(), count, finalizers }],
            ..NamespaceContent::default()
        }
    }

    #[test]
    fn an_empty_namespace_is_finalized_after_the_minimum_termination_time() {
        let failed = NamespaceContent { discovery_errors: vec!["x".to_owned()], ..NamespaceContent::default() };
        for (case, found, now, want) in [
            ("pods are left", pods(1), at(60), NamespaceStep::Recheck),
            ("discovery failed", failed, at(60), NamespaceStep::Recheck),
            (
                "empty, but just deleted",
                NamespaceContent::default(),
                at(0),
                NamespaceStep::WaitBeforeFinalize(MIN_TERMINATION),
            ),
            ("empty", NamespaceContent::default(), at(2), NamespaceStep::Finalize),
            ("empty for a long time", NamespaceContent::default(), at(60), NamespaceStep::Finalize),
        ] {
            assert_eq!(next_step(&namespace(), &found, MIN_TERMINATION, now), want, "{case}");
        }
    }

    #[test]
    fn conditions_report_what_remains_and_change_only_with_it() {
        let mut namespace = namespace();
        let first = conditions(&namespace, &pods(2), at(1)).unwrap();
        assert_eq!(first.len(), 5);
        let of = |conditions: &[Condition], kind: &str| {
            let found = conditions.iter().find(|condition| condition.kind == kind).unwrap();
            (found.status.clone(), found.message.clone(), found.last_transition_time.unwrap())
        };
        let remaining = "Some resources are remaining: pods. has 2 resource instances".to_owned();
        assert_eq!(of(&first, "NamespaceContentRemaining"), ("True".to_owned(), remaining, at(1)));
        let remaining_finalizers =
            "Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances".to_owned();
        assert_eq!(of(&first, "NamespaceFinalizersRemaining").1, remaining_finalizers);
        namespace.status.conditions = first;
        assert_eq!(conditions(&namespace, &pods(2), at(5)), None, "nothing new");
        let second = conditions(&namespace, &pods(1), at(5)).unwrap();
        assert_eq!(of(&second, "NamespaceContentRemaining").2, at(5));
        assert_eq!(of(&second, "NamespaceDeletionContentFailure").2, at(1), "an unchanged condition keeps its time");
    }
}
