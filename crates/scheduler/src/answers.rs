//! What is refused right now, and why; and answers to whoever asks for more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::views::PodView;
use scheduler_core::{Advised, Core, Explained, Queued, Refusal, Unit};
use tokio::sync::{mpsc, oneshot};

/// Questions that wait for the scheduler; whoever has one more waits until there is room.
const QUESTIONS_MAX: usize = 16;

/// The scheduler's standing refusals, for whoever wants to read them, and a way to ask it. Cloning shares them.
///
/// A unit is in here from the decision that refused it (or a rest of its pods) until one that places it, or until it
/// is gone.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    refused: Mutex<BTreeMap<Unit, Refusal>>,
    /// To the scheduler that runs now, or ran last.
    asking: Mutex<Option<mpsc::Sender<Asked>>>,
}

/// Nobody is there to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoScheduler;

/// A question, and where its answer goes.
#[derive(Debug)]
pub(crate) enum Asked {
    Explain { unit: Unit, placed: Vec<Arc<PodView>>, answer: oneshot::Sender<Option<Explained>> },
    Queue { answer: oneshot::Sender<Vec<Queued>> },
}

impl Asked {
    /// Answers from the core as it is. Whoever does not wait any more misses nothing.
    pub(crate) fn answer(self, core: &mut Core) {
        match self {
            Asked::Explain { unit, placed, answer } => drop(answer.send(core.explain(&unit, &placed))),
            Asked::Queue { answer } => drop(answer.send(core.queue())),
        }
    }
}

impl Answers {
    /// Every unit that is refused now, in order.
    pub fn waiting(&self) -> BTreeMap<Unit, Refusal> {
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
    pub async fn explain(&self, unit: Unit, placed: Vec<Arc<PodView>>) -> Result<Option<Explained>, NoScheduler> {
        self.ask(|answer| Asked::Explain { unit, placed, answer }).await
    }

    /// Every unit that has something to be decided, in the order of their turns.
    pub async fn queue(&self) -> Result<Vec<Queued>, NoScheduler> {
        self.ask(|answer| Asked::Queue { answer }).await
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Asked) -> Result<T, NoScheduler> {
        let asking = self.0.asking.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(NoScheduler)?;
        let (answer, answered) = oneshot::channel();
        asking.send(question(answer)).await.map_err(|_| NoScheduler)?;
        answered.await.map_err(|_| NoScheduler)
    }

    /// Where the questions come from now on: a scheduler takes the place of the one before.
    pub(crate) fn open(&self) -> mpsc::Receiver<Asked> {
        let (asking, questions) = mpsc::channel(QUESTIONS_MAX);
        *self.0.asking.lock().unwrap_or_else(PoisonError::into_inner) = Some(asking);
        questions
    }

    pub(crate) fn refuse(&self, unit: Unit, refusal: Refusal) {
        self.lock().insert(unit, refusal);
    }

    /// Puts a refusal right, with ways out; false if the unit is not refused any more.
    pub(crate) fn renew(&self, unit: &Unit, renewed: Option<Refusal>) -> bool {
        let mut refused = self.lock();
        let Some(refusal) = refused.get_mut(unit) else { return false };
        match renewed {
            Some(renewed) => *refusal = renewed,
            // It finds a place by now, and is to be decided.
            None => refusal.advised = Advised::Given(Arc::default()),
        }
        true
    }

    pub(crate) fn withdraw(&self, unit: &Unit) {
        self.lock().remove(unit);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Unit, Refusal>> {
        self.0.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
