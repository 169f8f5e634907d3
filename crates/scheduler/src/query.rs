//! `/explain` and `/queue`: questions as paths, answers as documents. How they travel is no concern of this room.

use std::sync::Arc;

use api::views::{MetaView, ObjectKey, PodGroupView, PodView};
use runtime::Cache;
use scheduler_core::Unit;
use serde_json::Value;

use crate::document;
use crate::handle::{NoScheduler, SchedulerHandle};

/// How many pods of a Job that belong to no group are explained.
const MAX_UNGROUPED_PODS: usize = 16;

/// Answers questions about the scheduler of this process.
#[derive(Clone)]
pub struct Query {
    /// The scheduler.
    pub handle: SchedulerHandle,
    /// Pods, indexed by group.
    pub pods: Cache<PodView>,
    /// PodGroups.
    pub pod_groups: Cache<PodGroupView>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryResponse {
    /// This document.
    Document(Value),
    /// Nothing, because of that; with the code of HTTP for it.
    Error(u16, String),
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ExplainTarget {
    kind: TargetKind,
    key: ObjectKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetKind {
    Job,
    PodGroup,
    Pod,
}

impl TargetKind {
    fn name(self) -> &'static str {
        match self {
            TargetKind::Job => "job",
            TargetKind::PodGroup => "podgroup",
            TargetKind::Pod => "pod",
        }
    }
}

impl Query {
    /// The answer to `/queue` or `/explain?kind=…&namespace=…&name=…`; none for any other path.
    pub async fn answer(&self, path: &str, query: &str) -> Option<QueryResponse> {
        match path {
            "/queue" => Some(self.queue().await),
            "/explain" => Some(match ExplainTarget::read(query) {
                Ok(about) => self.explain(&about).await,
                Err(why) => QueryResponse::Error(400, why),
            }),
            _ => None,
        }
    }

    async fn queue(&self) -> QueryResponse {
        let revision = self.pods.revision();
        match self.handle.queue().await {
            Ok(queue) => {
                let waiting = self.handle.refusals();
                QueryResponse::Document(document::queue(revision, &queue, |unit| {
                    waiting.get(unit).map(|refusal| refusal.plain_message())
                }))
            }
            Err(NoScheduler) => no_scheduler(),
        }
    }

    async fn explain(&self, about: &ExplainTarget) -> QueryResponse {
        // The scheduler takes in all that the caches have before it answers, so every answer has seen this revision.
        let revision = self.pods.revision();
        let (units, cut) = self.units(about);
        let mut explained = Vec::new();
        for unit in units {
            let placed = self.placed_pods(&unit);
            match self.handle.explain(unit, placed).await {
                Ok(one) => explained.extend(one),
                Err(NoScheduler) => return no_scheduler(),
            }
        }
        if explained.is_empty() {
            let ExplainTarget { kind, key } = about;
            return QueryResponse::Error(404, format!("the scheduler knows nothing of {} {key}", kind.name()));
        }
        QueryResponse::Document(document::explanation(revision, about.kind.name(), &about.key, &explained, cut))
    }

    /// The units a question is about, and whether there are more.
    fn units(&self, about: &ExplainTarget) -> (Vec<Unit>, bool) {
        let key = &about.key;
        match about.kind {
            TargetKind::PodGroup => (vec![Unit::Group(key.clone())], false),
            TargetKind::Pod => (vec![Unit::Pod(key.clone())], false),
            TargetKind::Job => {
                let groups = self.pod_groups.all().into_iter().filter(|group| is_of_job(&group.metadata, key));
                let mut units: Vec<Unit> = groups.map(|group| Unit::Group(group.metadata.key())).collect();
                let loose = |pod: &Arc<PodView>| {
                    is_of_job(&pod.metadata, key) && pod.group_name().is_none() && !pod.is_finished()
                };
                let mut pods: Vec<Unit> =
                    self.pods.all().into_iter().filter(loose).map(|pod| Unit::Pod(pod.metadata.key())).collect();
                let cut = pods.len() > MAX_UNGROUPED_PODS;
                pods.truncate(MAX_UNGROUPED_PODS);
                units.append(&mut pods);
                (units, cut)
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

fn no_scheduler() -> QueryResponse {
    QueryResponse::Error(
        503,
        "no scheduler runs in this process right now: ask the one that holds the Lease".to_owned(),
    )
}

impl ExplainTarget {
    fn read(query: &str) -> Result<ExplainTarget, String> {
        let value = |wanted: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value).filter(|value| !value.is_empty())
        };
        let kind = match value("kind").unwrap_or_default().to_lowercase().as_str() {
            "job" | "jobs" => TargetKind::Job,
            "podgroup" | "podgroups" => TargetKind::PodGroup,
            "pod" | "pods" => TargetKind::Pod,
            _ => return Err("ask with kind=job, podgroup or pod, namespace=… and name=…".to_owned()),
        };
        let name = value("name").ok_or("ask with name=…")?;
        Ok(ExplainTarget { kind, key: ObjectKey::new(value("namespace").unwrap_or("default"), name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_name_a_kind_and_an_object() {
        let read = |query: &str| ExplainTarget::read(query).map(|about| format!("{} {}", about.kind.name(), about.key));
        for (query, want) in [
            ("kind=job&name=a", Ok("job default/a")),
            ("name=a&kind=PodGroup&namespace=n", Ok("podgroup n/a")),
            ("kind=pods&name=a&namespace=", Ok("pod default/a")),
            ("kind=node&name=a", Err("ask with kind=job, podgroup or pod, namespace=… and name=…")),
            ("kind=pod", Err("ask with name=…")),
            ("", Err("ask with kind=job, podgroup or pod, namespace=… and name=…")),
        ] {
            assert_eq!(read(query), want.map(str::to_owned).map_err(str::to_owned), "{query}");
        }
    }
}
