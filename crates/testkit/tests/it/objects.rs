//! The scheduling objects of Jobs through the whole control plane: who gets them, whose are used, what suspension leaves,
//! and gangs that lose pods.

use std::sync::Arc;
use std::time::Duration;

use api::gates::{Gate, Gates};
use api::views::{Condition, JobView, PodPhase, PodView};
use controllers::job::{OnSuspend, PlainJobs};
use controlplane::{Component, Config};
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::fault::{EventFault, Fault, FaultRule, all_requests, events_of};
use testkit::{TestCluster, job, on_paused_clock, pod};

const MINUTE: Duration = Duration::from_secs(60);
const SCHEDULING: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const WORKLOADS: &str = "scheduling.k8s.io/workloads";
const POD_GROUPS: &str = "scheduling.k8s.io/podgroups";

async fn test_cluster_with(seed: u64, nodes: u32, change: impl FnOnce(&mut Config)) -> TestCluster {
    let mut config = Config::for_cluster(Cluster::default_of(nodes));
    change(&mut config);
    TestCluster::with_config(seed, config).await
}

fn job_called(home: &TestCluster, name: &str) -> Option<Arc<JobView>> {
    home.caches().jobs.all().into_iter().find(|job| job.metadata.name == name)
}

fn is_complete(home: &TestCluster, name: &str) -> Option<()> {
    Condition::is_true(&job_called(home, name)?.status.conditions, "Complete").then_some(())
}

fn pods_of(home: &TestCluster, job: &str) -> Vec<Arc<PodView>> {
    let is_of = |pod: &Arc<PodView>| pod.metadata.controller().is_some_and(|owner| owner.name == job);
    home.caches().pods.all().into_iter().filter(is_of).collect()
}

fn has_running_pods(home: &TestCluster, job: &str, count: usize) -> Option<()> {
    let runs = |pod: &&Arc<PodView>| pod.status.phase == PodPhase::Running && !pod.metadata.is_deleting();
    (pods_of(home, job).iter().filter(runs).count() == count).then_some(())
}

/// Names of the Workloads and PodGroups that there are.
fn objects(home: &TestCluster) -> Vec<String> {
    let workloads = home.caches().workloads.all().into_iter().map(|workload| workload.metadata.name.clone());
    let groups = home.caches().pod_groups.all().into_iter().map(|group| group.metadata.name.clone());
    workloads.chain(groups).collect()
}

fn workload(name: &str, job: Option<&str>, policy: Value) -> Value {
    let stands_for = job.map(|job| json!({"apiGroup": "batch", "kind": "Job", "name": job}));
    let templates = json!([{"name": "workers", "schedulingPolicy": policy}]);
    json!({
        "kind": "Workload", "metadata": {"name": name},
        "spec": {"controllerRef": stands_for, "podGroupTemplates": templates},
    })
}

// Shows: S004-69
#[test]
fn plain_jobs_without_objects_cause_no_extra_writes() {
    on_paused_clock(async {
        let home = test_cluster_with(3, 1, |config| config.job.plain_jobs = PlainJobs::None).await;
        home.create(&job("plain").pods(3).build()).await;
        home.eventually("it completes", MINUTE, |home| is_complete(home, "plain")).await;
        let history = home.history();
        assert!(!history.iter().any(|change| [WORKLOADS, POD_GROUPS].contains(&change.resource.as_str())));
        home.create(&job("gang").pods(3).gang().build()).await;
        home.eventually("a gang is a gang all the same", MINUTE, |home| is_complete(home, "gang")).await;
        assert_eq!(objects(&home).len(), 2);
    });
}

// Shows: S000-07
#[test]
fn a_job_that_names_its_group_gets_no_objects() {
    on_paused_clock(async {
        let home = test_cluster_with(3, 1, |_| {}).await;
        let policy = json!({"gang": {"minCount": 2}});
        home.create(&json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}))
            .await;
        let mut manifest = job("train").pods(2).gang().build();
        manifest["spec"]["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
        home.create(&manifest).await;
        home.eventually("it completes", MINUTE, |home| is_complete(home, "train")).await;
        assert_eq!(objects(&home), ["g"]);
        assert!(pods_of(&home, "train").iter().all(|pod| pod.group_name() == Some("g")));
    });
}

