//! Requests and responses of the query API, version `phalanx.dev/v1alpha1`. Server and clients share these types.
//!
//! Codes (`state`, `code`, `type`, `reason`) are for programs; messages and texts are for people and may change. Clients
//! ignore fields that they do not know and read codes that they do not know as `Unknown`.

use std::collections::BTreeMap;
use std::fmt;

use api::Timestamp;
use api::kinds::{self, ApiResource};
use api::views::ObjectKey;
use serde::{Deserialize, Serialize};

/// `apiVersion` of the responses.
pub const API_VERSION: &str = "phalanx.dev/v1alpha1";
/// Where an API server with a scheduler serves the query API. The listener for metrics serves it at the root.
pub const SERVER_ROOT: &str = "/apis/phalanx.dev/v1alpha1";
/// Path of the queue, below the root.
pub const QUEUE_PATH: &str = "/queue";
/// Path of explanations, below the root, with the parameters `kind`, `namespace` and `name`.
pub const EXPLAIN_PATH: &str = "/explain";

/// Response of `/queue`: every unit with a pending decision, in queue order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueResponse {
    /// [`API_VERSION`].
    pub api_version: String,
    /// `SchedulerQueue`.
    pub kind: String,
    /// The response includes every change of a pod up to this revision.
    pub resource_version: String,
    /// The units, in queue order.
    pub units: Vec<QueueItem>,
}

/// A unit in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueItem {
    /// The unit.
    pub unit: UnitReference,
    /// Its place and state in the queue.
    #[serde(flatten)]
    pub position: QueuePosition,
    /// Why its last decision refused it.
    pub refusal_code: Option<RefusalCode>,
    /// The same for people.
    pub message: Option<String>,
}

/// Place and state of a unit in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuePosition {
    /// What the unit waits for.
    pub state: QueueState,
    /// Place in queue order, from 1. Units that wait for a change do not block those behind them.
    pub position: usize,
    /// Priority of the unit.
    pub priority: i32,
    /// Pending pods.
    pub pods: usize,
    /// Scheduling attempts since the unit was last placed.
    pub attempts: u32,
    /// Creation time of the oldest pending pod.
    pub since: Option<Timestamp>,
    /// When the unit is decided again in any case. Without it, a change of the cluster is needed.
    pub next_attempt: Option<Timestamp>,
    /// The room that is reserved for the unit.
    #[serde(default)]
    pub reservation: Option<UnitReservation>,
}

/// Room that is reserved for a unit: pods that end there leave it to the unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitReservation {
    /// When it began.
    pub since: Timestamp,
    /// Its latest end.
    pub until: Timestamp,
    /// For how many pods of the unit.
    pub pods: usize,
    /// How many of them the free part has room for.
    pub free_pods: usize,
    /// On how many nodes.
    pub nodes: usize,
}

/// What a unit in the queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueState {
    /// It is decided in queue order.
    Active,
    /// A bind failed; the unit backs off.
    BackOff,
    /// It does not fit and waits for a change that can help.
    Waiting,
    /// It waits for pods or for its PodGroup.
    Incomplete,
    /// It needs something that this scheduler does not support.
    Unsupported,
    /// A state of a newer version.
    #[serde(other)]
    Unknown,
}

/// Response of `/explain`: the units of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainResponse {
    /// [`API_VERSION`].
    pub api_version: String,
    /// `SchedulerExplanation`.
    pub kind: String,
    /// The response includes every change of a pod up to this revision.
    pub resource_version: String,
    /// The object of the request.
    pub target: ExplainTarget,
    /// One report per unit of the object.
    pub units: Vec<UnitReport>,
    /// Whether the object has more units than reported.
    pub truncated: bool,
}

/// The object of an explain request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainTarget {
    /// Kind of the object.
    pub kind: TargetKind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Kinds that can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TargetKind {
    /// A Job: its PodGroups, and its pods without a group.
    Job,
    /// A PodGroup.
    PodGroup,
    /// A pod. The report of a group member is about the group.
    Pod,
}

impl TargetKind {
    const ALL: [TargetKind; 3] = [TargetKind::Job, TargetKind::PodGroup, TargetKind::Pod];

    fn resource(self) -> &'static ApiResource {
        match self {
            TargetKind::Job => kinds::JOB,
            TargetKind::PodGroup => kinds::POD_GROUP,
            TargetKind::Pod => kinds::POD,
        }
    }

    /// The kind with this name: singular, plural or short name, in any case.
    pub fn from_name(name: &str) -> Option<TargetKind> {
        TargetKind::ALL.into_iter().find(|kind| kind.resource().has_name(name))
    }

    /// The value of the request parameter `kind`.
    pub fn parameter(self) -> &'static str {
        self.resource().singular
    }
}

/// What the scheduler knows about one unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitReport {
    /// The unit.
    pub unit: UnitReference,
    /// The result in one word.
    pub state: UnitState,
    /// Why the pod is not scheduled at all; with the state `Excluded`.
    pub exclusion_reason: Option<ExclusionCode>,
    /// The same for people.
    pub exclusion_message: Option<String>,
    /// Place in the queue, if a decision is pending.
    pub queue: Option<QueuePosition>,
    /// Why the unit, or the rest of its pods, does not fit now.
    pub refusal: Option<RefusalReport>,
    /// Why the placed pods are where they are.
    pub placement: Option<PlacementDetails>,
    /// All of the report for people, one line each.
    pub text: Vec<String>,
}

