//! One cache per kind, shared by all control loops of a process.
//!
//! The map has no list of kinds: control loops declare the kinds that they read, as [`CachedKind`] values, and a view
//! has the kind's registry value and its indexes.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use api::Revision;
use api::kinds::ApiResource;
use api::views::View;
use futures::FutureExt;
use futures::future::BoxFuture;
use runtime::{Cache, ListWatchConfig};

/// The caches of one process, by kind. Those that no control loop of the process reads stay empty. Clones share the
/// caches.
#[derive(Clone, Debug)]
pub struct Caches(Arc<BTreeMap<CachedKind, Box<dyn ErasedCache>>>);

impl Caches {
    /// Empty caches of `kinds`.
    pub(crate) fn new(kinds: &BTreeSet<CachedKind>) -> Caches {
        Caches(Arc::new(kinds.iter().map(|kind| (*kind, (kind.new_cache)())).collect()))
    }

    /// The cache of a kind. Panics if no control loop declares that it reads the kind: its objects would never be
    /// listed.
    pub fn get<V: View>(&self) -> &Cache<V> {
        let cache = self.0.iter().find(|(kind, _)| kind.resource == V::RESOURCE);
        cache.and_then(|(_, cache)| cache.as_any().downcast_ref()).unwrap_or_else(|| {
            let view = std::any::type_name::<V>();
            panic!("no cache of {}: no control loop has CachedKind::of::<{view}>() in `reads`", V::RESOURCE.plural)
        })
    }

    /// The highest `resourceVersion` among the objects of each kind; zero for a kind without objects.
    pub fn newest_revisions(&self) -> impl Iterator<Item = (&'static ApiResource, Revision)> {
        self.0.iter().map(|(kind, cache)| (kind.resource, cache.newest_revision()))
    }

    /// Returns once the cache of a kind has every write up to `revision`; at once if the kind has no cache.
    pub async fn wait_for_revision(&self, resource: &ApiResource, revision: Revision) {
        if let Some((_, cache)) = self.0.iter().find(|(kind, _)| kind.resource == resource) {
            cache.wait_for_revision(revision).await;
        }
    }

    /// The kinds, in the order in which their caches start.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = CachedKind> {
        self.0.keys().copied()
    }

    /// The cache of `kind`, whatever its view.
    pub(crate) fn erased(&self, kind: CachedKind) -> &dyn ErasedCache {
        self.0[&kind].as_ref()
    }
}

/// A kind with a cache: its registry value, and how its cache is made. Equal and ordered by group and kind.
#[derive(Clone, Copy)]
pub(crate) struct CachedKind {
    resource: &'static ApiResource,
    new_cache: fn() -> Box<dyn ErasedCache>,
}

impl CachedKind {
    /// The kind of a view.
    pub const fn of<V: View>() -> CachedKind {
        CachedKind { resource: V::RESOURCE, new_cache: || Box::new(Cache::<V>::new(V::INDEXES)) }
    }

    /// Where the kind is served.
    pub fn resource(self) -> &'static ApiResource {
        self.resource
    }

    fn sort_key(self) -> (&'static str, &'static str) {
        (self.resource.group, self.resource.kind)
    }
}

impl PartialEq for CachedKind {
    fn eq(&self, other: &CachedKind) -> bool {
        self.sort_key() == other.sort_key()
    }
}

impl Eq for CachedKind {}

impl PartialOrd for CachedKind {
    fn partial_cmp(&self, other: &CachedKind) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CachedKind {
    fn cmp(&self, other: &CachedKind) -> Ordering {
        self.sort_key().cmp(&other.sort_key())
    }
}

impl fmt::Debug for CachedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CachedKind").field(&self.resource.plural).finish()
    }
}

/// What a process does with a cache of any kind.
pub(crate) trait ErasedCache: fmt::Debug + Send + Sync {
    /// The `Cache<V>`.
    fn as_any(&self) -> &dyn Any;

