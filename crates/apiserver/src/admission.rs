//! What the cluster as a whole has to say about a write, after the object was read and before it is judged by itself.
//! One ordered list; every entry reads the store.

mod gang_size; // gangs that a setting makes keep their size
mod namespaces; // objects live only in namespaces that are there and stay
mod priority; // pods and groups have the priority of their class
mod protection; // groups that are in use stay
mod tolerations; // for how long a pod stands a node that is away
mod runtime_class; // no pod runs in a way that nobody has described

use store::Stored;

use crate::object::Object;
use crate::server::Call;
use crate::status::Answer;

/// A write as admission sees it.
pub(crate) struct Attributes<'a> {
    pub call: &'a Call<'a>,
    pub operation: Operation,
    /// The object before the write; `None` for a create.
    pub old: Option<&'a Object>,
}

/// What kind of write it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    /// A change of a part that has a path of its own.
    UpdatePart,
}

type Mutate = fn(&Attributes<'_>, &mut Object) -> Answer<()>;
type Validate = fn(&Attributes<'_>, &Object) -> Answer<()>;
type Delete = fn(&Call<'_>, &Stored) -> Answer<()>;

/// In upstream's order.
const MUTATING: &[Mutate] = &[
    namespaces::is_live,
    priority::of_pod,
    priority::of_group,
    tolerations::of_pod,
    protection::of_group,
    runtime_class::of_pod,
];
const VALIDATING: &[Validate] = &[priority::one_global_default, gang_size::is_kept];
const DELETING: &[Delete] = &[namespaces::may_go, priority::may_go];

/// Lets every entry change or refuse the object.
pub(crate) fn mutate(attributes: &Attributes<'_>, object: &mut Object) -> Answer<()> {
    MUTATING.iter().try_for_each(|admit| admit(attributes, object))
}

/// Lets every entry refuse the object.
pub(crate) fn validate(attributes: &Attributes<'_>, object: &Object) -> Answer<()> {
    VALIDATING.iter().try_for_each(|admit| admit(attributes, object))
}

/// Lets every entry keep the object.
pub(crate) fn delete(call: &Call<'_>, stored: &Stored) -> Answer<()> {
    DELETING.iter().try_for_each(|admit| admit(call, stored))
}

fn is(call: &Call<'_>, group: &str, plural: &str) -> bool {
    call.resource.plural == plural && call.resource.group == group
}