/// The result for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitState {
    /// The pod is not scheduled; `exclusionReason` has the reason.
    Excluded,
    /// It fits now and is placed in queue order.
    FitsNow,
    /// It is refused; `refusal` has the reasons. Some of its pods may be placed.
    Waiting,
    /// All its pods are placed.
    Placed,
    /// No decision is pending and no pod is placed.
    Idle,
    /// A state of a newer version.
    #[serde(other)]
    Unknown,
}

/// A unit: a PodGroup with its pods, or a pod without a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitReference {
    /// Kind of the unit.
    pub kind: UnitKind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Kinds of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitKind {
    /// A pod without a group.
    Pod,
    /// A PodGroup.
    PodGroup,
    /// A kind of a newer version.
    #[serde(other)]
    Unknown,
}

/// Why a pod is not scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExclusionCode {
    /// It is being deleted.
    Deleting,
    /// It has scheduling gates.
    Gated,
    /// Its `schedulerName` is that of another scheduler.
    OtherScheduler,
    /// Its group belongs to another owner.
    OtherOwner,
    /// Its priority differs from that of its group, and the configuration requires them to be equal.
    PriorityMismatch,
    /// It has scheduling terms that this scheduler does not support.
    UnsupportedTerms,
    /// A reason of a newer version.
    #[serde(other)]
    Unknown,
}

/// Why a unit does not fit now, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusalReport {
    /// The kind of obstacle.
    pub code: RefusalCode,
    /// The reason for people: the group's condition without remedies.
    pub message: String,
    /// The message for the condition of each pending pod.
    pub pod_message: String,
    /// Members that the unit needs: `minCount`, or 1.
    pub required: usize,
    /// Pods that were to be placed.
    pub pods: usize,
    /// Members that are placed already. They count toward `required`.
    pub placed: usize,
    /// How many of `pods` fit at most, in the best domain.
    pub fits: usize,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Whether no placement exists. Otherwise none was found.
    pub proven: bool,
    /// Whether the unit can fit when running pods end. If not, it needs other nodes or a smaller request.
    pub can_fit_later: bool,
    /// Nodes by reason, for the first pod that does not fit. A node can have several reasons.
    pub reasons: BTreeMap<String, usize>,
    /// The domain in which most pods fit; for a unit with a topology key.
    pub nearest: Option<NearestDomainReport>,
    /// Every domain of the topology key; empty without a key.
    pub domains: Vec<DomainSlots>,
    /// Changes that let the unit fit, least effort first. Absent while they have not been searched.
    pub remedies: Option<Vec<RemedyItem>>,
    /// Whether the search reached a limit, so that other remedies may exist.
    pub remedies_truncated: bool,
}

/// The kind of obstacle of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalCode {
    /// The nodes have not enough capacity.
    DoesNotFit,
    /// The gang has fewer pods than it needs.
    Incomplete,
    /// The PodGroup does not exist.
    NoPodGroup,
    /// A CompositePodGroup above the PodGroup does not exist.
    NoParent,
    /// A CompositePodGroup above the PodGroup is not Basic, which is not supported.
    ParentNotBasic,
    /// The CompositePodGroups above the PodGroup form a cycle.
    ParentCycle,
    /// No node has the topology key as a label.
    NoDomain,
    /// Members already run in several domains of the topology key, or on nodes without it.
    MembersSplit,
    /// A Basic group with a topology key has gated pods.
    Gated,
    /// The pods have scheduling terms that this scheduler does not support.
    UnsupportedTerms,
    /// The pod's group belongs to another owner.
    OtherOwner,
    /// The pod's priority differs from that of its group.
    PriorityMismatch,
    /// A code of a newer version.
    #[serde(other)]
    Unknown,
}

/// The domain in which most pods of a refused unit fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NearestDomainReport {
    /// Topology key.
    pub key: String,
    /// Label value.
    pub value: String,
    /// Nodes of the domain.
    pub nodes: usize,
    /// Pending pods that fit there.
    pub fits: usize,
    /// Pods that the unit needs and that do not fit.
    pub missing: usize,
    /// Whether members that already run there exclude every other domain.
    pub pinned: bool,
    /// Nodes by reason, after the pods that fit are placed.
    pub reasons: BTreeMap<String, usize>,
}

/// Free slots of one domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainSlots {
    /// Label value.
    pub value: String,
    /// Nodes of the domain.
    pub nodes: usize,
    /// How many pods of the unit fit there; of pods of several sizes at most so many, except in the nearest domain.
    pub fits: u64,
    /// Nodes by reason, after the pods that fit are placed.
    pub reasons: BTreeMap<String, usize>,
}

/// One change that lets a refused unit fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemedyItem {
    /// What to do.
    #[serde(flatten)]
    pub action: RemedyAction,
    /// The same for people.
    pub text: String,
}

