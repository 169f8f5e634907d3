//! Pods from bind to removal on the paused clock, against a fake server that merges a status, sets a resourceVersion and
//! updates the cache.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::clock::rfc3339;
use api::views::{NodeView, ObjectKey, PodView, View};
use api::{Clock, Random, Revision, Timestamp};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use phalanx_nodes::{Cluster, Config, KubeletContext};
use runtime::informer::CacheEvent;
use runtime::{Cache, Recorder, TokioClock};
use serde_json::{Value, json};

/// The server, its caches, and a log of the writes.
#[derive(Clone)]
struct FakeApiServer(Arc<Mutex<FakeApiState>>);

struct FakeApiState {
    pods: Cache<PodView>,
    nodes: Cache<NodeView>,
    clock: TokioClock,
    documents: BTreeMap<String, Value>,
    revision: u64,
    /// Status codes with which the next writes fail, last first.
    failures: Vec<u16>,
    /// One line per write: time, object, result.
    log: Vec<String>,
}

impl FakeApiServer {
    /// A server with `count` nodes, and running kubelets.
    async fn start(count: u32) -> FakeApiServer {
        let clock = TokioClock::starting_at(Timestamp::UNIX_EPOCH);
        let (pods, nodes) = (Cache::new(&[]), Cache::new(&[]));
        let server = FakeApiServer(Arc::new(Mutex::new(FakeApiState {
            pods: pods.clone(),
            nodes: nodes.clone(),
            clock,
            documents: BTreeMap::new(),
            revision: 0,
            failures: Vec::new(),
            log: Vec::new(),
        })));
        let service = tower::service_fn({
            let server = server.clone();
            move |request: Request<Body>| server.clone().respond(request)
        });
        let client = Client::new(service, "default");
        phalanx_nodes::register(&client, &Cluster::default_of(count), clock.now()).await.unwrap();
        let clock = Arc::new(clock);
        let (recorder, events) = Recorder::new("kubelet", client.clone(), clock.clone(), Random::seeded(1));
        tokio::spawn(events);
        tokio::spawn(phalanx_nodes::run(KubeletContext {
            client,
            pods,
            nodes,
            clock,
            recorder,
            config: Config::default(),
        }));
        server
    }

    async fn respond(self, request: Request<Body>) -> Result<Response<Body>, std::convert::Infallible> {
        let (head, body) = request.into_parts();
        let body = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
        let (code, response) = self.0.lock().unwrap().write(&head.method, head.uri.path(), body);
        let body = Body::from(serde_json::to_vec(&response).unwrap());
        Ok(Response::builder().status(code).body(body).unwrap())
    }

    /// A pod that is bound to `node-0`.
    fn bind(&self, name: &str, restart_policy: &str, annotations: Value) {
        let pod = json!({
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}"), "annotations": annotations},
            "spec": {"nodeName": "node-0", "restartPolicy": restart_policy, "containers": [{"name": "main"}]},
        });
        self.change(name, pod);
    }

    /// Sets the deletion timestamp, like a DELETE with a grace period.
    fn request_deletion(&self, name: &str) {
        let path = path(name);
        let mut state = self.0.lock().unwrap();
        let mut pod = state.documents[&path].clone();
        pod["metadata"]["deletionTimestamp"] = json!(rfc3339(state.clock.now()));
        state.put(path, pod);
    }

    fn change(&self, name: &str, pod: Value) {
        self.0.lock().unwrap().put(path(name), pod);
    }

    fn fail_next(&self, codes: &[u16]) {
        self.0.lock().unwrap().failures = codes.to_vec();
    }

    /// The writes since the last call, after another `seconds`.
    async fn writes_within(&self, seconds: u64) -> String {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        std::mem::take(&mut self.0.lock().unwrap().log).join("\n")
    }
}

fn path(name: &str) -> String {
    PodView::RESOURCE.object_path(&ObjectKey::new("default", name))
}

