//! The store as others hold it.

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
    /// Whoever holds this is the only one to change the state, so what it judged stays true while it waits for the disk
    /// and others read. Locked before the state.
    writer: Mutex<BackendWriter>,
    state: RwLock<StoreState>,
    /// Locked last, and only for a moment.
    pins: HistoryPins,
    /// Told after every commit.
    advanced: Notify,
}

struct BackendWriter {
    backend: Box<dyn Backend>,
    packer: Packer,
    /// Objects as they were loaded, which get their turn to be packed with the commits: not at the start, which is waited
    /// for.
    to_pack: Vec<Arc<StoredObject>>,
    /// Set once the backend failed, and for good.
    failed: Option<BackendError>,
}

/// How many loaded objects are packed with each commit: enough that all get their turn, and not so many that a write would
/// wait for them.
const LOADED_PER_COMMIT: usize = 16;

const LOCK: &str = "nothing panics while it holds the store";

impl Store {
    /// A store that ends with the process.
    pub fn in_memory(limits: HistoryLimits) -> Store {
        Store::open(Box::new(MemoryBackend), limits).expect("memory has nothing to read")
    }

    /// A store with what `backend` has kept. History begins anew: watches and lists from before are gone.
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

    /// Judges every write against the state and the writes before it in `batch`, keeps the accepted ones in one go,
    /// then shows them to readers and watchers. Answers are in the order of the writes.
    ///
    /// Where the backend has no room, nothing is kept and every write of the batch is [`Refused::Full`]. An error means
    /// that nothing was shown, that it is unknown what was kept, and that no later write will be taken.
    pub fn commit(
        &self,
        batch: Vec<ObjectWrite>,
        now: Timestamp,
    ) -> Result<Vec<Result<Arc<StoredObject>, WriteRefusal>>, BackendError> {
        let mut writer = self.0.writer.lock().expect(LOCK);
        let room = writer.free_space()?;
        let judged = commit::validate_batch(&self.state(), batch, room);
        if judged.events.is_empty() {
            return Ok(judged.results);
        }
        let record = |event: &StoreEvent| {
            let StoreEvent { op, object, previous } = event.clone();
            LogRecord { op, object, previous }
        };
        let records: Vec<LogRecord> = judged.events.iter().map(record).collect();
        let is_current =
            |key: &StoreKey, revision| self.state().get(key).is_some_and(|current| current.revision == revision);
        match writer.append(&records, &is_current) {
            Ok(()) => {}
            Err(BackendError::Full(room)) => return Ok(commit::refuse_batch(judged.results, self.revision(), room)),
            Err(error) => return Err(error),
        }
        let mut state = self.0.state.write().expect(LOCK);
        let published = state.publish(judged.events, now, self.0.pins.lowest());
        drop(state);
        published.to_notify.iter().for_each(|grown| grown.notify_waiters());
        self.0.advanced.notify_waiters();
        let packed = writer.pack(published.to_pack);
        let mut state = self.0.state.write().expect(LOCK);
        packed.into_iter().for_each(|object| state.replace_packed(object));
        Ok(judged.results)
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
        let grown = state.append_notifier(resource);
        Ok(Watcher::new(self.clone(), Arc::clone(resource), after, grown))
    }

    /// Up to `count` objects whose time is over at `now`, longest ago first. They stay until somebody deletes them.
    pub fn expired(&self, now: Timestamp, count: usize) -> Vec<Arc<StoredObject>> {
        self.state().expired(now, count)
    }

    /// When the next object expires, or the first of those that have; `None` while none ever will.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.state().next_expiry()
    }

    /// Waits until the store has come to `revision`.
    pub async fn wait_for_revision(&self, revision: Revision) {
        loop {
            // Made before the look, so that no advance is slept through.
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

    /// Settles the revision of a list and keeps the history from moving past it.
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
    /// These objects in less room, and a few of those that were loaded.
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
