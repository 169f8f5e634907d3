//! A control loop as one value: its name, its user, what it reads and writes, and how it runs.

use std::fmt;

use api::kinds::{self, ApiResource};
use apiserver::Identity;
use apiserver::request::Verb;
use futures::future::BoxFuture;

use crate::caches::CachedKind;
use crate::config::Component;
use crate::process::Process;

/// One control loop: a controller, the scheduler, or the simulated kubelets. [`control_loops`](crate::control_loops) has
/// all of them.
pub struct ControlLoop {
    /// Its name: in `--controllers`, in the names of its tasks, in the log.
    pub name: &'static str,
    /// One line for help texts.
    pub about: &'static str,
    /// The component it belongs to.
    pub component: Component,
    /// Its user, where it runs in the same process as the server. Elsewhere it is the user of the kubeconfig.
    pub user: &'static str,
    /// The groups of that user, besides `system:authenticated`.
    pub groups: &'static [&'static str],
    /// The kinds it reads from the shared caches, which list and watch them.
    pub(crate) reads: &'static [CachedKind],
    /// What it requests besides, by ClusterRole. The first role belongs to this control loop alone. It also has the rights
    /// of the caches and of the leader election.
    pub roles: &'static [Role],
    /// Makes the future that runs it.
    pub(crate) start: fn(&mut Process, &'static ControlLoop) -> BoxFuture<'static, ()>,
}

/// Rights under the name of the ClusterRole that has them.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// The ClusterRole.
    pub name: &'static str,
    /// Its rights.
    pub rights: &'static [Right],
}

/// Verbs that are allowed on a resource.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// The resource.
    pub target: RightTarget,
    /// The verbs.
    pub verbs: &'static [Verb],
}

/// What a right is about.
#[derive(Clone, Copy, Debug)]
pub enum RightTarget {
    /// A kind of the registry and its subresource, empty for the objects themselves. RBAC knows subresources that the
    /// server does not serve, such as `finalizers`.
    Kind(&'static ApiResource, &'static str),
    /// Group and resource of a kind that the registry does not have.
    Named(&'static str, &'static str),
    /// Every resource of every group.
    Any,
}

impl RightTarget {
    /// API group in the terms of RBAC; empty for the core group, `*` for all.
    pub fn group(self) -> &'static str {
        match self {
            RightTarget::Kind(kind, _) => kind.group,
            RightTarget::Named(group, _) => group,
            RightTarget::Any => "*",
        }
    }

    /// Resource or subresource in the terms of RBAC: `pods`, `pods/status`, `*`.
    pub fn resource(self) -> String {
        match self {
            RightTarget::Kind(kind, "") => kind.plural.to_owned(),
            RightTarget::Kind(kind, subresource) => format!("{}/{subresource}", kind.plural),
            RightTarget::Named(_, resource) => resource.to_owned(),
            RightTarget::Any => "*".to_owned(),
        }
    }
}

/// Verbs of a cache.
pub(crate) const CACHE_VERBS: &[Verb] = &[Verb::List, Verb::Watch];
/// For leader election. A process has the rights of all its control loops, so each of them has this one.
const LEADER_ELECTION: Right =
    Right { target: RightTarget::Kind(kinds::LEASE, ""), verbs: &[Verb::Get, Verb::Create, Verb::Update] };

impl ControlLoop {
    /// Its identity, where it runs in the same process as the server.
    pub(crate) fn identity(&self) -> Identity {
        let groups = self.groups.iter().copied().chain(["system:authenticated"]).map(str::to_owned).collect();
        Identity { user: self.user.to_owned(), groups }
    }

    /// Its own role, with everything that it needs in any cluster. Further roles depend on the cluster.
    pub fn main_role(&self) -> &'static str {
        self.roles.first().expect("every control loop has a role").name
    }

    /// Every right it declares, with its role; those of its caches come first.
    pub(crate) fn rights(&self) -> impl Iterator<Item = (&'static str, Right)> + '_ {
        let cached =
            self.reads.iter().map(|kind| Right { target: RightTarget::Kind(kind.resource(), ""), verbs: CACHE_VERBS });
        let election = self.component.elects_leader().then_some(LEADER_ELECTION);
        let shared = cached.chain(election).map(|right| (self.main_role(), right));
        shared.chain(self.roles.iter().flat_map(|role| role.rights.iter().map(|right| (role.name, *right))))
    }

    /// Whether it declares a request. `resource` is a resource or subresource of `group`.
    pub fn declares(&self, verb: Verb, group: &str, resource: &str) -> bool {
        self.rights().any(|(_, right)| right.allows(verb, group, resource))
    }
}

impl Right {
    pub(crate) fn allows(&self, verb: Verb, group: &str, resource: &str) -> bool {
        let is_target = match self.target {
            RightTarget::Any => true,
            target => target.group() == group && target.resource() == resource,
        };
        is_target && self.verbs.contains(&verb)
    }
}

/// Two control loops are the same if they have the same name.
impl PartialEq for ControlLoop {
    fn eq(&self, other: &ControlLoop) -> bool {
        self.name == other.name
    }
}

impl Eq for ControlLoop {}

impl fmt::Debug for ControlLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ControlLoop").field(&self.name).finish()
    }
}
