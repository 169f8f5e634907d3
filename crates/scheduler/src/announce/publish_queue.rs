//! What is to be published, in the order in which it was marked.

use std::collections::BTreeMap;

use api::views::ObjectKey;
use scheduler_core::Unit;

/// Items to publish, each at most once. The item marked first is the first to come out, so that no item waits for ever
/// behind others that are marked again and again.
#[derive(Debug)]
pub(crate) struct PublishQueue<T> {
    by_position: BTreeMap<u64, T>,
    positions: BTreeMap<T, u64>,
    next_position: u64,
}

impl<T> Default for PublishQueue<T> {
    fn default() -> PublishQueue<T> {
        PublishQueue { by_position: BTreeMap::new(), positions: BTreeMap::new(), next_position: 0 }
    }
}

impl<T: Clone + Ord> PublishQueue<T> {
    /// Adds an item at the end. An item that is queued already keeps its position.
    pub(crate) fn insert(&mut self, item: T) {
        if !self.positions.contains_key(&item) {
            self.by_position.insert(self.next_position, item.clone());
            self.positions.insert(item, self.next_position);
            self.next_position += 1;
        }
    }

    /// Removes the first item.
    pub(crate) fn pop_first(&mut self) -> Option<T> {
        let (_, item) = self.by_position.pop_first()?;
        self.positions.remove(&item);
        Some(item)
    }
}

impl<T: Clone + Ord> Extend<T> for PublishQueue<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.insert(item));
    }
}

/// Units to publish. Groups have a queue of their own, because only writes of their conditions are limited.
#[derive(Debug, Default)]
pub(crate) struct DirtyUnits {
    pub(crate) pods: PublishQueue<ObjectKey>,
    pub(crate) groups: PublishQueue<ObjectKey>,
}

impl DirtyUnits {
    /// Adds a unit at the end of its queue.
    pub(crate) fn insert(&mut self, unit: Unit) {
        match unit {
            Unit::Pod(pod) => self.pods.insert(pod),
            Unit::Group(group) => self.groups.insert(group),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_the_order_in_which_they_were_marked_first() {
        let mut queue = PublishQueue::default();
        queue.extend(["c", "a", "b", "c"]);
        assert_eq!(queue.pop_first(), Some("c"));
        queue.extend(["c", "a"]);
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop_first()).collect();
        assert_eq!(rest, ["a", "b", "c"]);
        assert_eq!(queue.positions.len(), 0);
    }
}
