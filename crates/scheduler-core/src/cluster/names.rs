//! Strings interned as numbers: label keys and values, node names, resource names. Comparing them is one instruction.
//!
//! A table does not count references. Once it has grown to twice the size that was in use, a sweep finds what is used
//! now and frees the rest, so a table is at most about twice as large as the strings in use, whatever came and went.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Identifies a string. Equal ids mean equal strings. The order of ids has no meaning but is the same in every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NameId(u32);

impl NameId {
    /// The empty string.
    pub(crate) const EMPTY: NameId = NameId(0);
    /// Key of the taint that a cordoned node is treated as having.
    pub(crate) const UNSCHEDULABLE_TAINT: NameId = NameId(1);

    /// The label that nearly always has the node's name.
    pub(crate) const HOSTNAME: NameId = NameId(2);

    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

/// All strings but resource names. A copy shares them until one of both changes.
#[derive(Clone, Debug)]
pub(crate) struct NameTable(Arc<InternTable>);

impl Default for NameTable {
    fn default() -> NameTable {
        let well_known = ["", "node.kubernetes.io/unschedulable", "kubernetes.io/hostname"];
        NameTable(Arc::new(InternTable::with(&well_known, 1024)))
    }
}

impl NameTable {
    /// The id of `text`, new if it is not in use.
    pub(crate) fn intern(&mut self, text: &str) -> NameId {
        NameId(self.0.get(text).unwrap_or_else(|| Arc::make_mut(&mut self.0).intern(text)))
    }

    /// The id of `text`, if it is in the table.
    pub(crate) fn get(&self, text: &str) -> Option<NameId> {
        self.0.get(text).map(NameId)
    }

    /// The string behind an id.
    pub(crate) fn text(&self, id: NameId) -> &Arc<str> {
        self.0.text(id.0)
    }

    pub(super) fn table(&self) -> &InternTable {
        &self.0
    }

    pub(super) fn table_mut(&mut self) -> &mut InternTable {
        Arc::make_mut(&mut self.0)
    }
}

/// Strings by number and numbers by string. The number of a string that was freed is reused.
#[derive(Clone, Debug)]
pub(super) struct InternTable {
    texts: Vec<Option<Arc<str>>>,
    numbers: FxHashMap<Arc<str>, u32>,
    /// Numbers without a string. The last one is reused first.
    free: Vec<u32>,
    /// The first strings are never freed: this many.
    permanent_count: usize,
    /// At how many strings it is swept.
    sweep_at: usize,
    min_sweep_at: usize,
}

impl InternTable {
    /// A table of strings that are never freed. It is not swept before it has `min_sweep_at` strings.
    pub(super) fn with(texts: &[&str], min_sweep_at: usize) -> InternTable {
        let mut table = InternTable {
            texts: Vec::new(),
            numbers: FxHashMap::default(),
            free: Vec::new(),
            permanent_count: 0,
            sweep_at: min_sweep_at,
            min_sweep_at,
        };
        for text in texts {
            table.intern(text);
        }
        table.make_all_permanent();
        table
    }

    /// The strings interned so far are never freed.
    pub(super) fn make_all_permanent(&mut self) {
        self.permanent_count = self.texts.len();
    }

    pub(super) fn intern(&mut self, text: &str) -> u32 {
        if let Some(number) = self.get(text) {
            return number;
        }
        let text: Arc<str> = Arc::from(text);
        let number = self.free.pop().unwrap_or_else(|| {
            self.texts.push(None);
            u32::try_from(self.texts.len() - 1).expect("fewer than four billion distinct strings")
        });
        self.texts[number as usize] = Some(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    pub(super) fn get(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    pub(super) fn text(&self, number: u32) -> &Arc<str> {
        self.texts[number as usize].as_ref().expect("a string is freed only when nothing has its number")
    }

    /// One more than the largest number so far.
    pub(super) fn width(&self) -> usize {
        self.texts.len()
    }

    /// Whether a number has a string.
    #[cfg(test)]
    pub(super) fn has(&self, number: u32) -> bool {
        self.texts[number as usize].is_some()
    }

    /// How many strings it has.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether it has grown to twice the size after the last sweep.
    pub(super) fn is_sweep_due(&self) -> bool {
        self.numbers.len() >= self.sweep_at
    }

    /// Frees every string that is neither permanent nor `used`, by number.
    pub(super) fn sweep(&mut self, used: &[bool]) {
        let unused =
            self.texts.iter_mut().zip(used).enumerate().skip(self.permanent_count).filter(|(_, (_, used))| !**used);
        for (number, (slot, _)) in unused {
            if let Some(text) = slot.take() {
                self.numbers.remove(&text);
                self.free.push(number as u32);
            }
        }
        self.sweep_at = self.min_sweep_at.max(2 * self.numbers.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swept_table_keeps_what_is_used_and_reuses_the_numbers_of_the_rest() {
        let mut table = InternTable::with(&["always"], 4);
        let [a, b] = ["a", "b"].map(|text| table.intern(text));
        assert!(!table.is_sweep_due());
        let c = table.intern("c");
        assert!(table.is_sweep_due());
        let mut used = vec![false; table.width()];
        used[b as usize] = true;
        table.sweep(&used);
        assert_eq!(
            (table.get("always"), table.get("a"), table.get("b"), table.get("c")),
            (Some(0), None, Some(b), None)
        );
        assert_eq!(&**table.text(b), "b");
        assert_eq!((table.intern("d"), table.intern("e"), table.intern("f")), (c, a, c + 1));
        assert_eq!((table.len(), table.is_sweep_due()), (5, true));
    }
}
