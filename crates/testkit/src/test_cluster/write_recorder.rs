//! Every write on a real server, as its watches tell.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Revision;
use futures::AsyncBufReadExt;
use http::Request;
use kube::Client;
use runtime::{is_not_found, request};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{RESOURCES, RecordedWrite};

const POLL: Duration = Duration::from_millis(10);
const RETRY: Duration = Duration::from_millis(200);

/// What was written since it began. Dropping it ends it.
pub struct WriteRecorder {
    state: Arc<Mutex<RecorderState>>,
    /// One watch for each resource.
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct RecorderState {
    writes: Vec<RecordedWrite>,
    /// How far the watch of each resource has come.
    revisions: BTreeMap<&'static str, Revision>,
}

impl WriteRecorder {
    /// Begins with what is written after now.
    pub async fn start(client: &Client) -> WriteRecorder {
        let state = Arc::new(Mutex::new(RecorderState::default()));
        let mut tasks = JoinSet::new();
        for resource in RESOURCES {
            let path = path_of(resource);
            let bytes = match request::get(client, &format!("{path}?limit=1")).await {
                // Of a kind that the server does not have nothing is ever written.
                Err(error) if is_not_found(&error) => continue,
                answer => answer.unwrap_or_else(|error| panic!("{path}: {error}")),
            };
            let listed: Value = serde_json::from_slice(&bytes).expect("a list");
            let from = revision_of(&listed);
            tasks.spawn(watch_forever(client.clone(), resource, path, from, state.clone()));
        }
        WriteRecorder { state, _tasks: tasks }
    }

    /// Returns once every write to `resource` up to `revision` is here.
    pub async fn wait_for_revision(&self, resource: &'static str, revision: Revision) {
        while lock(&self.state).revisions.get(resource).is_none_or(|reached| *reached < revision) {
            if revision == Revision::ZERO {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// What is wanted of it, in order.
    pub fn writes(&self, wanted: impl Fn(&RecordedWrite) -> bool) -> Vec<RecordedWrite> {
        let mut changes: Vec<RecordedWrite> =
            lock(&self.state).writes.iter().filter(|change| wanted(change)).cloned().collect();
        changes.sort_by_key(|change| change.revision);
        changes
    }
}

fn lock(state: &Mutex<RecorderState>) -> MutexGuard<'_, RecorderState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `batch/jobs` is served at `/apis/batch/v1/jobs`.
fn path_of(resource: &str) -> String {
    match resource.split_once('/') {
        None => format!("/api/v1/{resource}"),
        Some((group @ "scheduling.k8s.io", plural @ ("workloads" | "podgroups"))) => {
            format!("/apis/{group}/v1beta1/{plural}")
        }
        Some((group, plural)) => format!("/apis/{group}/v1/{plural}"),
    }
}

fn revision_of(object: &Value) -> Revision {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    Revision(text.parse().unwrap_or_default())
}

/// Watches for ever, from where the watch before ended.
async fn watch_forever(
    client: Client,
    resource: &'static str,
    path: String,
    from: Revision,
    state: Arc<Mutex<RecorderState>>,
) {
    let mut last = from;
    loop {
        let request = Request::get(format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={last}"));
        let request = request.body(Vec::new()).expect("a well-formed request");
        if let Ok(body) = client.request_stream(request).await {
            let mut lines = body.lines();
            while let Some(Ok(line)) = futures::StreamExt::next(&mut lines).await {
                let event: Value = serde_json::from_str(&line).expect("an event of a watch");
                assert!(event["type"] != "ERROR", "{resource}: the watch lost its place: {}", event["object"]);
                last = last.max(revision_of(&event["object"]));
                record_event(&state, resource, last, event);
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn record_event(state: &Mutex<RecorderState>, resource: &'static str, reached: Revision, mut event: Value) {
    let mut state = lock(state);
    state.revisions.insert(resource, reached);
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
