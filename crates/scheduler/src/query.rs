//! The query API: `/queue` and `/explain`, as typed requests and responses. The caller does the transport.

pub mod types; // the responses, field by field; clients use them too
pub mod error; // failed requests and their codes
mod convert; // from the core's values to the responses (pure)
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::views::{MetaView, ObjectKey, PodGroupView, PodView};
use runtime::Cache;
use scheduler_core::Unit;
use serde::Serialize;

pub use self::convert::unit_report;
use self::error::{ErrorResponse, QueryErrorCode};
use self::types::{EXPLAIN_PATH, ExplainResponse, ExplainTarget, QUEUE_PATH, QueueResponse, TargetKind};
use crate::handle::{NoScheduler, SchedulerHandle};

/// How many pods without a group are explained for one Job.
const MAX_UNGROUPED_PODS: usize = 16;

/// Handles queries about the scheduler of this process.
#[derive(Clone)]
pub struct Query {
    /// The scheduler.
    pub handle: SchedulerHandle,
    /// Pods, indexed by group.
    pub pods: Cache<PodView>,
    /// PodGroups.
    pub pod_groups: Cache<PodGroupView>,
}

/// A response as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryResponse {
    /// HTTP status code.
    pub code: u16,
    /// JSON: a response of [`types`], or an [`ErrorResponse`].
    pub body: String,
}

impl QueryResponse {
    fn new<T: Serialize>(result: &Result<T, ErrorResponse>) -> QueryResponse {
        let (code, body) = match result {
            Ok(response) => (200, serde_json::to_string(response)),
            Err(error) => (error.code, serde_json::to_string(error)),
        };
        QueryResponse { code, body: body.expect("responses have string keys and no floats") }
    }
}

impl Query {
    /// Responds to `/queue` and to `/explain?kind=…&namespace=…&name=…`. `None`: another path.
    pub async fn respond(&self, path: &str, parameters: &str) -> Option<QueryResponse> {
        match path {
            QUEUE_PATH => Some(QueryResponse::new(&self.queue().await)),
            EXPLAIN_PATH => Some(QueryResponse::new(&match parse_target(parameters) {
                Ok(target) => self.explain(target).await,
                Err(message) => Err(ErrorResponse::new(QueryErrorCode::InvalidRequest, message)),
            })),
            _ => None,
        }
    }

    /// The queue.
    pub async fn queue(&self) -> Result<QueueResponse, ErrorResponse> {
        let revision = self.pods.revision();
        let units = self.handle.queue().await.map_err(no_scheduler)?;
        Ok(convert::queue_response(revision, &units, &self.handle.refusals()))
    }

    /// The units of `target`.
    pub async fn explain(&self, target: ExplainTarget) -> Result<ExplainResponse, ErrorResponse> {
        // The scheduler observes everything in the caches before it responds, so the response includes this revision.
        let revision = self.pods.revision();
        let (units, truncated) = self.units(&target);
        let mut explanations = Vec::new();
        for unit in units {
            let placed = self.placed_pods(&unit);
            explanations.extend(self.handle.explain(unit, placed).await.map_err(no_scheduler)?);
        }
        if explanations.is_empty() {
            let message = format!("{target}: not known to the scheduler");
            return Err(ErrorResponse::new(QueryErrorCode::UnitNotFound, message));
        }
        Ok(convert::explain_response(revision, target, &explanations, truncated))
    }

    /// The units of an object, and whether it has more.
    fn units(&self, target: &ExplainTarget) -> (Vec<Unit>, bool) {
        let key = target.object_key();
        match target.kind {
            TargetKind::PodGroup => (vec![Unit::Group(key)], false),
            TargetKind::Pod => (vec![Unit::Pod(key)], false),
            TargetKind::Job => {
                let groups = self.pod_groups.all().into_iter().filter(|group| is_of_job(&group.metadata, &key));
                let mut units: Vec<Unit> = groups.map(|group| Unit::Group(group.metadata.key())).collect();
                let is_ungrouped = |pod: &Arc<PodView>| {
                    is_of_job(&pod.metadata, &key) && pod.group_name().is_none() && !pod.is_finished()
                };
                let ungrouped = self.pods.all().into_iter().filter(is_ungrouped);
                let mut pods: Vec<Unit> = ungrouped.map(|pod| Unit::Pod(pod.metadata.key())).collect();
                let truncated = pods.len() > MAX_UNGROUPED_PODS;
                pods.truncate(MAX_UNGROUPED_PODS);
                units.append(&mut pods);
                (units, truncated)
            }
        }
    }

    /// The pods of a unit that have a node.
    fn placed_pods(&self, unit: &Unit) -> Vec<Arc<PodView>> {
        let pods = match unit {
            Unit::Group(key) => self.pods.by_index(&PodView::BY_GROUP, &key.to_string()),
            Unit::Pod(key) => self.pods.get(key).into_iter().collect(),
        };
        pods.into_iter().filter(|pod| pod.node_name().is_some() && !pod.is_finished()).collect()
    }
}

fn is_of_job(meta: &MetaView, job: &ObjectKey) -> bool {
    let owned = meta.controller().is_some_and(|owner| owner.kind == "Job" && owner.name == job.name);
    owned && meta.namespace == job.namespace
}

fn no_scheduler(NoScheduler: NoScheduler) -> ErrorResponse {
    let message = "no scheduler runs in this process now: query the process that holds the Lease";
    ErrorResponse::new(QueryErrorCode::NoScheduler, message)
}

/// Reads `kind=…&namespace=…&name=…`. The default namespace is `default`.
fn parse_target(parameters: &str) -> Result<ExplainTarget, &'static str> {
    let value = |wanted: &str| {
        let mut pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value).filter(|value| !value.is_empty())
    };
    let kind = value("kind").and_then(TargetKind::from_name).ok_or("parameter kind: must be job, podgroup or pod")?;
    let name = value("name").ok_or("parameter name: required")?;
    Ok(ExplainTarget::new(kind, &ObjectKey::new(value("namespace").unwrap_or("default"), name)))
}
