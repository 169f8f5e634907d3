//! A record as bytes: its length, its checksum, then its payload. The key comes first, so that a damaged record can
//! still be named.
//!
//! Numbers are little-endian; a text is its length (u32) and its bytes.
//!
//! ```text
//! record   = length of payload (u32), crc32 of payload (u32), payload
//! payload  = op (u8: 1 put, 2 delete), revision (u64), resource, namespace, name, and for a put:
//!            created (u64), uid, marks (u8), labels, reserved, fields, then the document up to the end
//! marks    = 1 if deleting, plus 2 if the object expires; then seconds (i64) and nanoseconds (i32) since 1970 follow
//! labels   = count (u32), each a name and a value; fields alike
//! reserved = count (u32), each a text: formerly the uids of owners; now always empty
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use types::{Revision, Timestamp, Uid};

use crate::backend::LogRecord;
use crate::fields::intern_name;
use crate::object::{Op, StoreKey, StoredMeta, StoredObject};
use crate::packing::DocumentBytes;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETING: u8 = 1;
const EXPIRES: u8 = 2;
/// Length and checksum.
const HEAD_BYTES: usize = 8;

/// A record that cannot be read or does not match its checksum.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}record {index} of the batch at revision {batch} is damaged: {why}", KeyPrefix(key))]
pub struct DamagedRecord {
    /// The key of the record, as far as it can be read.
    pub key: Option<StoreKey>,
    /// The batch, by its first revision.
    pub batch: Revision,
    /// Its position in the batch, from 0.
    pub index: usize,
    /// What is wrong.
    pub why: &'static str,
}

struct KeyPrefix<'a>(&'a Option<StoreKey>);

impl fmt::Display for KeyPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |key| write!(f, "{key}: "))
    }
}

/// Appends the record to `batch`.
pub(super) fn encode(op: Op, object: &StoredObject, batch: &mut Vec<u8>) {
    let start = batch.len();
    batch.extend_from_slice(&[0; HEAD_BYTES]);
    encode_payload(op, object, batch);
    let (head, payload) = batch[start..].split_at_mut(HEAD_BYTES);
    let length = u32::try_from(payload.len()).expect("an object is far smaller than 4 GiB");
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
}

/// The number of bytes that [`encode`] appends for a put.
pub(super) fn encoded_len(object: &StoredObject) -> u64 {
    let mut count = ByteCounter(HEAD_BYTES as u64);
    encode_payload(Op::Put, object, &mut count);
    count.0
}

/// Receives bytes, or only counts them.
trait Sink {
    fn put_bytes(&mut self, bytes: &[u8]);

    fn put_len(&mut self, count: usize) {
        let count = u32::try_from(count).expect("an object is far smaller than 4 GiB");
        self.put_bytes(&count.to_le_bytes());
    }

    fn put_str(&mut self, text: &str) {
        self.put_len(text.len());
        self.put_bytes(text.as_bytes());
    }

    fn put_document(&mut self, object: &StoredObject) {
        self.put_bytes(&object.bytes());
    }
}

impl Sink for Vec<u8> {
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

struct ByteCounter(u64);

impl Sink for ByteCounter {
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }

    // Counted without unpacking.
    fn put_document(&mut self, object: &StoredObject) {
        self.0 += object.size() as u64;
    }
}

fn encode_payload(op: Op, object: &StoredObject, sink: &mut impl Sink) {
    sink.put_bytes(&[if op == Op::Put { PUT } else { DELETE }]);
    sink.put_bytes(&object.revision.0.to_le_bytes());
    sink.put_str(&object.key.resource);
    sink.put_str(&object.key.namespace);
    sink.put_str(&object.key.name);
    if op == Op::Delete {
        // History is empty after each start, so the last state is never read.
        return;
    }
    let StoredMeta { uid, labels, fields, deleting, expires } = &object.meta;
    sink.put_bytes(&object.created.0.to_le_bytes());
    sink.put_str(&uid.to_string());
    let mark = |is_set: bool, mark: u8| if is_set { mark } else { 0 };
    sink.put_bytes(&[mark(*deleting, DELETING) | mark(expires.is_some(), EXPIRES)]);
    if let Some(expires) = expires {
        sink.put_bytes(&expires.as_second().to_le_bytes());
        sink.put_bytes(&expires.subsec_nanosecond().to_le_bytes());
    }
    sink.put_len(labels.len());
    for (name, value) in labels {
        sink.put_str(name);
        sink.put_str(value);
    }
    sink.put_len(0);
    sink.put_len(fields.len());
    for (name, value) in fields.iter() {
        sink.put_str(name);
        sink.put_str(value);
    }
    sink.put_document(object);
}

