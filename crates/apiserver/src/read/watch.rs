//! Watches: the store's events of one resource as lines of JSON. A watch is a stream that its reader polls. It has no
//! task, and an unread watch costs only a cursor.

use std::sync::Arc;
use std::time::Duration;

use api::Revision;
use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode};
use store::{CompactedError, ListQuery, Op, StoreEvent, StoredObject, Watcher};
use tokio::time::Instant;

use crate::read;
use crate::read::representation::ResponseEncoder;
use crate::read::selection::Selection;
use crate::request::RequestOptions;
use crate::resources::object::ApiObject;
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};
use crate::server::{Call, json_response};

/// The longest time between bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// A watch without `timeoutSeconds` lasts between one and two times this long, so that watches do not all end at the
/// same time.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(30 * 60);

/// Starts a watch of a collection.
pub(crate) async fn watch(call: &Call<'_>) -> ApiResult<Response<Body>> {
    let options = &call.info.options;
    let selection = Selection::parse(call.resource, call.info)?;
    if let Some(version) = options.resource_version {
        read::wait_for_version(call, version).await?;
    }
    let mut lines = EventEncoder { encoder: ResponseEncoder::new(call), selection, bytes: Vec::new() };
    let watcher = open(call, options, &mut lines);
    let now = Instant::now();
    let random_duration =
        || MIN_WATCH_DURATION + Duration::from_secs(call.state.random.below(MIN_WATCH_DURATION.as_secs()));
    let watch = WatchStream {
        watcher,
        lines,
        deadline: now + options.timeout.unwrap_or_else(random_duration),
        bookmark_at: options.allow_watch_bookmarks.then(|| now + BOOKMARK_EVERY),
    };
    let frames = stream::unfold(Some(watch), |watch| async move { watch?.next_frame().await });
    Ok(json_response(StatusCode::OK, Body::stream(frames)))
}

/// Finds the start of the watch, and writes the initial events if requested. `None` when the start is compacted. The
/// lines then contain the error.
fn open(call: &Call<'_>, options: &RequestOptions, lines: &mut EventEncoder) -> Option<Watcher> {
    let store = &call.state.store;
    let from = options.resource_version.unwrap_or_default();
    let send_initial_events = options.send_initial_events.unwrap_or(from == Revision::ZERO);
    let from = if send_initial_events {
        let query = ListQuery {
            namespace: lines.selection.namespace().map(str::to_owned),
            ..ListQuery::all(&call.resource.store_name)
        };
        let page = store.list(&query, &mut |stored| lines.selection.matches(stored));
        let page = page.expect("the current revision is never compacted");
        page.items.iter().for_each(|stored| lines.write_object("ADDED", &stored.bytes()));
        if options.send_initial_events == Some(true) && options.allow_watch_bookmarks {
            lines.write_bookmark(page.revision, true);
        }
        page.revision
    } else if from == Revision::ZERO {
        store.revision()
    } else {
        from
    };
    match store.watch(&call.resource.store_name, from) {
        Ok(watcher) => Some(watcher),
        Err(gone) => {
            lines.write_expired(from, gone);
            None
        }
    }
}

/// A watch in progress.
struct WatchStream {
    /// `None` after the history was compacted past this watch: the lines that are written are sent, then the watch
    /// ends.
    watcher: Option<Watcher>,
    lines: EventEncoder,
    deadline: Instant,
    /// When the next bookmark is due; `None` when the client does not allow bookmarks.
    bookmark_at: Option<Instant>,
}

/// Why a waiting watch continues.
enum WatchWakeup {
    Events(Result<Vec<StoreEvent>, CompactedError>),
    Bookmark,
    End,
}

