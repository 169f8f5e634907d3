//! The shapes of load that the benchmarks of scheduling share: upstream's, and ours with names of the same form.

use std::fmt;
use std::str::FromStr;

use anyhow::Context;

/// Nodes of a case without `@`.
pub const DEFAULT_NODES: usize = 5_000;
/// Nodes with the same rack label.
pub const NODES_PER_RACK: usize = 100;
/// The topology key of gangs.
pub const RACK: &str = "topology.kubernetes.io/rack";
/// The namespace of all groups and pods.
pub const NAMESPACE: &str = "bench";

/// A shape of load: `gang-1000x3` is 1,000 gangs of 3 pods each.
///
/// `tas` is a gang in one rack, `basic` a group without a minimum, `single` pods without a group. `daemon`: each pod names
/// its node. `churn`: between two pods the images or labels of a node change. `-of-50`: pods of 50 sizes in turn.
/// `-leader`: the first pod of each group is twice as large. `-behind-10000`: this many pods that fit nowhere come first
/// in the queue. `-beside-10000`: this many pods run already. `@50000`: on this many nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulingCase {
    pub name: String,
    pub policy: CasePolicy,
    pub groups: usize,
    pub pods_per_group: usize,
    pub classes: usize,
    pub has_leaders: bool,
    pub blocked: usize,
    pub running: usize,
    pub variant: CaseVariant,
    pub nodes: usize,
}

/// The scheduling policy of the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CasePolicy {
    Gang,
    GangInRack,
    Basic,
    Single,
}

/// What is special about the pods or the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseVariant {
    Plain,
    /// Each pod names its node, as those of a DaemonSet do.
    NamedNodes,
    /// Images and labels of nodes change between the decisions.
    NodeChurn,
}

impl SchedulingCase {
    /// The number of pods to place.
    pub fn pods(&self) -> usize {
        self.groups * self.pods_per_group
    }

    /// CPU of the n-th pod, in thousandths. The sizes of a case differ by a thousandth each, and leaders request twice
    /// as much.
    pub fn milli_cpu(&self, number: usize) -> i64 {
        let size = 100 + i64::try_from(number % self.classes).expect("few sizes");
        if self.has_leaders && number.is_multiple_of(self.pods_per_group) { 2 * size } else { size }
    }

    /// The name of a group.
    pub fn group_name(group: usize) -> String {
        format!("group-{group:05}")
    }

    /// The name of a pod.
    pub fn pod_name(group: usize, index: usize) -> String {
        format!("pod-{group:06}-{index:04}")
    }
}

/// The rack of a node.
pub fn rack(node: usize) -> String {
    format!("rack-{}", node / NODES_PER_RACK)
}

impl FromStr for SchedulingCase {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<SchedulingCase> {
        let unknown = || {
            format!(
                "{name} is no case: it is gang-, tas- or basic-GROUPSxPODS or single-, daemon- or churn-PODS, then \
                     -of-SIZES, -leader, -behind-PODS, -beside-PODS and @NODES where wanted"
            )
        };
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0).with_context(unknown);
        let (rest, nodes) = name.split_once('@').map_or((name, None), |(rest, nodes)| (rest, Some(nodes)));
        let (rest, running) = rest.split_once("-beside-").map_or((rest, None), |(rest, pods)| (rest, Some(pods)));
        let (rest, blocked) = rest.split_once("-behind-").map_or((rest, None), |(rest, pods)| (rest, Some(pods)));
        let (rest, has_leaders) = rest.strip_suffix("-leader").map_or((rest, false), |rest| (rest, true));
        let (rest, classes) = rest.split_once("-of-").map_or((rest, None), |(rest, sizes)| (rest, Some(sizes)));
        let (kind, size) = rest.split_once('-').with_context(unknown)?;
        let variant = match kind {
            "daemon" => CaseVariant::NamedNodes,
            "churn" => CaseVariant::NodeChurn,
            _ => CaseVariant::Plain,
        };
        let policy = match kind {
            "gang" => CasePolicy::Gang,
            "tas" => CasePolicy::GangInRack,
            "basic" => CasePolicy::Basic,
            "single" | "daemon" | "churn" => CasePolicy::Single,
            _ => anyhow::bail!(unknown()),
        };
        let (groups, pods) = size.split_once('x').unwrap_or((size, "1"));
        Ok(SchedulingCase {
            name: name.to_owned(),
            policy,
            groups: number(groups)?,
            pods_per_group: number(pods)?,
            classes: classes.map_or(Ok(1), number)?,
            has_leaders,
            blocked: blocked.map_or(Ok(0), number)?,
            running: running.map_or(Ok(0), number)?,
            variant,
            nodes: nodes.map_or(Ok(DEFAULT_NODES), number)?,
        })
    }
}

impl fmt::Display for SchedulingCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_describes_the_whole_case() {
        let case: SchedulingCase = "single-10000-of-50-behind-200@50000".parse().expect("a case");
        let got = (case.policy, case.groups, case.pods_per_group, case.classes, case.blocked, case.nodes);
        assert_eq!(got, (CasePolicy::Single, 10_000, 1, 50, 200, 50_000));
        let case: SchedulingCase = "tas-750x4".parse().expect("a case");
        assert_eq!(
            (case.policy, case.pods(), case.classes, case.nodes),
            (CasePolicy::GangInRack, 3_000, 1, DEFAULT_NODES)
        );
        let case: SchedulingCase = "gang-2x4-of-2-leader@9".parse().expect("a case");
        let sizes: Vec<i64> = (0..case.pods()).map(|number| case.milli_cpu(number)).collect();
        assert_eq!((sizes, case.nodes), (vec![200, 101, 100, 101, 200, 101, 100, 101], 9));
        let case: SchedulingCase = "gang-3x1000-beside-1500000@150000".parse().expect("a case");
        assert_eq!(
            (case.pods(), case.running, case.nodes, case.variant),
            (3_000, 1_500_000, 150_000, CaseVariant::Plain)
        );
        let case: SchedulingCase = "daemon-50000@50000".parse().expect("a case");
        assert_eq!((case.policy, case.pods(), case.variant), (CasePolicy::Single, 50_000, CaseVariant::NamedNodes));
        for bad in ["gang", "gang-x3", "gang-0x3", "ring-3x3", "gang-3x3@", "single-10-of-0"] {
            assert!(bad.parse::<SchedulingCase>().is_err(), "{bad}");
        }
    }
}
