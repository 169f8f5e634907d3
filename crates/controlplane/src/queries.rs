//! Queries to the scheduler of a process, served by the API server or by the listener for health and metrics.

use std::sync::{Arc, Mutex, PoisonError};

use scheduler::{Query, QueryResponse};

/// Queries to the scheduler of a process. It exists before the scheduler; until then queries have no response. Clones share
/// the same scheduler.
#[derive(Clone, Default)]
pub struct SchedulerQueries(Arc<Mutex<Option<Query>>>);

impl SchedulerQueries {
    /// Queries go to this scheduler from now on.
    pub(crate) fn open(&self, query: Query) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(query);
    }

    /// The response to `/queue` or `/explain?…`; none for any other path, and without a scheduler in this process.
    pub async fn respond(&self, path: &str, parameters: &str) -> Option<QueryResponse> {
        let query = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        query.respond(path, parameters).await
    }
}
