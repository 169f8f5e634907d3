//! Reads: stored bytes, concatenated. Objects are decoded only for tables.
//!
//! In: a get, list or watch with its options. Out: stored objects in the representation and version that was requested.
//! Promises: a list is one revision; a watch is ordered and complete, or ends with 410.

pub(crate) mod watch; // events as a stream of lines
pub(crate) mod selection; // labels, fields and namespace that objects must have
pub(crate) mod versions; // stored bytes in the requested version
pub(crate) mod representation; // objects, their metadata alone, or rows of a table
pub mod table; // objects as rows of a table

use std::sync::Arc;
use std::time::Duration;

use api::Revision;
use api::views::ObjectKey;
use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode};
use store::{ListPage, ListQuery, StoredObject};

use crate::read::representation::ResponseEncoder;
use crate::read::selection::Selection;
use crate::request::VersionMatch;
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};
use crate::server::{Call, json_response};
use crate::write;

/// How long a read waits for the store to reach the requested version.
const WAIT_FOR_VERSION: Duration = Duration::from_secs(3);

/// A list is written in frames of about this size, so that a large one is never in memory as a whole.
const FRAME_BYTES: usize = 64 * 1024;

/// One object.
pub(crate) fn get(call: &Call<'_>) -> ApiResult<Response<Body>> {
    let stored = call.state.store.get(&call.key()).ok_or_else(|| Status::not_found(call.resource, call.name()))?;
    Ok(write::stored_response(call, StatusCode::OK, &stored, &[]))
}

/// A collection, or one page of it.
pub(crate) async fn list(call: &Call<'_>) -> ApiResult<Response<Body>> {
    let options = &call.info.options;
    let selection = Selection::parse(call.resource, call.info)?;
    let mut query = ListQuery {
        namespace: selection.namespace().map(str::to_owned),
        limit: options.limit,
        ..ListQuery::all(&call.resource.store_name)
    };
    if let Some(token) = &options.continue_token {
        if options.resource_version.is_some_and(|version| version != Revision::ZERO) {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        let resume = ContinueToken::parse(token)
            .ok_or_else(|| Status::bad_request("continue key is not valid: the token cannot be read"))?;
        query.at = resume.at;
        query.after = Some(resume.after);
        // A token of an earlier store whose revisions were higher: its list cannot be continued, as one whose revision
        // is compacted.
        if query.at.is_some_and(|at| at > call.state.store.revision()) {
            return Err(expired_status(&query));
        }
    } else if let Some(version) = options.resource_version.filter(|&version| version != Revision::ZERO) {
        wait_for_version(call, version).await?;
        let exact = options.resource_version_match == Some(VersionMatch::Exact)
            // Upstream, for clients older than `resourceVersionMatch`: a page at a version means exactly that version.
            || (options.resource_version_match.is_none() && options.limit.is_some());
        query.at = exact.then_some(version);
    }
    match call.state.store.list(&query, &mut |stored| selection.matches(stored)) {
        Ok(page) => Ok(list_response(call, page, &selection)),
        Err(_) => Err(expired_status(&query)),
    }
}

/// Waits until the store has reached `version`; refuses the request after a timeout.
pub(crate) async fn wait_for_version(call: &Call<'_>, version: Revision) -> ApiResult<()> {
    let store = &call.state.store;
    if store.revision() >= version {
        return Ok(());
    }
    let reached = tokio::time::timeout(WAIT_FOR_VERSION, store.wait_for_revision(version)).await;
    reached.map_err(|_| Status::version_too_large(version, store.revision()))
}

fn expired_status(query: &ListQuery) -> Status {
    match &query.after {
        Some(after) => {
            let fresh = ContinueToken { at: None, after: after.clone() };
            Status::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new \
                 list without the continue parameter, or use the continue token in this response to retrieve the \
                 remainder of the results. Continuing with the provided token results in an inconsistent list - \
                 objects that were created, modified, or deleted between the time the first chunk was returned and \
                 now may show up in the list.",
            )
            .with_continue_token(fresh.encode())
        }
        None => Status::expired(format!(
            "The resourceVersion for the provided list is too old: {}",
            query.at.unwrap_or_default()
        )),
    }
}

/// The response to a list: `{"apiVersion":…,"items":[…],"kind":…,"metadata":{…}}`, or a table with rows.
pub(crate) fn list_response(call: &Call<'_>, page: ListPage, selection: &Selection) -> Response<Body> {
    let encoder = ResponseEncoder::new(call);
    let mut metadata = format!("\"resourceVersion\":\"{}\"", page.revision);
    if let Some(after) = page.continue_after {
        let token = ContinueToken { at: Some(page.revision), after }.encode();
        metadata = format!("\"continue\":\"{token}\",{metadata}");
        // With selectors the number of remaining matches is unknown.
        if selection.is_everything() {
            metadata = format!("{metadata},\"remainingItemCount\":{}", page.remaining);
        }
    }
    let frames = ListFrames {
        head: Some(encoder.list_head()),
        items: page.items.into_iter().peekable(),
        tail: encoder.list_tail(&metadata),
        encoder,
    };
    json_response(StatusCode::OK, Body::stream(stream::iter(frames)))
}

/// The frames of a list.
struct ListFrames {
    encoder: ResponseEncoder,
    /// Taken by the first frame.
    head: Option<String>,
    items: std::iter::Peekable<std::vec::IntoIter<Arc<StoredObject>>>,
    /// Empty once the last frame is written.
    tail: String,
}

impl Iterator for ListFrames {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.tail.is_empty() {
            return None;
        }
        let mut frame = self.head.take().unwrap_or_default().into_bytes();
        while frame.len() < FRAME_BYTES {
            let Some(stored) = self.items.next() else {
                frame.append(&mut std::mem::take(&mut self.tail).into_bytes());
                break;
            };
            self.encoder.append_item(&stored.bytes(), &mut frame);
            if self.items.peek().is_some() {
                frame.push(b',');
            }
        }
        Some(frame.into())
    }
}

/// Where a page ended.
#[derive(Debug, PartialEq)]
struct ContinueToken {
    /// The revision of all pages; `None` for the latest.
    at: Option<Revision>,
    after: ObjectKey,
}

impl ContinueToken {
    /// The token as text that only this server parses: hex, so that it needs no escaping.
    fn encode(&self) -> String {
        let at = self.at.map(|at| at.to_string()).unwrap_or_default();
        let text = format!("{at}/{}/{}", self.after.namespace, self.after.name);
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn parse(token: &str) -> Option<ContinueToken> {
        if !token.is_ascii() || !token.len().is_multiple_of(2) {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(&token[at..at + 2], 16).ok();
        let bytes: Vec<u8> = (0..token.len()).step_by(2).map(byte).collect::<Option<_>>()?;
        let text = String::from_utf8(bytes).ok()?;
        let mut parts = text.splitn(3, '/');
        let at = match parts.next()? {
            "" => None,
            // No list is at revision 0, which means "any" in requests.
            at => Some(Revision::parse(at).filter(|&at| at != Revision::ZERO)?),
        };
        let (namespace, name) = (parts.next()?, parts.next()?);
        Some(ContinueToken { at, after: ObjectKey::new(namespace, name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for at in [None, Some(Revision(7))] {
            let resume = ContinueToken { at, after: ObjectKey::new("a", "b-ü") };
            assert_eq!(ContinueToken::parse(&resume.encode()), Some(resume));
        }
        for token in ["", "0", "zz", "ffff", "2f", "302f2f", "ü1"] {
            assert_eq!(ContinueToken::parse(token), None, "{token}");
        }
    }
}
