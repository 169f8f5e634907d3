//! What users do with Jobs, step by step, for tests in which the controllers end or hear badly meanwhile.

use std::sync::Arc;
use std::time::Duration;

use api::views::{Condition, JobView, PodPhase, PodView};
use serde_json::{Value, json};
use testkit::{JobBuilder, TestCluster, job, pod};
use tokio::time::Instant;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The index that fails, where one does.
const BAD_INDEX: &str = "1";

/// A story: each step waits for something and then asks the server for something.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// What it is about.
    pub name: &'static str,
    /// The steps.
    pub steps: fn(&TestCluster) -> Vec<ScenarioStep>,
    /// What a kubelet does here that the simulated ones do not; asked again and again.
    pub kubelet_requests: fn(&TestCluster) -> Vec<ScenarioRequest>,
    /// Whether all that was to come has come.
    pub has_ended: fn(&TestCluster) -> bool,
}

/// What users do once something is so.
pub struct ScenarioStep {
    /// What they wait for.
    pub condition: Box<dyn Fn(&TestCluster) -> bool>,
    /// What they ask for then.
    pub requests: StepRequests,
}

/// What is asked for, as things are at that moment.
type StepRequests = Box<dyn Fn(&TestCluster) -> Vec<ScenarioRequest>>;

/// A request.
#[derive(Clone)]
pub struct ScenarioRequest {
    method: &'static str,
    path: String,
    body: Value,
}

impl ScenarioRequest {
    /// Asks; the answer may be a refusal.
    pub async fn try_send(&self, home: &TestCluster) {
        let _ = home.request(self.method, &self.path, &self.body).await;
    }

