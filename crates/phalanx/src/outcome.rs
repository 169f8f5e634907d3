//! How a run ended: its exit code, its word, and why it did not end well.

use std::time::Duration;

use crate::cli;
use crate::progress::{Ending, State, Work};
use crate::warnings::WarningLog;

/// How it ended, and where everything stood then.
pub struct Outcome {
    /// All work.
    pub works: Vec<Work>,
    /// `None`: time ran out.
    pub ending: Option<Ending>,
    /// A part of the control plane that died.
    pub broken: Option<String>,
    /// The Warning Events.
    pub warnings: WarningLog,
}

impl Outcome {
    /// The word for it, for machines.
    pub fn word(&self) -> &'static str {
        match self.ending {
            _ if self.broken.is_some() => "broken",
            Some(Ending::Settled) if self.exit_code() == cli::DONE => "done",
            Some(Ending::Settled) if self.any(State::Failed) => "failed",
            Some(Ending::Settled) if self.any(State::Suspended) => "suspended",
            Some(Ending::Settled) => "nothingRan",
            Some(Ending::Hopeless) if self.works.iter().any(|work| work.obstacle.is_some()) => "blocked",
            Some(Ending::Hopeless) => "unplaceable",
            None => "timeout",
        }
    }

    /// 0 only if work was done and nothing is left.
    pub fn exit_code(&self) -> u8 {
        let is_good = !self.any(State::Failed) && !self.any(State::Suspended) && self.any(State::Done);
        match self.ending {
            _ if self.broken.is_some() => cli::CANNOT_START,
            Some(Ending::Settled) if is_good => cli::DONE,
            _ => cli::FAILED,
        }
    }

    fn any(&self, state: State) -> bool {
        self.works.iter().any(|work| work.state == state)
    }

    /// Why it did not end well, a line for each piece of work concerned; and what is not waited for.
    pub fn explanation(&self, timeout: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        if self.warnings.omitted > 0 {
            lines.push(format!("warning: {} more warnings are not shown", self.warnings.omitted));
        }
        if let Some(part) = &self.broken {
            lines.push(format!(
                "error: {part} ended by itself, which is a defect of Phalanx; PHALANX_LOG=debug says more"
            ));
        }
        if self.ending.is_none() && self.broken.is_none() {
            lines.push(format!("error: time ran out after {} s (--timeout)", timeout.as_secs()));
        }
        lines.extend(self.works.iter().flat_map(|work| self.about(work)));
        if self.works.iter().all(|work| work.state == State::Scheduled) {
            lines.push("error: nothing ran: the manifests have no Job, pod or PodGroup to run now".to_owned());
        }
        lines
    }

    fn about(&self, work: &Work) -> Vec<String> {
        let title = &work.title;
        let mut lines = Vec::new();
        if let Some(obstacle) = &work.obstacle {
            lines.push(format!("{title}: cannot finish: {obstacle}"));
        } else if let Some(refusal) = &work.refusal {
            let never = if self.ending == Some(Ending::Hopeless) { "cannot be placed: " } else { "" };
            lines.push(format!("{title}: {never}{}", refusal.message()));
        }
        if let Some(failure) = &work.failure {
            lines.push(format!("{title}: failed: {failure}"));
        }
        if work.state == State::Suspended {
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
