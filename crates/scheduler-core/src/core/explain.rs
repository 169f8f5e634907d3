//! Responses to queries about a unit or the queue, and the placement reports cached for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use types::Timestamp;
use types::views::PodView;

use super::Core;
use crate::cluster::removal_overlay::PlacedUsages;
use crate::cluster::{NodeIndex, TopologyId};
use crate::decision::{DecisionAction, Unit};
use crate::demand::classes::ClassId;
use crate::demand::pods::{PodId, Stage};
use crate::demand::requests::Usage;
use crate::explain::explanation::{QueuedUnit, UnitExplanation};
use crate::explain::placement_report::{self, PlacedClass, PlacementReport};
use crate::explain::refusal::{Refusal, RefusalCause};
use crate::explain::remedies::RemedyStatus;
use crate::explain::report_cache::CachedReport;
use crate::queue::UnitId;

/// How often reports are computed: a pass over all nodes must not come with every pod.
const REPORT_INTERVAL: Duration = Duration::from_millis(20);

impl Core {
    /// Computes the placement reports of at most `max_count` recently placed units and caches them for
    /// [`Core::explain`]. However often it is called, it runs only every `REPORT_INTERVAL`. No decision depends on
    /// it.
    pub fn cache_placement_reports(&mut self, now: Timestamp, max_count: usize) {
        let is_early = self.report_cache.last.is_some_and(|last| now < last + REPORT_INTERVAL);
        if is_early || self.report_cache.pending.is_empty() {
            return;
        }
        self.report_cache.last = Some(now);
        for unit in std::mem::take(&mut self.report_cache.pending).into_iter().rev().take(max_count) {
            let pods: Vec<PodId> = match unit {
                UnitId::Pod(id) => vec![id],
                UnitId::Group(group) => match self.groups.try_get(group) {
                    Some(group) => group.placed.pods().collect(),
                    None => continue,
                },
            };
            // Pods whose bind is in flight still have their class.
            let assumed = pods.into_iter().filter_map(|id| {
                let pod = self.pods.try_get(id)?;
                let Stage::Assumed(node) = pod.stage else { return None };
                Some((id, pod.arrival, pod.class?, node, Arc::clone(&pod.usage)))
            });
            let assumed: Vec<_> = assumed.collect();
            let Some((pod, arrival, ..)) = assumed.first().cloned() else { continue };
            let name = self.name_of(unit);
            let pods = assumed.into_iter().map(|(_, _, class, node, usage)| (class, node, usage));
            if let Some(report) = self.placement_report(&name, pods, unit) {
                let report = PlacementReport { recorded_at: Some(now), ..report };
                self.report_cache.insert(name, CachedReport { pod, arrival, report });
            }
        }
    }

    /// Everything known about a unit, or about a pod of a group; none if it is not tracked. `placed` are the pods of
    /// the unit that have a node and whose placement is to be explained. A unit that waits for a change and is found
    /// to fit is decided next.
    pub fn explain(&mut self, subject: &Unit, placed: &[Arc<PodView>]) -> Option<UnitExplanation> {
        let (unit, stage) = match subject {
            Unit::Group(key) => (UnitId::Group(self.groups.find(key)?), None),
            Unit::Pod(key) => {
                let id = self.pods.find(key)?;
                (self.unit_of(id).0, Some(self.pods.get(id).stage))
            }
        };
        let exclusion = stage.and_then(|stage| match stage {
            Stage::Excluded(reason) => Some(reason),
            _ => None,
        });
        let name = self.name_of(unit);
        let mut explanation =
            UnitExplanation { unit: name, queued: None, refusal: None, fits_now: false, exclusion, placement: None };
        if exclusion.is_none() {
            explanation.queued = self.queue().into_iter().find(|queued| queued.unit == explanation.unit);
            self.explain_wait(unit, &mut explanation);
        } else {
            explanation.unit = subject.clone();
        }
        explanation.placement = self.explain_placement(subject, unit, placed);
        Some(explanation)
    }

