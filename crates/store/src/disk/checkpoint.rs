//! Keeps the log from growing forever: batches are rewritten in place, oldest first, without dead records. A step
//! takes a few adjacent batches and writes the rest of them back as one. It is part of an ordinary commit, so it costs
//! no extra sync, and a crash leaves the state before or after it.
//!
//! Why dropping is safe: a put is live only while it is the current version of its key. A delete undoes the puts
//! before it. A pass visits batches in order of revision and ends where the log ended when it started. So those puts
//! were in batches that this pass has already visited, or are in this step, and they are no longer current. The batch
//! of the commit that a step is part of lies after the end of the pass, so the log always has the last revision.

use redb::{ReadableTable, Table};
use types::Revision;

use super::DiskError;
use super::record::BatchReader;
use crate::object::{Op, StoreKey};

/// A pass over the log as it was when the pass started.
pub(super) struct CheckpointPass {
    /// Batches before this one are done.
    next: u64,
    /// The last revision of the log at that time.
    end: u64,
}

/// The result of a step.
pub(super) struct CheckpointStep {
    /// How many bytes were dropped from the log.
    pub dropped_bytes: u64,
    /// Whether nothing is left to visit.
    pub is_last: bool,
}

impl CheckpointPass {
    /// Over everything up to `end`.
    pub fn up_to(end: Revision) -> CheckpointPass {
        CheckpointPass { next: 0, end: end.0 }
    }

    /// Visits the next batches, about `budget_bytes` of them and at least one.
    pub fn step(
        &mut self,
        batches: &mut Table<'_, u64, &'static [u8]>,
        budget_bytes: u64,
        is_current: &dyn Fn(&StoreKey, Revision) -> bool,
    ) -> Result<CheckpointStep, DiskError> {
        let mut visited: Vec<u64> = Vec::new();
        let (mut bytes_before, mut kept, mut kept_first) = (0, Vec::new(), None);
        let mut reader = BatchReader::default();
        for entry in batches.range(self.next..=self.end)? {
            if bytes_before > 0 && bytes_before >= budget_bytes {
                break;
            }
            let (first, value) = entry?;
            for record in reader.read_batch(Revision(first.value()), value.value())? {
                if record.op == Op::Put && is_current(&record.key, record.revision) {
                    kept_first.get_or_insert(record.revision.0);
                    kept.extend_from_slice(record.bytes);
                }
            }
            bytes_before += value.value().len() as u64;
            visited.push(first.value());
        }
        let Some(last) = visited.last() else { return Ok(CheckpointStep { dropped_bytes: 0, is_last: true }) };
        self.next = last + 1;
        let dropped_bytes = bytes_before - kept.len() as u64;
        // A batch without dead records stays as it is. Several are merged anyway, which makes the next pass shorter.
        if dropped_bytes > 0 || visited.len() > 1 {
            for first in visited {
                batches.remove(first)?;
            }
            if let Some(first) = kept_first {
                batches.insert(first, kept.as_slice())?;
            }
        }
        Ok(CheckpointStep { dropped_bytes, is_last: self.next > self.end })
    }
}