    /// Keeps the cache up to date.
    fn list_and_watch(&self, client: kube::Client, config: ListWatchConfig) -> BoxFuture<'static, ()>;

    /// Resolves when the cache has synced.
    fn wait_for_sync(&self) -> BoxFuture<'_, ()>;

    /// Resolves when the cache has every write up to `revision`.
    fn wait_for_revision(&self, revision: Revision) -> BoxFuture<'_, ()>;

    /// Makes the cache synced and empty: the server does not serve the kind.
    fn sync_empty(&self);

    /// The highest `resourceVersion` among the objects.
    fn newest_revision(&self) -> Revision;
}

impl<V: View> ErasedCache for Cache<V> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn list_and_watch(&self, client: kube::Client, config: ListWatchConfig) -> BoxFuture<'static, ()> {
        runtime::list_and_watch(client, self.clone(), config).boxed()
    }

    fn wait_for_sync(&self) -> BoxFuture<'_, ()> {
        Cache::wait_for_sync(self).boxed()
    }

    fn wait_for_revision(&self, revision: Revision) -> BoxFuture<'_, ()> {
        Cache::wait_for_revision(self, revision).boxed()
    }

    fn sync_empty(&self) {
        self.replace(Vec::new(), &BTreeSet::new(), Revision::ZERO);
    }

    fn newest_revision(&self) -> Revision {
        self.all().iter().map(|object| object.meta().resource_version).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use api::kinds;
    use api::views::{JobView, MetaView, NamespaceView, NodeView, PodView};

    use super::*;

    fn caches() -> Caches {
        Caches::new(&[CachedKind::of::<PodView>(), CachedKind::of::<NodeView>()].into())
    }

    fn node(name: &str, revision: u64) -> NodeView {
        let metadata = MetaView { name: name.to_owned(), resource_version: Revision(revision), ..MetaView::default() };
        NodeView { metadata, ..NodeView::default() }
    }

    #[test]
    fn a_view_selects_the_cache_of_its_kind() {
        let caches = caches();
        let nodes = vec![node("a", 7), node("b", 3)];
        caches.clone().get::<NodeView>().replace(nodes, &BTreeSet::new(), Revision(9));
        assert_eq!((caches.get::<NodeView>().len(), caches.get::<PodView>().len()), (2, 0), "clones share caches");
        let newest: Vec<(&ApiResource, Revision)> = caches.newest_revisions().collect();
        assert_eq!(newest, [(kinds::NODE, Revision(7)), (kinds::POD, Revision::ZERO)]);
    }

    #[test]
    fn a_cache_has_the_indexes_of_its_view() {
        let caches = caches();
        for index in PodView::INDEXES {
            assert_eq!(caches.get::<PodView>().count(index, "none"), 0, "{index:?}");
        }
    }

    #[test]
    fn the_cache_of_a_kind_that_is_not_served_is_synced_and_empty() {
        let caches = caches();
        caches.erased(CachedKind::of::<PodView>()).sync_empty();
        assert!(caches.get::<PodView>().is_synced() && caches.get::<PodView>().is_empty());
        assert!(!caches.get::<NodeView>().is_synced());
    }

    #[test]
    #[should_panic(expected = "no cache of jobs: no control loop has CachedKind::of::<")]
    fn a_kind_without_a_cache_is_an_error_that_names_it() {
        caches().get::<JobView>();
    }

    #[test]
    fn kinds_are_equal_and_ordered_by_group_and_kind() {
        let kinds: BTreeSet<CachedKind> = [
            CachedKind::of::<JobView>(),
            CachedKind::of::<PodView>(),
            CachedKind::of::<NamespaceView>(),
            CachedKind::of::<PodView>(),
        ]
        .into();
        let names: Vec<&str> = kinds.iter().map(|kind| kind.resource().plural).collect();
        assert_eq!(names, ["namespaces", "pods", "jobs"]);
    }
}