    /// Every unit that has something to decide, in queue order.
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

    fn explain_wait(&mut self, unit: UnitId, explanation: &mut UnitExplanation) {
        let Some(demand) = self.demand(unit) else {
            explanation.refusal = self.incomplete_decision(unit).and_then(|decision| match decision.action {
                DecisionAction::Wait(refusal) => Some(refusal),
                _ => None,
            });
            return;
        };
        self.enforce_reservation_for(unit);
        let Some(refusal) = self.dry_run(&demand) else {
            explanation.fits_now = true;
            self.found_to_fit(unit);
            return;
        };
        let may_have_remedies = matches!(refusal.cause, RefusalCause::DoesNotFit | RefusalCause::NoDomain { .. });
        let remedies = match may_have_remedies {
            true => {
                let running = self.running_units();
                RemedyStatus::Found(self.remedies_for(unit, &demand, &refusal, &running))
            }
            false => RemedyStatus::NotSearched,
        };
        explanation.refusal = Some(Refusal { remedies, ..refusal });
    }

    fn explain_placement(&mut self, subject: &Unit, unit: UnitId, placed: &[Arc<PodView>]) -> Option<PlacementReport> {
        if let Some(cached) = self.report_cache.reports.get(subject)
            && self
                .pods
                .try_get(cached.pod)
                .is_some_and(|pod| pod.arrival == cached.arrival && pod.stage.node().is_some())
        {
            return Some(cached.report.clone());
        }
        let mut pods = Vec::new();
        for view in placed {
            let Some(id) = self.pods.find(&view.metadata.key()) else { continue };
            let pod = self.pods.get(id);
            let (Some(node), usage) = (pod.stage.node(), Arc::clone(&pod.usage)) else { continue };
            if pod.uid() == view.metadata.uid && self.cluster.node(node).present {
                let class = self.classes.class_of(view, &mut self.cluster);
                pods.push((self.classes.acquire(class), node, usage));
            }
        }
        let acquired: Vec<ClassId> = pods.iter().map(|(class, ..)| *class).collect();
        let mut report = self.placement_report(subject, pods, unit);
        acquired.into_iter().for_each(|class| self.classes.release(class));
        if let (Unit::Pod(_), Some(report)) = (subject, &mut report) {
            // One pod of a group follows the others; its domain was not chosen for it.
            report.domain = None;
        }
        report
    }

    fn placement_report(
        &mut self,
        unit: &Unit,
        pods: impl IntoIterator<Item = (ClassId, NodeIndex, Arc<Usage>)>,
        of: UnitId,
    ) -> Option<PlacementReport> {
        let mut by_class: BTreeMap<ClassId, Vec<NodeIndex>> = BTreeMap::new();
        let mut usages: PlacedUsages = Vec::new();
        for (class, node, usage) in pods {
            by_class.entry(class).or_default().push(node);
            usages.push((node, usage));
        }
        let classes: Vec<PlacedClass> =
            by_class.into_iter().map(|(class, nodes)| PlacedClass { class, nodes }).collect();
        self.cluster.enforce_reservation(false);
        placement_report::build(unit, &classes, &usages, self.domain_demand(of), &mut self.cluster, &mut self.classes)
    }

    /// The topology key of the unit, and for how many more pods a domain of it should have capacity.
    fn domain_demand(&self, unit: UnitId) -> (Option<TopologyId>, usize) {
        let UnitId::Group(group) = unit else { return (None, 0) };
        let group = self.groups.get(group);
        (group.spec.as_ref().and_then(|spec| spec.topology), group.coming_count())
    }

    pub(super) fn name_of(&self, unit: UnitId) -> Unit {
        match unit {
            UnitId::Pod(id) => Unit::Pod(self.pods.get(id).key()),
            UnitId::Group(id) => Unit::Group(self.groups.get(id).key.clone()),
        }
    }
}
