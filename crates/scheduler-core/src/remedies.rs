//! Ways out of a refusal, and their words. Each was tried on the cluster as it is before it is said.

use std::fmt;
use std::sync::Arc;

use types::Timestamp;
use types::clock::rfc3339;
use types::requests;
use types::views::ObjectKey;

use crate::decision::ChosenDomain;

/// How many ways the text of a condition names.
const MAX_REMEDIES_IN_CONDITION: usize = 2;
/// How many of those who are to leave a text names.
const MAX_NAMES: usize = 3;

/// What would help a refused unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemedyReport {
    /// What asks least of the user first. Each helps by itself, if nothing else changes.
    pub remedies: Vec<Remedy>,
    /// Whether the search for ways ended before everything was looked at: there may be others, and cheaper ones.
    pub truncated: bool,
}

/// Whether ways out of a refusal are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RemedyStatus {
    /// Nobody has looked for any.
    #[default]
    NotSearched,
    /// They are being looked for, and told next.
    Pending,
    /// These were found.
    Found(Arc<RemedyReport>),
}

/// One way out: with this change alone the unit would be placed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A gang asks for fewer pods.
    LowerMinCount {
        /// The new `minCount`; members that have their place already count.
        to: usize,
        /// Whether it is certain that no larger number would do.
        is_largest: bool,
    },
    /// The pods share a domain of another key. The key of an object that exists cannot be changed, so that it has to be
    /// deleted and created anew.
    OtherKey {
        /// The key of the group.
        from: String,
        /// A wider one that nodes carry.
        to: String,
        /// The domain in which they would be.
        value: String,
        /// What has to be created anew.
        recreate: RootOwner,
    },
    /// The pods need not share a domain. This needs a new object as well.
    NoKey {
        /// The key of the group.
        from: String,
        /// What has to be created anew.
        recreate: RootOwner,
    },
    /// Some of what runs ends.
    WaitFor {
        /// Whose end would make room, if all of them end. None of them can be spared.
        blockers: Vec<Blocker>,
        /// The domain in which that is.
        domain: Option<ChosenDomain>,
    },
    /// Room is no longer held for another group.
    ReservationEnds {
        /// The group.
        group: ObjectKey,
        /// When that is at the latest.
        until: Timestamp,
    },
    /// There are more nodes.
    AddNodes {
        /// How many.
        count: usize,
        /// With the labels, taints and resources of this node.
        like: String,
        /// The domain they have to be in.
        domain: Option<ChosenDomain>,
    },
    /// No node has enough of these for one pod, even without any others on it.
    LargerNodes {
        /// What is asked for, and what there is.
        shortfalls: Vec<ResourceShortfall>,
    },
}

/// The object that a user has made and from which a group comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootOwner {
    /// Its kind in lower case (`job`, `podgroup`).
    pub kind: String,
    /// Namespace and name.
    pub key: ObjectKey,
}

impl fmt::Display for RootOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

/// A running unit whose end would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// What runs: the kind in lower case (`job`, `podgroup`, `pod`).
    pub kind: String,
    /// Namespace and name.
    pub key: ObjectKey,
    /// How many pods it has on nodes.
    pub pods_count: usize,
    /// The PodGroup of the pods, where they have one.
    pub group: Option<ObjectKey>,
}

/// More of a resource is asked for than any node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceShortfall {
    /// The resource.
    pub resource: String,
    /// What one pod asks for: thousandths of a CPU, whole units of all others.
    pub wanted: i64,
    /// What the largest node has.
    pub largest: i64,
}

impl RemedyReport {
    /// `; ways out: lower minCount to 6, or wait for job a/b (8 pods)`; nothing where there are none. The first few only:
    /// a condition is a line.
    pub(crate) fn clause(&self) -> String {
        let ways: Vec<String> = self.remedies.iter().take(MAX_REMEDIES_IN_CONDITION).map(Remedy::text).collect();
        match ways.as_slice() {
            [] => String::new(),
            [one] => format!("; way out: {one}"),
            many => format!("; ways out: {}", many.join(", or ")),
        }
    }
}

