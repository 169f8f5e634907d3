//! Admission: rules that depend on other objects in the cluster. They run after decoding and before or after
//! validation. One ordered list; every entry reads the store.

mod gang_size; // the size of gangs under `autoGang` is fixed
mod namespaces; // objects are created only in active namespaces
mod priority; // pods and groups have the priority of their class
mod protection; // groups in use are not removed
mod tolerations; // how long a pod tolerates an unavailable node
mod runtime_class; // runtime classes, which are not supported

use api::kinds::ApiResource;
use store::StoredObject;

use crate::resources::object::ApiObject;
use crate::response::status::ApiResult;
use crate::server::Call;

/// The attributes of a write.
pub(crate) struct Attributes<'a> {
    pub call: &'a Call<'a>,
    pub operation: Operation,
    /// The object before the write; `None` for a create.
    pub old: Option<&'a ApiObject>,
}

/// The kind of write.
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

/// Runs every mutating plugin.
pub(crate) fn mutate(attributes: &Attributes<'_>, object: &mut ApiObject) -> ApiResult<()> {
    MUTATING.iter().try_for_each(|admit| admit(attributes, object))
}

/// Runs every validating plugin.
pub(crate) fn validate(attributes: &Attributes<'_>, object: &ApiObject) -> ApiResult<()> {
    VALIDATING.iter().try_for_each(|admit| admit(attributes, object))
}

/// Runs every plugin that can refuse a delete.
pub(crate) fn delete(call: &Call<'_>, stored: &StoredObject) -> ApiResult<()> {
    DELETING.iter().try_for_each(|admit| admit(call, stored))
}

fn is_of_kind(call: &Call<'_>, kind: &ApiResource) -> bool {
    call.resource.plural == kind.plural && call.resource.group == kind.group
}
