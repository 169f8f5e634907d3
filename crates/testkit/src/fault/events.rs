//! Applies the rules to every event of a watch.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde::Deserialize;
use tower::BoxError;

use super::injected_status::InjectedStatus;
use super::layer::{Faults, ResponseBody, connection_cut};
use super::observed_request::{NamedObject, ObservedRequest};
use super::rule::EventFault;

/// The same watch with the faults of the rules. It is driven by its reader; no task runs for it.
pub(super) fn with_event_faults(faults: Faults, request: ObservedRequest, body: ResponseBody) -> ResponseBody {
    let lines = LineReader { body, unread: BytesMut::new() };
    let watch = FaultyWatch { faults, request, lines, ready: VecDeque::new(), postponed: None, ended: false };
    let frames = stream::unfold(watch, |mut watch| async move {
        let frame = watch.next().await?;
        Some((frame.map(Frame::data), watch))
    });
    StreamBody::new(frames).boxed_unsync()
}

struct FaultyWatch {
    faults: Faults,
    /// The watch itself.
    request: ObservedRequest,
    lines: LineReader,
    /// Lines that can be sent to the client now.
    ready: VecDeque<Bytes>,
    /// A line that waits for the next one, and for how long.
    postponed: Option<(Bytes, Duration)>,
    /// Once set, no more lines are read.
    ended: bool,
}

impl FaultyWatch {
    /// The next line for the client; `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        while self.ready.is_empty() && !self.ended {
            let line = match &self.postponed {
                None => self.lines.next().await,
                Some((_, max_wait)) => match tokio::time::timeout(*max_wait, self.lines.next()).await {
                    Ok(line) => line,
                    Err(_) => {
                        self.release_postponed();
                        continue;
                    }
                },
            };
            let applied = match line {
                Some(Ok(line)) => self.apply_faults(line).await,
                Some(Err(error)) => Err(error),
                None => {
                    self.ended = true;
                    self.release_postponed();
                    Ok(())
                }
            };
            if let Err(error) = applied {
                self.ended = true;
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }

    async fn apply_faults(&mut self, line: Bytes) -> Result<(), BoxError> {
        let fault = match event_object(&line) {
            Some(object) => self.faults.decide_event(&self.request.for_event_object(object.metadata)),
            // Bookmarks and errors are not changes; they keep their position.
            None => EventFault::Count,
        };
        match fault {
            EventFault::Count => self.ready.push_back(line),
            EventFault::Delay(delay) => {
                tokio::time::sleep(delay).await;
                self.ready.push_back(line);
            }
            EventFault::Cut => return Err(connection_cut()),
            EventFault::Expire => {
                self.ended = true;
                let status = InjectedStatus::Expired.status(&self.request);
                self.ready.push_back(format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n").into());
                return Ok(());
            }
            EventFault::Repeat => self.ready.extend([line.clone(), line]),
            EventFault::Drop => return Ok(()),
            EventFault::Postpone(max_wait) => {
                self.release_postponed();
                self.postponed = Some((line, max_wait));
                return Ok(());
            }
        }
        self.release_postponed();
        Ok(())
    }

    /// Makes the postponed line ready, after the lines that overtook it.
    fn release_postponed(&mut self) {
        self.ready.extend(self.postponed.take().map(|(line, _)| line));
    }
}

/// The object of an event; `None` for a line that is not a change.
fn event_object(line: &[u8]) -> Option<NamedObject> {
    #[derive(Deserialize)]
    struct WatchLine<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        object: NamedObject,
    }
    let event: WatchLine = serde_json::from_slice(line).ok()?;
    matches!(event.kind.as_ref(), "ADDED" | "MODIFIED" | "DELETED").then_some(event.object)
}

/// The body of a watch as lines, each with its newline.
struct LineReader {
    body: ResponseBody,
    unread: BytesMut,
}

impl LineReader {
    /// The next line; the last one may lack its newline. Cancel safe: bytes that have arrived are kept.
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.unread[searched..].iter().position(|byte| *byte == b'\n') {
                return Some(Ok(self.unread.split_to(searched + end + 1).freeze()));
            }
            searched = self.unread.len();
            match self.body.frame().await {
                Some(Ok(frame)) => self.unread.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Some(Err(error)),
                None => return (searched > 0).then(|| Ok(self.unread.split().freeze())),
            }
        }
    }
}
