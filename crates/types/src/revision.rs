//! The version of an object, and of the store as a whole.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One counter for all kinds. Every write increments it.
///
/// On the wire it is a decimal string (`metadata.resourceVersion`). Revisions are compared only as this type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// No write has this revision. In a request it means "any", and the response has the latest.
    pub const ZERO: Revision = Revision(0);

    /// Parses the wire format. `None` for anything but a plain decimal number.
    pub fn parse(text: &str) -> Option<Revision> {
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        text.parse().ok().map(Revision)
    }

    /// The revision of the next write.
    #[must_use]
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl<'de> Deserialize<'de> for Revision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Revision::ZERO);
        }
        Revision::parse(&text).ok_or_else(|| serde::de::Error::custom("resourceVersion is not a decimal number"))
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
