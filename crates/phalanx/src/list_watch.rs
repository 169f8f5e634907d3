//! Follows a collection: everything there is, then every change, over lost connections and forgotten history.

use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt, StreamExt};
use kube::{Client, Error};
use serde_json::Value;

use crate::api_request::{self, text};
use crate::command_error::CommandError;

/// Pause before a lost connection is made again.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// What there is to see.
#[derive(Debug)]
pub enum CollectionEvent {
    /// Everything there is now; what is not in it is gone.
    Listed(Value),
    /// One object (or the row of one) that is new or changed.
    Changed(Value),
    /// The last state of one object that is gone.
    Deleted(Value),
}

type LineStream = futures::stream::BoxStream<'static, std::io::Result<String>>;

/// A collection that is being followed.
pub struct ListWatch<'a> {
    client: &'a Client,
    path: String,
    options: Vec<(&'a str, &'a str)>,
    accept: &'static str,
    /// Everything up to here has been seen; `None`: nothing yet, or history has moved on.
    revision: Option<String>,
    lines: Option<LineStream>,
    was_connected: bool,
}

impl<'a> ListWatch<'a> {
    /// Follows the collection at `path`, narrowed by the query `options`.
    pub fn new(
        client: &'a Client,
        path: String,
        options: Vec<(&'a str, &'a str)>,
        accept: &'static str,
    ) -> ListWatch<'a> {
        ListWatch { client, path, options, accept, revision: None, lines: None, was_connected: false }
    }

    /// Waits for the next thing to see. The first is always [`Seen::All`]. Fails only if the server refuses, or cannot be
    /// reached at the very beginning.
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
                    if let Some(seen) = self.parse_event(&line)? {
                        return Ok(seen);
                    }
                }
                // Servers end every watch after a while, and a dying one without a word; go on from here.
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

    /// One event; `None` for those that carry nothing to show.
    fn parse_event(&mut self, line: &str) -> Result<Option<CollectionEvent>, CommandError> {
        let Ok(mut event) = serde_json::from_str::<Value>(line) else {
            // A line cut off by a dying server: what it said comes again.
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

    /// A refusal is an answer. A server out of reach is an answer too, unless it was in reach before.
    async fn pause_or_fail(&mut self, error: Error) -> Result<(), CommandError> {
        let is_passing = match &error {
            Error::Api(status) => matches!(status.code, 429 | 500..),
            _ => true,
        };
        if !self.was_connected || !is_passing {
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

/// The revision an event stands for; a table's row carries it in the row's object.
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

    /// A server that gives these answers one after the other, and notes what it is asked.
    fn scripted(answers: &[(u16, &'static str)]) -> (Client, Arc<Mutex<Vec<String>>>) {
        let answers = Arc::new(Mutex::new(answers.iter().copied().collect::<VecDeque<_>>()));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let notes = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            notes.lock().unwrap().push(request.uri().to_string());
            let (code, body) = answers.lock().unwrap().pop_front().expect("no more is asked than was scripted");
            let response = Response::builder().status(code).body(Full::new(Bytes::from(body))).unwrap();
            std::future::ready(Ok::<_, Infallible>(response))
        });
        (Client::new(service, "default"), asked)
    }

    async fn collect_events(follow: &mut ListWatch<'_>, length: usize) -> String {
        let mut told = Vec::new();
        for _ in 0..length {
            told.push(match follow.next().await.unwrap() {
                CollectionEvent::Listed(all) => format!("all@{}", text(&all["metadata"]["resourceVersion"])),
                CollectionEvent::Changed(object) => format!("changed@{}", revision_of(&object).unwrap()),
                CollectionEvent::Deleted(object) => format!("gone@{}", revision_of(&object).unwrap()),
            });
        }
        told.join(" ")
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_connection_goes_on_and_a_forgotten_history_begins_anew() {
        let (client, asked) = scripted(&[
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
        let mut follow =
            ListWatch::new(&client, "/api/v1/pods".to_owned(), vec![("labelSelector", "a=b")], api_request::JSON);
        assert_eq!(collect_events(&mut follow, 5).await, "all@1 changed@2 gone@6 all@9 all@12");
        let asked = asked.lock().unwrap();
        let from: Vec<&str> =
            asked.iter().filter_map(|uri| uri.split_once("resourceVersion=").map(|(_, at)| at)).collect();
        assert_eq!(from, ["1", "2", "5", "5", "6", "9"]);
        assert!(asked.iter().all(|uri| uri.contains("labelSelector=a%3Db")), "{asked:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_ends_it_and_so_does_a_server_that_was_never_there() {
        for answer in [(403, r#"{"message":"forbidden"}"#), (503, r#"{"message":"starting"}"#)] {
            let (client, _) = scripted(&[answer]);
            let mut follow = ListWatch::new(&client, "/api/v1/pods".to_owned(), Vec::new(), api_request::JSON);
            assert!(follow.next().await.is_err(), "{answer:?}");
        }
    }
}
