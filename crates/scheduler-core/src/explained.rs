//! All that can be said about a unit right now, and about the queue.

use api::Timestamp;

use crate::decision::Unit;
use crate::refusal::{Cause, Refusal};
use crate::ways_out::Advised;
use crate::why_here::WhyHere;

/// How many domains the text of an explanation names.
const DOMAINS_MAX: usize = 10;

/// Why a unit waits, or why it is where it is. Of a group of which only a part is placed, both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Whom it is about: for a pod of a group this is the group.
    pub unit: Unit,
    /// Where it stands in the queue, if something of it is to be decided.
    pub queued: Option<Queued>,
    /// Why it is refused, with ways out.
    pub refusal: Option<Refusal>,
    /// It would be placed if it were its turn.
    pub fits_now: bool,
    /// Why the pod that was asked about is not to be placed at all.
    pub aside: Option<&'static str>,
    /// Why the pods that have a place are where they are.
    pub placed: Option<WhyHere>,
}

/// A unit in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The unit.
    pub unit: Unit,
    /// What it does there.
    pub state: State,
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
pub enum State {
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

impl State {
    /// One word for it, for machines.
    pub fn name(self) -> &'static str {
        match self {
            State::Active => "Active",
            State::BackOff => "BackOff",
            State::Waiting => "Waiting",
            State::Incomplete => "Incomplete",
            State::Unsupported => "Unsupported",
        }
    }

    fn text(self) -> &'static str {
        match self {
            State::Active => "is to be decided",
            State::BackOff => "backs off after a failed bind",
            State::Waiting => "waits until something changes that could help",
            State::Incomplete => "waits to be complete",
            State::Unsupported => "asks for something that this scheduler does not support",
        }
    }
}

impl Queued {
    fn text(&self) -> String {
        let tried = match self.tries_count {
            0 => "not tried yet".to_owned(),
            1 => "tried once".to_owned(),
            count => format!("tried {count} times"),
        };
        let Queued { position, units_count, .. } = self;
        format!("{}; number {position} of {units_count} in the queue, {tried}", self.state.text())
    }
}

impl Explained {
    /// In words, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(queued) = &self.queued {
            lines.push(format!("{} {}", self.unit, queued.text()));
        }
        if let Some(why) = self.aside {
            lines.push(format!("{} is not placed: {why}", self.unit));
        }
        if self.fits_now {
            lines.push("it fits now".to_owned());
        }
        if let Some(refusal) = &self.refusal {
            lines.extend(refusal_lines(refusal));
        }
        if let Some(placed) = &self.placed {
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
    for domain in domains.iter().take(DOMAINS_MAX) {
        let slots = match domain.slots_count {
            1 => "room for 1 pod".to_owned(),
            count => format!("room for {count} pods"),
        };
        let (value, lacking) = (&domain.value, domain.reasons.on(domain.nodes_count));
        lines.push(format!("  {key}={value}: {slots} ({lacking})"));
    }
    if domains.len() > DOMAINS_MAX {
        lines.push(format!("  and {} more domains", domains.len() - DOMAINS_MAX));
    }
    if !refusal.proven && refusal.cause == Cause::NoRoom {
        lines.push("not proven: only no place was found for it".to_owned());
    }
    let Advised::Given(advice) = &refusal.advised else { return lines };
    if advice.ways.is_empty() {
        lines.push("no way out was found".to_owned());
    } else {
        lines.push("ways out, each checked against the cluster as it is:".to_owned());
        lines.extend(advice.ways.iter().map(|way| format!("  {}", way.text())));
    }
    if advice.cut {
        lines.push("not everything was looked at: there may be cheaper ways".to_owned());
    }
    lines
}
