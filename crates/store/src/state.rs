//! The state in memory: for every key its current version and, within the history, older ones; for every resource the
//! log that watchers read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::Notify;
use types::views::ObjectKey;
use types::{Revision, Timestamp};

use crate::backend::LogRecord;
use crate::history::{EventHistory, HistoryLimits};
use crate::list::CompactedError;
use crate::object::{Op, StoreKey, StoredObject};
use crate::watch::StoreEvent;

pub(crate) struct StoreState {
    /// The revision of the last write.
    revision: Revision,
    /// The revision at open: logs of resources that were not written since reach back to here.
    opened: Revision,
    resources: BTreeMap<Arc<str>, ResourceState>,
    /// The current objects that expire, with their expiry.
    expiring: BTreeSet<(Timestamp, Arc<StoreKey>)>,
    history: EventHistory,
}

/// The state of one resource.
struct ResourceState {
    keys: BTreeMap<Arc<StoreKey>, Versions>,
    /// In order of revision.
    log: VecDeque<StoreEvent>,
    /// Lists and watches are exact from here on: the last revision that was compacted.
    oldest: Revision,
    /// Notified after the log has grown.
    appended: Arc<Notify>,
}

/// Versions of one key, oldest first, never empty. The last is the current one. A delete leaves its own version, which
/// is dropped when it is compacted.
enum Versions {
    /// The common case, without the memory of a queue.
    One((Op, Arc<StoredObject>)),
    /// At least two.
    More(VecDeque<(Op, Arc<StoredObject>)>),
}

/// What remains to be done after a commit.
pub(crate) struct PublishEffects {
    /// Notifiers of the changed resources, in order of their first events.
    pub to_notify: Vec<Arc<Notify>>,
    /// Objects that are current and have not changed for as long as the history reaches.
    pub to_pack: Vec<Arc<StoredObject>>,
}

/// A chunk of a list.
pub(crate) struct ListChunk {
    pub objects: Vec<Arc<StoredObject>>,
    /// The last key that was read, when there may be more.
    pub continue_after: Option<ObjectKey>,
}

impl StoreState {
    pub fn new(limits: HistoryLimits) -> StoreState {
        StoreState {
            revision: Revision::ZERO,
            opened: Revision::ZERO,
            resources: BTreeMap::new(),
            expiring: BTreeSet::new(),
            history: EventHistory::new(limits),
        }
    }

    /// Loads a record of an earlier process. Loaded records are not history: no client can have a cursor into them.
    /// Returns the version that the record replaces.
    pub fn load(&mut self, record: LogRecord) -> Option<Arc<StoredObject>> {
        let LogRecord { op, object, .. } = record;
        let keys = &mut self.resource_mut(&object.key.resource).keys;
        let replaced = match op {
            Op::Put => keys.insert(Arc::clone(&object.key), Versions::One((Op::Put, Arc::clone(&object)))),
            Op::Delete => keys.remove(&object.key),
        };
        let replaced = replaced.map(|versions| Arc::clone(&versions.current().1));
        self.update_expiry_index(op, &object, replaced.as_deref());
        replaced
    }

