//! A storage whose changes stay in memory until they are written through. A check never writes through. An open does
//! it once it has verified the content, so that a refused file stays unchanged.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use redb::StorageBackend;

const PAGE_BYTES: u64 = 4096;

/// The storage. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Overlay(Arc<Layers>);

#[derive(Debug)]
struct Layers {
    below: Box<dyn StorageBackend>,
    /// Unset once changes go directly to the storage below.
    staged: RwLock<Option<StagedChanges>>,
    /// A change failed for lack of space since the last [`Overlay::stage`].
    out_of_space: AtomicBool,
    /// A change failed for another reason since then.
    failed: AtomicBool,
}

/// Changes that are not written yet.
#[derive(Debug)]
struct StagedChanges {
    /// How much of the storage below is still visible: the rest was truncated or never existed.
    below_len: u64,
    len: u64,
    /// The written pages.
    written: BTreeMap<u64, Vec<u8>>,
    /// The same changes in order, including syncs.
    journal: Vec<StagedChange>,
}

#[derive(Debug)]
enum StagedChange {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

impl Overlay {
    /// An overlay over `below`, which is only read until [`Overlay::write_through`].
    pub fn new(below: impl StorageBackend) -> io::Result<Overlay> {
        let overlay = Overlay(Arc::new(Layers {
            below: Box::new(below),
            staged: RwLock::new(None),
            out_of_space: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }));
        overlay.stage()?;
        Ok(overlay)
    }

    /// Keeps changes in memory from now on, and drops those that were staged before.
    pub fn stage(&self) -> io::Result<()> {
        self.0.out_of_space.store(false, Ordering::Relaxed);
        self.0.failed.store(false, Ordering::Relaxed);
        let len = self.0.below.len()?;
        let staged = StagedChanges { below_len: len, len, written: BTreeMap::new(), journal: Vec::new() };
        *self.0.staged.write().unwrap_or_else(PoisonError::into_inner) = Some(staged);
        Ok(())
    }

    /// Applies the staged changes in order; later ones go directly to the storage below.
    pub fn write_through(&self) -> io::Result<()> {
        let mut staged = self.0.staged.write().unwrap_or_else(PoisonError::into_inner);
        for change in staged.take().into_iter().flat_map(|staged| staged.journal) {
            match change {
                StagedChange::Write(offset, data) => self.0.below.write(offset, &data)?,
                StagedChange::SetLen(len) => self.0.below.set_len(len)?,
                StagedChange::Sync => self.0.below.sync_data()?,
            }
        }
        Ok(())
    }

    /// Whether changes failed only for lack of space. Everything synced before is then still available.
    pub fn failed_only_for_space(&self) -> bool {
        self.0.out_of_space.load(Ordering::Relaxed) && !self.0.failed.load(Ordering::Relaxed)
    }

    /// Records a failed change.
    fn record_failure(&self, error: &io::Error) {
        let is_out_of_space = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let flag = if is_out_of_space { &self.0.out_of_space } else { &self.0.failed };
        flag.store(true, Ordering::Relaxed);
    }

    /// Changes the staged content, or the storage below.
    fn change(
        &self,
        stage: impl FnOnce(&mut StagedChanges, &dyn StorageBackend) -> io::Result<()>,
        apply: impl FnOnce(&dyn StorageBackend) -> io::Result<()>,
    ) -> io::Result<()> {
        let below = &*self.0.below;
        if self.0.staged.read().unwrap_or_else(PoisonError::into_inner).is_none() {
            return apply(below).inspect_err(|error| self.record_failure(error));
        }
        match &mut *self.0.staged.write().unwrap_or_else(PoisonError::into_inner) {
            Some(staged) => stage(staged, below),
            None => apply(below),
        }
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        match &*self.0.staged.read().unwrap_or_else(PoisonError::into_inner) {
            Some(staged) => Ok(staged.len),
            None => self.0.below.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match &*self.0.staged.read().unwrap_or_else(PoisonError::into_inner) {
            Some(staged) => staged.read(&*self.0.below, offset, out),
            None => self.0.below.read(offset, out),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|staged, _| staged.set_len(len), |below| below.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        // After a failed sync the state of the unsynced data is unknown, whatever the reason.
        let sync = |below: &dyn StorageBackend| {
            below.sync_data().inspect_err(|_| self.0.failed.store(true, Ordering::Relaxed))
        };
        self.change(|staged, _| staged.sync(), sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|staged, below| staged.write(below, offset, data), |below| below.write(offset, data))
    }
}

impl StagedChanges {
    fn read(&self, below: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_below(below, offset, out)?;
        for (page, within, part) in page_spans(offset, out.len()) {
            if let Some(written) = self.written.get(&page) {
                let count = part.len();
                out[part].copy_from_slice(&written[within..within + count]);
            }
        }
        Ok(())
    }

    /// The content of the storage below; zeros after its end.
    fn read_below(&self, below: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let available = usize::try_from(self.below_len.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (from_below, behind) = out.split_at_mut(available);
        behind.fill(0);
        if from_below.is_empty() { Ok(()) } else { below.read(offset, from_below) }
    }

    fn write(&mut self, below: &dyn StorageBackend, offset: u64, data: &[u8]) -> io::Result<()> {
        for (page, within, part) in page_spans(offset, data.len()) {
            if !self.written.contains_key(&page) {
                let mut whole = vec![0; PAGE_BYTES as usize];
                self.read_below(below, page * PAGE_BYTES, &mut whole)?;
                self.written.insert(page, whole);
            }
            let written = self.written.get_mut(&page).expect("inserted when it was missing");
            written[within..within + part.len()].copy_from_slice(&data[part]);
        }
        self.len = self.len.max(offset + data.len() as u64);
        self.journal.push(StagedChange::Write(offset, data.to_vec()));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.journal.push(StagedChange::Sync);
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        if len < self.len {
            // Truncated bytes read as zeros if the storage grows again.
            self.below_len = self.below_len.min(len);
            self.written.split_off(&len.div_ceil(PAGE_BYTES));
            let within = (len % PAGE_BYTES) as usize;
            if let Some(page) = self.written.get_mut(&(len / PAGE_BYTES)).filter(|_| within > 0) {
                page[within..].fill(0);
            }
        }
        self.len = len;
        self.journal.push(StagedChange::SetLen(len));
        Ok(())
    }
}

/// Splits `length` bytes from `offset` by page: the page, the offset in it, and the range of the bytes.
fn page_spans(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE_BYTES) as usize;
        let count = (length - done).min(PAGE_BYTES as usize - within);
        let part = done..done + count;
        done += count;
        (count > 0).then_some((at / PAGE_BYTES, within, part))
    })
}