/// A record with a valid checksum, not decoded yet.
pub(super) struct RawRecord<'a> {
    pub op: Op,
    pub key: StoreKey,
    pub revision: Revision,
    /// All of its bytes in the batch.
    pub bytes: &'a [u8],
    /// The bytes after the key.
    rest: &'a [u8],
    index: usize,
}

/// Reads the records of batches.
#[derive(Default)]
pub(super) struct BatchReader {
    /// All keys of a resource share its name.
    resources: BTreeSet<Arc<str>>,
}

impl BatchReader {
    /// The records of a batch in order. The batch is damaged unless its key is the revision of its first record and
    /// revisions only rise.
    pub fn read_batch<'a>(&mut self, batch: Revision, bytes: &'a [u8]) -> Result<Vec<RawRecord<'a>>, DamagedRecord> {
        let (mut records, mut rest): (Vec<RawRecord<'_>>, _) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let index = records.len();
            let damaged = |key, why| DamagedRecord { key, batch, index, why };
            let length = rest.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
            let framed = length.and_then(|length| rest.split_at_checked(HEAD_BYTES + length));
            let (record, behind) = framed.ok_or_else(|| damaged(None, "its length leads out of the batch"))?;
            let (head, payload) = record.split_at(HEAD_BYTES);
            let mut fields = PayloadReader(payload);
            let start = self.read_header(&mut fields);
            if crc32fast::hash(payload).to_le_bytes() != head[4..] {
                return Err(damaged(start.map(|(.., key)| key), "its checksum does not match"));
            }
            let (op, revision, key) = start.ok_or_else(|| damaged(None, "it cannot be read"))?;
            let in_order = match records.last() {
                None => revision == batch,
                Some(last) => revision > last.revision,
            };
            if !in_order {
                return Err(damaged(Some(key), "its revision is out of order"));
            }
            records.push(RawRecord { op, key, revision, bytes: record, rest: fields.0, index });
            rest = behind;
        }
        Ok(records)
    }

    /// Decodes a whole record.
    pub fn decode(&self, batch: Revision, raw: RawRecord<'_>) -> Result<LogRecord, DamagedRecord> {
        let RawRecord { op, key, revision, rest, index, .. } = raw;
        let object = match op {
            Op::Delete => StoredObject {
                key: Arc::new(key),
                document: DocumentBytes::Plain(Bytes::new()),
                meta: StoredMeta::default(),
                created: revision,
                revision,
            },
            Op::Put => {
                let mut fields = PayloadReader(rest);
                let Some((created, meta)) = decode_meta(&mut fields) else {
                    return Err(DamagedRecord { key: Some(key), batch, index, why: "it cannot be read" });
                };
                StoredObject {
                    key: Arc::new(key),
                    document: DocumentBytes::Plain(Bytes::copy_from_slice(fields.0)),
                    meta,
                    created,
                    revision,
                }
            }
        };
        Ok(LogRecord { op, object: Arc::new(object), previous: None })
    }

    fn read_header(&mut self, fields: &mut PayloadReader<'_>) -> Option<(Op, Revision, StoreKey)> {
        let op = match fields.byte()? {
            PUT => Op::Put,
            DELETE => Op::Delete,
            _ => return None,
        };
        let revision = fields.revision()?;
        let resource = fields.text()?;
        let (namespace, name) = (fields.text()?, fields.text()?);
        let resource = match self.resources.get(resource) {
            Some(known) => Arc::clone(known),
            None => {
                let new: Arc<str> = Arc::from(resource);
                self.resources.insert(Arc::clone(&new));
                new
            }
        };
        Some((op, revision, StoreKey::new(&resource, namespace, name)))
    }
}

