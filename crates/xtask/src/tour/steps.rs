//! The steps of the tour, in order: later ones use what earlier ones made.

mod discover; // what is there
mod create; // objects come in
mod look; // lists, stories, watches
mod change; // patches and edits
mod delete; // and what becomes of what was owned
mod namespaces; // and of all that a namespace held

use super::want::Want;
use super::{Step, When};

/// Every step.
pub fn all() -> impl Iterator<Item = &'static Step<'static>> {
    [discover::STEPS, create::STEPS, look::STEPS, change::STEPS, delete::STEPS, namespaces::STEPS].into_iter().flatten()
}

const fn at_end(name: &'static str, command: &'static str, wants: &'static [Want]) -> Step<'static> {
    Step { name, command, when: When::AtEnd, wants }
}

const fn eventually(name: &'static str, command: &'static str, wants: &'static [Want]) -> Step<'static> {
    Step { name, command, when: When::Eventually, wants }
}

const fn streaming(name: &'static str, command: &'static str, wants: &'static [Want]) -> Step<'static> {
    Step { name, command, when: When::Streaming, wants }
}
