//! The shared cache of one kind, and cursors into its changes.
//!
//! One watch per kind and process keeps the cache up to date (`list_watch`). All components of the process read the same
//! `Arc`s, and each follows the changes through its own cursor. The change log is one queue, cut to the slowest cursor.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use types::Revision;
use types::views::{Index, ObjectKey, View};

/// Every object of one kind, in key order, with indexes and a log of changes. Cloning shares the cache.
pub struct Cache<V: View>(Arc<CacheInner<V>>);

struct CacheInner<V: View> {
    state: Mutex<CacheState<V>>,
    /// Wakes all tasks that wait for a change, a revision or the first list.
    changed: Notify,
}

struct CacheState<V: View> {
    objects: BTreeMap<Arc<ObjectKey>, Arc<V>>,
    indexes: Vec<CacheIndex<V>>,
    /// The highest revision of any object, bookmark or list: every write up to it is in the cache.
    revision: Revision,
    /// Whether a first list has been applied.
    synced: bool,
    /// How often the cache was reported to be wrong, and how many of these reports a later list has resolved.
    invalidations: u64,
    revalidations: u64,
    /// Changes that some cursor has not read yet; the first one has position `log_start`.
    log: VecDeque<CacheChange<V>>,
    log_start: u64,
    /// Positions of live cursors, by cursor id.
    cursors: BTreeMap<u64, u64>,
    next_cursor: u64,
}

struct CacheIndex<V> {
    index: Index<V>,
    /// By index value; an entry without objects is removed.
    entries: BTreeMap<Box<str>, IndexBucket<V>>,
}

/// The objects under one value, in key order; at least one.
enum IndexBucket<V> {
    /// Most values have a single object: no further allocation.
    One(Arc<ObjectKey>, Arc<V>),
    /// At least two.
    Many(BTreeMap<Arc<ObjectKey>, Arc<V>>),
}

/// One object before and after. Created: `old` is `None`; deleted: `new` is `None`. Both always have the same uid: an
/// object that was deleted and created again between two events is reported as two changes.
#[derive(Debug)]
pub struct CacheChange<V> {
    /// The previous state in the cache.
    pub old: Option<Arc<V>>,
    /// The new state in the cache.
    pub new: Option<Arc<V>>,
}

impl<V> CacheChange<V> {
    /// The latest state: the new one, or for a deletion the old one.
    pub fn latest(&self) -> &Arc<V> {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has an old or a new state")
    }
}

// Not derived: a change is two pointers, cloneable for every view.
impl<V> Clone for CacheChange<V> {
    fn clone(&self) -> Self {
        CacheChange { old: self.old.clone(), new: self.new.clone() }
    }
}

/// One event of a watch, decoded.
#[derive(Debug)]
pub enum CacheEvent<V> {
    /// The object was created or changed.
    Put(V),
    /// The object was deleted.
    Deleted(ObjectKey),
}

impl<V: View> Cache<V> {
    /// An empty cache with these indexes.
    pub fn new(indexes: &[Index<V>]) -> Cache<V> {
        let indexes = indexes.iter().map(|index| CacheIndex { index: *index, entries: BTreeMap::new() }).collect();
        let state = CacheState {
            objects: BTreeMap::new(),
            indexes,
            revision: Revision::ZERO,
            synced: false,
            invalidations: 0,
            revalidations: 0,
            log: VecDeque::new(),
            log_start: 0,
            cursors: BTreeMap::new(),
            next_cursor: 0,
        };
        Cache(Arc::new(CacheInner { state: Mutex::new(state), changed: Notify::new() }))
    }

