//! A vector in chunks that copies share until one of them changes a chunk.
//!
//! Cloning it clones one reference per chunk. The first change of a chunk after that copies the chunk; later changes of
//! it copy nothing. Without a clone no chunk is ever copied.

use std::sync::Arc;

/// Elements per chunk: few enough that copying one takes microseconds, and many enough that there are few chunks.
const CHUNK: usize = 64;

/// Grows at its end and never shrinks. Elements that were not set yet have the default value.
#[derive(Clone, Debug)]
pub(crate) struct ChunkedVec<T> {
    chunks: Vec<Arc<[T; CHUNK]>>,
    len: usize,
}

// Not derived: that would require `T: Default`.
impl<T> Default for ChunkedVec<T> {
    fn default() -> ChunkedVec<T> {
        ChunkedVec { chunks: Vec::new(), len: 0 }
    }
}

impl<T> ChunkedVec<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        (at < self.len).then(|| &self[at])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).take(self.len)
    }
}

impl<T: Clone + Default> ChunkedVec<T> {
    /// Makes it at least so long.
    #[inline]
    pub(crate) fn grow(&mut self, len: usize) {
        if len > self.len {
            self.len = len;
            self.add_chunks();
        }
    }

    #[inline(never)]
    fn add_chunks(&mut self) {
        while self.chunks.len() * CHUNK < self.len {
            self.chunks.push(Arc::new(std::array::from_fn(|_| T::default())));
        }
    }

    /// The element for a change. Its chunk is copied if another vector shares it.
    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> &mut T {
        let chunk = &mut self.chunks[at / CHUNK];
        // As `Arc::make_mut`, but the copy is out of the way of the usual case.
        if Arc::strong_count(chunk) != 1 {
            stop_sharing(chunk);
        }
        &mut Arc::get_mut(chunk).expect("no other vector shares the chunk")[at % CHUNK]
    }
}

#[cold]
#[inline(never)]
fn stop_sharing<T: Clone>(chunk: &mut Arc<[T; CHUNK]>) {
    *chunk = Arc::new((**chunk).clone());
}

impl<T> std::ops::Index<usize> for ChunkedVec<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: u32) -> ChunkedVec<u32> {
        let mut numbers = ChunkedVec::default();
        numbers.grow(count as usize);
        (0..count).for_each(|number| *numbers.get_mut(number as usize) = number);
        numbers
    }

    #[test]
    fn a_copy_keeps_its_elements_when_the_original_changes() {
        let mut original = numbers(200);
        let copy = original.clone();
        *original.get_mut(70) = 0;
        original.grow(300);
        assert_eq!((copy.len(), copy[70], original.len(), original[70], original[299]), (200, 70, 300, 0, 0));
        assert!(copy.iter().copied().eq(0..200));
        assert_eq!((copy.get(199), copy.get(200)), (Some(&199), None));
    }

    #[test]
    fn a_change_copies_only_the_chunk_it_touches() {
        let mut original = numbers(200);
        let copy = original.clone();
        *original.get_mut(70) = 0;
        let shared = |(own, other): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(own, other);
        let shared: Vec<bool> = original.chunks.iter().zip(&copy.chunks).map(shared).collect();
        assert_eq!(shared, [true, false, true, true]);
    }
}
