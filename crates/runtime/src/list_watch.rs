//! Keeps a cache up to date: lists, watches from there, applies every event, resumes after an interruption, and lists
//! again after a 410.

mod line_splitter; // splits the bytes of a watch into lines

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt};
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde::Deserialize;
use serde_json::value::RawValue;
use types::views::{MetaView, ObjectKey, View};
use types::{Random, Revision};

use self::line_splitter::LineSplitter;
use crate::backoff::Backoff;
use crate::failure::{is_expired, is_not_found, message};
use crate::informer::{Cache, CacheEvent};
use crate::reachability::Reachability;
use crate::request;

/// After this long without a line a watch is restarted at its revision, because its connection may be dead. Servers
/// send a bookmark every minute, with up to two seconds of delay, so a live watch is rarely restarted; the cost is one
/// request.
const MAX_SILENCE: Duration = Duration::from_secs(70);

/// How a list-watch behaves.
#[derive(Clone, Debug)]
pub struct ListWatchConfig {
    /// Objects per page of a list; `None` requests all at once, which suits a server in the same process.
    pub page_limit: Option<u32>,
    /// The server ends a watch after this long, so that a dead connection is always noticed. Below 295 s.
    pub watch_timeout: Duration,
    /// Waits between failed attempts.
    pub backoff: Backoff,
    /// Jitter for those waits; without it they are exact.
    pub random: Option<Random>,
    /// How often discovery is repeated for a kind that the server does not serve.
    pub unserved_pause: Duration,
    /// Gets reports on whether the server responds, and requests restarts of all watches.
    pub reachability: Option<Reachability>,
}

impl Default for ListWatchConfig {
    fn default() -> Self {
        ListWatchConfig {
            page_limit: Some(500),
            watch_timeout: Duration::from_secs(290),
            backoff: Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(10) },
            random: None,
            unserved_pause: Duration::from_secs(30),
            reachability: None,
        }
    }
}

/// Keeps `cache` up to date with the server of `client`, forever. A kind that the server does not serve has no objects,
/// which is known as soon as the server reports it.
pub async fn list_and_watch<V: View>(client: Client, cache: Cache<V>, config: ListWatchConfig) {
    let plural = V::RESOURCE.plural;
    let mut from = None;
    let mut failures = 0;
    let mut unserved = false;
    loop {
        let restarts = config.restarts();
        let outcome = match from {
            None => list(&client, &cache, &config)
                .await
                .map(|revision| ListWatchEnd { resume: Some(revision), progressed: false }),
            Some(revision) => watch(&client, &cache, &config, revision, restarts).await,
        };
        let listed = from.is_none();
        // A watch was reported when it began. Its end does not show whether the server is frozen since.
        if listed || outcome.is_err() {
            config.report_reachability(plural, outcome.as_ref().err());
        }
        match outcome {
            Err(ListWatchFailure { error, .. }) if is_not_found(&error) => {
                if !std::mem::replace(&mut unserved, true) {
                    tracing::info!("{}: the server does not serve {plural}", V::RESOURCE.api_version());
                }
                cache.replace(Vec::new(), &BTreeSet::new(), Revision::ZERO);
                cache.mark_revalidated(cache.invalidations());
                (from, failures) = (None, 0);
                config.pause(config.unserved_pause, restarts).await;
                continue;
            }
            // A watch that ends without an event may end again at once. A list is always followed by a watch.
            Ok(ended) => {
                failures = if ended.progressed { 0 } else { failures + u32::from(!listed) };
                from = ended.resume;
                if std::mem::take(&mut unserved)
                    && let Some(reach) = &config.reachability
                {
                    reach.report_newly_served(plural);
                }
                if listed || from.is_none() {
                    continue;
                }
            }
            Err(ListWatchFailure { error, resume, progressed }) => {
                failures = if progressed { 1 } else { failures + 1 };
                tracing::debug!("{plural}: {} failed: {}", if listed { "list" } else { "watch" }, message(&error));
                from = resume;
                // The first relist after a 410 is not delayed; repeated ones are.
                if resume.is_none() && !listed && failures == 1 {
                    continue;
                }
            }
        }
        let delay = match &config.random {
            Some(random) => config.backoff.jittered(failures, random),
            None => config.backoff.delay(failures),
        };
        config.pause(delay, restarts).await;
    }
}

