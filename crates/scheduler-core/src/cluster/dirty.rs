//! Which nodes changed, in order.

use super::NodeIndex;

/// A node that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TouchedNode {
    pub(crate) node: NodeIndex,
    pub(crate) changed: NodeChangeKind,
}

/// What changed about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeChangeKind {
    /// Only its pods.
    Pods,
    /// Labels, taints, allocatable or the node's existence; perhaps pods too.
    Shape,
}

/// The last changes; at least as many as there are nodes, because a reader that lags by more reads all nodes instead.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirtyLog {
    /// Position of the first stored entry.
    base: u64,
    entries: Vec<NodeIndex>,
    /// By node.
    last: Vec<LastChange>,
}

/// The end of the log after the last changes of a node; 0: there was none.
#[derive(Clone, Copy, Debug, Default)]
struct LastChange {
    change: u64,
    shape: u64,
}

impl DirtyLog {
    pub(crate) fn push(&mut self, node: NodeIndex, changed: NodeChangeKind, width: usize) {
        let keep = width.max(64);
        if self.entries.len() >= 2 * keep {
            let drop = self.entries.len() - keep;
            self.entries.drain(..drop);
            self.base += drop as u64;
        }
        self.entries.push(node);
        if self.last.len() <= node.at() {
            self.last.resize(node.at() + 1, LastChange::default());
        }
        let end = self.end();
        let last = &mut self.last[node.at()];
        last.change = end;
        if changed == NodeChangeKind::Shape {
            last.shape = end;
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// How many changes there were since `position`.
    pub(crate) fn count_since(&self, position: u64) -> u64 {
        self.end() - position
    }

    /// The nodes that changed since `position`, each once; `None` when the log no longer goes back that far.
    pub(crate) fn since(&self, position: u64) -> Option<impl Iterator<Item = TouchedNode> + '_> {
        let skip = usize::try_from(position.checked_sub(self.base)?).ok()?;
        let ends = position + 1..;
        let touches = self.entries.get(skip..)?.iter().zip(ends).filter_map(move |(node, end)| {
            let last = self.last[node.at()];
            // A node that changed again later is reported at its last change.
            let changed = if last.shape > position { NodeChangeKind::Shape } else { NodeChangeKind::Pods };
            (last.change == end).then_some(TouchedNode { node: *node, changed })
        });
        Some(touches)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(log: &DirtyLog, position: u64) -> Vec<(u32, NodeChangeKind)> {
        log.since(position).unwrap().map(|touch| (touch.node.0, touch.changed)).collect()
    }

    #[test]
    fn a_reader_that_keeps_up_reads_every_change_once() {
        let mut log = DirtyLog::default();
        let (mut position, mut all) = (0, Vec::new());
        for node in 0..1000 {
            log.push(NodeIndex(node), NodeChangeKind::Pods, 10);
            if node % 7 == 0 {
                all.extend(read(&log, position));
                position = log.end();
            }
        }
        all.extend(read(&log, position));
        assert_eq!(all, (0..1000).map(|node| (node, NodeChangeKind::Pods)).collect::<Vec<_>>());
    }

    #[test]
    fn a_node_that_changed_often_is_reported_once_with_all_changes() {
        let mut log = DirtyLog::default();
        for (node, changed) in [
            (1, NodeChangeKind::Shape),
            (2, NodeChangeKind::Pods),
            (1, NodeChangeKind::Pods),
            (1, NodeChangeKind::Pods),
        ] {
            log.push(NodeIndex(node), changed, 10);
        }
        assert_eq!(read(&log, 0), [(2, NodeChangeKind::Pods), (1, NodeChangeKind::Shape)]);
        assert_eq!(read(&log, 1), [(2, NodeChangeKind::Pods), (1, NodeChangeKind::Pods)]);
        assert_eq!(read(&log, 4), []);
    }

    #[test]
    fn a_reader_that_lags_too_far_gets_none() {
        let mut log = DirtyLog::default();
        for node in 0..1000 {
            log.push(NodeIndex(node), NodeChangeKind::Pods, 10);
        }
        assert!(log.since(0).is_none() && log.since(log.end() - 64).is_some());
        assert!(log.entries.len() <= 128);
    }
}
