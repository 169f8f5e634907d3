//! A record as bytes: its length, its checksum, then what it says. The key comes first, so that a damaged record can
//! still be named.
//!
//! Numbers are little-endian; a text is its length (u32) and its bytes.
//!
//! ```text
//! record   = length of payload (u32), crc32 of payload (u32), payload
//! payload  = op (u8: 1 put, 2 delete), revision (u64), resource, namespace, name, and for a put:
//!            created (u64), uid, marks (u8), labels, nobody, fields, then the document up to the end
//! marks    = 1 if deleting, plus 2 if the object expires; then seconds (i64) and nanoseconds (i32) since 1970 follow
//! labels   = count (u32), each a name and a value; fields alike
//! nobody   = count (u32), each a text: once the uids of owners, which nobody asked for; now none is written
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::{Revision, Timestamp, Uid};
use bytes::Bytes;

use crate::backend::Record;
use crate::fields::shared_name;
use crate::object::{Key, Meta, Op, Stored};
use crate::packing::Text;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETING: u8 = 1;
const EXPIRES: u8 = 2;
/// Length and checksum.
const HEAD_BYTES: usize = 8;

/// A record that does not say what was once written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}record {index} of the batch at revision {batch} is damaged: {why}", About(key))]
pub struct Damaged {
    /// Whose record it is, as far as that can be read.
    pub key: Option<Key>,
    /// The batch it stands in, by its first revision.
    pub batch: Revision,
    /// Its place in the batch, from 0.
    pub index: usize,
    /// What is wrong.
    pub why: &'static str,
}

struct About<'a>(&'a Option<Key>);

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |key| write!(f, "{key}: "))
    }
}

/// Appends the record to `batch`.
pub(super) fn encode(op: Op, object: &Stored, batch: &mut Vec<u8>) {
    let start = batch.len();
    batch.extend_from_slice(&[0; HEAD_BYTES]);
    payload(op, object, batch);
    let (head, payload) = batch[start..].split_at_mut(HEAD_BYTES);
    let length = u32::try_from(payload.len()).expect("an object is far smaller than 4 GiB");
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
}

/// How many bytes [`encode`] appends for a put.
pub(super) fn encoded_len(object: &Stored) -> u64 {
    let mut count = Count(HEAD_BYTES as u64);
    payload(Op::Put, object, &mut count);
    count.0
}

/// Takes bytes, or only counts them.
trait Sink {
    fn take(&mut self, bytes: &[u8]);

    fn count(&mut self, count: usize) {
        let count = u32::try_from(count).expect("an object is far smaller than 4 GiB");
        self.take(&count.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.take(text.as_bytes());
    }

    fn document(&mut self, object: &Stored) {
        self.take(&object.bytes());
    }
}

impl Sink for Vec<u8> {
    fn take(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

struct Count(u64);

impl Sink for Count {
    fn take(&mut self, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }

    // Counted without being unpacked.
    fn document(&mut self, object: &Stored) {
        self.0 += object.size() as u64;
    }
}

fn payload(op: Op, object: &Stored, sink: &mut impl Sink) {
    sink.take(&[if op == Op::Put { PUT } else { DELETE }]);
    sink.take(&object.revision.0.to_le_bytes());
    sink.text(&object.key.resource);
    sink.text(&object.key.namespace);
    sink.text(&object.key.name);
    if op == Op::Delete {
        // History begins anew with each start, so nobody will ask for the last state.
        return;
    }
    let Meta { uid, labels, fields, deleting, expires } = &object.meta;
    sink.take(&object.created.0.to_le_bytes());
    sink.text(&uid.to_string());
    let mark = |is_set: bool, mark: u8| if is_set { mark } else { 0 };
    sink.take(&[mark(*deleting, DELETING) | mark(expires.is_some(), EXPIRES)]);
    if let Some(expires) = expires {
        sink.take(&expires.as_second().to_le_bytes());
        sink.take(&expires.subsec_nanosecond().to_le_bytes());
    }
    sink.count(labels.len());
    for (name, value) in labels {
        sink.text(name);
        sink.text(value);
    }
    sink.count(0);
    sink.count(fields.len());
    for (name, value) in fields.iter() {
        sink.text(name);
        sink.text(value);
    }
    sink.document(object);
}

/// A record whose checksum holds, still as bytes.
pub(super) struct Raw<'a> {
    pub op: Op,
    pub key: Key,
    pub revision: Revision,
    /// All of it, as it stands in the batch.
    pub bytes: &'a [u8],
    /// What follows the key.
    rest: &'a [u8],
    index: usize,
}

/// Reads the records of batches, one after the other.
#[derive(Default)]
pub(super) struct Reader {
    /// Every key of a resource shares its name.
    resources: BTreeSet<Arc<str>>,
}

impl Reader {
    /// The records of a batch in order. The batch is damaged unless its key is the revision of its first record and
    /// revisions only rise.
    pub fn raw<'a>(&mut self, batch: Revision, bytes: &'a [u8]) -> Result<Vec<Raw<'a>>, Damaged> {
        let (mut records, mut rest): (Vec<Raw<'_>>, _) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let index = records.len();
            let damaged = |key, why| Damaged { key, batch, index, why };
            let length = rest.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
            let framed = length.and_then(|length| rest.split_at_checked(HEAD_BYTES + length));
            let (record, behind) = framed.ok_or_else(|| damaged(None, "its length leads out of the batch"))?;
            let (head, payload) = record.split_at(HEAD_BYTES);
            let mut fields = Fields(payload);
            let start = self.start(&mut fields);
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
            records.push(Raw { op, key, revision, bytes: record, rest: fields.0, index });
            rest = behind;
        }
        Ok(records)
    }

