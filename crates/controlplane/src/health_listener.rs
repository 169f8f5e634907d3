//! Health and metrics of a process without an API server: `/livez`, `/readyz`, `/healthz` and `/metrics` over plain HTTP,
//! and the queries to its scheduler: `/queue` and `/explain`. There is no authentication.
//!
//! It listens on loopback, where a browser on the same machine can reach it too. Queries are served only to requests with a
//! loopback host: a web page whose name resolves to this machine (DNS rebinding) cannot read them.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use api::gates::{Gate, Gates};
use apiserver::{Body, Health};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use scheduler::QueryResponse;
use scheduler::query::types::{EXPLAIN_PATH, QUEUE_PATH};
use tokio::net::{TcpListener, TcpStream};

use crate::metrics::Metrics;
use crate::queries::SchedulerQueries;

/// Concurrent connections; more wait.
const MAX_CONNECTIONS: usize = 16;
/// How long a connection may last. A client sends one or two requests.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed accept, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Queries to the scheduler.
const SCHEDULER_PATHS: [&str; 2] = [QUEUE_PATH, EXPLAIN_PATH];

/// Serves `listener` forever.
pub fn serve(listener: TcpListener, ctx: HealthContext) -> BoxFuture<'static, ()> {
    serve_forever(listener, ctx).boxed()
}

