//! The steps of the tour, in order: later steps use objects of earlier ones.

mod discover; // versions, resources, nodes, explain
mod create; // create, run, apply, field validation
mod get; // wait, get, describe, events, watch
mod patch; // label, annotate, patch, edit
mod delete; // delete, cascading deletion, orphans
mod namespaces; // deletion of a namespace

use super::output_check::OutputCheck;
use super::{CheckTime, TourStep};

/// Every step.
pub fn all() -> impl Iterator<Item = &'static TourStep<'static>> {
    [discover::STEPS, create::STEPS, get::STEPS, patch::STEPS, delete::STEPS, namespaces::STEPS].into_iter().flatten()
}

const fn at_end(name: &'static str, command: &'static str, checks: &'static [OutputCheck]) -> TourStep<'static> {
    TourStep { name, command, when: CheckTime::AtEnd, checks }
}

const fn eventually(name: &'static str, command: &'static str, checks: &'static [OutputCheck]) -> TourStep<'static> {
    TourStep { name, command, when: CheckTime::Eventually, checks }
}

const fn streaming(name: &'static str, command: &'static str, checks: &'static [OutputCheck]) -> TourStep<'static> {
    TourStep { name, command, when: CheckTime::Streaming, checks }
}
