//! The best of many, again and again: a binary tree of maxima over positions.
//!
//! Taking the best costs nothing, changing one entry costs one path to the root. Placing n equal pods is thereby
//! n paths, not n passes over the nodes.

/// A complete binary tree whose leaves are the entries and whose inner nodes hold the larger child. Key 0 is "out".
#[derive(Clone, Debug)]
pub(crate) struct Tournament {
    /// Number of leaves, a power of two; leaf `i` is at `width + i`.
    width: usize,
    tree: Vec<u64>,
}

impl Tournament {
    /// The tree over `keys`, by position.
    pub(crate) fn of(keys: impl ExactSizeIterator<Item = u64>) -> Tournament {
        let width = keys.len().next_power_of_two().max(1);
        let mut tree = vec![0; 2 * width];
        for (leaf, key) in tree[width..].iter_mut().zip(keys) {
            *leaf = key;
        }
        for parent in (1..width).rev() {
            tree[parent] = tree[2 * parent].max(tree[2 * parent + 1]);
        }
        Tournament { width, tree }
    }

    /// The largest key; `None` when every entry is out.
    pub(crate) fn best(&self) -> Option<u64> {
        Some(self.tree[1]).filter(|key| *key > 0)
    }

    /// Whether the tree has a leaf for `position`.
    pub(crate) fn holds(&self, position: usize) -> bool {
        position < self.width
    }

    /// Changes one entry.
    pub(crate) fn set(&mut self, position: usize, key: u64) {
        let mut at = self.width + position;
        self.tree[at] = key;
        while at > 1 {
            at /= 2;
            let larger = self.tree[2 * at].max(self.tree[2 * at + 1]);
            if self.tree[at] == larger {
                return;
            }
            self.tree[at] = larger;
        }
    }

    /// The entry at `position`.
    #[cfg(test)]
    pub(crate) fn key(&self, position: usize) -> u64 {
        self.tree[self.width + position]
    }
}

#[cfg(test)]
mod tests {
    use super::Tournament;

    #[test]
    fn best_follows_every_change() {
        let mut keys = [5, 0, 9, 3, 7];
        let mut tree = Tournament::of(keys.iter().copied());
        for (position, key) in [(2, 0), (0, 8), (4, 0), (0, 0), (3, 0), (1, 1), (1, 0)] {
            keys[position] = key;
            tree.set(position, key);
            assert_eq!(tree.best(), keys.iter().copied().max().filter(|key| *key > 0));
        }
    }

    #[test]
    fn a_tree_over_nothing_has_no_best() {
        assert_eq!(Tournament::of(std::iter::empty::<u64>()).best(), None);
    }
}
