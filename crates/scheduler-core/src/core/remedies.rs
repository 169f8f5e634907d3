//! Remedies for waiting groups: when a search is due.
//!
//! Searches run apart from decisions, on a [`Fork`](crate::Fork): after the first refusal of a group, and then at most
//! once per interval however often it is refused. A refusal also becomes outdated by itself: a group is queued again
//! only when capacity grows, not when it shrinks. So, once something has changed, reported groups are searched and
//! reported again, one after another.

use std::time::Duration;

use types::Timestamp;

use super::Core;
use crate::decision::Unit;
use crate::explain::refusal::{Refusal, RefusalCause};
use crate::explain::remedies::RemedyStatus;
use crate::explain::task::{RemedyResult, RemedyTask};
use crate::queue::UnitId;

impl Core {
    /// Searches for remedies for at most `max_count` waiting groups for which that is due. A refusal with
    /// [`RemedyStatus::Pending`] gets its remedies here, and an outdated one is replaced. The refusal is none for a
    /// group that fits by now; it is decided next.
    pub fn find_remedies(&mut self, now: Timestamp, max_count: usize) -> Vec<(Unit, Option<Refusal>)> {
        let tasks = self.remedy_tasks(now, max_count);
        if tasks.is_empty() {
            return Vec::new();
        }
        let mut fork = self.fork();
        let results: Vec<_> = tasks.into_iter().map(|task| fork.find_remedies(task)).collect();
        results.into_iter().filter_map(|result| self.accept_remedies(result)).collect()
    }

    /// The searches that [`Core::find_remedies`] executes, for a fork of this moment.
    pub fn remedy_tasks(&mut self, now: Timestamp, max_count: usize) -> Vec<RemedyTask> {
        let Some(pause) = self.config.remedies_interval else { return Vec::new() };
        let mut tasks = Vec::new();
        while tasks.len() < max_count
            && let Some(id) = self.next_for_remedies(now, pause)
        {
            // A unit that no longer waits is decided again, or was placed.
            let Some(wait) = self.queue.wait_of(id) else { continue };
            let mut unit = self.snapshot(id);
            let Some(demand) = unit.demand.take() else { continue };
            self.remedy_schedule.record_search(id, now);
            tasks.push(RemedyTask { revision: self.revision, unit, demand, wait });
        }
        tasks
    }

    /// The refusal to report, if the group still waits as it did when the fork was made. A later decision has another
    /// refusal.
    pub fn accept_remedies(&mut self, result: RemedyResult) -> Option<(Unit, Option<Refusal>)> {
        let RemedyResult { unit, wait, missed_wakeup, refusal } = result;
        if !self.still_waits(wait) {
            return None;
        }
        missed_wakeup.into_iter().for_each(|missed| self.offer(missed));
        Some((unit, refusal))
    }

    fn next_for_remedies(&mut self, now: Timestamp, pause: Duration) -> Option<UnitId> {
        let due = self.remedy_schedule.next_due(now, pause);
        // Decisions come first: refreshing the numbers of waiting groups can wait.
        due.or_else(|| if self.queue.has_ready() { None } else { self.remedy_schedule.next_stale(now, pause) })
    }

    /// When [`Core::find_remedies`] has something to do.
    pub fn remedies_due_at(&self) -> Option<Timestamp> {
        self.config.remedies_interval.and_then(|pause| self.remedy_schedule.next_at(pause))
    }

    /// Schedules a search for remedies after a refusal.
    pub(super) fn note_refused(&mut self, unit: UnitId, refusal: &mut Refusal, now: Timestamp) {
        // Single pods get kube-scheduler's message; their remedies are searched on request.
        let has_remedies = matches!(unit, UnitId::Group(_))
            && matches!(refusal.cause, RefusalCause::DoesNotFit | RefusalCause::NoDomain { .. });
        if let Some(pause) = self.config.remedies_interval.filter(|_| has_remedies)
            && self.remedy_schedule.schedule(unit, now, pause)
        {
            refusal.remedies = RemedyStatus::Pending;
        }
    }
}
