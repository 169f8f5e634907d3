//! Which kinds live in namespaces, as the server tells.

use std::collections::BTreeSet;

use kube::Client;
use runtime::discovery::{Group, Groups, Resource, Resources, ask};

/// A kind whose objects live in namespaces and can be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    pub root: String,
    /// Plural, as in the path.
    pub plural: String,
    /// Whether all of them in a namespace can be deleted by one request.
    pub deletes_collections: bool,
}

impl Kind {
    /// Whether these are pods.
    pub fn is_pods(&self) -> bool {
        self.group.is_empty() && self.plural == "pods"
    }

    /// The path of all of them in `namespace`.
    pub fn path(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.root, self.plural)
    }
}

/// The kinds that could be found out, and why others could not.
#[derive(Debug, Default)]
pub struct Kinds {
    /// In the order in which the server tells of them.
    pub known: Vec<Kind>,
    /// One text per group version that could not be read.
    pub failures: Vec<String>,
}

/// Asks the server for its kinds. Each is taken once, in the version that its group prefers where that has it.
pub async fn discover(client: &Client) -> Kinds {
    let mut kinds = Kinds::default();
    let mut seen = BTreeSet::new();
    kinds.read(client, "", "/api/v1", &mut seen).await;
    let groups: Groups = match ask(client, "/apis").await {
        Ok(groups) => groups,
        Err(error) => {
            kinds.failures.push(format!("/apis: {error}"));
            return kinds;
        }
    };
    for Group { name, versions, preferred_version } in groups.groups {
        let others = versions.into_iter().filter(|version| *version != preferred_version);
        for version in std::iter::once(preferred_version.clone()).chain(others) {
            kinds.read(client, &name, &format!("/apis/{}", version.group_version), &mut seen).await;
        }
    }
    kinds
}

impl Kinds {
    async fn read(&mut self, client: &Client, group: &str, root: &str, seen: &mut BTreeSet<(String, String)>) {
        let found: Resources = match ask(client, root).await {
            Ok(found) => found,
            Err(error) => return self.failures.push(format!("{root}: {error}")),
        };
        for Resource { name, namespaced, verbs, .. } in found.resources {
            let can = |verb: &str| verbs.iter().any(|known| known == verb);
            let concerned = namespaced && !name.contains('/') && can("list") && can("delete");
            if concerned && seen.insert((group.to_owned(), name.clone())) {
                let deletes_collections = can("deletecollection");
                self.known.push(Kind {
                    group: group.to_owned(),
                    root: root.to_owned(),
                    plural: name,
                    deletes_collections,
                });
            }
        }
    }
}
