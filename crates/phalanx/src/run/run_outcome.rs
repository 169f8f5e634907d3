//! The outcome of a run: its exit code, its name, and explanations.

use std::time::Duration;

use crate::cli;
use crate::run::progress::{RunEnding, TrackedWork, WorkState};
use crate::run::warnings::WarningLog;

/// How the run ended, with the last state of all work.
pub struct RunOutcome {
    /// All work.
    pub works: Vec<TrackedWork>,
    /// `None`: the timeout expired.
    pub ending: Option<RunEnding>,
    /// A task of the control plane that failed.
    pub failed_component: Option<String>,
    /// The Warning Events.
    pub warnings: WarningLog,
}

impl RunOutcome {
    /// The result in the JSON report.
    pub fn as_str(&self) -> &'static str {
        match self.ending {
            _ if self.failed_component.is_some() => "broken",
            Some(RunEnding::Finished) if self.exit_code() == cli::EXIT_DONE => "done",
            Some(RunEnding::Finished) if self.has_work_in(WorkState::Failed) => "failed",
            Some(RunEnding::Finished) if self.has_work_in(WorkState::Suspended) => "suspended",
            Some(RunEnding::Finished) => "nothingRan",
            Some(RunEnding::Stuck) if self.works.iter().any(|work| work.obstacle.is_some()) => "blocked",
            Some(RunEnding::Stuck) => "unplaceable",
            None => "timeout",
        }
    }

    /// 0 only if there was work and all of it succeeded.
    pub fn exit_code(&self) -> u8 {
        let is_good = !self.has_work_in(WorkState::Failed)
            && !self.has_work_in(WorkState::Suspended)
            && self.has_work_in(WorkState::Succeeded);
        match self.ending {
            _ if self.failed_component.is_some() => cli::EXIT_CANNOT_START,
            Some(RunEnding::Finished) if is_good => cli::EXIT_DONE,
            _ => cli::EXIT_FAILED,
        }
    }

    fn has_work_in(&self, state: WorkState) -> bool {
        self.works.iter().any(|work| work.state == state)
    }

    /// Explanations: one line for each piece of work that did not succeed, and for schedules.
    pub fn explanation(&self, timeout: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        if self.warnings.omitted > 0 {
            lines.push(format!("warning: {} more warnings are not shown", self.warnings.omitted));
        }
        if let Some(task) = &self.failed_component {
            lines.push(format!("error: {task} ended unexpectedly, which is a bug in Phalanx; --log debug shows more"));
        }
        if self.ending.is_none() && self.failed_component.is_none() {
            lines.push(format!("error: time ran out after {} s (--timeout)", timeout.as_secs()));
        }
        lines.extend(self.works.iter().flat_map(|work| self.describe_work(work)));
        if self.works.iter().all(|work| work.state == WorkState::Scheduled) {
            lines.push("error: nothing ran: the manifests have no Job, pod or PodGroup to run now".to_owned());
        }
        lines
    }

    fn describe_work(&self, work: &TrackedWork) -> Vec<String> {
        let title = &work.title;
        let mut lines = Vec::new();
        if let Some(obstacle) = &work.obstacle {
            lines.push(format!("{title}: cannot finish: {obstacle}"));
        } else if let Some(refusal) = &work.refusal {
            let never = if self.ending == Some(RunEnding::Stuck) { "cannot be placed: " } else { "" };
            lines.push(format!("{title}: {never}{}", refusal.message()));
        }
        if let Some(failure) = &work.failure {
            lines.push(format!("{title}: failed: {failure}"));
        }
        if work.state == WorkState::Suspended {
            let effect = if work.kind == "CronJob" { "no Jobs are created" } else { "no pods run" };
            lines.push(format!(
                "{title}: suspended: spec.suspend is true, so {effect}; set it to false (or remove it) and run again"
            ));
        }
        if let Some(schedule) = &work.schedule {
            lines.push(format!(
                "{title}: {schedule}; `run` does not wait for schedules; use `phalanx up` and `phalanx apply`"
            ));
        }
        lines
    }
}
