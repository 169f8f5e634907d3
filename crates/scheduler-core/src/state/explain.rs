//! Answers to whoever asks about a unit or about the queue, and what is kept of recent decisions for that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use types::Timestamp;
use types::views::PodView;

use super::Core;
use crate::classes::ClassId;
use crate::cluster::{NodeIndex, TopologyId};
use crate::decision::{DecisionAction, Unit};
use crate::explanation::{QueuedUnit, UnitExplanation};
use crate::placement_report::{self, PlacedClass, PlacementReport};
use crate::pods::{PodId, Stage};
use crate::queue::UnitId;
use crate::refusal::{Refusal, RefusalCause};
use crate::remedies::RemedyStatus;
use crate::removal_overlay::PlacedUsages;
use crate::requests::Usage;

/// Decisions that wait for [`Core::remember`]; of more only the last.
const MAX_PENDING_REPORTS: usize = 16;
/// Units of which the reasons for their place are kept.
const MAX_CACHED_REPORTS: usize = 256;
/// How often they are worked out: a look at all nodes must not come with every pod.
const REPORT_INTERVAL: Duration = Duration::from_millis(20);

/// Why recently placed units are where they are.
#[derive(Debug, Default)]
pub(super) struct ReportCache {
    /// Just placed.
    pending: VecDeque<UnitId>,
    reports: BTreeMap<Unit, CachedReport>,
    /// In the order they were kept.
    order: VecDeque<Unit>,
    last: Option<Timestamp>,
}

#[derive(Debug)]
struct CachedReport {
    /// One of the pods: whoever bears the unit's name later is another.
    pod: PodId,
    seen: u64,
    report: PlacementReport,
}

impl ReportCache {
    /// The unit was placed.
    pub(super) fn record_placed(&mut self, unit: UnitId) {
        if self.pending.len() == MAX_PENDING_REPORTS {
            self.pending.pop_front();
        }
        self.pending.push_back(unit);
    }

    fn insert(&mut self, unit: Unit, kept: CachedReport) {
        if self.reports.insert(unit.clone(), kept).is_none() {
            self.order.push_back(unit);
        }
        if self.order.len() > MAX_CACHED_REPORTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.reports.remove(&oldest);
        }
    }
}

impl Core {
    /// Works out, for at most so many of the units that were placed last, why they are where they are, and keeps that for
    /// [`Core::explain`]; now and then only, however often it is called. No decision depends on it.
    pub fn cache_placement_reports(&mut self, now: Timestamp, count_max: usize) {
        let is_early = self.report_cache.last.is_some_and(|last| now < last + REPORT_INTERVAL);
        if is_early || self.report_cache.pending.is_empty() {
            return;
        }
        self.report_cache.last = Some(now);
        for unit in std::mem::take(&mut self.report_cache.pending).into_iter().rev().take(count_max) {
            let pods: Vec<PodId> = match unit {
                UnitId::Pod(id) => vec![id],
                UnitId::Group(group) => match self.groups.try_get(group) {
                    Some(group) => group.placed.pods().collect(),
                    None => continue,
                },
            };
            // Pods whose bind is under way still have their class.
            let assumed = pods.into_iter().filter_map(|id| {
                let pod = self.pods.try_get(id)?;
                let Stage::Assumed(node) = pod.stage else { return None };
                Some((id, pod.seen, pod.class?, node, Arc::clone(&pod.usage)))
            });
            let assumed: Vec<_> = assumed.collect();
            let Some((pod, seen, ..)) = assumed.first().cloned() else { continue };
            let name = self.name_of(unit);
            let lots = assumed.into_iter().map(|(_, _, class, node, usage)| (class, node, usage));
            if let Some(why) = self.placement_report(&name, lots, unit) {
                let why = PlacementReport { recorded_at: Some(now), ..why };
                self.report_cache.insert(name, CachedReport { pod, seen, report: why });
            }
        }
    }

    /// All that can be said about a unit, or about a pod of a group; none if nothing is known of it. `placed` are those of
    /// its pods that have a node and that it should be said about why they are there. A unit that waits for a change and is
    /// found to fit is decided next.
    pub fn explain(&mut self, subject: &Unit, placed: &[Arc<PodView>]) -> Option<UnitExplanation> {
        let (unit, aside) = match subject {
            Unit::Group(key) => (UnitId::Group(self.groups.find(key)?), None),
            Unit::Pod(key) => {
                let id = self.pods.find(key)?;
                (self.unit_of(id).0, Some(self.pods.get(id).stage))
            }
        };
        let aside = aside.and_then(|stage| match stage {
            Stage::Excluded(reason) => Some(reason),
            _ => None,
        });
        let name = self.name_of(unit);
        let mut explained = UnitExplanation {
            unit: name,
            queued: None,
            refusal: None,
            fits_now: false,
            exclusion: aside,
            placement: None,
        };
        if aside.is_none() {
            explained.queued = self.queue().into_iter().find(|queued| queued.unit == explained.unit);
            self.explain_wait(unit, &mut explained);
        } else {
            explained.unit = subject.clone();
        }
        explained.placement = self.explain_placement(subject, unit, placed);
        Some(explained)
    }

