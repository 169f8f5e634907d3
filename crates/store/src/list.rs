//! Lists: all objects of a resource at one revision, in key order, page by page.

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
    /// Only objects after this key: the page after [`ListPage::continue_after`].
    pub after: Option<ObjectKey>,
    /// At exactly this revision; unset means now. A revision that is not reached yet also means now. A caller that
    /// must not read older data waits with [`Store::wait_for_revision`] first.
    pub at: Option<Revision>,
    /// At most this many objects.
    pub limit: Option<usize>,
}

impl ListQuery {
    /// All objects of `resource`, now.
    pub fn all(resource: &Arc<str>) -> ListQuery {
        ListQuery { resource: Arc::clone(resource), namespace: None, after: None, at: None, limit: None }
    }
}

/// One page.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// In key order.
    pub items: Vec<Arc<StoredObject>>,
    /// All items are from this revision.
    pub revision: Revision,
    /// The key to continue after, when the limit ended the page and objects are left.
    pub continue_after: Option<ObjectKey>,
    /// How many objects are left after `continue_after`, including those that the filter would drop.
    pub remaining: usize,
}

/// The history does not reach back to the revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the revision is older than the kept history, which begins at {oldest}")]
pub struct CompactedError {
    /// The oldest revision that can still be read.
    pub oldest: Revision,
}

/// Keys that are read under one lock; a writer can run between two chunks. Takes well below a millisecond.
const KEYS_PER_CHUNK: usize = 1024;

/// Reads the keys in chunks. The revision is pinned meanwhile, so that all chunks show the same state.
pub(crate) fn list(
    store: &Store,
    query: &ListQuery,
    keep: &mut dyn FnMut(&StoredObject) -> bool,
) -> Result<ListPage, CompactedError> {
    let (revision, _pin) = store.pin_revision(&query.resource, query.at)?;
    let limit = query.limit.unwrap_or(usize::MAX);
    let mut listed = ListPage { items: Vec::new(), revision, continue_after: None, remaining: 0 };
    let mut after = query.after.clone();
    loop {
        let state = store.state();
        let namespace = query.namespace.as_deref();
        let chunk = state.list_chunk(&query.resource, namespace, after.as_ref(), revision, KEYS_PER_CHUNK);
        drop(state);
        for object in chunk.objects {
            if listed.items.len() >= limit {
                listed.remaining += 1;
            } else if keep(&object) {
                listed.items.push(object);
            }
        }
        after = chunk.continue_after;
        if after.is_none() {
            break;
        }
    }
    if listed.remaining > 0 {
        listed.continue_after = listed.items.last().map(|last| last.key.object_key());
    }
    Ok(listed)
}
