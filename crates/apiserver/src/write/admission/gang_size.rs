//! Under `autoGang: indexed` the size of a gang that the setting creates is fixed. Whether the setting applies to a Job
//! also depends on the label of its namespace and on Workloads that users created for it.

use api::batch::scheduling::GROUPS_LABEL;
use api::batch::validation::validate_parallelism_unchanged;
use api::gates::AutoGang;
use api::kinds;
use api::views::{JobView, MetaView, NamespaceView, PodGroupView, View, WorkloadView};
use store::ListQuery;

use super::{Attributes, Operation, is_of_kind};
use crate::resources::object::ApiObject;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;

/// Refuses a new size of a Job that the setting makes a gang.
pub(super) fn validate_unchanged(attributes: &Attributes<'_>, job: &ApiObject) -> ApiResult<()> {
    let call = attributes.call;
    let gates = &call.state.gates;
    let (Operation::Update, Some(old)) = (attributes.operation, attributes.old) else { return Ok(()) };
    if gates.auto_gang != AutoGang::Indexed || !is_of_kind(call, kinds::JOB) {
        return Ok(());
    }
    let (Some(new), Some(old)) = (view::<JobView>(job), view::<JobView>(old)) else { return Ok(()) };
    match validate_parallelism_unchanged(&new, &old, gates) {
        Some(error) if !opts_out(call, &new) && !has_users_workload(call, &new) => {
            Err(Status::invalid(call.resource, job.name(), &vec![error]))
        }
        _ => Ok(()),
    }
}

/// An object as the controllers decode it. Validation has ensured that it decodes.
fn view<V: View>(object: &ApiObject) -> Option<V> {
    V::decode(object.document().to_string().as_bytes()).ok()
}

/// Whether the namespace opts out and the Job does not opt in.
fn opts_out(call: &Call<'_>, job: &JobView) -> bool {
    let label = |meta: &MetaView| meta.labels.get(GROUPS_LABEL).cloned();
    let namespaces = call.state.resource_of(kinds::NAMESPACE).expect("namespaces are served");
    let namespace = call.state.store.get(&namespaces.key("", &job.metadata.namespace));
    let namespace = namespace.and_then(|stored| NamespaceView::decode(&stored.bytes()).ok());
    let is_decisive = |value: &String| ["enabled", "disabled"].contains(&value.as_str());
    let value = label(&job.metadata).filter(is_decisive).or_else(|| namespace.and_then(|it| label(&it.metadata)));
    job.spec.scheduling.is_none() && value.is_some_and(|value| value == "disabled")
}

/// Whether the Job has a Workload that the Job controller did not create. That Workload then decides how the Job is
/// scheduled.
fn has_users_workload(call: &Call<'_>, job: &JobView) -> bool {
    let Some(workloads) = call.state.resource_of(kinds::WORKLOAD) else { return false };
    let query = ListQuery { namespace: Some(job.metadata.namespace.clone()), ..ListQuery::all(&workloads.store_name) };
    let page = call.state.store.list(&query, &mut |_| true).expect("the current revision is never compacted");
    page.items.iter().filter_map(|stored| WorkloadView::decode(&stored.bytes()).ok()).any(|workload| {
        let refers_to_job = workload.spec.controller_ref.as_ref().is_some_and(|reference| {
            reference.kind == kinds::JOB.kind
                && reference.api_group.as_deref() == Some(kinds::JOB.group)
                && reference.name == job.metadata.name
        });
        let manager = workload.metadata.annotations.get(PodGroupView::MANAGED_BY_ANNOTATION);
        refers_to_job
            && !workload.metadata.is_deleting()
            && manager.is_none_or(|manager| manager != PodGroupView::JOB_CONTROLLER)
    })
}
