//! CompositePodGroups above groups. Trees of groups are not yet placed as a whole. Until then a group below a
//! CompositePodGroup that requests more than Basic waits: placed alone it could start without its siblings.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use types::views::{CompositePodGroupView, ObjectKey};

use super::GroupId;

/// How many levels are followed. The API allows far fewer.
const MAX_LEVELS: usize = 64;

/// CompositePodGroups, and the groups below them.
#[derive(Debug, Default)]
pub(crate) struct Composites {
    by_key: FxHashMap<ObjectKey, Composite>,
    /// Groups that name a parent.
    pub(crate) children: BTreeSet<GroupId>,
}

#[derive(Debug)]
struct Composite {
    parent: Option<ObjectKey>,
    is_more_than_basic: bool,
}

/// Why a group that names a parent cannot be placed by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParentObstacle {
    /// A CompositePodGroup above it does not exist.
    Missing(ObjectKey),
    /// A CompositePodGroup above it requests more than Basic, or is beyond `MAX_LEVELS`.
    MoreThanBasic(ObjectKey),
    /// CompositePodGroups above it, each the parent of the previous one, and the first the parent of the last.
    Cycle(Vec<ObjectKey>),
}

impl Composites {
    pub(crate) fn set(&mut self, view: &CompositePodGroupView) {
        let key = view.metadata.key();
        let parent = view.spec.parent_composite_pod_group_name.as_deref();
        let parent = parent.map(|name| ObjectKey::new(key.namespace.clone(), name));
        self.by_key.insert(key, Composite { parent, is_more_than_basic: view.has_gang_or_topology() });
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.by_key.remove(key);
    }

    /// Why a group with this parent cannot be placed by itself; none if all CompositePodGroups above it are Basic.
    pub(crate) fn obstacle(&self, parent: Option<&ObjectKey>) -> Option<ParentObstacle> {
        let mut next = parent;
        let mut below: Vec<&ObjectKey> = Vec::new();
        while below.len() < MAX_LEVELS {
            let key = next?;
            if let Some(first) = below.iter().position(|visited| *visited == key) {
                return Some(ParentObstacle::Cycle(below[first..].iter().copied().cloned().collect()));
            }
            let Some(composite) = self.by_key.get(key) else { return Some(ParentObstacle::Missing(key.clone())) };
            if composite.is_more_than_basic {
                return Some(ParentObstacle::MoreThanBasic(key.clone()));
            }
            below.push(key);
            next = composite.parent.as_ref();
        }
        next.cloned().map(ParentObstacle::MoreThanBasic)
    }
}
