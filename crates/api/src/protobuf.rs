//! Objects as Kubernetes' clients send them in protobuf, read into the document that they would send as JSON.
//!
//! In: a body, `k8s\0` and a message that says what kind it holds.
//! Out: the document of the same object. What JSON leaves out because it is empty is left out here, too, so that nothing
//! behind this can tell how an object came in. Fields that the kind does not have are passed over, as upstream.
//! Promises: no body makes it panic, and none makes more than the text of JSON that is allowed.

mod decode; // messages → documents
mod table; // which fields a message has
mod wire; // tags, numbers and lengths

use serde_json::{Map, Value};

use wire::WireReader;

/// What every body begins with.
const PREFIX: &[u8] = b"k8s\0";

/// Why a body holds no object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It does not begin as it must.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// Something is announced and not there.
    #[error("unexpected EOF")]
    Truncated,
    /// A number of more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A tag that no field can have.
    #[error("proto: illegal tag {number} (wire type {wire})")]
    Tag {
        /// The number of the field.
        number: i32,
        /// How its value is announced.
        wire: u8,
    },
    /// The end of a group that never began.
    #[error("proto: wiretype end group for non-group")]
    EndGroup,
    /// A value in another form than its field has.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType {
        /// How the value is announced.
        wire: u8,
        /// The name in JSON.
        field: &'static str,
    },
    /// A text that is none.
    #[error("field {0} contains invalid UTF-8")]
    Utf8(&'static str),
    /// A value that JSON has no form for.
    #[error("field {0} has no form in JSON")]
    Value(&'static str),
    /// Messages within messages.
    #[error("exceeded max depth")]
    TooDeep,
    /// The document would be too long.
    #[error("the object is too large as JSON")]
    TooLarge,
    /// A compressed object.
    #[error("the object is compressed, which is not supported")]
    Encoding,
    /// A kind or a version that is taken in JSON alone.
    #[error("this version of the kind is not known in protobuf; send it as JSON")]
    Kind,
}

/// A body: what it says it is, and the object in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The version that the body says, perhaps empty.
    pub api_version: &'a str,
    /// The kind that the body says, perhaps empty.
    pub kind: &'a str,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Reads the outermost message.
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

    /// The document, given that the object is of this kind. What the envelope says of version and kind stands in it, if
    /// it says anything. Refused when its JSON is certain to take more than `bytes_max`; it may take more through escapes in
    /// its texts.
    pub fn document(&self, group: &str, version: &str, kind: &str, bytes_max: usize) -> Result<Value, DecodeError> {
        let message = table::table().message_of_kind(group, version, kind).ok_or(DecodeError::Kind)?;
        let mut document = Map::new();
        decode::decode_message(message, self.raw, bytes_max, &mut document)?;
        for (name, said) in [("apiVersion", self.api_version), ("kind", self.kind)] {
            if !said.is_empty() {
                document.insert(name.to_owned(), said.into());
            }
        }
        Ok(Value::Object(document))
    }
}

#[cfg(test)]
mod tests;
