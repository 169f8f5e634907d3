//! Watches: cursors into a resource's log. A watcher has no queue of its own, so a slow one costs nothing; once the log
//! has moved past it, it is told so and lists anew.

use std::sync::Arc;

use tokio::sync::Notify;
use types::Revision;

use crate::list::CompactedError;
use crate::object::{Op, StoredObject};
use crate::store::Store;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct StoreEvent {
    /// Whether the object is still there.
    pub op: Op,
    /// The object afterwards; for a delete its last state under the delete's revision.
    pub object: Arc<StoredObject>,
    /// The version before; `None` when the object was created.
    pub previous: Option<Arc<StoredObject>>,
}

/// Reads the events of one resource in order of revision.
pub struct Watcher {
    store: Store,
    resource: Arc<str>,
    /// Everything up to here has been returned.
    seen: Revision,
    appended: Arc<Notify>,
}

/// A batch is small enough that reading it holds up no writer, and large enough that a watcher catches up.
const EVENTS_PER_BATCH: usize = 1000;

impl Watcher {
    pub(crate) fn new(store: Store, resource: Arc<str>, after: Revision, grown: Arc<Notify>) -> Watcher {
        Watcher { store, resource, seen: after, appended: grown }
    }

    /// The next events, at least one; waits when there is none. May be dropped while waiting without losing any.
    pub async fn next(&mut self) -> Result<Vec<StoreEvent>, CompactedError> {
        loop {
            // Made before the look at the log: an event that comes after the look is not slept through.
            let grown = self.appended.notified();
            let events = self.store.state().events(&self.resource, self.seen, EVENTS_PER_BATCH)?;
            if let Some(last) = events.last() {
                self.seen = last.object.revision;
                return Ok(events);
            }
            grown.await;
        }
    }

    /// Every event of this resource up to here has been returned. With nothing left to return this is the store's
    /// revision, however long ago the resource last changed.
    pub fn position(&self) -> Revision {
        let state = self.store.state();
        if state.has_events(&self.resource, self.seen) { self.seen } else { self.seen.max(state.revision()) }
    }
}
