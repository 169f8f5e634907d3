//! Keeps the log from growing for ever: batches are rewritten in place, oldest first, without the records that no
//! longer count. A step takes a few neighbouring batches and puts what is left of them back as one; it is part of an
//! ordinary commit, so it costs no extra wait for the disk and a crash leaves the state before it or after it.
//!
//! Why a step may drop what it drops: a put counts only while it is the current version of its key. A delete is there
//! to undo the puts before it; a pass visits batches in order of revision and ends where the log ended when it began,
//! so those puts lay in batches that this pass has already visited, or lie in this very step, and they were not current
//! any more. The batch of the commit that a step is part of lies behind the end of the pass, so the log always holds
//! the last revision.

use redb::{ReadableTable, Table};
use types::Revision;

use super::DiskError;
use super::record::BatchReader;
use crate::object::{Op, StoreKey};

/// A walk over the log as it was when the walk began.
pub(super) struct CheckpointPass {
    /// Batches before this one are done.
    next: u64,
    /// The last revision of the log at the time.
    end: u64,
}

/// What a step came to.
pub(super) struct CheckpointStep {
    /// How many bytes the log lost.
    pub dropped_bytes: u64,
    /// Nothing is left to visit.
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
        // A batch that lost nothing stays as it is; several become one even so, which makes the next pass shorter.
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