#[test]
fn a_namespace_label_decides_whether_its_jobs_get_objects() {
    on_paused_clock(async {
        let home = test_cluster_with(3, 1, |_| {}).await;
        home.create(&job("held").pods(2).spec("suspend", true).build()).await;
        home.eventually("by default it gets objects", MINUTE, |home| (objects(home).len() == 2).then_some(())).await;
        let label = |value: &str| json!({"metadata": {"labels": {"phalanx.dev/groups": value}}});
        home.request("PATCH", "/api/v1/namespaces/default", &label("disabled")).await.unwrap();
        home.create(&job("later").pods(2).build()).await;
        home.eventually("it completes", MINUTE, |home| is_complete(home, "later")).await;
        assert!(pods_of(&home, "later").iter().all(|pod| pod.group_name().is_none()));
        assert_eq!(objects(&home).len(), 2, "what is there stays");
    });
}

#[test]
fn a_changed_namespace_label_applies_to_jobs_without_pods() {
    on_paused_clock(async {
        let home = test_cluster_with(3, 1, |config| config.job.plain_jobs = PlainJobs::None).await;
        home.create(&job("held").pods(2).spec("suspend", true).build()).await;
        home.advance(MINUTE).await;
        assert!(objects(&home).is_empty());
        let enabled = json!({"metadata": {"labels": {"phalanx.dev/groups": "enabled"}}});
        home.request("PATCH", "/api/v1/namespaces/default", &enabled).await.unwrap();
        home.eventually("it gets objects", MINUTE, |home| (objects(home).len() == 2).then_some(())).await;
    });
}

// A watch of Workloads that lags behind that of Jobs hid a Workload that was there before its Job.
// Shows: S000-37
// Shows: S000-42
#[test]
fn a_workload_created_before_its_job_is_used_despite_a_stale_cache() {
    for late in [0, 1, 5, 30] {
        on_paused_clock(async {
            let home = test_cluster_with(3, 1, |_| {}).await;
            for resource in [WORKLOADS, POD_GROUPS] {
                let delay = EventFault::Delay(Duration::from_secs(late));
                home.inject_fault(FaultRule::on_events(events_of(resource), delay).nth(1));
            }
            let made = home.create(&workload("mine", Some("train"), json!({"basic": {}}))).await;
            home.create(&job("train").pods(4).gang().build()).await;
            home.eventually("it completes", 3 * MINUTE, |home| is_complete(home, "train")).await;
            let workloads = home.caches().workloads.all();
            assert_eq!(workloads.len(), 1, "{late} s: ours made way");
            assert_eq!(
                (workloads[0].metadata.name.as_str(), &*workloads[0].metadata.uid),
                ("mine", made["metadata"]["uid"].as_str().unwrap())
            );
            let groups = home.caches().pod_groups.all();
            assert_eq!(groups.iter().map(|group| group.min_count()).collect::<Vec<_>>(), [None], "{late} s: Basic");
            let group = groups[0].metadata.name.as_str();
            assert!(pods_of(&home, "train").iter().all(|pod| pod.group_name() == Some(group)), "{late} s");
            let history = home.history();
            let written = history.iter().filter(|change| change.name() == "mine").count();
            assert_eq!(written, 1, "{late} s: nobody wrote to the user's Workload");
            let made = history.iter().filter(|change| change.resource == WORKLOADS && change.created).count();
            assert!(late == 0 || made == 2, "{late} s: the cache was late indeed");
        });
    }
}

