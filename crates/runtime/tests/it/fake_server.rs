//! An API server that responds from a script.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;

type Chunk = Result<Bytes, std::io::Error>;

/// The response to the next request.
enum ScriptedReply {
    Never,
    Text(u16, String),
    Stream(UnboundedReceiver<Chunk>),
}

/// The script, and the requests so far.
#[derive(Clone, Default)]
pub struct FakeServer {
    script: Arc<Mutex<VecDeque<ScriptedReply>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

/// The server's end of a watch.
pub struct WatchEnd(UnboundedSender<Chunk>);

impl FakeServer {
    /// A client of this server. A request beyond the end of the script waits forever.
    pub fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| fake.clone().answer(request));
        Client::new(service, "default")
    }

    /// Adds a response to the script.
    pub fn reply(&self, code: u16, body: &str) {
        self.script.lock().unwrap().push_back(ScriptedReply::Text(code, body.to_owned()));
    }

    /// The next request in the script never gets a response.
    pub fn lose_answer(&self) {
        self.script.lock().unwrap().push_back(ScriptedReply::Never);
    }

    /// The next request in the script is a watch whose lines come from the returned end.
    pub fn reply_watch(&self) -> WatchEnd {
        let (sender, receiver) = unbounded();
        self.script.lock().unwrap().push_back(ScriptedReply::Stream(receiver));
        WatchEnd(sender)
    }

    /// Requests since the last call, as `METHOD path?query body`.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    async fn answer(
        self,
        request: Request<Body>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, std::io::Error>>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let line = format!("{} {} {}", parts.method, parts.uri, String::from_utf8_lossy(&body));
        self.requests.lock().unwrap().push(line.trim_end().to_owned());
        let reply = self.script.lock().unwrap().pop_front();
        let (code, body) = match reply {
            None | Some(ScriptedReply::Never) => std::future::pending().await,
            Some(ScriptedReply::Text(code, text)) => {
                (code, Full::from(text).map_err(|never| match never {}).boxed_unsync())
            }
            Some(ScriptedReply::Stream(chunks)) => {
                (200, StreamBody::new(chunks.map(|c| c.map(Frame::data))).boxed_unsync())
            }
        };
        Ok(Response::builder().status(code).body(body).unwrap())
    }
}

impl WatchEnd {
    /// Sends bytes as one chunk.
    pub fn send(&self, text: &str) {
        self.0.unbounded_send(Ok(Bytes::from(text.to_owned()))).unwrap();
    }

    /// Breaks the connection.
    pub fn cut(self) {
        self.0.unbounded_send(Err(std::io::Error::other("cut"))).unwrap();
    }
}
