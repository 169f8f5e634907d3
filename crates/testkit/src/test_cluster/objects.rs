//! What lives in a home's namespace.

use std::sync::Arc;
use std::time::Duration;

use api::views::{Condition, JobView, PodGroupView, PodPhase, PodView, View, WorkloadView};
use runtime::Cache;
use serde_json::{Value, json};

use super::{TestCluster, kinds};

/// How long a simple thing may take where nothing else is to be done.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// An Event that was not written by then was never going to be.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

impl TestCluster {
    /// Where the objects of this home are made.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The path of a plural in the namespace and what follows it: `jobs`, `jobs/train`, `pods/a/status`.
    pub fn path(&self, of: &str) -> String {
        let plural_bytes = of.find(['/', '?']).unwrap_or(of.len());
        let (plural, rest) = of.split_at(plural_bytes);
        let resource = kinds::all().iter().find(|resource| resource.plural == plural);
        let resource = resource.unwrap_or_else(|| panic!("the server does not serve {plural}"));
        format!("{}{rest}", kinds::collection_in(resource, &self.namespace))
    }

    /// Reads what is at [`Home::path`]; panics when it is not there.
    pub async fn get(&self, of: &str) -> Value {
        self.request("GET", &self.path(of), &Value::Null).await.unwrap_or_else(|error| panic!("{of}: {error}"))
    }

    /// Merges `change` into what is at [`Home::path`]; panics when it is refused.
    pub async fn patch(&self, of: &str, change: &Value) -> Value {
        let answer = self.request("PATCH", &self.path(of), change).await;
        answer.unwrap_or_else(|error| panic!("{of}: {change}: {error}"))
    }

    /// Deletes what is at [`Home::path`]; what depends on it goes afterwards.
    pub async fn delete(&self, of: &str) {
        self.delete_with_policy("Background", of).await;
    }

    /// The same with a propagation policy of the test's own.
    pub async fn delete_with_policy(&self, policy: &str, of: &str) {
        let answer = self.request("DELETE", &self.path(of), &json!({"propagationPolicy": policy})).await;
        answer.unwrap_or_else(|error| panic!("{of}: {error}"));
    }

    /// The Jobs, by name.
    pub fn jobs(&self) -> Vec<Arc<JobView>> {
        self.in_namespace(&self.caches().jobs)
    }

    /// The pods, by name.
    pub fn pods(&self) -> Vec<Arc<PodView>> {
        self.in_namespace(&self.caches().pods)
    }

    /// The Workloads, by name.
    pub fn workloads(&self) -> Vec<Arc<WorkloadView>> {
        self.in_namespace(&self.caches().workloads)
    }

    /// The PodGroups, by name.
    pub fn pod_groups(&self) -> Vec<Arc<PodGroupView>> {
        self.in_namespace(&self.caches().pod_groups)
    }

    fn in_namespace<V: View>(&self, cache: &Cache<V>) -> Vec<Arc<V>> {
        cache.all().into_iter().filter(|object| object.meta().namespace == self.namespace).collect()
    }

    /// A Job.
    pub fn job(&self, name: &str) -> Option<Arc<JobView>> {
        self.jobs().into_iter().find(|job| job.metadata.name == name)
    }

    /// The pods that a Job manages, by name.
    pub fn pods_of(&self, job: &str) -> Vec<Arc<PodView>> {
        let is_of = |pod: &Arc<PodView>| {
            pod.metadata.controller().is_some_and(|owner| owner.kind == "Job" && owner.name == job)
        };
        self.pods().into_iter().filter(is_of).collect()
    }

    /// Those of them that run and are to go on.
    pub fn running_pods(&self, job: &str) -> Vec<Arc<PodView>> {
        let runs = |pod: &Arc<PodView>| pod.status.phase == PodPhase::Running && !pod.metadata.is_deleting();
        self.pods_of(job).into_iter().filter(runs).collect()
    }

    /// Waits until a Job has ended, and says what its last condition is: `Complete` or `Failed`.
    pub async fn wait_until_ended(&self, name: &str, within: Duration) -> (Arc<JobView>, Condition) {
        let ended = |home: &TestCluster| {
            let job = home.job(name)?;
            let is_last =
                |held: &&Condition| ["Complete", "Failed"].contains(&held.kind.as_str()) && held.status == "True";
            let condition = job.status.conditions.iter().find(is_last).cloned()?;
            Some((job, condition))
        };
        self.eventually(&format!("{name} ends"), within, ended).await
    }

    /// Waits until exactly so many pods of a Job run and are to go on, and nothing else of it is left to start or to end.
    pub async fn wait_until_running(&self, job: &str, count: usize) -> Vec<Arc<PodView>> {
        let settled = |home: &TestCluster| {
            let active = home.pods_of(job).into_iter().filter(|pod| !pod.is_finished()).count();
            let running = home.running_pods(job);
            (running.len() == count && active == count).then_some(running)
        };
        self.eventually(&format!("{count} pods of {job} run"), DEFAULT_TIMEOUT, settled).await
    }

    /// Waits until the status of a Job is as wanted.
    pub async fn wait_for_job(&self, name: &str, what: &str, is_so: impl Fn(&JobView) -> bool) -> Arc<JobView> {
        self.eventually(&format!("{name}: {what}"), DEFAULT_TIMEOUT, |home| home.job(name).filter(|job| is_so(job)))
            .await
    }

    /// Waits until an Event with this reason was written about the object of that name, and returns its message. None where
    /// a test beside this one has ended the controllers meanwhile: what they had still to tell is lost with them.
    pub async fn wait_for_event(&self, reason: &str, about: &str) -> Option<String> {
        let what = format!("{reason} is told of {about}");
        let lost_after = self.now() + EVENT_TIMEOUT;
        let found = |home: &TestCluster| {
            let told =
                home.events(about).into_iter().find(|(found, _)| found == reason).map(|(_, message)| Some(message));
            told.or_else(|| (home.may_controllers_have_restarted() && home.now() >= lost_after).then_some(None))
        };
        self.eventually(&what, DEFAULT_TIMEOUT, found).await
    }

    /// Reason and message of every Event that was written about the object of that name.
    pub fn events(&self, about: &str) -> Vec<(String, String)> {
        let history = self.history();
        let events = history.iter().filter(|change| change.resource == "events" && change.created);
        let of_it = events.filter(|event| event.object["involvedObject"]["name"] == about);
        let text =
            |event: &super::RecordedWrite, field: &str| event.object[field].as_str().unwrap_or_default().to_owned();
        of_it.map(|event| (text(event, "reason"), text(event, "message"))).collect()
    }

    /// How many objects of this resource (`pods`, `batch/jobs`) were ever made.
    pub fn created_count(&self, resource: &str) -> usize {
        self.history().iter().filter(|change| change.resource == resource && change.created).count()
    }
}
