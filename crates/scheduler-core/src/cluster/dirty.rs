//! Which nodes changed since a reader last looked.
//!
//! Each node is listed once, at its last change. So a reader visits as many nodes as changed, however often they did
//! and however long ago it last looked.
//!
//! Changes within a trial that is undone are reported only to readers that looked during the trial.

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

/// A moment in the log: what its reader has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    /// The number of changes so far.
    at: u64,
    /// It was read during a trial, so changes that were undone since then matter.
    in_trial: bool,
}

/// The length of the undo list when a trial began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrialStart(usize);

/// Nodes in the order of their last changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirtyLog {
    /// The number of changes so far, undone ones included.
    end: u64,
    /// By node.
    nodes: Vec<NodeHistory>,
    /// The node that changed last.
    newest: Option<NodeIndex>,
    /// For each change of pods in the present trials: the node, and its last change before.
    undo: Vec<(NodeIndex, u64)>,
    trials_count: usize,
}

/// The last changes of a node, each as the number of changes up to it; 0: none.
#[derive(Clone, Copy, Debug, Default)]
struct NodeHistory {
    /// The last change that was not undone.
    changed: u64,
    /// The last change of more than pods.
    reshaped: u64,
    /// The last change of all.
    touched: u64,
    /// The neighbours in the order of `touched`.
    older: Option<NodeIndex>,
    newer: Option<NodeIndex>,
}

impl DirtyLog {
    /// Records a change that is never undone.
    pub(crate) fn push(&mut self, node: NodeIndex, changed: NodeChangeKind) {
        self.touch(node);
        let end = self.end;
        let history = &mut self.nodes[node.at()];
        history.changed = end;
        if changed == NodeChangeKind::Shape {
            history.reshaped = end;
        }
        // The trials around it cannot make it undone.
        self.undo.iter_mut().for_each(|(_, before)| *before = end);
    }

    /// Records a change of a node's pods. Within a trial it can be undone.
    pub(crate) fn push_pods(&mut self, node: NodeIndex) {
        self.touch(node);
        let end = self.end;
        let before = std::mem::replace(&mut self.nodes[node.at()].changed, end);
        if self.trials_count > 0 {
            self.undo.push((node, before));
        }
    }

    /// Begins a trial. It ends with [`end_trial`](Self::end_trial); inner trials end before outer ones.
    pub(crate) fn begin_trial(&mut self) -> TrialStart {
        self.trials_count += 1;
        TrialStart(self.undo.len())
    }

    /// Ends a trial. Its changes stay, unless they are undone before or by an outer trial.
    pub(crate) fn end_trial(&mut self) {
        self.trials_count -= 1;
        if self.trials_count == 0 {
            self.undo.clear();
        }
    }

    /// Forgets all changes of pods since a trial began but its first `changes_count`. The caller has reverted them.
    pub(crate) fn undo(&mut self, start: TrialStart, changes_count: usize) {
        for (node, before) in self.undo.drain(start.0 + changes_count..).rev() {
            self.nodes[node.at()].changed = before;
        }
    }

    /// The number of changes so far, undone ones included.
    #[cfg(test)]
    pub(crate) fn changes_count(&self) -> u64 {
        self.end
    }

    /// The position of a reader that has applied all changes.
    pub(crate) fn end(&self) -> LogPosition {
        LogPosition { at: self.end, in_trial: self.trials_count > 0 }
    }

    /// Whether nothing changed since `position`.
    pub(crate) fn is_end(&self, position: LogPosition) -> bool {
        position.at == self.end
    }