    /// The object at `key`.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.lock().objects.get(key).cloned()
    }

    /// Every object, in key order.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.lock().objects.values().cloned().collect()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.lock().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().objects.is_empty()
    }

    /// The objects with `value`, in key order. The cache must have been created with `index`.
    pub fn by_index(&self, index: &Index<V>, value: &str) -> Vec<Arc<V>> {
        match self.lock().bucket(index, value) {
            None => Vec::new(),
            Some(IndexBucket::One(_, object)) => vec![object.clone()],
            Some(IndexBucket::Many(objects)) => objects.values().cloned().collect(),
        }
    }

    /// The number of objects with `value`. The cache must have been created with `index`.
    pub fn count(&self, index: &Index<V>, value: &str) -> usize {
        match self.lock().bucket(index, value) {
            None => 0,
            Some(IndexBucket::One(..)) => 1,
            Some(IndexBucket::Many(objects)) => objects.len(),
        }
    }

    /// The highest revision: every write to this kind up to it is in the cache.
    pub fn revision(&self) -> Revision {
        self.lock().revision
    }

    /// Whether a first list has been applied.
    pub fn is_synced(&self) -> bool {
        self.lock().synced
    }

    /// Returns once a first list has been applied.
    pub async fn wait_for_sync(&self) {
        self.wait_until(|state| state.synced).await;
    }

    /// Returns once every write up to `revision` is in the cache, such as the caller's own write.
    pub async fn wait_for_revision(&self, revision: Revision) {
        self.wait_until(|state| state.revision >= revision).await;
    }

    /// Returns once every write up to `revision` is in the cache, or `holds` returns true. A revision is one number for
    /// all kinds. When nothing of this kind is written, only a bookmark advances it, which may take a minute.
    pub async fn wait_for_revision_or(&self, revision: Revision, holds: impl Fn() -> bool) {
        loop {
            // Created before the check, so that a change between the check and the await is not missed.
            let changed = self.0.changed.notified();
            if holds() || self.lock().revision >= revision {
                return;
            }
            changed.await;
        }
    }

    /// Reports that the cache is wrong although its revision is high enough, and returns once a list that was read
    /// after this call has been applied. An event was lost, which a correct server never does; waiting would not bring
    /// it back.
    pub async fn relist(&self) {
        let mine = {
            let mut state = self.lock();
            state.invalidations += 1;
            state.invalidations
        };
        tracing::warn!("the cache of {} lacks an object of the server: listing again", V::RESOURCE.plural);
        self.0.changed.notify_waiters();
        self.wait_until(|state| state.revalidations >= mine).await;
    }

    /// How often the cache was reported to be wrong: a list that begins now resolves that many reports.
    pub(crate) fn invalidations(&self) -> u64 {
        self.lock().invalidations
    }

    /// Returns once the cache was reported to be wrong and no list has resolved it.
    pub(crate) async fn wait_until_invalidated(&self) {
        self.wait_until(|state| state.invalidations > state.revalidations).await;
    }

    /// A list that began after this many reports has been applied.
    pub(crate) fn mark_revalidated(&self, doubts: u64) {
        let mut state = self.lock();
        state.revalidations = state.revalidations.max(doubts);
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// A cursor that first returns every object as a created one, then every later change.
    pub fn subscribe(&self) -> Cursor<V> {
        let mut state = self.lock();
        let id = state.next_cursor;
        state.next_cursor += 1;
        let end = state.log_end();
        state.cursors.insert(id, end);
        let initial = state.objects.values().cloned().collect::<Vec<_>>().into_iter();
        Cursor { cache: Cache(self.0.clone()), id, initial }
    }

    /// Applies events of a watch, in order, and moves the revision to at least `revision`. An event that is older than
    /// the cached object changes nothing.
    pub fn apply_events(&self, events: impl IntoIterator<Item = CacheEvent<V>>, revision: Revision) {
        let mut state = self.lock();
        for event in events {
            match event {
                CacheEvent::Put(object) if state.has_newer_version(&object) => {}
                CacheEvent::Put(object) => state.put(object),
                CacheEvent::Deleted(key) => state.remove(&key),
            }
        }
        state.revision = state.revision.max(revision);
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Applies a whole list read at `revision`: objects that are neither in it nor in `unread` are removed. `unread`
    /// has the objects of the list that could not be decoded; their last known state stays.
    pub fn replace(&self, objects: Vec<V>, unread: &BTreeSet<ObjectKey>, revision: Revision) {
        let mut state = self.lock();
        // The first list removes nothing, and it is the long one for which all components wait.
        let is_first = state.objects.is_empty();
        if !is_first {
            let listed: BTreeSet<ObjectKey> = objects.iter().map(|object| object.meta().key()).collect();
            let cached = state.objects.keys();
            let removed = cached.filter(|key| !listed.contains(&***key) && !unread.contains(&***key));
            for key in removed.cloned().collect::<Vec<_>>() {
                state.remove(&key);
            }
        }
        for object in objects {
            if is_first || !state.has_same_version(&object) {
                state.put(object);
            }
        }
        state.revision = state.revision.max(revision);
        state.synced = true;
        drop(state);
        self.0.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, CacheState<V>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_until(&self, holds: impl Fn(&CacheState<V>) -> bool) {
        loop {
            // Created before the check, so that a change between the check and the await is not missed.
            let changed = self.0.changed.notified();
            if holds(&self.lock()) {
                return;
            }
            changed.await;
        }
    }
}

impl<V: View> CacheState<V> {
    fn bucket(&self, index: &Index<V>, value: &str) -> Option<&IndexBucket<V>> {
        let Some(indexed) = self.indexes.iter().find(|indexed| indexed.index.name == index.name) else {
            panic!("the cache of {} was created without index {}", V::RESOURCE.plural, index.name)
        };
        indexed.entries.get(value)
    }

    fn log_end(&self) -> u64 {
        self.log_start + self.log.len() as u64
    }

    fn has_same_version(&self, object: &V) -> bool {
        let meta = object.meta();
        self.objects.get(&meta.key()).is_some_and(|cached| {
            cached.meta().uid == meta.uid && cached.meta().resource_version == meta.resource_version
        })
    }

    fn has_newer_version(&self, object: &V) -> bool {
        let meta = object.meta();
        self.objects.get(&meta.key()).is_some_and(|cached| {
            cached.meta().uid == meta.uid && cached.meta().resource_version > meta.resource_version
        })
    }

    fn put(&mut self, object: V) {
        self.revision = self.revision.max(object.meta().resource_version);
        let (key, new) = (object.meta().key(), Arc::new(object));
        if self.objects.get(&key).is_some_and(|cached| cached.meta().uid != new.meta().uid) {
            self.remove(&key);
        }
        let (key, old) = match self.objects.get_key_value(&key) {
            Some((key, old)) => (key.clone(), Some(old.clone())),
            None => (Arc::new(key), None),
        };
        for indexed in &mut self.indexes {
            indexed.update(&key, old.as_deref(), Some(&new));
        }
        self.objects.insert(key, new.clone());
        self.append(CacheChange { old, new: Some(new) });
    }

    fn remove(&mut self, key: &ObjectKey) {
        let Some((key, old)) = self.objects.remove_entry(key) else { return };
        for indexed in &mut self.indexes {
            indexed.update(&key, Some(&old), None);
        }
        self.append(CacheChange { old: Some(old), new: None });
    }

    fn append(&mut self, change: CacheChange<V>) {
        if !self.cursors.is_empty() {
            self.log.push_back(change);
        }
    }

    /// The next change for cursor `id`, which then counts as read.
    fn advance(&mut self, id: u64) -> Option<CacheChange<V>> {
        let position = *self.cursors.get(&id).expect("a live cursor is registered");
        let change = self.log.get(usize::try_from(position - self.log_start).ok()?)?.clone();
        self.cursors.insert(id, position + 1);
        // Only the slowest cursor keeps the log from being trimmed.
        if position == self.log_start {
            self.trim();
        }
        Some(change)
    }

    fn trim(&mut self) {
        let slowest = self.cursors.values().min().copied().unwrap_or_else(|| self.log_end());
        while self.log_start < slowest {
            self.log.pop_front();
            self.log_start += 1;
        }
    }
}

impl<V> CacheIndex<V> {
    fn update(&mut self, key: &Arc<ObjectKey>, old: Option<&V>, new: Option<&Arc<V>>) {
        let values = new.map(|new| (self.index.values)(new)).unwrap_or_default();
        for value in old.map(|old| (self.index.values)(old)).unwrap_or_default() {
            if values.contains(&value) {
                continue;
            }
            if self.entries.get_mut(&*value).is_some_and(|found| found.remove(key)) {
                self.entries.remove(&*value);
            }
        }
        let Some(new) = new else { return };
        for value in values {
            match self.entries.get_mut(&*value) {
                Some(found) => found.put(key, new),
                None => drop(self.entries.insert(value.into(), IndexBucket::One(key.clone(), new.clone()))),
            }
        }
    }
}

impl<V> IndexBucket<V> {
    fn put(&mut self, key: &Arc<ObjectKey>, object: &Arc<V>) {
        let new = (key.clone(), object.clone());
        match self {
            IndexBucket::One(cached, old) if *cached == new.0 => *old = new.1,
            IndexBucket::One(cached, other) => *self = IndexBucket::Many([(cached.clone(), other.clone()), new].into()),
            IndexBucket::Many(objects) => drop(objects.insert(new.0, new.1)),
        }
    }

    /// Removes the object at `key`; returns whether none is left.
    fn remove(&mut self, key: &ObjectKey) -> bool {
        match self {
            IndexBucket::One(cached, _) => **cached == *key,
            IndexBucket::Many(objects) => {
                objects.remove(key);
                if objects.len() == 1
                    && let Some((last, object)) = objects.pop_first()
                {
                    *self = IndexBucket::One(last, object);
                }
                false
            }
        }
    }
}

// Not derived: cloning shares the cache, for every view.
impl<V: View> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Cache(self.0.clone())
    }
}

