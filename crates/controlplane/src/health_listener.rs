//! Health and metrics of a process that serves nothing else: `/livez`, `/readyz`, `/healthz` and `/metrics` over plain
//! HTTP.

use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;

use api::gates::{Gate, Gates};
use apiserver::{Body, Health};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};

use crate::metrics::Metrics;

/// Connections at once; more wait for their turn.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection may last: whoever asks has a question or two.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// A listener that accepts nothing more, because there are no files left, is tried again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Answers on `listener` for ever.
pub async fn serve(listener: TcpListener, health: Health, gates: Gates, counted: Metrics) {
    let connections = stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((stream, listener)),
                Err(error) => {
                    tracing::warn!("health and metrics: {error}; trying again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    let (health, counted) = (&health, &counted);
    connections
        .for_each_concurrent(CONNECTIONS_MAX, |stream| async move {
            // Nobody is owed more than an answer that was asked for in time.
            let _ =
                tokio::time::timeout(CONNECTION_TIMEOUT, speak(stream, health.clone(), gates, counted.clone())).await;
        })
        .await;
}

async fn speak(stream: TcpStream, health: Health, gates: Gates, counted: Metrics) {
    let service = tower::service_fn(move |request: Request<_>| {
        std::future::ready(Ok::<_, Infallible>(answer(&health, &gates, &counted, &request)))
    });
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(CONNECTION_TIMEOUT);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await {
        tracing::debug!("health and metrics: {error}");
    }
}

fn answer<B>(health: &Health, gates: &Gates, counted: &Metrics, request: &Request<B>) -> Response<Body> {
    let uri = request.uri();
    if uri.path() == "/metrics" {
        let mut response = Response::new(Body::whole(Bytes::from(metrics(health, gates, counted))));
        let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        return response;
    }
    health.answer(uri.path(), uri.query().unwrap_or_default()).unwrap_or_else(|| {
        let mut response = Response::new(Body::whole(Bytes::from_static(b"404 page not found\n")));
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    })
}

/// Names are upstream's where upstream has the metric.
fn metrics(health: &Health, gates: &Gates, counted: &Metrics) -> String {
    let mut text = String::from("# HELP phalanx_ready Whether this process is ready.\n# TYPE phalanx_ready gauge\n");
    writeln!(text, "phalanx_ready {}", u8::from(health.is_ready())).expect("a text takes every write");
    text.push_str("# HELP kubernetes_feature_enabled Whether a feature is on.\n");
    text.push_str("# TYPE kubernetes_feature_enabled gauge\n");
    for gate in Gate::ALL {
        let (name, stage, on) = (gate.name(), gate.stage(), u8::from(gates.enabled(gate)));
        let line = writeln!(text, "kubernetes_feature_enabled{{name=\"{name}\",stage=\"{stage}\"}} {on}");
        line.expect("a text takes every write");
    }
    counted.write(&mut text);
    text.push_str("# EOF\n");
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn readiness_features_and_nothing_else_are_answered() {
        let (health, gates, counted) = (Health::default(), Gates::default(), Metrics::default());
        health.fail("caches", "not yet");
        let code =
            |path: &str| answer(&health, &gates, &counted, &Request::get(path).body(()).unwrap()).status().as_u16();
        assert_eq!([code("/livez"), code("/readyz"), code("/metrics"), code("/secrets")], [200, 500, 200, 404]);
        assert!(metrics(&health, &gates, &counted).contains("phalanx_ready 0\n"));
        health.pass("caches");
        let text = metrics(&health, &gates, &counted);
        assert!(text.contains("phalanx_ready 1\n") && text.contains("{name=\"GenericWorkload\","), "{text}");
    }
}
