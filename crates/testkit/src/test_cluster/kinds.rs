//! The kinds of objects in a test cluster. The list is the server's own, so a new kind needs no edit here.

use std::sync::{Arc, LazyLock};

use api::gates::Gates;
use api::{Random, Timestamp};
use apiserver::{ApiServer, Config, Resource};
use runtime::TokioClock;
use store::{Committer, HistoryLimits, Store};

/// Every kind that our server serves with its default gates, each once: a group that serves the objects of another
/// group is left out.
pub(super) fn all() -> &'static [Resource] {
    static KINDS: LazyLock<Vec<Resource>> = LazyLock::new(|| {
        let store = Store::in_memory(HistoryLimits::default());
        let server = ApiServer::new(Config {
            committer: Committer::in_place(store.clone()),
            store,
            clock: Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH)),
            random: Random::seeded(0),
            gates: Gates::default(),
        });
        stored(server.expect("an in-memory store accepts the initial objects").resources()).cloned().collect()
    });
    &KINDS
}

/// Those of `resources` whose objects are stored under the kind's own name.
pub(super) fn stored(resources: &[Resource]) -> impl Iterator<Item = &Resource> {
    resources.iter().filter(|resource| !resource.is_stored_elsewhere())
}

/// The path of all objects of the kind in one version, such as `/apis/batch/v1/jobs`.
pub(super) fn collection(resource: &Resource, version: &str) -> String {
    format!("{}/{}", root(resource, version), resource.plural)
}

/// The path of the kind's objects in a namespace, in the version in which they are stored; of a cluster-scoped kind the
/// path of all objects.
pub(super) fn collection_in(resource: &Resource, namespace: &str) -> String {
    let version = resource.storage_version;
    if !resource.namespaced {
        return collection(resource, version);
    }
    format!("{}/namespaces/{namespace}/{}", root(resource, version), resource.plural)
}

fn root(resource: &Resource, version: &str) -> String {
    if resource.group.is_empty() { format!("/api/{version}") } else { format!("/apis/{}/{version}", resource.group) }
}
