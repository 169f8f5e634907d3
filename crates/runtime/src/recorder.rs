//! Events, written after all other requests.
//!
//! Recording an Event must never delay other work: `event` only pushes onto a bounded queue. One writer drains it, a
//! few requests at a time, each about another object, warnings first. When the queue is full, an Event of the object
//! with the most Events is dropped and counted.

mod pending_events; // which Event is written next, and which is dropped

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use kube::{Client, Error};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Notify;
use types::clock::rfc3339;
use types::kinds;
use types::views::{OwnerRef, View};
use types::{Clock, Random, Timestamp};

use crate::backoff::Backoff;
use crate::failure::{is_not_found, is_retriable};
use crate::request::{self, PatchKind};
use pending_events::PendingEvents;

/// The maximum number of pending Events. Beyond it one is dropped for each new one.
const MAX_PENDING_EVENTS: usize = 4096;
/// Events that are written concurrently, each about another object. One at a time, each waiting for the disk, would be
/// too slow for a busy Job controller.
const MAX_CONCURRENT_WRITES: usize = 8;
/// Events remembered to count repetitions.
const MAX_RECENT_EVENTS: usize = 4096;
/// A repetition within this time is counted, not written again.
const REPETITION_WINDOW: Duration = Duration::from_secs(600);
/// The API's limit for a message.
const MAX_MESSAGE_CHARS: usize = 1024;
/// The API's limit for a name (253), less a dot and 16 digits.
const MAX_NAME_STEM: usize = 236;
/// The maximum number of attempts to write an Event.
const MAX_ATTEMPTS: u32 = 4;
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(10) };

/// The object an Event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// `v1` or `group/version`.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Empty for cluster-scoped kinds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The resource version of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

impl ObjectRef {
    /// Refers to `object`.
    pub fn of<V: View>(object: &V) -> ObjectRef {
        let meta = object.meta();
        ObjectRef {
            api_version: V::RESOURCE.api_version(),
            kind: V::RESOURCE.kind.to_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.to_string(),
        }
    }

    /// Refers to an owner of an object in `namespace`.
    pub fn to_owner(owner: &OwnerRef, namespace: &str) -> ObjectRef {
        ObjectRef {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            ..ObjectRef::default()
        }
    }
}

/// `type` of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum EventKind {
    /// Normal operation.
    Normal,
    /// A person may have to act.
    Warning,
}

/// How many requests the writer may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// A few concurrently.
    #[default]
    Usual,
    /// One at a time: more urgent requests are pending.
    Slow,
    /// None for now.
    Paused,
}

/// Accepts Events and never blocks. Cloning shares the queue.
#[derive(Clone)]
pub struct Recorder {
    /// The reporting component.
    component: Arc<str>,
    shared: Arc<EventRecorderInner>,
}

struct EventRecorderInner {
    clock: Arc<dyn Clock>,
    state: Mutex<EventRecorderState>,
    added: Notify,
}

#[derive(Default)]
struct EventRecorderState {
    pending: PendingEvents,
    pace: Pace,
    dropped: u64,
}

impl EventRecorderState {
    fn next_events(&mut self) -> Vec<PendingEvent> {
        match self.pace {
            Pace::Usual => self.pending.take(MAX_CONCURRENT_WRITES),
            Pace::Slow => self.pending.take(1),
            Pace::Paused => Vec::new(),
        }
    }
}

/// The arguments of `event`.
struct PendingEvent {
    component: Arc<str>,
    regarding: ObjectRef,
    kind: EventKind,
    reason: String,
    action: String,
    message: String,
    at: Timestamp,
}

