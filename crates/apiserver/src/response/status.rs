//! Refusals and confirmations: the one place where an HTTP `Status` is made.

use api::field::ErrorList;
use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde::Serialize;

use crate::resources::resource::Resource;
use crate::response::body::Body;

/// What most functions of the pipeline return: a value, or the refusal to send.
pub type ApiResult<T> = Result<T, Status>;

/// A `Status` object before it is serialized: the result of a request in the terms of the Kubernetes API.
#[derive(Debug)]
pub struct Status {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Option<Box<StatusDetails>>,
    /// `metadata.continue`, for the only refusal that lets a list continue.
    continue_token: Option<Box<str>>,
    /// Warnings collected before the refusal.
    warnings: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusDetails {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<StatusCause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u32>,
}

#[derive(Debug, Serialize)]
struct StatusCause {
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
}

impl Status {
    /// 400: the request cannot be parsed.
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::plain(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 404: there is no such object.
    pub fn not_found(resource: &Resource, name: &str) -> Status {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Status::for_object(StatusCode::NOT_FOUND, "NotFound", resource, name, message)
    }

    /// 404: nothing is served at this path.
    pub fn unknown_path() -> Status {
        let message = "the server could not find the requested resource";
        let mut status = Status::plain(StatusCode::NOT_FOUND, "NotFound", message);
        // Clients expect details, and look for an object's name there.
        let cause = StatusCause {
            reason: "UnexpectedServerResponse",
            message: "404 page not found".to_owned(),
            field: String::new(),
        };
        status.details = Some(Box::new(StatusDetails { causes: vec![cause], ..StatusDetails::default() }));
        status
    }

    /// 405: the resource does not have this verb.
    pub fn method_not_allowed() -> Status {
        let message = "the server does not allow this method on the requested resource";
        Status::plain(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 409: an object of this name exists already.
    pub fn already_exists(resource: &Resource, name: &str) -> Status {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Status::for_object(StatusCode::CONFLICT, "AlreadyExists", resource, name, message)
    }

    /// 409: every generated name exists already. The client can retry.
    pub fn no_free_name(resource: &Resource, name: &str) -> Status {
        let message = format!(
            "{} \"{name}\" already exists, the server was not able to generate a unique name for the object",
            resource.qualified()
        );
        let mut status = Status::for_object(StatusCode::CONFLICT, "AlreadyExists", resource, name, message);
        status.details.get_or_insert_default().retry_after_seconds = Some(1);
        status
    }

    /// 409: the state of the object does not allow the write, for the given reason.
    pub fn conflict(resource: &Resource, name: &str, cause: &str) -> Status {
        Status::conflict_on(resource, resource.qualified(), name, cause)
    }

    /// 409 for a subresource: `pods/binding`.
    pub fn subresource_conflict(resource: &Resource, subresource: &str, name: &str, cause: &str) -> Status {
        Status::conflict_on(resource, format!("{}/{subresource}", resource.plural), name, cause)
    }

    fn conflict_on(resource: &Resource, what: String, name: &str, cause: &str) -> Status {
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {cause}");
        Status::for_object(StatusCode::CONFLICT, "Conflict", resource, name, message)
    }

    /// 409: the object changed since the `resourceVersion` of the request.
    pub fn modified(resource: &Resource, name: &str) -> Status {
        let cause = "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(resource, name, cause)
    }

    /// 422: the object is invalid; every error is a cause.
    pub fn invalid(resource: &Resource, name: &str, errors: &ErrorList) -> Status {
        let kind = resource.qualified_kind();
        let mut status = Status::invalid_named(&kind, name, errors);
        let details = status.details.get_or_insert_default();
        details.group = resource.storage_group;
        details.kind = resource.kind;
        status
    }

    /// 422 for something that is not an object of a resource, such as `ListOptions.meta.k8s.io`.
    pub fn invalid_named(kind: &str, name: &str, errors: &ErrorList) -> Status {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let list = if let [only] = texts.as_slice() { only.clone() } else { format!("[{}]", texts.join(", ")) };
        let causes = errors
            .iter()
            .map(|error| StatusCause {
                reason: error.kind.reason(),
                message: error.message(),
                field: error.path.as_str().to_owned(),
            })
            .collect();
        let mut status =
            Status::plain(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", format!("{kind} \"{name}\" is invalid: {list}"));
        status.details = Some(Box::new(StatusDetails { name: name.to_owned(), causes, ..StatusDetails::default() }));
        status
    }

    /// 422: the patch does not apply to the object.
    pub fn patch_does_not_apply(cause: impl Into<String>) -> Status {
        let message = "the server rejected our request due to an error in our request";
        let mut status = Status::plain(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        let cause = StatusCause { reason: "UnexpectedServerResponse", message: cause.into(), field: String::new() };
        status.details = Some(Box::new(StatusDetails { causes: vec![cause], ..StatusDetails::default() }));
        status
    }

    /// 403: refused by admission.
    pub fn forbidden(resource: &Resource, name: &str, cause: &str) -> Status {
        let message = format!("{} \"{name}\" is forbidden: {cause}", resource.qualified());
        Status::for_object(StatusCode::FORBIDDEN, "Forbidden", resource, name, message)
    }

    /// 403: nothing can be created in a terminating namespace. Clients recognize it by the cause.
    pub fn namespace_terminating(resource: &Resource, name: &str, namespace: &str) -> Status {
        let cause = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(resource, name, &cause);
        status.details.get_or_insert_default().causes.push(StatusCause {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        status
    }

    /// 507: the storage is full. Writes that need space are refused until space is freed.
    // Upstream: etcd's quota makes writes fail with 500 and "mvcc: database space exceeded" until an administrator
    // disarms the alarm.
    pub fn insufficient_storage(space: store::FreeSpace) -> Status {
        let message = format!(
            "the data directory is full: {} MiB free, {} MiB are reserved; delete objects or free space",
            space.free_bytes >> 20,
            space.reserve_bytes >> 20
        );
        Status::plain(StatusCode::INSUFFICIENT_STORAGE, "InsufficientStorage", message)
    }

    /// 401: the client is not authenticated.
    pub fn unauthorized() -> Status {
        Status::plain(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403: the client has no rights for the request.
    pub fn denied(message: impl Into<String>) -> Status {
        Status::plain(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// 431: the headers are too large.
    pub fn headers_too_large(max_bytes: usize) -> Status {
        let message = format!("the header of the request is too large: limit is {max_bytes}");
        Status::plain(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "RequestHeaderFieldsTooLarge", message)
    }

    /// 504: the request took too long.
    pub fn timeout(message: impl Into<String>) -> Status {
        Status::plain(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
    }

    /// 410: the requested version was compacted.
    pub fn expired(message: impl Into<String>) -> Status {
        Status::plain(StatusCode::GONE, "Expired", message)
    }

    /// The same refusal with a continue token that works.
    #[must_use]
    pub fn with_continue_token(mut self, token: String) -> Status {
        self.continue_token = Some(token.into());
        self
    }

    /// 406: the client accepts no served form.
    pub fn not_acceptable() -> Status {
        let message = "only the following media types are accepted: application/json";
        Status::plain(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 413: the body is too large.
    pub fn too_large(message: impl Into<String>) -> Status {
        Status::plain(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// 415: the media type of the body is not supported.
    pub fn unsupported_media_type(message: impl Into<String>) -> Status {
        Status::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 504: the requested revision is higher than the store's.
    pub fn version_too_large(requested: api::Revision, current: api::Revision) -> Status {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = StatusCause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let mut status = Status::plain(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        let details = StatusDetails { causes: vec![cause], retry_after_seconds: Some(1), ..StatusDetails::default() };
        status.details = Some(Box::new(details));
        status
    }

    /// 429: too many requests in flight.
    pub fn too_many_requests() -> Status {
        let message = "Too many requests, please try again later.";
        let mut status = Status::plain(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        status.details.get_or_insert_default().retry_after_seconds = Some(1);
        status
    }

    /// 429: the pod's disruption budget does not allow its eviction, or not yet. Clients recognize it by the cause.
    pub fn over_budget(cause: String, retry_after_seconds: u32) -> Status {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut status = Status::plain(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        let details = status.details.get_or_insert_default();
        details.retry_after_seconds = (retry_after_seconds > 0).then_some(retry_after_seconds);
        details.causes.push(StatusCause { reason: "DisruptionBudget", message: cause, field: String::new() });
        status
    }

    /// 500: the store failed, and only the next start shows what is stored. The message has every cause.
    pub fn store_failed(error: &store::BackendError) -> Status {
        let first: &dyn std::error::Error = error;
        let causes = std::iter::successors(Some(first), |error| error.source());
        Status::internal(causes.fold("the store failed".to_owned(), |text, cause| format!("{text}: {cause}")))
    }

    /// 500: an error of the server.
    pub fn internal(message: impl Into<String>) -> Status {
        Status::plain(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// 500 without a reason: the `resourceVersion` of a write cannot be parsed.
    // Upstream: a version is opaque to clients, so one that cannot be parsed is an error of the server.
    pub fn unreadable_version(version: &str) -> Status {
        let is_number = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
        let cause = if is_number { "value out of range" } else { "invalid syntax" };
        let message = format!("strconv.ParseUint: parsing {}: {cause}", serde_json::Value::from(version));
        Status::plain(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 500 without a reason: a new object cannot have a `resourceVersion`.
    pub fn version_on_create() -> Status {
        let message = "resourceVersion should not be set on objects to be created";
        Status::plain(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// The same refusal with warnings.
    #[must_use]
    pub fn with_warnings(self, warnings: Vec<String>) -> Status {
        Status { warnings, ..self }
    }

    /// The confirmation of a delete.
    pub fn deleted(resource: &Resource, name: &str, uid: &str) -> Status {
        let details = StatusDetails {
            name: name.to_owned(),
            group: resource.group,
            // Upstream has the plural here, in every `details.kind` that comes from a path.
            kind: resource.plural,
            uid: uid.to_owned(),
            ..StatusDetails::default()
        };
        Status { details: Some(Box::new(details)), ..Status::plain(StatusCode::OK, "", "") }
    }

    /// The confirmation that something other than an object was created.
    pub fn created() -> Status {
        Status::plain(StatusCode::CREATED, "", "")
    }

    /// Whether this is 409 `AlreadyExists`.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// Whether this is 507.
    pub fn is_full(&self) -> bool {
        self.code == StatusCode::INSUFFICIENT_STORAGE
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether this is 404.
    pub fn is_not_found(&self) -> bool {
        self.code == StatusCode::NOT_FOUND
    }

    fn plain(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Status {
        Status { code, reason, message: message.into(), details: None, continue_token: None, warnings: Vec::new() }
    }

    fn for_object(
        code: StatusCode,
        reason: &'static str,
        resource: &Resource,
        name: &str,
        message: impl Into<String>,
    ) -> Status {
        let details = StatusDetails {
            name: name.to_owned(),
            group: resource.group,
            kind: resource.plural,
            ..StatusDetails::default()
        };
        Status { details: Some(Box::new(details)), ..Status::plain(code, reason, message) }
    }

    /// The object as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct StatusBody<'a> {
            kind: &'a str,
            api_version: &'a str,
            metadata: StatusMetadata<'a>,
            status: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            message: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            reason: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<&'a StatusDetails>,
            code: u16,
        }
        #[derive(Serialize)]
        struct StatusMetadata<'a> {
            #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
            continue_token: Option<&'a str>,
        }
        let wire = StatusBody {
            kind: "Status",
            api_version: "v1",
            metadata: StatusMetadata { continue_token: self.continue_token.as_deref() },
            status: if self.code.is_success() { "Success" } else { "Failure" },
            message: &self.message,
            reason: self.reason,
            details: self.details.as_deref(),
            code: self.code.as_u16(),
        };
        serde_json::to_vec(&wire).expect("a status has only strings and numbers")
    }

    /// The whole response.
    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::whole(Bytes::from(self.to_json())));
        *response.status_mut() = self.code;
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        crate::write::add_warnings(&mut response, &self.warnings);
        if let Some(seconds) = self.details.and_then(|details| details.retry_after_seconds) {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(seconds));
        }
        response
    }
}
