//! The objects in the cluster's namespace.

use std::sync::Arc;
use std::time::Duration;

use api::kinds;
use api::views::{Condition, JobView, PodGroupView, PodPhase, PodView, View, WorkloadView};
use runtime::Cache;
use serde_json::{Value, json};

use super::TestCluster;

/// The time limit of a simple step on virtual time.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// An Event that is not written by then is lost.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

impl TestCluster {
    /// The namespace of this cluster's objects.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The path of a plural in the namespace and what follows it: `jobs`, `jobs/train`, `pods/a/status`.
    pub fn path(&self, of: &str) -> String {
        let plural_bytes = of.find(['/', '?']).unwrap_or(of.len());
        let (plural, rest) = of.split_at(plural_bytes);
        let resource = kinds::by_plural(plural).unwrap_or_else(|| panic!("the server does not serve {plural}"));
        format!("{}{rest}", resource.collection_path(&self.namespace))
    }

    /// Reads the object at [`TestCluster::path`]; panics if there is none.
    pub async fn get(&self, of: &str) -> Value {
        self.request("GET", &self.path(of), &Value::Null).await.unwrap_or_else(|error| panic!("{of}: {error}"))
    }

    /// Sends a merge patch for the object at [`TestCluster::path`]; panics if it is refused.
    pub async fn patch(&self, of: &str, patch: &Value) -> Value {
        let result = self.request("PATCH", &self.path(of), patch).await;
        result.unwrap_or_else(|error| panic!("{of}: {patch}: {error}"))
    }

    /// Deletes the object at [`TestCluster::path`] with background propagation.
    pub async fn delete(&self, of: &str) {
        self.delete_with_policy("Background", of).await;
    }

    /// The same with this propagation policy.
    pub async fn delete_with_policy(&self, policy: &str, of: &str) {
        let result = self.request("DELETE", &self.path(of), &json!({"propagationPolicy": policy})).await;
        result.unwrap_or_else(|error| panic!("{of}: {error}"));
    }

    /// The Jobs, by name.
    pub fn jobs(&self) -> Vec<Arc<JobView>> {
        self.in_namespace(self.caches().get())
    }

    /// The pods, by name.
    pub fn pods(&self) -> Vec<Arc<PodView>> {
        self.in_namespace(self.caches().get())
    }

    /// The Workloads, by name.
    pub fn workloads(&self) -> Vec<Arc<WorkloadView>> {
        self.in_namespace(self.caches().get())
    }

    /// The PodGroups, by name.
    pub fn pod_groups(&self) -> Vec<Arc<PodGroupView>> {
        self.in_namespace(self.caches().get())
    }

    fn in_namespace<V: View>(&self, cache: &Cache<V>) -> Vec<Arc<V>> {
        cache.all().into_iter().filter(|object| object.meta().namespace == self.namespace).collect()
    }

    /// A Job.
    pub fn job(&self, name: &str) -> Option<Arc<JobView>> {
        self.jobs().into_iter().find(|job| job.metadata.name == name)
    }

    /// The pods that a Job controls, by name.
    pub fn pods_of(&self, job: &str) -> Vec<Arc<PodView>> {
        let is_of = |pod: &Arc<PodView>| {
            pod.metadata.controller().is_some_and(|owner| owner.kind == "Job" && owner.name == job)
        };
        self.pods().into_iter().filter(is_of).collect()
    }

    /// Those of them that run and are not being deleted.
    pub fn running_pods(&self, job: &str) -> Vec<Arc<PodView>> {
        let runs = |pod: &Arc<PodView>| pod.status.phase == PodPhase::Running && !pod.metadata.is_deleting();
        self.pods_of(job).into_iter().filter(runs).collect()
    }

    /// Waits until a Job has finished, and returns its terminal condition: `Complete` or `Failed`.
    pub async fn wait_until_ended(&self, name: &str, within: Duration) -> (Arc<JobView>, Condition) {
        let ended = |cluster: &TestCluster| {
            let job = cluster.job(name)?;
            let is_terminal =
                |one: &&Condition| ["Complete", "Failed"].contains(&one.kind.as_str()) && one.status == "True";
            let condition = job.status.conditions.iter().find(is_terminal).cloned()?;
            Some((job, condition))
        };
        self.eventually(&format!("{name} finishes"), within, ended).await
    }

    /// Waits until exactly `count` pods of a Job run and it has no other unfinished pods.
    pub async fn wait_until_running(&self, job: &str, count: usize) -> Vec<Arc<PodView>> {
        let settled = |cluster: &TestCluster| {
            let active = cluster.pods_of(job).into_iter().filter(|pod| !pod.is_finished()).count();
            let running = cluster.running_pods(job);
            (running.len() == count && active == count).then_some(running)
        };
        self.eventually(&format!("{count} pods of {job} run"), DEFAULT_TIMEOUT, settled).await
    }

    /// Waits until `is_so` holds for a Job.
    pub async fn wait_for_job(&self, name: &str, what: &str, is_so: impl Fn(&JobView) -> bool) -> Arc<JobView> {
        self.eventually(&format!("{name}: {what}"), DEFAULT_TIMEOUT, |cluster| {
            cluster.job(name).filter(|job| is_so(job))
        })
        .await
    }

    /// Waits for an Event with this reason on the object of that name, and returns its message. `None` if a concurrent
    /// test has killed the controllers meanwhile: Events that they had not written yet are lost.
    pub async fn wait_for_event(&self, reason: &str, about: &str) -> Option<String> {
        let what = format!("{about} has an Event {reason}");
        let lost_after = self.now() + EVENT_TIMEOUT;
        let found = |cluster: &TestCluster| {
            let message =
                cluster.events(about).into_iter().find(|(found, _)| found == reason).map(|(_, message)| Some(message));
            message
                .or_else(|| (cluster.may_controllers_have_restarted() && cluster.now() >= lost_after).then_some(None))
        };
        self.eventually(&what, DEFAULT_TIMEOUT, found).await
    }

    /// Reason and message of every Event on the object of that name.
    pub fn events(&self, about: &str) -> Vec<(String, String)> {
        let history = self.history();
        let events = history.iter().filter(|write| write.resource == "events" && write.created);
        let of_object = events.filter(|event| event.object["involvedObject"]["name"] == about);
        let text =
            |event: &super::RecordedWrite, field: &str| event.object[field].as_str().unwrap_or_default().to_owned();
        of_object.map(|event| (text(event, "reason"), text(event, "message"))).collect()
    }

    /// How many objects of this resource (`pods`, `batch/jobs`) were ever created.
    pub fn created_count(&self, resource: &str) -> usize {
        self.history().iter().filter(|write| write.resource == resource && write.created).count()
    }
}
