//! Single requests: a path in, the server's JSON out. Warnings of the server are printed.

use futures::{AsyncBufRead, TryStreamExt};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use kube::{Client, Error};
use serde_json::Value;

/// Whole objects.
pub const JSON: &str = "application/json";
/// A table from the server, or objects if it has none.
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// Lists of metadata only; whole objects if the server cannot.
pub const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
/// RFC 7386.
pub const MERGE_PATCH: &str = "application/merge-patch+json";

/// Objects per page of a list.
const PAGE_SIZE: &str = "500";

/// Reads `path`, in the first format of `accept` that the server supports.
pub async fn get(client: &Client, path: &str, accept: &str) -> Result<Value, Error> {
    let (response, warnings) = send(client, request(Method::GET, path, accept).body(Body::from(Vec::new()))).await;
    print_warnings(&warnings);
    response
}

/// Reads the collection at `path` page by page. The result has the `items` (or `rows`) of all pages.
pub async fn list(client: &Client, path: &str, options: &[(&str, &str)], accept: &str) -> Result<Value, Error> {
    let page = |more: &[(&str, &str)]| format!("{path}{}", query(&[options, more].concat()));
    let mut all = get(client, &page(&[("limit", PAGE_SIZE)]), accept).await?;
    while let Some(token) = all["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned) {
        let mut next = match get(client, &page(&[("limit", PAGE_SIZE), ("continue", &token)]), accept).await {
            // The revision of the first page is compacted: list again without pages.
            Err(Error::Api(status)) if status.code == 410 => return get(client, &page(&[]), accept).await,
            response => response?,
        };
        for field in ["items", "rows"] {
            let found = next.get_mut(field).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
            if let Some(collected) = all.get_mut(field).and_then(Value::as_array_mut) {
                collected.extend(found);
            }
        }
        if let (Some(collected), Some(next_metadata)) = (all.get_mut("metadata"), next.get_mut("metadata")) {
            *collected = next_metadata.take();
        }
    }
    Ok(all)
}

/// Sends `body` to `path`.
pub async fn write(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<Value, Error> {
    let (response, warnings) = write_with_warnings(client, method, path, content_type, body).await;
    print_warnings(&warnings);
    response
}

/// The same, with the server's warnings returned instead of printed. A refused write has warnings too.
pub async fn write_with_warnings(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> (Result<Value, Error>, Vec<String>) {
    let body = serde_json::to_vec(body).expect("a JSON value can always be serialized");
    send(client, request(method, path, JSON).header(CONTENT_TYPE, content_type).body(Body::from(body))).await
}

fn print_warnings(warnings: &[String]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

/// Opens `path` as a stream of bytes: a watch or a log.
pub async fn stream(client: &Client, path: &str, accept: &str) -> Result<impl AsyncBufRead + use<>, Error> {
    let request = request(Method::GET, path, accept).body(Body::from(Vec::new())).map_err(Error::HttpError)?;
    let (parts, body) = client.send(request).await?.into_parts();
    if !parts.status.is_success() {
        return Err(error_from_response(parts.status, &body.collect().await?.to_bytes()));
    }
    Ok(body.into_data_stream().map_err(std::io::Error::other).into_async_read())
}

/// `?a=b&c=d`, or nothing.
pub fn query(options: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = options.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// `text` escaped for a path or a query.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte as char),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn request(method: Method, path: &str, accept: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path).header(ACCEPT, accept)
}

/// The response body and the warnings in its headers.
async fn send(client: &Client, request: Result<Request<Body>, http::Error>) -> (Result<Value, Error>, Vec<String>) {
    let mut warnings = Vec::new();
    let response = send_collecting(client, request, &mut warnings).await;
    (response, warnings)
}

async fn send_collecting(
    client: &Client,
    request: Result<Request<Body>, http::Error>,
    warnings: &mut Vec<String>,
) -> Result<Value, Error> {
    let response = client.send(request.map_err(Error::HttpError)?).await?;
    let (parts, body) = response.into_parts();
    let headers = parts.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
    warnings.extend(headers.filter_map(warning_text));
    let bytes = body.collect().await?.to_bytes();
    if parts.status.is_success() {
        return serde_json::from_slice(&bytes).map_err(Error::SerdeError);
    }
    Err(error_from_response(parts.status, &bytes))
}

/// The error in a response that is not a success.
fn error_from_response(code: StatusCode, body: &[u8]) -> Error {
    let mut status = serde_json::from_slice::<Status>(body).unwrap_or_default();
    status.code = code.as_u16();
    if status.message.is_empty() {
        // Not from a Kubernetes server but, for example, from a proxy.
        let start: String = String::from_utf8_lossy(body).chars().take(200).collect();
        status.message = format!("{code}: {}", start.trim());
    }
    Error::Api(Box::new(status))
}

/// The text in `299 - "text"`, unquoted.
fn warning_text(header: &str) -> Option<String> {
    let quoted = header.get(header.find('"')? + 1..header.rfind('"')?)?;
    Some(quoted.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// The items of a list; none if it is not a list.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A string; empty if it is not one.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{escape, query, warning_text};

    #[test]
    fn queries_are_escaped() {
        assert_eq!(query(&[]), "");
        assert_eq!(query(&[("a", "x in (y,z)"), ("b", "ü&")]), "?a=x%20in%20%28y%2Cz%29&b=%C3%BC%26");
        assert_eq!(escape("../x"), "..%2Fx", "a name cannot change the path");
    }

    #[test]
    fn warnings_are_unquoted() {
        assert_eq!(warning_text(r#"299 - "unknown field \"spec.x\"""#).as_deref(), Some(r#"unknown field "spec.x""#));
        assert_eq!(warning_text("299 - nothing"), None);
        assert_eq!(warning_text("\""), None);
    }
}
