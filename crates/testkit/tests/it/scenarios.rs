//! What users do with Jobs, step by step, for tests with crashes and faulty watches.

use std::sync::Arc;
use std::time::Duration;

use api::views::{Condition, JobView, PodGroupView, PodPhase, PodView, WorkloadView};
use serde_json::{Value, json};
use testkit::{JobBuilder, TestCluster, job, pod};
use tokio::time::Instant;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The index that fails, where one does.
const BAD_INDEX: &str = "1";

/// A scenario: each step waits for a condition and then sends requests.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name in failure messages.
    pub name: &'static str,
    /// The steps.
    pub steps: fn(&TestCluster) -> Vec<ScenarioStep>,
    /// Requests of a kubelet that the simulated ones do not send; called repeatedly.
    pub kubelet_requests: fn(&TestCluster) -> Vec<ScenarioRequest>,
    /// Whether the scenario has ended.
    pub has_ended: fn(&TestCluster) -> bool,
}

/// Requests that are sent once a condition holds.
pub struct ScenarioStep {
    /// The condition.
    pub condition: Box<dyn Fn(&TestCluster) -> bool>,
    /// The requests.
    pub requests: StepRequests,
}

/// Computes requests from the state of the cluster.
type StepRequests = Box<dyn Fn(&TestCluster) -> Vec<ScenarioRequest>>;

/// A request.
#[derive(Clone)]
pub struct ScenarioRequest {
    method: &'static str,
    path: String,
    body: Value,
}

impl ScenarioRequest {
    /// Sends the request; it may fail.
    pub async fn try_send(&self, cluster: &TestCluster) {
        let _ = cluster.request(self.method, &self.path, &self.body).await;
    }

    /// Sends the request; panics if it fails.
    pub async fn send(&self, cluster: &TestCluster) -> Value {
        let result = cluster.request(self.method, &self.path, &self.body).await;
        result.unwrap_or_else(|error| panic!("{} {}: {error}", self.method, self.path))
    }

    fn post(manifest: Value) -> ScenarioRequest {
        let path = match manifest["kind"].as_str() {
            Some("CronJob") => CRON_JOBS.to_owned(),
            Some("Job") => JOBS.to_owned(),
            Some("Workload") => "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads".to_owned(),
            other => panic!("no path for {other:?}"),
        };
        ScenarioRequest { method: "POST", path, body: manifest }
    }

    fn patch(path: String, body: Value) -> ScenarioRequest {
        ScenarioRequest { method: "PATCH", path, body }
    }
}

/// A Job with more completions than parallelism.
pub const PLAIN: Scenario = Scenario {
    name: "a plain Job",
    steps: |_| {
        vec![at_once(vec![ScenarioRequest::post(short("plain").spec("parallelism", 3).spec("completions", 5).build())])]
    },
    kubelet_requests: nothing,
    has_ended: |cluster| has_ended_and_released_pods(cluster, "plain"),
};

/// An indexed gang.
pub const GANG: Scenario = Scenario {
    name: "a gang Job",
    steps: |_| vec![at_once(vec![ScenarioRequest::post(short("gang").pods(4).indexed().gang().gpus(2).build())])],
    kubelet_requests: nothing,
    has_ended: |cluster| has_ended_and_released_pods(cluster, "gang"),
};

/// One index exceeds its backoff limit, the others succeed.
pub const FAILING_INDEX: Scenario = Scenario {
    name: "a Job with an index that fails",
    steps: |_| {
        vec![at_once(vec![ScenarioRequest::post(
            endless("bad").pods(3).indexed().spec("backoffLimitPerIndex", 1).build(),
        )])]
    },
    kubelet_requests: |cluster| {
        let is_bad = |pod: &Arc<PodView>| pod.metadata.annotations.get(INDEX).is_some_and(|index| index == BAD_INDEX);
        let (bad, good) = running(cluster, "bad").into_iter().partition(is_bad);
        // The other indexes succeed once this one has failed.
        let has_failed = pods_of(cluster, "bad").iter().any(|pod| pod.status.phase == PodPhase::Failed);
        if has_failed {
            [end_pods(bad, "Failed"), end_pods(good, "Succeeded")].concat()
        } else {
            end_pods(bad, "Failed")
        }
    },
    has_ended: |cluster| has_ended_and_released_pods(cluster, "bad"),
};

