//! One gang Job from submission to bound pods, step by step, as ARCHITECTURE.md describes it.

use api::views::{JobView, NodeView, PodGroupView, PodView, WorkloadView};
use std::time::Duration;

use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::{RecordedWrite, TestCluster, job, on_paused_clock, on_test_cluster};

const RACK: &str = "topology.kubernetes.io/rack";

/// One line for each step of the walk, from the history of all writes.
fn steps(history: &[RecordedWrite]) -> Vec<String> {
    let at = |what: &str, find: &dyn Fn(&&RecordedWrite) -> bool| -> (u64, Value) {
        let change = history.iter().find(find).unwrap_or_else(|| panic!("{what}: no such write"));
        (change.revision.0, change.object.clone())
    };
    let created = |resource: &'static str| {
        at(resource, &move |change: &&RecordedWrite| change.resource == resource && change.created)
    };
    let (posted, stored) = created("batch/jobs");
    let (workload, compiled) = created("scheduling.k8s.io/workloads");
    let (group, pod_group) = created("scheduling.k8s.io/podgroups");
    let (first_pod, pod) = created("pods");
    let pods: Vec<&RecordedWrite> = history.iter().filter(|c| c.resource == "pods" && c.created).collect();
    let last_pod = pods.last().unwrap().revision.0;
    let is_bound = |change: &&RecordedWrite| change.resource == "pods" && change.object["spec"]["nodeName"].is_string();
    let (bound, bound_pod) = at("bind", &is_bound);
    let phase = |wanted: &'static str| {
        move |change: &&RecordedWrite| change.resource == "pods" && change.object["status"]["phase"] == wanted
    };
    let (runs, _) = at("running", &phase("Running"));
    let (scheduled, _) = at("condition", &|change: &&RecordedWrite| {
        change.resource == "scheduling.k8s.io/podgroups"
            && condition(&change.object, "PodGroupInitiallyScheduled") == Some("True")
    });
    let (complete, finished) = at("complete", &|change: &&RecordedWrite| {
        change.resource == "batch/jobs" && condition(&change.object, "Complete") == Some("True")
    });

    assert!(posted < workload && workload < group && group < first_pod, "Workload, then PodGroup, then pods");
    assert!(last_pod < bound, "no pod of the gang is bound before all of them exist");
    assert!(bound < runs && scheduled < complete, "bound, running, counted");
    vec![
        format!("1 a Job is posted: job/{} at {posted}", name(&stored)),
        format!(
            "2 it is validated: parallelism {} backoffLimit {}",
            stored["spec"]["parallelism"], stored["spec"]["backoffLimit"]
        ),
        format!("3 it is stored and watched: uid {}", stored["metadata"]["uid"].as_str().unwrap()),
        format!("4 its intent is compiled: {} at {workload}, {} at {group}", name(&compiled), name(&pod_group)),
        format!("5 its pods are created: {} in group {}", pods.len(), pod["spec"]["schedulingGroup"]["podGroupName"]),
        format!("6 the group is ready: minCount {}", pod_group["spec"]["schedulingPolicy"]["gang"]["minCount"]),
        format!("7 it is placed: first on {}", bound_pod["spec"]["nodeName"]),
        format!("8 the decision is executed: first bind at {bound}, condition at {scheduled}"),
        format!("9 it runs and is counted: succeeded {} at {complete}", finished["status"]["succeeded"]),
    ]
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

