//! What the cluster as a whole has to say about a write, after the object was read and before it is judged by itself.
//! One ordered list; every entry reads the store.

mod gang_size; // gangs that a setting makes keep their size
mod namespaces; // objects live only in namespaces that are there and stay
mod priority; // pods and groups have the priority of their class
mod protection; // groups that are in use stay
mod tolerations; // how long a pod tolerates an unavailable node
mod runtime_class; // runtime classes, which are not supported

use store::StoredObject;

use crate::resources::object::ApiObject;
use crate::response::status::ApiResult;
use crate::server::Call;

/// A write as admission sees it.
pub(crate) struct Attributes<'a> {
    pub call: &'a Call<'a>,
    pub operation: Operation,
    /// The object before the write; `None` for a create.
    pub old: Option<&'a ApiObject>,
}

/// What kind of write it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    /// An update of a subresource.
    UpdateSubresource,
}

type MutatingPlugin = fn(&Attributes<'_>, &mut ApiObject) -> ApiResult<()>;
type ValidatingPlugin = fn(&Attributes<'_>, &ApiObject) -> ApiResult<()>;
type DeletionPlugin = fn(&Call<'_>, &StoredObject) -> ApiResult<()>;

/// In upstream's order.
const MUTATING: &[MutatingPlugin] = &[
    namespaces::require_active_namespace,
    priority::admit_pod,
    priority::admit_group,
    tolerations::add_default_tolerations,
    protection::add_protection_finalizer,
    runtime_class::reject_runtime_class,
];
const VALIDATING: &[ValidatingPlugin] = &[priority::validate_single_global_default, gang_size::validate_unchanged];
const DELETING: &[DeletionPlugin] = &[namespaces::validate_delete, priority::validate_delete];

/// Lets every entry change or refuse the object.
pub(crate) fn mutate(attributes: &Attributes<'_>, object: &mut ApiObject) -> ApiResult<()> {
    MUTATING.iter().try_for_each(|admit| admit(attributes, object))
}

/// Lets every entry refuse the object.
pub(crate) fn validate(attributes: &Attributes<'_>, object: &ApiObject) -> ApiResult<()> {
    VALIDATING.iter().try_for_each(|admit| admit(attributes, object))
}

/// Lets every entry keep the object.
pub(crate) fn delete(call: &Call<'_>, stored: &StoredObject) -> ApiResult<()> {
    DELETING.iter().try_for_each(|admit| admit(call, stored))
}

fn is_resource(call: &Call<'_>, group: &str, plural: &str) -> bool {
    call.resource.plural == plural && call.resource.group == group
}
