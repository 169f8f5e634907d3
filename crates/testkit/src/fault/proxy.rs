//! The same rules over HTTP, for components in other processes: a plain listener on loopback in front of a server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri, header};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use kube::{Client, Config};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::BoxError;

use super::layer::{Faults, ResponseBody};
use super::observed_request::ObservedRequest;

/// Concurrent connections; more wait to be accepted.
const MAX_CONNECTIONS: usize = 256;
/// The largest request. The limit is above the server's, so that the server refuses larger ones.
const MAX_BODY_BYTES: usize = 4 << 20;
/// How long a request may take to arrive.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Headers that belong to one connection or identify the user: the client behind the proxy has its own.
const STRIPPED_HEADERS: [header::HeaderName; 9] = [
    header::HOST,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
    header::AUTHORIZATION,
];

/// A proxy for one user. Every client that reaches it has the rights of the client behind it, so it listens on loopback
/// only. Dropping it closes all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    /// One task, which owns those of the connections.
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Listens on a free port and forwards requests to the server of `client`, with the faults for `user`.
    pub async fn start(faults: &Faults, user: &str, client: Client) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let target = ProxyTarget { faults: faults.clone(), user: user.into(), client };
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, target));
        Ok(Proxy { address, _tasks: tasks })
    }

    /// Its address: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig for programs that use it.
    pub fn kubeconfig(&self) -> String {
        let url = self.url();
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: faults
  cluster:
    server: {url}
users:
- name: anonymous
  user: {{}}
contexts:
- name: faults
  context:
    cluster: faults
    user: anonymous
current-context: faults
"
        )
    }

    /// A client that uses it and does not retry.
    pub fn client(&self) -> kube::Result<Client> {
        let url: Uri = self.url().parse().expect("an address is a URL's authority");
        let mut config = Config::new(url);
        config.default_retry = false;
        Client::try_from(config)
    }
}

/// The server behind the listener.
#[derive(Clone)]
struct ProxyTarget {
    faults: Faults,
    user: Arc<str>,
    client: Client,
}

/// Accepts without end. A permit is acquired before a connection is accepted, so connections beyond the limit wait in
/// the kernel.
async fn accept(listener: TcpListener, target: ProxyTarget) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await.expect("this semaphore is never closed");
        // A connection that broke before it was accepted is the client's problem; a lack of file descriptors is
        // temporary.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let target = target.clone();
        connections.spawn(async move {
            serve(stream, target).await;
            drop(permit);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, target: ProxyTarget) {
    let _ = stream.set_nodelay(true);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(READ_TIMEOUT);
    let service = tower::service_fn(move |request| target.clone().forward(request));
    // An error of the service breaks the connection, as a cut is meant to.
    let _ = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
}

impl ProxyTarget {
    async fn forward<B>(self, request: Request<B>) -> Result<Response<ResponseBody>, BoxError>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let body = tokio::time::timeout(READ_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await??.to_bytes();
        // Only path and query: the client behind the proxy knows its server's address.
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut forwarded = Request::builder().method(parts.method).uri(path).body(body)?;
        *forwarded.headers_mut() = strip_headers(parts.headers);
        let observed = ObservedRequest::read(&self.user, forwarded.method(), forwarded.uri(), forwarded.body());
        let mut response = self.faults.forward_with_faults(&self.client, observed, forwarded).await?;
        *response.headers_mut() = strip_headers(std::mem::take(response.headers_mut()));
        *response.version_mut() = http::Version::default();
        Ok(response)
    }
}

fn strip_headers(mut headers: HeaderMap) -> HeaderMap {
    for name in STRIPPED_HEADERS {
        headers.remove(name);
    }
    headers
}