    /// Ends loading: history starts here. Returns the loaded objects.
    pub fn finish_loading(&mut self, revision: Revision) -> Vec<Arc<StoredObject>> {
        self.revision = revision;
        self.opened = revision;
        self.resources.values_mut().for_each(|resource| resource.oldest = revision);
        let versions = self.resources.values().flat_map(|resource| resource.keys.values());
        versions.map(|versions| Arc::clone(&versions.current().1)).collect()
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn get(&self, key: &StoreKey) -> Option<&Arc<StoredObject>> {
        self.resources.get(&key.resource)?.keys.get(key)?.at(self.revision)
    }

    /// Applies a commit and compacts what exceeds the limits, but nothing after `pinned`.
    pub fn publish(&mut self, events: Vec<StoreEvent>, now: Timestamp, pinned: Option<Revision>) -> PublishEffects {
        let mut to_notify: Vec<Arc<Notify>> = Vec::new();
        for event in events {
            debug_assert_eq!(event.object.revision, self.revision.next(), "revisions have no gaps");
            self.revision = event.object.revision;
            self.history.record(&event, now);
            self.update_expiry_index(event.op, &event.object, event.previous.as_deref());
            let resource = self.resource_mut(&event.object.key.resource);
            let version = (event.op, Arc::clone(&event.object));
            match resource.keys.get_mut(&event.object.key) {
                Some(versions) => versions.push(version),
                None => drop(resource.keys.insert(Arc::clone(&event.object.key), Versions::One(version))),
            }
            resource.log.push_back(event);
            if !to_notify.iter().any(|notifier| Arc::ptr_eq(notifier, &resource.appended)) {
                to_notify.push(Arc::clone(&resource.appended));
            }
        }
        let mut at_rest = Vec::new();
        while let Some((key, revision)) = self.history.compact_oldest(now, pinned) {
            let resource = self.resources.get_mut(&key.resource).expect("an event's resource is known");
            at_rest.extend(resource.compact(&key, revision));
        }
        PublishEffects { to_notify, to_pack: at_rest }
    }

    /// Replaces the same version of the object by its packed form.
    pub fn replace_packed(&mut self, object: Arc<StoredObject>) {
        let resource = self.resources.get_mut(&object.key.resource);
        let versions = resource.and_then(|resource| resource.keys.get_mut(&object.key));
        if let Some(Versions::One((Op::Put, current))) = versions
            && current.revision == object.revision
        {
            *current = object;
        }
    }

    /// Up to `count` current objects that have expired at `now`, longest ago first.
    pub fn expired(&self, now: Timestamp, count: usize) -> Vec<Arc<StoredObject>> {
        let due = self.expiring.iter().take_while(|(at, _)| *at <= now).take(count);
        due.filter_map(|(_, key)| self.get(key).cloned()).collect()
    }

    /// When the next object expires.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.expiring.first().map(|(at, _)| *at)
    }

    fn update_expiry_index(&mut self, op: Op, object: &StoredObject, replaced: Option<&StoredObject>) {
        if let Some(before) = replaced.and_then(|replaced| replaced.meta.expires) {
            self.expiring.remove(&(before, Arc::clone(&object.key)));
        }
        if let Some(at) = object.meta.expires.filter(|_| op == Op::Put) {
            self.expiring.insert((at, Arc::clone(&object.key)));
        }
    }

    /// Up to `count` objects of `resource` at revision `at`, which must be within the history.
    pub fn list_chunk(
        &self,
        resource: &Arc<str>,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
        at: Revision,
        count: usize,
    ) -> ListChunk {
        let mut piece = ListChunk { objects: Vec::new(), continue_after: None };
        let Some(keys) = self.resources.get(resource).map(|resource| &resource.keys) else { return piece };
        let in_namespace = namespace.unwrap_or_default();
        let start = match after {
            // A cursor before the namespace starts at its beginning.
            Some(after) if after.namespace.as_str() >= in_namespace => {
                Bound::Excluded(StoreKey::new(resource, after.namespace.as_str(), after.name.as_str()))
            }
            _ => Bound::Included(StoreKey::new(resource, in_namespace, "")),
        };
        for (seen, (key, versions)) in keys.range((start, Bound::Unbounded)).enumerate() {
            if namespace.is_some_and(|namespace| key.namespace != namespace) {
                break;
            }
            piece.objects.extend(versions.at(at).cloned());
            if seen + 1 == count {
                piece.continue_after = Some(key.object_key());
                break;
            }
        }
        piece
    }

    /// Whether lists and watches of `resource` can start at `revision`.
    pub fn check_not_compacted(&self, resource: &Arc<str>, revision: Revision) -> Result<(), CompactedError> {
        let oldest = self.resources.get(resource).map_or(self.opened, |resource| resource.oldest);
        if revision < oldest { Err(CompactedError { oldest }) } else { Ok(()) }
    }

    /// The events of `resource` after `revision`, oldest first, at most `count`.
    pub fn events(
        &self,
        resource: &Arc<str>,
        after: Revision,
        count: usize,
    ) -> Result<Vec<StoreEvent>, CompactedError> {
        self.check_not_compacted(resource, after)?;
        let Some(log) = self.resources.get(resource).map(|resource| &resource.log) else { return Ok(Vec::new()) };
        let start = log.partition_point(|event| event.object.revision <= after);
        Ok(log.range(start..).take(count).cloned().collect())
    }

    /// Whether `resource` has events after `revision`, including compacted ones.
    pub fn has_events(&self, resource: &Arc<str>, after: Revision) -> bool {
        self.resources.get(resource).is_some_and(|resource| {
            after < resource.oldest || resource.log.back().is_some_and(|event| after < event.object.revision)
        })
    }

    /// Notified when the log of `resource` grows.
    pub fn append_notifier(&mut self, resource: &Arc<str>) -> Arc<Notify> {
        Arc::clone(&self.resource_mut(resource).appended)
    }

