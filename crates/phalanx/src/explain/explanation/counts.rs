//! Pods by state.

use api::views::{PodPhase, PodView};
use serde::Serialize;

use super::counted;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodCounts {
    /// All pods, including those that have ended.
    all: usize,
    /// Pods with a node that have not ended.
    pub placed: usize,
    pub waiting: usize,
    running: usize,
    succeeded: usize,
    failed: usize,
}

impl PodCounts {
    pub fn of(pods: &[&PodView]) -> PodCounts {
        let phase = |wanted: PodPhase| pods.iter().filter(|pod| pod.status.phase == wanted).count();
        let unfinished = || pods.iter().filter(|pod| !pod.is_finished());
        PodCounts {
            all: pods.len(),
            placed: unfinished().filter(|pod| pod.node_name().is_some()).count(),
            waiting: unfinished().filter(|pod| pod.node_name().is_none()).count(),
            running: phase(PodPhase::Running),
            succeeded: phase(PodPhase::Succeeded),
            failed: phase(PodPhase::Failed),
        }
    }

    /// Pods that have not ended. Pods of earlier runs, or of other Jobs in the same group, may have.
    pub fn unfinished(&self) -> usize {
        self.placed + self.waiting
    }

    /// `2 succeeded, 1 failed`; `None` if no pod has ended.
    pub fn ended_text(&self) -> Option<String> {
        let ended = [(self.succeeded, "succeeded"), (self.failed, "failed")];
        let texts = ended.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    pub fn text(&self) -> String {
        let ended = self.ended_text();
        if let Some(ended) = ended.as_ref().filter(|_| self.unfinished() == 0) {
            return format!("{} ended: {ended}", counted(self.all, "pod"));
        }
        let states = [(self.waiting, "waiting"), (self.running, "running")];
        let states = states.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!(", {count} {word}"));
        let states: String = states.collect();
        let ended = ended.map(|ended| format!("; ended: {ended}")).unwrap_or_default();
        format!("{}: {} placed{states}{ended}", counted(self.unfinished(), "pod"), self.placed)
    }
}
