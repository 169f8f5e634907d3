//! Nodes that are kept free for one unit.

use super::NodeIndex;

/// The nodes of the one hold there can be.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    nodes: Vec<NodeIndex>,
    /// By node index; as long as the largest held index asks for.
    marks: Vec<bool>,
    /// Whether filters see it. The unit it is for, and those before it, are decided while they do not.
    shown: bool,
}

impl Hold {
    /// Replaces the held nodes.
    pub(super) fn set(&mut self, nodes: Vec<NodeIndex>) {
        self.marks.clear();
        for node in &nodes {
            if self.marks.len() <= node.at() {
                self.marks.resize(node.at() + 1, false);
            }
            self.marks[node.at()] = true;
        }
        self.nodes = nodes;
    }

    /// The index will stand for another node.
    pub(super) fn forget(&mut self, node: NodeIndex) {
        if self.marks.get(node.at()) == Some(&true) {
            self.marks[node.at()] = false;
            self.nodes.retain(|held| *held != node);
        }
    }

    /// Shows or hides the hold. The nodes for which that makes a difference.
    pub(super) fn show(&mut self, shown: bool) -> &[NodeIndex] {
        if std::mem::replace(&mut self.shown, shown) == shown { &[] } else { &self.nodes }
    }

    pub(super) fn nodes(&self) -> &[NodeIndex] {
        &self.nodes
    }

    pub(super) fn hides(&self, node: NodeIndex) -> bool {
        self.shown && self.marks.get(node.at()) == Some(&true)
    }
}
