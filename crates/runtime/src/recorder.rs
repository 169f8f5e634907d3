//! Events, written behind everything else.
//!
//! Telling people what happened must never slow down what happens: `event` only pushes onto a bounded queue, and one
//! writer drains it, a few requests at a time, each about another object, warnings first. When the queue is full an event
//! of the object that most of them are about is dropped and counted.

mod pending_events; // who is next, and who has to go

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
use types::views::{OwnerRef, View};
use types::{Clock, Random, Timestamp};

use crate::backoff::Backoff;
use crate::failure::{is_not_found, is_retriable};
use crate::request::{self, PatchKind};
use pending_events::PendingEvents;

/// Events that wait for the writer; beyond this one is dropped for each that comes.
const MAX_PENDING_EVENTS: usize = 4096;
/// Events that are written side by side, each about another object. One at a time, each waiting for the disk, would be
/// fewer than a busy Job controller has to tell.
const MAX_CONCURRENT_WRITES: usize = 8;
/// Events remembered for counting repetitions.
const MAX_RECENT_EVENTS: usize = 4096;
/// A repetition within this time of the last one is counted, not written anew.
const REPETITION_WINDOW: Duration = Duration::from_secs(600);
/// The API's limit for a message.
const MAX_MESSAGE_CHARS: usize = 1024;
/// The API's limit for a name (253), less a dot and 16 digits.
const MAX_NAME_STEM: usize = 236;
/// An event is worth this many attempts.
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
    /// The version the Event speaks of.
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

    /// Refers to an owner of something in `namespace`.
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
    /// Something went as it should.
    Normal,
    /// Somebody may want to look.
    Warning,
}

/// How much of the server Events may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// A few at once.
    #[default]
    Usual,
    /// One at a time: something more urgent waits for the server.
    Slow,
    /// None for now.
    Paused,
}

/// Takes Events and never blocks. Cloning shares the queue.
#[derive(Clone)]
pub struct Recorder {
    /// Who reports.
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

/// What `event` was told.
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
    /// A recorder for `component`, and the writer that must be polled for its Events to appear.
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

    /// The same recorder for what another component reports.
    pub fn reporting_as(&self, component: &str) -> Recorder {
        Recorder { component: component.into(), shared: Arc::clone(&self.shared) }
    }

    /// Tells people about `about`. `reason` and `action` are CamelCase; `message` is cut to 1,024 characters.
    pub fn event(&self, regarding: &ObjectRef, kind: EventKind, reason: &str, action: &str, message: &str) {
        let note = PendingEvent {
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
        state.pending.push(note);
        drop(state);
        self.shared.added.notify_one();
    }

    /// Has Events written at this pace from now on.
    pub fn set_pace(&self, pace: Pace) {
        let before = std::mem::replace(&mut self.lock().pace, pace);
        if before == Pace::Paused && pace != Pace::Paused {
            self.shared.added.notify_one();
        }
    }

    /// How many Events never reached the server: the queue was full, or it would not take them.
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
            let notes = self.recorder.lock().next_events();
            if notes.is_empty() {
                self.recorder.shared.added.notified().await;
            }
            join_all(notes.into_iter().map(|note| self.write(note))).await;
        }
    }

    async fn write(&self, note: PendingEvent) {
        let (about, reason) = (&note.regarding, &note.reason);
        let key = Arc::new(EventKey { uid: about.uid.clone(), reason: reason.clone(), message: note.message.clone() });
        let repeated = self.recent_events().count_repetition(&key, note.at);
        if let Some((path, count)) = repeated {
            let body = json!({"count": count, "lastTimestamp": rfc3339(note.at)});
            match self.attempt(|client| request::patch(client, &path, PatchKind::Merge, &body)).await {
                // The server forgets Events after a while; then this one is new again.
                Err(error) if is_not_found(&error) => {}
                outcome => return self.count_drop(&note, outcome),
            }
        }
        let body = self.event_body(&note);
        let collection = format!("/api/v1/namespaces/{}/events", body.metadata.namespace);
        let outcome = self.attempt(|client| request::post(client, &collection, &body)).await;
        if outcome.is_ok() {
            self.recent_events().insert(key, format!("{collection}/{}", body.metadata.name), note.at);
        }
        self.count_drop(&note, outcome);
    }

    fn recent_events(&self) -> MutexGuard<'_, RecentEvents> {
        self.recent_events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries a few times while the server is busy or out of reach.
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

    fn count_drop(&self, note: &PendingEvent, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            tracing::debug!(
                "event {} about {}/{}: {error}",
                note.reason,
                note.regarding.namespace,
                note.regarding.name
            );
            self.recorder.lock().dropped += 1;
        }
    }

    fn event_body<'a>(&'a self, note: &'a PendingEvent) -> EventBody<'a> {
        let (about, component, time) = (&note.regarding, &*note.component, rfc3339(note.at));
        // Events about cluster-scoped objects live in the default namespace.
        let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
        let stem = &about.name[..about.name.len().min(MAX_NAME_STEM)];
        let stem = stem.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        EventBody {
            api_version: "v1",
            kind: "Event",
            metadata: EventMeta { name: format!("{stem}.{:016x}", self.random.next_u64()), namespace },
            involved_object: about,
            event_type: note.kind,
            reason: &note.reason,
            action: &note.action,
            message: &note.message,
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
    /// Always null: set, it would make the Event one of the newer, stricter kind.
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

/// Events with the same of these are repetitions of one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct EventKey {
    uid: String,
    reason: String,
    message: String,
}

/// What was written lately, least recently used forgotten first.
#[derive(Default)]
struct RecentEvents {
    events: BTreeMap<Arc<EventKey>, RecentEvent>,
    /// Keys of `seen` by their last use.
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
    /// The Event to count up and its new count, if `key` was written lately.
    fn count_repetition(&mut self, key: &Arc<EventKey>, at: Timestamp) -> Option<(String, u32)> {
        let seen = self.events.get_mut(key)?;
        if at.duration_since(seen.last).unsigned_abs() > REPETITION_WINDOW {
            return None;
        }
        seen.count = seen.count.saturating_add(1);
        seen.last = at;
        self.by_use.remove(&seen.used);
        self.uses += 1;
        seen.used = self.uses;
        self.by_use.insert(self.uses, key.clone());
        Some((seen.path.clone(), seen.count))
    }

    fn insert(&mut self, key: Arc<EventKey>, path: String, at: Timestamp) {
        self.uses += 1;
        let seen = RecentEvent { path, count: 1, last: at, used: self.uses };
        if let Some(before) = self.events.insert(key.clone(), seen) {
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
    fn fewer_events_are_written_at_once_while_others_wait_for_the_server() {
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