/// A gang that is suspended and resumed.
pub const SUSPENDED: Scenario = Scenario {
    name: "a Job that is suspended and resumed",
    steps: |_| {
        let suspend = |suspend: bool| {
            let path = format!("{JOBS}/rests");
            vec![ScenarioRequest::patch(path, json!({"spec": {"suspend": suspend}}))]
        };
        vec![
            at_once(vec![ScenarioRequest::post(endless("rests").pods(3).indexed().gang().build())]),
            step_when(|cluster| running(cluster, "rests").len() == 3, suspend(true)),
            step_when(
                |cluster| pods_of(cluster, "rests").is_empty() && has_condition(cluster, "rests", "Suspended"),
                suspend(false),
            ),
        ]
    },
    // Its pods end once it is resumed.
    kubelet_requests: |cluster| {
        let conditions = job_called(cluster, "rests").map(|job| job.status.conditions.clone()).unwrap_or_default();
        let is_resumed = conditions.iter().any(|one| one.kind == "Suspended" && one.status == "False");
        if is_resumed { end_pods(running(cluster, "rests"), "Succeeded") } else { Vec::new() }
    },
    has_ended: |cluster| has_ended_and_released_pods(cluster, "rests"),
};

/// A gang that is resized, with its `minCount`.
pub const ELASTIC: Scenario = Scenario {
    name: "a Job that grows and shrinks",
    steps: |_| {
        let mut job = endless("elastic").pods(4).indexed().build();
        job["spec"]["scheduling"] = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
        let size = |pods: u32, min_count: u32| {
            let policy = json!({"gang": {"minCount": min_count}});
            let spec = json!({"parallelism": pods, "completions": pods, "scheduling": {"schedulingPolicy": policy}});
            vec![ScenarioRequest::patch(format!("{JOBS}/elastic"), json!({"spec": spec}))]
        };
        vec![
            at_once(vec![ScenarioRequest::post(job)]),
            step_when(|cluster| running(cluster, "elastic").len() == 4, size(6, 3)),
            step_when(|cluster| running(cluster, "elastic").len() == 6, size(3, 2)),
        ]
    },
    // Its pods end once it has its final size.
    kubelet_requests: |cluster| {
        let is_final = job_called(cluster, "elastic").is_some_and(|job| job.spec.parallelism == Some(3));
        let (pods, left) = (pods_of(cluster, "elastic"), running(cluster, "elastic"));
        if is_final && pods.len() == 3 { end_pods(left, "Succeeded") } else { Vec::new() }
    },
    has_ended: |cluster| has_ended_and_released_pods(cluster, "elastic"),
};

/// Two Jobs of one parent, with groups from one template of its Workload.
pub const CHILDREN: Scenario = Scenario {
    name: "children of one parent",
    steps: |_| {
        // A pod takes the role of a parent of another kind. It must exist, because missing owners do not count.
        let parent = pod("parent").annotate("phalanx.dev/run-seconds", "100000").build();
        let path = "/api/v1/namespaces/default/pods".to_owned();
        let workload = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "parents"},
            "spec": {
                "controllerRef": {"apiGroup": "", "kind": "Pod", "name": "parent"},
                "podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}],
            },
        });
        let children =
            |cluster: &TestCluster| ["left", "right"].map(|name| ScenarioRequest::post(child(cluster, name))).to_vec();
        vec![
            at_once(vec![ScenarioRequest { method: "POST", path, body: parent }, ScenarioRequest::post(workload)]),
            ScenarioStep {
                condition: Box::new(|cluster| parent_of_all(cluster).is_some()),
                requests: Box::new(children),
            },
        ]
    },
    kubelet_requests: nothing,
    has_ended: |cluster| has_ended_and_released_pods(cluster, "left") && has_ended_and_released_pods(cluster, "right"),
};

/// One CronJob whose Jobs replace each other, and one whose old Jobs are deleted.
pub const CRON: Scenario = Scenario {
    name: "CronJobs that replace Jobs and delete old ones",
    steps: |_| {
        let cron_job = |name: &str, policy: &str, seconds: &str| {
            let job = job("unnamed").gang().annotate("phalanx.dev/run-seconds", seconds).build();
            let spec = json!({
                "schedule": "* * * * *", "concurrencyPolicy": policy, "successfulJobsHistoryLimit": 1,
                "jobTemplate": {"spec": job["spec"]},
            });
            let meta = json!({"name": name, "namespace": "default"});
            ScenarioRequest::post(json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec}))
        };
        let suspend =
            |name: &str| ScenarioRequest::patch(format!("{CRON_JOBS}/{name}"), json!({"spec": {"suspend": true}}));
        let begin = Instant::now();
        vec![
            at_once(vec![cron_job("replaces", "Replace", "1000"), cron_job("forgets", "Forbid", "5")]),
            ScenarioStep {
                condition: Box::new(move |_| begin.elapsed() > Duration::from_secs(150)),
                requests: Box::new(move |_| vec![suspend("replaces"), suspend("forgets")]),
            },
        ]
    },
    kubelet_requests: nothing,
    has_ended: |cluster| {
        let jobs = cluster.cache::<JobView>().all();
        let of = |cron: &str| jobs.iter().filter(move |job| job.metadata.name.starts_with(cron)).collect::<Vec<_>>();
        let is_ready = |job: &&Arc<JobView>| job.status.ready == Some(1);
        of("replaces").iter().filter(|job| is_ready(job)).count() == 1
            && of("replaces").len() == 1
            && of("forgets").len() == 1
            && has_ended_and_released_pods(cluster, &of("forgets")[0].metadata.name)
            && cluster.cache::<PodView>().all().len() == 2
    },
};

