//! Answers of others in the process, below a path of their own. They only read; whoever may ask the server may ask them.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde_json::Value;

use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};
use crate::server::json_response;

/// Below this they answer.
const ROOT: &str = "/apis/phalanx.dev/v1alpha1";

/// What somebody else in the process answers.
#[derive(Clone, Debug, PartialEq)]
pub enum ExtensionResponse {
    /// This document.
    Document(Value),
    /// Nothing, because of that; with its code of HTTP.
    Refused(u16, String),
}

/// Answers the rest of a path with its query; none where nothing is there.
pub type ExtensionHandler = Arc<dyn Fn(&str, &str) -> BoxFuture<'static, Option<ExtensionResponse>> + Send + Sync>;

/// The answer to a request below the path of the others; none for all other requests.
pub(crate) async fn respond(others: &ExtensionHandler, request: &Parts) -> Option<ApiResult<Response<Body>>> {
    let rest = request.uri.path().strip_prefix(ROOT).filter(|rest| rest.starts_with('/'))?;
    if request.method != Method::GET && request.method != Method::HEAD {
        return Some(Err(Status::method_not_allowed()));
    }
    Some(match others(rest, request.uri.query().unwrap_or_default()).await {
        Some(ExtensionResponse::Document(document)) => {
            Ok(json_response(StatusCode::OK, Body::whole(document.to_string().into())))
        }
        Some(ExtensionResponse::Refused(code, why)) => Err(Status::from_code(code, why)),
        None => Err(Status::unknown_path()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::FutureExt;
    use http::Request;

    #[test]
    fn others_answer_reads_below_their_own_path_and_nowhere_else() {
        let others: ExtensionHandler = Arc::new(|path, _| {
            let answer = match path {
                "/queue" => Some(ExtensionResponse::Document(Value::Null)),
                "/explain" => Some(ExtensionResponse::Refused(503, "nobody is there".to_owned())),
                _ => None,
            };
            std::future::ready(answer).boxed()
        });
        for (method, path, want) in [
            ("GET", "/apis/phalanx.dev/v1alpha1/queue", Some(200)),
            ("GET", "/apis/phalanx.dev/v1alpha1/explain?kind=pod", Some(503)),
            ("GET", "/apis/phalanx.dev/v1alpha1/secrets", Some(404)),
            ("POST", "/apis/phalanx.dev/v1alpha1/queue", Some(405)),
            ("GET", "/apis/phalanx.dev/v1alpha1", None),
            ("GET", "/apis/phalanx.dev/v1alpha10/queue", None),
            ("GET", "/apis/batch/v1/jobs", None),
        ] {
            let (request, ()) = Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
            let answered = respond(&others, &request).now_or_never().unwrap();
            let code = answered.map(|answer| answer.unwrap_or_else(Status::into_response).status().as_u16());
            assert_eq!(code, want, "{method} {path}");
        }
    }
}
