//! A copy of what explanations read, so that they run beside decisions and never delay one.
//!
//! In: tasks that the core makes at the moment of the copy. Out: explanations, remedies, placement reports and the
//! queue as of that moment, and what the core must learn from them.
//!
//! What holds: nothing that the core does later changes a fork, and nothing on a fork changes the core. Trials are
//! undone, so a fork executes any number of tasks. The numbers of nodes are copied. Pods, and what is static about
//! nodes, are shared with the core until one of them changes (`docs/decisions/0012-forks.md`). Class indexes are not
//! copied: a fork builds those that it reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::Timestamp;

use crate::cluster::ghosts::{GhostSetId, GhostView};
use crate::cluster::removal_overlay::PlacedUsages;
use crate::cluster::{Cluster, NodeIndex};
use crate::cycle;
use crate::decision::Unit;
use crate::demand::Demand;
use crate::demand::classes::{ClassId, Classes};
use crate::demand::groups::GroupNames;
use crate::demand::pods::PodTable;
use crate::demand::requests::Usage;
use crate::explain::explanation::{QueuedUnit, UnitExplanation};
use crate::explain::placement_report::{self, PlacedClass, PlacementReport};
use crate::explain::refusal::{Refusal, RefusalCause};
use crate::explain::remedies::{Blocker, Remedy, RemedyReport, RemedyStatus};
use crate::explain::remedy_search::{self, BlockerPlan, RemedyCandidates, RemedyRequest};
use crate::explain::report_cache::CachedReport;
use crate::explain::task::{
    ExplainTask, PlacementSource, QueueTask, RecordedReport, RemedyResult, RemedyTask, ReportDemand, ReportTask,
    ReservationSnapshot, UnitSnapshot,
};
use crate::placement::search::SearchBudget;
use crate::queue::UnitId;
use crate::queue::listing::{ListedUnit, UnitWait};

/// What explanations read of the core, as of one moment.
#[derive(Debug)]
pub struct Fork {
    /// The tasks of this moment have the same number.
    pub(crate) revision: u64,
    pub(crate) cluster: Cluster,
    /// Only those that the tasks name.
    pub(crate) classes: Classes,
    pub(crate) pods: PodTable,
    pub(crate) group_names: GroupNames,
    /// What is reserved, by unit.
    pub(crate) reservations: BTreeMap<UnitId, ReservationSnapshot>,
    pub(crate) max_search_steps: usize,
}

impl Fork {
    /// Explains a unit. The second value is set if the unit waited for a change although it fits; pass it to
    /// [`Core::offer`](crate::Core::offer).
    pub fn explain(&mut self, task: ExplainTask) -> (UnitExplanation, Option<UnitWait>) {
        self.assert_same_moment(task.revision);
        let ExplainTask { subject, unit, queued, exclusion, placement, .. } = task;
        let mut explanation = UnitExplanation {
            unit: if exclusion.is_none() { unit.name.clone() } else { subject.clone() },
            queued,
            refusal: None,
            fits_now: false,
            exclusion,
            placement: None,
        };
        let mut missed_wakeup = None;
        if exclusion.is_none() {
            self.add_classes(&unit);
            match &unit.demand {
                Some(demand) => {
                    explanation.refusal = self.refusal_with_remedies(&unit, demand);
                    explanation.fits_now = explanation.refusal.is_none();
                    missed_wakeup = unit.unwoken.filter(|_| explanation.fits_now);
                }
                None => explanation.refusal = unit.obstacle,
            }
        }
        explanation.placement = match placement {
            PlacementSource::Recorded(report) => Some(*report),
            PlacementSource::Pods { pods, demand } => {
                let of_class = |fork: &mut Fork, view| {
                    let class = fork.classes.class_of(view, &mut fork.cluster);
                    fork.classes.acquire(class)
                };
                let pods = pods.iter().map(|(view, node, usage)| (of_class(self, view), *node, Arc::clone(usage)));
                let pods: Vec<_> = pods.collect();
                self.cluster.show_ghosts(GhostView::default());
                self.report(&subject, pods, demand)
            }
        };
        if let (Unit::Pod(_), Some(report)) = (&subject, &mut explanation.placement) {
            // One pod of a group follows the others; its domain was not chosen for it.
            report.domain = None;
        }
        (explanation, missed_wakeup)
    }

    /// Searches for remedies for a waiting group. Pass the result to
    /// [`Core::accept_remedies`](crate::Core::accept_remedies).
    pub fn find_remedies(&mut self, task: RemedyTask) -> RemedyResult {
        self.assert_same_moment(task.revision);
        let RemedyTask { unit, demand, wait, .. } = task;
        self.add_classes(&unit);
        let refusal = self.refusal_with_remedies(&unit, &demand);
        let missed_wakeup = unit.unwoken.filter(|_| refusal.is_none());
        RemedyResult { unit: unit.name, wait, missed_wakeup, refusal }
    }

    /// Computes the placement report of a unit that was just placed. Pass it to
    /// [`Core::cache_report`](crate::Core::cache_report).
    pub fn placement_report(&mut self, task: ReportTask) -> Option<RecordedReport> {
        self.assert_same_moment(task.revision);
        let ReportTask { unit, pods, classes, demand, ghosts, pod, arrival, now, .. } = task;
        self.cluster.show_ghosts(ghosts);
        classes.into_iter().for_each(|(id, class)| self.classes.add_shared(id, class));
        let report = PlacementReport { recorded_at: Some(now), ..self.report(&unit, pods, demand)? };
        Some(RecordedReport { unit, cached: CachedReport { pod, arrival, report } })
    }