// Shows: S000-32
#[test]
fn user_created_objects_outlive_their_job() {
    on_paused_clock(async {
        let home = test_cluster_with(3, 1, |_| {}).await;
        home.create(&workload("mine", Some("train"), json!({"gang": {"minCount": 2}}))).await;
        home.create(&json!({
            "kind": "PodGroup", "metadata": {"name": "my-group"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "workloadRef": {"workloadName": "mine", "templateName": "workers"},
            },
        }))
        .await;
        home.create(&job("train").pods(4).build()).await;
        home.eventually("it completes", MINUTE, |home| is_complete(home, "train")).await;
        assert!(pods_of(&home, "train").iter().all(|pod| pod.group_name() == Some("my-group")));
        home.request("DELETE", &format!("{JOBS}/train"), &json!({"propagationPolicy": "Foreground"})).await.unwrap();
        home.eventually("the Job is gone", MINUTE, |home| job_called(home, "train").is_none().then_some(())).await;
        home.advance(MINUTE).await;
        assert_eq!(objects(&home), ["mine", "my-group"]);
        for change in home.history().iter().filter(|change| ["mine", "my-group"].contains(&change.name())) {
            let owners = &change.object["metadata"]["ownerReferences"];
            assert!(owners.is_null(), "{} was adopted: {owners}", change.name());
        }
    });
}

async fn suspend(home: &TestCluster, name: &str, on: bool) {
    home.request("PATCH", &format!("{JOBS}/{name}"), &json!({"spec": {"suspend": on}})).await.unwrap();
}

// Shows: S000-65
// Shows: S000-76
#[test]
fn suspension_keeps_or_deletes_the_objects_and_resumption_starts_a_whole_gang() {
    for on_suspend in [OnSuspend::Keep, OnSuspend::Delete] {
        on_paused_clock(async {
            let home = test_cluster_with(5, 1, |config| config.job.on_suspend = on_suspend).await;
            home.create(&job("train").pods(4).gang().gpus(1).annotate("phalanx.dev/run-seconds", "600").build()).await;
            let uids = |home: &TestCluster| {
                let groups = home.caches().pod_groups.all().into_iter().map(|group| group.metadata.uid.to_string());
                let workloads = home.caches().workloads.all().into_iter().map(|it| it.metadata.uid.to_string());
                groups.chain(workloads).collect::<Vec<String>>()
            };
            home.eventually("it runs", MINUTE, |home| has_running_pods(home, "train", 4)).await;
            let first = uids(&home);
            for round in 0..2 {
                suspend(&home, "train", true).await;
                home.eventually("no pods", MINUTE, |home| pods_of(home, "train").is_empty().then_some(())).await;
                home.advance(MINUTE).await;
                let left = uids(&home);
                match on_suspend {
                    OnSuspend::Keep => assert_eq!(left, first, "round {round}"),
                    OnSuspend::Delete => assert_eq!(left, Vec::<String>::new(), "round {round}"),
                }
                suspend(&home, "train", false).await;
                home.eventually("it runs again", MINUTE, |home| has_running_pods(home, "train", 4)).await;
                let group = home.caches().pod_groups.all().pop().unwrap();
                let joined = |pod: &Arc<PodView>| pod.group_name() == Some(group.metadata.name.as_str());
                assert!(pods_of(&home, "train").iter().all(joined), "{on_suspend:?}, round {round}");
                assert_eq!(uids(&home) == first, on_suspend == OnSuspend::Keep, "round {round}");
            }
        });
    }
}

// A resumed Job is a gang like a new one, though its group was placed once.
#[test]
fn a_resumed_gang_that_does_not_fit_starts_no_pod() {
    on_paused_clock(async {
        let home = test_cluster_with(5, 1, |_| {}).await;
        home.create(&job("train").pods(8).gang().gpus(1).annotate("phalanx.dev/run-seconds", "600").build()).await;
        home.eventually("it runs", MINUTE, |home| has_running_pods(home, "train", 8)).await;
        suspend(&home, "train", true).await;
        home.eventually("no pods", MINUTE, |home| pods_of(home, "train").is_empty().then_some(())).await;
        home.create(&pod("filler").gpus(1).annotate("phalanx.dev/run-seconds", "100000").build()).await;
        home.advance(MINUTE).await;
        suspend(&home, "train", false).await;
        home.advance(MINUTE).await;
        let placed = pods_of(&home, "train").iter().filter(|pod| pod.node_name().is_some()).count();
        assert_eq!((pods_of(&home, "train").len(), placed), (8, 0));
    });
}

