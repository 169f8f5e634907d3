//! Remedies for a refusal, and their text. Each is tried on the current cluster before it is reported.

use std::fmt;
use std::sync::Arc;

use types::Timestamp;
use types::clock::rfc3339;
use types::requests;
use types::views::ObjectKey;

use crate::decision::{ChosenDomain, Unit};

/// How many remedies the text of a condition names.
const MAX_REMEDIES_IN_CONDITION: usize = 2;
/// How many blockers a text names.
const MAX_NAMES: usize = 3;

/// The remedies for a refused unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemedyReport {
    /// Ordered by the effort for the user, the least first. Each helps by itself, if nothing else changes.
    pub remedies: Vec<Remedy>,
    /// Whether the search reached a limit: there may be other, cheaper remedies.
    pub truncated: bool,
}

/// Whether remedies for a refusal are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RemedyStatus {
    /// No search has run.
    #[default]
    NotSearched,
    /// A search is due and reports next.
    Pending,
    /// The result of the search.
    Found(Arc<RemedyReport>),
}

/// One remedy: with this change alone the unit would be placed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Lower the gang's `minCount`.
    LowerMinCount {
        /// The new `minCount`; placed members count toward it.
        to: usize,
        /// Whether it is certain that no larger value helps.
        is_largest: bool,
    },
    /// Use another topology key. The key of an existing object is immutable, so the object must be recreated.
    OtherKey {
        /// The key of the group.
        from: String,
        /// A wider one that nodes have.
        to: String,
        /// The domain in which the pods would be placed.
        value: String,
        /// The object that must be recreated.
        recreate: RootOwner,
    },
    /// Use no topology key. The object must be recreated as well.
    NoKey {
        /// The key of the group.
        from: String,
        /// The object that must be recreated.
        recreate: RootOwner,
    },
    /// Wait until running units end.
    WaitFor {
        /// The units whose end frees the capacity. All of them must end.
        blockers: Vec<Blocker>,
        /// The domain of that capacity.
        domain: Option<ChosenDomain>,
    },
    /// Wait until the reservation for another unit ends.
    ReservationEnds {
        /// The unit that the room is reserved for.
        unit: Unit,
        /// The latest end.
        until: Timestamp,
    },
    /// Add nodes.
    AddNodes {
        /// How many.
        count: usize,
        /// The node whose labels, taints and resources the new ones must have.
        like: String,
        /// The domain of the new nodes.
        domain: Option<ChosenDomain>,
    },
    /// Add larger nodes: no node, even when empty, has enough of these resources for one pod.
    LargerNodes {
        /// The requested and the available amounts.
        shortfalls: Vec<ResourceShortfall>,
    },
}

/// The object that a user created and that a group belongs to.
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
    /// Its kind in lower case (`job`, `podgroup`, `pod`).
    pub kind: String,
    /// Namespace and name.
    pub key: ObjectKey,
    /// How many of its pods are on nodes.
    pub pods_count: usize,
    /// The PodGroup of the pods, if any.
    pub group: Option<ObjectKey>,
}

/// A resource of which a pod requests more than any node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceShortfall {
    /// The resource.
    pub resource: String,
    /// What one pod requests: thousandths of a CPU, whole units of all others.
    pub wanted: i64,
    /// What the largest node has.
    pub largest: i64,
}

impl RemedyReport {
    /// `; remedies: lower minCount to 6, or wait for job a/b (8 pods)`; empty if there are none. Only the first few,
    /// because a condition is one line.
    pub(crate) fn clause(&self) -> String {
        let texts: Vec<String> = self.remedies.iter().take(MAX_REMEDIES_IN_CONDITION).map(Remedy::text).collect();
        match texts.as_slice() {
            [] => String::new(),
            [one] => format!("; remedy: {one}"),
            several => format!("; remedies: {}", several.join(", or ")),
        }
    }
}

impl Remedy {
    pub(crate) fn is_about_nodes(&self) -> bool {
        matches!(self, Remedy::AddNodes { .. } | Remedy::LargerNodes { .. })
    }

    /// The remedy as an instruction.
    pub fn text(&self) -> String {
        match self {
            Remedy::LowerMinCount { to, .. } => format!("lower minCount to {to}"),
            Remedy::OtherKey { from, to, recreate, .. } => {
                format!("recreate {recreate} with the topology key {to} instead of {from}")
            }
            Remedy::NoKey { from, recreate } => format!("recreate {recreate} without the topology key {from}"),
            Remedy::WaitFor { blockers, domain } => {
                let place = domain.as_ref().map(|domain| format!(" in {}", domain.text())).unwrap_or_default();
                format!("wait for {}{place}", names(blockers))
            }
            Remedy::ReservationEnds { unit, until } => {
                format!("wait until the reservation for {} ends, {} at the latest", unit.key(), rfc3339(*until))
            }
            Remedy::AddNodes { count, like, domain } => {
                let nodes = if *count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
                let place = domain.as_ref().map(|domain| format!(" to {}", domain.text())).unwrap_or_default();
                format!("add {nodes} like {like}{place}")
            }
            Remedy::LargerNodes { shortfalls } => {
                let each: Vec<String> = shortfalls.iter().map(ResourceShortfall::text).collect();
                format!("add larger nodes or request less: {}", each.join(", "))
            }
        }
    }
}

impl ResourceShortfall {
    /// `a pod requests nvidia.com/gpu 16, the largest node has 8`.
    fn text(&self) -> String {
        let ResourceShortfall { resource, wanted, largest } = self;
        let amount = |amount: i64| requests::format_amount(resource, amount);
        format!("a pod requests {resource} {}, the largest node has {}", amount(*wanted), amount(*largest))
    }

    /// What one pod requests, as in manifests.
    pub fn wanted_text(&self) -> String {
        requests::format_amount(&self.resource, self.wanted)
    }

    /// What the largest node has, as in manifests.
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

fn names(blockers: &[Blocker]) -> String {
    let name = |one: &Blocker| match (one.kind.as_str(), one.pods_count) {
        ("pod", _) => format!("pod {}", one.key),
        (kind, 1) => format!("{kind} {} (1 pod)", one.key),
        (kind, count) => format!("{kind} {} ({count} pods)", one.key),
    };
    let mut named: Vec<String> = blockers.iter().take(MAX_NAMES).map(name).collect();
    let rest = blockers.len() - named.len();
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
    fn a_few_blockers_are_named_and_the_rest_is_counted() {
        let wait_for = |count: usize| Remedy::WaitFor {
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
        assert_eq!(wait_for(1).text(), "wait for pod ns/j0");
        assert_eq!(wait_for(2).text(), "wait for pod ns/j0 and job ns/j1 (1 pod)");
        assert_eq!(wait_for(5).text(), "wait for pod ns/j0, job ns/j1 (1 pod), job ns/j2 (2 pods) and 2 more");
    }

    #[test]
    fn larger_nodes_names_the_requested_and_the_largest_amount() {
        let shortfalls = vec![ResourceShortfall { resource: "memory".to_owned(), wanted: 2 << 40, largest: 1 << 40 }];
        let text = Remedy::LargerNodes { shortfalls }.text();
        assert_eq!(text, "add larger nodes or request less: a pod requests memory 2Ti, the largest node has 1Ti");
    }
}
