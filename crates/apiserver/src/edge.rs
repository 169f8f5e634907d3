//! The network edge: TLS connections in front of the server.
//!
//! In: a listening socket, the server, certificates and a token. Out: the server's answers over HTTP/1.1 and HTTP/2.
//! Promises: only the administrator and the parts are served, by a client certificate of our CA or by the token, save
//! for health and version. No client holds a connection, a stream or memory without using it: handshakes, headers,
//! bodies and answers all have their time, and only so many requests are under way at once. Connections without an
//! identity never keep out those with one. A panic in a request costs that request. After a stop nothing is accepted,
//! and what is under way ends.
//! Never: plain HTTP; an identity from anything the client merely says.

mod connection; // one connection from handshake to close; read this first
mod service; // one request: who asks, how long it may take
mod authentication; // who is on the other side
mod slots; // how many connections at once, and which one is closed for another
mod in_flight; // how many requests at once
mod activity; // who waits for whom on a connection, and for how long
mod compression; // large answers as gzip
mod outgoing; // an answer on its way out
mod incoming; // a request's body, given back when it was not read to its end
pub mod pki; // certificates and the token: made, kept, renewed
pub mod kubeconfig; // the administrator's way in
pub mod private_file; // files that only their owner reads, whole or not at all

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::edge::pki::{Pki, PkiError};
use crate::edge::service::Edge;
use crate::edge::slots::Slots;
use crate::server::Server;

/// What clients may take of the edge.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once whose client has proven who it is. More are served, but can be closed like those without.
    pub connections_max: usize,
    /// Connections at once whose client has not; for one more, the oldest of them is closed.
    pub unidentified_max: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams_max: u32,
    /// Requests that read, under way at once over all connections; more are told to come back.
    pub reads_max: usize,
    /// The same for requests that write.
    pub writes_max: usize,
    /// The same for watches, which last.
    pub watches_max: usize,
    /// Header fields of one request.
    pub headers_max: usize,
    /// Bytes of all header fields of one request.
    pub header_bytes_max: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long the head of a request may take, and how long an HTTP/1.1 connection may be silent between requests.
    pub header_read: Duration,
    /// How long a request may take until its answer begins, its body included. Watches begin at once.
    pub request: Duration,
    /// How long a client may leave the next piece of an answer unread.
    pub unread: Duration,
    /// How long a connection may have no request.
    pub idle: Duration,
    /// How long what is under way may take after a stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 1024,
            unidentified_max: 256,
            streams_max: 250,
            reads_max: 400,
            writes_max: 200,
            watches_max: 10_000,
            headers_max: 100,
            header_bytes_max: 64 << 10,
            handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(30),
            request: Duration::from_secs(60),
            unread: Duration::from_secs(60),
            idle: Duration::from_secs(90),
            drain: Duration::from_secs(10),
        }
    }
}

/// How the edge runs.
pub struct Config {
    /// Who it is, and whom it believes.
    pub pki: Pki,
    /// What clients may take.
    pub limits: Limits,
}

/// What every connection shares.
struct Shared {
    tls: TlsAcceptor,
    edge: Edge,
    limits: Limits,
}

/// Serves connections until `stop`, then lets what is under way end, watches at once and the rest within
/// `Limits::drain`.
pub async fn serve(
    listener: TcpListener,
    server: Server,
    config: Config,
    stop: impl Future<Output = ()>,
) -> Result<(), PkiError> {
    let Config { pki, limits } = config;
    let tls = TlsAcceptor::from(Arc::new(connection::tls_config(&pki)?));
    let shared = Arc::new(Shared { tls, edge: Edge::new(server, pki.token(), &limits), limits });
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
    if tokio::time::timeout(limits.drain, drained).await.is_err() {
        tracing::warn!("{} connections did not end in time and are cut", connections.len());
        connections.shutdown().await;
    }
    Ok(())
}

/// Accepts for ever. Every connection is accepted at once, at the cost of the oldest one without an identity where
/// there are too many: what waited in the kernel instead would wait for its client's patience to end.
async fn accept(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    stopped: &watch::Receiver<bool>,
    connections: &mut JoinSet<()>,
) {
    let slots = Slots::new(&shared.limits);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (shared, slot, stopped) = (Arc::clone(shared), Arc::new(slots.enter()), stopped.clone());
                connections.spawn(async move {
                    tokio::select! {
                        biased;
                        () = slot.evicted() => tracing::debug!("{peer}: closed for a newer connection"),
                        () = connection::serve(stream, peer, &shared, &slot, stopped) => {}
                    }
                });
            }
            Err(error) => {
                // A lack of file descriptors passes sooner with one connection less.
                slots.evict_oldest();
                accept_failed(&error).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// A connection that broke before it was accepted is its client's affair; a lack of file descriptors passes.
async fn accept_failed(error: &io::Error) {
    let of_the_client =
        [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::ConnectionRefused];
    if !of_the_client.contains(&error.kind()) {
        tracing::warn!("cannot accept a connection: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
