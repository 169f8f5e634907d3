//! Strings interned as numbers: label keys and values, node names, resource names. Comparing them is one instruction.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

/// Identifies a string. Equal ids mean equal strings. The order of ids has no meaning but is the same in every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NameId(u32);

impl NameId {
    /// The empty string.
    pub(crate) const EMPTY: NameId = NameId(0);
    /// Key of the taint that a cordoned node is treated as having.
    pub(crate) const UNSCHEDULABLE_TAINT: NameId = NameId(1);
}

/// The strings observed so far. They are never removed: a cluster has few distinct labels, and a node's name costs
/// about fifty bytes. A copy shares them until one of both gets a new string.
#[derive(Clone, Debug)]
pub(crate) struct NameTable {
    texts: Arc<IndexSet<Arc<str>, FxBuildHasher>>,
}

impl Default for NameTable {
    fn default() -> NameTable {
        let well_known = ["", "node.kubernetes.io/unschedulable"];
        NameTable { texts: Arc::new(well_known.into_iter().map(Arc::from).collect()) }
    }
}

impl NameTable {
    /// The id of `text`, new if it was never observed.
    pub(crate) fn intern(&mut self, text: &str) -> NameId {
        let at = match self.texts.get_index_of(text) {
            Some(at) => at,
            None => Arc::make_mut(&mut self.texts).insert_full(Arc::from(text)).0,
        };
        NameId(u32::try_from(at).expect("fewer than four billion distinct strings"))
    }

    /// The id of `text`, if it was ever observed.
    pub(crate) fn get(&self, text: &str) -> Option<NameId> {
        self.texts.get_index_of(text).map(|at| NameId(at as u32))
    }

    /// The string behind an id.
    pub(crate) fn text(&self, id: NameId) -> &Arc<str> {
        self.texts.get_index(id.0 as usize).expect("an id is created only with its string")
    }
}
