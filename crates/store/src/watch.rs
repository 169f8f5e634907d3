//! Watches: cursors into a resource's log. A watcher has no queue, so a slow one costs nothing. When the log has moved
//! past its cursor, it gets an error and lists again.

use std::sync::Arc;

use tokio::sync::Notify;
use types::Revision;

use crate::list::CompactedError;
use crate::object::{Op, StoredObject};
use crate::store::Store;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct StoreEvent {
    /// Whether the object still exists.
    pub op: Op,
    /// The object after the change; for a delete its last state with the delete's revision.
    pub object: Arc<StoredObject>,
    /// The version before; `None` for a create.
    pub previous: Option<Arc<StoredObject>>,
}

/// Reads the events of one resource in order of revision.
pub struct Watcher {
    store: Store,
    resource: Arc<str>,
    /// All events up to here have been returned.
    position: Revision,
    appended: Arc<Notify>,
}

/// Small enough that reading a batch does not block writers, large enough that a watcher catches up.
const EVENTS_PER_BATCH: usize = 1000;

impl Watcher {
    pub(crate) fn new(store: Store, resource: Arc<str>, after: Revision, appended: Arc<Notify>) -> Watcher {
        Watcher { store, resource, position: after, appended }
    }

    /// The next events, at least one; waits when there is none. Cancel safe: dropping the future loses no event.
    pub async fn next(&mut self) -> Result<Vec<StoreEvent>, CompactedError> {
        loop {
            // Created before the log is read, so that an event in between is not missed.
            let appended = self.appended.notified();
            let events = self.store.state().events(&self.resource, self.position, EVENTS_PER_BATCH)?;
            if let Some(last) = events.last() {
                self.position = last.object.revision;
                return Ok(events);
            }
            appended.await;
        }
    }

    /// All events of this resource up to here have been returned. When none is left, this is the store's revision,
    /// however long ago the resource last changed.
    pub fn position(&self) -> Revision {
        let state = self.store.state();
        if state.has_events(&self.resource, self.position) {
            self.position
        } else {
            self.position.max(state.revision())
        }
    }
}