/// What to do so that a refused unit fits; `type` is the variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum RemedyAction {
    /// Lower the gang's `minCount`.
    LowerMinCount {
        /// The new value.
        min_count: usize,
        /// Whether it is certain that no larger value fits.
        is_largest: bool,
    },
    /// Recreate the object with another topology key.
    ChangeTopologyKey {
        /// The present key.
        from: String,
        /// The new key.
        to: String,
        /// The domain of the new key in which the unit fits.
        value: String,
        /// The object to delete and create again, because the key is immutable.
        recreate: ObjectIdentity,
    },
    /// Recreate the object without a topology key.
    RemoveTopologyKey {
        /// The present key.
        from: String,
        /// The object to delete and create again, because the key is immutable.
        recreate: ObjectIdentity,
    },
    /// Wait until running units end.
    WaitFor {
        /// The running units; all of them must end.
        blockers: Vec<BlockerReport>,
        /// The domain in which they run, for a unit with a topology key.
        domain: Option<TopologyDomain>,
    },
    /// Wait until a reservation ends.
    ReservationEnds {
        /// Namespace of the unit with the reservation.
        namespace: String,
        /// The PodGroup with the reservation; none for a pod.
        pod_group: Option<String>,
        /// The pod with the reservation, if it is one without a group.
        #[serde(default)]
        pod: Option<String>,
        /// The latest end of the reservation.
        until: Timestamp,
    },
    /// Add nodes.
    AddNodes {
        /// How many; an estimate.
        count: usize,
        /// The existing node whose labels, taints and resources the new nodes have.
        like: String,
        /// The domain of the new nodes, for a unit with a topology key.
        domain: Option<TopologyDomain>,
    },
    /// Add larger nodes or request less: no empty node has enough for one pod.
    LargerNodes {
        /// The resources that no node has enough of.
        shortfalls: Vec<ShortfallReport>,
    },
    /// A remedy of a newer version; its text is still usable.
    #[serde(other)]
    Unknown,
}

/// An object by kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectIdentity {
    /// Kind in lower case, as on the command line: `job`, `podgroup`.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// A running unit whose end would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockerReport {
    /// The Job, PodGroup or pod.
    #[serde(flatten)]
    pub object: ObjectIdentity,
    /// Its pods on nodes.
    pub pods: usize,
    /// The PodGroup of its pods, if they have one.
    pub pod_group: Option<String>,
}

/// All nodes with the label `key=value`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyDomain {
    /// Label key.
    pub key: String,
    /// Label value.
    pub value: String,
}

/// A pod requests more of a resource than any node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShortfallReport {
    /// Name of the resource.
    pub resource: String,
    /// Request of one pod, as a quantity.
    pub requested: String,
    /// Allocatable amount of the largest node, as a quantity.
    pub largest: String,
}

/// Why pods are where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementDetails {
    /// Placed pods.
    pub pods: usize,
    /// Why this domain was chosen; for a group with a topology key.
    pub domain: Option<DomainComparison>,
    /// The domain in which all pods of the group must be.
    pub within: Option<TopologyDomain>,
    /// The chosen nodes with the highest scores.
    pub nodes: Vec<NodeScore>,
    /// How many nodes were chosen.
    pub nodes_chosen: usize,
    /// How many nodes could take one of the pods.
    pub nodes_feasible: usize,
    /// The best node that was not chosen.
    pub next_best: Option<NodeScore>,
    /// The score plugin in which the best chosen node leads most over the next best.
    pub decided_by: Option<String>,
    /// When the report was stored, right after the decision. Absent: it was computed on the present cluster.
    pub recorded_at: Option<Timestamp>,
}

/// The chosen domain compared with the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainComparison {
    /// Topology key.
    pub key: String,
    /// Value of the chosen domain.
    pub value: String,
    /// Slots of the chosen domain.
    pub slots: SlotCounts,
    /// Domains of the key.
    pub domains: usize,
    /// Domains in which all pods fit.
    pub feasible: usize,
    /// The next best domain.
    pub next_best: Option<AlternativeDomain>,
}

/// A domain that was not chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlternativeDomain {
    /// Label value.
    pub value: String,
    /// Slots of the domain.
    pub slots: SlotCounts,
}

/// What domains are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotCounts {
    /// How many of the unit's pods fit.
    pub fits: u64,
    /// How many slots are left over then.
    pub spare: u64,
}

/// A node and its score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeScore {
    /// Name of the node.
    pub node: String,
    /// Pods of the unit on it.
    pub pods: usize,
    /// Sum of the points; 0 if no more such pod fits.
    pub score: i64,
    /// Weighted points by score plugin.
    pub points: BTreeMap<String, i64>,
}

impl ExplainTarget {
    /// The object of `kind` at `key`.
    pub fn new(kind: TargetKind, key: &ObjectKey) -> ExplainTarget {
        ExplainTarget { kind, namespace: key.namespace.clone(), name: key.name.clone() }
    }

    /// Namespace and name.
    pub fn object_key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.clone(), self.name.clone())
    }
}

impl fmt::Display for ExplainTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.parameter(), self.namespace, self.name)
    }
}