impl ListWatchConfig {
    /// A server that responds is reachable, even if the kind or revision is unknown.
    fn report_reachability(&self, kind: &'static str, broken: Option<&ListWatchFailure>) {
        let Some(reach) = &self.reachability else { return };
        match broken.map(|broken| &broken.error).filter(|error| !is_not_found(error) && !is_expired(error)) {
            Some(error) => reach.report_failure(kind, error),
            None => reach.report_success(kind),
        }
    }

    /// How often all watches were restarted.
    fn restarts(&self) -> u64 {
        self.reachability.as_ref().map_or(0, Reachability::restarts)
    }

    /// Returns when all watches are to be restarted again.
    async fn wait_for_restart(&self, restarts: u64) {
        match &self.reachability {
            Some(reach) => reach.wait_for_restart(restarts).await,
            None => std::future::pending().await,
        }
    }

    /// Waits, but at most until all watches restart: the server is reachable again.
    async fn pause(&self, delay: Duration, restarts: u64) {
        tokio::select! { biased;
            () = self.wait_for_restart(restarts) => {}
            () = tokio::time::sleep(delay) => {}
        }
    }

    /// The watch of `kind` is silent although it had sent lines before: its connection is dead, and others may be.
    fn report_silence(&self, kind: &'static str) {
        if let Some(reach) = &self.reachability {
            tracing::info!("{kind}: neither an event nor a bookmark for {MAX_SILENCE:?}; all watches restart");
            reach.restart_watches();
        }
    }
}

/// A list or watch that ended regularly.
struct ListWatchEnd {
    /// Where the next watch begins; `None`: list again.
    resume: Option<Revision>,
    /// Whether the server sent anything.
    progressed: bool,
}

/// A list or watch that failed.
struct ListWatchFailure {
    error: Error,
    /// Where the next watch begins; `None`: list again.
    resume: Option<Revision>,
    /// Whether it had returned anything before it failed.
    progressed: bool,
}

/// Reads the whole collection, page by page, and applies it. Returns the revision at which the watch begins.
async fn list<V: View>(
    client: &Client,
    cache: &Cache<V>,
    config: &ListWatchConfig,
) -> Result<Revision, ListWatchFailure> {
    let broken = |error| ListWatchFailure { error, resume: None, progressed: false };
    let mut params = ListParams { limit: config.page_limit, ..ListParams::default() };
    let (mut objects, mut unread) = (Vec::new(), BTreeSet::new());
    let doubts = cache.invalidations();
    loop {
        let request = Request::new(V::RESOURCE.path()).list(&params);
        let request = request.map_err(|error| broken(Error::BuildRequest(error)))?;
        let bytes = request::send(client, request.map(Body::from)).await.map_err(broken)?;
        let page: RawListPage = serde_json::from_slice(&bytes).map_err(|error| broken(Error::SerdeError(error)))?;
        for item in page.items {
            match decode::<V>(item.get().as_bytes()) {
                Ok(object) => objects.push(object),
                Err(error) => unread.extend(log_undecodable::<V>(item.get().as_bytes(), &error)),
            }
        }
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token.into_owned()),
            None => {
                let revision = page.metadata.resource_version;
                cache.replace(objects, &unread, revision);
                cache.mark_revalidated(doubts);
                return Ok(revision);
            }
        }
    }
}

