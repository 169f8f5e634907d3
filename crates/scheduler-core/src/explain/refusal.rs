//! Why a unit does not fit, and its message. A refusal is a result with reasons, not an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::views::ObjectKey;

use crate::decision::Unit;
use crate::explain::remedies::RemedyStatus;
use crate::plugins::id::PluginId;

/// How many nodes a message names.
const MAX_NODES: usize = 3;

/// Why a unit waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The unit.
    pub unit: Unit,
    /// The kind of obstacle.
    pub cause: RefusalCause,
    /// Whether the unit is a gang: at least `wanted_count` pods or none.
    pub is_gang: bool,
    /// How many members must be placed: `minCount`, or 1.
    pub wanted_count: usize,
    /// How many pods are pending.
    pub pods_count: usize,
    /// How many members are already placed; they count toward `wanted_count`.
    pub placed_count: usize,
    /// How many of the pods fit at most, in the best domain.
    pub fits_count: usize,
    /// The number of nodes.
    pub nodes_count: usize,
    /// The domain in which most pods fit, for a unit with a topology key.
    pub nearest: Option<NearestDomain>,
    /// Reasons over all nodes, for the first pod that does not fit.
    pub reasons: Histogram,
    /// Every domain of the topology key that the unit may use, by value; empty without a key.
    pub domains: Arc<[DomainReport]>,
    /// Whether it is certain that the unit does not fit now. Otherwise no placement was found.
    pub proven: bool,
    /// Whether the unit could fit once running pods leave. If not, only other nodes or another request can help.
    pub can_fit_later: bool,
    /// Pods that name the group but are not placed with it.
    pub excluded: ExcludedCounts,
    /// Changes that would let the unit fit.
    pub remedies: RemedyStatus,
}

/// Pods that name a group but are not placed with it now, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExcludedCounts {
    /// They have scheduling gates.
    pub gated_count: usize,
    /// They belong to another scheduler.
    pub other_scheduler_count: usize,
    /// The group belongs to another owner.
    pub other_owner_count: usize,
    /// Their priority differs from the group's, and the configuration refuses that.
    pub priority_mismatch_count: usize,
    /// They have placement terms that no plugin supports.
    pub unsupported_count: usize,
}

impl ExcludedCounts {
    /// ` (1 is gated, 2 belong to another owner)`; empty when there are none.
    fn text(self) -> String {
        let of = |count: usize, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            _ => Some(format!("{count} {many}")),
        };
        let all = [
            of(self.gated_count, "is gated", "are gated"),
            of(self.other_scheduler_count, "belongs to another scheduler", "belong to another scheduler"),
            of(self.other_owner_count, "belongs to another owner", "belong to another owner"),
            of(self.priority_mismatch_count, "has another priority", "have another priority"),
            of(self.unsupported_count, "has unsupported terms", "have unsupported terms"),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
    }
}

/// The kind of obstacle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// Not enough capacity on the nodes.
    DoesNotFit,
    /// A gang with fewer pods than it needs.
    Incomplete,
    /// The pods name a PodGroup that does not exist.
    NoPodGroup,
    /// A CompositePodGroup above the PodGroup does not exist, or the server does not serve its kind.
    NoParent {
        /// The CompositePodGroup.
        parent: ObjectKey,
    },
    /// A CompositePodGroup above the PodGroup requests more than Basic, which is not supported yet.
    ParentNotBasic {
        /// The CompositePodGroup.
        parent: ObjectKey,
    },
    /// CompositePodGroups above the PodGroup are parents of each other.
    ParentCycle {
        /// Each is the parent of the previous one, and the first is that of the last.
        parents: Vec<ObjectKey>,
    },
    /// No node has the topology key.
    NoDomain {
        /// The topology key.
        key: String,
    },
    /// Members already run in several domains of their topology key, or on nodes without the label.
    MembersSplit {
        /// The topology key.
        key: String,
        /// The domains, sorted.
        values: Vec<String>,
        /// Nodes of members without the label, sorted.
        unlabelled: Vec<String>,
    },
    /// A Basic group with a topology key has gated pods.
    Gated,
    /// The pod, or pods of the gang, have placement terms that no plugin supports.
    UnsupportedTerms {
        /// The fields of the pod's spec.
        fields: Vec<&'static str>,
    },
    /// The pod names a group of another owner.
    OtherOwner {
        /// The group.
        group: ObjectKey,
    },
    /// The pod's priority differs from its group's.
    PriorityMismatch {
        /// The group.
        group: ObjectKey,
    },
}

