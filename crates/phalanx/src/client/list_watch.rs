//! Lists and watches a collection; recovers from lost connections and compacted history.

use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt, StreamExt};
use kube::{Client, Error};
use serde_json::Value;

use crate::client::api_request::{self, text};
use crate::command_error::CommandError;

/// Pause before a reconnect.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// A list or a change of the collection.
#[derive(Debug)]
pub enum CollectionEvent {
    /// All objects; those that are not in it are deleted.
    Listed(Value),
    /// One new or changed object (or its table row).
    Changed(Value),
    /// The last state of a deleted object.
    Deleted(Value),
}

type LineStream = futures::stream::BoxStream<'static, std::io::Result<String>>;

/// A collection that is being watched.
pub struct ListWatch<'a> {
    client: &'a Client,
    path: String,
    options: Vec<(&'a str, &'a str)>,
    accept: &'static str,
    /// The revision to resume from; `None` before the first list and after 410.
    revision: Option<String>,
    lines: Option<LineStream>,
    was_connected: bool,
}

impl<'a> ListWatch<'a> {
    /// Watches the collection at `path` with the query `options`.
    pub fn new(
        client: &'a Client,
        path: String,
        options: Vec<(&'a str, &'a str)>,
        accept: &'static str,
    ) -> ListWatch<'a> {
        ListWatch { client, path, options, accept, revision: None, lines: None, was_connected: false }
    }

    /// Waits for the next event. The first is always [`CollectionEvent::Listed`]. Fails only if the server refuses, or was
    /// never reached.
    pub async fn next(&mut self) -> Result<CollectionEvent, CommandError> {
        loop {
            if self.revision.is_none() {
                match api_request::list(self.client, &self.path, &self.options, self.accept).await {
                    Ok(all) => {
                        self.was_connected = true;
                        self.revision = Some(text(&all["metadata"]["resourceVersion"]));
                        return Ok(CollectionEvent::Listed(all));
                    }
                    Err(error) => self.pause_or_fail(error).await?,
                }
                continue;
            }
            if self.lines.is_none() {
                self.watch().await?;
            }
            let Some(lines) = &mut self.lines else { continue };
            match lines.next().await {
                Some(Ok(line)) => {
                    if let Some(event) = self.parse_event(&line)? {
                        return Ok(event);
                    }
                }
                // Servers end every watch after some time, and connections break: resume from the revision.
                None | Some(Err(_)) => {
                    self.lines = None;
                    tokio::time::sleep(RECONNECT_DELAY).await;
                }
            }
        }
    }

    async fn watch(&mut self) -> Result<(), CommandError> {
        let revision = self.revision.clone().unwrap_or_default();
        let mut options = self.options.clone();
        options.extend([("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", revision.as_str())]);
        let path = format!("{}{}", self.path, api_request::query(&options));
        match api_request::stream(self.client, &path, self.accept).await {
            Ok(stream) => self.lines = Some(lines_of(stream)),
            Err(Error::Api(status)) if status.code == 410 => self.revision = None,
            Err(error) => self.pause_or_fail(error).await?,
        }
        Ok(())
    }

    /// Parses one event; `None` for bookmarks and errors that are handled here.
    fn parse_event(&mut self, line: &str) -> Result<Option<CollectionEvent>, CommandError> {
        let Ok(mut event) = serde_json::from_str::<Value>(line) else {
            // An incomplete line of a broken connection: the event is sent again.
            self.lines = None;
            return Ok(None);
        };
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        match event["type"].as_str() {
            Some("ERROR") if object["code"] == 410 => {
                (self.revision, self.lines) = (None, None);
                Ok(None)
            }
            Some("ERROR") => Err(CommandError::failed(text(&object["message"]))),
            kind => {
                if let Some(revision) = revision_of(&object) {
                    self.revision = Some(revision);
                }
                Ok(match kind {
                    Some("ADDED" | "MODIFIED") => Some(CollectionEvent::Changed(object)),
                    Some("DELETED") => Some(CollectionEvent::Deleted(object)),
                    _ => None,
                })
            }
        }
    }

    /// Waits after a temporary error if the server was reached before; otherwise returns the error.
    async fn pause_or_fail(&mut self, error: Error) -> Result<(), CommandError> {
        let is_temporary = match &error {
            Error::Api(status) => matches!(status.code, 429 | 500..),
            _ => true,
        };
        if !self.was_connected || !is_temporary {
            return Err(error.into());
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
        Ok(())
    }
}