/// The walk, up to the cascading deletion: one line for each step.
async fn walk(cluster: &TestCluster) -> Vec<String> {
    let trainer = job("trainer").pods(64).indexed().gang().in_topology(RACK).gpus(1);
    cluster.create(&trainer.annotate("phalanx.dev/run-seconds", &cluster.scaled_seconds(30)).build()).await;
    let minute = Duration::from_secs(60);
    cluster
        .eventually("the Job completes", minute, |cluster| {
            let job = cluster.cache::<JobView>().all().pop()?;
            (job.status.succeeded == 64 && job.status.completion_time.is_some()).then_some(())
        })
        .await;
    let steps = steps(&cluster.history());
    // Events are written last.
    cluster
        .eventually("controller and scheduler have written their Events", minute, |cluster| {
            let history = cluster.history();
            let has_event =
                |reason: &str| history.iter().any(|c| c.resource == "events" && c.object["reason"] == reason);
            (has_event("PodGroupCreated") && has_event("Scheduled")).then_some(())
        })
        .await;

    let racks: std::collections::BTreeSet<String> = cluster
        .cache::<PodView>()
        .all()
        .iter()
        .map(|pod| {
            let node =
                cluster.cache::<NodeView>().get(&api::views::ObjectKey::new("", pod.node_name().unwrap())).unwrap();
            node.metadata.labels[RACK].clone()
        })
        .collect();
    assert_eq!(racks.len(), 1, "all pods of the gang are in one rack");

    let path = "/apis/batch/v1/namespaces/default/jobs/trainer";
    cluster.request("DELETE", path, &json!({"propagationPolicy": "Background"})).await.unwrap();
    cluster
        .eventually("deletion cascades", minute, |cluster| {
            let caches = cluster.caches();
            let gone = caches.get::<JobView>().all().is_empty()
                && caches.get::<WorkloadView>().all().is_empty()
                && caches.get::<PodGroupView>().all().is_empty()
                && caches.get::<PodView>().all().is_empty();
            gone.then_some(())
        })
        .await;
    steps
}

// Shows: S000-04, S000-20
#[test]
fn walk_one_gang_job() {
    let steps = on_test_cluster(async { walk(&TestCluster::start(7, 16).await).await });
    for step in &steps {
        println!("{step}");
    }
}

/// Creates an object of every kind that the server serves. Returns for each its name and the name of its kind in the
/// store.
async fn create_every_kind(cluster: &TestCluster) -> Vec<(String, String)> {
    let mut created = Vec::new();
    let mut resources = cluster.plane().server().resources().to_vec();
    // A default PriorityClass changes what is admitted after it.
    resources.sort_by_key(|resource| resource.kind == "PriorityClass");
    for resource in &resources {
        let (path, mut object) = testkit::fuzz::sample_object(resource);
        object["metadata"]["name"] = format!("sample-{}", resource.qualified().replace('.', "-")).into();
        let object = cluster.request("POST", &path, &object).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        created.push((resource.store_name.to_string(), name(&object).to_owned()));
    }
    created
}

/// Every write of a walk and of what the controllers do with an object of every kind.
fn transcript(seed: u64) -> String {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(seed, Cluster::default_of(16)).await;
        walk(&cluster).await;
        create_every_kind(&cluster).await;
        cluster.advance(Duration::from_secs(60)).await;
        cluster.transcript()
    })
}

#[test]
fn the_same_seed_writes_the_same_bytes() {
    let (first, second) = (transcript(7), transcript(7));
    assert!(first == second, "same seed, same binary, same bytes: {}", first_difference(&first, &second));
    for resource in ["coordination.k8s.io/leases", "scheduling.k8s.io/compositepodgroups"] {
        assert!(first.contains(&format!(" {resource} ")), "the transcript has no {resource}");
    }
}

#[test]
fn history_contains_objects_of_every_served_kind() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(7, Cluster::default_of(1)).await;
        let created = create_every_kind(&cluster).await;
        let history = cluster.history();
        for (resource, name) in created {
            let is_in_history = |write: &RecordedWrite| write.resource == resource && write.name() == name;
            assert!(history.iter().any(|write| is_in_history(write) && write.created), "{resource} {name}");
        }
        let revisions: Vec<u64> = history.iter().map(|write| write.revision.0).collect();
        assert_eq!(revisions, (1..=revisions.len() as u64).collect::<Vec<_>>(), "the history has every revision");
    });
}

#[test]
fn another_seed_writes_other_bytes() {
    assert!(transcript(1) != transcript(2), "uids and names come from the seed");
}

fn first_difference(a: &str, b: &str) -> String {
    let differs = a.lines().zip(b.lines()).find(|(a, b)| a != b);
    differs.map_or_else(|| "one is longer".to_owned(), |(a, b)| format!("\n{a}\n{b}"))
}
