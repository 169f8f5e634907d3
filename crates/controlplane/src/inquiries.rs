//! What the scheduler of a process answers, for those who serve it: the API server, or the listener for health and metrics.

use std::sync::{Arc, Mutex, PoisonError};

use scheduler::{Inquiry, Reply};

/// Questions to the scheduler of a process. It is there before the process is: until then nobody answers. Clones are the
/// same.
#[derive(Clone, Default)]
pub struct Inquiries(Arc<Mutex<Option<Inquiry>>>);

impl Inquiries {
    /// From now on this one is asked.
    pub(crate) fn open(&self, inquiry: Inquiry) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(inquiry);
    }

    /// The answer to `/queue` or `/explain?…`; none for any other path, and where no scheduler is part of the process.
    pub async fn answer(&self, path: &str, query: &str) -> Option<Reply> {
        let inquiry = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        inquiry.answer(path, query).await
    }
}
