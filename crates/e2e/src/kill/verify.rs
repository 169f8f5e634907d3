//! The state of a restarted server: everything decodes, and no pod is counted twice.

use std::collections::BTreeMap;
use std::fmt::Debug;

use anyhow::Context;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::api::scheduling::v1beta1::{PodGroup, Workload};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::ledger::StoredJob;
use super::submitter::TOUCH_ANNOTATION;

/// Objects per page, small enough that a list of Jobs has several pages.
const PAGE: u32 = 100;

/// The objects that are checked.
pub struct ServerSnapshot {
    pub jobs: Vec<Job>,
    /// The pods of each Job, by the Job's uid.
    pods: BTreeMap<String, Vec<Pod>>,
    /// The revision of the lists.
    pub revision: u64,
}

impl ServerSnapshot {
    /// Lists every kind; each object must decode as its kind.
    pub async fn read(client: &Client) -> anyhow::Result<ServerSnapshot> {
        list::<Namespace>(client).await?;
        list::<Node>(client).await?;
        list::<Event>(client).await?;
        list::<Workload>(client).await?;
        list::<PodGroup>(client).await?;
        let (jobs, _) = list::<Job>(client).await?;
        let (all, revision) = list::<Pod>(client).await?;
        let mut pods: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
        for pod in all {
            let owner = pod.owner_references().iter().find(|owner| owner.kind == "Job").map(|owner| owner.uid.clone());
            pods.entry(owner.unwrap_or_default()).or_default().push(pod);
        }
        Ok(ServerSnapshot { jobs, pods, revision })
    }

    /// The Jobs, in the form of a ledger.
    pub fn stored_jobs(&self) -> BTreeMap<String, StoredJob> {
        let of = |job: &Job| {
            let touched =
                job.annotations().get(TOUCH_ANNOTATION).and_then(|value| value.parse().ok()).unwrap_or_default();
            let revision = revision(job.resource_version().as_deref());
            (job.name_any(), StoredJob { uid: job.uid().unwrap_or_default(), revision, touch_count: touched })
        };
        self.jobs.iter().map(of).collect()
    }

    /// Whether the Job is complete; an error when its counts are not exact.
    pub fn is_complete(&self, job: &Job) -> Result<bool, String> {
        let no_pods = Vec::new();
        let pods = self.pods.get(&job.uid().unwrap_or_default()).unwrap_or(&no_pods);
        check_counts(job, pods).map_err(|text| format!("job {}: {text}", job.name_any()))
    }
}

/// Whether the Job is complete; an error when its counts do not agree with its pods.
fn check_counts(job: &Job, pods: &[Pod]) -> Result<bool, String> {
    let status = job.status.clone().unwrap_or_default();
    let completions = job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(1) as usize;
    let counted = status.succeeded.unwrap_or(0) as usize;
    let succeeded = pods.iter().filter(|pod| phase(pod) == "Succeeded").count();
    let has = |kind: &str| status.conditions.iter().flatten().any(|c| c.type_ == kind && c.status == "True");
    if status.failed.unwrap_or(0) != 0 || has("Failed") {
        return Err("it failed, although none of its pods can fail".into());
    }
    if counted > succeeded {
        return Err(format!("{counted} pods are counted as succeeded, {succeeded} did"));
    }
    if pods.len() > completions {
        return Err(format!("{} pods were created for {completions} completions", pods.len()));
    }
    if !has("Complete") {
        return Ok(false);
    }
    if counted != completions || succeeded != completions {
        return Err(format!("complete with {counted} of {completions} counted, {succeeded} pods succeeded"));
    }
    if let Some(waiting) = &status.uncounted_terminated_pods
        && (waiting.succeeded.iter().flatten().count() + waiting.failed.iter().flatten().count()) > 0
    {
        return Err("complete with pods still uncounted".into());
    }
    let is_indexed = job.spec.as_ref().and_then(|spec| spec.completion_mode.as_deref()) == Some("Indexed");
    let indexes = if completions == 1 { "0".to_owned() } else { format!("0-{}", completions - 1) };
    match status.completed_indexes.as_deref() {
        Some(done) if is_indexed && !covers_all_indexes(done, completions) => {
            Err(format!("indexes {done}, not {indexes}"))
        }
        None if is_indexed => Err(format!("no indexes, not {indexes}")),
        _ => Ok(true),
    }
}

/// Whether `0-2,3` and the like contain every index below `completions` once.
fn covers_all_indexes(indexes: &str, completions: usize) -> bool {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let all: Option<Vec<_>> = indexes.split(',').map(range).collect();
    all.is_some_and(|ranges| ranges.into_iter().flatten().eq(0..completions))
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn revision(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Every object of a kind, page by page, and the list's revision.
async fn list<K>(client: &Client) -> anyhow::Result<(Vec<K>, u64)>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut items = Vec::new();
    loop {
        let page = api.list(&params).await.with_context(|| format!("listing {}", K::plural(&())))?;
        items.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok((items, revision(page.metadata.resource_version.as_deref()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check_counts, covers_all_indexes};
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn job(status: serde_json::Value) -> Job {
        let spec = json!({"completions": 2, "template": {}, "completionMode": "Indexed"});
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": status})).expect("a Job")
    }

    fn pods(phases: &[&str]) -> Vec<Pod> {
        let pod = |phase: &&str| serde_json::from_value(json!({"metadata": {}, "status": {"phase": phase}}));
        phases.iter().map(|phase| pod(phase).expect("a Pod")).collect()
    }

    #[test]
    fn a_complete_job_has_counted_each_of_its_pods_once() {
        let complete = json!([{"type": "Complete", "status": "True"}]);
        let exact = json!({"succeeded": 2, "completedIndexes": "0,1", "conditions": complete});
        assert_eq!(check_counts(&job(exact.clone()), &pods(&["Succeeded", "Succeeded"])), Ok(true));
        assert_eq!(check_counts(&job(json!({"succeeded": 1})), &pods(&["Succeeded", "Running"])), Ok(false));
        for (case, status, phases) in [
            ("counted twice", json!({"succeeded": 2}), &["Succeeded", "Running"][..]),
            ("one pod too many", exact.clone(), &["Succeeded", "Succeeded", "Running"][..]),
            ("a pod lost", exact.clone(), &["Succeeded"][..]),
            ("one too few", json!({"succeeded": 1, "conditions": complete}), &["Succeeded", "Succeeded"][..]),
            ("failed", json!({"failed": 1}), &["Failed"][..]),
        ] {
            assert!(check_counts(&job(status), &pods(phases)).is_err(), "{case}");
        }
    }

    #[test]
    fn indexes_are_covered_once_each() {
        assert!(covers_all_indexes("0-2,3", 4) && covers_all_indexes("0", 1));
        assert!(
            !covers_all_indexes("0-1,3", 4)
                && !covers_all_indexes("0,0", 2)
                && !covers_all_indexes("", 1)
                && !covers_all_indexes("x", 1)
        );
    }
}
