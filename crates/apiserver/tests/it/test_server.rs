//! A server for one test, and common objects and requests.

use std::sync::Arc;

use api::gates::Gates;
use api::{Clock, Random, Timestamp};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use phalanx_apiserver::{ApiServer, BootstrapError, Config, Identity};
use serde_json::{Value, json};
use store::{Committer, HistoryLimits, Store, WriterThread};
use tokio::time::Instant;
use tower::ServiceExt;

/// Wall time that moves with tokio's clock.
struct TestClock(Timestamp, Instant);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.0 + self.1.elapsed()
    }
}

const START_TIME: &str = "2030-01-01T00:00:00Z";

pub struct TestServer {
    pub server: ApiServer,
    pub store: Store,
    pub client: Client,
}

pub fn test_server() -> TestServer {
    test_server_with_limits(HistoryLimits::default())
}

pub fn test_server_with_limits(limits: HistoryLimits) -> TestServer {
    test_server_on(Store::in_memory(limits), 1)
}

/// A server on a store that may have other users.
pub fn test_server_on(store: Store, seed: u64) -> TestServer {
    test_server_at(store, seed, START_TIME)
}

/// The same with feature gates.
pub fn test_server_with_gates(store: Store, seed: u64, gates: Gates) -> TestServer {
    with_client(server_from(&store, seed, START_TIME, gates).unwrap(), store)
}

/// The same without the capacity check of binds.
pub fn test_server_without_capacity_check(store: Store, seed: u64) -> TestServer {
    with_client(server_on(&store, seed).unwrap().without_capacity_check(), store)
}

/// The same, starting at `time`.
pub fn test_server_at(store: Store, seed: u64, time: &str) -> TestServer {
    with_client(server_from(&store, seed, time, Gates::default()).unwrap(), store)
}

fn with_client(server: ApiServer, store: Store) -> TestServer {
    let client = server.client(Identity::admin());
    TestServer { server, store, client }
}

/// The same, or the error.
pub fn server_on(store: &Store, seed: u64) -> Result<ApiServer, BootstrapError> {
    server_from(store, seed, START_TIME, Gates::default())
}

/// The same with a writer thread.
pub fn test_server_on_thread(store: Store, seed: u64) -> (TestServer, WriterThread) {
    let (committer, writer) = Committer::on_thread(store.clone(), |error| panic!("{error}"));
    let server = server_with(&store, committer, seed, START_TIME, Gates::default()).unwrap();
    (with_client(server, store), writer)
}

fn server_from(store: &Store, seed: u64, time: &str, gates: Gates) -> Result<ApiServer, BootstrapError> {
    server_with(store, Committer::in_place(store.clone()), seed, time, gates)
}

fn server_with(
    store: &Store,
    committer: Committer,
    seed: u64,
    time: &str,
    gates: Gates,
) -> Result<ApiServer, BootstrapError> {
    let clock = TestClock(time.parse().unwrap(), Instant::now());
    ApiServer::new(Config {
        store: store.clone(),
        committer,
        clock: Arc::new(clock),
        random: Random::seeded(seed),
        gates,
    })
}

impl TestServer {
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// A request as a plain HTTP client would send it.
    pub async fn send(&self, request: Request<Bytes>) -> Response<phalanx_apiserver::Body> {
        self.server.clone().oneshot(request.map(http_body_util::Full::new)).await.unwrap()
    }

    /// Sends `body` and reads the whole response.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        media_type: &str,
        body: impl Into<Bytes>,
    ) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", media_type);
        let response = self.send(request.body(body.into()).unwrap()).await;
        let code = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.call("GET", path, "", "").await
    }

    pub async fn post(&self, path: &str, object: Value) -> (StatusCode, Value) {
        self.call("POST", path, "application/json", object.to_string()).await
    }
}

/// Code, body and warnings.
pub async fn read_response(response: Response<phalanx_apiserver::Body>) -> (StatusCode, Value, Vec<String>) {
    let code = response.status();
    let text = |header: &http::HeaderValue| {
        let quoted = header.to_str().unwrap().strip_prefix("299 - \"").unwrap().strip_suffix('"').unwrap();
        quoted.replace("\\\"", "\"")
    };
    let warnings = response.headers().get_all("warning").iter().map(text).collect();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null), warnings)
}

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

pub fn pod(name: &str) -> Pod {
    serde_json::from_value(pod_document(name)).unwrap()
}

pub fn pod_document(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    })
}

pub fn labelled(name: &str, key: &str, value: &str) -> Pod {
    let mut pod = pod(name);
    pod.metadata.labels = Some([(key.to_owned(), value.to_owned())].into());
    pod
}

pub fn job(name: &str) -> Job {
    serde_json::from_value(job_document(name)).unwrap()
}

pub fn job_document(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}],
        }}},
    })
}

/// Code and message of a refusal.
pub fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => panic!("not a refusal: {other}"),
    }
}
