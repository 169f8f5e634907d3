//! The token with which a client requests the next page of a list.
//!
//! Input: a letter, a digit for the page size and the collection (`ListOptions`), and the token: as it is (`t`), before
//! it is encoded (`d`), or before it is encoded with a revision as many writes back as its digit (`o`). For
//! any token the response is the rest of the list at the token's revision, page by page without gap or repetition, or
//! an error. The error for an expired token has a new one.

use std::sync::LazyLock;
use std::time::Duration;

use api::Revision;
use api::views::ObjectKey;
use http::StatusCode;
use serde_json::{Value, json};
use store::HistoryLimits;

use super::FuzzOutcome;
use super::checked_server::{CheckedResponse, CheckedServer, JSON, percent_encoded};

/// The list request, by the low bits of one byte.
struct ListOptions {
    /// Bits 0 and 1, plus one.
    limit: usize,
    /// Bits 2 and 3.
    collection: &'static str,
}

impl ListOptions {
    fn from_bits(bits: u8) -> ListOptions {
        let collections = ["/api/v1/pods", "/api/v1/namespaces/default/pods", "/api/v1/namespaces", "/api/v1/nodes"];
        ListOptions { limit: usize::from(bits & 3) + 1, collection: collections[usize::from(bits >> 2 & 3)] }
    }
}

/// Checks one input.
pub fn check(input: &[u8]) -> FuzzOutcome {
    static SERVER_WITH_PODS: LazyLock<(CheckedServer, u64)> =
        LazyLock::new(|| crate::on_paused_clock(server_with_pods()));
    let (server, now) = &*SERVER_WITH_PODS;
    let Some((&[letter, options], token)) = input.split_first_chunk() else { return FuzzOutcome::Refused };
    let encoded = |text: &[u8]| -> String { text.iter().map(|byte| format!("{byte:02x}")).collect() };
    let token = match (letter, token) {
        (b't', token) => String::from_utf8_lossy(token).into_owned(),
        (b'o', [back, rest @ ..]) => encoded((now - u64::from(back & 15)).to_string().as_bytes()) + &encoded(rest),
        (_, token) => encoded(token),
    };
    if token.is_empty() {
        return FuzzOutcome::Refused; // Without a token the list starts at its beginning.
    }
    crate::on_paused_clock(follow_pages(server, &ListOptions::from_bits(options), &token))
}

async fn follow_pages(server: &CheckedServer, options: &ListOptions, token: &str) -> FuzzOutcome {
    let rest = server.get(&path(options.collection, None, token)).await;
    match rest.code {
        StatusCode::OK => {}
        StatusCode::GONE => {
            let fresh = rest.text("/metadata/continue");
            assert!(!fresh.is_empty(), "an expired token gets a new one");
            assert_eq!(
                server.get(&path(options.collection, None, fresh)).await.code,
                StatusCode::OK,
                "the new token works"
            );
            return FuzzOutcome::Refused;
        }
        code => {
            assert_eq!(code, StatusCode::BAD_REQUEST, "{}", rest.value);
            return FuzzOutcome::Refused;
        }
    }
    if let Some((at, after)) = decode_token(token) {
        assert_eq!(rest.text("/metadata/resourceVersion"), at, "the list is at the token's revision");
        let exact = format!("resourceVersion={at}&resourceVersionMatch=Exact");
        let whole = server
            .get(&format!("{}?{exact}", options.collection))
            .await
            .expect_success("a list of all objects at the same revision");
        let after_key: Vec<&Value> = items(&whole).iter().filter(|item| key(item) > after).collect();
        assert_eq!(items(&rest).iter().collect::<Vec<_>>(), after_key, "all objects after {after}");
    }
    let (mut pages, mut next) = (Vec::new(), token.to_owned());
    while !next.is_empty() {
        let page =
            server.get(&path(options.collection, Some(options.limit), &next)).await.expect_success("the next page");
        let version = page.text("/metadata/resourceVersion");
        assert_eq!(version, rest.text("/metadata/resourceVersion"), "all pages are at one revision");
        next = page.text("/metadata/continue").to_owned();
        let remaining = page.value["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        assert_eq!(remaining > 0, !next.is_empty(), "there is a next page if items remain");
        assert!(items(&page).len() == options.limit || next.is_empty(), "every page but the last is full");
        pages.extend(items(&page).iter().cloned());
        let total = pages.len() + remaining as usize;
        assert_eq!(total, items(&rest).len(), "each page counts the remaining items");
    }
    assert_eq!(pages, *items(&rest), "the pages together are the whole list");
    assert!(pages.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])), "items are in order and unique");
    FuzzOutcome::Accepted
}

fn path(collection: &str, limit: Option<usize>, token: &str) -> String {
    let limit = limit.map(|limit| format!("limit={limit}&")).unwrap_or_default();
    format!("{collection}?{limit}continue={}", percent_encoded(token))
}

fn items(list: &CheckedResponse) -> &Vec<Value> {
    list.value["items"].as_array().expect("a list has items")
}

fn key(item: &Value) -> ObjectKey {
    let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}

/// The revision and the key of a token, if the server could have written it and it has a revision.
fn decode_token(token: &str) -> Option<(String, ObjectKey)> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let bytes = token.as_bytes().chunks(2).map(|pair| Some(digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?));
    let text = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
    let mut parts = text.splitn(3, '/');
    let at = Revision::parse(parts.next()?)?;
    Some((at.to_string(), ObjectKey::new(parts.next()?, parts.next()?)))
}

/// A server with pods in two namespaces whose history is compacted except for the last few changes, and its revision.
async fn server_with_pods() -> (CheckedServer, u64) {
    let server =
        CheckedServer::new(HistoryLimits { max_history_bytes: 8 << 10, max_history_age: Duration::from_secs(3600) });
    let created =
        server.request("POST", "/api/v1/namespaces", JSON, json!({"metadata": {"name": "other"}}).to_string()).await;
    created.expect_success("a second namespace");
    for round in 0..4 {
        for (namespace, name) in
            [("default", "a"), ("default", "b"), ("default", "b-2"), ("other", "a"), ("other", "c")]
        {
            let collection = format!("/api/v1/namespaces/{namespace}/pods");
            let pod = json!({"metadata": {"name": name, "labels": {"round": round.to_string()}},
                "spec": {"containers": [{"name": "main", "image": "main"}]}});
            let deleted = (round + name.len()) % 3 == 0;
            let object = format!("{collection}/{name}");
            if round > 0 {
                // Fails for names that the last round deleted.
                server
                    .request(
                        "PATCH",
                        &object,
                        "application/merge-patch+json",
                        json!({"metadata": pod["metadata"]}).to_string(),
                    )
                    .await;
            }
            server.request("POST", &collection, JSON, pod.to_string()).await;
            if deleted {
                server.request("DELETE", &object, JSON, "").await.expect_success("a pod can be deleted");
            }
        }
    }
    let now = server.get("/api/v1/pods").await.text("/metadata/resourceVersion").parse().expect("a revision");
    (server, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_of_the_list_is_partly_compacted() {
        crate::on_paused_clock(async {
            let (server, now) = server_with_pods().await;
            assert!(items(&server.get("/api/v1/pods").await).len() >= 3);
            let exact = |at: u64| format!("/api/v1/pods?resourceVersion={at}&resourceVersionMatch=Exact");
            assert_eq!(server.get(&exact(2)).await.code, StatusCode::GONE);
            assert_eq!(server.get(&exact(now - 3)).await.code, StatusCode::OK);
        });
    }
}
