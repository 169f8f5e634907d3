//! Everything the core reports about a unit right now, and about the queue.

use types::Timestamp;
use types::clock::rfc3339;

use crate::decision::Unit;
use crate::demand::pods::ExclusionReason;
use crate::explain::placement_report::PlacementReport;
use crate::explain::refusal::{Refusal, RefusalCause};
use crate::explain::remedies::RemedyStatus;

/// How many domains the text of an explanation names.
const MAX_DOMAINS: usize = 10;

/// Why a unit waits, or why it is on its nodes. For a partly placed group, both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitExplanation {
    /// The unit; for a pod of a group this is the group.
    pub unit: Unit,
    /// Its entry in the queue, if it has something to decide.
    pub queued: Option<QueuedUnit>,
    /// Why it is refused, with remedies.
    pub refusal: Option<Refusal>,
    /// It would be placed if it were decided now.
    pub fits_now: bool,
    /// Why the queried pod is not placed at all.
    pub exclusion: Option<ExclusionReason>,
    /// Why the placed pods are on their nodes.
    pub placement: Option<PlacementReport>,
}

/// A unit in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedUnit {
    /// The unit.
    pub unit: Unit,
    /// Its state.
    pub state: QueueStatus,
    /// Its position in queue order, from 1. Units that wait for something can be overtaken.
    pub position: usize,
    /// The number of units in the queue.
    pub units_count: usize,
    /// Its priority.
    pub priority: i32,
    /// How many of its pods are pending.
    pub pods_count: usize,
    /// How often it was tried since it was last placed.
    pub tries_count: u32,
    /// When the oldest of its pods was created.
    pub since: Option<Timestamp>,
    /// When it is tried again in any case; otherwise when a change could help.
    pub next_try: Option<Timestamp>,
    /// The room that is reserved for it.
    pub reservation: Option<ReservationReport>,
}

/// Room that is reserved for a unit: pods that end there leave it to the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationReport {
    /// When it began.
    pub since: Timestamp,
    /// Its latest end.
    pub until: Timestamp,
    /// For how many pods of the unit.
    pub pods_count: usize,
    /// How many of them the free part has room for, when it was last computed.
    pub free_pods_count: usize,
    /// On how many nodes.
    pub nodes_count: usize,
}

impl ReservationReport {
    fn text(&self) -> String {
        let ReservationReport { until, pods_count, free_pods_count, nodes_count, .. } = self;
        let pods = if *pods_count == 1 { "1 pod".to_owned() } else { format!("{pods_count} pods") };
        let nodes = if *nodes_count == 1 { "1 node".to_owned() } else { format!("{nodes_count} nodes") };
        let until = rfc3339(*until);
        format!(
            "room for {pods} is reserved for it on {nodes}, {free_pods_count} of it free; until {until} at the latest"
        )
    }
}

/// The state of a unit in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueStatus {
    /// It is decided as soon as it is first in queue order.
    Active,
    /// A bind of it failed, and it backs off.
    BackOff,
    /// It does not fit, and waits for a change that could help.
    Waiting,
    /// It waits for pods or for its PodGroup.
    Incomplete,
    /// It requests something that this scheduler does not support.
    Unsupported,
}

impl QueueStatus {
    /// A machine-readable name.
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
            QueueStatus::Active => "is ready to be scheduled",
            QueueStatus::BackOff => "backs off after a failed bind",
            QueueStatus::Waiting => "waits for a change that could help",
            QueueStatus::Incomplete => "waits for missing pods or its PodGroup",
            QueueStatus::Unsupported => "requests something that this scheduler does not support",
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
    /// As text, one line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(queued) = &self.queued {
            lines.push(format!("{} {}", self.unit, queued.text()));
            lines.extend(queued.reservation.as_ref().map(ReservationReport::text));
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
    domains.sort_by(|a, b| (b.fits_count, &a.value).cmp(&(a.fits_count, &b.value)));
    let key = refusal.nearest.as_ref().map_or("", |nearest| &nearest.key);
    for domain in domains.iter().take(MAX_DOMAINS) {
        let at_most = if domain.is_upper_bound { "at most " } else { "" };
        let fits = match domain.fits_count {
            1 => "1 pod fits".to_owned(),
            count => format!("{count} pods fit"),
        };
        let (value, lacking) = (&domain.value, domain.reasons.describe(domain.nodes_count));
        lines.push(format!("  {key}={value}: {at_most}{fits} ({lacking})"));
    }
    if domains.len() > MAX_DOMAINS {
        lines.push(format!("  and {} more domains", domains.len() - MAX_DOMAINS));
    }
    if !refusal.proven && refusal.cause == RefusalCause::DoesNotFit {
        lines.push("not proven: no placement was found within the search limit".to_owned());
    }
    let RemedyStatus::Found(report) = &refusal.remedies else { return lines };
    if report.remedies.is_empty() {
        lines.push("no remedy was found".to_owned());
    } else {
        lines.push("remedies, each tried on the current cluster:".to_owned());
        lines.extend(report.remedies.iter().map(|remedy| format!("  {}", remedy.text())));
    }
    if report.truncated {
        lines.push("search limit reached: there may be cheaper remedies".to_owned());
    }
    lines
}
