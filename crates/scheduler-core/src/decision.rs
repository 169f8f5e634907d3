//! The inputs and outputs of the core.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use types::views::{CompositePodGroupView, NodeView, ObjectKey, PodGroupView, PodView};

use crate::explain::refusal::Refusal;
use crate::plugins::profile::Profile;
use crate::release::overcommit::Overcommit;

/// Settings of the core.
#[derive(Clone, Debug)]
pub struct Config {
    /// The plugins for each `schedulerName`. Pods with any other name are not placed by us; they count once they are
    /// bound.
    pub profiles: Vec<Profile>,
    /// How long a unit waits after its first failed bind. It doubles with each further failure.
    pub initial_backoff: Duration,
    /// The longest wait after a failed bind.
    pub max_backoff: Duration,
    /// How long a group may lack pods or its PodGroup before the core reports it. Pods of a healthy group arrive one
    /// by one. Without this delay the core would report each of them as missing.
    pub incomplete_after: Duration,
    /// How many bytes the node indexes may use. There is one for each class of pods, and the least recently used one
    /// is dropped. An index uses about nine bytes per node. The one in use is never dropped.
    pub max_index_bytes: usize,
    /// How many steps one decision may search for a placement of pods of several classes, when the two simple orders
    /// fail. A longer search proves more refusals and makes decisions slower: about a microsecond per step.
    pub max_search_steps: usize,
    /// How long after a change that cannot help a waiting group it is decided again, to update the numbers in its
    /// refusal.
    pub recount_after: Duration,
    /// How long a unit may be overtaken by later units before room is reserved for it; `None`: never.
    pub reserve_after: Option<Duration>,
    /// How long a reservation for one unit may last. It ends after a minute if nothing becomes free. After an
    /// unsuccessful reservation the unit waits twice as long for the next one, up to eight times this value, until
    /// it is placed or changes.
    pub max_reservation: Duration,
    /// The share of the cluster that reservations may keep idle in the long run, from 0 (no reservations) to 1. The
    /// share of an hour is available at the start, and at most that of four hours is saved. A reservation may exceed
    /// what is left; the next one begins when that is earned again.
    pub reservation_share: f64,
    /// How long a gang that never had its `minCount` may have some of its pods placed before they are released, so
    /// that it starts as a whole; `None`: forever.
    pub release_after: Option<Duration>,
    /// Release only gangs whose PodGroup was created by our Job controller. Other controllers may count released pods
    /// as failed.
    pub release_only_ours: bool,
    /// How long a node that a bind has over-committed may stay so before the surplus pods are released; `None`:
    /// forever.
    pub overcommit_after: Option<Duration>,
    /// How a pod is treated whose priority differs from its group's.
    pub priority_mismatch: PriorityMismatch,
    /// How a pod is treated that has a placement term no plugin supports.
    pub unsupported_terms: UnsupportedTerms,
    /// Members of a group with a completion index get their nodes in index order: consecutive indexes share a node, and
    /// nodes of one rack have consecutive indexes.
    pub index_order: bool,
    /// The minimum time between two searches for remedies for one waiting group; `None`: search only on request.
    pub remedies_interval: Option<Duration>,
}

/// The longest useful pause. Longer ones would exceed the range of a timestamp.
const MAX_PAUSE: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

impl Config {
    /// The same with every pause at most a hundred years long.
    pub(crate) fn clamped(mut self) -> Config {
        let pauses = [
            &mut self.initial_backoff,
            &mut self.max_backoff,
            &mut self.incomplete_after,
            &mut self.recount_after,
            &mut self.max_reservation,
        ];
        let others =
            [&mut self.reserve_after, &mut self.release_after, &mut self.overcommit_after, &mut self.remedies_interval];
        for pause in pauses.into_iter().chain(others.into_iter().flatten()) {
            *pause = (*pause).min(MAX_PAUSE);
        }
        self
    }
}

/// How a pod is treated whose own priority differs from that of the group it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityMismatch {
    /// It is a member like any other, with the group's priority.
    #[default]
    Member,
    /// Only this pod is refused.
    Refused,
}

impl PriorityMismatch {
    /// Parses the configuration value: `member` or `refused`.
    pub fn parse(text: &str) -> Option<PriorityMismatch> {
        match text {
            "member" => Some(PriorityMismatch::Member),
            "refused" => Some(PriorityMismatch::Refused),
            _ => None,
        }
    }
}

/// How a pod is treated that has a placement term no plugin supports: required terms of inter-pod affinity and
/// anti-affinity, topology spread with `DoNotSchedule`, volumes by claim, devices by claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnsupportedTerms {
    /// It waits, and so does its gang.
    #[default]
    Wait,
    /// It is placed as if it did not have the term.
    Ignore,
}

