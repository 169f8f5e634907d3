//! The extension API: responses of other components in the process, below a path of their own. They are read-only,
//! with the same authentication as the server.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::request::Parts;
use http::{Method, Response, StatusCode};

use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};
use crate::server::json_response;

/// The root of the extension API.
const ROOT: &str = "/apis/phalanx.dev/v1alpha1";

/// The response of an extension, sent as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionResponse {
    /// HTTP status code.
    pub code: u16,
    /// JSON; for an error a `Status`.
    pub body: String,
}

/// Handles the rest of a path with its query; `None` for an unknown path.
pub type ExtensionHandler = Arc<dyn Fn(&str, &str) -> BoxFuture<'static, Option<ExtensionResponse>> + Send + Sync>;

/// The part of a path below the root of the extension API; `None` for all other paths.
pub(crate) fn subpath(path: &str) -> Option<&str> {
    path.strip_prefix(ROOT).filter(|rest| rest.starts_with('/'))
}

/// The response to a request for `subpath`.
pub(crate) async fn respond(handler: &ExtensionHandler, subpath: &str, request: &Parts) -> ApiResult<Response<Body>> {
    if request.method != Method::GET && request.method != Method::HEAD {
        return Err(Status::method_not_allowed());
    }
    match handler(subpath, request.uri.query().unwrap_or_default()).await {
        Some(ExtensionResponse { code, body }) => {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Ok(json_response(code, Body::whole(body.into())))
        }
        None => Err(Status::unknown_path()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::FutureExt;
    use http::Request;

    #[test]
    fn extensions_handle_reads_below_their_own_path_only() {
        let handler: ExtensionHandler = Arc::new(|path, _| {
            let code = match path {
                "/queue" => Some(200),
                "/explain" => Some(503),
                _ => None,
            };
            let response = code.map(|code| ExtensionResponse { code, body: "{}".to_owned() });
            std::future::ready(response).boxed()
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
            let code = subpath(request.uri.path()).map(|subpath| {
                let result = respond(&handler, subpath, &request).now_or_never().unwrap();
                result.unwrap_or_else(Status::into_response).status().as_u16()
            });
            assert_eq!(code, want, "{method} {path}");
        }
    }
}
