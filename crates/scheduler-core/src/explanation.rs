//! All that can be said about a unit right now, and about the queue.

use types::Timestamp;

use crate::decision::Unit;
use crate::placement_report::PlacementReport;
use crate::pods::ExclusionReason;
use crate::refusal::{Refusal, RefusalCause};
use crate::remedies::RemedyStatus;

/// How many domains the text of an explanation names.
const MAX_DOMAINS: usize = 10;

/// Why a unit waits, or why it is where it is. Of a group of which only a part is placed, both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitExplanation {
    /// Whom it is about: for a pod of a group this is the group.
    pub unit: Unit,
    /// Where it stands in the queue, if something of it is to be decided.
    pub queued: Option<QueuedUnit>,
    /// Why it is refused, with ways out.
    pub refusal: Option<Refusal>,
    /// It would be placed if it were its turn.
    pub fits_now: bool,
    /// Why the pod that was asked about is not to be placed at all.
    pub exclusion: Option<ExclusionReason>,
    /// Why the pods that have a place are where they are.
    pub placement: Option<PlacementReport>,
}

/// A unit in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedUnit {
    /// The unit.
    pub unit: Unit,
    /// What it does there.
    pub state: QueueStatus,
    /// Its place in the order in which units have their turn, from 1. Those that wait for something let others pass.
    pub position: usize,
    /// How many units are in the queue.
    pub units_count: usize,
    /// Its priority.
    pub priority: i32,
    /// How many pods of it wait.
    pub pods_count: usize,
    /// How often it was tried since it was last placed.
    pub tries_count: u32,
    /// When the oldest of its pods was created.
    pub since: Option<Timestamp>,
    /// When it is looked at again, whatever happens; otherwise when something changes that could help.
    pub next_try: Option<Timestamp>,
}

/// What a unit does in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStatus {
    /// It is decided as soon as it is its turn.
    Active,
    /// A bind of it failed, and it pauses.
    BackOff,
    /// It found no room, and waits for a change that could help.
    Waiting,
    /// It waits for pods or for its PodGroup.
    Incomplete,
    /// It asks for something that this scheduler does not do.
    Unsupported,
}

impl QueueStatus {
    /// One word for it, for machines.
    pub fn name(self) -> &'static str {
        match self {
            QueueStatus::Active => "Active",
            QueueStatus::BackOff => "BackOff",
            QueueStatus::Waiting => "Waiting",
            QueueStatus::Incomplete => "Incomplete",
            QueueStatus::Unsupported => "Unsupported",
        }
    }

    fn text(self) -> &'static str {
        match self {
            QueueStatus::Active => "is to be decided",
            QueueStatus::BackOff => "backs off after a failed bind",
            QueueStatus::Waiting => "waits until something changes that could help",
            QueueStatus::Incomplete => "waits to be complete",
            QueueStatus::Unsupported => "asks for something that this scheduler does not support",
        }
    }
}

impl QueuedUnit {
    fn text(&self) -> String {
        let tried = match self.tries_count {
            0 => "not tried yet".to_owned(),
            1 => "tried once".to_owned(),
            count => format!("tried {count} times"),
        };
        let QueuedUnit { position, units_count, .. } = self;
        format!("{}; number {position} of {units_count} in the queue, {tried}", self.state.text())
    }
}

impl UnitExplanation {
    /// In words, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(queued) = &self.queued {
            lines.push(format!("{} {}", self.unit, queued.text()));
        }
        if let Some(reason) = self.exclusion {
            lines.push(format!("{} is not placed: {}", self.unit, reason.text()));
        }
        if self.fits_now {
            lines.push("it fits now".to_owned());
        }
        if let Some(refusal) = &self.refusal {
            lines.extend(refusal_lines(refusal));
        }
        if let Some(placed) = &self.placement {
            lines.extend(placed.lines(&self.unit));
        }
        lines
    }
}

fn refusal_lines(refusal: &Refusal) -> Vec<String> {
    let mut lines = vec![refusal.plain_message()];
    let mut domains: Vec<_> = refusal.domains.iter().collect();
    domains.sort_by(|a, b| (b.slots_count, &a.value).cmp(&(a.slots_count, &b.value)));
    let key = refusal.nearest.as_ref().map_or("", |nearest| &nearest.key);
    for domain in domains.iter().take(MAX_DOMAINS) {
        let slots = match domain.slots_count {
            1 => "room for 1 pod".to_owned(),
            count => format!("room for {count} pods"),
        };
        let (value, lacking) = (&domain.value, domain.reasons.describe(domain.nodes_count));
        lines.push(format!("  {key}={value}: {slots} ({lacking})"));
    }
    if domains.len() > MAX_DOMAINS {
        lines.push(format!("  and {} more domains", domains.len() - MAX_DOMAINS));
    }
    if !refusal.proven && refusal.cause == RefusalCause::DoesNotFit {
        lines.push("not proven: only no place was found for it".to_owned());
    }
    let RemedyStatus::Found(advice) = &refusal.remedies else { return lines };
    if advice.remedies.is_empty() {
        lines.push("no way out was found".to_owned());
    } else {
        lines.push("ways out, each checked against the cluster as it is:".to_owned());
        lines.extend(advice.remedies.iter().map(|way| format!("  {}", way.text())));
    }
    if advice.truncated {
        lines.push("not everything was looked at: there may be cheaper ways".to_owned());
    }
    lines
}
