//! The same rules over HTTP, for parts that are processes of their own: a plain listener on loopback in front of any
//! client's server.

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

/// Connections at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 256;
/// The largest request, somewhat above what a server takes, so that the server says no and not the proxy.
const MAX_BODY_BYTES: usize = 4 << 20;
/// How long a request may take to arrive.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Headers that are about one connection, or that say who asks: the client behind the proxy has its own.
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

/// A proxy that stands for one user. Whoever can reach it has the rights of the client behind it, so it listens on
/// loopback only. Dropping it ends it and every connection to it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    /// Its one task has those of the connections.
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Listens on a free port and sends what comes to the server of `client`, as the rules of `faults` for `user` allow.
    pub async fn start(faults: &Faults, user: &str, client: Client) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let behind = ProxyTarget { faults: faults.clone(), user: user.into(), client };
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, behind));
        Ok(Proxy { address, _tasks: tasks })
    }

    /// Where it listens: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A kubeconfig for programs that are to go through it.
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
- name: nobody
  user: {{}}
contexts:
- name: faults
  context:
    cluster: faults
    user: nobody
current-context: faults
"
        )
    }

    /// A client that goes through it and does not try anything again by itself.
    pub fn client(&self) -> kube::Result<Client> {
        let url: Uri = self.url().parse().expect("an address is a URL's authority");
        let mut config = Config::new(url);
        config.default_retry = false;
        Client::try_from(config)
    }
}

/// What stands behind the listener.
#[derive(Clone)]
struct ProxyTarget {
    faults: Faults,
    user: Arc<str>,
    client: Client,
}

/// Accepts for ever. A place is free before a connection is accepted, so that more than the limit wait in the kernel.
async fn accept(listener: TcpListener, behind: ProxyTarget) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("this semaphore is never closed");
        // A connection that broke before it was accepted is its client's affair; a lack of file descriptors passes.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let behind = behind.clone();
        connections.spawn(async move {
            serve(stream, behind).await;
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, behind: ProxyTarget) {
    let _ = stream.set_nodelay(true);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(READ_TIMEOUT);
    let service = tower::service_fn(move |request| behind.clone().forward(request));
    // An error of the service is a connection that breaks, which is what a cut is meant to be.
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
        // Path and query alone: the client behind knows its server's address.
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut forwarded = Request::builder().method(parts.method).uri(path).body(body)?;
        *forwarded.headers_mut() = strip_headers(parts.headers);
        let mut response = self.faults.forward_with_faults(&self.user, &self.client, forwarded).await?;
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
