//! Repeatedly finds the best of many: entries in blocks, above each block its largest entry, and the same over those.
//!
//! Changing one entry reads the blocks it is in, and only if it was or becomes the largest there. Finding the best
//! reads one block per level. Placing n equal pods thus takes n short walks, not n passes over the nodes.

/// Entries by position; 0 means out. Uses little more memory than the entries themselves.
#[derive(Clone, Debug)]
pub(crate) struct Tournament {
    /// The entries, then the largest of each block of the previous level, up to a level of one block. Positions
    /// beyond the last entry are out.
    levels: Vec<Vec<Block>>,
}

/// As many entries as a cache line of the processor.
type Block = [u32; BLOCK];

const BLOCK: usize = 16;

impl Tournament {
    /// The tree over `entries`, by position.
    pub(crate) fn of(entries: &[u32]) -> Tournament {
        let mut levels = vec![in_blocks(entries)];
        while let Some(level) = levels.last().filter(|level| level.len() > 1) {
            let above = above(level);
            levels.push(above);
        }
        Tournament { levels }
    }

    /// Adds positions up to `width`; new ones are out.
    pub(crate) fn widen(&mut self, width: usize) {
        let mut needed = width.div_ceil(BLOCK);
        for at in 0.. {
            match self.levels.get_mut(at) {
                Some(level) => level.resize(needed.max(level.len()), [0; BLOCK]),
                None => self.levels.push(above(&self.levels[at - 1])),
            }
            if needed <= 1 {
                return;
            }
            needed = needed.div_ceil(BLOCK);
        }
    }

    /// The first position with the largest entry; `None` when every entry is out.
    pub(crate) fn best(&self) -> Option<usize> {
        let (top, below) = self.levels.split_last()?;
        let top = top.first()?;
        let largest = largest(top);
        if largest == 0 {
            return None;
        }
        let first =
            |block: &Block| block.iter().position(|entry| *entry == largest).expect("the maximum is in its block");
        let mut at = first(top);
        for level in below.iter().rev() {
            at = at * BLOCK + first(&level[at]);
        }
        Some(at)
    }

    /// Changes one entry.
    pub(crate) fn set(&mut self, position: usize, entry: u32) {
        let (mut at, mut next) = (position, entry);
        for level in 0..self.levels.len() {
            let block_max = self.levels.get(level + 1).map(|above| above[at / BLOCK / BLOCK][at / BLOCK % BLOCK]);
            let block = &mut self.levels[level][at / BLOCK];
            let before = block[at % BLOCK];
            // Checked before the entry is written: the processor would otherwise wait for the write. Many are equal.
            let others_are_as_large =
                |block_max| before < block_max || block.iter().filter(|entry| **entry == block_max).count() > 1;
            let is_settled = before == next || block_max.is_none_or(|max| next < max && others_are_as_large(max));
            block[at % BLOCK] = next;
            if is_settled {
                return;
            }
            at /= BLOCK;
            if block_max.is_some_and(|max| next < max) {
                next = largest(&self.levels[level][at]);
            }
        }
    }

    /// The entry at `position`.
    pub(crate) fn entry(&self, position: usize) -> u32 {
        self.levels[0][position / BLOCK][position % BLOCK]
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<Block>()).sum()
    }
}

fn in_blocks(entries: &[u32]) -> Vec<Block> {
    let block = |entries: &[u32]| {
        let mut block = [0; BLOCK];
        block[..entries.len()].copy_from_slice(entries);
        block
    };
    entries.chunks(BLOCK).map(block).collect()
}

fn above(level: &[Block]) -> Vec<Block> {
    in_blocks(&level.iter().map(largest).collect::<Vec<u32>>())
}

fn largest(block: &Block) -> u32 {
    block.iter().copied().fold(0, u32::max)
}

#[cfg(test)]
mod tests {
    use types::Random;

    use super::{BLOCK, Tournament};

    #[test]
    fn best_follows_every_change_and_is_the_first_among_equals() {
        let random = Random::seeded(1);
        for width in [1, 2, BLOCK, BLOCK + 1, BLOCK * BLOCK, BLOCK * BLOCK + 3] {
            let mut entries = vec![0; width];
            let mut tree = Tournament::of(&entries);
            for _ in 0..4 * width {
                let (at, entry) = (random.below(width as u64) as usize, random.below(5) as u32);
                entries[at] = entry;
                tree.set(at, entry);
                let largest = entries.iter().copied().max().filter(|largest| *largest > 0);
                let first = largest.and_then(|largest| entries.iter().position(|entry| *entry == largest));
                assert_eq!(tree.best(), first, "{width}");
            }
        }
    }

    #[test]
    fn a_widened_tree_is_the_tree_over_more_entries() {
        for (narrow, wide) in [(0, 1), (3, BLOCK), (BLOCK, BLOCK + 1), (5, 3 * BLOCK * BLOCK), (40, 40)] {
            let mut entries: Vec<u32> = (0..narrow as u32).collect();
            let mut tree = Tournament::of(&entries);
            tree.widen(wide);
            entries.resize(wide, 0);
            assert_eq!(tree.levels, Tournament::of(&entries).levels, "{narrow} {wide}");
        }
    }

    #[test]
    fn a_tree_over_nothing_has_no_best() {
        assert_eq!(Tournament::of(&[]).best(), None);
    }
}