// Shows: S000-35
#[test]
fn suspension_that_deletes_objects_survives_repeated_controller_restarts() {
    for seed in 0..6 {
        on_paused_clock(async {
            let mut home = test_cluster_with(seed, 1, |config| config.job.on_suspend = OnSuspend::Delete).await;
            home.create(&job("train").pods(4).gang().gpus(1).annotate("phalanx.dev/run-seconds", "600").build()).await;
            home.eventually("it runs", MINUTE, |home| has_running_pods(home, "train", 4)).await;
            for on in [true, false] {
                suspend(&home, "train", on).await;
                let done = |home: &TestCluster| {
                    let pods = if on { pods_of(home, "train").len() } else { 4 };
                    let runs = has_running_pods(home, "train", if on { 0 } else { 4 }).is_some();
                    runs && pods == (if on { 0 } else { 4 }) && objects(home).len() == (if on { 0 } else { 2 })
                };
                let mut turn = seed;
                while !done(&home) {
                    home.restart_component(Component::Controllers);
                    home.advance(Duration::from_millis(3 + 61 * (turn % 17))).await;
                    turn += 1;
                    assert!(turn < 2000, "seed {seed}: never done");
                }
            }
            let group = home.caches().pod_groups.all().pop().unwrap();
            let joined = |pod: &Arc<PodView>| pod.group_name() == Some(group.metadata.name.as_str());
            assert!(pods_of(&home, "train").iter().all(joined), "seed {seed}");
        });
    }
}

// Shows: S000-41
// Shows: S000-51
// Shows: S000-62
// Shows: S000-96
// Shows: S002-15
#[test]
fn a_gang_job_takes_one_request_for_each_change_of_its_objects() {
    on_paused_clock(async {
        let home = test_cluster_with(5, 1, |_| {}).await;
        let about = |of: &str| {
            home.inject_fault(FaultRule::on(all_requests().by_user("job-controller").on_resource(of), Fault::Count))
        };
        let (workloads, groups) = (about(WORKLOADS), about(POD_GROUPS));
        let count = |home: &TestCluster, rule| home.faults().counts(rule).matched;
        home.create(&job("train").pods(4).gang().gpus(1).annotate("phalanx.dev/run-seconds", "600").build()).await;
        home.eventually("it runs", MINUTE, |home| has_running_pods(home, "train", 4)).await;
        let group = home.caches().pod_groups.all().pop().unwrap();
        assert!(pods_of(&home, "train").iter().all(|pod| pod.group_name() == Some(group.metadata.name.as_str())));
        assert_eq!((count(&home, workloads), count(&home, groups)), (1, 1), "one create each, and no question");

        home.request("PATCH", &format!("{JOBS}/train"), &json!({"spec": {"parallelism": 3}})).await.unwrap();
        home.eventually("the group follows", MINUTE, |home| {
            (home.caches().pod_groups.all().pop()?.min_count() == Some(3)).then_some(())
        })
        .await;
        home.advance(MINUTE).await;
        assert_eq!((count(&home, workloads), count(&home, groups)), (2, 2), "one patch each");
        // Somebody else's hand on an object of ours wakes the Job, which puts it right.
        let path = format!("{SCHEDULING}/podgroups/{}", group.metadata.name);
        let moved = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}});
        home.request("PATCH", &path, &moved).await.unwrap();
        home.eventually("it is put right", MINUTE, |home| {
            (home.caches().pod_groups.all().pop()?.min_count() == Some(3)).then_some(())
        })
        .await;

        home.request("DELETE", &format!("{JOBS}/train"), &json!({"propagationPolicy": "Background"})).await.unwrap();
        home.eventually("everything goes", MINUTE, |home| {
            (objects(home).is_empty() && home.caches().pods.all().is_empty()).then_some(())
        })
        .await;
        assert_eq!((count(&home, workloads), count(&home, groups)), (2, 3), "none of it by the Job controller");
    });
}

fn with_workload_ref(config: &mut Config) {
    config.gates = Gates::default().with(Gate::JobWorkloadRef, true);
}

