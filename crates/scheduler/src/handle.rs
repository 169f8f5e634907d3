//! The present refusals, and requests to the running scheduler.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::views::PodView;
use scheduler_core::{QueuedUnit, Refusal, RemedyStatus, Unit, UnitExplanation};
use tokio::sync::{mpsc, oneshot};

/// Pending requests. A further one waits until there is space in the channel.
const MAX_PENDING_REQUESTS: usize = 16;

/// The scheduler's present refusals, and a channel for requests to it. Clones share both.
///
/// This is the only place where refusals are stored. The core does not keep them. Conditions, Events, metrics and `/queue`
/// read them here. The status tracker has only what was last written to the server.
///
/// A unit is in here from the decision that refused it (or some of its pods) until one that places it, or until it is
/// deleted.
#[derive(Clone, Debug, Default)]
pub struct SchedulerHandle(Arc<HandleState>);

#[derive(Debug, Default)]
struct HandleState {
    refusals: Mutex<BTreeMap<Unit, Refusal>>,
    /// The channel to the scheduler that runs now, or ran last.
    requests: Mutex<Option<mpsc::Sender<SchedulerRequest>>>,
}

/// No scheduler runs in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoScheduler;

/// A request, and the channel for its response.
#[derive(Debug)]
pub(crate) enum SchedulerRequest {
    Explain { unit: Unit, placed: Vec<Arc<PodView>>, response: oneshot::Sender<Option<UnitExplanation>> },
    Queue { response: oneshot::Sender<Vec<QueuedUnit>> },
}

impl SchedulerHandle {
    /// Every unit that is refused now, in key order.
    pub fn refusals(&self) -> BTreeMap<Unit, Refusal> {
        self.lock().clone()
    }

    /// Why `unit` is refused now, if it is.
    pub fn get(&self, unit: &Unit) -> Option<Refusal> {
        self.lock().get(unit).cloned()
    }

    /// Whether `unit` is refused now.
    pub fn contains(&self, unit: &Unit) -> bool {
        self.lock().contains_key(unit)
    }

    /// The explanation of `unit`, with remedies; `None` if the scheduler does not know it. `placed`: those of its pods that
    /// have a node.
    pub async fn explain(&self, unit: Unit, placed: Vec<Arc<PodView>>) -> Result<Option<UnitExplanation>, NoScheduler> {
        self.request(|response| SchedulerRequest::Explain { unit, placed, response }).await
    }

    /// Every unit with a pending decision, in queue order.
    pub async fn queue(&self) -> Result<Vec<QueuedUnit>, NoScheduler> {
        self.request(|response| SchedulerRequest::Queue { response }).await
    }

    async fn request<T>(
        &self,
        new_request: impl FnOnce(oneshot::Sender<T>) -> SchedulerRequest,
    ) -> Result<T, NoScheduler> {
        let requests = self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(NoScheduler)?;
        let (sender, response) = oneshot::channel();
        requests.send(new_request(sender)).await.map_err(|_| NoScheduler)?;
        response.await.map_err(|_| NoScheduler)
    }

    /// The receiver of all further requests. A new scheduler replaces the one before.
    pub(crate) fn open_requests(&self) -> mpsc::Receiver<SchedulerRequest> {
        let (sender, receiver) = mpsc::channel(MAX_PENDING_REQUESTS);
        *self.0.requests.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
    }

    pub(crate) fn set_refusal(&self, unit: Unit, refusal: Refusal) {
        self.lock().insert(unit, refusal);
    }

    /// Replaces a refusal by one with remedies. False if the unit is no longer refused.
    pub(crate) fn update_refusal(&self, unit: &Unit, updated: Option<Refusal>) -> bool {
        let mut refusals = self.lock();
        let Some(refusal) = refusals.get_mut(unit) else { return false };
        match updated {
            Some(updated) => *refusal = updated,
            // It fits by now; a decision is pending.
            None => refusal.remedies = RemedyStatus::Found(Arc::default()),
        }
        true
    }

    pub(crate) fn remove_refusal(&self, unit: &Unit) {
        self.lock().remove(unit);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Unit, Refusal>> {
        self.0.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
