//! Tables, as kubectl prints them, and partial metadata.

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;

use crate::test_server::{JOBS, PODS, TestServer, job_document, pod_document, test_server};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const WORKLOADS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const EVENTS: &str = "/api/v1/namespaces/default/events";

async fn get_as(server: &TestServer, accept: &str, path: &str) -> (StatusCode, Value) {
    let request = Request::builder().uri(path).header("accept", accept).body(bytes::Bytes::new()).unwrap();
    let response = server.send(request).await;
    let code = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

async fn table(server: &TestServer, path: &str) -> Value {
    let (code, table) = get_as(server, TABLE, path).await;
    assert_eq!((code, &table["kind"]), (StatusCode::OK, &"Table".into()), "{table}");
    table
}

/// Columns, those of `-o wide` in brackets: `Name Age [Selector]`.
fn columns(table: &Value) -> String {
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let texts: Vec<String> = columns
        .map(|column| match (column["name"].as_str().unwrap(), column["priority"].as_i64().unwrap()) {
            (name, 0) => name.to_owned(),
            (name, _) => format!("[{name}]"),
        })
        .collect();
    texts.join(" ")
}

/// Cells of the first row: `a|0/1|Pending`.
fn cells(table: &Value) -> String {
    let cells = table["rows"][0]["cells"].as_array().unwrap().iter();
    let texts: Vec<String> =
        cells.map(|cell| cell.as_str().map_or_else(|| cell.to_string(), ToOwned::to_owned)).collect();
    texts.join("|")
}

async fn post(server: &TestServer, path: &str, object: Value) {
    let (code, object) = server.post(path, object).await;
    assert_eq!(code, StatusCode::CREATED, "{object}");
}

async fn put_status(server: &TestServer, path: &str, status: Value) {
    let (code, object) = server
        .call("PATCH", &format!("{path}/status"), "application/merge-patch+json", json!({"status": status}).to_string())
        .await;
    assert_eq!(code, StatusCode::OK, "{object}");
}

#[tokio::test(start_paused = true)]
async fn every_kind_has_its_columns() {
    let server = test_server();
    for (path, want) in [
        (PODS, "Name Ready Status Restarts Age [IP] [Node] [Nominated Node] [Readiness Gates]"),
        (
            "/api/v1/nodes",
            "Name Status Roles Age Version [Internal-IP] [External-IP] [OS-Image] [Kernel-Version] [Container-Runtime]",
        ),
        ("/api/v1/namespaces", "Name Status Age"),
        (EVENTS, "Last Seen Type Reason Object [Subobject] [Source] Message [First Seen] [Count] [Name]"),
        (JOBS, "Name Status Completions Duration Age [Containers] [Images] [Selector]"),
        (CLASSES, "Name Value Global-Default Age PreemptionPolicy"),
        (WORKLOADS, "Name Age"),
        (GROUPS, "Name Policy Workload Status Age"),
        ("/apis/scheduling.k8s.io/v1alpha3/compositepodgroups", "Name Policy Workload Age"),
        (
            "/apis/batch/v1/cronjobs",
            "Name Schedule Timezone Suspend Active Last Schedule Age [Containers] [Images] [Selector]",
        ),
    ] {
        let table = table(&server, path).await;
        assert_eq!(columns(&table), want, "{path}");
        let first = &table["columnDefinitions"][0];
        assert!(first["description"].as_str().is_some_and(|text| !text.is_empty()), "{path}");
        if first["name"] == "Name" {
            assert_eq!(first["format"], "name", "{path}");
        }
        for row in table["rows"].as_array().unwrap() {
            let (cells, columns) = (&row["cells"], &table["columnDefinitions"]);
            assert_eq!(cells.as_array().unwrap().len(), columns.as_array().unwrap().len(), "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rows_show_the_state_of_objects() {
    let server = test_server();
    post(&server, CLASSES, json!({"metadata": {"name": "high"}, "value": 1000, "globalDefault": true})).await;
    post(&server, "/api/v1/nodes", json!({
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "gpu"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.37.1", "osImage": "Linux", "kernelVersion": "6.1", "machineID": "",
                "systemUUID": "", "bootID": "", "containerRuntimeVersion": "", "kubeProxyVersion": "",
                "operatingSystem": "", "architecture": ""},
        },
    })).await;
    post(
        &server,
        WORKLOADS,
        json!({"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [
        {"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}]}}),
    )
    .await;
    post(
        &server,
        GROUPS,
        json!({"metadata": {"name": "g"}, "spec": {
        "workloadRef": {"workloadName": "w", "templateName": "t"}, "schedulingPolicy": {"gang": {"minCount": 2}}}}),
    )
    .await;
    post(
        &server,
        EVENTS,
        json!({"metadata": {"name": "e"}, "type": "Warning", "reason": "FailedScheduling",
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default", "fieldPath": "spec"},
        "source": {"component": "scheduler", "host": "n"}, "message": " no fit\n", "count": 3,
        "firstTimestamp": "2029-12-31T23:58:00Z", "lastTimestamp": "2029-12-31T23:59:58Z"}),
    )
    .await;
    tokio::time::advance(Duration::from_secs(192)).await;
    for (path, want) in [
        ("/api/v1/namespaces/default", "default|Active|3m12s"),
        (
            "/api/v1/nodes/n",
            "n|Ready,SchedulingDisabled|control-plane,gpu|3m12s|v1.37.1|10.0.0.1|<none>|Linux|6.1|<unknown>",
        ),
        (&format!("{CLASSES}/high"), "high|1000|true|3m12s|PreemptLowerPriority"),
        (&format!("{WORKLOADS}/w"), "w|3m12s"),
        (&format!("{GROUPS}/g"), "g|Gang|w|Pending|3m12s"),
        (&format!("{EVENTS}/e"), "3m14s|Warning|FailedScheduling|pod/a|spec|scheduler, n|no fit|5m12s|3|e"),
    ] {
        assert_eq!(cells(&table(&server, path).await), want, "{path}");
    }
    for (condition, want) in [
        (json!({"type": "PodGroupInitiallyScheduled", "status": "False"}), "Unschedulable"),
        (json!({"type": "PodGroupInitiallyScheduled", "status": "True"}), "Scheduled"),
        (json!({"type": "DisruptionTarget", "status": "False"}), "Because"),
    ] {
        let mut condition = condition;
        for (name, value) in [("reason", "Because"), ("message", ""), ("lastTransitionTime", "2030-01-01T00:00:00Z")] {
            condition[name] = value.into();
        }
        put_status(&server, &format!("{GROUPS}/g"), json!({"conditions": [condition]})).await;
        assert_eq!(table(&server, &format!("{GROUPS}/g")).await["rows"][0]["cells"][3], want);
    }
}

#[tokio::test(start_paused = true)]
async fn a_jobs_row_follows_its_status() {
    let server = test_server();
    let mut job = job_document("j");
    job["spec"]["parallelism"] = 3.into();
    job["spec"]["suspend"] = true.into();
    post(&server, JOBS, job).await;
    let uid = server.get(&format!("{JOBS}/j")).await.1["metadata"]["uid"].as_str().unwrap().to_owned();
    let path = format!("{JOBS}/j");
    let row = cells(&table(&server, &path).await);
    assert_eq!(row, format!("j|Running|0/1 of 3||0s|main|busybox|batch.kubernetes.io/controller-uid={uid}"));
    let condition =
        |kind: &str| json!([{"type": kind, "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}]);
    put_status(&server, &path, json!({"conditions": condition("Suspended")})).await;
    assert!(cells(&table(&server, &path).await).starts_with("j|Suspended|"));
    put_status(
        &server,
        &path,
        json!({"conditions": condition("SuccessCriteriaMet"), "startTime": "2030-01-01T00:00:00Z"}),
    )
    .await;
    tokio::time::advance(Duration::from_secs(90)).await;
    assert!(cells(&table(&server, &path).await).starts_with("j|SuccessCriteriaMet|0/1 of 3|90s|90s|"));
}

/// The output of kubectl for pods, which people and scripts depend on.
#[tokio::test(start_paused = true)]
async fn a_pods_row_shows_the_state_of_its_containers() {
    let server = test_server();
    let container = |name: &str, ready: bool, state: Value, restarts: i64| json!({"name": name, "ready": ready, "restartCount": restarts, "image": "i", "imageID": "", "state": state});
    let running = || json!({"running": {"startedAt": "2030-01-01T00:00:00Z"}});
    let ended = |reason: &str, code: i64| json!({"terminated": {"exitCode": code, "reason": reason}});
    let mut restarted = container("main", true, running(), 2);
    restarted["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": "2029-12-31T23:59:00Z"}});
    let mut sidecar = container("side", true, running(), 0);
    sidecar["started"] = true.into();
    let waits = |reason: &str| json!({"waiting": {"reason": reason}});
    for (index, (case, status, want)) in [
        ("new", json!({}), "0/3|Pending|0"),
        ("refused by the kubelet", json!({"phase": "Failed", "reason": "Evicted"}), "0/3|Evicted|0"),
        (
            "first init container runs",
            json!({"initContainerStatuses": [container("init", false, running(), 0), container("side", false, waits("PodInitializing"), 0)]}),
            "0/3|Init:0/2|0",
        ),
        (
            "first init container crashes",
            json!({"initContainerStatuses": [container("init", false, waits("CrashLoopBackOff"), 4)]}),
            "0/3|Init:CrashLoopBackOff|4",
        ),
        (
            "first init container failed without a reason",
            json!({"initContainerStatuses": [container("init", false, ended("", 3), 0)]}),
            "0/3|Init:ExitCode:3|0",
        ),
        (
            "sidecar is running, containers are being created",
            json!({"initContainerStatuses": [container("init", true, ended("Completed", 0), 0), sidecar],
                   "containerStatuses": [container("main", false, waits("ContainerCreating"), 0)]}),
            "1/3|ContainerCreating|0",
        ),
        (
            "running, restarted a minute ago",
            json!({"phase": "Running", "containerStatuses": [restarted, container("aux", false, running(), 0)]}),
            "1/3|Running|2 (60s ago)",
        ),
        (
            "a completed init container was restarted",
            json!({"phase": "Running", "containerStatuses": [restarted],
                   "initContainerStatuses": [container("init", true, ended("Completed", 0), 7), sidecar]}),
            "2/3|Running|2 (60s ago)",
        ),
        (
            "one completed, one runs, ready",
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [container("main", true, running(), 0), container("aux", false, ended("Completed", 0), 0)]}),
            "1/3|Running|0",
        ),
        (
            "one completed, one runs, not ready",
            json!({"phase": "Running",
                   "containerStatuses": [container("main", true, running(), 0), container("aux", false, ended("Completed", 0), 0)]}),
            "1/3|NotReady|0",
        ),
        (
            "killed by a signal",
            json!({"phase": "Failed", "containerStatuses": [
                container("main", false, json!({"terminated": {"exitCode": 137, "signal": 9}}), 0)]}),
            "0/3|Signal:9|0",
        ),
        (
            "gated",
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            "0/3|SchedulingGated|0",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("p{index}");
        let mut pod = pod_document(&name);
        pod["spec"]["containers"] = json!([{"name": "main", "image": "i"}, {"name": "aux", "image": "i"}]);
        pod["spec"]["initContainers"] =
            json!([{"name": "init", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}]);
        pod["spec"]["nodeName"] = "n".into();
        post(&server, PODS, pod).await;
        let path = format!("{PODS}/{name}");
        put_status(&server, &path, status).await;
        let row = cells(&table(&server, &path).await);
        assert_eq!(row, format!("{name}|{want}|0s|<none>|n|<none>|<none>"), "{case}");
    }
    server.call("DELETE", &format!("{PODS}/p6"), "", "").await;
    assert!(cells(&table(&server, &format!("{PODS}/p6")).await).starts_with("p6|1/3|Terminating|"));
}

#[tokio::test(start_paused = true)]
async fn rows_contain_as_much_of_the_object_as_requested() {
    let server = test_server();
    post(&server, PODS, pod_document("a")).await;
    let stored = server.get(&format!("{PODS}/a")).await.1;
    let partial =
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": stored["metadata"]});
    for (query, want) in [
        ("", &partial),
        ("?includeObject=Metadata", &partial),
        ("?includeObject=None", &Value::Null),
        ("?includeObject=Object", &stored),
    ] {
        for path in [format!("{PODS}{query}"), format!("{PODS}/a{query}")] {
            assert_eq!(table(&server, &path).await["rows"][0]["object"], *want, "{path}");
        }
    }
    assert_eq!(get_as(&server, TABLE, &format!("{PODS}?includeObject=x")).await.0, StatusCode::BAD_REQUEST);
    let (code, status) = get_as(&server, TABLE, &format!("{PODS}/b")).await;
    assert_eq!((code, &status["kind"]), (StatusCode::NOT_FOUND, &"Status".into()), "a refusal is not a table");
}

#[tokio::test(start_paused = true)]
async fn a_table_has_pages_like_a_list() {
    let server = test_server();
    for name in ["a", "b", "c"] {
        post(&server, PODS, pod_document(name)).await;
    }
    let first = table(&server, &format!("{PODS}?limit=2")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = table(&server, &format!("{PODS}?limit=2&continue={token}")).await;
    assert_eq!(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
    assert_eq!((first["rows"].as_array().unwrap().len(), cells(&second).split('|').next()), (2, Some("c")));
}

#[tokio::test(start_paused = true)]
async fn partial_metadata_is_only_metadata() {
    let server = test_server();
    post(&server, PODS, pod_document("a")).await;
    let stored = server.get(&format!("{PODS}/a")).await.1;
    let (_, one) = get_as(&server, PARTIAL, &format!("{PODS}/a")).await;
    let want = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": stored["metadata"]});
    assert_eq!(one, want);
    let (_, list) = get_as(&server, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", PODS).await;
    assert_eq!((&list["kind"], &list["items"]), (&"PartialObjectMetadataList".into(), &json!([want])));
    assert!(list["metadata"]["resourceVersion"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_accepts_only_protobuf_gets_406() {
    let server = test_server();
    let (code, status) = get_as(&server, "application/vnd.kubernetes.protobuf", PODS).await;
    assert_eq!((code, &status["reason"]), (StatusCode::NOT_ACCEPTABLE, &"NotAcceptable".into()));
}

/// The events of a watch that ends after a second, in this form.
async fn watch(server: &TestServer, accept: &str, query: &str) -> Vec<Value> {
    let uri = format!("{PODS}?watch=true&timeoutSeconds=1&{query}");
    let request = Request::builder().uri(uri).header("accept", accept).body(bytes::Bytes::new()).unwrap();
    let body = server.send(request).await.into_body().collect().await.unwrap().to_bytes();
    serde_json::Deserializer::from_slice(&body).into_iter().collect::<Result<_, _>>().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_watched_table_has_one_row_per_event_and_columns_once() {
    let server = test_server();
    for name in ["a", "b"] {
        post(&server, PODS, pod_document(name)).await;
    }
    let query = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let events = watch(&server, TABLE, query).await;
    let texts: Vec<String> = events
        .iter()
        .map(|event| {
            let table = &event["object"];
            let (columns, row) = (table["columnDefinitions"].as_array().unwrap().len(), &table["rows"][0]);
            assert_eq!((&table["kind"], table["rows"].as_array().unwrap().len()), (&"Table".into(), 1));
            assert_eq!(table["metadata"]["resourceVersion"], row["object"]["metadata"]["resourceVersion"]);
            let name = row["cells"][0].as_str().unwrap_or("-");
            let end = row["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"].as_str().unwrap_or("-");
            format!("{} {columns} {name} {end}", event["type"].as_str().unwrap())
        })
        .collect();
    assert_eq!(texts, ["ADDED 9 a -", "ADDED 0 b -", "BOOKMARK 0 - true", "BOOKMARK 0 - -"]);
    let partial = watch(&server, PARTIAL, "").await;
    assert_eq!(partial.len(), 2);
    assert_eq!(partial[0]["object"]["kind"], "PartialObjectMetadata");
    assert!(partial[0]["object"].get("spec").is_none());
}

#[tokio::test(start_paused = true)]
async fn the_response_to_a_write_has_the_requested_form() {
    let server = test_server();
    for query in ["?dryRun=All", ""] {
        let request = Request::post(format!("{PODS}{query}")).header("accept", PARTIAL);
        let request = request.body(bytes::Bytes::from(pod_document("a").to_string())).unwrap();
        let body = server.send(request).await.into_body().collect().await.unwrap().to_bytes();
        let object: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&object["kind"], &object["metadata"]["name"]), (&"PartialObjectMetadata".into(), &"a".into()));
    }
}

#[tokio::test(start_paused = true)]
async fn composites_and_cron_jobs_have_upstreams_columns() {
    let server = test_server();
    let composites = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups";
    let reference = json!({"workloadName": "w", "templateName": "t"});
    let spec = json!({"workloadRef": reference, "schedulingPolicy": {"gang": {"minGroupCount": 2}}});
    post(&server, composites, json!({"metadata": {"name": "a"}, "spec": spec})).await;
    assert_eq!(cells(&table(&server, composites).await), "a|Gang|w|0s");
    let cron_jobs = "/apis/batch/v1/namespaces/default/cronjobs";
    let template = json!({"spec": job_document("x")["spec"]});
    let mut cron_job = json!({"metadata": {"name": "a"}, "spec": {"schedule": "@daily", "jobTemplate": template}});
    post(&server, cron_jobs, cron_job.clone()).await;
    let row = table(&server, cron_jobs).await;
    assert_eq!(cells(&row), "a|@daily|<none>|False|0|<none>|0s|main|busybox|<none>");
    let types: Vec<&Value> =
        row["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["type"]).take(6).collect();
    assert_eq!(types, ["string", "string", "string", "boolean", "integer", "string"]);
    put_status(
        &server,
        &format!("{cron_jobs}/a"),
        json!({
            "active": [{"kind": "Job", "name": "a-1"}], "lastScheduleTime": "2029-12-31T23:00:00Z",
        }),
    )
    .await;
    cron_job["spec"]["timeZone"] = json!("Europe/Berlin");
    cron_job["spec"]["suspend"] = json!(true);
    server.call("PUT", &format!("{cron_jobs}/a"), "application/json", cron_job.to_string()).await;
    let row = cells(&table(&server, cron_jobs).await);
    assert_eq!(row, "a|@daily|Europe/Berlin|True|1|60m|0s|main|busybox|<none>");
}
