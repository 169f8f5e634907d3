//! One connection: handshake, requests, and the reasons to end it.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_rustls::server::TlsStream;

use crate::edge::activity::{ConnectionActivity, ConnectionStatus};
use crate::edge::pki::{Pki, PkiError};
use crate::edge::slots::Slot;
use crate::edge::{EdgeContext, EdgeLimits, authentication};

/// How often, within each of its timeouts, a connection checks whether its client still uses it.
const CHECKS_PER_TIMEOUT: u32 = 12;
/// HTTP/2 clients get a ping after this long without traffic.
const PING_EVERY: Duration = Duration::from_secs(30);
/// How long they have to respond.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

const HTTP_2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// The TLS configuration of the server: our certificate, and optional client certificates of our CA.
pub(super) fn tls_config(pki: &Pki) -> Result<ServerConfig, PkiError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(pki.ca_certificate()?).map_err(PkiError::tls)?;
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(PkiError::tls)?;
    let (certificates, key) = pki.server_identity()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(PkiError::tls)?
        .with_client_cert_verifier(clients)
        .with_single_cert(certificates, key)
        .map_err(PkiError::tls)?;
    config.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1_1.to_vec()];
    Ok(config)
}

/// Serves one connection to its end. No error of a client affects other connections.
pub(super) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    shared: &EdgeContext,
    slot: &Arc<Slot>,
    stopped: watch::Receiver<bool>,
) {
    // Responses are written whole, so waiting for more bytes would only delay them.
    let _ = stream.set_nodelay(true);
    match tokio::time::timeout(shared.limits.handshake_timeout, shared.tls.accept(stream)).await {
        Ok(Ok(stream)) => serve_http(stream, peer, shared, slot, stopped).await,
        Ok(Err(error)) => tracing::debug!("{peer}: the TLS handshake failed: {error}"),
        Err(_) => tracing::debug!("{peer}: the handshake took too long"),
    }
}

async fn serve_http(
    stream: TlsStream<TcpStream>,
    peer: SocketAddr,
    shared: &EdgeContext,
    slot: &Arc<Slot>,
    mut stopped: watch::Receiver<bool>,
) {
    let (_, session) = stream.get_ref();
    let identity = session.peer_certificates().and_then(authentication::by_certificate);
    let builder = http_builder(&shared.limits, session.alpn_protocol() == Some(HTTP_2));
    let activity = ConnectionActivity::default();
    let service = shared.edge.on_connection(identity, Arc::clone(slot), activity.clone(), stopped.clone());
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let mut check =
        tokio::time::interval(shared.limits.unread_timeout.min(shared.limits.idle_timeout) / CHECKS_PER_TIMEOUT);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Set when the connection accepts no more requests and only waits for those in flight.
    let mut draining_since: Option<Instant> = None;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!("{peer}: {error}");
                }
                return;
            }
            _ = stopped.wait_for(|stopped| *stopped), if draining_since.is_none() => {
                connection.as_mut().graceful_shutdown();
                draining_since = Some(Instant::now());
            }
            _ = check.tick() => {}
        }
        let now = Instant::now();
        match activity.status(now, &shared.limits) {
            ConnectionStatus::InUse => {}
            ConnectionStatus::Idle if draining_since.is_none() => {
                connection.as_mut().graceful_shutdown();
                draining_since = Some(now);
            }
            ConnectionStatus::Idle if draining_since.is_some_and(|since| now - since < shared.limits.drain_timeout) => {
            }
            ConnectionStatus::Idle => return,
            ConnectionStatus::Unread => {
                tracing::debug!("{peer}: a response is not being read; the connection is closed");
                return;
            }
        }
    }
}

/// The protocol was negotiated in the handshake, so it is not detected from the first bytes.
fn http_builder(limits: &EdgeLimits, http2: bool) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(limits.max_headers)
        .max_buf_size(limits.max_header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.max_streams)
        .max_header_list_size(u32::try_from(limits.max_header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT);
    if http2 { builder.http2_only() } else { builder.http1_only() }
}
