//! Queries about a unit or the queue, and the placement reports recorded for them: what the core copies for a
//! [`Fork`], and what it learns from its results.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use types::Timestamp;
use types::views::PodView;

use super::Core;
use crate::decision::{DecisionAction, Unit};
use crate::demand::classes::{Class, ClassId};
use crate::demand::groups::GroupName;
use crate::demand::pods::{PodId, Stage};
use crate::explain::explanation::{QueuedUnit, UnitExplanation};
use crate::explain::fork::Fork;
use crate::explain::refusal::Refusal;
use crate::explain::remedies::RootOwner;
use crate::explain::task::{
    ExplainTask, PlacementSource, QueueTask, RecordedReport, ReportDemand, ReportTask, ReservationSnapshot,
    UnitSnapshot,
};
use crate::queue::UnitId;
use crate::queue::listing::UnitWait;
use crate::reservation::ActiveReservation;

/// How often reports are computed: a copy of the cluster's columns must not come with every pod.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

impl Core {
    /// A copy of what explanations read. The tasks of this moment can be executed on it, on any thread, while the core
    /// decides.
    pub fn fork(&self) -> Fork {
        let reservation = |(unit, active): (&UnitId, &ActiveReservation)| {
            let report = self.reservation_report(*unit)?;
            Some((*unit, ReservationSnapshot { ghosts: active.ghosts, report }))
        };
        Fork {
            revision: self.revision,
            cluster: self.cluster.clone(),
            classes: self.classes.without_classes(),
            pods: self.pods.table().clone(),
            group_names: self.groups.names().clone(),
            reservations: self.reservations.iter().filter_map(reservation).collect(),
            max_search_steps: self.config.max_search_steps,
        }
    }

    /// Everything known about a unit, or about a pod of a group; none if it is not tracked. `placed` are the pods of
    /// the unit that have a node and whose placement is to be explained. A unit that waits for a change and is found
    /// to fit is decided next.
    pub fn explain(&mut self, subject: &Unit, placed: &[Arc<PodView>]) -> Option<UnitExplanation> {
        let task = self.explain_task(subject, placed)?;
        let (explanation, missed_wakeup) = self.fork().explain(task);
        if let Some(missed) = missed_wakeup {
            self.offer(missed);
        }
        Some(explanation)
    }

    /// Every unit that has something to decide, in queue order.
    pub fn queue(&self) -> Vec<QueuedUnit> {
        self.fork().queue(self.queue_task())
    }

    /// Computes the placement reports of at most `max_count` recently placed units and caches them for
    /// [`Core::explain`]. However often it is called, it runs only every `REPORT_INTERVAL`. No decision depends on
    /// it.
    pub fn cache_placement_reports(&mut self, now: Timestamp, max_count: usize) {
        let tasks = self.report_tasks(now, max_count);
        if tasks.is_empty() {
            return;
        }
        let mut fork = self.fork();
        tasks.into_iter().filter_map(|task| fork.placement_report(task)).for_each(|report| self.cache_report(report));
    }