/// Follows changes after `from` until the server ends the watch or it fails.
async fn watch<V: View>(
    client: &Client,
    cache: &Cache<V>,
    config: &ListWatchConfig,
    from: Revision,
    restarts: u64,
) -> Result<ListWatchEnd, ListWatchFailure> {
    let timeout = u32::try_from(config.watch_timeout.as_secs()).unwrap_or(290).clamp(1, 294);
    let params = WatchParams::default().timeout(timeout);
    let request = Request::new(V::RESOURCE.path()).watch(&params, &from.to_string());
    let request = request.map_err(|error| ListWatchFailure {
        error: Error::BuildRequest(error),
        resume: None,
        progressed: false,
    })?;
    // The response begins at once, before the first event.
    let body = request::with_deadline(request::DEADLINE, client.request_stream(request)).await.map_err(|error| {
        let resume = Some(from).filter(|_| !is_expired(&error));
        ListWatchFailure { error, resume, progressed: false }
    })?;
    // Not only when it ends: that may be minutes away.
    config.report_reachability(V::RESOURCE.plural, None);
    apply_stream(std::pin::pin!(body), cache, config, from, restarts).await
}

/// Applies the lines of `body`, with one lock and one wake-up for all that arrive together. Ends when nothing arrived
/// for too long, when all watches restart, or when the cache is reported to be wrong.
async fn apply_stream<V: View>(
    mut body: std::pin::Pin<&mut impl AsyncBufRead>,
    cache: &Cache<V>,
    config: &ListWatchConfig,
    from: Revision,
    restarts: u64,
) -> Result<ListWatchEnd, ListWatchFailure> {
    let mut lines = LineSplitter::default();
    let (mut last, mut progressed) = (from, false);
    loop {
        let came = tokio::select! { biased;
            () = cache.wait_until_invalidated() => return Ok(ListWatchEnd { resume: None, progressed: true }),
            came = body.fill_buf() => came,
            () = config.wait_for_restart(restarts) => return Ok(ListWatchEnd { resume: Some(last), progressed: true }),
            () = tokio::time::sleep(MAX_SILENCE) => {
                // Servers send no bookmarks for a kind that was never written, so that silence is normal.
                if progressed {
                    config.report_silence(V::RESOURCE.plural);
                }
                return Ok(ListWatchEnd { resume: Some(last), progressed: true });
            }
        };
        let chunk = came.map_err(|error| {
            // Applied events stay; the next watch continues from there.
            ListWatchFailure { error: Error::ReadEvents(error), resume: Some(last), progressed }
        })?;
        if chunk.is_empty() {
            return Ok(ListWatchEnd { resume: Some(last), progressed });
        }
        let length = chunk.len();
        let (mut events, mut ended) = (Vec::new(), None);
        lines.push(chunk, |line| match parse_line(line) {
            _ if ended.is_some() => {}
            WatchLine::Event(event, revision) => {
                last = last.max(revision);
                events.extend(event);
            }
            WatchLine::Error(status) => ended = Some(status),
        });
        body.as_mut().consume(length);
        progressed |= !events.is_empty() || last > from;
        cache.apply_events(events, last);
        if let Some(status) = ended {
            return Err(ListWatchFailure { error: Error::Api(status), resume: None, progressed });
        }
    }
}

/// One line of a watch.
enum WatchLine<V> {
    /// What to apply (nothing for a bookmark or an object that does not decode), and the revision of the watch.
    Event(Option<CacheEvent<V>>, Revision),
    /// The server ended this watch with an error.
    Error(Box<Status>),
}

fn parse_line<V: View>(line: &[u8]) -> WatchLine<V> {
    let Some((kind, object)) = split(line) else {
        // The line itself is not logged, because objects can contain secrets.
        tracing::error!("{}: a line of the watch is not an event ({} bytes)", V::RESOURCE.plural, line.len());
        return WatchLine::Event(None, Revision::ZERO);
    };
    match kind.as_ref() {
        "ADDED" | "MODIFIED" => match decode::<V>(object) {
            Ok(object) => {
                let revision = object.meta().resource_version;
                WatchLine::Event(Some(CacheEvent::Put(object)), revision)
            }
            Err(error) => {
                log_undecodable::<V>(object, &error);
                WatchLine::Event(None, decode_metadata(object).resource_version)
            }
        },
        "DELETED" => {
            let meta = decode_metadata(object);
            WatchLine::Event(Some(CacheEvent::Deleted(meta.key())), meta.resource_version)
        }
        "BOOKMARK" => WatchLine::Event(None, decode_metadata(object).resource_version),
        "ERROR" => {
            let status = serde_json::from_slice::<Status>(object);
            WatchLine::Error(status.unwrap_or_else(|error| Status::failure(&error.to_string(), "Unknown")).boxed())
        }
        other => {
            tracing::error!("{}: the watch has an event of unknown type {other}", V::RESOURCE.plural);
            WatchLine::Event(None, Revision::ZERO)
        }
    }
}

