//! One watcher: lists, watches, is interrupted at random, resumes or lists again, and applies its events.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Random, Revision};
use futures::{StreamExt, pin_mut};
use kube::Client;
use kube::core::WatchEvent;
use runtime::request;
use serde::Deserialize;

use super::write_history::{PodKey, SideSelector, WatchEventKind, WatchScope, WatchSegment, WatchedEvent};
use super::writer::ensure_unavailable;

const RETRY: Duration = Duration::from_millis(20);
/// The prefix of the names of a run's last objects.
pub const SENTINEL_PREFIX: &str = "last-";

/// A watcher and its events.
pub struct PodWatcher {
    pub scope: WatchScope,
    pub segments: Vec<WatchSegment>,
    /// The current objects, from the events.
    pub objects: BTreeMap<PodKey, u64>,
    /// Opened watches; all but the first after a list resume where the previous one was interrupted.
    pub watch_count: usize,
    client: Client,
    random: Random,
    /// How many of the last objects are in scope.
    sentinel_count: usize,
}

#[derive(Clone, Deserialize)]
struct ListedPod {
    metadata: ListedMetadata,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedMetadata {
    namespace: String,
    name: String,
    resource_version: Revision,
}

#[derive(Deserialize)]
struct PodListPage {
    metadata: PageMetadata,
    items: Vec<ListedPod>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: Revision,
    #[serde(default, rename = "continue")]
    next: String,
}

/// How a watch ended.
enum WatchStreamEnd {
    /// Interrupted by us or by the server: the next watch resumes.
    Cut,
    /// The history is compacted: the next step is a list.
    Gone,
    /// All last objects were received.
    Done,
}

impl PodWatcher {
    pub fn new(scope: WatchScope, client: Client, random: Random, last_count: usize) -> PodWatcher {
        let state = BTreeMap::new();
        PodWatcher {
            scope,
            segments: Vec::new(),
            objects: state,
            watch_count: 0,
            client,
            random,
            sentinel_count: last_count,
        }
    }

    /// Watches until every last object in scope was received.
    pub async fn work(mut self) -> anyhow::Result<PodWatcher> {
        loop {
            self.relist().await?;
            loop {
                match self.watch().await? {
                    WatchStreamEnd::Done => return Ok(self),
                    WatchStreamEnd::Gone => break,
                    WatchStreamEnd::Cut => {}
                }
            }
        }
    }

    async fn relist(&mut self) -> anyhow::Result<()> {
        let (state, revision) = list(&self.client, &self.scope).await?;
        self.objects = state;
        self.segments.push(WatchSegment { from_revision: revision, to_revision: revision, events: Vec::new() });
        Ok(())
    }

    async fn watch(&mut self) -> anyhow::Result<WatchStreamEnd> {
        if self.has_seen_sentinels() {
            return Ok(WatchStreamEnd::Done);
        }
        let from = self.current_segment().to_revision;
        let query = format!("watch=true&allowWatchBookmarks=true&resourceVersion={from}{}", selector(&self.scope));
        let request = http::Request::get(format!("{}?{query}", path(&self.scope))).body(Vec::new())?;
        let stream = match self.client.request_events::<ListedPod>(request).await {
            Ok(stream) => stream,
            Err(error) if runtime::is_expired(&error) => return Ok(WatchStreamEnd::Gone),
            Err(error) => {
                ensure_unavailable(&error)?;
                tokio::time::sleep(RETRY).await;
                return Ok(WatchStreamEnd::Cut);
            }
        };
        pin_mut!(stream);
        self.watch_count += 1;
        let events_max = self.random.below(4000);
        for _ in 0..events_max {
            match stream.next().await {
                Some(Ok(WatchEvent::Error(status))) if status.code == 410 => return Ok(WatchStreamEnd::Gone),
                Some(Ok(WatchEvent::Error(status))) if status.code < 500 => {
                    anyhow::bail!("a watch ended with {}: {}", status.code, status.message)
                }
                Some(Ok(WatchEvent::Added(object))) => self.record_event(WatchEventKind::Added, object),
                Some(Ok(WatchEvent::Modified(object))) => self.record_event(WatchEventKind::Modified, object),
                Some(Ok(WatchEvent::Deleted(object))) => self.record_event(WatchEventKind::Deleted, object),
                Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                    let revision = bookmark.metadata.resource_version.parse()?;
                    anyhow::ensure!(
                        revision >= self.current_segment().to_revision,
                        "a bookmark goes back to {revision}"
                    );
                    self.current_segment().to_revision = revision;
                }
                Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => return Ok(WatchStreamEnd::Cut),
            }
            if self.has_seen_sentinels() {
                return Ok(WatchStreamEnd::Done);
            }
        }
        Ok(WatchStreamEnd::Cut)
    }

    fn current_segment(&mut self) -> &mut WatchSegment {
        self.segments.last_mut().expect("a list comes before a watch")
    }

    fn record_event(&mut self, kind: WatchEventKind, object: ListedPod) {
        let (key, revision) = key_and_revision(object);
        let stretch = self.current_segment();
        // A revision that goes back is recorded as it is, and the check reports it.
        stretch.to_revision = stretch.to_revision.max(revision);
        stretch.events.push(WatchedEvent { revision, kind, key: key.clone() });
        match kind {
            WatchEventKind::Deleted => self.objects.remove(&key),
            WatchEventKind::Added | WatchEventKind::Modified => self.objects.insert(key, revision),
        };
    }

    fn has_seen_sentinels(&self) -> bool {
        self.objects.keys().filter(|key| key.1.starts_with(SENTINEL_PREFIX)).count() == self.sentinel_count
    }
}

fn key_and_revision(object: ListedPod) -> (PodKey, u64) {
    let ListedMetadata { namespace, name, resource_version } = object.metadata;
    ((namespace, name), resource_version.0)
}

/// Everything in scope and the list's revision; waits while the server is unavailable.
pub async fn list(client: &Client, scope: &WatchScope) -> anyhow::Result<(BTreeMap<PodKey, u64>, u64)> {
    let (mut items, mut token) = (BTreeMap::new(), String::new());
    loop {
        let query = format!("limit=100{}{token}", selector(scope));
        match request::get(client, &format!("{}?{query}", path(scope))).await {
            Ok(bytes) => {
                let page: PodListPage = serde_json::from_slice(&bytes)?;
                items.extend(page.items.into_iter().map(key_and_revision));
                if page.metadata.next.is_empty() {
                    return Ok((items, page.metadata.resource_version.0));
                }
                token = format!("&continue={}", page.metadata.next);
            }
            // The revision of the pages is compacted (after a restart): the list begins again.
            Err(error) if runtime::is_expired(&error) => (items, token) = (BTreeMap::new(), String::new()),
            Err(error) => {
                ensure_unavailable(&error)?;
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

fn path(scope: &WatchScope) -> String {
    match scope.namespace {
        Some(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
        None => "/api/v1/pods".to_owned(),
    }
}

fn selector(scope: &WatchScope) -> String {
    match scope.side {
        Some(SideSelector::Is(side)) => format!("&labelSelector=side%3D{side}"),
        Some(SideSelector::IsNot(side)) => format!("&labelSelector=side%21%3D{side}"),
        None => String::new(),
    }
}
