//! A file in memory, as the store's database sees its file.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

/// The file. Clones are the same file.
#[derive(Clone, Debug, Default)]
pub(super) struct InMemoryFile(Arc<Mutex<Vec<u8>>>);

/// A damaged file may claim any size.
const MAX_BYTES: u64 = 64 << 20;

impl InMemoryFile {
    pub fn new(bytes: Vec<u8>) -> InMemoryFile {
        InMemoryFile(Arc::new(Mutex::new(bytes)))
    }

    /// The current content.
    pub fn bytes(&self) -> Vec<u8> {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn range(offset: u64, length: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    Some(start..start.checked_add(length)?)
}

impl StorageBackend for InMemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.locked().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.locked();
        let wanted = range(offset, out.len()).and_then(|range| bytes.get(range));
        out.copy_from_slice(wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.locked().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let range = range(offset, data.len()).filter(|range| range.end as u64 <= MAX_BYTES);
        let range = range.ok_or(io::ErrorKind::FileTooLarge)?;
        let mut bytes = self.locked();
        if bytes.len() < range.end {
            bytes.resize(range.end, 0);
        }
        bytes[range].copy_from_slice(data);
        Ok(())
    }
}