impl<V: View> fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let (plural, count, revision) = (V::RESOURCE.plural, state.objects.len(), state.revision);
        write!(f, "Cache({plural}: {count} objects at {revision})")
    }
}

/// A reader's position in the changes of one cache. While it exists, the log keeps the changes that it has not read; a
/// cursor that is no longer read must be dropped.
#[derive(Debug)]
pub struct Cursor<V: View> {
    cache: Cache<V>,
    id: u64,
    /// The objects of the cache when the cursor was created.
    initial: std::vec::IntoIter<Arc<V>>,
}

impl<V: View> Cursor<V> {
    /// The next change, waiting for one. Cancel safe: a change is read when this returns, not before.
    pub async fn next(&mut self) -> CacheChange<V> {
        loop {
            // Created before the check, so that a change between the check and the await is not missed.
            let shared = self.cache.0.clone();
            let changed = shared.changed.notified();
            if let Some(change) = self.try_next() {
                return change;
            }
            changed.await;
        }
    }

    /// The next change, if there is one now.
    pub fn try_next(&mut self) -> Option<CacheChange<V>> {
        if let Some(object) = self.initial.next() {
            return Some(CacheChange { old: None, new: Some(object) });
        }
        self.cache.lock().advance(self.id)
    }

    /// Returns once [`Cursor::try_next`] has something to return. Cancel safe.
    pub async fn wait_until_ready(&self) {
        if self.initial.as_slice().is_empty() {
            self.cache.wait_until(|state| state.cursors.get(&self.id).is_some_and(|at| *at < state.log_end())).await;
        }
    }
}