/// One Job is deleted while it runs, another after its TTL.
pub const DELETED: Scenario = Scenario {
    name: "Jobs that are deleted",
    steps: |_| {
        let runs = job("runs").pods(3).gang().annotate("phalanx.dev/run-seconds", "1000").build();
        let expires = short("expires").pods(2).indexed().gang().spec("ttlSecondsAfterFinished", 5).build();
        let options = json!({"propagationPolicy": "Foreground"});
        let delete = ScenarioRequest { method: "DELETE", path: format!("{JOBS}/runs"), body: options };
        vec![
            at_once(vec![ScenarioRequest::post(runs), ScenarioRequest::post(expires)]),
            step_when(|cluster| running(cluster, "runs").len() == 3, vec![delete]),
        ]
    },
    kubelet_requests: nothing,
    has_ended: |cluster| {
        let caches = cluster.caches();
        let left = caches.get::<JobView>().all().len() + caches.get::<PodView>().all().len();
        left + caches.get::<WorkloadView>().all().len() + caches.get::<PodGroupView>().all().len() == 0
    },
};

fn at_once(then: Vec<ScenarioRequest>) -> ScenarioStep {
    step_when(|_| true, then)
}

fn step_when(when: impl Fn(&TestCluster) -> bool + 'static, then: Vec<ScenarioRequest>) -> ScenarioStep {
    ScenarioStep { condition: Box::new(when), requests: Box::new(move |_| then.clone()) }
}

fn nothing(_: &TestCluster) -> Vec<ScenarioRequest> {
    Vec::new()
}

/// A Job whose pods run for two seconds.
fn short(name: &str) -> JobBuilder {
    job(name).annotate("phalanx.dev/run-seconds", "2")
}

/// A Job whose pods run until they are ended.
fn endless(name: &str) -> JobBuilder {
    job(name).annotate("phalanx.dev/run-seconds", "100000")
}

/// Ends the pods.
fn end_pods(pods: Vec<Arc<PodView>>, phase: &str) -> Vec<ScenarioRequest> {
    let end = |pod: &Arc<PodView>| {
        let path = format!("/api/v1/namespaces/default/pods/{}/status", pod.metadata.name);
        ScenarioRequest::patch(path, json!({"status": {"phase": phase}}))
    };
    pods.iter().map(end).collect()
}

fn parent_of_all(cluster: &TestCluster) -> Option<Arc<PodView>> {
    cluster.cache::<PodView>().all().into_iter().find(|pod| pod.metadata.name == "parent")
}

/// A Job of the parent that takes its group from a template of the parent's Workload.
fn child(cluster: &TestCluster, name: &str) -> Value {
    let parent = parent_of_all(cluster).expect("the scenario has waited for it");
    let mut child = short(name).pods(2).build();
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "parent", "uid": parent.metadata.uid, "controller": true});
    child["metadata"]["ownerReferences"] = json!([owner]);
    child["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-template-name": "workers"});
    child
}

fn job_called(cluster: &TestCluster, name: &str) -> Option<Arc<JobView>> {
    cluster.cache::<JobView>().all().into_iter().find(|job| job.metadata.name == name)
}

fn pods_of(cluster: &TestCluster, job: &str) -> Vec<Arc<PodView>> {
    let is_of = |pod: &Arc<PodView>| pod.metadata.controller().is_some_and(|owner| owner.name == job);
    cluster.cache::<PodView>().all().into_iter().filter(is_of).collect()
}

fn running(cluster: &TestCluster, job: &str) -> Vec<Arc<PodView>> {
    let runs = |pod: &Arc<PodView>| pod.status.phase == PodPhase::Running && !pod.metadata.is_deleting();
    pods_of(cluster, job).into_iter().filter(runs).collect()
}

fn has_condition(cluster: &TestCluster, job: &str, condition: &str) -> bool {
    job_called(cluster, job).is_some_and(|job| Condition::is_true(&job.status.conditions, condition))
}

/// Whether the Job has finished and the finalizers of its pods are removed.
fn has_ended_and_released_pods(cluster: &TestCluster, job: &str) -> bool {
    let has_finalizers = || pods_of(cluster, job).iter().any(|pod| !pod.metadata.finalizers.is_empty());
    (has_condition(cluster, job, "Complete") || has_condition(cluster, job, "Failed")) && !has_finalizers()
}