    fn resource_mut(&mut self, name: &Arc<str>) -> &mut ResourceState {
        let oldest = self.opened;
        // Not `entry`: it would copy the name on every write.
        if !self.resources.contains_key(name) {
            let resource =
                ResourceState { keys: BTreeMap::new(), log: VecDeque::new(), oldest, appended: Arc::default() };
            self.resources.insert(Arc::clone(name), resource);
        }
        self.resources.get_mut(name).expect("inserted when it was missing")
    }
}

impl ResourceState {
    /// Drops the event of `revision`, which is the oldest, and the versions that ended with it. Returns the object if
    /// it has not changed since that event.
    fn compact(&mut self, key: &StoreKey, revision: Revision) -> Option<Arc<StoredObject>> {
        let event = self.log.pop_front().expect("an event is in the log until it is compacted");
        debug_assert_eq!(event.object.revision, revision, "events are compacted in order");
        self.oldest = revision;
        let versions = self.keys.get_mut(key).expect("a key has versions while its events are in the log");
        versions.compact(revision);
        if matches!(versions, Versions::One((Op::Delete, _))) {
            self.keys.remove(key);
            return None;
        }
        Some(event.object).filter(|object| versions.current().1.revision == object.revision)
    }
}

impl Versions {
    fn current(&self) -> &(Op, Arc<StoredObject>) {
        match self {
            Versions::One(version) => version,
            Versions::More(versions) => versions.back().expect("there are at least two"),
        }
    }

    fn push(&mut self, version: (Op, Arc<StoredObject>)) {
        match self {
            Versions::One(first) => *self = Versions::More(VecDeque::from([first.clone(), version])),
            Versions::More(versions) => versions.push_back(version),
        }
    }

    /// Drops versions that were replaced at `revision` or before.
    fn compact(&mut self, revision: Revision) {
        let Versions::More(versions) = self else { return };
        while versions.get(1).is_some_and(|(_, next)| next.revision <= revision) {
            versions.pop_front();
        }
        if versions.len() == 1 {
            *self = Versions::One(self.current().clone());
        }
    }

    /// The object at `revision`; `None` before its creation and while it is deleted.
    fn at(&self, revision: Revision) -> Option<&Arc<StoredObject>> {
        let (op, object) = match self.current() {
            current if current.1.revision <= revision => current,
            _ => {
                let Versions::More(versions) = self else { return None };
                let later = versions.partition_point(|(_, object)| object.revision <= revision);
                versions.get(later.checked_sub(1)?)?
            }
        };
        (*op == Op::Put).then_some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::StoredMeta;
    use crate::packing::DocumentBytes;

    impl Versions {
        fn count(&self) -> usize {
            match self {
                Versions::One(_) => 1,
                Versions::More(versions) => versions.len(),
            }
        }
    }

    #[test]
    fn compacted_versions_take_no_memory() {
        let pods: Arc<str> = Arc::from("pods");
        let mut state = StoreState::new(HistoryLimits { max_history_bytes: 0, ..HistoryLimits::default() });
        let version = |revision, op| {
            let (key, bytes) = (Arc::new(StoreKey::new(&pods, "a", "b")), bytes::Bytes::from_static(b"{}"));
            let (created, revision) = (Revision(1), Revision(revision));
            let object = Arc::new(StoredObject {
                key,
                document: DocumentBytes::Plain(bytes),
                meta: StoredMeta::default(),
                created,
                revision,
            });
            vec![StoreEvent { op, object, previous: None }]
        };
        let stored = |state: &StoreState| {
            let resource = &state.resources[&pods];
            (resource.log.len(), resource.keys.values().map(Versions::count).collect::<Vec<_>>())
        };
        state.publish(version(1, Op::Put), Timestamp::UNIX_EPOCH, None);
        state.publish(version(2, Op::Put), Timestamp::UNIX_EPOCH, None);
        assert_eq!(stored(&state), (0, vec![1]), "the current version stays");
        state.publish(version(3, Op::Delete), Timestamp::UNIX_EPOCH, Some(Revision(2)));
        assert_eq!(stored(&state), (1, vec![2]), "a list at revision 2 is running");
        state.publish(version(4, Op::Put), Timestamp::UNIX_EPOCH, None);
        state.publish(version(5, Op::Delete), Timestamp::UNIX_EPOCH, None);
        assert_eq!(stored(&state), (0, vec![]), "a delete leaves nothing");
    }
}