fn job_with_workload_ref(name: &str, pods: i32, workload: &str) -> Value {
    job(name).pods(pods).gpus(1).spec("workloadRef", json!({"name": workload})).build()
}

// Shows: S001-03
// Shows: S001-04
// Shows: S001-05
// Shows: S001-08
// Shows: S001-14
// Shows: S001-15
#[test]
fn jobs_that_share_a_workload_start_together_or_wait_together() {
    on_paused_clock(async {
        let home = test_cluster_with(5, 1, with_workload_ref).await;
        home.create(&workload("both", None, json!({"gang": {"minCount": 8}}))).await;
        home.create(&job_with_workload_ref("left", 4, "both")).await;
        home.create(&job("beside").pods(1).build()).await;
        home.eventually("another Job is not held up", MINUTE, |home| is_complete(home, "beside")).await;
        home.advance(MINUTE).await;
        let left = pods_of(&home, "left");
        assert_eq!((left.len(), left.iter().filter(|pod| pod.node_name().is_some()).count()), (4, 0));
        home.create(&job_with_workload_ref("right", 4, "both")).await;
        for name in ["left", "right"] {
            home.eventually("both complete", MINUTE, |home| is_complete(home, name)).await;
            assert_eq!(job_called(&home, name).unwrap().status.succeeded, 4);
        }
        let shared = |group: &&Arc<api::views::PodGroupView>| group.min_count() == Some(8);
        assert_eq!(home.caches().pod_groups.all().iter().filter(shared).count(), 1);
        home.request("DELETE", &format!("{JOBS}/left"), &json!({"propagationPolicy": "Background"})).await.unwrap();
        home.advance(MINUTE).await;
        assert_eq!(home.caches().pod_groups.all().iter().filter(shared).count(), 1, "it is no Job's own");
        home.request("DELETE", &format!("{SCHEDULING}/workloads/both"), &json!({})).await.unwrap();
        home.eventually("it goes with its Workload", MINUTE, |home| {
            (!home.caches().pod_groups.all().iter().any(|group| group.min_count() == Some(8))).then_some(())
        })
        .await;
    });
}

// The group of the Workload was an owner of the pods, and kept them.
#[test]
fn deleting_a_job_deletes_its_pods_and_keeps_the_group_of_its_named_workload() {
    for policy in ["Background", "Foreground"] {
        on_paused_clock(async {
            let home = test_cluster_with(5, 1, with_workload_ref).await;
            home.create(&workload("both", None, json!({"gang": {"minCount": 4}}))).await;
            for name in ["left", "right"] {
                let mut manifest = job_with_workload_ref(name, 2, "both");
                manifest["spec"]["template"]["metadata"]["annotations"] = json!({"phalanx.dev/run-seconds": "100000"});
                home.create(&manifest).await;
            }
            home.eventually("both run", MINUTE, |home| {
                has_running_pods(home, "left", 2).and(has_running_pods(home, "right", 2))
            })
            .await;
            home.request("DELETE", &format!("{JOBS}/left"), &json!({"propagationPolicy": policy})).await.unwrap();
            home.eventually("its pods go", MINUTE, |home| {
                (home.caches().pods.all().len() == 2 && job_called(home, "left").is_none()).then_some(())
            })
            .await;
            assert_eq!(
                (has_running_pods(&home, "right", 2), objects(&home).len()),
                (Some(()), 2),
                "{policy}: the others stay"
            );
        });
    }
}

// Shows: S001-02
// Shows: S001-17
// Shows: S001-21
#[test]
fn with_all_gates_on_a_job_without_scheduling_fields_is_not_a_gang() {
    on_paused_clock(async {
        let on = Gate::ALL.into_iter().fold(Gates::default(), |gates, gate| gates.with(gate, true));
        let home = test_cluster_with(5, 1, |config| config.gates = on).await;
        home.create(&job("many").pods(12).gpus(1).annotate("phalanx.dev/run-seconds", "600").build()).await;
        home.advance(MINUTE).await;
        let placed = pods_of(&home, "many").iter().filter(|pod| pod.node_name().is_some()).count();
        assert_eq!((pods_of(&home, "many").len(), placed), (12, 8), "as many as fit");
    });
}

