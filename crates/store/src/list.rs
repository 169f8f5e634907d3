//! Lists: all objects of a resource as they were at one revision, in key order, a page at a time.

use std::sync::Arc;

use types::Revision;
use types::views::ObjectKey;

use crate::object::StoredObject;
use crate::store::Store;

/// What to list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// The resource.
    pub resource: Arc<str>,
    /// Only objects of this namespace.
    pub namespace: Option<String>,
    /// Only objects behind this key: the page after [`Listed::more`].
    pub after: Option<ObjectKey>,
    /// As it was at exactly this revision; unset means now. A revision that is not yet reached means now as well: who
    /// must not read older waits with [`Store::reached`] first.
    pub at: Option<Revision>,
    /// At most so many objects.
    pub limit: Option<usize>,
}

impl ListQuery {
    /// All of `resource`, as it is now.
    pub fn all(resource: &Arc<str>) -> ListQuery {
        ListQuery { resource: Arc::clone(resource), namespace: None, after: None, at: None, limit: None }
    }
}

/// One page.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// In key order.
    pub items: Vec<Arc<StoredObject>>,
    /// All items are as they were at this revision.
    pub revision: Revision,
    /// The key to continue behind, when the limit ended the page and there are objects left.
    pub continue_after: Option<ObjectKey>,
    /// How many objects are left behind `more`, those that would not be kept included.
    pub remaining: usize,
}

/// The history no longer reaches so far back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the revision is older than the kept history, which begins at {oldest}")]
pub struct CompactedError {
    /// The oldest revision that can still be asked for.
    pub oldest: Revision,
}

/// How many keys are looked at between two moments in which a writer may come in: well below a millisecond's worth.
const KEYS_PER_CHUNK: usize = 1024;

/// Walks the keys in pieces. The revision is held meanwhile, so that all pieces show the same state.
pub(crate) fn list(
    store: &Store,
    query: &ListQuery,
    keep: &mut dyn FnMut(&StoredObject) -> bool,
) -> Result<ListPage, CompactedError> {
    let (revision, _hold) = store.pin_revision(&query.resource, query.at)?;
    let limit = query.limit.unwrap_or(usize::MAX);
    let mut listed = ListPage { items: Vec::new(), revision, continue_after: None, remaining: 0 };
    let mut after = query.after.clone();
    loop {
        let state = store.state();
        let namespace = query.namespace.as_deref();
        let piece = state.list_chunk(&query.resource, namespace, after.as_ref(), revision, KEYS_PER_CHUNK);
        drop(state);
        for object in piece.objects {
            if listed.items.len() >= limit {
                listed.remaining += 1;
            } else if keep(&object) {
                listed.items.push(object);
            }
        }
        after = piece.continue_after;
        if after.is_none() {
            break;
        }
    }
    if listed.remaining > 0 {
        listed.continue_after = listed.items.last().map(|last| last.key.object_key());
    }
    Ok(listed)
}
