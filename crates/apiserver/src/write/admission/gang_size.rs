//! Under `autoGang: indexed` the size of a gang that the setting makes is fixed. Whether it makes one also depends on what
//! is around the Job: the label of its namespace, and Workloads that users made for it.

use api::batch::scheduling::GROUPS_LABEL;
use api::batch::validation::validate_parallelism_unchanged;
use api::gates::AutoGang;
use api::views::{JobView, MetaView, NamespaceView, PodGroupView, View, WorkloadView};
use store::ListQuery;

use super::{Attributes, Operation, is_resource};
use crate::resources::object::ApiObject;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;

/// Refuses another size of a Job that the setting makes a gang.
pub(super) fn validate_unchanged(attributes: &Attributes<'_>, job: &ApiObject) -> ApiResult<()> {
    let call = attributes.call;
    let gates = &call.state.gates;
    let (Operation::Update, Some(old)) = (attributes.operation, attributes.old) else { return Ok(()) };
    if gates.auto_gang != AutoGang::Indexed || !is_resource(call, "batch", "jobs") {
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

/// An object as the controllers read it; validation has seen that it can be.
fn view<V: View>(object: &ApiObject) -> Option<V> {
    V::decode(object.document().to_string().as_bytes()).ok()
}

/// Whether the namespace opts out and the Job does not opt in.
fn opts_out(call: &Call<'_>, job: &JobView) -> bool {
    let says = |meta: &MetaView| meta.labels.get(GROUPS_LABEL).cloned();
    let namespaces = call.state.resource("", "namespaces").expect("namespaces are served");
    let namespace = call.state.store.get(&namespaces.key("", &job.metadata.namespace));
    let namespace = namespace.and_then(|stored| NamespaceView::decode(&stored.bytes()).ok());
    let decides = |say: &String| ["enabled", "disabled"].contains(&say.as_str());
    let said = says(&job.metadata).filter(decides).or_else(|| namespace.and_then(|it| says(&it.metadata)));
    job.spec.scheduling.is_none() && said.is_some_and(|said| said == "disabled")
}

/// Whether the Job has a Workload that the Job controller did not create. Then that decides how it is scheduled.
fn has_users_workload(call: &Call<'_>, job: &JobView) -> bool {
    let Some(workloads) = call.state.resource("scheduling.k8s.io", "workloads") else { return false };
    let query = ListQuery { namespace: Some(job.metadata.namespace.clone()), ..ListQuery::all(&workloads.store_name) };
    let listed = call.state.store.list(&query, &mut |_| true).expect("the current revision is never compacted");
    listed.items.iter().filter_map(|stored| WorkloadView::decode(&stored.bytes()).ok()).any(|workload| {
        let stands_for = workload.spec.controller_ref.as_ref().is_some_and(|reference| {
            reference.kind == "Job"
                && reference.api_group.as_deref() == Some("batch")
                && reference.name == job.metadata.name
        });
        let maker = workload.metadata.annotations.get(PodGroupView::MANAGED_BY_ANNOTATION);
        stands_for
            && !workload.metadata.is_deleting()
            && maker.is_none_or(|maker| maker != PodGroupView::JOB_CONTROLLER)
    })
}
