//! The steps of the tour, in order: later ones use what earlier ones made.

mod discover; // what is there
mod create; // objects come in
mod get; // lists, stories, watches
mod patch; // patches and edits
mod delete; // and what becomes of what was owned
mod namespaces; // and of all that a namespace held

use super::output_check::OutputCheck;
use super::{CheckTime, TourStep};

/// Every step.
pub fn all() -> impl Iterator<Item = &'static TourStep<'static>> {
    [discover::STEPS, create::STEPS, get::STEPS, patch::STEPS, delete::STEPS, namespaces::STEPS].into_iter().flatten()
}

const fn at_end(name: &'static str, command: &'static str, wants: &'static [OutputCheck]) -> TourStep<'static> {
    TourStep { name, command, when: CheckTime::AtEnd, checks: wants }
}

const fn eventually(name: &'static str, command: &'static str, wants: &'static [OutputCheck]) -> TourStep<'static> {
    TourStep { name, command, when: CheckTime::Eventually, checks: wants }
}

const fn streaming(name: &'static str, command: &'static str, wants: &'static [OutputCheck]) -> TourStep<'static> {
    TourStep { name, command, when: CheckTime::Streaming, checks: wants }
}
