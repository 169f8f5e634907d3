//! Objects that expire: Events, some time after their last write.
//!
//! A write sets the expiry of its object, and the store has it with the object. Neither a restart nor a new setting
//! changes the expiry of stored objects. Deleting an expired object is a normal write: it is durable, and watches
//! report it.

use std::time::Duration;

use api::Timestamp;
use futures::FutureExt;
use futures::future::BoxFuture;
use store::{ObjectWrite, Op, Precondition, StoreKey, StoredObject};

use crate::resources::object::ApiObject;
use crate::server::{ApiServer, ServerState};
use crate::write::encode;

/// The default lifetime of Events, as upstream.
pub const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// The maximum number of objects that one sweep deletes: a commit of a few milliseconds, so that other writes run in
/// between.
const MAX_SWEEP_OBJECTS: usize = 256;
/// The shortest time between two sweeps, so that objects that expire one after the other are deleted in few commits.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The same when a sweep reached its limit.
const BACKLOG_SWEEP_INTERVAL: Duration = Duration::from_millis(50);

impl ApiServer {
    /// Deletes expired objects, forever. The process of the server runs it as a task.
    pub fn expire(self) -> BoxFuture<'static, ()> {
        async move {
            let server = self.state();
            loop {
                let swept = sweep(server, server.clock.now()).await;
                let pause = if swept == MAX_SWEEP_OBJECTS {
                    BACKLOG_SWEEP_INTERVAL
                } else {
                    until_next(server, server.clock.now())
                };
                tokio::time::sleep(pause).await;
            }
        }
        .boxed()
    }
}

/// Deletes a bounded number of objects that have expired at `now`. Returns how many.
async fn sweep(server: &ServerState, now: Timestamp) -> usize {
    let expired = server.store.expired(now, MAX_SWEEP_OBJECTS);
    if expired.is_empty() {
        return 0;
    }
    // The delete of an object that was written meanwhile is refused, and the object stays.
    let writes = expired.iter().map(|stored| delete(stored)).collect();
    match server.committer.commit(writes, now).await {
        Ok(results) => results.iter().filter(|result| result.is_ok()).count(),
        Err(error) => {
            tracing::error!("expired objects were not deleted: {error}");
            0
        }
    }
}

fn delete(stored: &StoredObject) -> ObjectWrite {
    ObjectWrite {
        key: StoreKey::clone(&stored.key),
        precondition: Precondition::At(stored.revision),
        op: Op::Delete,
        document: encode::document(&ApiObject::from_stored(stored)),
        meta: stored.meta.clone(),
    }
}

fn until_next(server: &ServerState, now: Timestamp) -> Duration {
    let next = server.store.next_expiry().map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    // Objects that are written from now on live at least this long.
    next.map_or(server.event_ttl, |next| next.min(server.event_ttl)).max(SWEEP_INTERVAL)
}
