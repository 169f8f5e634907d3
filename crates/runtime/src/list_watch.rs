//! Keeps a cache up to date: list, watch from there, fold every event in, resume after a cut, list anew when too old.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use api::views::{Meta, ObjectKey, View};
use api::{Random, Revision};
use futures::{AsyncBufRead, AsyncBufReadExt};
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::backoff::Backoff;
use crate::failure::{is_expired, is_not_found, message};
use crate::informer::{Cache, Event};
use crate::lines::Lines;
use crate::reach::Reach;
use crate::request;

/// After so long without a line a watch is begun anew where it was: its connection may be dead. Servers send a bookmark
/// every minute, with up to two seconds of delay, so that a living one is rarely met; what it costs is one request.
const SILENCE_MAX: Duration = Duration::from_secs(70);

/// How a list-watch behaves.
#[derive(Clone, Debug)]
pub struct ListWatchConfig {
    /// Objects per page of a list; `None` asks for all at once, which suits a server in the same process.
    pub page_limit: Option<u32>,
    /// The server ends a watch after this long, so that a dead connection cannot go unnoticed for ever. Below 295 s.
    pub watch_timeout: Duration,
    /// Waits between failed attempts.
    pub backoff: Backoff,
    /// Jitter for those waits; without it they are exact.
    pub random: Option<Random>,
    /// How often a server that does not serve the kind is asked whether it does now.
    pub unserved_pause: Duration,
    /// Is told whether the server answers, and says when all watches are to begin anew.
    pub reach: Option<Reach>,
}

impl Default for ListWatchConfig {
    fn default() -> Self {
        ListWatchConfig {
            page_limit: Some(500),
            watch_timeout: Duration::from_secs(290),
            backoff: Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(10) },
            random: None,
            unserved_pause: Duration::from_secs(30),
            reach: None,
        }
    }
}

