//! One watcher: lists, watches, is cut off at random, resumes or starts anew, and folds what it sees.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Random, Revision};
use futures::{StreamExt, pin_mut};
use kube::Client;
use kube::core::WatchEvent;
use runtime::request;
use serde::Deserialize;

use super::truth::{Event, Key, Kind, Scope, Side, Stretch};
use super::writer::refuse_refusals;

const RETRY: Duration = Duration::from_millis(20);
/// The last objects of a run have names that begin like this.
pub const LAST: &str = "last-";

/// A watcher and what it has seen.
pub struct Watcher {
    pub scope: Scope,
    pub stretches: Vec<Stretch>,
    /// The objects as they are now, by what was seen.
    pub state: BTreeMap<Key, u64>,
    /// Watches that were opened; all but the first after a list take up where the one before was cut off.
    pub watches: usize,
    client: Client,
    random: Random,
    /// How many of the last objects are in scope.
    last_count: usize,
}

#[derive(Clone, Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: String,
    name: String,
    resource_version: Revision,
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMetadata,
    items: Vec<Object>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: Revision,
    #[serde(default, rename = "continue")]
    next: String,
}

/// How a watch ended.
enum End {
    /// Cut off, by us or by the server: the next watch resumes.
    Cut,
    /// The history is gone: the next step is a list.
    Gone,
    /// The last objects have been seen.
    Done,
}

impl Watcher {
    pub fn new(scope: Scope, client: Client, random: Random, last_count: usize) -> Watcher {
        let state = BTreeMap::new();
        Watcher { scope, stretches: Vec::new(), state, watches: 0, client, random, last_count }
    }

    /// Watches until every last object in scope has been seen.
    pub async fn work(mut self) -> anyhow::Result<Watcher> {
        loop {
            self.start_anew().await?;
            loop {
                match self.watch().await? {
                    End::Done => return Ok(self),
                    End::Gone => break,
                    End::Cut => {}
                }
            }
        }
    }

    async fn start_anew(&mut self) -> anyhow::Result<()> {
        let (state, revision) = list(&self.client, &self.scope).await?;
        self.state = state;
        self.stretches.push(Stretch { from: revision, to: revision, events: Vec::new() });
        Ok(())
    }

    async fn watch(&mut self) -> anyhow::Result<End> {
        if self.has_seen_the_last() {
            return Ok(End::Done);
        }
        let from = self.stretch().to;
        let query = format!("watch=true&allowWatchBookmarks=true&resourceVersion={from}{}", selector(&self.scope));
        let request = http::Request::get(format!("{}?{query}", path(&self.scope))).body(Vec::new())?;
        let stream = match self.client.request_events::<Object>(request).await {
            Ok(stream) => stream,
            Err(error) if runtime::is_expired(&error) => return Ok(End::Gone),
            Err(error) => {
                refuse_refusals(&error)?;
                tokio::time::sleep(RETRY).await;
                return Ok(End::Cut);
            }
        };
        pin_mut!(stream);
        self.watches += 1;
        let events_max = self.random.below(4000);
        for _ in 0..events_max {
            match stream.next().await {
                Some(Ok(WatchEvent::Error(status))) if status.code == 410 => return Ok(End::Gone),
                Some(Ok(WatchEvent::Error(status))) if status.code < 500 => {
                    anyhow::bail!("a watch ended with {}: {}", status.code, status.message)
                }
                Some(Ok(WatchEvent::Added(object))) => self.fold(Kind::Added, object),
                Some(Ok(WatchEvent::Modified(object))) => self.fold(Kind::Modified, object),
                Some(Ok(WatchEvent::Deleted(object))) => self.fold(Kind::Deleted, object),
                Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                    let revision = bookmark.metadata.resource_version.parse()?;
                    anyhow::ensure!(revision >= self.stretch().to, "a bookmark goes back to {revision}");
                    self.stretch().to = revision;
                }
                Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => return Ok(End::Cut),
            }
            if self.has_seen_the_last() {
                return Ok(End::Done);
            }
        }
        Ok(End::Cut)
    }

    fn stretch(&mut self) -> &mut Stretch {
        self.stretches.last_mut().expect("a list comes before a watch")
    }

    fn fold(&mut self, kind: Kind, object: Object) {
        let (key, revision) = keyed(object);
        let stretch = self.stretch();
        // A version that goes back is kept as it came: the check names it.
        stretch.to = stretch.to.max(revision);
        stretch.events.push(Event { revision, kind, key: key.clone() });
        match kind {
            Kind::Deleted => self.state.remove(&key),
            Kind::Added | Kind::Modified => self.state.insert(key, revision),
        };
    }

    fn has_seen_the_last(&self) -> bool {
        self.state.keys().filter(|key| key.1.starts_with(LAST)).count() == self.last_count
    }
}

fn keyed(object: Object) -> (Key, u64) {
    let Metadata { namespace, name, resource_version } = object.metadata;
    ((namespace, name), resource_version.0)
}

/// Everything in scope and the list's version; waits for a server that is not there.
pub async fn list(client: &Client, scope: &Scope) -> anyhow::Result<(BTreeMap<Key, u64>, u64)> {
    let (mut items, mut token) = (BTreeMap::new(), String::new());
    loop {
        let query = format!("limit=100{}{token}", selector(scope));
        match request::get(client, &format!("{}?{query}", path(scope))).await {
            Ok(bytes) => {
                let page: Page = serde_json::from_slice(&bytes)?;
                items.extend(page.items.into_iter().map(keyed));
                if page.metadata.next.is_empty() {
                    return Ok((items, page.metadata.resource_version.0));
                }
                token = format!("&continue={}", page.metadata.next);
            }
            // The pages' version is gone (a restart): the list begins again.
            Err(error) if runtime::is_expired(&error) => (items, token) = (BTreeMap::new(), String::new()),
            Err(error) => {
                refuse_refusals(&error)?;
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

fn path(scope: &Scope) -> String {
    match scope.namespace {
        Some(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
        None => "/api/v1/pods".to_owned(),
    }
}

fn selector(scope: &Scope) -> String {
    match scope.side {
        Some(Side::Is(side)) => format!("&labelSelector=side%3D{side}"),
        Some(Side::IsNot(side)) => format!("&labelSelector=side%21%3D{side}"),
        None => String::new(),
    }
}