    /// The task that [`Core::explain`] executes, for a fork of this moment.
    pub fn explain_task(&mut self, subject: &Unit, placed: &[Arc<PodView>]) -> Option<ExplainTask> {
        let (id, stage) = match subject {
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
        let unit = self.snapshot(id);
        let queued = self.queue.position(id).filter(|_| exclusion.is_none());
        let queued =
            queued.map(|(listed, position)| listed.named(unit.name.clone(), position, self.reservation_report(id)));
        let placement = self.placement_source(subject, id, placed);
        Some(ExplainTask { revision: self.revision, subject: subject.clone(), unit, queued, exclusion, placement })
    }

    /// The task that [`Core::queue`] executes, for a fork of this moment.
    pub fn queue_task(&self) -> QueueTask {
        QueueTask { revision: self.revision, units: self.queue.listing() }
    }

    /// The tasks that [`Core::cache_placement_reports`] executes, for a fork of this moment.
    pub fn report_tasks(&mut self, now: Timestamp, max_count: usize) -> Vec<ReportTask> {
        let is_early = self.report_cache.last.is_some_and(|last| now < last + REPORT_INTERVAL);
        if is_early || self.report_cache.pending.is_empty() {
            return Vec::new();
        }
        self.report_cache.last = Some(now);
        let units = std::mem::take(&mut self.report_cache.pending).into_iter().rev().take(max_count);
        units.filter_map(|unit| self.report_task(unit, now)).collect()
    }

    /// Caches a placement report for later explanations.
    pub fn cache_report(&mut self, report: RecordedReport) {
        self.report_cache.insert(report.unit, report.cached);
    }

    /// A unit fits that waited for a change when the fork was made, so a wake-up was missed. If it still waits, it is
    /// decided next, and counted. If it was woken since, a change has done that.
    pub fn offer(&mut self, missed: UnitWait) {
        if self.still_waits(missed) && self.queue.is_waiting(missed.unit) {
            self.queue.force_activate(missed.unit);
            self.missed_wakeups_count += 1;
            self.revision += 1;
        }
    }

    /// Whether the unit was neither woken nor decided since.
    pub(super) fn still_waits(&self, wait: UnitWait) -> bool {
        self.queue.wait_of(wait.unit) == Some(wait)
    }

    /// The unit as it is now.
    pub(super) fn snapshot(&mut self, id: UnitId) -> UnitSnapshot {
        let demand = self.demand(id);
        let obstacle = if demand.is_none() { self.obstacle(id) } else { None };
        let class_ids = demand.iter().flat_map(|demand| demand.class_counts.iter().map(|count| count.class));
        let (members_on, root_owner) = match id {
            UnitId::Group(group) => {
                let GroupName { root_owner, .. } = self.groups.names().get(group);
                (self.groups.get(group).placed.nodes().collect(), root_owner.clone())
            }
            UnitId::Pod(pod) => (Vec::new(), RootOwner { kind: "pod".to_owned(), key: self.pods.get(pod).key() }),
        };
        UnitSnapshot {
            id,
            name: self.name_of(id),
            obstacle,
            classes: self.shared_classes(class_ids),
            ghosts: self.ghosts_before(id),
            members_on,
            root_owner,
            unwoken: self.queue.wait_of(id).filter(|_| self.queue.is_waiting(id)),
            demand,
        }
    }

    fn shared_classes(&self, ids: impl Iterator<Item = ClassId>) -> Vec<(ClassId, Arc<Class>)> {
        let ids: BTreeSet<ClassId> = ids.collect();
        ids.into_iter().filter_map(|id| Some((id, Arc::clone(self.classes.get(id)?)))).collect()
    }

    /// Why the unit cannot be decided.
    fn obstacle(&mut self, unit: UnitId) -> Option<Refusal> {
        self.incomplete_decision(unit).and_then(|decision| match decision.action {
            DecisionAction::Wait(refusal) => Some(refusal),
            _ => None,
        })
    }

    fn placement_source(&self, subject: &Unit, unit: UnitId, placed: &[Arc<PodView>]) -> PlacementSource {
        if let Some(cached) = self.report_cache.reports.get(subject)
            && self
                .pods
                .try_get(cached.pod)
                .is_some_and(|pod| pod.arrival == cached.arrival && pod.stage.node().is_some())
        {
            return PlacementSource::Recorded(Box::new(cached.report.clone()));
        }
        let known = placed.iter().filter_map(|view| {
            let pod = self.pods.get(self.pods.find(&view.metadata.key())?);
            let node = pod.stage.node().filter(|node| self.cluster.node(*node).present)?;
            (pod.uid() == view.metadata.uid).then(|| (Arc::clone(view), node, Arc::clone(&pod.usage)))
        });
        PlacementSource::Pods { pods: known.collect(), demand: self.report_demand(unit) }
    }

    fn report_task(&self, unit: UnitId, now: Timestamp) -> Option<ReportTask> {
        let pods: Vec<PodId> = match unit {
            UnitId::Pod(id) => vec![id],
            UnitId::Group(group) => self.groups.try_get(group)?.placed.pods().collect(),
        };
        // Pods whose bind is in flight still have their class.
        let assumed = pods.into_iter().filter_map(|id| {
            let pod = self.pods.try_get(id)?;
            let Stage::Assumed(node) = pod.stage else { return None };
            Some((id, pod.arrival, pod.class?, node, Arc::clone(&pod.usage)))
        });
        let assumed: Vec<_> = assumed.collect();
        let (pod, arrival, ..) = assumed.first().cloned()?;
        let classes = self.shared_classes(assumed.iter().map(|(_, _, class, ..)| *class));
        Some(ReportTask {
            revision: self.revision,
            unit: self.name_of(unit),
            pods: assumed.into_iter().map(|(_, _, class, node, usage)| (class, node, usage)).collect(),
            classes,
            demand: self.report_demand(unit),
            ghosts: self.ghosts_before(unit),
            pod,
            arrival,
            now,
        })
    }

    /// For what the domain of the unit's pods was chosen.
    fn report_demand(&self, unit: UnitId) -> ReportDemand {
        let UnitId::Group(group) = unit else { return ReportDemand { topology: None, coming_count: 0 } };
        let group = self.groups.get(group);
        ReportDemand {
            topology: group.spec.as_ref().and_then(|spec| spec.topology),
            coming_count: group.coming_count(),
        }
    }

    pub(super) fn name_of(&self, unit: UnitId) -> Unit {
        match unit {
            UnitId::Pod(id) => Unit::Pod(self.pods.get(id).key()),
            UnitId::Group(id) => Unit::Group(self.groups.get(id).key.clone()),
        }
    }
}