impl Recorder {
    /// A recorder for `component`, and the writer that must be polled.
    pub fn new(
        component: &str,
        client: Client,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> (Recorder, impl Future<Output = ()> + Send + 'static + use<>) {
        let shared =
            EventRecorderInner { clock, state: Mutex::new(EventRecorderState::default()), added: Notify::new() };
        let recorder = Recorder { component: component.into(), shared: Arc::new(shared) };
        let writer = EventWriter { recorder: recorder.clone(), client, random, recent_events: Mutex::default() };
        (recorder, writer.run())
    }

    /// The same recorder for another component.
    pub fn reporting_as(&self, component: &str) -> Recorder {
        Recorder { component: component.into(), shared: Arc::clone(&self.shared) }
    }

    /// Records an Event about `regarding`. `reason` and `action` are CamelCase; `message` is cut to 1,024 characters.
    pub fn event(&self, regarding: &ObjectRef, kind: EventKind, reason: &str, action: &str, message: &str) {
        let event = PendingEvent {
            component: Arc::clone(&self.component),
            regarding: regarding.clone(),
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message: truncate_message(message),
            at: self.shared.clock.now(),
        };
        let mut state = self.lock();
        if state.pending.len() == MAX_PENDING_EVENTS {
            state.pending.drop_one();
            state.dropped += 1;
        }
        state.pending.push(event);
        drop(state);
        self.shared.added.notify_one();
    }

    /// Sets the pace of the writer.
    pub fn set_pace(&self, pace: Pace) {
        let before = std::mem::replace(&mut self.lock().pace, pace);
        if before == Pace::Paused && pace != Pace::Paused {
            self.shared.added.notify_one();
        }
    }

    /// The number of Events that never reached the server: the queue was full, or the server refused them.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn lock(&self) -> MutexGuard<'_, EventRecorderState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", self.component)
    }
}

fn truncate_message(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        None => message.to_owned(),
        Some(_) => message.chars().take(MAX_MESSAGE_CHARS - 4).chain(" ...".chars()).collect(),
    }
}

struct EventWriter {
    recorder: Recorder,
    client: Client,
    random: Random,
    recent_events: Mutex<RecentEvents>,
}

impl EventWriter {
    async fn run(self) {
        loop {
            let events = self.recorder.lock().next_events();
            if events.is_empty() {
                self.recorder.shared.added.notified().await;
            }
            join_all(events.into_iter().map(|event| self.write(event))).await;
        }
    }

    async fn write(&self, event: PendingEvent) {
        let (about, reason) = (&event.regarding, &event.reason);
        let key = Arc::new(EventKey { uid: about.uid.clone(), reason: reason.clone(), message: event.message.clone() });
        let repeated = self.recent_events().count_repetition(&key, event.at);
        if let Some((path, count)) = repeated {
            let body = json!({"count": count, "lastTimestamp": rfc3339(event.at)});
            match self.attempt(|client| request::patch(client, &path, PatchKind::Merge, &body)).await {
                // The server deletes Events after a while. Then this one is created again.
                Err(error) if is_not_found(&error) => {}
                outcome => return self.count_drop(&event, outcome),
            }
        }
        let body = self.event_body(&event);
        let collection = kinds::EVENT.collection_path(body.metadata.namespace);
        let outcome = self.attempt(|client| request::post(client, &collection, &body)).await;
        if outcome.is_ok() {
            self.recent_events().insert(key, format!("{collection}/{}", body.metadata.name), event.at);
        }
        self.count_drop(&event, outcome);
    }