impl UnsupportedTerms {
    /// Parses the configuration value: `wait` or `ignore`.
    pub fn parse(text: &str) -> Option<UnsupportedTerms> {
        match text {
            "wait" => Some(UnsupportedTerms::Wait),
            "ignore" => Some(UnsupportedTerms::Ignore),
            _ => None,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            profiles: vec![Profile::default()],
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            incomplete_after: Duration::from_secs(1),
            max_index_bytes: 256 << 20,
            max_search_steps: 5000,
            recount_after: Duration::from_secs(1),
            reserve_after: Some(Duration::from_secs(60)),
            max_reservation: Duration::from_secs(900),
            reservation_share: 0.1,
            release_after: Some(Duration::from_secs(15)),
            release_only_ours: false,
            overcommit_after: Some(Duration::from_secs(10)),
            priority_mismatch: PriorityMismatch::default(),
            unsupported_terms: UnsupportedTerms::default(),
            index_order: true,
            remedies_interval: Some(Duration::from_secs(10)),
        }
    }
}

/// Something in the cluster is new, different or gone (`new: None`).
#[derive(Clone, Debug)]
pub enum ClusterChange {
    /// A pod.
    Pod {
        /// The state before, if there was one.
        old: Option<Arc<PodView>>,
        /// The state now; none when deleted.
        new: Option<Arc<PodView>>,
    },
    /// A node.
    Node {
        /// The state before, if there was one.
        old: Option<Arc<NodeView>>,
        /// The state now; none when deleted.
        new: Option<Arc<NodeView>>,
    },
    /// A PodGroup.
    PodGroup {
        /// The state before, if there was one.
        old: Option<Arc<PodGroupView>>,
        /// The state now; none when deleted.
        new: Option<Arc<PodGroupView>>,
    },
    /// A CompositePodGroup.
    CompositePodGroup {
        /// The state before, if there was one.
        old: Option<Arc<CompositePodGroupView>>,
        /// The state now; none when deleted.
        new: Option<Arc<CompositePodGroupView>>,
    },
}

/// A new run of a group: it starts again after all its pods had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The PodGroup.
    pub group: ObjectKey,
    /// The uids of members that succeeded before. They do not count toward this run.
    pub past_uids: Vec<String>,
    /// The controller of the previous run continues: the group does not wait for more pods than exist.
    pub is_continued: bool,
}

/// What is placed as a whole: a pod that belongs to no group, or a PodGroup with its pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A pod without a group.
    Pod(ObjectKey),
    /// A PodGroup; it need not exist yet.
    Group(ObjectKey),
}

impl Unit {
    /// Namespace and name of the pod or group.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Unit::Pod(key) | Unit::Group(key) => key,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Pod(key) => write!(f, "pod {key}"),
            Unit::Group(key) => write!(f, "podgroup {key}"),
        }
    }
}

/// The decision about one unit. The core counts the pods of a `Bind` as placed until the watch confirms them or
/// [`BindOutcome::Failed`] reverts them.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The unit.
    pub unit: Unit,
    /// What to do.
    pub action: DecisionAction,
    /// The topology domain that all pods of the unit share, if the group requests one.
    pub domain: Option<ChosenDomain>,
    /// With `Bind`: why the remaining pods of the unit wait, if there are any.
    pub unplaced: Option<Refusal>,
}

/// What to do about a unit.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "an action is created once and moved twice; a box would cost more")]
pub enum DecisionAction {
    /// Bind these pods to these nodes. Never empty.
    Bind(Vec<Placement>),
    /// Nothing now. The unit is queued again when a change could let it fit.
    Wait(Refusal),
    /// Delete these pods. The core counts them until the watch shows that they terminate.
    Release(Release),
}

/// Pods that must leave their nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The pods. Never empty.
    pub pods: Vec<PodRef>,
    /// Why they must leave.
    pub reason: ReleaseReason,
}

/// Why pods must leave their nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// Their gang never had the pods it needs and cannot be completed.
    HalfBound {
        /// How many members the gang needs.
        min_count: usize,
    },
    /// They were bound beyond the capacity of their node.
    Overcommit(Overcommit),
}

impl Release {
    /// The reason as text.
    pub fn message(&self) -> String {
        match &self.reason {
            ReleaseReason::HalfBound { min_count } => {
                let bound = self.pods.len();
                format!(
                    "only {bound} of minCount {min_count} pods could be placed; they are released until the gang fits as a whole"
                )
            }
            ReleaseReason::Overcommit(overcommit) => {
                format!("{overcommit}; this pod was bound beyond the node's capacity and is released")
            }
        }
    }
}

/// One pod, identified by its uid: a later pod may have the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    /// The pod.
    pub pod: ObjectKey,
    /// Its uid.
    pub uid: String,
}

/// One pod and its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The pod.
    pub pod: ObjectKey,
    /// Its uid, so that a pod recreated under the same name is not bound.
    pub uid: String,
    /// The node's name.
    pub node: String,
}

/// A topology domain: all nodes with the label `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenDomain {
    /// Node label key.
    pub key: String,
    /// Label value.
    pub value: String,
}

/// The result of one bind.
#[derive(Clone, Debug)]
pub enum BindOutcome {
    /// The server accepted it; the watch will show it.
    Bound {
        /// The pod.
        pod: ObjectKey,
        /// Its uid.
        uid: String,
    },
    /// The server refused it or could not be reached: the pod is pending again and its unit backs off.
    Failed {
        /// The pod.
        pod: ObjectKey,
        /// Its uid.
        uid: String,
    },
}