/// The domain in which most pods fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestDomain {
    /// Topology key.
    pub key: String,
    /// Label value.
    pub value: String,
    /// How many of the pending pods fit there.
    pub fits_count: usize,
    /// How many more would have to fit.
    pub missing_count: usize,
    /// The number of its nodes.
    pub nodes_count: usize,
    /// What its nodes lack once their slots are used.
    pub reasons: Histogram,
    /// Whether running members leave no other choice.
    pub pinned: bool,
}

/// One domain in a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainReport {
    /// Label value.
    pub value: String,
    /// The number of its nodes.
    pub nodes_count: usize,
    /// How many pods of the unit fit there.
    pub fits_count: u64,
    /// The pods have several sizes, which were counted as if each were alone: perhaps fewer fit together.
    pub is_upper_bound: bool,
    /// What its nodes lack once their slots are used.
    pub reasons: Histogram,
}

/// How many nodes each reason refuses; a node can have several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(pub BTreeMap<RefusalReason, usize>);

/// Why nodes are refused. Orders by its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusalReason {
    /// The text that follows a number of nodes, in kube-scheduler's words. For people: code reads the other fields.
    pub text: String,
    /// The plugin that refuses the nodes.
    pub plugin: PluginId,
    /// The resource of which they have too little, if that is the reason.
    pub resource: Option<String>,
}

impl Refusal {
    pub(crate) fn new(unit: Unit, wanted_count: usize, pods_count: usize, placed_count: usize) -> Refusal {
        Refusal {
            unit,
            cause: RefusalCause::DoesNotFit,
            is_gang: false,
            wanted_count,
            pods_count,
            placed_count,
            fits_count: 0,
            nodes_count: 0,
            nearest: None,
            reasons: Histogram::default(),
            domains: Arc::from([]),
            proven: false,
            can_fit_later: false,
            excluded: ExcludedCounts::default(),
            remedies: RemedyStatus::NotSearched,
        }
    }

    /// Whether the unit has what it requires, and only extra pods wait. Its group then counts as scheduled.
    pub fn is_about_extra_pods(&self) -> bool {
        self.placed_count >= self.wanted_count
    }

    /// Whether only capacity that running pods use is missing for what the unit requires.
    pub(crate) fn lacks_capacity(&self) -> bool {
        self.cause == RefusalCause::DoesNotFit && self.can_fit_later && !self.is_about_extra_pods()
    }

    /// The text for the condition of the group, or of the pod if it has none; with remedies, if there are any.
    pub fn message(&self) -> String {
        self.plain_message() + &self.remedies_clause()
    }

    /// The same without remedies.
    pub fn plain_message(&self) -> String {
        match &self.cause {
            RefusalCause::Incomplete => {
                let existing = self.pods_count + self.placed_count;
                let excluded = self.excluded.text();
                format!("waiting for pods: {existing} of minCount {} exist{excluded}", self.wanted_count)
            }
            RefusalCause::Gated => {
                let excluded = self.excluded.text();
                format!("waiting for all pods of the group, which must share one topology domain{excluded}")
            }
            RefusalCause::UnsupportedTerms { fields } => format!(
                "this scheduler does not support {}; such pods wait unless scheduler.unsupportedTerms is set to ignore",
                fields.join(", ")
            ),
            RefusalCause::OtherOwner { group } => format!("podgroup {group} belongs to another owner than this pod"),
            RefusalCause::PriorityMismatch { group } => {
                format!("the priority of this pod differs from that of podgroup {group}")
            }
            RefusalCause::NoPodGroup => format!("waiting for podgroup {} to exist", self.unit.key()),
            RefusalCause::NoParent { parent } => format!("waiting for compositepodgroup {parent} to exist"),
            RefusalCause::ParentNotBasic { parent } => format!(
                "compositepodgroup {parent} requests more than Basic, which this scheduler does not support yet; the pods \
            wait because they would start without their sibling groups"
            ),
            RefusalCause::ParentCycle { parents } => {
                let chain: Vec<String> = parents.iter().chain(parents.first()).map(ObjectKey::to_string).collect();
                let chain = chain.join(" → ");
                format!("the parents of the group form a cycle, compositepodgroup {chain}: delete one of them")
            }
            RefusalCause::NoDomain { key } => format!("no node has the topology label {key}"),
            RefusalCause::MembersSplit { key, values, .. } if values.len() > 1 => {
                format!("members already run in several domains of {key}: {}", values.join(", "))
            }
            RefusalCause::MembersSplit { key, unlabelled, .. } => unlabelled_message(key, unlabelled),
            RefusalCause::DoesNotFit if matches!(self.unit, Unit::Pod(_)) => self.pod_message(),
            RefusalCause::DoesNotFit => self.group_message(),
        }
    }

