//! The wire: tags, numbers, and pieces with a length. A reader never looks beyond its bytes.

use super::Malformed;

/// How a value is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A number, seven bits a byte.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// A length and so many bytes: a text, a message, or many numbers.
    Bytes,
    /// Everything up to the end of the group.
    StartGroup,
    /// That end.
    EndGroup,
    /// Four bytes.
    Fixed32,
}

impl Wire {
    fn parse(bits: u8) -> Option<Wire> {
        use Wire::{Bytes, EndGroup, Fixed32, Fixed64, StartGroup, Varint};
        [Varint, Fixed64, Bytes, StartGroup, EndGroup, Fixed32].get(usize::from(bits)).copied()
    }
}

/// Reads the fields of one message.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Whether everything is read.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The number of the next field and how its value is announced; `None` at the end.
    pub fn tag(&mut self) -> Result<Option<(i32, Wire)>, Malformed> {
        if self.is_at_end() {
            return Ok(None);
        }
        let tag = self.number()?;
        // As upstream: the number is what 32 bits hold of it.
        let (number, wire) = ((tag >> 3) as i32, (tag & 7) as u8);
        match Wire::parse(wire) {
            Some(wire) if number > 0 => Ok(Some((number, wire))),
            _ => Err(Malformed::Tag { number, wire }),
        }
    }

    /// A number by itself.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed::Overflow)
    }

    /// The number of a field.
    pub fn varint(&mut self, wire: Wire, field: &'static str) -> Result<u64, Malformed> {
        expect(Wire::Varint, wire, field)?;
        self.number()
    }

    /// The bytes of a field.
    pub fn bytes(&mut self, wire: Wire, field: &'static str) -> Result<&'a [u8], Malformed> {
        expect(Wire::Bytes, wire, field)?;
        let length = self.number()?;
        self.take(length)
    }

    /// The text of a field.
    // Upstream: keeps bytes that are no text, and its JSON then shows other bytes than it was given. Here they are refused,
    // as they are in a body of JSON.
    pub fn text(&mut self, wire: Wire, field: &'static str) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes(wire, field)?).map_err(|_| Malformed::Utf8(field))
    }

    /// Passes over the value of a field. Groups may be as deep as they like.
    pub fn skip(&mut self, number: i32, wire: Wire) -> Result<(), Malformed> {
        let (mut next, mut open) = ((number, wire), 0_usize);
        loop {
            match next.1 {
                Wire::Varint => drop(self.number()?),
                Wire::Fixed64 => drop(self.take(8)?),
                Wire::Fixed32 => drop(self.take(4)?),
                Wire::Bytes => {
                    let length = self.number()?;
                    self.take(length)?;
                }
                Wire::StartGroup => open += 1,
                Wire::EndGroup => open = open.checked_sub(1).ok_or(Malformed::EndGroup)?,
            }
            if open == 0 {
                return Ok(());
            }
            next = self.tag()?.ok_or(Malformed::Truncated)?;
        }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed::Truncated)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

fn expect(wanted: Wire, found: Wire, field: &'static str) -> Result<(), Malformed> {
    if found == wanted { Ok(()) } else { Err(Malformed::WireType { wire: found as u8, field }) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_end_within_ten_bytes() {
        for (bytes, want) in [
            (&[0][..], Ok(0)),
            (&[0xac, 0x02], Ok(300)),
            (&[0x80, 0x80, 0x00], Ok(0)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Ok(u64::MAX)),
            (&[0x80; 10], Err(Malformed::Overflow)),
            (&[0x80; 9], Err(Malformed::Truncated)),
            (&[], Err(Malformed::Truncated)),
        ] {
            assert_eq!(Reader::new(bytes).number(), want, "{bytes:x?}");
        }
    }

    #[test]
    fn tags_and_lengths_that_cannot_be_are_refused() {
        let tag = |bytes: &[u8]| Reader::new(bytes).tag();
        assert_eq!(tag(&[0x00]), Err(Malformed::Tag { number: 0, wire: 0 }));
        assert_eq!(tag(&[0x0e]), Err(Malformed::Tag { number: 1, wire: 6 }));
        assert_eq!(tag(&[0x80, 0x80, 0x80, 0x80, 0x40]), Err(Malformed::Tag { number: i32::MIN, wire: 0 }));
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, b'a'];
        assert_eq!(Reader::new(&huge).bytes(Wire::Bytes, "a"), Err(Malformed::Truncated));
        let wrong = Malformed::WireType { wire: 5, field: "a" };
        assert_eq!(Reader::new(&huge).bytes(Wire::Fixed32, "a"), Err(wrong));
    }

    #[test]
    fn what_is_not_known_is_passed_over() {
        let deep = [vec![0x0b; 100_000], vec![0x0c; 100_000]].concat();
        for (case, bytes) in [
            ("number", &[0x08, 0x96, 0x01][..]),
            ("eight bytes", &[0x09, 1, 2, 3, 4, 5, 6, 7, 8]),
            ("bytes", &[0x0a, 2, b'a', b'b']),
            ("four bytes", &[0x0d, 1, 2, 3, 4]),
            ("a group with a group", &[0x0b, 0x08, 0x01, 0x13, 0x14, 0x0c]),
            ("groups beyond any stack", &deep),
        ] {
            let mut reader = Reader::new(bytes);
            let (number, wire) = reader.tag().unwrap().unwrap();
            assert_eq!((reader.skip(number, wire), reader.is_at_end()), (Ok(()), true), "{case}");
            let mut cut = Reader::new(&bytes[..bytes.len() - 1]);
            let (number, wire) = cut.tag().unwrap().unwrap();
            assert_eq!(cut.skip(number, wire), Err(Malformed::Truncated), "{case}");
        }
        assert_eq!(Reader::new(&[]).skip(1, Wire::EndGroup), Err(Malformed::EndGroup));
    }

    proptest! {
        #[test]
        fn any_bytes_are_passed_over_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            while let Ok(Some((number, wire))) = reader.tag() {
                if reader.skip(number, wire).is_err() {
                    break;
                }
            }
        }
    }
}