    /// Every unit that has something to be decided, in the order of their turns.
    pub fn queue(&self) -> Vec<QueuedUnit> {
        let listing = self.queue.listing();
        let units_count = listing.len();
        let queued = |(at, listed): (usize, crate::queue::listing::ListedUnit)| QueuedUnit {
            unit: self.name_of(listed.unit),
            state: listed.state,
            position: at + 1,
            units_count,
            priority: listed.order.priority.0,
            pods_count: listed.pods_count,
            tries_count: listed.tries_count,
            since: listed.order.created.time(),
            next_try: listed.next_try,
        };
        listing.into_iter().enumerate().map(queued).collect()
    }

    fn explain_wait(&mut self, unit: UnitId, explained: &mut UnitExplanation) {
        let Some(need) = self.demand(unit) else {
            explained.refusal = self.incomplete_decision(unit).and_then(|decision| match decision.action {
                DecisionAction::Wait(refusal) => Some(refusal),
                _ => None,
            });
            return;
        };
        self.enforce_reservation_for(unit);
        let Some(refusal) = self.dry_run(&need) else {
            explained.fits_now = true;
            self.found_to_fit(unit);
            return;
        };
        let has_ways_out = matches!(refusal.cause, RefusalCause::DoesNotFit | RefusalCause::NoDomain { .. });
        let advised = match has_ways_out {
            true => {
                let running = self.running_units();
                RemedyStatus::Found(self.remedies_for(unit, &need, &refusal, &running))
            }
            false => RemedyStatus::NotSearched,
        };
        explained.refusal = Some(Refusal { remedies: advised, ..refusal });
    }

    fn explain_placement(&mut self, subject: &Unit, unit: UnitId, placed: &[Arc<PodView>]) -> Option<PlacementReport> {
        if let Some(kept) = self.report_cache.reports.get(subject)
            && self.pods.try_get(kept.pod).is_some_and(|pod| pod.seen == kept.seen && pod.stage.node().is_some())
        {
            return Some(kept.report.clone());
        }
        let mut lots = Vec::new();
        for view in placed {
            let Some(id) = self.pods.find(&view.metadata.key()) else { continue };
            let pod = self.pods.get(id);
            let (Some(node), usage) = (pod.stage.node(), Arc::clone(&pod.usage)) else { continue };
            if pod.uid() == view.metadata.uid && self.cluster.node(node).present {
                let class = self.classes.class_of(view, &mut self.cluster);
                lots.push((self.classes.acquire(class), node, usage));
            }
        }
        let held: Vec<ClassId> = lots.iter().map(|(class, ..)| *class).collect();
        let mut why = self.placement_report(subject, lots, unit);
        held.into_iter().for_each(|class| self.classes.release(class));
        if let (Unit::Pod(_), Some(why)) = (subject, &mut why) {
            // One pod of a group follows the others; that is no choice of a domain.
            why.domain = None;
        }
        why
    }

    fn placement_report(
        &mut self,
        unit: &Unit,
        pods: impl IntoIterator<Item = (ClassId, NodeIndex, Arc<Usage>)>,
        of: UnitId,
    ) -> Option<PlacementReport> {
        let mut by_class: BTreeMap<ClassId, Vec<NodeIndex>> = BTreeMap::new();
        let mut spots: PlacedUsages = Vec::new();
        for (class, node, usage) in pods {
            by_class.entry(class).or_default().push(node);
            spots.push((node, usage));
        }
        let lots: Vec<PlacedClass> = by_class.into_iter().map(|(class, nodes)| PlacedClass { class, nodes }).collect();
        self.cluster.enforce_reservation(false);
        placement_report::build(unit, &lots, &spots, self.domain_demand(of), &mut self.cluster, &mut self.classes)
    }

    /// The topology key of the unit, and how many pods more a domain of it should have room for.
    fn domain_demand(&self, unit: UnitId) -> (Option<TopologyId>, usize) {
        let UnitId::Group(group) = unit else { return (None, 0) };
        let group = self.groups.get(group);
        (group.spec.as_ref().and_then(|terms| terms.topology), group.coming_count())
    }

    pub(super) fn name_of(&self, unit: UnitId) -> Unit {
        match unit {
            UnitId::Pod(id) => Unit::Pod(self.pods.get(id).key()),
            UnitId::Group(id) => Unit::Group(self.groups.get(id).key.clone()),
        }
    }
}
