//! Scheduling attempts whose binds are in flight, for the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Timestamp;
use api::views::ObjectKey;
use scheduler_core::{Placement, Unit};

use crate::metrics::{AttemptResult, Metrics, PodAttempt};
use crate::run::duration_until;

/// A scheduling attempt with binds.
#[derive(Debug)]
pub(crate) struct BindAttempt {
    pub(crate) unit: Unit,
    pub(crate) profile: String,
    /// Attempts so far, this one included.
    pub(crate) tries: u32,
    pub(crate) began: Timestamp,
}

/// Attempts by the pods whose binds have not ended.
#[derive(Debug, Default)]
pub(crate) struct BindAttempts {
    pods: BTreeMap<ObjectKey, Arc<BindAttempt>>,
    groups: BTreeMap<Unit, GroupBinds>,
}

/// The binds of a group.
#[derive(Debug, Default)]
struct GroupBinds {
    binds_left: usize,
    failed: bool,
}

impl BindAttempts {
    /// Records the start of binds.
    pub(crate) fn begin(&mut self, attempt: BindAttempt, placements: &[Placement]) {
        if matches!(attempt.unit, Unit::Group(_)) {
            self.groups.entry(attempt.unit.clone()).or_default().binds_left += placements.len();
        }
        let attempt = Arc::new(attempt);
        self.pods.extend(placements.iter().map(|placement| (placement.pod.clone(), attempt.clone())));
    }

    /// Records the end of a bind, and of the group's attempt with its last bind.
    pub(crate) fn end(
        &mut self,
        pod: &ObjectKey,
        result: AttemptResult,
        created: Option<Timestamp>,
        now: Timestamp,
        metrics: &Metrics,
    ) {
        let Some(attempt) = self.pods.remove(pod) else { return };
        let took = duration_until(now, attempt.began);
        let waited = created.map(|created| duration_until(now, created));
        metrics.bind_ended(result, PodAttempt { profile: &attempt.profile, tries: attempt.tries, took, waited });
        let Some(group) = self.groups.get_mut(&attempt.unit) else { return };
        group.binds_left = group.binds_left.saturating_sub(1);
        group.failed |= result != AttemptResult::Scheduled;
        if group.binds_left == 0 {
            let result = if group.failed { AttemptResult::Error } else { AttemptResult::Scheduled };
            metrics.group_bound(result, &attempt.profile, took);
            self.groups.remove(&attempt.unit);
        }
    }

    /// How many binds have not ended.
    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }
}
