//! Objects that go by themselves: Events, some time after their last write.
//!
//! A write says how long its object lives and the store keeps that with it, so neither a restart nor another setting
//! changes the life of what is there. Taking away is a write like any other: watchers see it, and it outlives a crash.

use std::time::Duration;

use api::Timestamp;
use store::{ObjectWrite, Op, Precondition, StoreKey, StoredObject};

use crate::resources::object::ApiObject;
use crate::server::{ApiServer, ServerState};
use crate::write::encode;

/// The default lifetime of Events, as upstream.
pub const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// Objects that one sweep deletes: a commit of a few milliseconds, so that other writes run in between.
const MAX_SWEEP_OBJECTS: usize = 256;
/// The least time between two sweeps, so that objects that expire one after the other go in few commits.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The same when a sweep has left something.
const BACKLOG_SWEEP_INTERVAL: Duration = Duration::from_millis(50);

impl ApiServer {
    /// Deletes expired objects, forever. The process that runs the server runs this as a task.
    pub async fn expire(self) {
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
}

/// Takes away a bounded number of objects that have expired at `now`. Returns how many.
async fn sweep(server: &ServerState, now: Timestamp) -> usize {
    let expired = server.store.expired(now, MAX_SWEEP_OBJECTS);
    if expired.is_empty() {
        return 0;
    }
    // An object that is written meanwhile is refused, and lives on.
    let writes = expired.iter().map(|stored| delete(stored)).collect();
    match server.committer.commit(writes, now).await {
        Ok(answers) => answers.iter().filter(|answer| answer.is_ok()).count(),
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
    // What is written from now on lives at least as long as this.
    next.map_or(server.event_ttl, |next| next.min(server.event_ttl)).max(SWEEP_INTERVAL)
}
