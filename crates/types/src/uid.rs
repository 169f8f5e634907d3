//! Compact identities of objects. Tables of all objects hold hundreds of thousands of them, and a UUID as text is three
//! times as large as its bytes.

use std::fmt;

/// The identity of an object. UUIDs are ordered as their texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(UidRepr);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum UidRepr {
    /// A uid that is not a UUID.
    Text(Box<str>),
    /// In the format of servers: 32 lower-case hexadecimal digits in groups of 8, 4, 4, 4 and 12.
    Uuid([u8; 16]),
}

/// Offsets of the dashes in the text of a UUID.
const DASH_OFFSETS: [usize; 4] = [8, 13, 18, 23];
/// Offsets of the two digits of each byte in that text.
const DIGIT_OFFSETS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
/// Length of that text.
const LENGTH: usize = 36;

impl From<&str> for Uid {
    fn from(text: &str) -> Uid {
        Uid(parse_uuid(text.as_bytes()).map_or_else(|| UidRepr::Text(text.into()), UidRepr::Uuid))
    }
}

impl Default for Uid {
    /// No identity. It is less than all others.
    fn default() -> Uid {
        Uid(UidRepr::Text(Box::default()))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidRepr::Text(text) => f.write_str(text),
            UidRepr::Uuid(bytes) => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let mut text = [b'-'; LENGTH];
                for (place, byte) in DIGIT_OFFSETS.into_iter().zip(bytes) {
                    text[place] = DIGITS[usize::from(byte >> 4)];
                    text[place + 1] = DIGITS[usize::from(byte & 15)];
                }
                f.write_str(std::str::from_utf8(&text).expect("digits and dashes are UTF-8"))
            }
        }
    }
}

/// The bytes of a UUID in exactly the format that [`Uid`] prints.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let digit = |place: usize| match text[place] {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if text.len() != LENGTH || DASH_OFFSETS.iter().any(|dash| text[*dash] != b'-') {
        return None;
    }
    let mut bytes = [0; 16];
    for (place, byte) in DIGIT_OFFSETS.into_iter().zip(&mut bytes) {
        *byte = (digit(place)? << 4) | digit(place + 1)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Uid;

    const UUID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

    proptest! {
        #[test]
        fn uid_prints_as_parsed(text in prop_oneof![UUID, "[0-9a-fA-F-]{36}", "[a-z-]{0,40}"]) {
            prop_assert_eq!(Uid::from(text.as_str()).to_string(), text);
        }

        #[test]
        fn uids_are_ordered_as_their_texts(one in UUID, other in UUID) {
            prop_assert_eq!(Uid::from(one.as_str()).cmp(&Uid::from(other.as_str())), one.cmp(&other));
        }
    }

    #[test]
    fn uid_has_at_most_24_bytes() {
        assert!(std::mem::size_of::<Uid>() <= 24);
    }
}
