//! Strings that repeat: names of labels, annotations, resources and schedulers, kinds of owners. Strings of the API
//! itself are stored as a number, so that a cache does not store one copy per object.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// An immutable string. Compares, orders and hashes as its text.
#[derive(Clone)]
pub struct InternedStr(InternedRepr);

#[derive(Clone)]
enum InternedRepr {
    /// Its index in [`INTERNED`].
    Interned(u8),
    Owned(Box<str>),
}

/// Strings of the API, ordered by length and then alphabetically: most differ in length.
static INTERNED: [&str; 40] = [
    "Job",
    "Pod",
    "cpu",
    "Node",
    "pods",
    "Never",
    "Always",
    "memory",
    "CronJob",
    "PodGroup",
    "Workload",
    "batch/v1",
    "job-name",
    "OnFailure",
    "controller-uid",
    "nvidia.com/gpu",
    "kubernetes.io/os",
    "CompositePodGroup",
    "default-scheduler",
    "ephemeral-storage",
    "kubernetes.io/arch",
    "phalanx.dev/exit-code",
    "phalanx.dev/simulated",
    "kubernetes.io/hostname",
    "phalanx.dev/managed-by",
    "phalanx.dev/run-seconds",
    "phalanx.dev/start-seconds",
    "scheduling.k8s.io/v1beta1",
    "phalanx.dev/expected-count",
    "scheduling.k8s.io/v1alpha3",
    "phalanx.dev/after-min-count",
    "topology.kubernetes.io/zone",
    "app.kubernetes.io/managed-by",
    "batch.kubernetes.io/job-name",
    "topology.kubernetes.io/region",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-index-failure-count",
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
    "batch.kubernetes.io/job-index-ignored-failure-count",
];

impl InternedStr {
    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            InternedRepr::Interned(index) => INTERNED[usize::from(*index)],
            InternedRepr::Owned(text) => text,
        }
    }
}

fn lookup_interned(text: &str) -> Option<InternedRepr> {
    let order = |word: &&str| word.len().cmp(&text.len()).then_with(|| (**word).cmp(text));
    let index = INTERNED.binary_search_by(order).ok()?;
    u8::try_from(index).ok().map(InternedRepr::Interned)
}

impl From<&str> for InternedStr {
    fn from(text: &str) -> InternedStr {
        InternedStr(lookup_interned(text).unwrap_or_else(|| InternedRepr::Owned(text.into())))
    }
}

impl From<String> for InternedStr {
    fn from(text: String) -> InternedStr {
        InternedStr(lookup_interned(&text).unwrap_or_else(|| InternedRepr::Owned(text.into())))
    }
}

impl From<&String> for InternedStr {
    fn from(text: &String) -> InternedStr {
        InternedStr::from(text.as_str())
    }
}

impl Default for InternedStr {
    fn default() -> InternedStr {
        InternedStr(InternedRepr::Owned(Box::default()))
    }
}

impl Deref for InternedStr {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for InternedStr {
    fn eq(&self, other: &InternedStr) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for InternedStr {}

impl PartialEq<str> for InternedStr {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for InternedStr {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for InternedStr {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialOrd for InternedStr {
    fn partial_cmp(&self, other: &InternedStr) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InternedStr {
    fn cmp(&self, other: &InternedStr) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for InternedStr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for InternedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for InternedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for InternedStr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for InternedStr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<InternedStr, D::Error> {
        deserializer.deserialize_str(InternedStrVisitor)
    }
}

struct InternedStrVisitor;

impl Visitor<'_> for InternedStrVisitor {
    type Value = InternedStr;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<InternedStr, E> {
        Ok(InternedStr::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::{INTERNED, InternedStr};

    #[test]
    fn every_interned_string_is_found() {
        for word in INTERNED {
            assert!(matches!(InternedStr::from(word).0, super::InternedRepr::Interned(_)), "{word}");
            assert_eq!(InternedStr::from(word), word);
        }
    }

    #[test]
    fn interned_string_compares_as_its_text() {
        let texts = ["", "cpu", "cpus", "example.com/cpu", "memory", "zone"];
        for (one, other) in texts.into_iter().flat_map(|one| texts.map(|other| (one, other))) {
            assert_eq!(InternedStr::from(one).cmp(&InternedStr::from(other)), one.cmp(other), "{one} {other}");
        }
        assert_eq!(serde_json::to_string(&InternedStr::from("memory")).ok().as_deref(), Some("\"memory\""));
        assert_eq!(serde_json::from_str::<InternedStr>("\"z\\u006fne\"").ok(), Some(InternedStr::from("zone")));
        assert!(std::mem::size_of::<InternedStr>() <= 16);
    }
}
