//! What the scheduler of a process answers, for those who serve it: the API server, or the listener for health and
//! metrics.

use std::sync::{Arc, Mutex, PoisonError};

use scheduler::{Query, QueryResponse};

/// Questions to the scheduler of a process. It is there before the process is: until then nobody answers. Clones are
/// the same.
#[derive(Clone, Default)]
pub struct SchedulerQueries(Arc<Mutex<Option<Query>>>);

impl SchedulerQueries {
    /// Queries go to this scheduler from now on.
    pub(crate) fn open(&self, inquiry: Query) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(inquiry);
    }

    /// The answer to `/queue` or `/explain?…`; none for any other path, and where no scheduler is part of the process.
    pub async fn answer(&self, path: &str, query: &str) -> Option<QueryResponse> {
        let inquiry = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        inquiry.respond(path, query).await
    }
}