impl<V: View> Drop for Cursor<V> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        state.cursors.remove(&self.id);
        state.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::views::{MetaView, PodSpecView, PodView};

    fn pod(name: &str, node: &str, revision: u64) -> PodView {
        let metadata = MetaView {
            namespace: "ns".into(),
            name: name.into(),
            uid: format!("uid-{name}"),
            resource_version: Revision(revision),
            ..MetaView::default()
        };
        let spec = PodSpecView { node_name: node.into(), ..PodSpecView::default() };
        PodView { metadata, spec, ..PodView::default() }
    }

    /// `+name` created, `~name` changed, `-name` deleted.
    fn drain(cursor: &mut Cursor<PodView>) -> String {
        let mut out = Vec::new();
        while let Some(change) = cursor.try_next() {
            let mark = match (&change.old, &change.new) {
                (None, _) => '+',
                (Some(_), Some(_)) => '~',
                (_, None) => '-',
            };
            out.push(format!("{mark}{}", change.latest().metadata.name));
        }
        out.join(" ")
    }

    fn names(pods: &[Arc<PodView>]) -> Vec<&str> {
        pods.iter().map(|pod| pod.metadata.name.as_str()).collect()
    }

    #[test]
    fn a_cursor_returns_the_existing_objects_and_then_every_change() {
        let cache = Cache::new(&[]);
        cache.replace(vec![pod("b", "", 2), pod("a", "", 1)], &BTreeSet::new(), Revision(3));
        let mut cursor = cache.subscribe();
        cache.apply_events(
            [CacheEvent::Put(pod("a", "n1", 4)), CacheEvent::Deleted(ObjectKey::new("ns", "b"))],
            Revision(5),
        );
        assert_eq!(drain(&mut cursor), "+a +b ~a -b");
        assert_eq!(drain(&mut cursor), "");
        assert_eq!(cache.revision(), Revision(5));
    }

    #[test]
    fn an_outdated_event_changes_nothing() {
        let cache = Cache::new(&[]);
        cache.apply_events([CacheEvent::Put(pod("a", "n1", 4)), CacheEvent::Put(pod("a", "", 3))], Revision(4));
        let cached = cache.get(&ObjectKey::new("ns", "a")).expect("it is there");
        assert_eq!(cached.spec.node_name, "n1");
        // A restored server has older revisions, but its list still applies.
        cache.replace(vec![pod("a", "", 2)], &BTreeSet::new(), Revision(2));
        let cached = cache.get(&ObjectKey::new("ns", "a")).expect("it is there");
        assert_eq!(cached.spec.node_name, "");
    }

    #[test]
    fn a_relist_reports_only_differences() {
        let cache = Cache::new(&[]);
        let mut cursor = cache.subscribe();
        let first = vec![pod("a", "", 1), pod("b", "", 2), pod("c", "", 3), pod("d", "", 4)];
        cache.replace(first, &BTreeSet::new(), Revision(4));
        drain(&mut cursor);
        let mut reborn = pod("c", "", 9);
        reborn.metadata.uid = "another".into();
        let unread = BTreeSet::from([ObjectKey::new("ns", "d")]);
        cache.replace(vec![pod("b", "", 8), reborn, pod("a", "", 1)], &unread, Revision(9));
        assert_eq!(drain(&mut cursor), "~b -c +c", "a is the same, d could not be decoded");
        cache.replace(vec![pod("b", "", 8)], &BTreeSet::new(), Revision(10));
        assert_eq!(drain(&mut cursor), "-a -c -d");
    }

    #[test]
    fn indexes_follow_their_objects() {
        let cache = Cache::new(&[PodView::BY_NODE]);
        cache.apply_events(["c", "a", "b"].map(|name| CacheEvent::Put(pod(name, "n1", 1))), Revision(1));
        cache.apply_events(
            [CacheEvent::Put(pod("a", "n2", 2)), CacheEvent::Deleted(ObjectKey::new("ns", "c"))],
            Revision(3),
        );
        cache.apply_events([CacheEvent::Put(pod("b", "n1", 4))], Revision(4));
        assert_eq!(names(&cache.by_index(&PodView::BY_NODE, "n2")), ["a"]);
        let on_n1 = cache.by_index(&PodView::BY_NODE, "n1");
        assert_eq!(names(&on_n1), ["b"]);
        assert_eq!(on_n1[0].metadata.resource_version, Revision(4), "the index shows the newest state");
    }

    #[test]
    fn the_log_keeps_only_changes_that_a_live_cursor_has_not_read() {
        let cache = Cache::new(&[]);
        let (mut fast, slow) = (cache.subscribe(), cache.subscribe());
        cache.apply_events((0..10).map(|n| CacheEvent::Put(pod(&format!("p{n}"), "", n + 1))), Revision(10));
        drain(&mut fast);
        assert_eq!(cache.lock().log.len(), 10, "the slow cursor keeps it");
        drop(slow);
        assert_eq!(cache.lock().log.len(), 0);
        cache.apply_events([CacheEvent::Put(pod("last", "", 11))], Revision(11));
        assert_eq!(drain(&mut fast), "+last");
        assert_eq!(cache.lock().log.len(), 0, "changes that all cursors have read are trimmed");
        drop(fast);
        cache.apply_events([CacheEvent::Put(pod("unread", "", 12))], Revision(12));
        assert_eq!(cache.lock().log.len(), 0, "without cursors nothing is logged");
    }
}
