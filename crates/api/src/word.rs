//! Texts that come up again and again: names of labels, annotations, resources and schedulers, kinds of owners. The ones
//! that the API itself uses are held as a number; a cache of many objects would otherwise hold each of them as often as
//! there are objects.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A text that does not change. Compares, orders and hashes as that text.
#[derive(Clone)]
pub struct Word(Form);

#[derive(Clone)]
enum Form {
    /// Its place in [`KNOWN`].
    Known(u8),
    Other(Box<str>),
}

/// Words of the API, shorter ones first, those of one length in alphabetical order: most are told apart by their length.
static KNOWN: [&str; 40] = [
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

impl Word {
    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Known(place) => KNOWN[usize::from(*place)],
            Form::Other(text) => text,
        }
    }
}

fn known(text: &str) -> Option<Form> {
    let order = |word: &&str| word.len().cmp(&text.len()).then_with(|| (**word).cmp(text));
    let place = KNOWN.binary_search_by(order).ok()?;
    u8::try_from(place).ok().map(Form::Known)
}

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        Word(known(text).unwrap_or_else(|| Form::Other(text.into())))
    }
}

impl From<String> for Word {
    fn from(text: String) -> Word {
        Word(known(&text).unwrap_or_else(|| Form::Other(text.into())))
    }
}

impl From<&String> for Word {
    fn from(text: &String) -> Word {
        Word::from(text.as_str())
    }
}

impl Default for Word {
    fn default() -> Word {
        Word(Form::Other(Box::default()))
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Word) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Word {}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Word {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialOrd for Word {
    fn partial_cmp(&self, other: &Word) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Word {
    fn cmp(&self, other: &Word) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Word {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        deserializer.deserialize_str(Reading)
    }
}

struct Reading;

impl Visitor<'_> for Reading {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<Word, E> {
        Ok(Word::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, Word};

    #[test]
    fn every_known_word_is_found_and_said() {
        for word in KNOWN {
            assert!(matches!(Word::from(word).0, super::Form::Known(_)), "{word}");
            assert_eq!(Word::from(word), word);
        }
    }

    #[test]
    fn a_word_is_its_text() {
        let texts = ["", "cpu", "cpus", "example.com/cpu", "memory", "zone"];
        for (one, other) in texts.into_iter().flat_map(|one| texts.map(|other| (one, other))) {
            assert_eq!(Word::from(one).cmp(&Word::from(other)), one.cmp(other), "{one} {other}");
        }
        assert_eq!(serde_json::to_string(&Word::from("memory")).ok().as_deref(), Some("\"memory\""));
        assert_eq!(serde_json::from_str::<Word>("\"z\\u006fne\"").ok(), Some(Word::from("zone")));
        assert!(std::mem::size_of::<Word>() <= 16);
    }
}