/// The type and the object of `{"type":"ADDED","object":{…}}`.
///
/// Servers always write this form, so the object's bytes are found without parsing them. A line in any other form is
/// parsed.
fn split(line: &[u8]) -> Option<(Cow<'_, str>, &[u8])> {
    let line = line.trim_ascii_end();
    if let Some(rest) = line.strip_prefix(br#"{"type":""#)
        && let Some(quote) = rest.iter().take(16).position(|byte| *byte == b'"')
        && let Some(object) = rest[quote..].strip_prefix(br#"","object":"#)
        && let Some(object) = object.strip_suffix(b"}")
        && object.ends_with(b"}")
        && let Ok(kind) = std::str::from_utf8(&rest[..quote])
    {
        return Some((Cow::Borrowed(kind), object));
    }
    #[derive(Deserialize)]
    struct RawWatchEvent<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let parsed: RawWatchEvent = serde_json::from_slice(line).ok()?;
    Some((parsed.kind, parsed.object.get().as_bytes()))
}

/// An object as the cache keeps it.
fn decode<V: View>(object: &[u8]) -> Result<V, serde_json::Error> {
    let mut view = V::decode(object)?;
    view.strip();
    Ok(view)
}

/// Logs an object that does not decode and returns its key, if that much can be read. One bad object must not blind
/// us to all others.
fn log_undecodable<V: View>(object: &[u8], error: &serde_json::Error) -> Option<ObjectKey> {
    let meta = decode_metadata(object);
    tracing::error!("{} {}: skipped, it does not decode: {error}", V::RESOURCE.plural, meta.key());
    Some(meta.key()).filter(|key| !key.name.is_empty())
}

/// The metadata of any object, empty where even that does not decode.
fn decode_metadata(object: &[u8]) -> MetaView {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct MetadataOnly {
        metadata: MetaView,
    }
    serde_json::from_slice::<MetadataOnly>(object).unwrap_or_default().metadata
}

/// One page of a list, its items as text.
#[derive(Deserialize)]
struct RawListPage<'a> {
    #[serde(borrow)]
    metadata: RawListPageMeta<'a>,
    #[serde(borrow, default, deserialize_with = "items")]
    items: Vec<&'a RawValue>,
}

/// A Go server may write an empty list as null.
fn items<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<&'a RawValue>, D::Error> {
    Ok(Option::<Vec<&'a RawValue>>::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawListPageMeta<'a> {
    #[serde(default)]
    resource_version: Revision,
    #[serde(borrow, default, rename = "continue")]
    next: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn the_object_of_a_line_is_found_in_any_form() {
        for (case, line) in [
            ("as servers write it", r#"{"type":"ADDED","object":{"a":{}}}"#),
            ("with a carriage return", "{\"type\":\"ADDED\",\"object\":{\"a\":{}}}\r"),
            ("with spaces", r#"{ "type": "ADDED", "object": {"a":{}} }"#),
            ("in the other order", r#"{"object":{"a":{}},"type":"ADDED"}"#),
        ] {
            let (kind, object) = split(line.as_bytes()).expect(case);
            assert_eq!((kind.as_ref(), object), ("ADDED", br#"{"a":{}}"#.as_slice()), "{case}");
        }
        assert!(split(b"<html>").is_none());
    }
}
