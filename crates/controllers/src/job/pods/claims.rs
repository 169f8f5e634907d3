//! Which pods belong to the Job: by selector, whichever client created them.
//!
//! A pod that matches and has no controller is adopted; one that no longer matches is released. Neither happens for a
//! Job that is being deleted, has ended, or is managed by another controller.

use std::sync::Arc;

use api::selector::ParsedLabelSelector;
use api::views::{JobView, ObjectKey, PodView};
use runtime::Cache;

use crate::job::job_params::{is_finished, is_managed_by_others};

/// A Job's pods, and those to release or adopt.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// The Job's own.
    pub own: Vec<Arc<PodView>>,
    /// Still controlled by the Job, but no longer selected.
    pub to_release: Vec<Arc<PodView>>,
    /// Selected, without a controller.
    pub to_adopt: Vec<Arc<PodView>>,
}

/// Sorts the pods that the Job controls, and those without a controller.
pub fn claim(job: &JobView, controlled: Vec<Arc<PodView>>, uncontrolled: Vec<Arc<PodView>>) -> Claims {
    let Some(selector) = selector(job).filter(|_| can_claim(job)) else {
        return Claims { own: controlled, ..Claims::default() };
    };
    let (own, to_release) = controlled.into_iter().partition(|pod| selector.matches(&pod.metadata.labels));
    let is_adoptable = |pod: &Arc<PodView>| {
        let meta = &pod.metadata;
        let is_orphan = meta.controller().is_none() && !meta.is_deleting();
        is_orphan && meta.namespace == job.metadata.namespace && selector.matches(&meta.labels)
    };
    Claims { own, to_release, to_adopt: uncontrolled.into_iter().filter(is_adoptable).collect() }
}

/// Pods without a controller that the Job may select.
pub fn uncontrolled(job: &JobView, pods: &Cache<PodView>) -> Vec<Arc<PodView>> {
    if !can_claim(job) {
        return Vec::new();
    }
    let index_values = (JobView::BY_SELECTOR.values)(job);
    match index_values.first() {
        None => Vec::new(),
        Some(value) if value.contains('=') => pods.by_index(&PodView::BY_ORPHAN_LABEL, value),
        // A selector that requires no exact label value. Rare; all pods are read.
        Some(_) => pods.all(),
    }
}

/// The Jobs that would adopt this pod, which has no controller.
pub fn adopters(pod: &PodView, jobs: &Cache<JobView>) -> Vec<Arc<JobView>> {
    let mut index_values = (PodView::BY_ORPHAN_LABEL.values)(pod);
    index_values.push(format!("{}/", pod.metadata.namespace));
    let mut found: Vec<_> = index_values.iter().flat_map(|value| jobs.by_index(&JobView::BY_SELECTOR, value)).collect();
    found.retain(|job| can_claim(job) && selector(job).is_some_and(|selector| selector.matches(&pod.metadata.labels)));
    found
}

/// The path that lists the pods of a Job, with its labels as the label selector.
pub fn list_path(job: &JobView, pods: &str) -> String {
    let labels = job.spec.selector.iter().flat_map(|selector| selector.match_labels.iter().flatten());
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    if labels.is_empty() { pods.to_owned() } else { format!("{pods}?labelSelector={}", labels.join(",")) }
}

/// Whether the Job, as read from the server, may adopt. The server has a deletion before the cache does.
pub fn may_adopt(live: Option<&JobView>, key: &ObjectKey, uid: &str) -> bool {
    live.is_some_and(|job| job.metadata.key() == *key && job.metadata.uid == uid && !job.metadata.is_deleting())
}

/// Whether a pod with the Job `uid` as its controller will never be counted, so that its finalizer only delays its
/// deletion. `live` is the Job that has the name now. Finalizers of Jobs of other controllers are left alone.
// Upstream: a later Job of the same name with another controller keeps the finalizers too, so pods that lost their own
// Job just before stay forever.
pub fn is_abandoned(uid: &str, live: Option<&JobView>) -> bool {
    live.is_none_or(|job| job.metadata.uid != uid || (!is_managed_by_others(job) && is_finished(job)))
}

fn can_claim(job: &JobView) -> bool {
    !job.metadata.is_deleting() && !is_finished(job) && !is_managed_by_others(job)
}

