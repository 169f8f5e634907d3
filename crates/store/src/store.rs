//! The handle to the store.

use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use tokio::sync::Notify;
use types::{Revision, Timestamp};

use crate::backend::{Backend, BackendError, FreeSpace, LogRecord, MemoryBackend};
use crate::commit::{self, ObjectWrite, WriteRefusal};
use crate::history::{HistoryLimits, HistoryPin, HistoryPins};
use crate::list::{self, CompactedError, ListPage, ListQuery};
use crate::object::{StoreKey, StoredObject};
use crate::packing::Packer;
use crate::state::StoreState;
use crate::watch::{StoreEvent, Watcher};

/// A handle to the store; clones are the same store.
#[derive(Clone)]
pub struct Store(Arc<StoreInner>);

struct StoreInner {
    /// Only the holder of this lock changes the state. So a validated batch stays valid while the writer waits for the
    /// disk and others read. Locked before the state.
    writer: Mutex<BackendWriter>,
    state: RwLock<StoreState>,
    /// Locked last, and only briefly.
    pins: HistoryPins,
    /// Notified after every commit.
    advanced: Notify,
}

struct BackendWriter {
    backend: Box<dyn Backend>,
    packer: Packer,
    /// Loaded objects that are not packed yet. They are packed with later commits, because packing at start would
    /// delay it.
    to_pack: Vec<Arc<StoredObject>>,
    /// Set when the backend has failed, for good.
    failed: Option<BackendError>,
}

/// How many loaded objects are packed with each commit: few enough that a write does not wait for them.
const LOADED_PER_COMMIT: usize = 16;

const LOCK: &str = "no panic happens under the store's locks";

impl Store {
    /// A store that lives as long as the process.
    pub fn in_memory(limits: HistoryLimits) -> Store {
        Store::open(Box::new(MemoryBackend), limits).expect("the memory backend never fails")
    }

    /// A store with the records of `backend`. History is empty: older watches and lists get [`CompactedError`].
    pub fn open(mut backend: Box<dyn Backend>, limits: HistoryLimits) -> Result<Store, BackendError> {
        let mut state = StoreState::new(limits);
        let revision = backend.scan(&mut |record| state.load(record))?;
        let loaded = state.finish_loading(revision);
        Ok(Store(Arc::new(StoreInner {
            writer: Mutex::new(BackendWriter { backend, packer: Packer::default(), to_pack: loaded, failed: None }),
            state: RwLock::new(state),
            pins: HistoryPins::default(),
            advanced: Notify::new(),
        })))
    }

    /// Checks every write against the state and the writes before it in `batch`, stores the accepted ones in one
    /// commit, then publishes them to readers and watchers. Results are in the order of the writes.
    ///
    /// If the backend has no space, nothing is stored and every write of the batch gets [`WriteRefusal::Full`]. After
    /// an error nothing is published, it is unknown what was stored, and no later write is accepted.
    pub fn commit(
        &self,
        batch: Vec<ObjectWrite>,
        now: Timestamp,
    ) -> Result<Vec<Result<Arc<StoredObject>, WriteRefusal>>, BackendError> {
        let mut writer = self.0.writer.lock().expect(LOCK);
        let space = writer.free_space()?;
        let validated = commit::validate_batch(&self.state(), batch, space);
        if validated.events.is_empty() {
            return Ok(validated.results);
        }
        let record = |event: &StoreEvent| {
            let StoreEvent { op, object, previous } = event.clone();
            LogRecord { op, object, previous }
        };
        let records: Vec<LogRecord> = validated.events.iter().map(record).collect();
        let is_current =
            |key: &StoreKey, revision| self.state().get(key).is_some_and(|current| current.revision == revision);
        match writer.append(&records, &is_current) {
            Ok(()) => {}
            Err(BackendError::Full(space)) => {
                return Ok(commit::refuse_batch(validated.results, self.revision(), space));
            }
            Err(error) => return Err(error),
        }
        let mut state = self.0.state.write().expect(LOCK);
        let published = state.publish(validated.events, now, self.0.pins.lowest());
        drop(state);
        published.to_notify.iter().for_each(|appended| appended.notify_waiters());
        self.0.advanced.notify_waiters();
        let packed = writer.pack(published.to_pack);
        let mut state = self.0.state.write().expect(LOCK);
        packed.into_iter().for_each(|object| state.replace_packed(object));
        Ok(validated.results)
    }

    /// The object under `key`.
    pub fn get(&self, key: &StoreKey) -> Option<Arc<StoredObject>> {
        self.state().get(key).cloned()
    }

    /// The revision of the last write.
    pub fn revision(&self) -> Revision {
        self.state().revision()
    }

    /// One page of a resource at one revision. `keep` decides per object, and may itself read the store.
    pub fn list(
        &self,
        query: &ListQuery,
        keep: &mut dyn FnMut(&StoredObject) -> bool,
    ) -> Result<ListPage, CompactedError> {
        list::list(self, query, keep)
    }

    /// The events of `resource` with a revision larger than `after`.
    pub fn watch(&self, resource: &Arc<str>, after: Revision) -> Result<Watcher, CompactedError> {
        let mut state = self.0.state.write().expect(LOCK);
        state.check_not_compacted(resource, after)?;
        let appended = state.append_notifier(resource);
        Ok(Watcher::new(self.clone(), Arc::clone(resource), after, appended))
    }

    /// Up to `count` objects that have expired at `now`, longest ago first. They stay until a client deletes them.
    pub fn expired(&self, now: Timestamp, count: usize) -> Vec<Arc<StoredObject>> {
        self.state().expired(now, count)
    }

    /// When the next object expires, or the first of those that have; `None` if none will.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.state().next_expiry()
    }

    /// Waits until the store has reached `revision`.
    pub async fn wait_for_revision(&self, revision: Revision) {
        loop {
            // Created before the check, so that no commit in between is missed.
            let advanced = self.0.advanced.notified();
            if self.revision() >= revision {
                return;
            }
            advanced.await;
        }
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, StoreState> {
        self.0.state.read().expect(LOCK)
    }

    /// Determines the revision of a list and pins the history at it.
    pub(crate) fn pin_revision(
        &self,
        resource: &Arc<str>,
        at: Option<Revision>,
    ) -> Result<(Revision, HistoryPin<'_>), CompactedError> {
        let state = self.state();
        let revision = at.unwrap_or(state.revision()).min(state.revision());
        state.check_not_compacted(resource, revision)?;
        Ok((revision, self.0.pins.pin(revision)))
    }
}

impl BackendWriter {
    /// Packs these objects, and some of those that were loaded.
    fn pack(&mut self, at_rest: Vec<Arc<StoredObject>>) -> Vec<Arc<StoredObject>> {
        let loaded = self.to_pack.split_off(self.to_pack.len().saturating_sub(LOADED_PER_COMMIT));
        let objects = at_rest.iter().chain(&loaded);
        objects.filter_map(|object| self.packer.pack(object)).map(Arc::new).collect()
    }

    fn free_space(&mut self) -> Result<FreeSpace, BackendError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.backend.free_space().inspect_err(|failed| self.failed = Some(failed.clone()))
    }

    fn append(
        &mut self,
        records: &[LogRecord],
        is_current: &dyn Fn(&StoreKey, Revision) -> bool,
    ) -> Result<(), BackendError> {
        self.backend.commit(records, is_current).inspect_err(|failed| {
            if !matches!(failed, BackendError::Full(_)) {
                self.failed = Some(failed.clone());
            }
        })
    }
}
