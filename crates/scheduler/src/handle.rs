//! What is refused right now, and why; and answers to whoever asks for more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::views::PodView;
use scheduler_core::{Core, QueuedUnit, Refusal, RemedyStatus, Unit, UnitExplanation};
use tokio::sync::{mpsc, oneshot};

/// Questions that wait for the scheduler; whoever has one more waits until there is room.
const MAX_PENDING_REQUESTS: usize = 16;

/// The scheduler's standing refusals, for whoever wants to read them, and a way to ask it. Cloning shares them.
///
/// This is the only place where refusals are stored. The core does not keep them, conditions, Events, metrics and `/queue`
/// read them here, and the status tracker remembers only what it last wrote to the server.
///
/// A unit is in here from the decision that refused it (or a rest of its pods) until one that places it, or until it
/// is gone.
#[derive(Clone, Debug, Default)]
pub struct SchedulerHandle(Arc<HandleState>);

#[derive(Debug, Default)]
struct HandleState {
    refusals: Mutex<BTreeMap<Unit, Refusal>>,
    /// To the scheduler that runs now, or ran last.
    requests: Mutex<Option<mpsc::Sender<SchedulerRequest>>>,
}

/// Nobody is there to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoScheduler;

/// A question, and where its answer goes.
#[derive(Debug)]
pub(crate) enum SchedulerRequest {
    Explain { unit: Unit, placed: Vec<Arc<PodView>>, answer: oneshot::Sender<Option<UnitExplanation>> },
    Queue { answer: oneshot::Sender<Vec<QueuedUnit>> },
}

impl SchedulerRequest {
    /// Answers from the core as it is. Whoever does not wait any more misses nothing.
    pub(crate) fn respond(self, core: &mut Core) {
        match self {
            SchedulerRequest::Explain { unit, placed, answer } => drop(answer.send(core.explain(&unit, &placed))),
            SchedulerRequest::Queue { answer } => drop(answer.send(core.queue())),
        }
    }
}

impl SchedulerHandle {
    /// Every unit that is refused now, in order.
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

    /// All that the scheduler can say about `unit`, ways out included; none if it does not know it. `placed` are those of
    /// its pods that have a node.
    pub async fn explain(&self, unit: Unit, placed: Vec<Arc<PodView>>) -> Result<Option<UnitExplanation>, NoScheduler> {
        self.request(|answer| SchedulerRequest::Explain { unit, placed, answer }).await
    }

    /// Every unit that has something to be decided, in the order of their turns.
    pub async fn queue(&self) -> Result<Vec<QueuedUnit>, NoScheduler> {
        self.request(|answer| SchedulerRequest::Queue { answer }).await
    }

    async fn request<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> SchedulerRequest,
    ) -> Result<T, NoScheduler> {
        let asking = self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(NoScheduler)?;
        let (answer, answered) = oneshot::channel();
        asking.send(question(answer)).await.map_err(|_| NoScheduler)?;
        answered.await.map_err(|_| NoScheduler)
    }

    /// Where the questions come from now on: a scheduler takes the place of the one before.
    pub(crate) fn open_requests(&self) -> mpsc::Receiver<SchedulerRequest> {
        let (asking, questions) = mpsc::channel(MAX_PENDING_REQUESTS);
        *self.0.requests.lock().unwrap_or_else(PoisonError::into_inner) = Some(asking);
        questions
    }

    pub(crate) fn set_refusal(&self, unit: Unit, refusal: Refusal) {
        self.lock().insert(unit, refusal);
    }

    /// Puts a refusal right, with ways out; false if the unit is not refused any more.
    pub(crate) fn update_refusal(&self, unit: &Unit, renewed: Option<Refusal>) -> bool {
        let mut refused = self.lock();
        let Some(refusal) = refused.get_mut(unit) else { return false };
        match renewed {
            Some(renewed) => *refusal = renewed,
            // It finds a place by now, and is to be decided.
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
