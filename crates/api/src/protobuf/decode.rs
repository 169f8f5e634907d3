//! Messages → documents, by the table.

use serde_json::{Map, Value};

use super::DecodeError;
use super::table::{Cardinality, DescriptorTable, FieldDescriptor, FieldType, table};
use super::wire::{WireReader, WireType};
use crate::Timestamp;
use crate::clock::{rfc3339, rfc3339_micros};

/// The maximum depth of messages. A list of messages is two levels of JSON, and the JSON parser allows 127.
const MAX_DEPTH: usize = 60;

/// Decodes a message to a document of at most about `max_bytes` of JSON.
pub fn decode_message(
    of: u16,
    bytes: &[u8],
    max_bytes: usize,
    into: &mut Map<String, Value>,
) -> Result<(), DecodeError> {
    Decoder { table: table(), bytes_left: max_bytes }.message(of, bytes, into, 0)
}

struct Decoder {
    table: &'static DescriptorTable,
    /// Two bytes can become an object in a list, so the limit is on what is created, not on what is read.
    bytes_left: usize,
}

impl Decoder {
    fn message(
        &mut self,
        of: u16,
        bytes: &[u8],
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if depth > MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        let mut reader = WireReader::new(bytes);
        while let Some((number, wire)) = reader.tag()? {
            match self.table.field(of, number) {
                Some(field) => self.field(field, wire, &mut reader, into, depth)?,
                None => reader.skip(number, wire)?,
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &'static FieldDescriptor,
        wire: WireType,
        reader: &mut WireReader<'_>,
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if let (FieldType::Message(of), "") = (field.field_type, field.name) {
            return self.message(of, reader.bytes(wire, "")?, into, depth + 1);
        }
        match field.cardinality {
            Cardinality::One => self.decode_singular(field, wire, reader, into, depth),
            Cardinality::List => {
                self.charge_name(field, into)?;
                let list = into.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                let list = list.as_array_mut().expect("field names are unique");
                self.items(field, wire, reader, list, depth)
            }
            Cardinality::Map => {
                self.charge_name(field, into)?;
                let (key, value) = self.decode_map_entry(field, reader.bytes(wire, field.name)?, depth)?;
                let map = into.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                map.as_object_mut().expect("field names are unique").insert(key, value);
                Ok(())
            }
        }
    }

    /// The last value wins. Messages are merged.
    fn decode_singular(
        &mut self,
        field: &'static FieldDescriptor,
        wire: WireType,
        reader: &mut WireReader<'_>,
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if let FieldType::Message(of) = field.field_type {
            let bytes = reader.bytes(wire, field.name)?;
            self.charge_name(field, into)?;
            let part = into.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            return self.message(of, bytes, part.as_object_mut().expect("messages are objects"), depth + 1);
        }
        let value = self.value(field, wire, reader, depth)?;
        if field.omits_zero && is_zero(&value) {
            into.remove(field.name);
        } else {
            self.charge_name(field, into)?;
            into.insert(field.name.to_owned(), value);
        }
        Ok(())
    }

    /// One item, or a packed list of numbers.
    fn items(
        &mut self,
        field: &'static FieldDescriptor,
        wire: WireType,
        reader: &mut WireReader<'_>,
        list: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), DecodeError> {
        let is_numeric = matches!(field.field_type, FieldType::Boolean | FieldType::Int32 | FieldType::Int64);
        if !is_numeric || wire != WireType::Bytes {
            self.charge_bytes(2)?;
            list.push(self.value(field, wire, reader, depth)?);
            return Ok(());
        }
        let mut packed = WireReader::new(reader.bytes(wire, field.name)?);
        while !packed.is_at_end() {
            self.charge_bytes(2)?;
            list.push(self.value(field, WireType::Varint, &mut packed, depth)?);
        }
        Ok(())
    }

    /// An entry of a map is a message with the key as field 1 and the value as field 2. Either can be missing.
    fn decode_map_entry(
        &mut self,
        field: &'static FieldDescriptor,
        bytes: &[u8],
        depth: usize,
    ) -> Result<(String, Value), DecodeError> {
        let mut reader = WireReader::new(bytes);
        let (mut key, mut value) = ("", None);
        while let Some((number, wire)) = reader.tag()? {
            match number {
                1 => key = reader.text(wire, field.name)?,
                2 => value = Some(self.value(field, wire, &mut reader, depth)?),
                _ => reader.skip(number, wire)?,
            }
        }
        self.charge_bytes(key.len() + 4)?;
        let value = match value {
            Some(value) => value,
            // The values of maps are strings and quantities. A missing one is empty.
            None => self.value(field, WireType::Bytes, &mut WireReader::new(&[0]), depth)?,
        };
        Ok((key.to_owned(), value))
    }

    /// One value.
    fn value(
        &mut self,
        field: &'static FieldDescriptor,
        wire: WireType,
        reader: &mut WireReader<'_>,
        depth: usize,
    ) -> Result<Value, DecodeError> {
        let name = field.name;
        Ok(match field.field_type {
            FieldType::Text => self.text(reader.text(wire, name)?)?,
            FieldType::Boolean => Value::Bool(reader.varint(wire, name)? != 0),
            // As upstream: truncated to 32 bits.
            FieldType::Int32 => Value::from(reader.varint(wire, name)? as i32),
            FieldType::Int64 => Value::from(reader.varint(wire, name)? as i64),
            FieldType::Quantity => {
                self.text(decode_wrapper(reader.bytes(wire, name)?, |part, wire| part.text(wire, name))?)?
            }
            FieldType::Json => {
                let text = decode_wrapper(reader.bytes(wire, name)?, |part, wire| part.bytes(wire, name))?;
                self.charge_bytes(text.len())?;
                let null = Value::Null;
                if text.is_empty() {
                    null
                } else {
                    serde_json::from_slice(text).map_err(|_| DecodeError::Value(name))?
                }
            }
            FieldType::Time => time(reader.bytes(wire, name)?, name, rfc3339)?,
            FieldType::MicroTime => time(reader.bytes(wire, name)?, name, rfc3339_micros)?,
            FieldType::IntOrString => self.int_or_string(reader.bytes(wire, name)?, name)?,
            FieldType::Message(of) => {
                let mut object = Map::new();
                self.charge_bytes(1)?;
                self.message(of, reader.bytes(wire, name)?, &mut object, depth + 1)?;
                Value::Object(object)
            }
        })
    }

    fn text(&mut self, text: &str) -> Result<Value, DecodeError> {
        self.charge_bytes(text.len())?;
        Ok(text.into())
    }

    /// The type, the number, the string.
    fn int_or_string(&mut self, bytes: &[u8], name: &'static str) -> Result<Value, DecodeError> {
        let mut reader = WireReader::new(bytes);
        let (mut variant, mut number, mut text) = (0, 0, "");
        while let Some((field, wire)) = reader.tag()? {
            match field {
                1 => variant = reader.varint(wire, name)?,
                2 => number = reader.varint(wire, name)? as i32,
                3 => text = reader.text(wire, name)?,
                _ => reader.skip(field, wire)?,
            }
        }
        match variant {
            0 => Ok(number.into()),
            1 => self.text(text),
            _ => Err(DecodeError::Value(name)),
        }
    }

    /// Counts a new name, with quotes, colon and the minimum size of a value.
    fn charge_name(&mut self, field: &FieldDescriptor, into: &Map<String, Value>) -> Result<(), DecodeError> {
        if into.contains_key(field.name) { Ok(()) } else { self.charge_bytes(field.name.len() + 4) }
    }

    /// Counts bytes that are certainly in the document. The final size is checked when it is encoded.
    fn charge_bytes(&mut self, bytes: usize) -> Result<(), DecodeError> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(DecodeError::TooLarge)?;
        Ok(())
    }
}

/// The only field of a message around a single value; empty if it is missing.
fn decode_wrapper<'a, T: Default>(
    bytes: &'a [u8],
    read: impl Fn(&mut WireReader<'a>, WireType) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let mut reader = WireReader::new(bytes);
    let mut value = T::default();
    while let Some((number, wire)) = reader.tag()? {
        match number {
            1 => value = read(&mut reader, wire)?,
            _ => reader.skip(number, wire)?,
        }
    }
    Ok(value)
}

/// Seconds and nanoseconds. An empty message is an unset time, not the beginning of 1970.
fn time(bytes: &[u8], name: &'static str, text: fn(Timestamp) -> String) -> Result<Value, DecodeError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let mut reader = WireReader::new(bytes);
    let (mut seconds, mut nanoseconds) = (0, 0);
    while let Some((number, wire)) = reader.tag()? {
        match number {
            1 => seconds = reader.varint(wire, name)? as i64,
            2 => nanoseconds = reader.varint(wire, name)? as i32,
            _ => reader.skip(number, wire)?,
        }
    }
    let time = Timestamp::new(seconds, nanoseconds).ok().filter(|time| time.as_second() >= YEAR_ZERO);
    time.map(|time| text(time).into()).ok_or(DecodeError::Value(name))
}

/// The earliest year of RFC 3339.
const YEAR_ZERO: i64 = -62_167_219_200;

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