impl Remedy {
    pub(crate) fn is_about_nodes(&self) -> bool {
        matches!(self, Remedy::AddNodes { .. } | Remedy::LargerNodes { .. })
    }

    /// In words, as something to do.
    pub fn text(&self) -> String {
        match self {
            Remedy::LowerMinCount { to, .. } => format!("lower minCount to {to}"),
            Remedy::OtherKey { from, to, recreate, .. } => {
                format!("recreate {recreate} with the topology key {to} instead of {from}")
            }
            Remedy::NoKey { from, recreate } => format!("recreate {recreate} without the topology key {from}"),
            Remedy::WaitFor { blockers: leaving, domain } => {
                let place = domain.as_ref().map(|domain| format!(" in {}", domain.text())).unwrap_or_default();
                format!("wait for {}{place}", names(leaving))
            }
            Remedy::ReservationEnds { group, until } => {
                format!("wait until the hold for {group} ends, {} at the latest", rfc3339(*until))
            }
            Remedy::AddNodes { count, like, domain } => {
                let nodes = if *count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
                let place = domain.as_ref().map(|domain| format!(" to {}", domain.text())).unwrap_or_default();
                format!("add {nodes} like {like}{place}")
            }
            Remedy::LargerNodes { shortfalls: lacking } => {
                let each: Vec<String> = lacking.iter().map(ResourceShortfall::text).collect();
                format!("add larger nodes or ask for less: {}", each.join(", "))
            }
        }
    }
}

impl ResourceShortfall {
    /// `nvidia.com/gpu 16, the largest node has 8`.
    fn text(&self) -> String {
        let ResourceShortfall { resource, wanted, largest } = self;
        let amount = |amount: i64| requests::format_amount(resource, amount);
        format!("a pod asks for {resource} {}, the largest node has {}", amount(*wanted), amount(*largest))
    }

    /// What one pod asks for, as manifests write it.
    pub fn wanted_text(&self) -> String {
        requests::format_amount(&self.resource, self.wanted)
    }

    /// What the largest node has, as manifests write it.
    pub fn largest_text(&self) -> String {
        requests::format_amount(&self.resource, self.largest)
    }
}

impl ChosenDomain {
    /// `rack=r1`.
    pub fn text(&self) -> String {
        format!("{}={}", self.key, self.value)
    }
}

fn names(leaving: &[Blocker]) -> String {
    let name = |one: &Blocker| match (one.kind.as_str(), one.pods_count) {
        ("pod", _) => format!("pod {}", one.key),
        (kind, 1) => format!("{kind} {} (1 pod)", one.key),
        (kind, count) => format!("{kind} {} ({count} pods)", one.key),
    };
    let mut named: Vec<String> = leaving.iter().take(MAX_NAMES).map(name).collect();
    let rest = leaving.len() - named.len();
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    match named.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocker, Remedy, ResourceShortfall};
    use types::views::ObjectKey;

    #[test]
    fn those_who_leave_are_named_and_many_are_counted() {
        let leaving = |count: usize| Remedy::WaitFor {
            blockers: (0..count)
                .map(|n| Blocker {
                    kind: if n == 0 { "pod" } else { "job" }.to_owned(),
                    key: ObjectKey::new("ns", format!("j{n}")),
                    pods_count: n,
                    group: None,
                })
                .collect(),
            domain: None,
        };
        assert_eq!(leaving(1).text(), "wait for pod ns/j0");
        assert_eq!(leaving(2).text(), "wait for pod ns/j0 and job ns/j1 (1 pod)");
        assert_eq!(leaving(5).text(), "wait for pod ns/j0, job ns/j1 (1 pod), job ns/j2 (2 pods) and 2 more");
    }

    #[test]
    fn what_no_node_has_is_told_with_what_there_is() {
        let lacking = vec![ResourceShortfall { resource: "memory".to_owned(), wanted: 2 << 40, largest: 1 << 40 }];
        let text = Remedy::LargerNodes { shortfalls: lacking }.text();
        assert_eq!(text, "add larger nodes or ask for less: a pod asks for memory 2Ti, the largest node has 1Ti");
    }
}