/// The Job's selector. An empty one, which selects everything, claims nothing.
fn selector(job: &JobView) -> Option<ParsedLabelSelector> {
    let selector = ParsedLabelSelector::from_label_selector(job.spec.selector.as_ref()?).ok()?;
    Some(selector).filter(|selector| !selector.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::job::tests::{JobBuilder, PodBuilder, at, job, pod};

    fn selecting(selector: Value) -> JobBuilder {
        job(json!({ "selector": selector }))
    }

    fn labelled(name: &str, app: &str) -> PodBuilder {
        pod(name).label("app", app)
    }

    fn names(pods: &[Arc<PodView>]) -> String {
        pods.iter().map(|pod| pod.metadata.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_are_adopted_and_released_by_selector() {
        let exact = || selecting(json!({ "matchLabels": { "app": "x" } }));
        let expression =
            || selecting(json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["x", "y"] }] }));
        let complete = || exact().condition("Complete", "");
        for (case, job, want) in [
            ("by label", exact(), "own: a, release: b, adopt: c"),
            ("by expression", expression(), "own: a b, release: , adopt: c d"),
            ("no selector", job(json!({})), "own: a b, release: , adopt: "),
            ("an empty selector", selecting(json!({})), "own: a b, release: , adopt: "),
            (
                "a Job that is being deleted",
                exact().with(|job| job.metadata.deletion_timestamp = Some(at(1))),
                "own: a b, release: , adopt: ",
            ),
            ("a Job that is complete", complete(), "own: a b, release: , adopt: "),
            (
                "a Job of another controller",
                exact().with(|job| job.spec.managed_by = Some("kueue".to_owned())),
                "own: a b, release: , adopt: ",
            ),
        ] {
            let controlled = vec![labelled("a", "x").build(), labelled("b", "y").build()];
            let orphan = |name: &str, app: &str| labelled(name, app).uncontrolled();
            let uncontrolled = vec![
                orphan("c", "x").build(),
                orphan("d", "y").build(),
                orphan("e", "x").deleting().build(),
                orphan("f", "x").namespace("elsewhere").build(),
                labelled("g", "x").build(),
            ];
            let claims = claim(&job.0, controlled, uncontrolled);
            let got = format!(
                "own: {}, release: {}, adopt: {}",
                names(&claims.own),
                names(&claims.to_release),
                names(&claims.to_adopt)
            );
            assert_eq!(got, want, "{case}");
        }
    }

    // Shows: U-TestSyncOrphanPod
    #[test]
    fn a_pod_is_abandoned_when_no_controller_will_count_it() {
        let running = || job(json!({}));
        let others = || running().with(|job| job.spec.managed_by = Some("kueue".to_owned()));
        for (case, live, uid, want) in [
            ("the Job is gone", None, "job-uid", true),
            ("the Job runs", Some(running()), "job-uid", false),
            (
                "the Job is being deleted",
                Some(running().with(|job| job.metadata.deletion_timestamp = Some(at(1)))),
                "job-uid",
                false,
            ),
            ("the Job is complete", Some(running().condition("Complete", "")), "job-uid", true),
            ("the Job has failed", Some(running().condition("Failed", "")), "job-uid", true),
            ("another Job of the same name runs", Some(running()), "earlier", true),
            ("it has another controller", Some(others()), "job-uid", false),
            ("it has another controller, and is complete", Some(others().condition("Complete", "")), "job-uid", false),
            ("a later one has another controller", Some(others()), "earlier", true),
        ] {
            assert_eq!(is_abandoned(uid, live.as_ref().map(|job| &job.0)), want, "{case}");
        }
    }

    #[test]
    fn only_an_existing_job_that_is_not_being_deleted_adopts() {
        let key = ObjectKey::new("ns", "train");
        let (existing, mut deleting) = (job(json!({})).0, job(json!({})).0);
        deleting.metadata.deletion_timestamp = Some(at(1));
        for (case, live, uid, want) in [
            ("gone", None, "job-uid", false),
            ("it exists", Some(&existing), "job-uid", true),
            ("another of the same name", Some(&existing), "other", false),
            ("it is being deleted", Some(&deleting), "job-uid", false),
        ] {
            assert_eq!(may_adopt(live, &key, uid), want, "{case}");
        }
    }

    #[test]
    fn the_jobs_that_would_adopt_a_pod_are_found_by_its_labels() {
        let jobs = Cache::new(&[JobView::BY_SELECTOR]);
        let mut by_label = selecting(json!({ "matchLabels": { "app": "x" } })).0;
        by_label.metadata.name = "by-label".to_owned();
        let expression = json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] });
        let mut by_expression = selecting(expression).0;
        by_expression.metadata.name = "by-expression".to_owned();
        jobs.replace(vec![by_label, by_expression], &Default::default(), api::Revision(1));
        let found = |pod: PodBuilder| {
            let found = adopters(&pod.0, &jobs);
            found.iter().map(|job| job.metadata.name.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found(labelled("a", "x").uncontrolled()), "by-label by-expression");
        assert_eq!(found(labelled("a", "y").uncontrolled()), "by-expression");
        assert_eq!(found(pod("a").uncontrolled()), "");
    }
}
