//! Identities of objects, in the room that a UUID needs. Tables of all objects there are hold them by the hundred
//! thousand, and as a text each would be three times as large.

use std::fmt;

/// Which object it is, over its whole life. UUIDs order as their texts do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(UidRepr);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum UidRepr {
    /// Whatever else somebody calls a uid.
    Text(Box<str>),
    /// As servers write it: 32 small hexadecimal digits in groups of 8, 4, 4, 4 and 12.
    Uuid([u8; 16]),
}

/// Where a UUID's text has its dashes.
const DASH_OFFSETS: [usize; 4] = [8, 13, 18, 23];
/// Where in that text each byte's two digits begin.
const DIGIT_OFFSETS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
/// How long that text is.
const LENGTH: usize = 36;

impl From<&str> for Uid {
    fn from(text: &str) -> Uid {
        Uid(parse_uuid(text.as_bytes()).map_or_else(|| UidRepr::Text(text.into()), UidRepr::Uuid))
    }
}

impl Default for Uid {
    /// No identity at all; the least there is.
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
                f.write_str(std::str::from_utf8(&text).expect("digits and dashes are text"))
            }
        }
    }
}

/// The bytes of a UUID that is written exactly as [`Uid`] writes it.
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
        fn a_uid_is_written_as_it_was_read(text in prop_oneof![UUID, "[0-9a-fA-F-]{36}", "[a-z-]{0,40}"]) {
            prop_assert_eq!(Uid::from(text.as_str()).to_string(), text);
        }

        #[test]
        fn uids_order_as_their_texts(one in UUID, other in UUID) {
            prop_assert_eq!(Uid::from(one.as_str()).cmp(&Uid::from(other.as_str())), one.cmp(&other));
        }
    }

    #[test]
    fn a_uid_takes_little_room() {
        assert!(std::mem::size_of::<Uid>() <= 24);
    }
}
