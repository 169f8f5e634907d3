//! Explanations, searches for remedies and placement reports: all that are wanted at one moment, with one fork of the
//! core.
//!
//! A batch is made on the core's thread and executed beside it. There is one batch at a time. What is requested
//! meanwhile is in the next one, so requests that come fast share a fork.

use api::Timestamp;
use scheduler_core::{
    Core, ExplainTask, Fork, QueueTask, QueuedUnit, RecordedReport, Refusal, RemedyResult, RemedyTask, ReportTask,
    Unit, UnitExplanation, UnitWait,
};
use tokio::sync::oneshot;

use crate::handle::SchedulerRequest;

/// How many groups get a search for remedies in one batch.
const MAX_REMEDIES: usize = 4;
/// How many placement reports are recorded in one batch.
const MAX_REPORTS: usize = 8;

/// Tasks and the fork for them.
#[derive(Debug)]
pub(super) struct ExplainBatch {
    fork: Fork,
    tasks: Vec<Task>,
}

#[derive(Debug)]
enum Task {
    Explain(ExplainTask, oneshot::Sender<Option<UnitExplanation>>),
    Queue(QueueTask, oneshot::Sender<Vec<QueuedUnit>>),
    Remedies(RemedyTask),
    Report(ReportTask),
}

/// What the core learns from a batch.
#[derive(Debug)]
pub(super) enum ExplainResult {
    MissedWakeup(UnitWait),
    Remedies(RemedyResult),
    Report(RecordedReport),
}

impl ExplainBatch {
    /// All that is wanted now; none if that is nothing. A unit that the core does not know is answered at once.
    pub(super) fn collect(core: &mut Core, requests: Vec<SchedulerRequest>, now: Timestamp) -> Option<ExplainBatch> {
        // A user waits for the requests, so they are first.
        let mut tasks: Vec<Task> = requests.into_iter().filter_map(|request| Task::of(request, core)).collect();
        tasks.extend(core.remedy_tasks(now, MAX_REMEDIES).into_iter().map(Task::Remedies));
        tasks.extend(core.report_tasks(now, MAX_REPORTS).into_iter().map(Task::Report));
        (!tasks.is_empty()).then(|| ExplainBatch { fork: core.fork(), tasks })
    }

    /// Executes the tasks. Requests are answered from here.
    pub(super) fn run(self) -> Vec<ExplainResult> {
        let ExplainBatch { mut fork, tasks } = self;
        tasks.into_iter().filter_map(|task| task.run(&mut fork)).collect()
    }
}

impl Task {
    fn of(request: SchedulerRequest, core: &mut Core) -> Option<Task> {
        match request {
            SchedulerRequest::Explain { unit, placed, response } => match core.explain_task(&unit, &placed) {
                Some(task) => Some(Task::Explain(task, response)),
                None => {
                    // The requester may have stopped waiting.
                    let _ = response.send(None);
                    None
                }
            },
            SchedulerRequest::Queue { response } => Some(Task::Queue(core.queue_task(), response)),
        }
    }

    fn run(self, fork: &mut Fork) -> Option<ExplainResult> {
        match self {
            Task::Explain(_, response) if response.is_closed() => None,
            Task::Explain(task, response) => {
                let (explanation, missed_wakeup) = fork.explain(task);
                let _ = response.send(Some(explanation));
                missed_wakeup.map(ExplainResult::MissedWakeup)
            }
            Task::Queue(task, response) => {
                let _ = response.send(fork.queue(task));
                None
            }
            Task::Remedies(task) => Some(ExplainResult::Remedies(fork.find_remedies(task))),
            Task::Report(task) => fork.placement_report(task).map(ExplainResult::Report),
        }
    }
}

/// Passes results to the core. Returns the refusals that they replace.
pub(super) fn accept_results(core: &mut Core, results: Vec<ExplainResult>) -> Vec<(Unit, Option<Refusal>)> {
    let mut refusals = Vec::new();
    for finding in results {
        match finding {
            ExplainResult::MissedWakeup(missed) => core.offer(missed),
            ExplainResult::Remedies(result) => refusals.extend(core.accept_remedies(result)),
            ExplainResult::Report(report) => core.cache_report(report),
        }
    }
    refusals
}