// Shows: S001-13
#[test]
fn indexed_and_recreated_jobs_join_the_workload_they_name() {
    on_paused_clock(async {
        let home = test_cluster_with(5, 1, with_workload_ref).await;
        home.create(&workload("one", None, json!({"gang": {"minCount": 4}}))).await;
        for round in 0..2 {
            let mut manifest = job_with_workload_ref("again", 4, "one");
            manifest["spec"]["completionMode"] = json!("Indexed");
            home.create(&manifest).await;
            home.eventually("it completes", MINUTE, |home| is_complete(home, "again")).await;
            let job = job_called(&home, "again").unwrap();
            assert_eq!((job.status.completed_indexes.as_str(), job.status.failed), ("0-3", 0), "round {round}");
            assert!(pods_of(&home, "again").iter().all(|pod| pod.group_name().is_some()), "round {round}");
            home.request("DELETE", &format!("{JOBS}/again"), &json!({"propagationPolicy": "Foreground"}))
                .await
                .unwrap();
            home.eventually("it is gone", MINUTE, |home| job_called(home, "again").is_none().then_some(())).await;
        }
    });
}

// Shows: S001-13
#[test]
fn replacement_pods_of_a_failing_job_join_the_group_of_its_named_workload() {
    on_paused_clock(async {
        let home = test_cluster_with(5, 1, with_workload_ref).await;
        home.create(&workload("one", None, json!({"gang": {"minCount": 2}}))).await;
        let mut manifest = job_with_workload_ref("breaks", 2, "one");
        manifest["spec"]["backoffLimit"] = json!(1);
        manifest["spec"]["template"]["metadata"]["annotations"] =
            json!({"phalanx.dev/run-seconds": "30", "phalanx.dev/exit-code": "1"});
        home.create(&manifest).await;
        let running = |home: &TestCluster| {
            let pods = pods_of(home, "breaks");
            (pods.iter().filter(|pod| pod.node_name().is_some()).count() == 2).then_some(pods)
        };
        let pods = home.eventually("both run", MINUTE, running).await;
        kill_pod(&home, &pods[0]).await;
        let failed = |home: &TestCluster| {
            let job = job_called(home, "breaks")?;
            Condition::is_true(&job.status.conditions, "Failed").then_some(job)
        };
        let job = home.eventually("it fails", 5 * MINUTE, failed).await;
        assert!(job.status.failed >= 2, "{:?}", job.status);
        let made = home.history().into_iter().filter(|change| change.resource == "pods" && change.created);
        let groups: Vec<Value> = made.map(|change| change.object["spec"]["schedulingGroup"].clone()).collect();
        assert!(groups.len() > 2 && groups.iter().all(|group| *group == groups[0] && group.is_object()), "{groups:?}");
    });
}

// Shows: S001-11
#[test]
fn a_job_that_names_a_missing_workload_reports_it_and_waits() {
    on_paused_clock(async {
        let home = test_cluster_with(5, 1, with_workload_ref).await;
        home.create(&job_with_workload_ref("early", 2, "later")).await;
        let blocked = |home: &TestCluster| {
            let job = job_called(home, "early")?;
            job.status.conditions.iter().find(|condition| condition.kind == "SchedulingBlocked").cloned()
        };
        let said = home.eventually("it says what it waits for", MINUTE, blocked).await;
        assert_eq!((said.status.as_str(), said.reason.as_str()), ("True", "WorkloadNotFound"));
        home.advance(MINUTE).await;
        assert!(pods_of(&home, "early").is_empty());
        let events = home.request("GET", "/api/v1/namespaces/default/events", &json!({})).await.unwrap();
        assert!(events.to_string().contains("WorkloadNotFound"), "{events}");
        home.create(&workload("later", None, json!({"gang": {"minCount": 2}}))).await;
        home.eventually("it completes", MINUTE, |home| is_complete(home, "early")).await;
        assert_eq!(blocked(&home).unwrap().status, "False");
    });
}

