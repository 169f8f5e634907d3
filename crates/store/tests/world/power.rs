//! A disk in memory whose power can fail at any moment.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;
use types::Random;

/// The size of an atomic write.
const SECTOR_BYTES: usize = 512;

/// Whether a sync is honest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncBehavior {
    Honest,
    /// Returns without doing anything.
    Ignored,
}

/// The disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk(Arc<Mutex<SimulatedDiskState>>);

struct SimulatedDiskState {
    /// What certainly survives.
    synced: Vec<u8>,
    /// What the running process sees.
    current: Vec<u8>,
    /// Changes since the last sync.
    unsynced: Vec<UnsyncedChange>,
    syncs: SyncBehavior,
    random: Random,
    /// One operation in this many has a power cut; 0 is never.
    cut_one_in: u64,
    /// The images of the power cuts so far.
    images: Vec<Vec<u8>>,
    /// How many more operations succeed.
    operations_left: Option<u64>,
    /// How many more bytes can be written after the first page, which already exists.
    bytes_left: Option<u64>,
}

enum UnsyncedChange {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

impl SimulatedDisk {
    pub fn new(content: Vec<u8>, syncs: SyncBehavior, random: &Random) -> SimulatedDisk {
        SimulatedDisk(Arc::new(Mutex::new(SimulatedDiskState {
            synced: content.clone(),
            current: content,
            unsynced: Vec::new(),
            syncs,
            random: random.clone(),
            cut_one_in: 0,
            images: Vec::new(),
            operations_left: None,
            bytes_left: None,
        })))
    }

    pub fn cut_one_in(&self, count: u64) {
        self.lock().cut_one_in = count;
    }

    /// After the next `count` operations every operation fails.
    pub fn fail_after(&self, count: u64) {
        self.lock().operations_left = Some(count);
    }

    /// Limits the free space; `None` is unlimited.
    pub fn set_free_bytes(&self, bytes: Option<u64>) {
        self.lock().bytes_left = bytes;
    }

    /// The images of the power cuts since the last call. The process continued each time.
    pub fn take_images(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.lock().images)
    }

    /// The image that a power cut now leaves.
    pub fn image(&self) -> Vec<u8> {
        self.lock().image()
    }

    fn lock(&self) -> MutexGuard<'_, SimulatedDiskState> {
        self.0.lock().expect("no panic happens under this lock")
    }

    /// Every changing operation starts here.
    fn begin_operation(&self) -> io::Result<MutexGuard<'_, SimulatedDiskState>> {
        let mut state = self.lock();
        if let Some(left) = &mut state.operations_left {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the disk is broken"))?;
        }
        if state.cut_one_in > 0 && state.random.below(state.cut_one_in) == 0 {
            let image = state.image();
            state.images.push(image);
        }
        Ok(state)
    }
}

impl SimulatedDiskState {
    /// Everything that was synced, and some of the rest, in any order, torn between sectors.
    fn image(&self) -> Vec<u8> {
        let mut image = self.synced.clone();
        let mut changes: Vec<&UnsyncedChange> = self.unsynced.iter().collect();
        for left in (1..changes.len()).rev() {
            changes.swap(left, self.random.below(left as u64 + 1) as usize);
        }
        let survive_of_four = self.random.below(5);
        let survives = || self.random.below(4) < survive_of_four;
        for change in changes {
            match change {
                UnsyncedChange::SetLen(length) if survives() => image.resize(*length as usize, 0),
                UnsyncedChange::SetLen(_) => {}
                UnsyncedChange::Write(offset, data) => {
                    for (index, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                        if survives() {
                            put(&mut image, *offset as usize + index * SECTOR_BYTES, sector);
                        }
                    }
                }
            }
        }
        image
    }
}

fn put(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(data);
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Platter")
    }
}

impl StorageBackend for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.lock();
        let wanted = state.current.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.begin_operation()?;
        state.current.resize(len as usize, 0);
        state.unsynced.push(UnsyncedChange::SetLen(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.begin_operation()?;
        if state.syncs == SyncBehavior::Honest {
            let SimulatedDiskState { synced, unsynced, .. } = &mut *state;
            for change in unsynced.drain(..) {
                match change {
                    UnsyncedChange::Write(offset, data) => put(synced, offset as usize, &data),
                    UnsyncedChange::SetLen(length) => synced.resize(length as usize, 0),
                }
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.begin_operation()?;
        if let Some(left) = state.bytes_left.as_mut().filter(|_| offset > 0) {
            *left = left.checked_sub(data.len() as u64).ok_or(io::ErrorKind::StorageFull)?;
        }
        put(&mut state.current, offset as usize, data);
        state.unsynced.push(UnsyncedChange::Write(offset, data.to_vec()));
        Ok(())
    }
}
