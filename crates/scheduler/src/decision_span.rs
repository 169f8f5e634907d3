//! Tracing spans of decisions. The decision's id is in every log line of its binds and releases.

use api::Revision;
use scheduler_core::{Decision, DecisionAction, Unit};
use tracing::Span;

/// Numbers the decisions of one scheduler, and knows the revision that they are based on.
#[derive(Debug)]
pub(crate) struct DecisionSpans {
    last_id: u64,
    /// Every change of a pod up to this revision was observed before the present turn.
    pub(crate) revision: Revision,
}

impl DecisionSpans {
    pub(crate) fn new() -> DecisionSpans {
        DecisionSpans { last_id: 0, revision: Revision::ZERO }
    }

    /// The span of the next decision, at debug level. `attempt`: how often the unit was tried, this time included.
    pub(crate) fn next(&mut self, decision: &Decision, attempt: u32) -> Span {
        self.last_id += 1;
        let unit_kind = match &decision.unit {
            Unit::Pod(_) => "Pod",
            Unit::Group(_) => "PodGroup",
        };
        let result = match &decision.action {
            DecisionAction::Bind(_) => "Bind",
            DecisionAction::Wait(_) => "Wait",
            DecisionAction::Release(_) => "Release",
        };
        let (id, unit, revision) = (self.last_id, decision.unit.key(), self.revision);
        tracing::debug_span!("decision", id, unit_kind, %unit, attempt, %revision, result)
    }
}
