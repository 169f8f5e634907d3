//! The network edge over real sockets on loopback, with limits small enough to reach.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use bytes::Bytes;
use futures::stream;
use futures::{FutureExt, StreamExt};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use phalanx_apiserver::Identity;
use phalanx_apiserver::edge::pki::Pki;
use phalanx_apiserver::edge::{self, Config, EdgeLimits};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::test_server::test_server;

const TIMEOUT: Duration = Duration::from_secs(20);

pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// An edge in front of an empty server.
pub struct TestEdge {
    address: SocketAddr,
    pub pki: Pki,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

pub async fn serve(limits: EdgeLimits) -> TestEdge {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pki = Pki::in_memory(&[], Timestamp::now()).unwrap();
    let (stop, stopped) = oneshot::channel();
    let config = Config { pki: pki.clone(), limits };
    let server = test_server().server;
    let stopped = async { drop(stopped.await) }.boxed();
    let task = tokio::spawn(async move { edge::serve(listener, server, config, stopped).await.unwrap() });
    TestEdge { address, pki, stop, task }
}

/// The credentials of a client.
#[derive(Clone, Copy)]
pub enum TestClient {
    Admin,
    /// Has a certificate of the server's CA.
    Jane,
    Anonymous,
}

impl TestEdge {
    async fn tls(&self, client: TestClient, protocol: &[u8]) -> TlsStream<TcpStream> {
        let pem = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(pem(&self.pki.ca_certificate_pem())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let credentials = match client {
            TestClient::Anonymous => None,
            TestClient::Admin => Some((self.pki.admin_certificate_pem(), self.pki.admin_key_pem())),
            TestClient::Jane => {
                let jane = Identity::new("jane", &["developers"]);
                Some(self.pki.issue_client(&jane, Timestamp::now()).unwrap())
            }
        };
        let mut config = match credentials {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![pem(&certificate)], key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// A connection, and the task that ends with it.
    async fn http1(&self, client: TestClient) -> (http1::SendRequest<Body>, JoinHandle<()>) {
        let stream = TokioIo::new(self.tls(client, b"http/1.1").await);
        let (sender, connection) = http1::handshake(stream).await.unwrap();
        (sender, tokio::spawn(async { drop(connection.await) }))
    }

    pub async fn http2(&self, client: TestClient) -> (http2::SendRequest<Body>, JoinHandle<()>) {
        let stream = TokioIo::new(self.tls(client, b"h2").await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        (sender, tokio::spawn(async { drop(connection.await) }))
    }
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).header("host", "localhost").body(Empty::new().boxed_unsync()).unwrap()
}

fn get_absolute(path: &str) -> Request<Body> {
    Request::get(format!("https://localhost{path}")).body(Empty::new().boxed_unsync()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// A namespace of 200 kB.
async fn create_large(edge: &TestEdge, number: u32) {
    let object = serde_json::json!({
        "metadata": {"name": format!("large-{number}"), "annotations": {"a": "x".repeat(200_000)}}
    });
    let (mut admin, _connection) = edge.http1(TestClient::Admin).await;
    let request =
        Request::post("/api/v1/namespaces").header("host", "localhost").header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(object.to_string())).boxed_unsync()).unwrap();
    let response = admin.send_request(request).await.unwrap();
    assert_eq!(response.status(), 201);
    text(response).await;
}

#[tokio::test]
async fn both_protocols_serve_only_clients_with_a_certificate() {
    let edge = serve(EdgeLimits::default()).await;
    for (client, code) in [(TestClient::Admin, 200), (TestClient::Anonymous, 401)] {
        let (mut first, _connection) = edge.http1(client).await;
        assert_eq!(first.send_request(get("/api/v1/nodes")).await.unwrap().status(), code);
        let (mut second, _connection) = edge.http2(client).await;
        let response = second.send_request(get_absolute("/api/v1/nodes")).await.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (code, http::Version::HTTP_2));
        let ready = second.send_request(get_absolute("/readyz")).await.unwrap();
        assert_eq!(text(ready).await, "ok");
    }
}

#[tokio::test]
async fn an_identity_that_a_client_claims_is_ignored() {
    let edge = serve(EdgeLimits::default()).await;
    let (mut client, _connection) = edge.http1(TestClient::Anonymous).await;
    for (name, value) in [
        ("x-remote-user", "kubernetes-admin"),
        ("x-remote-group", "system:masters"),
        ("impersonate-user", "kubernetes-admin"),
        ("authorization", "Bearer "),
        ("authorization", "Basic a3ViZXJuZXRlcy1hZG1pbjo="),
    ] {
        let mut request = get("/api/v1/nodes");
        request.headers_mut().insert(name, value.parse().unwrap());
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), 401, "{name}: {value}");
        assert!(text(response).await.contains("\"reason\":\"Unauthorized\""));
    }
    let mut request = get("/api/v1/nodes");
    request.headers_mut().insert("authorization", format!("Bearer {}", edge.pki.token()).parse().unwrap());
    assert_eq!(client.send_request(request).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_request_for_the_rights_of_another_user_is_refused() {
    let edge = serve(EdgeLimits::default()).await;
    let (mut admin, _connection) = edge.http1(TestClient::Admin).await;
    for (name, value) in [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "developers"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Scopes", "view"),
    ] {
        let request = Request::post("/api/v1/namespaces").header("host", "localhost").header(name, value);
        let request = request.header("content-type", "application/json");
        let body = Full::new(Bytes::from(r#"{"metadata":{"name":"hers"}}"#)).boxed_unsync();
        let response = admin.send_request(request.body(body).unwrap()).await.unwrap();
        assert_eq!(response.status(), 403, "{name}");
        let status = text(response).await;
        assert!(status.contains("\"reason\":\"Forbidden\"") && status.contains("does not support impersonation"));
    }
    assert_eq!(admin.send_request(get("/api/v1/namespaces/hers")).await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_certificate_of_another_user_gives_no_rights() {
    let edge = serve(EdgeLimits::default()).await;
    let (mut jane, _connection) = edge.http1(TestClient::Jane).await;
    for path in ["/api/v1/nodes", "/apis", "/metrics", "/nowhere"] {
        let response = jane.send_request(get(path)).await.unwrap();
        assert_eq!(response.status(), 403, "{path}");
        let wanted = format!("forbidden: User \\\"jane\\\" cannot get path \\\"{path}\\\"");
        let status = text(response).await;
        assert!(status.contains(&wanted), "{status}");
    }
    assert_eq!(text(jane.send_request(get("/readyz")).await.unwrap()).await, "ok");
}

#[tokio::test]
async fn a_stop_ends_watches_and_closes_connections() {
    for http2 in [false, true] {
        let edge = serve(EdgeLimits { drain_timeout: TIMEOUT, ..EdgeLimits::default() }).await;
        let path = "/api/v1/namespaces?watch=true";
        let (response, connection) = if http2 {
            let (mut client, connection) = edge.http2(TestClient::Admin).await;
            (client.send_request(get_absolute(path)).await.unwrap(), connection)
        } else {
            let (mut client, connection) = edge.http1(TestClient::Admin).await;
            (client.send_request(get(path)).await.unwrap(), connection)
        };
        let mut body = response.into_body();
        assert!(body.frame().await.unwrap().is_ok(), "the initial events");
        edge.stop.send(()).unwrap();
        let rest = timeout(TIMEOUT, body.collect()).await.expect("the watch ends").unwrap();
        assert!(rest.to_bytes().is_empty(), "it ends with a whole line");
        timeout(TIMEOUT / 2, edge.task).await.expect("no request is in flight").unwrap();
        timeout(TIMEOUT, connection).await.expect("the connection is closed").unwrap();
        assert!(TcpStream::connect(edge.address).await.is_err());
    }
}

#[tokio::test]
async fn connections_that_are_not_used_are_closed() {
    let short = Duration::from_millis(200);
    let limits = EdgeLimits {
        handshake_timeout: short,
        header_timeout: short,
        idle_timeout: short,
        drain_timeout: short,
        ..EdgeLimits::default()
    };
    let edge = serve(limits).await;
    // No handshake.
    let mut silent = TcpStream::connect(edge.address).await.unwrap();
    assert_eq!(timeout(TIMEOUT, silent.read(&mut [0; 1])).await.unwrap().unwrap_or(0), 0);
    // Half a request.
    let mut half = edge.tls(TestClient::Anonymous, b"http/1.1").await;
    half.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    let mut received = Vec::new();
    let _ = timeout(TIMEOUT, half.read_to_end(&mut received)).await.unwrap();
    // HTTP/2 negotiated, but no byte sent.
    let mut silent_clients = edge.tls(TestClient::Anonymous, b"h2").await;
    let _ = timeout(TIMEOUT, silent_clients.read_to_end(&mut received)).await.unwrap();
    // HTTP/2, but no request.
    let (_client, connection) = edge.http2(TestClient::Admin).await;
    timeout(TIMEOUT, connection).await.expect("an idle connection is closed").unwrap();
}

#[tokio::test]
async fn the_connection_of_a_client_that_does_not_read_is_closed() {
    let edge = serve(EdgeLimits { unread_timeout: Duration::from_millis(300), ..EdgeLimits::default() }).await;
    let (mut admin, _connection) = edge.http1(TestClient::Admin).await;
    // Far more than the first window of a stream.
    for number in 0..4 {
        create_large(&edge, number).await;
    }
    let stream = TokioIo::new(edge.tls(TestClient::Admin, b"h2").await);
    let handshake = http2::Builder::new(TokioExecutor::new()).initial_stream_window_size(1000).handshake(stream);
    let (mut client, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(async { drop(connection.await) });
    let unread = client.send_request(get_absolute("/api/v1/namespaces")).await.unwrap();
    timeout(TIMEOUT, connection).await.expect("the connection is closed").unwrap();
    drop(unread);
    // Other clients are served as before.
    assert_eq!(admin.send_request(get("/readyz")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_request_whose_body_never_ends_gets_a_timeout() {
    let edge = serve(EdgeLimits { request_timeout: Duration::from_millis(200), ..EdgeLimits::default() }).await;
    let (mut client, _connection) = edge.http1(TestClient::Admin).await;
    let begun = stream::iter([Ok(http_body::Frame::data(Bytes::from_static(b"{")))]);
    let body = StreamBody::new(begun.chain(stream::pending()));
    let request =
        Request::post("/api/v1/namespaces").header("host", "localhost").header("content-type", "application/json");
    let response = client.send_request(request.body(body.boxed_unsync()).unwrap());
    let response = timeout(TIMEOUT, response).await.expect("a response within the timeout").unwrap();
    assert_eq!(response.status(), 504);
}

#[tokio::test]
async fn connections_without_an_identity_never_displace_those_with_one() {
    let edge = serve(EdgeLimits { max_connections: 3, max_unidentified_connections: 8, ..EdgeLimits::default() }).await;
    let with_token = || {
        let mut request = get("/api/v1/nodes");
        request.headers_mut().insert("authorization", format!("Bearer {}", edge.pki.token()).parse().unwrap());
        request
    };
    let (mut by_certificate, _first) = edge.http1(TestClient::Admin).await;
    let (mut by_token, _second) = edge.http1(TestClient::Anonymous).await;
    assert_eq!(by_token.send_request(with_token()).await.unwrap().status(), 200);
    // Many times the limit, and these clients close none of them.
    let (mut silent_clients, mut strangers) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        silent_clients.push(TcpStream::connect(edge.address).await.unwrap());
        strangers.push(edge.tls(TestClient::Anonymous, b"h2").await);
    }
    let (mut late, _third) = edge.http1(TestClient::Admin).await;
    let responses = async {
        assert_eq!(late.send_request(get("/api/v1/nodes")).await.unwrap().status(), 200);
        assert_eq!(by_certificate.send_request(get("/api/v1/nodes")).await.unwrap().status(), 200);
        assert_eq!(by_token.send_request(get("/api/v1/nodes")).await.unwrap().status(), 401);
        assert_eq!(by_token.send_request(with_token()).await.unwrap().status(), 200);
    };
    timeout(TIMEOUT, responses).await.expect("served although the slots are full");
    let oldest = timeout(EdgeLimits::default().handshake_timeout / 2, silent_clients[0].read(&mut [0; 1])).await;
    assert_eq!(oldest.expect("closed before its handshake is due").unwrap_or(0), 0);
}

#[tokio::test]
async fn requests_over_the_limits_get_429_with_a_retry_time() {
    let edge = serve(EdgeLimits { max_reads: 1, max_writes: 1, max_watches: 1, ..EdgeLimits::default() }).await;
    create_large(&edge, 0).await;
    let (mut client, _connection) = edge.http2(TestClient::Admin).await;
    let (list_path, watch_path) = ("/api/v1/namespaces", "/api/v1/namespaces?watch=true");
    let post = |body: Body| {
        let request = Request::post("https://localhost/api/v1/namespaces").header("content-type", "application/json");
        request.body(body).unwrap()
    };
    let whole = || Full::new(Bytes::from(r#"{"metadata":{"name":"n"}}"#)).boxed_unsync();
    // One of each is in flight: a write whose body does not end, a list that is not read, a watch.
    let (more, body) = futures::channel::mpsc::unbounded();
    let write = tokio::spawn(client.send_request(post(StreamBody::new(body).boxed_unsync())));
    let stream = TokioIo::new(edge.tls(TestClient::Admin, b"h2").await);
    let handshake = http2::Builder::new(TokioExecutor::new()).initial_stream_window_size(1000).handshake(stream);
    let (mut slow_reader, connection) = handshake.await.unwrap();
    tokio::spawn(async { drop(connection.await) });
    let list = slow_reader.send_request(get_absolute(list_path)).await.unwrap();
    let watch = client.send_request(get_absolute(watch_path)).await.unwrap();
    assert_eq!((list.status().as_u16(), watch.status().as_u16()), (200, 200));
    for (what, request) in [
        ("write", post(whole())),
        ("list", get_absolute(list_path)),
        ("get", get_absolute("/api/v1/namespaces/default?pretty=watch")),
        ("watch", get_absolute(watch_path)),
    ] {
        let refused = client.send_request(request).await.unwrap();
        assert_eq!(refused.status(), 429, "{what}");
        assert_eq!(refused.headers()["retry-after"], "1", "{what}");
        assert!(text(refused).await.contains("\"reason\":\"TooManyRequests\""), "{what}");
    }
    for path in ["/readyz", "/livez", "/version", "/version/"] {
        assert_eq!(client.send_request(get_absolute(path)).await.unwrap().status(), 200, "{path}");
    }
    // A permit is free again when its request has ended.
    more.unbounded_send(Ok(http_body::Frame::data(whole().collect().await.unwrap().to_bytes()))).unwrap();
    drop(more);
    assert_eq!(write.await.unwrap().unwrap().status(), 201);
    drop((list, slow_reader, watch));
    let mut retry = async |request: &dyn Fn() -> Request<Body>| loop {
        let response = client.send_request(request()).await.unwrap();
        if response.status() != 429 {
            return response.status().as_u16();
        }
        tokio::task::yield_now().await;
    };
    let codes = async {
        let write = retry(&|| post(whole())).await;
        (write, retry(&|| get_absolute(list_path)).await, retry(&|| get_absolute(watch_path)).await)
    };
    assert_eq!(timeout(TIMEOUT, codes).await.expect("permits are released"), (409, 200, 200));
}

#[tokio::test]
async fn large_responses_are_compressed_for_clients_that_accept_it_and_watches_never() {
    let edge = serve(EdgeLimits::default()).await;
    let (mut client, _connection) = edge.http1(TestClient::Admin).await;
    let mut fetch = async |path: &str, encoding: &'static str| {
        let mut request = get(path);
        request.headers_mut().insert("accept-encoding", encoding.parse().unwrap());
        let response = client.send_request(request).await.unwrap();
        let is_compressed = response.headers().get("content-encoding").is_some_and(|coding| coding == "gzip");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let mut plain = Vec::new();
        match is_compressed {
            true => drop(flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap()),
            false => plain.extend_from_slice(&bytes),
        }
        (is_compressed, bytes.len(), plain)
    };
    let list = "/api/v1/namespaces";
    assert!(!fetch(list, "gzip").await.0, "a small response");
    for number in 0..4 {
        create_large(&edge, number).await;
    }
    for path in [list, "/api/v1/namespaces/large-0"] {
        let (is_compressed, plain_bytes, plain) = fetch(path, "identity").await;
        assert!(!is_compressed && plain_bytes > 128 << 10, "{path}: {plain_bytes}");
        let (is_compressed, sent_bytes, same) = fetch(path, "gzip, deflate").await;
        assert!(
            is_compressed && sent_bytes < plain_bytes / 4 && same == plain,
            "{path}: {sent_bytes} of {plain_bytes}"
        );
    }
    let (is_compressed, sent_bytes, _) = fetch("/api/v1/namespaces?watch=true&timeoutSeconds=1", "gzip").await;
    assert!(!is_compressed && sent_bytes > 128 << 10, "{sent_bytes}");
}

#[tokio::test]
async fn headers_beyond_the_limits_are_refused() {
    let edge = serve(EdgeLimits::default()).await;
    let mut many = get("/readyz");
    for number in 0..200 {
        many.headers_mut().insert(http::HeaderName::try_from(format!("x-{number}")).unwrap(), "1".parse().unwrap());
    }
    let mut large = get("/readyz");
    large.headers_mut().insert("x-large", "a".repeat(100_000).parse().unwrap());
    for request in [many, large] {
        let (mut client, _connection) = edge.http1(TestClient::Admin).await;
        assert_eq!(client.send_request(request).await.unwrap().status(), 431);
    }
}
