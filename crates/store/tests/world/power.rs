//! A disk in memory whose power can fail at any moment.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use api::Random;
use redb::StorageBackend;

/// What a disk writes in one go.
const SECTOR_BYTES: usize = 512;

/// Whether a sync does what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    Honestly,
    /// Returns without having done anything.
    Never,
}

/// The disk. Clones are the same disk.
#[derive(Clone)]
pub struct Platter(Arc<Mutex<State>>);

struct State {
    /// What survives for certain.
    synced: Vec<u8>,
    /// What the running process sees.
    current: Vec<u8>,
    /// What has been done since the last sync.
    unsynced: Vec<Change>,
    syncs: Syncs,
    random: Random,
    /// One operation in so many meets a power cut; 0 is never.
    cut_one_in: u64,
    /// What power cuts have left behind so far.
    images: Vec<Vec<u8>>,
    /// How many more operations succeed.
    operations_left: Option<u64>,
    /// How many more bytes can be written behind the first page, which is there already.
    bytes_left: Option<u64>,
}

enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

impl Platter {
    pub fn new(content: Vec<u8>, syncs: Syncs, random: &Random) -> Platter {
        Platter(Arc::new(Mutex::new(State {
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
        self.locked().cut_one_in = count;
    }

    /// From the operation after the next `count` ones on the disk answers with errors.
    pub fn fail_after(&self, count: u64) {
        self.locked().operations_left = Some(count);
    }

    /// From now on there is only so much room; `None` is plenty.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.locked().bytes_left = bytes;
    }

    /// What the power cuts since the last call have left behind. The process went on each time.
    pub fn take_images(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.locked().images)
    }

    /// What a power cut right now leaves behind.
    pub fn image(&self) -> Vec<u8> {
        self.locked().image()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it holds the disk")
    }

    /// Every operation that changes something begins here.
    fn begin(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.locked();
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

impl State {
    /// Everything that was synced, and of the rest some, in any order, torn between sectors.
    fn image(&self) -> Vec<u8> {
        let mut image = self.synced.clone();
        let mut changes: Vec<&Change> = self.unsynced.iter().collect();
        for left in (1..changes.len()).rev() {
            changes.swap(left, self.random.below(left as u64 + 1) as usize);
        }
        let survive_of_four = self.random.below(5);
        let survives = || self.random.below(4) < survive_of_four;
        for change in changes {
            match change {
                Change::Length(length) if survives() => image.resize(*length as usize, 0),
                Change::Length(_) => {}
                Change::Write(offset, data) => {
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

impl fmt::Debug for Platter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Platter")
    }
}

impl StorageBackend for Platter {
    fn len(&self) -> io::Result<u64> {
        Ok(self.locked().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.locked();
        let wanted = state.current.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.begin()?;
        state.current.resize(len as usize, 0);
        state.unsynced.push(Change::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.begin()?;
        if state.syncs == Syncs::Honestly {
            let State { synced, unsynced, .. } = &mut *state;
            for change in unsynced.drain(..) {
                match change {
                    Change::Write(offset, data) => put(synced, offset as usize, &data),
                    Change::Length(length) => synced.resize(length as usize, 0),
                }
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.begin()?;
        if let Some(left) = state.bytes_left.as_mut().filter(|_| offset > 0) {
            *left = left.checked_sub(data.len() as u64).ok_or(io::ErrorKind::StorageFull)?;
        }
        put(&mut state.current, offset as usize, data);
        state.unsynced.push(Change::Write(offset, data.to_vec()));
        Ok(())
    }
}
