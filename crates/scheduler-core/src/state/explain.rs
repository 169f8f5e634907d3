//! Answers to whoever asks about a unit or about the queue, and what is kept of recent decisions for that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::PodView;

use super::Core;
use crate::absence::Spots;
use crate::classes::ClassId;
use crate::cluster::{NodeIndex, TopologyId};
use crate::decision::{Unit, Verdict};
use crate::explained::{Explained, Queued};
use crate::pods::{Aside, PodId, Stage};
use crate::queue::UnitId;
use crate::refusal::{Cause, Refusal};
use crate::requests::Usage;
use crate::ways_out::Advised;
use crate::why_here::{self, PlacedLot, WhyHere};

/// Decisions that wait for [`Core::remember`]; of more only the last.
const UNTOLD_MAX: usize = 16;
/// Units of which the reasons for their place are kept.
const KEPT_MAX: usize = 256;
/// How often they are worked out: a look at all nodes must not come with every pod.
const REMEMBER_EVERY: Duration = Duration::from_millis(20);

/// Why recently placed units are where they are.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// Just placed.
    untold: VecDeque<UnitId>,
    kept: BTreeMap<Unit, Kept>,
    /// In the order they were kept.
    order: VecDeque<Unit>,
    last: Option<Timestamp>,
}

#[derive(Debug)]
struct Kept {
    /// One of the pods: whoever bears the unit's name later is another.
    pod: PodId,
    seen: u64,
    why: WhyHere,
}

impl Recall {
    /// The unit was placed.
    pub(super) fn note(&mut self, unit: UnitId) {
        if self.untold.len() == UNTOLD_MAX {
            self.untold.pop_front();
        }
        self.untold.push_back(unit);
    }

    fn keep(&mut self, unit: Unit, kept: Kept) {
        if self.kept.insert(unit.clone(), kept).is_none() {
            self.order.push_back(unit);
        }
        if self.order.len() > KEPT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.kept.remove(&oldest);
        }
    }
}

impl Core {
    /// Works out, for at most so many of the units that were placed last, why they are where they are, and keeps that for
    /// [`Core::explain`]; now and then only, however often it is called. No decision depends on it.
    pub fn remember(&mut self, now: Timestamp, count_max: usize) {
        let is_early = self.recall.last.is_some_and(|last| now < last + REMEMBER_EVERY);
        if is_early || self.recall.untold.is_empty() {
            return;
        }
        self.recall.last = Some(now);
        for unit in std::mem::take(&mut self.recall.untold).into_iter().rev().take(count_max) {
            let pods: Vec<PodId> = match unit {
                UnitId::Pod(id) => vec![id],
                UnitId::Group(group) => match self.groups.known(group) {
                    Some(group) => group.placed.pods().collect(),
                    None => continue,
                },
            };
            // Pods whose bind is under way still have their class.
            let assumed = pods.into_iter().filter_map(|id| {
                let pod = self.pods.known(id)?;
                let Stage::Assumed(node) = pod.stage else { return None };
                Some((id, pod.seen, pod.class?, node, Arc::clone(&pod.usage)))
            });
            let assumed: Vec<_> = assumed.collect();
            let Some((pod, seen, ..)) = assumed.first().cloned() else { continue };
            let name = self.name_of(unit);
            let lots = assumed.into_iter().map(|(_, _, class, node, usage)| (class, node, usage));
            if let Some(why) = self.why_here(&name, lots, unit) {
                let why = WhyHere { kept_since: Some(now), ..why };
                self.recall.keep(name, Kept { pod, seen, why });
            }
        }
    }

    /// All that can be said about a unit, or about a pod of a group; none if nothing is known of it. `placed` are those of
    /// its pods that have a node and that it should be said about why they are there. A unit that waits for a change and is
    /// found to fit is decided next.
    pub fn explain(&mut self, subject: &Unit, placed: &[Arc<PodView>]) -> Option<Explained> {
        let (unit, aside) = match subject {
            Unit::Group(key) => (UnitId::Group(self.groups.find(key)?), None),
            Unit::Pod(key) => {
                let id = self.pods.find(key)?;
                (self.unit_of(id).0, Some(self.pods.get(id).stage))
            }
        };
        let aside = aside.and_then(aside_text);
        let name = self.name_of(unit);
        let mut explained = Explained { unit: name, queued: None, refusal: None, fits_now: false, aside, placed: None };
        if aside.is_none() {
            explained.queued = self.queue().into_iter().find(|queued| queued.unit == explained.unit);
            self.explain_wait(unit, &mut explained);
        } else {
            explained.unit = subject.clone();
        }
        explained.placed = self.explain_place(subject, unit, placed);
        Some(explained)
    }