    /// The whole of a record.
    pub fn whole(&self, batch: Revision, raw: Raw<'_>) -> Result<Record, Damaged> {
        let Raw { op, key, revision, rest, index, .. } = raw;
        let object = match op {
            Op::Delete => Stored {
                key: Arc::new(key),
                text: Text::Plain(Bytes::new()),
                meta: Meta::default(),
                created: revision,
                revision,
            },
            Op::Put => {
                let mut fields = Fields(rest);
                let Some((created, meta)) = created_and_meta(&mut fields) else {
                    return Err(Damaged { key: Some(key), batch, index, why: "it cannot be read" });
                };
                Stored {
                    key: Arc::new(key),
                    text: Text::Plain(Bytes::copy_from_slice(fields.0)),
                    meta,
                    created,
                    revision,
                }
            }
        };
        Ok(Record { op, object: Arc::new(object), previous: None })
    }

    fn start(&mut self, fields: &mut Fields<'_>) -> Option<(Op, Revision, Key)> {
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
        Some((op, revision, Key::new(&resource, namespace, name)))
    }
}

fn created_and_meta(from: &mut Fields<'_>) -> Option<(Revision, Meta)> {
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
        let name = shared_name(from.text()?);
        fields.push((name, from.text()?));
    }
    let fields = fields.into_iter().collect();
    Some((created, Meta { uid, labels: labels.into_iter().collect(), fields, deleting, expires }))
}

/// What is left of a payload.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
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

    fn object(revision: u64) -> Stored {
        let meta = Meta {
            uid: Uid::from("u-1"),
            labels: [("app", "web".to_owned())].into(),
            fields: [("spec.nodeName", "n-1")].into_iter().collect(),
            deleting: true,
            expires: Timestamp::new(1_900_000_000, 7).ok(),
        };
        let bytes = Bytes::from(format!(r#"{{"revision":"{revision}"}}"#));
        let key = Arc::new(Key::new(&Arc::from("pods"), "default", "a"));
        Stored { key, text: Text::Plain(bytes), meta, created: Revision(3), revision: Revision(revision) }
    }

    fn batch() -> Vec<u8> {
        let mut batch = Vec::new();
        encode(Op::Put, &object(7), &mut batch);
        encode(Op::Delete, &object(8), &mut batch);
        batch
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let (batch, mut reader) = (batch(), Reader::default());
        let mut raw = reader.raw(Revision(7), &batch).unwrap();
        let (delete, put) = (raw.pop().unwrap(), raw.pop().unwrap());
        assert_eq!(encoded_len(&object(7)), put.bytes.len() as u64);
        assert_eq!((delete.op, delete.revision, &delete.key), (Op::Delete, Revision(8), &*object(8).key));
        assert_eq!(*reader.whole(Revision(7), put).unwrap().object, object(7));
    }

    #[test]
    fn every_changed_byte_is_noticed_and_never_read() {
        for (at, changed) in (0..batch().len()).flat_map(|at| [0x01, 0x80].map(|bit| (at, bit))) {
            let mut batch = batch();
            batch[at] ^= changed;
            let damaged = Reader::default().raw(Revision(7), &batch).err();
            assert!(damaged.is_some(), "byte {at} ^ {changed}");
        }
        for length in 1..batch().len() {
            let whole = batch();
            let first = u32::from_le_bytes(*whole.first_chunk().unwrap()) as usize + HEAD_BYTES;
            // A batch that is cut between two records is whole as far as it goes; the database keeps its length.
            assert_eq!(
                Reader::default().raw(Revision(7), &whole[..length]).is_ok(),
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
        let damaged = Reader::default().raw(Revision(7), &batch).err().unwrap();
        let text = "pods default/a: record 0 of the batch at revision 7 is damaged: its checksum does not match";
        assert_eq!(damaged.to_string(), text);
        let misplaced = Reader::default().raw(Revision(6), &self::batch()).err().unwrap();
        assert_eq!(misplaced.why, "its revision is out of order");
    }
}
