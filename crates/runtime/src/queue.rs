//! Which key to work on next.

pub mod metrics; // metrics of queues

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use self::metrics::QueueCounts;
use crate::backoff::Backoff;

/// The longest delay. Delays come from users (`activeDeadlineSeconds` may be any number of seconds), and an instant
/// that far away cannot be represented. A key that is processed too early is only delayed again.
const MAX_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Keys in the order they were added, each at most once, never processed by two workers at a time. Cloning shares the
/// queue.
pub struct WorkQueue<K: Ord + Clone>(Arc<QueueInner<K>>);

/// The result of processing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkResult {
    /// Nothing to do until the key is added again; its failures are forgotten.
    Done,
    /// Process it again after this long.
    RequeueAfter(Duration),
    /// Retry, with a longer delay after each failure.
    Failed,
}

struct QueueInner<K> {
    state: Mutex<QueueState<K>>,
    changed: Notify,
    backoff: Backoff,
    metrics: Option<QueueCounts>,
}

struct QueueState<K> {
    /// Keys a worker may take now, oldest first.
    ready: VecDeque<K>,
    /// Keys that were added and not yet taken, and since when: those in `ready`, and those that wait for `done`.
    dirty: BTreeMap<K, Instant>,
    /// Keys a worker has taken and not finished, and since when.
    processing: BTreeMap<K, Instant>,
    /// Keys to be added later. The number keeps keys of one instant in the order they were added.
    delayed: BTreeMap<(Instant, u64), K>,
    delayed_until: BTreeMap<K, (Instant, u64)>,
    sequence: u64,
    /// Failures in a row, for `add_with_backoff`.
    failures: BTreeMap<K, u32>,
}

impl<K: Ord + Clone> WorkQueue<K> {
    /// An empty queue; `backoff` is the delay of `add_with_backoff`.
    pub fn new(backoff: Backoff) -> WorkQueue<K> {
        WorkQueue::with(backoff, None)
    }

    /// The same, with metrics.
    pub fn with_metrics(backoff: Backoff, counts: QueueCounts) -> WorkQueue<K> {
        counts.depth(0);
        WorkQueue::with(backoff, Some(counts))
    }

    fn with(backoff: Backoff, counts: Option<QueueCounts>) -> WorkQueue<K> {
        let state = QueueState {
            ready: VecDeque::new(),
            dirty: BTreeMap::new(),
            processing: BTreeMap::new(),
            delayed: BTreeMap::new(),
            delayed_until: BTreeMap::new(),
            sequence: 0,
            failures: BTreeMap::new(),
        };
        WorkQueue(Arc::new(QueueInner { state: Mutex::new(state), changed: Notify::new(), backoff, metrics: counts }))
    }

    /// Adds `key`. A key that is already queued keeps its position. A key that is being processed is queued again when
    /// that is done.
    pub fn add(&self, key: K) {
        self.lock().add(key, Instant::now(), self.metrics());
        self.0.changed.notify_waiters();
    }