    /// `; remedies: …`; empty if none are known.
    fn remedies_clause(&self) -> String {
        match &self.remedies {
            RemedyStatus::Found(report) => report.clause(),
            RemedyStatus::NotSearched | RemedyStatus::Pending => String::new(),
        }
    }

    /// The text for the condition of each pending pod, in kube-scheduler's form.
    pub fn pod_message(&self) -> String {
        if self.cause != RefusalCause::DoesNotFit {
            return self.plain_message();
        }
        if self.nodes_count == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut counts: Vec<_> =
            self.reasons.0.iter().map(|(reason, count)| format!("{count} {}", reason.text)).collect();
        counts.sort_unstable();
        let (fit, wanted) = (self.placed_count + self.fits_count, self.wanted_count);
        // If some pods fit, the group is refused, and no node alone would help a pod of it.
        let group = match self.unit {
            Unit::Group(_) if self.is_gang && (1..wanted).contains(&fit) => {
                format!("pod group is unschedulable, {fit} of {wanted} pods fit; for one more ")
            }
            Unit::Group(_) | Unit::Pod(_) => String::new(),
        };
        format!("{group}0/{} nodes are available: {}.", self.nodes_count, counts.join(", "))
    }

    fn group_message(&self) -> String {
        let (place, nodes_count, reasons) = match &self.nearest {
            Some(domain) => {
                let which = if domain.pinned { "the domain of its members" } else { "the nearest domain" };
                let place = format!(" in {which} {}={}", domain.key, domain.value);
                (place, domain.nodes_count, &domain.reasons)
            }
            None => (String::new(), self.nodes_count, &self.reasons),
        };
        let lacking = if nodes_count == 0 { "there are no nodes".to_owned() } else { reasons.describe(nodes_count) };
        // Without a number: pods arrive one by one, and the message stays in the condition for some seconds.
        if self.is_about_extra_pods() {
            return format!("no more pods fit{place} ({lacking})");
        }
        if !self.is_gang {
            return format!("no pod fits{place} ({lacking})");
        }
        let fit = self.placed_count + self.fits_count;
        let (wanted, missing) = (self.wanted_count, self.wanted_count.saturating_sub(fit));
        format!("gang of {wanted} does not fit: {fit} of {wanted} pods fit{place} ({missing} more needed; {lacking})")
    }
}

impl Histogram {
    /// The number of nodes by text.
    pub fn by_text(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (reason, count) in &self.0 {
            *counts.entry(reason.text.clone()).or_default() += count;
        }
        counts
    }

    /// Whether some node has too little of a resource.
    pub fn lacks(&self, resource: &str) -> bool {
        self.0.keys().any(|reason| reason.resource.as_deref() == Some(resource))
    }

    /// `Insufficient cpu on 2 of 8 nodes, 1 of 8 nodes were unschedulable`: most nodes first.
    pub fn describe(&self, nodes_count: usize) -> String {
        let mut entries: Vec<_> = self.0.iter().collect();
        entries.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
        let text = |(reason, count): (&RefusalReason, &usize)| match reason.text.strip_prefix("node(s) ") {
            Some(rest) => format!("{count} of {nodes_count} nodes {rest}"),
            None => format!("{} on {count} of {nodes_count} nodes", reason.text),
        };
        entries.into_iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

/// The message for members on nodes without the topology label.
fn unlabelled_message(key: &str, nodes: &[String]) -> String {
    match nodes {
        [node] => format!(
            "members already run on node {node}, which has no label {key}: label the node, or delete the members on it"
        ),
        _ => {
            let named = nodes.iter().take(MAX_NODES).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = match nodes.len().saturating_sub(MAX_NODES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "members already run on nodes {named}{more}, which have no label {key}: label the nodes, or delete the \
                 members on them"
            )
        }
    }
}
