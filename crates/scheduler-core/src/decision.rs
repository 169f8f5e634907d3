//! What comes into the core and what goes out of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use types::views::{CompositePodGroupView, NodeView, ObjectKey, PodGroupView, PodView};

use crate::overcommit::Overcommit;
use crate::profile::Profile;
use crate::refusal::Refusal;

/// What the core is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// How pods are judged, by their `schedulerName`. Pods of any other are not placed by us; they count once they are
    /// bound.
    pub profiles: Vec<Profile>,
    /// How long a unit waits after its first failed bind; doubles with each further failure.
    pub initial_backoff: Duration,
    /// The longest wait after a failed bind.
    pub max_backoff: Duration,
    /// How long a group may lack pods or its PodGroup before the core says so. Pods of a healthy group arrive one by
    /// one; without this pause each of them would be announced as missing.
    pub incomplete_after: Duration,
    /// How many bytes the indexes over the nodes may take, one for each class of pods; the least recently used one is
    /// dropped. An index takes about nine bytes a node. The one in use is kept whatever it takes.
    pub max_index_bytes: usize,
    /// How many steps one decision may search for a way to place pods of several classes, when the quick ways fail. With
    /// a longer search more refusals are proven, and a decision may take longer: about a microsecond a step.
    pub max_search_steps: usize,
    /// After a change of a waiting group that cannot help it, how long until it is decided anew, for the sake of the
    /// numbers in its refusal.
    pub recount_after: Duration,
    /// How long a group may be passed over by units that come after it before nodes are held for it; `None`: never.
    pub reserve_after: Option<Duration>,
    /// How long nodes are held for one group at most; it is a minute where nothing comes free. Then they are everybody's
    /// again, and the wait begins anew: twice as long each time, up to eight times this, until the group is placed or
    /// changes.
    pub max_reservation: Duration,
    /// How long a gang that never had its `minCount` may have some of its pods placed before they are released, so that
    /// it starts as a whole; `None`: for ever.
    pub release_after: Option<Duration>,
    /// Only gangs are released whose PodGroup our Job controller made: another may count released pods as failed.
    pub release_only_ours: bool,
    /// How long a node may have more pods than it has room for, when it was a bind that brought it there, before those that
    /// were bound beyond are released; `None`: for ever.
    pub overcommit_after: Option<Duration>,
    /// What becomes of a pod whose priority is not that of its group.
    pub priority_mismatch: PriorityMismatch,
    /// What becomes of a pod that demands something of its place which no plugin looks at.
    pub unsupported_terms: UnsupportedTerms,
    /// How often ways out are looked for, at most, for one group that waits; `None`: only when somebody asks.
    pub remedies_interval: Option<Duration>,
}

/// The longest pause that means anything. With a longer one times would be beyond what a timestamp holds.
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

/// What becomes of a pod whose own priority is not that of the group it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityMismatch {
    /// It is a member like any other, and the group's priority holds for it.
    #[default]
    Member,
    /// It is refused, alone.
    Refused,
}

impl PriorityMismatch {
    /// As configuration writes it: `member` or `refused`.
    pub fn parse(text: &str) -> Option<PriorityMismatch> {
        match text {
            "member" => Some(PriorityMismatch::Member),
            "refused" => Some(PriorityMismatch::Refused),
            _ => None,
        }
    }
}

/// What becomes of a pod that demands something of its place which no plugin looks at: required terms of inter-pod affinity
/// and anti-affinity, hard topology spread, volumes by claim, devices by claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnsupportedTerms {
    /// It waits, and with it the gang that it is of.
    #[default]
    Wait,
    /// It is placed as if it did not demand that.
    Ignore,
}

impl UnsupportedTerms {
    /// As configuration writes it: `wait` or `ignore`.
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
            release_after: Some(Duration::from_secs(15)),
            release_only_ours: false,
            overcommit_after: Some(Duration::from_secs(10)),
            priority_mismatch: PriorityMismatch::default(),
            unsupported_terms: UnsupportedTerms::default(),
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

/// A group of which all pods had ended starts anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The PodGroup.
    pub group: ObjectKey,
    /// The uids of members that succeeded before. They do not count toward this run.
    pub past_uids: Vec<String>,
    /// A controller goes on with what it began: no more pods are waited for than exist.
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

/// The answer for one unit. From here on the core counts the pods of a `Bind` as placed, until the watch confirms
/// them or [`Outcome::Failed`] takes them back.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Whom it is about.
    pub unit: Unit,
    /// What to do.
    pub action: DecisionAction,
    /// The topology domain all pods of the unit share, where the group asks for one.
    pub domain: Option<ChosenDomain>,
    /// With `Bind`: why the rest of the unit's pods has to wait, when there is a rest.
    pub unplaced: Option<Refusal>,
}

/// What to do about a unit.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a verdict is made once and moved twice; a box would cost more")]
pub enum DecisionAction {
    /// Bind these pods to these nodes. Never empty.
    Bind(Vec<Placement>),
    /// Nothing now. The unit comes back by itself when something changes that could help.
    Wait(Refusal),
    /// Take these pods off their nodes. The core counts them until the watch shows that they leave.
    Release(Release),
}

/// Pods that are to leave their nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The pods. Never empty.
    pub pods: Vec<PodRef>,
    /// Why they have to.
    pub reason: ReleaseReason,
}

/// Why pods have to leave their nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// Their gang never had as many as it needs, and does not come to it.
    HalfBound {
        /// How many members the gang needs.
        min_count: usize,
    },
    /// They were bound beyond what their node has.
    Overcommit(Overcommit),
}

impl Release {
    /// Why, in words.
    pub fn message(&self) -> String {
        match &self.reason {
            ReleaseReason::HalfBound { min_count } => {
                let bound = self.pods.len();
                format!(
                    "only {bound} of minCount {min_count} pods could be placed; they make way until the gang fits as a whole"
                )
            }
            ReleaseReason::Overcommit(overcommit) => {
                format!("{overcommit}: this one was bound when nothing was left for it, and makes way")
            }
        }
    }
}

/// One pod, whichever bears its name later.
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
    /// Its uid, so that a namesake created meanwhile is not bound.
    pub uid: String,
    /// The node's name.
    pub node: String,
}

/// A topology domain: all nodes that carry `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenDomain {
    /// Node label key.
    pub key: String,
    /// Label value.
    pub value: String,
}

/// What became of one bind of a decision.
#[derive(Clone, Debug)]
pub enum BindOutcome {
    /// The server took it; the watch will show it.
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
