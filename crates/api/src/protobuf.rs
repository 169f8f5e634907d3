//! Decodes the protobuf of Kubernetes' clients to the document that they would send as JSON.
//!
//! In: a body: `k8s\0` and a message with the kind of the object.
//! Out: the document of the object. Fields that JSON omits because they are empty are omitted, so that later steps do
//! not depend on the encoding. Unknown fields are skipped, as upstream.
//! Promises: no body causes a panic, and none causes more JSON than is allowed.

mod decode; // messages → documents
mod table; // fields of messages
mod wire; // tags, numbers and lengths

use serde_json::{Map, Value};

use wire::WireReader;

/// The prefix of every body.
const PREFIX: &[u8] = b"k8s\0";

/// Why a body cannot be decoded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The prefix is missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// The body ends within a value.
    #[error("unexpected EOF")]
    Truncated,
    /// A varint of more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// An invalid tag.
    #[error("proto: illegal tag {number} (wire type {wire})")]
    Tag {
        /// The number of the field.
        number: i32,
        /// The wire type.
        wire: u8,
    },
    /// The end of a group that was not started.
    #[error("proto: wiretype end group for non-group")]
    EndGroup,
    /// The value has a different wire type than its field.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType {
        /// The wire type.
        wire: u8,
        /// The name in JSON.
        field: &'static str,
    },
    /// A string that is not UTF-8.
    #[error("field {0} contains invalid UTF-8")]
    Utf8(&'static str),
    /// A value that cannot be represented in JSON.
    #[error("field {0} has no form in JSON")]
    Value(&'static str),
    /// Messages are nested too deeply.
    #[error("exceeded max depth")]
    TooDeep,
    /// The document would be too large.
    #[error("the object is too large as JSON")]
    TooLarge,
    /// The object is compressed.
    #[error("the object is compressed, which is not supported")]
    Encoding,
    /// A kind or version that is supported only in JSON.
    #[error("this version of the kind is not known in protobuf; send it as JSON")]
    Kind,
}

/// The envelope of a body: type and object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The `apiVersion` of the envelope; can be empty.
    pub api_version: &'a str,
    /// The `kind` of the envelope; can be empty.
    pub kind: &'a str,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Decodes the envelope.
    pub fn read(body: &'a [u8]) -> Result<Envelope<'a>, DecodeError> {
        let mut reader = WireReader::new(body.strip_prefix(PREFIX).ok_or(DecodeError::Prefix)?);
        let mut envelope = Envelope { api_version: "", kind: "", raw: &[] };
        while let Some((number, wire)) = reader.tag()? {
            match number {
                1 => envelope.read_type(reader.bytes(wire, "typeMeta")?)?,
                2 => envelope.raw = reader.bytes(wire, "raw")?,
                3 if !reader.bytes(wire, "contentEncoding")?.is_empty() => return Err(DecodeError::Encoding),
                3 => {}
                _ => reader.skip(number, wire)?,
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &'a [u8]) -> Result<(), DecodeError> {
        let mut reader = WireReader::new(bytes);
        while let Some((number, wire)) = reader.tag()? {
            match number {
                1 => self.api_version = reader.text(wire, "apiVersion")?,
                2 => self.kind = reader.text(wire, "kind")?,
                _ => reader.skip(number, wire)?,
            }
        }
        Ok(())
    }

    /// Decodes the object as this kind. `apiVersion` and `kind` are those of the envelope, if they are set. Refused if
    /// its JSON certainly exceeds `max_bytes`. It can be larger because of escapes in strings.
    pub fn document(&self, group: &str, version: &str, kind: &str, max_bytes: usize) -> Result<Value, DecodeError> {
        let message = table::table().message_of_kind(group, version, kind).ok_or(DecodeError::Kind)?;
        let mut document = Map::new();
        decode::decode_message(message, self.raw, max_bytes, &mut document)?;
        for (name, value) in [("apiVersion", self.api_version), ("kind", self.kind)] {
            if !value.is_empty() {
                document.insert(name.to_owned(), value.into());
            }
        }
        Ok(Value::Object(document))
    }
}

#[cfg(test)]
mod tests;
