//! An object of every kind, and letters with which an input names a kind in its first byte.
//!
//! The object of a kind is the seed `accepted-NAME` of the target `body`, whose first byte is the kind's letter. A kind
//! without a seed has the first object of its file in tests/kube/corpus and no letter. A new kind needs nothing here.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use api::gates::Gates;
use api::kinds::{self, ApiResource};
use apiserver::Resource;
use serde_json::Value;

/// An object of a kind.
struct KindSample {
    kind: &'static ApiResource,
    /// Selects the kind.
    letter: Option<u8>,
    /// Version and options, as the target `body` reads them.
    digits: [u8; 2],
    body: Vec<u8>,
}

/// The samples of all kinds: by letter, then those without one in the order of the registry.
static SAMPLES: LazyLock<Vec<KindSample>> = LazyLock::new(|| {
    let served = kinds::ALL.iter().filter(|kind| kind.is_served(&Gates::default()));
    let mut samples: Vec<KindSample> =
        served.map(|kind| read_seed(kind).unwrap_or_else(|| read_corpus(kind))).collect();
    samples.sort_by_key(|sample| (sample.letter.is_none(), sample.letter));
    samples
});

/// The seed of a kind, if it has one.
fn read_seed(kind: &'static ApiResource) -> Option<KindSample> {
    let path = repository_path(&format!("fuzz/seeds/body/accepted-{}", kind.unique_name()));
    let seed = std::fs::read(path).ok()?;
    let (&[letter, version, options], body) =
        seed.split_first_chunk().expect("a seed of the target `body` has three bytes and the body");
    Some(KindSample { kind, letter: Some(letter), digits: [version, options], body: body.to_vec() })
}

/// The first object of a kind's corpus.
fn read_corpus(kind: &'static ApiResource) -> KindSample {
    let path = repository_path(&format!("tests/kube/corpus/{}.yaml", kind.unique_name()));
    let file = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; a kind needs this file or a seed", path.display()));
    let file: Value = serde_saphyr::from_str(&file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let body = file["objects"][0]["object"].to_string().into_bytes();
    // The first version, JSON, strict field validation.
    KindSample { kind, letter: None, digits: *b"04", body }
}

fn repository_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The kind of a letter. Any other byte selects some kind as well, so that every mutation is a usable input.
pub(super) fn kind(letter: u8) -> &'static ApiResource {
    let named = SAMPLES.iter().find(|sample| sample.letter == Some(letter));
    named.unwrap_or_else(|| &SAMPLES[usize::from(letter) % SAMPLES.len()]).kind
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

/// The kind's object: the digits that the target `body` reads, and the body.
pub(super) fn object(kind: &ApiResource) -> ([u8; 2], &'static [u8]) {
    let sample = SAMPLES.iter().find(|sample| sample.kind == kind).expect("every kind has an object");
    (sample.digits, &sample.body)
}

/// A valid object of the kind, and the path of the collection in which it can be created.
pub fn sample_object(resource: &Resource) -> (String, Value) {
    let is_same = |kind: &&&ApiResource| (kind.group, kind.plural) == (resource.group, resource.plural);
    let kind = kinds::ALL.iter().find(is_same).expect("the server serves the kinds of the registry");
    let ([digit, _], body) = object(kind);
    let object = serde_json::from_slice(body).expect("the objects of kinds are JSON");
    (collection(kind, version(kind, digit)), object)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;

    use super::*;
    use crate::fuzz::body;
    use crate::fuzz::checked_server::CheckedServer;

    /// Whether a new server accepts the object.
    fn is_accepted(sample: &KindSample) -> bool {
        crate::on_paused_clock(async {
            let server = CheckedServer::new(store::HistoryLimits::default());
            let body = Bytes::copy_from_slice(&sample.body);
            body::create(&server, sample.kind, sample.digits, body).await.is_some()
        })
    }

    #[test]
    fn every_kind_has_an_object_that_is_accepted() {
        let server = CheckedServer::new(store::HistoryLimits::default());
        let served: BTreeSet<_> = server.inner.resources().iter().map(|one| (one.group, one.plural)).collect();
        let samples: BTreeSet<_> = SAMPLES.iter().map(|one| (one.kind.group, one.kind.plural)).collect();
        assert_eq!(samples, served);
        for sample in &*SAMPLES {
            assert!(is_accepted(sample), "{}", sample.kind.unique_name());
        }
    }

    #[test]
    fn a_letter_selects_one_kind_and_any_other_byte_some_kind() {
        let letters: Vec<u8> = SAMPLES.iter().filter_map(|sample| sample.letter).collect();
        assert_eq!(letters.iter().collect::<BTreeSet<_>>().len(), letters.len(), "two seeds have the same letter");
        // The letters of stored inputs.
        for (letter, name) in [(b'c', "priorityclass"), (b'v', "event.events.k8s.io"), (b'j', "job"), (b'p', "pod")] {
            assert_eq!(kind(letter).unique_name(), name);
        }
        let selected: BTreeSet<String> = (0..=255).map(|byte| kind(byte).unique_name()).collect();
        assert_eq!(selected.len(), SAMPLES.len());
    }

    #[test]
    fn a_kind_without_a_seed_has_the_first_object_of_its_corpus() {
        for kind in [kinds::LEASE, kinds::WORKLOAD, kinds::EVENTS_GROUP_EVENT] {
            let sample = read_corpus(kind);
            assert!(sample.letter.is_none() && is_accepted(&sample), "{}", kind.unique_name());
        }
    }
}
