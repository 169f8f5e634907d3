//! Which nodes changed, in order.

use super::NodeIndex;

/// One change of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch(u32);

impl Touch {
    /// Only pods came or went.
    pub(crate) fn pods(node: NodeIndex) -> Touch {
        Touch(node.0 << 1)
    }

    /// Labels, taints, allocatable or the node's existence changed.
    pub(crate) fn shape(node: NodeIndex) -> Touch {
        Touch(node.0 << 1 | 1)
    }

    /// The node.
    pub(crate) fn node(self) -> NodeIndex {
        NodeIndex(self.0 >> 1)
    }

    /// Whether more than its pods changed.
    pub(crate) fn is_shape(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The last changes; at least as many as there are nodes, because whoever lags by more reads all nodes instead.
#[derive(Debug, Default)]
pub(crate) struct DirtyLog {
    /// Position of the first entry still here.
    base: u64,
    entries: Vec<Touch>,
}

impl DirtyLog {
    pub(crate) fn push(&mut self, touch: Touch, width: usize) {
        let keep = width.max(64);
        if self.entries.len() >= 2 * keep {
            let drop = self.entries.len() - keep;
            self.entries.drain(..drop);
            self.base += drop as u64;
        }
        self.entries.push(touch);
    }

    pub(crate) fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    pub(crate) fn since(&self, seen: u64) -> Option<&[Touch]> {
        let skip = usize::try_from(seen.checked_sub(self.base)?).ok()?;
        self.entries.get(skip..)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_reader_that_keeps_up_sees_every_change_once() {
        let mut log = DirtyLog::default();
        let (mut seen, mut read) = (0, Vec::new());
        for node in 0..1000 {
            log.push(Touch::pods(NodeIndex(node)), 10);
            if node % 7 == 0 {
                read.extend(log.since(seen).unwrap().iter().map(|touch| touch.node().0));
                seen = log.end();
            }
        }
        read.extend(log.since(seen).unwrap().iter().map(|touch| touch.node().0));
        assert_eq!(read, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_reader_that_lags_too_far_is_told_so() {
        let mut log = DirtyLog::default();
        for node in 0..1000 {
            log.push(Touch::pods(NodeIndex(node)), 10);
        }
        assert_eq!(log.since(0), None);
        assert!(log.entries.len() <= 128);
    }
}