fn lines_of(stream: impl AsyncBufRead + Send + 'static) -> LineStream {
    // Boxed and pinned: the stream of a body need not be `Unpin`.
    Box::pin(stream).lines().boxed()
}

/// The revision of an event; in a table it is in the object of the row.
fn revision_of(object: &Value) -> Option<String> {
    let own = &object["metadata"]["resourceVersion"];
    let of_row = &object["rows"][0]["object"]["metadata"]["resourceVersion"];
    [own, of_row].into_iter().map(text).find(|revision| !revision.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use kube::client::Body;

    /// A server that sends these responses in order, and records the requests.
    fn scripted(responses: &[(u16, &'static str)]) -> (Client, Arc<Mutex<Vec<String>>>) {
        let responses = Arc::new(Mutex::new(responses.iter().copied().collect::<VecDeque<_>>()));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let notes = requests.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            notes.lock().unwrap().push(request.uri().to_string());
            let (code, body) =
                responses.lock().unwrap().pop_front().expect("there are not more requests than scripted responses");
            let response = Response::builder().status(code).body(Full::new(Bytes::from(body))).unwrap();
            std::future::ready(Ok::<_, Infallible>(response))
        });
        (Client::new(service, "default"), requests)
    }

    async fn collect_events(list_watch: &mut ListWatch<'_>, length: usize) -> String {
        let mut events = Vec::new();
        for _ in 0..length {
            events.push(match list_watch.next().await.unwrap() {
                CollectionEvent::Listed(all) => format!("all@{}", text(&all["metadata"]["resourceVersion"])),
                CollectionEvent::Changed(object) => format!("changed@{}", revision_of(&object).unwrap()),
                CollectionEvent::Deleted(object) => format!("deleted@{}", revision_of(&object).unwrap()),
            });
        }
        events.join(" ")
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_resumes_after_a_lost_connection_and_lists_again_after_410() {
        let (client, requests) = scripted(&[
            (200, r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#),
            (200, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"2\"}}}\n{\"type\":\"MOD"),
            (200, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}\n"),
            (503, r#"{"message":"restarting"}"#),
            (
                200,
                r#"{"type":"DELETED","object":{"kind":"Table","rows":[{"object":{"metadata":{"resourceVersion":"6"}}}]}}"#,
            ),
            (200, r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#),
            (200, r#"{"metadata":{"resourceVersion":"9"},"items":[]}"#),
            (410, r#"{"message":"too old"}"#),
            (200, r#"{"metadata":{"resourceVersion":"12"},"items":[]}"#),
        ]);
        let mut list_watch =
            ListWatch::new(&client, "/api/v1/pods".to_owned(), vec![("labelSelector", "a=b")], api_request::JSON);
        assert_eq!(collect_events(&mut list_watch, 5).await, "all@1 changed@2 deleted@6 all@9 all@12");
        let requests = requests.lock().unwrap();
        let from: Vec<&str> =
            requests.iter().filter_map(|uri| uri.split_once("resourceVersion=").map(|(_, at)| at)).collect();
        assert_eq!(from, ["1", "2", "5", "5", "6", "9"]);
        assert!(requests.iter().all(|uri| uri.contains("labelSelector=a%3Db")), "{requests:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_and_a_server_that_was_never_reached_are_errors() {
        for response in [(403, r#"{"message":"forbidden"}"#), (503, r#"{"message":"starting"}"#)] {
            let (client, _) = scripted(&[response]);
            let mut list_watch = ListWatch::new(&client, "/api/v1/pods".to_owned(), Vec::new(), api_request::JSON);
            assert!(list_watch.next().await.is_err(), "{response:?}");
        }
    }
}
