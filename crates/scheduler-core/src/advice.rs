//! Looks for ways out of a refusal. Every way is tried on the cluster before it is told, and the cluster is left as it was.
//!
//! This is no part of a decision: it is done for those who wait, when there is time. Its work is bounded, and the answer
//! says when that bound was met.

mod key; // pods need not be so close together
mod leaving; // some of what runs ends
mod min_count; // a gang asks for fewer pods
mod nodes; // there are more nodes, or larger ones

use std::sync::Arc;

use crate::absence::Spots;
use crate::classes::Classes;
use crate::cluster::{Cluster, NodeIndex};
use crate::cycle::{self, Trial};
use crate::need::Need;
use crate::queue::UnitId;
use crate::refusal::{Cause, Refusal};
use crate::search::Effort;
use crate::ways_out::{Advice, Origin, WayOut};

pub(crate) use leaving::Plan;

/// How many decisions may be tried for one refusal.
const TRIALS_MAX: usize = 24;
/// How many steps one of them may search.
const STEPS_MAX: usize = 1000;

/// A unit with pods on nodes.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) unit: UnitId,
    pub(crate) spots: Spots,
}

/// Who asks for advice.
pub(crate) struct Asked<'a> {
    pub(crate) unit: UnitId,
    pub(crate) need: &'a Need,
    pub(crate) refusal: &'a Refusal,
    /// What the unit comes from.
    pub(crate) origin: &'a Origin,
    /// Nodes of the members that have their place.
    pub(crate) members_on: &'a [NodeIndex],
    /// What runs; the asking unit may be among it.
    pub(crate) running: &'a [Running],
}

/// What was found, before those who would have to leave have got their names.
pub(crate) struct Found {
    pub(crate) advice: Advice,
    /// To be told before more and larger nodes.
    pub(crate) plan: Option<Plan>,
}

/// Looks for ways out for one unit.
pub(crate) fn look(asked: &Asked<'_>, cluster: &mut Cluster, classes: &mut Classes, steps_max: usize) -> Found {
    let steps_max = steps_max.min(STEPS_MAX);
    let mut desk = Desk { cluster, classes, trials_left: TRIALS_MAX, steps_max, cut: false };
    let mut ways = Vec::new();
    if asked.refusal.cause == Cause::NoRoom {
        ways.extend(min_count::lower(asked, &mut desk));
    }
    // A decision is worth making for one pod of a Basic group. What the group is told holds for all of them.
    let need = &asked.need.for_all_that_wait();
    let asked = &Asked { need, ..*asked };
    ways.extend(key::relax(asked, &mut desk));
    // Where the unit would not fit even on empty nodes, nobody's leaving helps.
    let could_wait = asked.refusal.cause == Cause::NoRoom && asked.refusal.could_wait;
    let plan = could_wait.then(|| leaving::plan(asked, &mut desk)).flatten();
    if asked.refusal.cause == Cause::NoRoom {
        ways.extend(nodes::more(need, &mut desk));
        ways.extend(nodes::larger(asked, &mut desk));
    }
    Found { advice: Advice { ways, cut: desk.cut }, plan }
}

impl Found {
    /// The advice with the way that waits for others, in its place.
    pub(crate) fn with(self, wait: Option<WayOut>) -> Arc<Advice> {
        let Advice { mut ways, cut } = self.advice;
        let at = ways.iter().position(WayOut::is_about_nodes).unwrap_or(ways.len());
        wait.into_iter().for_each(|wait| ways.insert(at, wait));
        Arc::new(Advice { ways, cut })
    }
}

/// What looking takes, and how much of it is left.
pub(crate) struct Desk<'a> {
    cluster: &'a mut Cluster,
    classes: &'a mut Classes,
    trials_left: usize,
    steps_max: usize,
    /// Whether something was left out for want of trials.
    cut: bool,
}

impl Desk<'_> {
    /// Tries a decision; `None` when there were enough of that.
    fn try_out(&mut self, need: &Need) -> Option<Trial> {
        if self.trials_left == 0 {
            self.cut = true;
            return None;
        }
        self.trials_left -= 1;
        Some(cycle::try_out(need, self.cluster, self.classes, Effort::of(self.steps_max)))
    }
}