async fn serve_forever(listener: TcpListener, ctx: HealthContext) {
    let connections = stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((stream, listener)),
                Err(error) => {
                    tracing::warn!("health and metrics: {error}; retrying");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    let ctx = Arc::new(ctx);
    connections
        .for_each_concurrent(MAX_CONNECTIONS, |stream| {
            let ctx = Arc::clone(&ctx);
            async move { drop(tokio::time::timeout(CONNECTION_TIMEOUT, serve_connection(stream, ctx)).await) }
        })
        .await;
}

/// What the listener serves.
#[derive(Clone)]
pub struct HealthContext {
    /// Health of the process.
    pub health: Health,
    /// Feature gates.
    pub gates: Gates,
    /// Metrics.
    pub metrics: Metrics,
    /// Queries to its scheduler.
    pub queries: SchedulerQueries,
}

async fn serve_connection(stream: TcpStream, ctx: Arc<HealthContext>) {
    let service = tower::service_fn(move |request: Request<_>| {
        let ctx = Arc::clone(&ctx);
        async move { Ok::<_, Infallible>(respond(&ctx, &request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(CONNECTION_TIMEOUT);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await {
        tracing::debug!("health and metrics: {error}");
    }
}

async fn respond<B>(ctx: &HealthContext, request: &Request<B>) -> Response<Body> {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    if path == "/metrics" {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        return response(StatusCode::OK, kind, metrics(&ctx.health, &ctx.gates, &ctx.metrics));
    }
    if let Some(response) = ctx.health.response(path, query) {
        return response;
    }
    if SCHEDULER_PATHS.contains(&path) && !names_loopback(request) {
        let message = format!("{path} is served to localhost, 127.0.0.1 and [::1], not to the host of this request\n");
        return response(StatusCode::FORBIDDEN, PLAIN_TEXT, message);
    }
    let query_response = if request.method() == Method::GET { ctx.queries.respond(path, query).await } else { None };
    match query_response {
        Some(QueryResponse { code, body }) => {
            response(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), "application/json", body)
        }
        None => response(StatusCode::NOT_FOUND, PLAIN_TEXT, "404 page not found\n".to_owned()),
    }
}

/// Whether every host in the request is a loopback host, with any port.
fn names_loopback<B>(request: &Request<B>) -> bool {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let header = headers.next().map(|host| host.to_str().unwrap_or_default());
    if headers.next().is_some() {
        // A proxy may use another one of several than this server (RFC 9112, section 3.2).
        return false;
    }
    let hosts = [request.uri().authority().map(|authority| authority.as_str()), header];
    let mut named = hosts.into_iter().flatten().map(without_port).peekable();
    named.peek().is_some() && named.all(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

fn response(code: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::whole(Bytes::from(text)));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Names are upstream's where upstream has the metric.
fn metrics(health: &Health, gates: &Gates, metrics: &Metrics) -> String {
    let mut text = String::from("# HELP phalanx_ready Whether this process is ready.\n# TYPE phalanx_ready gauge\n");
    writeln!(text, "phalanx_ready {}", u8::from(health.is_ready())).expect("a string accepts every write");
    text.push_str("# HELP kubernetes_feature_enabled Whether a feature is on.\n");
    text.push_str("# TYPE kubernetes_feature_enabled gauge\n");
    for gate in Gate::ALL {
        let (name, stage, on) = (gate.name(), gate.stage(), u8::from(gates.enabled(gate)));
        let line = writeln!(text, "kubernetes_feature_enabled{{name=\"{name}\",stage=\"{stage}\"}} {on}");
        line.expect("a string accepts every write");
    }
    metrics.write(&mut text);
    text.push_str("# EOF\n");
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::FutureExt;

    #[test]
    fn health_and_metrics_are_served_and_nothing_else() {
        let (health, gates, counted) = (Health::default(), Gates::default(), Metrics::default());
        let queries = SchedulerQueries::default();
        let ctx = HealthContext { health: health.clone(), gates, metrics: counted.clone(), queries };
        health.fail("caches", "not yet");
        let code = |path: &str| {
            let request = Request::get(path).header(header::HOST, "localhost").body(()).unwrap();
            respond(&ctx, &request).now_or_never().expect("the response is ready").status().as_u16()
        };
        assert_eq!([code("/livez"), code("/readyz"), code("/metrics"), code("/secrets")], [200, 500, 200, 404]);
        assert_eq!(code("/queue"), 404, "without a scheduler there is no queue");
        assert!(metrics(&health, &gates, &counted).contains("phalanx_ready 0\n"));
        health.pass("caches");
        let text = metrics(&health, &gates, &counted);
        assert!(text.contains("phalanx_ready 1\n") && text.contains("{name=\"GenericWorkload\","), "{text}");
    }

    // A web page whose name resolves to 127.0.0.1 must not read the queue through its visitor's browser.
    #[test]
    fn only_requests_for_a_loopback_host_reach_the_scheduler() {
        let (health, gates) = (Health::default(), Gates::default());
        let ctx = HealthContext { health, gates, metrics: Metrics::default(), queries: SchedulerQueries::default() };
        let code_of = |uri: &str, hosts: &[&str]| {
            let request = hosts.iter().fold(Request::get(uri), |request, host| request.header(header::HOST, *host));
            let response = respond(&ctx, &request.body(()).unwrap()).now_or_never();
            response.expect("the response is ready").status().as_u16()
        };
        let code = |uri: &str, host: Option<&str>| code_of(uri, host.as_slice());
        for host in ["localhost", "localhost:10259", "127.0.0.1:1", "[::1]", "[::1]:10259"] {
            assert_eq!([code("/queue", Some(host)), code("/explain?kind=Job", Some(host))], [404, 404], "{host}");
        }
        for host in ["evil.example", "evil.example:10259", "localhost.evil.example", "127.0.0.1.evil:1", "[::2]:1", ""]
        {
            assert_eq!([code("/queue", Some(host)), code("/explain", Some(host))], [403, 403], "{host}");
            assert_eq!(code("/readyz", Some(host)), 200, "{host}: probes may use any host");
        }
        assert_eq!(code("/queue", None), 403);
        assert_eq!(code("http://evil.example/queue", Some("localhost")), 403);
        for hosts in [["localhost", "evil.example"], ["evil.example", "localhost"], ["localhost", "localhost"]] {
            assert_eq!([code_of("/queue", &hosts), code_of("/explain", &hosts)], [403, 403], "{hosts:?}");
        }
    }
}
