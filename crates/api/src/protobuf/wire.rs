//! The wire format: tags, varints, and length-delimited values. A reader never reads beyond its bytes.

use super::DecodeError;

/// A wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireType {
    /// A varint: seven bits per byte.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// A length and that many bytes: a string, a message, or packed numbers.
    Bytes,
    /// The start of a group.
    StartGroup,
    /// The end of a group.
    EndGroup,
    /// Four bytes.
    Fixed32,
}

impl WireType {
    fn parse(bits: u8) -> Option<WireType> {
        use WireType::{Bytes, EndGroup, Fixed32, Fixed64, StartGroup, Varint};
        [Varint, Fixed64, Bytes, StartGroup, EndGroup, Fixed32].get(usize::from(bits)).copied()
    }
}

/// Reads the fields of one message.
pub struct WireReader<'a> {
    rest: &'a [u8],
}

impl<'a> WireReader<'a> {
    pub fn new(bytes: &'a [u8]) -> WireReader<'a> {
        WireReader { rest: bytes }
    }

    /// Whether all bytes are read.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Number and wire type of the next field; `None` at the end.
    pub fn tag(&mut self) -> Result<Option<(i32, WireType)>, DecodeError> {
        if self.is_at_end() {
            return Ok(None);
        }
        let tag = self.raw_varint()?;
        // As upstream: the number is truncated to 32 bits.
        let (number, wire) = ((tag >> 3) as i32, (tag & 7) as u8);
        match WireType::parse(wire) {
            Some(wire) if number > 0 => Ok(Some((number, wire))),
            _ => Err(DecodeError::Tag { number, wire }),
        }
    }

    /// A varint without a tag.
    pub fn raw_varint(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DecodeError::Overflow)
    }

    /// The varint of a field.
    pub fn varint(&mut self, wire: WireType, field: &'static str) -> Result<u64, DecodeError> {
        expect(WireType::Varint, wire, field)?;
        self.raw_varint()
    }

    /// The bytes of a field.
    pub fn bytes(&mut self, wire: WireType, field: &'static str) -> Result<&'a [u8], DecodeError> {
        expect(WireType::Bytes, wire, field)?;
        let length = self.raw_varint()?;
        self.take(length)
    }

    /// The string of a field.
    // Upstream: accepts bytes that are not UTF-8, and its JSON then has other bytes. Here they are refused, as in a
    // JSON body.
    pub fn text(&mut self, wire: WireType, field: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes(wire, field)?).map_err(|_| DecodeError::Utf8(field))
    }

    /// Skips the value of a field. Groups can have any depth.
    pub fn skip(&mut self, number: i32, wire: WireType) -> Result<(), DecodeError> {
        let (mut next, mut open) = ((number, wire), 0_usize);
        loop {
            match next.1 {
                WireType::Varint => drop(self.raw_varint()?),
                WireType::Fixed64 => drop(self.take(8)?),
                WireType::Fixed32 => drop(self.take(4)?),
                WireType::Bytes => {
                    let length = self.raw_varint()?;
                    self.take(length)?;
                }
                WireType::StartGroup => open += 1,
                WireType::EndGroup => open = open.checked_sub(1).ok_or(DecodeError::EndGroup)?,
            }
            if open == 0 {
                return Ok(());
            }
            next = self.tag()?.ok_or(DecodeError::Truncated)?;
        }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(length).map_err(|_| DecodeError::Truncated)?;
        let (head, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }
}

fn expect(expected: WireType, found: WireType, field: &'static str) -> Result<(), DecodeError> {
    if found == expected { Ok(()) } else { Err(DecodeError::WireType { wire: found as u8, field }) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn varints_have_at_most_ten_bytes() {
        for (bytes, want) in [
            (&[0][..], Ok(0)),
            (&[0xac, 0x02], Ok(300)),
            (&[0x80, 0x80, 0x00], Ok(0)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Ok(u64::MAX)),
            (&[0x80; 10], Err(DecodeError::Overflow)),
            (&[0x80; 9], Err(DecodeError::Truncated)),
            (&[], Err(DecodeError::Truncated)),
        ] {
            assert_eq!(WireReader::new(bytes).raw_varint(), want, "{bytes:x?}");
        }
    }

    #[test]
    fn invalid_tags_and_lengths_are_refused() {
        let tag = |bytes: &[u8]| WireReader::new(bytes).tag();
        assert_eq!(tag(&[0x00]), Err(DecodeError::Tag { number: 0, wire: 0 }));
        assert_eq!(tag(&[0x0e]), Err(DecodeError::Tag { number: 1, wire: 6 }));
        assert_eq!(tag(&[0x80, 0x80, 0x80, 0x80, 0x40]), Err(DecodeError::Tag { number: i32::MIN, wire: 0 }));
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, b'a'];
        assert_eq!(WireReader::new(&huge).bytes(WireType::Bytes, "a"), Err(DecodeError::Truncated));
        let error = DecodeError::WireType { wire: 5, field: "a" };
        assert_eq!(WireReader::new(&huge).bytes(WireType::Fixed32, "a"), Err(error));
    }

    #[test]
    fn unknown_fields_are_skipped() {
        let deep = [vec![0x0b; 100_000], vec![0x0c; 100_000]].concat();
        for (case, bytes) in [
            ("number", &[0x08, 0x96, 0x01][..]),
            ("eight bytes", &[0x09, 1, 2, 3, 4, 5, 6, 7, 8]),
            ("bytes", &[0x0a, 2, b'a', b'b']),
            ("four bytes", &[0x0d, 1, 2, 3, 4]),
            ("a group with a group", &[0x0b, 0x08, 0x01, 0x13, 0x14, 0x0c]),
            ("very deep groups", &deep),
        ] {
            let mut reader = WireReader::new(bytes);
            let (number, wire) = reader.tag().unwrap().unwrap();
            assert_eq!((reader.skip(number, wire), reader.is_at_end()), (Ok(()), true), "{case}");
            let mut cut = WireReader::new(&bytes[..bytes.len() - 1]);
            let (number, wire) = cut.tag().unwrap().unwrap();
            assert_eq!(cut.skip(number, wire), Err(DecodeError::Truncated), "{case}");
        }
        assert_eq!(WireReader::new(&[]).skip(1, WireType::EndGroup), Err(DecodeError::EndGroup));
    }

    proptest! {
        #[test]
        fn any_bytes_are_skipped_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = WireReader::new(&bytes);
            while let Ok(Some((number, wire))) = reader.tag() {
                if reader.skip(number, wire).is_err() {
                    break;
                }
            }
        }
    }
}