/// Kills a pod as a broken container does: it fails, and the Job replaces it.
async fn kill_pod(home: &TestCluster, pod: &PodView) {
    let path = format!("/api/v1/namespaces/default/pods/{}", pod.metadata.name);
    home.request("DELETE", &path, &json!({})).await.unwrap();
}

// kubernetes issue 142330: the replacement of a failed index waited for ever, because indexes that had completed no
// longer counted toward minCount.
// Shows: S000-68
#[test]
fn a_gang_completes_when_a_pod_fails_after_others_completed() {
    on_paused_clock(async {
        let home = test_cluster_with(5, 1, |_| {}).await;
        let gang = job("train").pods(4).indexed().gang().gpus(1);
        home.create(&gang.annotate("phalanx.dev/run-seconds", "20").build()).await;
        home.eventually("it runs", MINUTE, |home| has_running_pods(home, "train", 4)).await;
        let last = pods_of(&home, "train").pop().unwrap();
        home.advance(Duration::from_secs(10)).await;
        kill_pod(&home, &last).await;
        home.eventually("the others complete", MINUTE, |home| {
            (job_called(home, "train")?.status.succeeded == 3).then_some(())
        })
        .await;
        let replacement = pods_of(&home, "train").into_iter().find(|pod| !pod.is_finished()).unwrap();
        kill_pod(&home, &replacement).await;
        home.eventually("the gang ends", 5 * MINUTE, |home| is_complete(home, "train")).await;
        assert_eq!(job_called(&home, "train").unwrap().status.completed_indexes, "0-3");
    });
}

#[test]
fn replacements_in_a_running_gang_are_placed_one_by_one_unless_after_min_count_forbids_it() {
    for (after, placed) in [(None, 3), (Some("OnceSatisfied"), 3), (Some("AlwaysMin"), 2)] {
        on_paused_clock(async {
            let home = test_cluster_with(5, 1, |_| {}).await;
            let gang = job("train").pods(4).indexed().gang().gpus(2).annotate("phalanx.dev/run-seconds", "600");
            let mut manifest = gang.build();
            if let Some(after) = after {
                manifest["metadata"]["annotations"]["phalanx.dev/after-min-count"] = json!(after);
            }
            home.create(&manifest).await;
            home.eventually("it runs", MINUTE, |home| has_running_pods(home, "train", 4)).await;
            // Two pods fail at once, and somebody else takes the room of one of them.
            let pods = pods_of(&home, "train");
            for pod in &pods[..2] {
                kill_pod(&home, pod).await;
            }
            home.create(&pod("filler").gpus(2).annotate("phalanx.dev/run-seconds", "100000").build()).await;
            home.advance(3 * MINUTE).await;
            let bound = |pod: &&Arc<PodView>| pod.node_name().is_some() && !pod.metadata.is_deleting();
            let bound = pods_of(&home, "train").iter().filter(bound).count();
            assert_eq!(bound, placed, "{after:?}");
        });
    }
}

#[test]
fn a_job_reports_why_its_gang_waits() {
    on_paused_clock(async {
        let home = test_cluster_with(5, 1, |_| {}).await;
        home.create(&pod("filler").gpus(1).annotate("phalanx.dev/run-seconds", "120").build()).await;
        home.eventually("the filler is placed", MINUTE, |home| {
            home.caches().pods.all().iter().any(|pod| pod.node_name().is_some()).then_some(())
        })
        .await;
        home.create(&job("train").pods(8).gang().gpus(1).build()).await;
        let said = |home: &TestCluster, status: &str| {
            let job = job_called(home, "train")?;
            let condition = job.status.conditions.iter().find(|condition| condition.kind == "PodGroupScheduled")?;
            (condition.status == status).then(|| condition.clone())
        };
        let waits = home.eventually("it says so", MINUTE, |home| said(home, "False")).await;
        assert!(waits.reason == "Unschedulable" && waits.message.contains("7 of 8"), "{waits:?}");
        home.eventually("and that it is over", 3 * MINUTE, |home| said(home, "True")).await;
        home.eventually("it completes", MINUTE, |home| is_complete(home, "train")).await;
    });
}
