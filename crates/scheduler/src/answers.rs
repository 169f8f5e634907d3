//! What is refused right now, and why.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scheduler_core::{Refusal, Unit};

/// The scheduler's standing refusals, for whoever wants to read them. Cloning shares them.
///
/// A unit is in here from the decision that refused it (or a rest of its pods) until one that places it, or until it
/// is gone.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Mutex<BTreeMap<Unit, Refusal>>>);

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

    pub(crate) fn refuse(&self, unit: Unit, refusal: Refusal) {
        self.lock().insert(unit, refusal);
    }

    pub(crate) fn withdraw(&self, unit: &Unit) {
        self.lock().remove(unit);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Unit, Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
