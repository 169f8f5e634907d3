//! The network edge: TLS connections in front of the server.
//!
//! In: a listening socket, the server, certificates and a token. Out: the server's responses over HTTP/1.1 and HTTP/2.
//! Promises: only the administrator and the components are served, by a client certificate of our CA or by the token,
//! except for health and version. No client keeps a connection, a stream or memory without using it: handshakes,
//! headers, bodies and responses have timeouts, and requests in flight are limited. Connections without an identity
//! never displace those with one. A panic ends only its request. After a stop no connection is accepted, and running
//! requests end.
//! Never: plain HTTP; an identity from anything that a client merely claims.

mod connection; // one connection from handshake to close; read this first
mod service; // one request: authentication, limits, timeout
mod authentication; // client certificates and tokens
mod slots; // how many connections at once, and which one is closed for another
mod in_flight; // how many requests at once
mod activity; // requests in flight and unread responses of a connection
mod compression; // gzip for large responses
mod response_body; // the body of a response, sent to the client
mod request_body; // the body of a request, and what the server did not read of it
pub mod pki; // certificates and the token: created, stored, renewed
pub mod kubeconfig; // the administrator's kubeconfig
pub mod private_file; // files that only their owner can read, written atomically

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::edge::pki::{Pki, PkiError};
use crate::edge::service::Edge;
use crate::edge::slots::Slots;
use crate::server::ApiServer;

/// The limits of the edge.
#[derive(Clone, Copy, Debug)]
pub struct EdgeLimits {
    /// Concurrent connections of authenticated clients. More are served, but can be closed like unauthenticated ones.
    pub max_connections: usize,
    /// Concurrent connections of unauthenticated clients. For one more, the oldest of them is closed.
    pub max_unidentified_connections: usize,
    /// Concurrent requests on one HTTP/2 connection.
    pub max_streams: u32,
    /// Concurrent read requests over all connections; more get 429.
    pub max_reads: usize,
    /// The same for requests that write.
    pub max_writes: usize,
    /// The same for watches.
    pub max_watches: usize,
    /// Header fields of one request.
    pub max_headers: usize,
    /// Bytes of all header fields of one request.
    pub max_header_bytes: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long the headers of a request may take, and how long an HTTP/1.1 connection may be idle between requests.
    pub header_timeout: Duration,
    /// How long a request may take until its response starts, its body included. Watches start at once.
    pub request_timeout: Duration,
    /// How long a client may leave the next frame of a response unread.
    pub unread_timeout: Duration,
    /// How long a connection may be without a request.
    pub idle_timeout: Duration,
    /// How long running requests may take after a stop.
    pub drain_timeout: Duration,
}

impl Default for EdgeLimits {
    fn default() -> EdgeLimits {
        EdgeLimits {
            max_connections: 1024,
            max_unidentified_connections: 256,
            max_streams: 250,
            max_reads: 400,
            max_writes: 200,
            max_watches: 10_000,
            max_headers: 100,
            max_header_bytes: 64 << 10,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(60),
            unread_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(90),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// How the edge runs.
pub struct Config {
    /// The certificates and the token.
    pub pki: Pki,
    /// The limits of clients.
    pub limits: EdgeLimits,
}

/// State that all connections share.
struct EdgeContext {
    tls: TlsAcceptor,
    edge: Edge,
    limits: EdgeLimits,
}

/// Serves connections until `stop`. Then watches end at once, and running requests have [`EdgeLimits::drain_timeout`]
/// to end.
pub fn serve(
    listener: TcpListener,
    server: ApiServer,
    config: Config,
    stop: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<(), PkiError>> {
    serve_until(listener, server, config, stop).boxed()
}

async fn serve_until(
    listener: TcpListener,
    server: ApiServer,
    config: Config,
    stop: BoxFuture<'static, ()>,
) -> Result<(), PkiError> {
    let Config { pki, limits } = config;
    let tls = TlsAcceptor::from(Arc::new(connection::tls_config(&pki)?));
    let shared = Arc::new(EdgeContext { tls, edge: Edge::new(server, pki.token(), &limits), limits });
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::select! {
        biased;
        () = stop => {}
        () = accept(&listener, &shared, &stopped, &mut connections) => {}
    }
    drop(listener);
    stopping.send_replace(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain_timeout, drained).await.is_err() {
        tracing::warn!("{} connections did not end in time and are closed", connections.len());
        connections.shutdown().await;
    }
    Ok(())
}

/// Accepts connections until it is dropped. Every connection is accepted at once. When there are too many, the oldest
/// one without an identity is closed. A connection that waited in the kernel instead would wait until its client's
/// timeout.
async fn accept(
    listener: &TcpListener,
    shared: &Arc<EdgeContext>,
    stopped: &watch::Receiver<bool>,
    connections: &mut JoinSet<()>,
) {
    let slots = Slots::new(&shared.limits);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (shared, slot, stopped) = (Arc::clone(shared), Arc::new(slots.acquire()), stopped.clone());
                connections.spawn(async move {
                    tokio::select! {
                        biased;
                        () = slot.evicted() => tracing::debug!("{peer}: closed for a newer connection"),
                        () = connection::serve(stream, peer, &shared, &slot, stopped) => {}
                    }
                });
            }
            Err(error) => {
                // Closing one connection frees a file descriptor.
                slots.evict_oldest();
                accept_failed(&error).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Logs why a connection was not accepted. A connection that broke before it was accepted is the client's problem. A
/// lack of file descriptors is temporary.
async fn accept_failed(error: &io::Error) {
    let is_client_error =
        [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::ConnectionRefused];
    if !is_client_error.contains(&error.kind()) {
        tracing::warn!("cannot accept a connection: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
