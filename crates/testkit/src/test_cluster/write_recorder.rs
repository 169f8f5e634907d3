//! Every write on a real server, as its watches report it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Revision;
use api::kinds::{self, ApiResource};
use futures::AsyncBufReadExt;
use http::Request;
use kube::Client;
use runtime::{is_not_found, request};
use serde_json::Value;
use tokio::task::JoinSet;

use super::RecordedWrite;

const POLL: Duration = Duration::from_millis(10);
const RETRY: Duration = Duration::from_millis(200);

/// The writes since its start. Dropping it stops its watches.
pub struct WriteRecorder {
    state: Arc<Mutex<RecorderState>>,
    /// One watch for each resource.
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct RecorderState {
    writes: Vec<RecordedWrite>,
    /// The revision up to which each resource is recorded.
    revisions: BTreeMap<String, Revision>,
}

impl WriteRecorder {
    /// Records every write from now on to the kinds of the registry that this server has.
    pub async fn start(client: &Client) -> WriteRecorder {
        let state = Arc::new(Mutex::new(RecorderState::default()));
        let mut tasks = JoinSet::new();
        for resource in kinds::ALL.iter().filter(|resource| !resource.is_stored_elsewhere()) {
            let Some((path, from)) = list_revision(client, resource).await else { continue };
            lock(&state).revisions.insert(resource.store_name(), from);
            tasks.spawn(watch_forever(client.clone(), resource.store_name(), path, from, state.clone()));
        }
        WriteRecorder { state, _tasks: tasks }
    }

    /// Returns once every write to `resource` up to `revision` is recorded.
    pub async fn wait_for_revision(&self, resource: &str, revision: Revision) {
        while lock(&self.state).revisions.get(resource).is_none_or(|reached| *reached < revision) {
            if revision == Revision::ZERO {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The recorded writes for which `is_wanted` holds, in order. Writes in the namespaces of the control plane itself
    /// are left out: its Leases change every few seconds, whatever a test does.
    pub fn writes(&self, is_wanted: impl Fn(&RecordedWrite) -> bool) -> Vec<RecordedWrite> {
        let is_wanted = |write: &&RecordedWrite| !write.namespace().starts_with("kube-") && is_wanted(write);
        let mut writes: Vec<RecordedWrite> = lock(&self.state).writes.iter().filter(is_wanted).cloned().collect();
        writes.sort_by_key(|write| write.revision);
        writes
    }
}

fn lock(state: &Mutex<RecorderState>) -> MutexGuard<'_, RecorderState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of all objects of a kind and the revision of their list, in the first version that the server has; `None`
/// if it has none.
async fn list_revision(client: &Client, resource: &ApiResource) -> Option<(String, Revision)> {
    for version in resource.served_versions() {
        let path = resource.versioned_path(version, "");
        let bytes = match request::get(client, &format!("{path}?limit=1")).await {
            Err(error) if is_not_found(&error) => continue,
            result => result.unwrap_or_else(|error| panic!("{path}: {error}")),
        };
        let list: Value = serde_json::from_slice(&bytes).expect("a list is JSON");
        return Some((path, revision_of(&list)));
    }
    None
}

fn revision_of(object: &Value) -> Revision {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    Revision(text.parse().unwrap_or_default())
}

/// Watches without end. Each watch starts where the last one ended.
async fn watch_forever(
    client: Client,
    resource: String,
    path: String,
    from: Revision,
    state: Arc<Mutex<RecorderState>>,
) {
    let mut last = from;
    loop {
        let request = Request::get(format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={last}"));
        let request = request.body(Vec::new()).expect("the request is well-formed");
        if let Ok(body) = client.request_stream(request).await {
            let mut lines = body.lines();
            while let Some(Ok(line)) = futures::StreamExt::next(&mut lines).await {
                let event: Value = serde_json::from_str(&line).expect("each line of a watch is an event");
                assert!(event["type"] != "ERROR", "{resource}: the watch has expired: {}", event["object"]);
                last = last.max(revision_of(&event["object"]));
                record_event(&state, &resource, last, event);
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn record_event(state: &Mutex<RecorderState>, resource: &str, reached: Revision, mut event: Value) {
    let mut state = lock(state);
    state.revisions.insert(resource.to_owned(), reached);
    if event["type"] == "BOOKMARK" {
        return;
    }
    let object = event["object"].take();
    state.writes.push(RecordedWrite {
        revision: revision_of(&object),
        resource: resource.to_owned(),
        created: event["type"] == "ADDED",
        deleted: event["type"] == "DELETED",
        object,
    });
}
