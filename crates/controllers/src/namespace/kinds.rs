//! The namespaced kinds of the server, by discovery.

use std::collections::BTreeSet;

use kube::Client;
use runtime::discovery::{ApiGroup, ApiGroupList, ApiResource, ApiResourceList, get_document};

/// A namespaced kind whose objects can be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacedKind {
    /// API group; empty for the core group.
    pub group: String,
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    pub root: String,
    /// Plural, as in the path.
    pub plural: String,
    /// Whether all of them in a namespace can be deleted by one request.
    pub deletes_collections: bool,
}

impl NamespacedKind {
    /// Whether these are pods.
    pub fn is_pods(&self) -> bool {
        self.group.is_empty() && self.plural == "pods"
    }

    /// The path of all of them in `namespace`.
    pub fn path(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.root, self.plural)
    }
}

/// The discovered kinds, and the errors of discovery.
#[derive(Debug, Default)]
pub struct NamespacedKinds {
    /// In the order of discovery.
    pub kinds: Vec<NamespacedKind>,
    /// One text per group version that could not be read.
    pub failures: Vec<String>,
}

/// Discovers the kinds of the server. Each is listed once, in the preferred version of its group if that has it.
pub async fn discover(client: &Client) -> NamespacedKinds {
    let mut kinds = NamespacedKinds::default();
    let mut seen = BTreeSet::new();
    kinds.read_version(client, "", "/api/v1", &mut seen).await;
    let groups: ApiGroupList = match get_document(client, "/apis").await {
        Ok(groups) => groups,
        Err(error) => {
            kinds.failures.push(format!("/apis: {error}"));
            return kinds;
        }
    };
    for ApiGroup { name, versions, preferred_version } in groups.groups {
        let others = versions.into_iter().filter(|version| *version != preferred_version);
        for version in std::iter::once(preferred_version.clone()).chain(others) {
            kinds.read_version(client, &name, &format!("/apis/{}", version.group_version), &mut seen).await;
        }
    }
    kinds
}

impl NamespacedKinds {
    async fn read_version(&mut self, client: &Client, group: &str, root: &str, seen: &mut BTreeSet<(String, String)>) {
        let found: ApiResourceList = match get_document(client, root).await {
            Ok(found) => found,
            Err(error) => return self.failures.push(format!("{root}: {error}")),
        };
        for ApiResource { name, namespaced, verbs, .. } in found.resources {
            let can = |verb: &str| verbs.iter().any(|known| known == verb);
            let is_deletable = namespaced && !name.contains('/') && can("list") && can("delete");
            if is_deletable && seen.insert((group.to_owned(), name.clone())) {
                let deletes_collections = can("deletecollection");
                self.kinds.push(NamespacedKind {
                    group: group.to_owned(),
                    root: root.to_owned(),
                    plural: name,
                    deletes_collections,
                });
            }
        }
    }
}
