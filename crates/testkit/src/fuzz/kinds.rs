//! A letter for every kind, so that an input can name one in its first byte, and an object of every kind.
//!
//! Both come from the seeds of the target `body`: the object of a kind is the seed `accepted-NAME`, and the first byte of
//! that seed is the letter. A new kind needs a seed with a letter of its own, and nothing here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use api::gates::Gates;
use api::kinds::{self, ApiResource};
use apiserver::Resource;
use serde_json::Value;

/// The seed of a kind.
struct KindSeed {
    kind: &'static ApiResource,
    /// Letter, version and options, as the target `body` reads them.
    head: [u8; 3],
    body: Vec<u8>,
}

/// The seeds of all kinds, by letter.
static SEEDS: LazyLock<BTreeMap<u8, KindSeed>> = LazyLock::new(|| {
    let mut seeds = BTreeMap::new();
    for kind in kinds::ALL.iter().filter(|kind| kind.is_served(&Gates::default())) {
        let seed = read_seed(kind);
        let letter = char::from(seed.head[0]);
        if let Some(KindSeed { kind: other, .. }) = seeds.insert(seed.head[0], seed) {
            panic!("the seeds of {} and {} have the same letter, {letter}", other.unique_name(), kind.unique_name());
        }
    }
    seeds
});

fn read_seed(kind: &'static ApiResource) -> KindSeed {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/body");
    let path = folder.join(format!("accepted-{}", kind.unique_name()));
    let seed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (head, body) = seed.split_first_chunk().expect("a seed of the target `body` has three bytes and the body");
    KindSeed { kind, head: *head, body: body.to_vec() }
}

/// The kind of a letter. Any other byte selects some kind as well, so that every mutation is a usable input.
pub(super) fn kind(letter: u8) -> &'static ApiResource {
    let seed = SEEDS.get(&letter).or_else(|| SEEDS.values().nth(usize::from(letter) % SEEDS.len()));
    seed.expect("the registry has kinds").kind
}

/// The version of a digit, in the order in which the kind serves them.
pub(super) fn version(kind: &ApiResource, digit: u8) -> &'static str {
    let versions: Vec<&str> = kind.served_versions().collect();
    versions[usize::from(digit & 15) % versions.len()]
}

/// The path of the kind's collection; for namespaced kinds the one in `default`.
pub(super) fn collection(kind: &ApiResource, version: &str) -> String {
    kind.versioned_path(version, "default")
}

/// The kind's object: the head that the target `body` reads, and the body.
pub(super) fn object(kind: &ApiResource) -> ([u8; 3], &'static [u8]) {
    let seed = SEEDS.values().find(|seed| seed.kind == kind).expect("every kind has a seed");
    (seed.head, &seed.body)
}

/// A valid object of the kind, and the path of the collection in which it can be created.
pub fn sample_object(resource: &Resource) -> (String, Value) {
    let is_same = |kind: &&&ApiResource| (kind.group, kind.plural) == (resource.group, resource.plural);
    let kind = kinds::ALL.iter().find(is_same).expect("the server serves the kinds of the registry");
    let ([_, digit, _], body) = object(kind);
    let object = serde_json::from_slice(body).expect("the seeds of kinds are JSON");
    (collection(kind, version(kind, digit)), object)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fuzz::checked_server::CheckedServer;

    #[test]
    fn every_kind_has_a_letter_and_an_object() {
        let server = CheckedServer::new(store::HistoryLimits::default());
        let served: BTreeSet<_> = server.inner.resources().iter().map(|one| (one.group, one.plural)).collect();
        let seeds: BTreeSet<_> = SEEDS.values().map(|seed| (seed.kind.group, seed.kind.plural)).collect();
        assert_eq!(seeds, served);
        for (letter, seed) in &*SEEDS {
            assert_eq!(kind(*letter), seed.kind);
            assert!(letter.is_ascii_lowercase() && !object(seed.kind).1.is_empty(), "{}", seed.kind.unique_name());
        }
    }

    #[test]
    fn letters_of_stored_inputs_keep_their_kinds() {
        let letters: String = ["priorityclass", "event", "event.events.k8s.io", "job", "cronjob", "node", "pod"]
            .map(|name| SEEDS.iter().find(|(_, seed)| seed.kind.unique_name() == name))
            .into_iter()
            .map(|found| found.map_or('?', |(letter, _)| char::from(*letter)))
            .collect();
        assert_eq!(letters, "cevjknp");
        assert_eq!(kind(0).unique_name(), "priorityclass", "any byte selects a kind");
    }
}