fn decode_meta(from: &mut PayloadReader<'_>) -> Option<(Revision, StoredMeta)> {
    let created = from.revision()?;
    let uid = Uid::from(from.text()?);
    let marks = from.byte()?;
    let deleting = marks & DELETING != 0;
    let expires = if marks & EXPIRES != 0 { Some(from.timestamp()?) } else { None };
    let mut labels = Vec::new();
    for _ in 0..from.count()? {
        let name = from.text()?;
        labels.push((name, from.text()?.to_owned()));
    }
    for _ in 0..from.count()? {
        from.text()?;
    }
    let mut fields = Vec::new();
    for _ in 0..from.count()? {
        let name = intern_name(from.text()?);
        fields.push((name, from.text()?));
    }
    let fields = fields.into_iter().collect();
    Some((created, StoredMeta { uid, labels: labels.into_iter().collect(), fields, deleting, expires }))
}

/// The unread rest of a payload.
struct PayloadReader<'a>(&'a [u8]);

impl<'a> PayloadReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn count(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    fn revision(&mut self) -> Option<Revision> {
        Some(Revision(u64::from_le_bytes(*self.take(8)?.first_chunk()?)))
    }

    fn timestamp(&mut self) -> Option<Timestamp> {
        let seconds = i64::from_le_bytes(*self.take(8)?.first_chunk()?);
        Timestamp::new(seconds, i32::from_le_bytes(*self.take(4)?.first_chunk()?)).ok()
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.count()?;
        std::str::from_utf8(self.take(usize::try_from(length).ok()?)?).ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn object(revision: u64) -> StoredObject {
        let meta = StoredMeta {
            uid: Uid::from("u-1"),
            labels: [("app", "web".to_owned())].into(),
            fields: [("spec.nodeName", "n-1")].into_iter().collect(),
            deleting: true,
            expires: Timestamp::new(1_900_000_000, 7).ok(),
        };
        let bytes = Bytes::from(format!(r#"{{"revision":"{revision}"}}"#));
        let key = Arc::new(StoreKey::new(&Arc::from("pods"), "default", "a"));
        StoredObject {
            key,
            document: DocumentBytes::Plain(bytes),
            meta,
            created: Revision(3),
            revision: Revision(revision),
        }
    }

    fn batch() -> Vec<u8> {
        let mut batch = Vec::new();
        encode(Op::Put, &object(7), &mut batch);
        encode(Op::Delete, &object(8), &mut batch);
        batch
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let (batch, mut reader) = (batch(), BatchReader::default());
        let mut raw = reader.read_batch(Revision(7), &batch).unwrap();
        let (delete, put) = (raw.pop().unwrap(), raw.pop().unwrap());
        assert_eq!(encoded_len(&object(7)), put.bytes.len() as u64);
        assert_eq!((delete.op, delete.revision, &delete.key), (Op::Delete, Revision(8), &*object(8).key));
        assert_eq!(*reader.decode(Revision(7), put).unwrap().object, object(7));
    }

    #[test]
    fn every_changed_byte_is_noticed_and_never_read() {
        for (at, changed) in (0..batch().len()).flat_map(|at| [0x01, 0x80].map(|bit| (at, bit))) {
            let mut batch = batch();
            batch[at] ^= changed;
            let damaged = BatchReader::default().read_batch(Revision(7), &batch).err();
            assert!(damaged.is_some(), "byte {at} ^ {changed}");
        }
        for length in 1..batch().len() {
            let whole = batch();
            let first = u32::from_le_bytes(*whole.first_chunk().unwrap()) as usize + HEAD_BYTES;
            // A batch that is truncated between two records is valid as far as it goes; the database stores its
            // length.
            assert_eq!(
                BatchReader::default().read_batch(Revision(7), &whole[..length]).is_ok(),
                length == first,
                "length {length}"
            );
        }
    }

    #[test]
    fn a_damaged_record_is_named() {
        let mut batch = batch();
        let at = batch.windows(3).position(|window| window == b"web").unwrap();
        batch[at] = b'W';
        let damaged = BatchReader::default().read_batch(Revision(7), &batch).err().unwrap();
        let text = "pods default/a: record 0 of the batch at revision 7 is damaged: its checksum does not match";
        assert_eq!(damaged.to_string(), text);
        let misplaced = BatchReader::default().read_batch(Revision(6), &self::batch()).err().unwrap();
        assert_eq!(misplaced.why, "its revision is out of order");
    }
}