    /// Adds `key` after `delay`, at most a year. Of several delays for one key the earliest counts.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        self.lock().add_at(key, Instant::now() + delay.min(MAX_DELAY));
        self.0.changed.notify_waiters();
    }

    /// Adds `key` after a delay that grows with every call until [`WorkQueue::forget`].
    pub fn add_with_backoff(&self, key: K) {
        let failures = {
            let mut state = self.lock();
            let failures = state.failures.entry(key.clone()).or_insert(0);
            *failures = failures.saturating_add(1);
            *failures
        };
        if let Some(counts) = self.metrics() {
            counts.retried();
        }
        self.add_after(key, self.0.backoff.delay(failures));
    }

    /// Processing `key` succeeded: its backoff is reset.
    pub fn forget(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// How often in a row `key` was added with backoff.
    pub fn failures(&self, key: &K) -> u32 {
        self.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// Takes the next key, waiting for one. The caller must call [`WorkQueue::done`] with it. Cancel safe.
    pub async fn next(&self) -> K {
        loop {
            // Created before the check, so that a key added between the check and the await is not missed.
            let changed = self.0.changed.notified();
            let wake_at = {
                let mut state = self.lock();
                if let Some(key) = state.take(Instant::now(), self.metrics()) {
                    return key;
                }
                state.delayed.first_key_value().map(|((at, _), _)| *at)
            };
            match wake_at {
                None => changed.await,
                Some(at) => {
                    tokio::select! { biased;
                        () = changed => {}
                        () = sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// Processing `key` has ended, with or without success. If it was added meanwhile, it is queued again.
    pub fn done(&self, key: &K) {
        self.lock().done(key, self.metrics());
        self.0.changed.notify_waiters();
    }

    /// The number of keys that wait for a worker, without delayed ones.
    pub fn len(&self) -> usize {
        self.lock().ready.len()
    }

    /// Whether no key waits for a worker, without delayed ones.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Processes keys forever, up to `at_once` of them concurrently. The result decides when a key is processed again.
    pub async fn work<W: Future<Output = WorkResult>>(&self, max_concurrent: usize, work: impl Fn(K) -> W) {
        let work = &work;
        let keys = stream::unfold((), |()| async { Some((self.next().await, ())) });
        keys.for_each_concurrent(max_concurrent, |key| async move {
            match work(key.clone()).await {
                WorkResult::Done => self.forget(&key),
                WorkResult::RequeueAfter(wait) => self.add_after(key.clone(), wait),
                WorkResult::Failed => self.add_with_backoff(key.clone()),
            }
            self.done(&key);
        })
        .await;
    }

    fn metrics(&self) -> Option<&QueueCounts> {
        self.0.metrics.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> QueueState<K> {
    fn add(&mut self, key: K, now: Instant, counts: Option<&QueueCounts>) {
        if self.dirty.contains_key(&key) {
            return;
        }
        self.dirty.insert(key.clone(), now);
        if !self.processing.contains_key(&key) {
            self.ready.push_back(key);
        }
        if let Some(counts) = counts {
            counts.added();
            counts.depth(self.ready.len());
        }
    }

    fn add_at(&mut self, key: K, at: Instant) {
        if let Some(earlier) = self.delayed_until.get(&key) {
            if earlier.0 <= at {
                return;
            }
            self.delayed.remove(earlier);
        }
        let place = (at, self.sequence);
        self.sequence += 1;
        self.delayed_until.insert(key.clone(), place);
        self.delayed.insert(place, key);
    }

    fn take(&mut self, now: Instant, counts: Option<&QueueCounts>) -> Option<K> {
        while let Some(first) = self.delayed.first_entry()
            && first.key().0 <= now
        {
            let (due, _) = *first.key();
            let key = first.remove();
            self.delayed_until.remove(&key);
            self.add(key, due, counts);
        }
        let key = self.ready.pop_front()?;
        let since = self.dirty.remove(&key).unwrap_or(now);
        self.processing.insert(key.clone(), now);
        if let Some(counts) = counts {
            counts.taken(now.saturating_duration_since(since));
            counts.depth(self.ready.len());
        }
        Some(key)
    }

    fn done(&mut self, key: &K, counts: Option<&QueueCounts>) {
        let Some(since) = self.processing.remove(key) else { return };
        if self.dirty.contains_key(key) {
            self.ready.push_back(key.clone());
        }
        if let Some(counts) = counts {
            counts.done(since.elapsed());
            counts.depth(self.ready.len());
        }
    }
}

// Not derived: cloning shares the queue.
impl<K: Ord + Clone> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        WorkQueue(self.0.clone())
    }
}

impl<K: Ord + Clone> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        write!(
            f,
            "WorkQueue({} ready, {} taken, {} delayed)",
            state.ready.len(),
            state.processing.len(),
            state.delayed.len()
        )
    }
}