    /// The nodes that changed since `position`, each once, the last one first.
    pub(crate) fn since(&self, position: LogPosition) -> impl Iterator<Item = TouchedNode> + '_ {
        let LogPosition { at, in_trial } = position;
        let history = |node: &NodeIndex| &self.nodes[node.at()];
        let nodes = std::iter::successors(self.newest, move |node| history(node).older);
        let touched = nodes.take_while(move |node| history(node).touched > at);
        touched.filter(move |node| in_trial || history(node).changed > at).map(move |node| {
            let is_reshaped = history(&node).reshaped > at;
            TouchedNode { node, changed: if is_reshaped { NodeChangeKind::Shape } else { NodeChangeKind::Pods } }
        })
    }

    /// Counts a change and makes the node the newest.
    fn touch(&mut self, node: NodeIndex) {
        self.end += 1;
        if self.nodes.len() <= node.at() {
            self.nodes.resize(node.at() + 1, NodeHistory::default());
        }
        let history = &mut self.nodes[node.at()];
        let is_listed = std::mem::replace(&mut history.touched, self.end) > 0;
        if self.newest == Some(node) {
            return;
        }
        let (older, newer) = (std::mem::replace(&mut history.older, self.newest), history.newer.take());
        if is_listed {
            if let Some(older) = older {
                self.nodes[older.at()].newer = newer;
            }
            if let Some(newer) = newer {
                self.nodes[newer.at()].older = older;
            }
        }
        if let Some(newest) = self.newest.replace(node) {
            self.nodes[newest.at()].newer = Some(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeIndex = NodeIndex(0);
    const B: NodeIndex = NodeIndex(1);
    const C: NodeIndex = NodeIndex(2);

    fn read(log: &DirtyLog, position: LogPosition) -> Vec<(NodeIndex, NodeChangeKind)> {
        log.since(position).map(|touch| (touch.node, touch.changed)).collect()
    }

    #[test]
    fn a_reader_that_keeps_up_reads_every_change_once() {
        let mut log = DirtyLog::default();
        let (mut position, mut all) = (log.end(), Vec::new());
        for node in 0..1000 {
            log.push_pods(NodeIndex(node));
            if node % 7 == 0 {
                all.extend(read(&log, position).into_iter().rev());
                position = log.end();
            }
        }
        all.extend(read(&log, position).into_iter().rev());
        assert_eq!(all, (0..1000).map(|node| (NodeIndex(node), NodeChangeKind::Pods)).collect::<Vec<_>>());
    }

    #[test]
    fn a_node_that_changed_often_is_reported_once_with_all_changes() {
        let mut log = DirtyLog::default();
        let start = log.end();
        log.push(A, NodeChangeKind::Shape);
        let reshaped = log.end();
        log.push_pods(B);
        (0..1000).for_each(|_| log.push_pods(A));
        assert_eq!(read(&log, start), [(A, NodeChangeKind::Shape), (B, NodeChangeKind::Pods)]);
        assert_eq!(read(&log, reshaped), [(A, NodeChangeKind::Pods), (B, NodeChangeKind::Pods)]);
        assert_eq!(read(&log, log.end()), []);
    }

    #[test]
    fn nodes_are_listed_in_the_order_of_their_last_change() {
        let mut log = DirtyLog::default();
        let start = log.end();
        for node in [A, B, C, B, B, A, C] {
            log.push_pods(node);
        }
        let nodes: Vec<_> = log.since(start).map(|touch| touch.node).collect();
        assert_eq!(nodes, [C, A, B]);
    }

    #[test]
    fn an_undone_trial_is_read_only_by_readers_that_looked_during_it() {
        let mut log = DirtyLog::default();
        log.push_pods(A);
        let before = log.end();
        let trial = log.begin_trial();
        log.push_pods(A);
        log.push_pods(B);
        let during = log.end();
        log.push_pods(B);
        log.push_pods(A);
        log.undo(trial, 0);
        log.end_trial();
        assert_eq!(read(&log, before), []);
        assert_eq!(read(&log, during), [(A, NodeChangeKind::Pods), (B, NodeChangeKind::Pods)]);
        assert_eq!(read(&log, log.end()), []);
    }

    #[test]
    fn changes_of_an_ended_trial_stay_and_an_outer_trial_undoes_them() {
        let mut log = DirtyLog::default();
        let before = log.end();
        let outer = log.begin_trial();
        let inner = log.begin_trial();
        log.push_pods(A);
        log.push_pods(B);
        log.push_pods(B);
        log.undo(inner, 1);
        log.end_trial();
        assert_eq!(read(&log, before), [(A, NodeChangeKind::Pods)]);
        log.push_pods(A);
        log.undo(outer, 0);
        log.end_trial();
        assert_eq!(read(&log, before), []);
        log.push_pods(C);
        assert_eq!(read(&log, before), [(C, NodeChangeKind::Pods)]);
    }

    #[test]
    fn a_change_that_is_not_undone_is_read_although_the_trial_around_it_is() {
        let mut log = DirtyLog::default();
        let before = log.end();
        let trial = log.begin_trial();
        log.push_pods(A);
        log.push(A, NodeChangeKind::Pods);
        log.push_pods(A);
        log.undo(trial, 0);
        log.end_trial();
        assert_eq!(read(&log, before), [(A, NodeChangeKind::Pods)]);
    }
}