impl FakeApiState {
    fn write(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        if path == "/api/v1/nodes" {
            self.revision += 1;
            let node = NodeView::decode(&serde_json::to_vec(&body).unwrap()).unwrap();
            self.nodes.apply_events([CacheEvent::Put(node)], Revision(self.revision));
            return (201, body);
        }
        let now = self.clock.now().duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
        if let Some(code) = self.failures.pop() {
            self.log.push(format!("{now:.1} response {code}"));
            return (code, status(code));
        }
        if path.ends_with("/events") {
            self.log.push(format!("{now:.1} event {} {}", body["type"], body["message"]));
            return (201, body);
        }
        let pod_path = path.trim_end_matches("/status");
        let Some(mut pod) = self.documents.get(pod_path).cloned() else { return (404, status(404)) };
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        if method == Method::DELETE {
            assert_eq!(body, json!({"gracePeriodSeconds": 0, "preconditions": {"uid": format!("uid-{name}")}}));
            self.log.push(format!("{now:.1} {name} removed"));
            self.documents.remove(pod_path);
            self.revision += 1;
            self.pods.apply_events([CacheEvent::Deleted(ObjectKey::new("default", name))], Revision(self.revision));
            return (200, pod);
        }
        if body["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"] {
            return (409, status(409));
        }
        for (field, value) in body["status"].as_object().unwrap() {
            pod["status"][field] = value.clone();
        }
        let container = &pod["status"]["containerStatuses"][0];
        let state = container["state"].as_object().and_then(|state| state.keys().next().cloned());
        self.log.push(format!(
            "{now:.1} {name} {} {} restarts={} exit={}",
            pod["status"]["phase"].as_str().unwrap(),
            state.unwrap_or_default(),
            container["restartCount"],
            container["state"]["terminated"]["exitCode"],
        ));
        (200, self.put(pod_path.to_owned(), pod))
    }

    fn put(&mut self, path: String, mut pod: Value) -> Value {
        self.revision += 1;
        pod["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let view = PodView::decode(&serde_json::to_vec(&pod).unwrap()).unwrap();
        self.pods.apply_events([CacheEvent::Put(view)], Revision(self.revision));
        self.documents.insert(path, pod.clone());
        pod
    }
}

fn status(code: u16) -> Value {
    let reason = if code == 409 { "Conflict" } else { "" };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no"})
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_runs_and_succeeds_by_its_annotations() {
    let server = FakeApiServer::start(2).await;
    server.bind("a", "Never", json!({"phalanx.dev/start-seconds": "1.5", "phalanx.dev/run-seconds": "10"}));
    insta::assert_snapshot!(server.writes_within(60).await, @r#"
    1.5 a Running running restarts=0 exit=null
    11.5 a Succeeded terminated restarts=0 exit=0
    "#);
    server.request_deletion("a");
    insta::assert_snapshot!(server.writes_within(60).await, @"60.0 a removed");
}

#[tokio::test(start_paused = true)]
async fn a_failing_container_is_restarted_with_backoff() {
    let server = FakeApiServer::start(1).await;
    server.bind("a", "OnFailure", json!({"phalanx.dev/exit-code": "2"}));
    insta::assert_snapshot!(server.writes_within(40).await, @r#"
    0.0 a Running running restarts=0 exit=null
    1.0 a Running running restarts=1 exit=null
    2.0 a Running waiting restarts=1 exit=null
    12.0 a Running running restarts=2 exit=null
    13.0 a Running waiting restarts=2 exit=null
    33.0 a Running running restarts=3 exit=null
    34.0 a Running waiting restarts=3 exit=null
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_running_pod_is_stopped_then_removed() {
    let server = FakeApiServer::start(1).await;
    server.bind("a", "Always", json!({}));
    insta::assert_snapshot!(server.writes_within(60).await, @"0.0 a Running running restarts=0 exit=null");
    server.request_deletion("a");
    insta::assert_snapshot!(server.writes_within(60).await, @r#"
    60.0 a Failed terminated restarts=0 exit=143
    60.0 a removed
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_annotation_fails_the_pod_with_an_event() {
    let server = FakeApiServer::start(1).await;
    server.bind("a", "Never", json!({"phalanx.dev/run-seconds": "soon"}));
    insta::assert_snapshot!(server.writes_within(60).await, @r#"
    0.0 a Failed  restarts=null exit=null
    0.0 event "Warning" "annotation phalanx.dev/run-seconds: \"soon\" is not a number of seconds or forever"
    "#);
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried() {
    let server = FakeApiServer::start(1).await;
    server.fail_next(&[503, 409, 429]);
    server.bind("a", "Never", json!({}));
    insta::assert_snapshot!(server.writes_within(60).await, @r#"
    0.0 response 429
    0.5 response 409
    1.5 response 503
    3.5 a Running running restarts=0 exit=null
    4.5 a Succeeded terminated restarts=0 exit=0
    "#);
}

#[tokio::test(start_paused = true)]
async fn pods_on_nodes_that_are_not_simulated_are_ignored() {
    let server = FakeApiServer::start(1).await;
    let spec = json!({"nodeName": "metal-0", "restartPolicy": "Never", "containers": [{"name": "main"}]});
    server.change("a", json!({"metadata": {"namespace": "default", "name": "a", "uid": "uid-a"}, "spec": spec}));
    assert_eq!(server.writes_within(60).await, "");
}