/// Keeps `cache` up to date with what `client`'s server has, for ever. Of a kind that the server does not serve there
/// is nothing, which is known as soon as the server says so.
pub async fn keep<V: View>(client: Client, cache: Cache<V>, config: ListWatchConfig) {
    let plural = V::RESOURCE.plural;
    let mut from = None;
    let mut failures = 0;
    let mut unserved = false;
    loop {
        let restarts = config.restarts();
        let outcome = match from {
            None => {
                list(&client, &cache, &config).await.map(|revision| Ended { last: Some(revision), progressed: false })
            }
            Some(revision) => watch(&client, &cache, &config, revision, restarts).await,
        };
        let listed = from.is_none();
        // A watch told when it began. That it has ended says nothing of a server that may be frozen since.
        if listed || outcome.is_err() {
            config.tell_reach(plural, outcome.as_ref().err());
        }
        match outcome {
            Err(Broken { error, .. }) if is_not_found(&error) => {
                if !std::mem::replace(&mut unserved, true) {
                    tracing::info!("{}: the server does not serve {plural}", V::RESOURCE.api_version());
                }
                cache.replace(Vec::new(), &BTreeSet::new(), Revision::ZERO);
                cache.clear_up(cache.doubts());
                (from, failures) = (None, 0);
                config.pause(config.unserved_pause, restarts).await;
                continue;
            }
            // A watch that ends without a word may do so again at once; a list is always followed by a watch.
            Ok(ended) => {
                failures = if ended.progressed { 0 } else { failures + u32::from(!listed) };
                from = ended.last;
                if std::mem::take(&mut unserved)
                    && let Some(reach) = &config.reach
                {
                    reach.renewed(plural);
                }
                if listed || from.is_none() {
                    continue;
                }
            }
            Err(Broken { error, resume, progressed }) => {
                failures = if progressed { 1 } else { failures + 1 };
                tracing::debug!("{plural}: {} failed: {}", if listed { "list" } else { "watch" }, message(&error));
                from = resume;
                // The first relist after a 410 is due at once; only a server that keeps saying it is waited for.
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
    /// A server that answers, if only to say that it knows no such kind or revision, is in reach.
    fn tell_reach(&self, kind: &'static str, broken: Option<&Broken>) {
        let Some(reach) = &self.reach else { return };
        match broken.map(|broken| &broken.error).filter(|error| !is_not_found(error) && !is_expired(error)) {
            Some(error) => reach.failed(kind, error),
            None => reach.answered(kind),
        }
    }

    /// How often all watches were begun anew so far.
    fn restarts(&self) -> u64 {
        self.reach.as_ref().map_or(0, Reach::restarts)
    }

    /// Returns when all watches are to begin anew once more.
    async fn restarted(&self, restarts: u64) {
        match &self.reach {
            Some(reach) => reach.restarted(restarts).await,
            None => std::future::pending().await,
        }
    }

    /// Waits, but no longer than until all watches begin anew: the server is there again.
    async fn pause(&self, delay: Duration, restarts: u64) {
        tokio::select! { biased;
            () = self.restarted(restarts) => {}
            () = tokio::time::sleep(delay) => {}
        }
    }

    /// The watch of `kind` is silent although it had spoken before: its connection is dead, and others may be.
    fn tell_silence(&self, kind: &'static str) {
        if let Some(reach) = &self.reach {
            tracing::info!("{kind}: neither an event nor a bookmark for {SILENCE_MAX:?}; all watches begin anew");
            reach.restart();
        }
    }
}

/// A list or watch that came to its regular end.
struct Ended {
    /// Where the next watch begins; `None`: list anew.
    last: Option<Revision>,
    /// Whether the server said anything at all.
    progressed: bool,
}

/// A list or watch that failed.
struct Broken {
    error: Error,
    /// Where the next watch begins; `None`: list anew.
    resume: Option<Revision>,
    /// Whether it had brought anything before it failed.
    progressed: bool,
}

/// Reads the whole collection, page by page, and folds it in. Returns the revision the watch begins at.
async fn list<V: View>(client: &Client, cache: &Cache<V>, config: &ListWatchConfig) -> Result<Revision, Broken> {
    let broken = |error| Broken { error, resume: None, progressed: false };
    let mut params = ListParams { limit: config.page_limit, ..ListParams::default() };
    let (mut objects, mut unread) = (Vec::new(), BTreeSet::new());
    let doubts = cache.doubts();
    loop {
        let request = Request::new(V::RESOURCE.path()).list(&params);
        let request = request.map_err(|error| broken(Error::BuildRequest(error)))?;
        let bytes = request::send(client, request.map(Body::from)).await.map_err(broken)?;
        let page: Page = serde_json::from_slice(&bytes).map_err(|error| broken(Error::SerdeError(error)))?;
        for item in page.items {
            match decode::<V>(item.get().as_bytes()) {
                Ok(object) => objects.push(object),
                Err(error) => unread.extend(skip::<V>(item.get().as_bytes(), &error)),
            }
        }
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token.into_owned()),
            None => {
                let revision = page.metadata.resource_version;
                cache.replace(objects, &unread, revision);
                cache.clear_up(doubts);
                return Ok(revision);
            }
        }
    }
}

/// Follows changes after `from` until the server ends the watch or it breaks.
async fn watch<V: View>(
    client: &Client,
    cache: &Cache<V>,
    config: &ListWatchConfig,
    from: Revision,
    restarts: u64,
) -> Result<Ended, Broken> {
    let timeout = u32::try_from(config.watch_timeout.as_secs()).unwrap_or(290).clamp(1, 294);
    let params = WatchParams::default().timeout(timeout);
    let request = Request::new(V::RESOURCE.path()).watch(&params, &from.to_string());
    let request =
        request.map_err(|error| Broken { error: Error::BuildRequest(error), resume: None, progressed: false })?;
    // The answer begins at once, whenever the first event comes.
    let body = request::within(request::DEADLINE, client.request_stream(request)).await.map_err(|error| {
        let resume = Some(from).filter(|_| !is_expired(&error));
        Broken { error, resume, progressed: false }
    })?;
    // Not only when it ends: that may be minutes away.
    config.tell_reach(V::RESOURCE.plural, None);
    follow(std::pin::pin!(body), cache, config, from, restarts).await
}

/// Folds the lines of `body` in, one lock and one wake-up for all that arrive together; ends when nothing came for too
/// long, when all watches begin anew, or when the cache is said to be wrong.
async fn follow<V: View>(
    mut body: std::pin::Pin<&mut impl AsyncBufRead>,
    cache: &Cache<V>,
    config: &ListWatchConfig,
    from: Revision,
    restarts: u64,
) -> Result<Ended, Broken> {
    let mut lines = Lines::default();
    let (mut last, mut progressed) = (from, false);
    loop {
        let came = tokio::select! { biased;
            () = cache.doubted() => return Ok(Ended { last: None, progressed: true }),
            came = body.fill_buf() => came,
            () = config.restarted(restarts) => return Ok(Ended { last: Some(last), progressed: true }),
            () = tokio::time::sleep(SILENCE_MAX) => {
                // Servers send no bookmarks of a kind of which nothing was ever written: that silence means nothing.
                if progressed {
                    config.tell_silence(V::RESOURCE.plural);
                }
                return Ok(Ended { last: Some(last), progressed: true });
            }
        };
        let chunk = came.map_err(|error| {
            // What was folded in stays; the next watch goes on from there.
            Broken { error: Error::ReadEvents(error), resume: Some(last), progressed }
        })?;
        if chunk.is_empty() {
            return Ok(Ended { last: Some(last), progressed });
        }
        let length = chunk.len();
        let (mut events, mut ended) = (Vec::new(), None);
        lines.push(chunk, |line| match read(line) {
            _ if ended.is_some() => {}
            Line::Event(event, revision) => {
                last = last.max(revision);
                events.extend(event);
            }
            Line::Error(status) => ended = Some(status),
        });
        body.as_mut().consume(length);
        progressed |= !events.is_empty() || last > from;
        cache.fold(events, last);
        if let Some(status) = ended {
            return Err(Broken { error: Error::Api(status), resume: None, progressed });
        }
    }
}

/// One line of a watch.
enum Line<V> {
    /// What to fold in (nothing for a bookmark or an object that does not decode) and how far the watch has come.
    Event(Option<Event<V>>, Revision),
    /// The server gave up on this watch.
    Error(Box<Status>),
}

fn read<V: View>(line: &[u8]) -> Line<V> {
    let Some((kind, object)) = split(line) else {
        tracing::error!("{}: a line of the watch is no event: {}", V::RESOURCE.plural, String::from_utf8_lossy(line));
        return Line::Event(None, Revision::ZERO);
    };
    match kind.as_ref() {
        "ADDED" | "MODIFIED" => match decode::<V>(object) {
            Ok(object) => {
                let revision = object.meta().resource_version;
                Line::Event(Some(Event::Put(object)), revision)
            }
            Err(error) => {
                skip::<V>(object, &error);
                Line::Event(None, peek(object).resource_version)
            }
        },
        "DELETED" => {
            let meta = peek(object);
            Line::Event(Some(Event::Gone(meta.key())), meta.resource_version)
        }
        "BOOKMARK" => Line::Event(None, peek(object).resource_version),
        "ERROR" => {
            let status = serde_json::from_slice::<Status>(object);
            Line::Error(status.unwrap_or_else(|error| Status::failure(&error.to_string(), "Unknown")).boxed())
        }
        other => {
            tracing::error!("{}: the watch has an event of unknown type {other}", V::RESOURCE.plural);
            Line::Event(None, Revision::ZERO)
        }
    }
}

/// The type and the object of `{"type":"ADDED","object":{…}}`.
///
/// Servers write exactly this form, so the object's bytes are found without a pass over them; a line in any other form
/// is parsed.
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
    struct Parsed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let parsed: Parsed = serde_json::from_slice(line).ok()?;
    Some((parsed.kind, parsed.object.get().as_bytes()))
}

/// An object as the cache keeps it.
fn decode<V: View>(object: &[u8]) -> Result<V, serde_json::Error> {
    let mut view = V::decode(object)?;
    view.lighten();
    Ok(view)
}

/// Logs an object that does not decode and returns its key, if that much can be read. One bad object must not blind
/// us to all others.
fn skip<V: View>(object: &[u8], error: &serde_json::Error) -> Option<ObjectKey> {
    let meta = peek(object);
    tracing::error!("{} {}: skipped, it does not decode: {error}", V::RESOURCE.plural, meta.key());
    Some(meta.key()).filter(|key| !key.name.is_empty())
}

/// The metadata of any object, empty where even that does not decode.
fn peek(object: &[u8]) -> Meta {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Peek {
        metadata: Meta,
    }
    serde_json::from_slice::<Peek>(object).unwrap_or_default().metadata
}

/// One page of a list, its items as text.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    metadata: PageMeta<'a>,
    #[serde(borrow, default, deserialize_with = "items")]
    items: Vec<&'a RawValue>,
}

/// A Go server may write an empty list as null.
fn items<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<&'a RawValue>, D::Error> {
    Ok(Option::<Vec<&'a RawValue>>::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta<'a> {
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