    fn recent_events(&self) -> MutexGuard<'_, RecentEvents> {
        self.recent_events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries a few times while the server is busy or unreachable.
    async fn attempt<'a, F>(&'a self, send: impl Fn(&'a Client) -> F) -> Result<(), Error>
    where
        F: Future<Output = Result<request::WriteResponse, Error>>,
    {
        let mut failures = 0;
        loop {
            match send(&self.client).await {
                Ok(_) => return Ok(()),
                Err(error) if is_retriable(&error) && failures + 1 < MAX_ATTEMPTS => {
                    failures += 1;
                    tokio::time::sleep(BACKOFF.delay(failures)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn count_drop(&self, event: &PendingEvent, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            tracing::debug!(
                "event {} about {}/{}: {error}",
                event.reason,
                event.regarding.namespace,
                event.regarding.name
            );
            self.recorder.lock().dropped += 1;
        }
    }

    fn event_body<'a>(&'a self, event: &'a PendingEvent) -> EventBody<'a> {
        let (about, component, time) = (&event.regarding, &*event.component, rfc3339(event.at));
        // Events about cluster-scoped objects are in the default namespace.
        let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
        let stem = &about.name[..about.name.len().min(MAX_NAME_STEM)];
        let stem = stem.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        EventBody {
            api_version: kinds::EVENT.version(),
            kind: kinds::EVENT.kind,
            metadata: EventMeta { name: format!("{stem}.{:016x}", self.random.next_u64()), namespace },
            involved_object: about,
            event_type: event.kind,
            reason: &event.reason,
            action: &event.action,
            message: &event.message,
            reporting_component: component,
            reporting_instance: component,
            source: EventSource { component },
            first_timestamp: time.clone(),
            last_timestamp: time,
            event_time: (),
            count: 1,
        }
    }
}

/// A core/v1 Event as it is posted.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventBody<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: EventMeta<'a>,
    involved_object: &'a ObjectRef,
    #[serde(rename = "type")]
    event_type: EventKind,
    reason: &'a str,
    action: &'a str,
    message: &'a str,
    reporting_component: &'a str,
    reporting_instance: &'a str,
    source: EventSource<'a>,
    first_timestamp: String,
    last_timestamp: String,
    /// Always null: if set, the stricter rules of newer Events would apply.
    event_time: (),
    count: u32,
}

#[derive(Serialize)]
struct EventMeta<'a> {
    name: String,
    namespace: &'a str,
}

#[derive(Serialize)]
struct EventSource<'a> {
    component: &'a str,
}

/// Events with the same key are repetitions.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct EventKey {
    uid: String,
    reason: String,
    message: String,
}

/// Recently written Events; the least recently used one is forgotten first.
#[derive(Default)]
struct RecentEvents {
    events: BTreeMap<Arc<EventKey>, RecentEvent>,
    /// Keys of `events` by their last use.
    by_use: BTreeMap<u64, Arc<EventKey>>,
    uses: u64,
}

struct RecentEvent {
    path: String,
    count: u32,
    last: Timestamp,
    used: u64,
}

impl RecentEvents {
    /// The Event to update and its new count, if `key` was written recently.
    fn count_repetition(&mut self, key: &Arc<EventKey>, at: Timestamp) -> Option<(String, u32)> {
        let recent = self.events.get_mut(key)?;
        if at.duration_since(recent.last).unsigned_abs() > REPETITION_WINDOW {
            return None;
        }
        recent.count = recent.count.saturating_add(1);
        recent.last = at;
        self.by_use.remove(&recent.used);
        self.uses += 1;
        recent.used = self.uses;
        self.by_use.insert(self.uses, key.clone());
        Some((recent.path.clone(), recent.count))
    }

    fn insert(&mut self, key: Arc<EventKey>, path: String, at: Timestamp) {
        self.uses += 1;
        let recent = RecentEvent { path, count: 1, last: at, used: self.uses };
        if let Some(before) = self.events.insert(key.clone(), recent) {
            self.by_use.remove(&before.used);
        }
        self.by_use.insert(self.uses, key);
        if self.events.len() > MAX_RECENT_EVENTS
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.events.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending_event(regarding: ObjectRef, message: &str) -> PendingEvent {
        let (reason, action, message) = (String::new(), String::new(), message.to_owned());
        let component = "tester".into();
        PendingEvent {
            component,
            regarding,
            kind: EventKind::Normal,
            reason,
            action,
            message,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn long_messages_are_cut_by_characters() {
        assert_eq!(truncate_message("short"), "short");
        let long = truncate_message(&"é".repeat(2000));
        assert_eq!(long.chars().count(), 1024);
        assert!(long.ends_with("é ..."));
    }

    #[test]
    fn fewer_events_are_written_while_urgent_requests_are_pending() {
        let mut state = EventRecorderState::default();
        for uid in ["a", "b", "c"] {
            let about = ObjectRef { uid: uid.to_owned(), ..ObjectRef::default() };
            state.pending.push(pending_event(about, uid));
        }
        let mut written = |pace| {
            state.pace = pace;
            state.next_events().len()
        };
        assert_eq!([Pace::Paused, Pace::Slow, Pace::Usual].map(&mut written), [0, 1, 2]);
    }
}