    /// Every unit that has something to decide, in queue order.
    pub fn queue(&self, task: QueueTask) -> Vec<QueuedUnit> {
        self.assert_same_moment(task.revision);
        let QueueTask { mut units, .. } = task;
        units.sort_unstable_by_key(|listed| (listed.order, listed.unit));
        let units_count = units.len();
        let named = |(at, listed): (usize, ListedUnit)| {
            let name = self.name_of(listed.unit);
            let reserved = self.reservations.get(&listed.unit).map(|reserved| reserved.report.clone());
            listed.named(name, (at + 1, units_count), reserved)
        };
        units.into_iter().enumerate().map(named).collect()
    }

    fn assert_same_moment(&self, revision: u64) {
        assert_eq!(revision, self.revision, "a task is executed on a fork of the same moment");
    }

    fn add_classes(&mut self, unit: &UnitSnapshot) {
        unit.classes.iter().for_each(|(id, class)| self.classes.add_shared(*id, Arc::clone(class)));
    }

    /// Why the unit does not fit now, with remedies where there can be some; none if it does.
    fn refusal_with_remedies(&mut self, unit: &UnitSnapshot, demand: &Demand) -> Option<Refusal> {
        self.cluster.show_ghosts(unit.ghosts);
        let refusal = self.dry_run(demand)?;
        let remedies = match refusal.cause {
            RefusalCause::DoesNotFit | RefusalCause::NoDomain { .. } => {
                RemedyStatus::Found(self.remedies_for(unit, demand, &refusal))
            }
            _ => RemedyStatus::NotSearched,
        };
        Some(Refusal { remedies, ..refusal })
    }

    fn dry_run(&mut self, demand: &Demand) -> Option<Refusal> {
        cycle::dry_run(demand, &mut self.cluster, &mut self.classes, SearchBudget::of(self.max_search_steps))
    }

    fn remedies_for(&mut self, unit: &UnitSnapshot, demand: &Demand, refusal: &Refusal) -> Arc<RemedyReport> {
        let request = RemedyRequest {
            unit: unit.id,
            demand,
            refusal,
            root_owner: &unit.root_owner,
            members_on: &unit.members_on,
            pods: &self.pods,
        };
        let mut candidates: RemedyCandidates =
            remedy_search::search(&request, &mut self.cluster, &mut self.classes, self.max_search_steps);
        if let Some(end) = self.blocking_reservation(&demand.for_all_pending()) {
            // There is capacity: no unit has to end, and no node has to be added.
            candidates.report.remedies.retain(|remedy| !remedy.is_about_nodes());
            return candidates.into_report(Some(end));
        }
        let wait = candidates.blocker_plan.take().map(|plan| self.wait_for(&plan));
        candidates.into_report(wait)
    }

    /// The end of a reservation as a remedy, if only reservations are in the way of the unit.
    fn blocking_reservation(&mut self, demand: &Demand) -> Option<Remedy> {
        let in_the_way = self.reservations.iter().filter(|(_, reserved)| self.cluster.is_counted(reserved.ghosts));
        let mut by_end: Vec<(Timestamp, UnitId, GhostSetId)> =
            in_the_way.map(|(unit, reserved)| (reserved.report.until, *unit, reserved.ghosts)).collect();
        by_end.sort_unstable();
        // When one reservation has ended, those that end before it have, too.
        let mut remedy = None;
        for (until, unit, ghosts) in &by_end {
            self.cluster.count_set(*ghosts, false);
            if self.dry_run(demand).is_none() {
                remedy = Some(Remedy::ReservationEnds { unit: self.name_of(*unit), until: *until });
                break;
            }
        }
        by_end.iter().for_each(|(.., ghosts)| self.cluster.count_set(*ghosts, true));
        remedy
    }

    fn wait_for(&self, plan: &BlockerPlan) -> Remedy {
        let blockers = plan.blockers.iter().map(|(unit, pods_count)| {
            let pods_count = *pods_count;
            match unit {
                UnitId::Pod(id) => {
                    Blocker { kind: "pod".to_owned(), key: self.pods.get(*id).key(), pods_count, group: None }
                }
                UnitId::Group(id) => {
                    let name = self.group_names.get(*id);
                    let owner = name.root_owner.clone();
                    Blocker { kind: owner.kind, key: owner.key, pods_count, group: Some(name.key.clone()) }
                }
            }
        });
        Remedy::WaitFor { blockers: blockers.collect(), domain: plan.region.chosen_domain(&self.cluster) }
    }

    fn report(
        &mut self,
        unit: &Unit,
        pods: Vec<(ClassId, NodeIndex, Arc<Usage>)>,
        demand: ReportDemand,
    ) -> Option<PlacementReport> {
        let mut by_class: BTreeMap<ClassId, Vec<NodeIndex>> = BTreeMap::new();
        let mut usages: PlacedUsages = Vec::new();
        for (class, node, usage) in pods {
            by_class.entry(class).or_default().push(node);
            usages.push((node, usage));
        }
        let classes: Vec<PlacedClass> =
            by_class.into_iter().map(|(class, nodes)| PlacedClass { class, nodes }).collect();
        let ReportDemand { topology, coming_count } = demand;
        let demand = (topology, coming_count);
        placement_report::build(unit, &classes, &usages, demand, &mut self.cluster, &mut self.classes)
    }

    fn name_of(&self, unit: UnitId) -> Unit {
        match unit {
            UnitId::Pod(id) => Unit::Pod(self.pods.get(id).key()),
            UnitId::Group(id) => Unit::Group(self.group_names.get(id).key.clone()),
        }
    }
}
