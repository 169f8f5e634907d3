//! How a run ended: its exit code, its word, and why it did not end well.

use std::time::Duration;

use crate::cli;
use crate::progress::{RunEnding, TrackedWork, WorkState};
use crate::warnings::WarningLog;

/// How it ended, and where everything stood then.
pub struct RunOutcome {
    /// All work.
    pub works: Vec<TrackedWork>,
    /// `None`: time ran out.
    pub ending: Option<RunEnding>,
    /// A part of the control plane that died.
    pub failed_component: Option<String>,
    /// The Warning Events.
    pub warnings: WarningLog,
}

impl RunOutcome {
    /// The word for it, for machines.
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

    /// 0 only if work was done and nothing is left.
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

    /// Why it did not end well, a line for each piece of work concerned; and what is not waited for.
    pub fn explanation(&self, timeout: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        if self.warnings.omitted > 0 {
            lines.push(format!("warning: {} more warnings are not shown", self.warnings.omitted));
        }
        if let Some(part) = &self.failed_component {
            lines.push(format!(
                "error: {part} ended by itself, which is a defect of Phalanx; PHALANX_LOG=debug says more"
            ));
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
            let made = if work.kind == "CronJob" { "no Jobs are created" } else { "no pods run" };
            lines.push(format!(
                "{title}: suspended: spec.suspend is true, so {made}; set it to false (or remove it) and run again"
            ));
        }
        if let Some(schedule) = &work.schedule {
            lines.push(format!(
                "{title}: {schedule}; `run` does not wait for schedules: `phalanx up` keeps running, with `phalanx apply`"
            ));
        }
        lines
    }
}