impl WatchStream {
    /// The next frame, and the rest of the watch; `None` at the end of the watch.
    async fn next_frame(mut self) -> Option<(Bytes, Option<WatchStream>)> {
        while self.lines.bytes.is_empty() {
            let watcher = self.watcher.as_mut()?;
            // Events come first: a bookmark or the end must not overtake an event.
            let woken = tokio::select! {
                biased;
                events = watcher.next() => WatchWakeup::Events(events),
                () = tokio::time::sleep_until(self.deadline) => WatchWakeup::End,
                () = sleep_until(self.bookmark_at) => WatchWakeup::Bookmark,
            };
            match woken {
                WatchWakeup::Events(Ok(events)) => events.iter().for_each(|event| self.lines.write_event(event)),
                WatchWakeup::Events(Err(gone)) => {
                    self.lines.write_expired(watcher.position(), gone);
                    self.watcher = None;
                }
                WatchWakeup::Bookmark => {
                    self.lines.write_bookmark(watcher.position(), false);
                    self.bookmark_at = Some(Instant::now() + BOOKMARK_EVERY);
                }
                WatchWakeup::End => {
                    // A last bookmark lets the client resume at the end of this watch, even if there were no events.
                    let position = watcher.position();
                    if self.bookmark_at.is_some() {
                        self.lines.write_bookmark(position, false);
                    }
                    self.watcher = None;
                }
            }
        }
        let frame = Bytes::from(std::mem::take(&mut self.lines.bytes));
        let rest = self.watcher.is_some().then_some(self);
        Some((frame, rest))
    }
}

async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Encodes events as lines, from stored bytes.
struct EventEncoder {
    encoder: ResponseEncoder,
    selection: Selection,
    /// Lines not yet sent.
    bytes: Vec<u8>,
}

impl EventEncoder {
    /// One change as this watch reports it: an object that begins to match is added, one that no longer matches is
    /// deleted.
    fn write_event(&mut self, event: &StoreEvent) {
        let StoreEvent { op, object, previous } = event;
        let before = previous.as_ref().filter(|previous| self.selection.matches(previous));
        let now = *op == Op::Put && self.selection.matches(object);
        match (before, now) {
            (None, true) => self.write_object("ADDED", &object.bytes()),
            (Some(_), true) => self.write_object("MODIFIED", &object.bytes()),
            (Some(_), false) if *op == Op::Delete => self.write_object("DELETED", &object.bytes()),
            (Some(before), false) => {
                let last = last_match(before, object.revision);
                self.write_object("DELETED", &last);
            }
            (None, false) => {}
        }
    }

    fn write_object(&mut self, kind: &str, bytes: &[u8]) {
        self.bytes.reserve(bytes.len() + 48);
        self.bytes.extend_from_slice(b"{\"type\":\"");
        self.bytes.extend_from_slice(kind.as_bytes());
        self.bytes.extend_from_slice(b"\",\"object\":");
        self.encoder.append_object(bytes, &mut self.bytes);
        self.bytes.extend_from_slice(b"}\n");
    }

    fn write_bookmark(&mut self, revision: Revision, initial_events_end: bool) {
        self.bytes.extend_from_slice(b"{\"type\":\"BOOKMARK\",\"object\":");
        self.encoder.append_bookmark(revision, initial_events_end, &mut self.bytes);
        self.bytes.extend_from_slice(b"}\n");
    }

    fn write_expired(&mut self, requested: Revision, gone: CompactedError) {
        let status = Status::expired(format!("too old resource version: {requested} ({})", gone.oldest));
        self.bytes.extend_from_slice(b"{\"type\":\"ERROR\",\"object\":");
        self.bytes.extend_from_slice(&status.to_json());
        self.bytes.extend_from_slice(b"}\n");
    }
}

/// The last state that matched, with the revision of the change that ended the match. Only this event's bytes are not
/// in the store; it is rare enough to be encoded again.
fn last_match(before: &Arc<StoredObject>, revision: Revision) -> Vec<u8> {
    let mut object = ApiObject::from_stored(before);
    object.metadata_mut().insert("resourceVersion".to_owned(), revision.to_string().into());
    serde_json::to_vec(object.document()).expect("a JSON value is always JSON")
}