    /// Asks, and is answered well.
    pub async fn send(&self, home: &TestCluster) -> Value {
        let answer = home.request(self.method, &self.path, &self.body).await;
        answer.unwrap_or_else(|error| panic!("{} {}: {error}", self.method, self.path))
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

/// A Job with more work than places.
pub const PLAIN: Scenario = Scenario {
    name: "a plain Job",
    steps: |_| {
        vec![at_once(vec![ScenarioRequest::post(short("plain").spec("parallelism", 3).spec("completions", 5).build())])]
    },
    kubelet_requests: nothing,
    has_ended: |home| has_ended_and_released_pods(home, "plain"),
};

/// All or nothing, each pod with an index.
pub const GANG: Scenario = Scenario {
    name: "a gang Job",
    steps: |_| vec![at_once(vec![ScenarioRequest::post(short("gang").pods(4).indexed().gang().gpus(2).build())])],
    kubelet_requests: nothing,
    has_ended: |home| has_ended_and_released_pods(home, "gang"),
};

/// One index fails as often as it may, the others succeed.
pub const FAILING_INDEX: Scenario = Scenario {
    name: "a Job with an index that fails",
    steps: |_| {
        vec![at_once(vec![ScenarioRequest::post(
            endless("bad").pods(3).indexed().spec("backoffLimitPerIndex", 1).build(),
        )])]
    },
    kubelet_requests: |home| {
        let is_bad = |pod: &Arc<PodView>| pod.metadata.annotations.get(INDEX).is_some_and(|index| index == BAD_INDEX);
        let (bad, good) = running(home, "bad").into_iter().partition(is_bad);
        // The others succeed once this one has failed.
        let has_failed = pods_of(home, "bad").iter().any(|pod| pod.status.phase == PodPhase::Failed);
        if has_failed {
            [end_pods(bad, "Failed"), end_pods(good, "Succeeded")].concat()
        } else {
            end_pods(bad, "Failed")
        }
    },
    has_ended: |home| has_ended_and_released_pods(home, "bad"),
};

/// A gang that rests for a while and goes on.
pub const SUSPENDED: Scenario = Scenario {
    name: "a Job that is suspended and resumed",
    steps: |_| {
        let suspend = |suspend: bool| {
            let path = format!("{JOBS}/rests");
            vec![ScenarioRequest::patch(path, json!({"spec": {"suspend": suspend}}))]
        };
        vec![
            at_once(vec![ScenarioRequest::post(endless("rests").pods(3).indexed().gang().build())]),
            step_when(|home| running(home, "rests").len() == 3, suspend(true)),
            step_when(
                |home| pods_of(home, "rests").is_empty() && has_condition(home, "rests", "Suspended"),
                suspend(false),
            ),
        ]
    },
    // Its pods end once it has gone on.
    kubelet_requests: |home| {
        let conditions = job_called(home, "rests").map(|job| job.status.conditions.clone()).unwrap_or_default();
        let goes_on = conditions.iter().any(|held| held.kind == "Suspended" && held.status == "False");
        if goes_on { end_pods(running(home, "rests"), "Succeeded") } else { Vec::new() }
    },
    has_ended: |home| has_ended_and_released_pods(home, "rests"),
};

/// A gang that grows and shrinks, with the least it can do with.
pub const ELASTIC: Scenario = Scenario {
    name: "a Job that grows and shrinks",
    steps: |_| {
        let mut job = endless("elastic").pods(4).indexed().build();
        job["spec"]["scheduling"] = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
        let size = |pods: u32, least: u32| {
            let policy = json!({"gang": {"minCount": least}});
            let spec = json!({"parallelism": pods, "completions": pods, "scheduling": {"schedulingPolicy": policy}});
            vec![ScenarioRequest::patch(format!("{JOBS}/elastic"), json!({"spec": spec}))]
        };
        vec![
            at_once(vec![ScenarioRequest::post(job)]),
            step_when(|home| running(home, "elastic").len() == 4, size(6, 3)),
            step_when(|home| running(home, "elastic").len() == 6, size(3, 2)),
        ]
    },
    // Its pods end once it has its last size.
    kubelet_requests: |home| {
        let is_last = job_called(home, "elastic").is_some_and(|job| job.spec.parallelism == Some(3));
        let (pods, left) = (pods_of(home, "elastic"), running(home, "elastic"));
        if is_last && pods.len() == 3 { end_pods(left, "Succeeded") } else { Vec::new() }
    },
    has_ended: |home| has_ended_and_released_pods(home, "elastic"),
};

/// Two Jobs of one parent, with groups of one template of its Workload.
pub const CHILDREN: Scenario = Scenario {
    name: "children of one parent",
    steps: |_| {
        // A pod stands for a parent of another kind; a real one, since owners that are not there do not count.
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
            |home: &TestCluster| ["left", "right"].map(|name| ScenarioRequest::post(child(home, name))).to_vec();
        vec![
            at_once(vec![ScenarioRequest { method: "POST", path, body: parent }, ScenarioRequest::post(workload)]),
            ScenarioStep { condition: Box::new(|home| parent_of_all(home).is_some()), requests: Box::new(children) },
        ]
    },
    kubelet_requests: nothing,
    has_ended: |home| has_ended_and_released_pods(home, "left") && has_ended_and_released_pods(home, "right"),
};

/// One CronJob whose Jobs replace each other, and one whose old Jobs go.
pub const CRON: Scenario = Scenario {
    name: "CronJobs that replace Jobs and drop old ones",
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
    has_ended: |home| {
        let jobs = home.caches().jobs.all();
        let of = |cron: &str| jobs.iter().filter(move |job| job.metadata.name.starts_with(cron)).collect::<Vec<_>>();
        let is_left = |job: &&Arc<JobView>| job.status.ready == Some(1);
        of("replaces").iter().filter(|job| is_left(job)).count() == 1
            && of("replaces").len() == 1
            && of("forgets").len() == 1
            && has_ended_and_released_pods(home, &of("forgets")[0].metadata.name)
            && home.caches().pods.all().len() == 2
    },
};

/// One Job is deleted while it runs, another some time after its end.
pub const DELETED: Scenario = Scenario {
    name: "Jobs that are deleted",
    steps: |_| {
        let runs = job("runs").pods(3).gang().annotate("phalanx.dev/run-seconds", "1000").build();
        let expires = short("expires").pods(2).indexed().gang().spec("ttlSecondsAfterFinished", 5).build();
        let options = json!({"propagationPolicy": "Foreground"});
        let delete = ScenarioRequest { method: "DELETE", path: format!("{JOBS}/runs"), body: options };
        vec![
            at_once(vec![ScenarioRequest::post(runs), ScenarioRequest::post(expires)]),
            step_when(|home| running(home, "runs").len() == 3, vec![delete]),
        ]
    },
    kubelet_requests: nothing,
    has_ended: |home| {
        let caches = home.caches();
        let left = caches.jobs.all().len() + caches.pods.all().len();
        left + caches.workloads.all().len() + caches.pod_groups.all().len() == 0
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

/// A Job whose pods take two seconds.
fn short(name: &str) -> JobBuilder {
    job(name).annotate("phalanx.dev/run-seconds", "2")
}

/// A Job whose pods run until somebody ends them.
fn endless(name: &str) -> JobBuilder {
    job(name).annotate("phalanx.dev/run-seconds", "100000")
}

/// The pods end.
fn end_pods(pods: Vec<Arc<PodView>>, phase: &str) -> Vec<ScenarioRequest> {
    let end = |pod: &Arc<PodView>| {
        let path = format!("/api/v1/namespaces/default/pods/{}/status", pod.metadata.name);
        ScenarioRequest::patch(path, json!({"status": {"phase": phase}}))
    };
    pods.iter().map(end).collect()
}

fn parent_of_all(home: &TestCluster) -> Option<Arc<PodView>> {
    home.caches().pods.all().into_iter().find(|pod| pod.metadata.name == "parent")
}

/// A Job that is one of its parent's, and delegates to it what its group is like.
fn child(home: &TestCluster, name: &str) -> Value {
    let parent = parent_of_all(home).expect("it was waited for");
    let mut child = short(name).pods(2).build();
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "parent", "uid": parent.metadata.uid, "controller": true});
    child["metadata"]["ownerReferences"] = json!([owner]);
    child["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-template-name": "workers"});
    child
}

fn job_called(home: &TestCluster, name: &str) -> Option<Arc<JobView>> {
    home.caches().jobs.all().into_iter().find(|job| job.metadata.name == name)
}

fn pods_of(home: &TestCluster, job: &str) -> Vec<Arc<PodView>> {
    let is_of = |pod: &Arc<PodView>| pod.metadata.controller().is_some_and(|owner| owner.name == job);
    home.caches().pods.all().into_iter().filter(is_of).collect()
}

fn running(home: &TestCluster, job: &str) -> Vec<Arc<PodView>> {
    let runs = |pod: &Arc<PodView>| pod.status.phase == PodPhase::Running && !pod.metadata.is_deleting();
    pods_of(home, job).into_iter().filter(runs).collect()
}

fn has_condition(home: &TestCluster, job: &str, condition: &str) -> bool {
    job_called(home, job).is_some_and(|job| Condition::is_true(&job.status.conditions, condition))
}

/// Whether the Job has ended and let go of its pods.
fn has_ended_and_released_pods(home: &TestCluster, job: &str) -> bool {
    let held = || pods_of(home, job).iter().any(|pod| !pod.metadata.finalizers.is_empty());
    (has_condition(home, job, "Complete") || has_condition(home, job, "Failed")) && !held()
}
