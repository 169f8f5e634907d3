//! Requests in the log: one span each, one line at its end, and nothing secret.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube::api::{DeleteParams, PostParams, WatchParams};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Level};

use crate::edge::{Body, TestClient, serve};
use crate::test_server::{PODS, pod, pod_document, test_server};

/// The log of the current thread, from `start` to the drop.
struct CapturedLog {
    bytes: Arc<Mutex<Vec<u8>>>,
    _subscriber: DefaultGuard,
}

/// With a single dispatcher `tracing` asks the thread that first reaches a callsite whether it is enabled, for all
/// threads. That thread may run a test without a log. A second dispatcher makes it ask every dispatcher.
static SECOND_DISPATCHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

#[derive(Clone)]
struct LogWriter(Arc<Mutex<Vec<u8>>>);

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CapturedLog {
    fn start(level: Level) -> CapturedLog {
        LazyLock::force(&SECOND_DISPATCHER);
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let writer = LogWriter(Arc::clone(&bytes));
        let log = tracing_subscriber::fmt().with_max_level(level).with_ansi(false).without_time();
        let subscriber = log.with_writer(move || writer.clone()).finish();
        CapturedLog { bytes, _subscriber: tracing::subscriber::set_default(subscriber) }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }

    /// The lines of the server itself.
    fn lines(&self) -> Vec<String> {
        self.text().lines().filter(|line| line.contains(" phalanx_apiserver")).map(str::to_owned).collect()
    }

    /// The lines of the request with this id.
    fn request(&self, id: u64) -> Vec<String> {
        let prefix = format!("request{{id={id} ");
        self.lines().into_iter().filter(|line| line.contains(&prefix)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_can_be_followed_by_its_id() {
    let server = test_server();
    let log = CapturedLog::start(Level::TRACE);
    let created = server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    server.pods().get("a").await.unwrap();
    server.pods().get("b").await.unwrap_err();
    let revision = created.metadata.resource_version.unwrap();

    let [written, ended] = &log.request(1)[..] else { panic!("{}", log.text()) };
    assert!(written.contains(&format!("pods default/a written at revision {revision}")), "{written}");
    let span = format!(
        "request{{id=1 user=\"kubernetes-admin\" verb=\"create\" resource=\"pods\" namespace=\"default\" name=\"a\" \
         revision={revision}}}"
    );
    assert!(ended.contains(&span) && ended.contains("request ended code=201 duration_us=0"), "{ended}");

    let [read] = &log.request(2)[..] else { panic!("{}", log.text()) };
    assert!(read.contains("verb=\"get\" resource=\"pods\" namespace=\"default\" name=\"a\"}"), "{read}");
    assert!(read.contains("code=200"), "{read}");
    let [missing] = &log.request(3)[..] else { panic!("{}", log.text()) };
    assert!(missing.contains("name=\"b\"}") && missing.contains("code=404"), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn each_request_is_one_line_at_debug_and_none_at_info() {
    let server = test_server();
    for (level, lines) in [(Level::INFO, 0), (Level::DEBUG, 1)] {
        for (method, path, code) in [
            ("GET", PODS, 200),
            ("GET", "/livez", 200),
            ("GET", "/apis/batch/v1", 200),
            ("GET", "/api/v1/nonsense", 404),
            ("GET", "/api/v1/pods?limit=nonsense", 400),
        ] {
            let log = CapturedLog::start(level);
            assert_eq!(server.call(method, path, "", "").await.0, code, "{path}");
            assert_eq!(log.lines().len(), lines, "{level} {path}: {}", log.text());
            assert!(lines == 0 || log.text().contains(&format!("request ended code={code} ")), "{}", log.text());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_delete_has_the_revision_of_its_last_write() {
    let server = test_server();
    for name in ["a", "b"] {
        server.pods().create(&PostParams::default(), &pod(name)).await.unwrap();
    }
    let log = CapturedLog::start(Level::DEBUG);
    server.pods().delete_collection(&DeleteParams::default(), &Default::default()).await.unwrap();
    let revision = server.store.revision();
    let [ended] = &log.lines()[..] else { panic!("{}", log.text()) };
    assert!(ended.contains(&format!("namespace=\"default\" revision={revision}}}")), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_stream() {
    let server = test_server();
    let log = CapturedLog::start(Level::DEBUG);
    let params = WatchParams::default().timeout(30);
    let stream = server.pods().watch(&params, "0").await.unwrap();
    assert_eq!(log.lines().len(), 0, "{}", log.text());
    stream.try_collect::<Vec<_>>().await.unwrap();
    let [ended] = &log.lines()[..] else { panic!("{}", log.text()) };
    let watched = ended.contains("verb=\"watch\"") && ended.contains("request ended code=200 duration_us=30");
    assert!(watched, "{ended}");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_request_ends_without_a_response() {
    let server = test_server();
    let log = CapturedLog::start(Level::DEBUG);
    let body = http_body_util::StreamBody::new(futures::stream::pending::<Result<_, std::convert::Infallible>>());
    let request = Request::post(PODS).header("content-type", "application/json").body(body.boxed_unsync()).unwrap();
    let call = tower::ServiceExt::<Request<Body>>::oneshot(server.server.clone(), request);
    tokio::time::timeout(Duration::from_secs(1), call).await.unwrap_err();
    let [ended] = &log.lines()[..] else { panic!("{}", log.text()) };
    assert!(ended.contains("request ended without a response duration_us=1000000"), "{ended}");
}

#[tokio::test]
async fn neither_tokens_nor_bodies_are_logged() {
    let edge = serve(Default::default()).await;
    let log = CapturedLog::start(Level::TRACE);
    let (mut client, _connection) = edge.http2(TestClient::Anonymous).await;
    let mut send = async |token: &str, query: &str| {
        let mut pod = pod_document("a");
        pod["spec"]["containers"][0]["env"] = serde_json::json!([{"name": "KEY", "value": "secret-in-the-body"}]);
        let request = Request::post(format!("https://localhost{PODS}?{query}"))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"))
            .body(Full::from(pod.to_string()).boxed_unsync());
        client.send_request(request.unwrap()).await.unwrap().status().as_u16()
    };
    assert_eq!(send("not-the-token", "").await, 401);
    assert_eq!(send(edge.pki.token(), "fieldManager=secret-in-the-query").await, 201);
    assert_eq!(send(edge.pki.token(), "").await, 409);

    let text = log.text();
    assert!(text.contains(&format!("POST {PODS}: refused by the network edge code=401")), "{text}");
    assert!(text.contains("request ended code=201") && text.contains("request ended code=409"), "{text}");
    for secret in [edge.pki.token(), "not-the-token", "Bearer", "secret-in-the-query", "secret-in-the-body"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}
