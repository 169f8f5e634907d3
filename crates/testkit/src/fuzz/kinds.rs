//! A letter for every kind, so that an input can name one in its first byte, and an object of every kind.

use apiserver::{ApiServer, Resource};
use serde_json::Value;

/// The kinds by their plural and group.
const LETTERS: [(u8, &str); 13] = [
    (b'c', "priorityclasses.scheduling.k8s.io"),
    (b'd', "poddisruptionbudgets.policy"),
    (b'e', "events"),
    (b'g', "podgroups.scheduling.k8s.io"),
    (b'j', "jobs.batch"),
    (b'k', "cronjobs.batch"),
    (b'l', "leases.coordination.k8s.io"),
    (b'n', "nodes"),
    (b'o', "compositepodgroups.scheduling.k8s.io"),
    (b'p', "pods"),
    (b's', "namespaces"),
    (b'v', "events.events.k8s.io"),
    (b'w', "workloads.scheduling.k8s.io"),
];

/// An object of each kind, in the input format of the target `body`.
const OBJECTS: [&[u8]; 13] = [
    include_bytes!("../../../../fuzz/seeds/body/accepted-priorityclass"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-poddisruptionbudget"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-event"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-podgroup"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-job"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-cronjob"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-lease"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-node"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-compositepodgroup"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-pod"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-namespace"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-event-of-events-group"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-workload"),
];

/// The kind of a letter. Any other byte selects some kind as well, so that every mutation is a usable input.
pub(super) fn resource(server: &ApiServer, letter: u8) -> &Resource {
    let known = LETTERS.iter().find(|(known, _)| *known == letter);
    let (_, name) = known.unwrap_or(&LETTERS[usize::from(letter) % LETTERS.len()]);
    let resource = server.resources().iter().find(|resource| resource.qualified() == *name);
    resource.unwrap_or_else(|| panic!("{name} are no longer served: remove the letter from kinds.rs"))
}

/// The version of a digit, in the order in which the kind serves them.
pub(super) fn version(resource: &Resource, digit: u8) -> &'static str {
    let versions: Vec<&str> = resource.served_versions().collect();
    versions[usize::from(digit & 15) % versions.len()]
}

/// The path of the kind's collection; for namespaced kinds the one in `default`.
pub(super) fn collection(resource: &Resource, version: &str) -> String {
    let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let namespace = if resource.namespaced { "/namespaces/default" } else { "" };
    format!("{root}/{version}{namespace}/{}", resource.plural)
}

/// The kind's object: the head that the target `body` reads, and the body.
pub(super) fn object(resource: &Resource) -> ([u8; 3], &'static [u8]) {
    let letter = LETTERS.iter().find(|(_, name)| resource.qualified() == *name).map(|(letter, _)| *letter);
    let letter = letter.unwrap_or_else(|| panic!("{} need a letter in kinds.rs", resource.qualified()));
    let object = OBJECTS.iter().find(|object| object.first() == Some(&letter));
    let object = object.unwrap_or_else(|| panic!("{} need an object in kinds.rs", resource.qualified()));
    let (head, body) = object.split_first_chunk().expect("a seed of the target `body`");
    (*head, body)
}

/// A valid object of the kind, and the path of the collection in which it can be created.
pub fn sample_object(resource: &Resource) -> (String, Value) {
    let ([_, digit, _], body) = object(resource);
    let object = serde_json::from_slice(body).expect("the objects of kinds.rs are JSON");
    (collection(resource, version(resource, digit)), object)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LETTERS, object};
    use crate::fuzz::checked_server::CheckedServer;

    #[test]
    fn every_kind_has_a_letter_and_an_object() {
        let server = CheckedServer::new(store::HistoryLimits::default());
        let served: BTreeSet<String> = server.inner.resources().iter().map(|resource| resource.qualified()).collect();
        assert_eq!(LETTERS.iter().map(|(_, name)| (*name).to_owned()).collect::<BTreeSet<_>>(), served);
        assert_eq!(LETTERS.iter().map(|(letter, _)| *letter).collect::<BTreeSet<_>>().len(), LETTERS.len());
        for resource in server.inner.resources() {
            assert!(!object(resource).1.is_empty(), "{}", resource.qualified());
        }
    }
}