    /// Every unit that has something to be decided, in the order of their turns.
    pub fn queue(&self) -> Vec<Queued> {
        let listing = self.queue.listing();
        let units_count = listing.len();
        let queued = |(at, listed): (usize, crate::queue::listing::Listed)| Queued {
            unit: self.name_of(listed.unit),
            state: listed.state,
            position: at + 1,
            units_count,
            priority: listed.turn.priority.0,
            pods_count: listed.pods_count,
            tries_count: listed.tries_count,
            since: listed.turn.created.time(),
            next_try: listed.next_try,
        };
        listing.into_iter().enumerate().map(queued).collect()
    }

    fn explain_wait(&mut self, unit: UnitId, explained: &mut Explained) {
        let Some(need) = self.need(unit) else {
            explained.refusal = self.incomplete(unit).and_then(|decision| match decision.verdict {
                Verdict::Wait(refusal) => Some(refusal),
                _ => None,
            });
            return;
        };
        self.show_hold_to(unit);
        let Some(refusal) = self.judge(&need) else {
            explained.fits_now = true;
            self.found_to_fit(unit);
            return;
        };
        let has_ways_out = matches!(refusal.cause, Cause::NoRoom | Cause::NoDomain { .. });
        let advised = match has_ways_out {
            true => {
                let running = self.running();
                Advised::Given(self.ways_out(unit, &need, &refusal, &running))
            }
            false => Advised::NotYet,
        };
        explained.refusal = Some(Refusal { advised, ..refusal });
    }

    fn explain_place(&mut self, subject: &Unit, unit: UnitId, placed: &[Arc<PodView>]) -> Option<WhyHere> {
        if let Some(kept) = self.recall.kept.get(subject)
            && self.pods.known(kept.pod).is_some_and(|pod| pod.seen == kept.seen && pod.stage.node().is_some())
        {
            return Some(kept.why.clone());
        }
        let mut lots = Vec::new();
        for view in placed {
            let Some(id) = self.pods.find(&view.metadata.key()) else { continue };
            let pod = self.pods.get(id);
            let (Some(node), usage) = (pod.stage.node(), Arc::clone(&pod.usage)) else { continue };
            if pod.uid() == view.metadata.uid && self.cluster.node(node).present {
                let class = self.classes.class_of(view, &mut self.cluster);
                lots.push((self.classes.hold(class), node, usage));
            }
        }
        let held: Vec<ClassId> = lots.iter().map(|(class, ..)| *class).collect();
        let mut why = self.why_here(subject, lots, unit);
        held.into_iter().for_each(|class| self.classes.release(class));
        if let (Unit::Pod(_), Some(why)) = (subject, &mut why) {
            // One pod of a group follows the others; that is no choice of a domain.
            why.domain = None;
        }
        why
    }

    fn why_here(
        &mut self,
        unit: &Unit,
        pods: impl IntoIterator<Item = (ClassId, NodeIndex, Arc<Usage>)>,
        of: UnitId,
    ) -> Option<WhyHere> {
        let mut by_class: BTreeMap<ClassId, Vec<NodeIndex>> = BTreeMap::new();
        let mut spots: Spots = Vec::new();
        for (class, node, usage) in pods {
            by_class.entry(class).or_default().push(node);
            spots.push((node, usage));
        }
        let lots: Vec<PlacedLot> = by_class.into_iter().map(|(class, nodes)| PlacedLot { class, nodes }).collect();
        self.cluster.show_hold(false);
        why_here::look(unit, &lots, &spots, self.asks_of_domain(of), &mut self.cluster, &mut self.classes)
    }

    /// The topology key of the unit, and how many pods more a domain of it should have room for.
    fn asks_of_domain(&self, unit: UnitId) -> (Option<TopologyId>, usize) {
        let UnitId::Group(group) = unit else { return (None, 0) };
        let group = self.groups.get(group);
        (group.terms.as_ref().and_then(|terms| terms.topology), group.coming_count())
    }

    pub(super) fn name_of(&self, unit: UnitId) -> Unit {
        match unit {
            UnitId::Pod(id) => Unit::Pod(self.pods.get(id).key()),
            UnitId::Group(id) => Unit::Group(self.groups.get(id).key.clone()),
        }
    }
}

/// Why a pod is not to be placed at all.
fn aside_text(stage: Stage) -> Option<&'static str> {
    let Stage::Aside(why) = stage else { return None };
    Some(match why {
        Aside::Leaving => "it is being deleted",
        Aside::Gated => "it has scheduling gates",
        Aside::OtherScheduler => "another scheduler places it",
        Aside::Foreign => "its group belongs to another owner",
        Aside::OtherPriority => "its priority is not that of its group",
        Aside::Unsupported => "it demands something of its place that this scheduler does not look at",
    })
}
