//! The service: parses the request, finds the resource, calls the step and sends the response.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use api::gates::Gates;
use api::kinds::{self, ApiResource};
use api::scheduling::validation::priority_class::SYSTEM_CLASSES;
use api::{Clock, Random};
use bytes::Bytes;
use futures::FutureExt;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use store::{Committer, Store, StoreKey};
use tower::{BoxError, Service};
use tracing::Instrument;

use crate::audit::{AuditEntry, AuditSink};
use crate::discovery::Discovery;
use crate::discovery::extension_api::{self, ExtensionHandler};
use crate::discovery::openapi::{OpenApi, OpenApi2};
use crate::health::Health;
use crate::metrics::{ExtraMetrics, Metrics};
use crate::read::watch;
use crate::request::block_in_place::{self, BlockInPlace};
use crate::request::identity::{ANONYMOUS, Identity, IdentityService};
use crate::request::negotiation::{self, ExpectedKind, Representation};
use crate::request::span::{RequestIds, RequestSpan};
use crate::request::{self, RequestInfo, RequestOptions, Route, Verb};
use crate::resources::resource::{Resource, Subresource};
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};
use crate::write::capacity::Capacity;
use crate::write::expiry::EVENT_TTL;
use crate::write::{binding, delete, eviction, patch};
use crate::{read, resources, write};

/// The largest body that is read, as upstream.
pub(crate) const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// Namespaces that always exist.
const BUILTIN_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The descriptions of the built-in priority classes, in the order of [`SYSTEM_CLASSES`].
const CLASS_DESCRIPTIONS: [&str; SYSTEM_CLASSES.len()] = [
    "Used for system critical pods that must not be moved from their current node.",
    "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
];

/// The dependencies of a server.
pub struct Config {
    /// The store of the objects.
    pub store: Store,
    /// Commits writes to the store.
    pub committer: Committer,
    /// The clock of timestamps in objects.
    pub clock: Arc<dyn Clock>,
    /// The source of uids, generated names and the length of watches.
    pub random: Random,
    /// The feature gates.
    pub gates: Gates,
}

/// The server cannot start: a built-in object cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("{plural} {name} cannot be created: {}", status.message())]
pub struct BootstrapError {
    plural: &'static str,
    name: String,
    status: Box<Status>,
}

impl BootstrapError {
    /// Whether the storage is full. The server can start after space is freed.
    pub fn is_full(&self) -> bool {
        self.status.is_full()
    }
}

/// The API server. Clones share the state.
#[derive(Clone)]
pub struct ApiServer(Arc<ServerState>);

/// State that every request uses.
pub(crate) struct ServerState {
    pub store: Store,
    pub committer: Committer,
    pub clock: Arc<dyn Clock>,
    pub random: Random,
    pub gates: Gates,
    pub resources: Vec<Resource>,
    /// The lifetime of expiring objects after their last write.
    pub event_ttl: Duration,
    /// Built at the first request for it: most servers of a simulation never get one.
    discovery: OnceLock<Discovery>,
    openapi: OnceLock<OpenApi>,
    health: Health,
    metrics: Metrics,
    extra_metrics: Option<ExtraMetrics>,
    extension: Option<ExtensionHandler>,
    audit: Option<AuditSink>,
    request_ids: RequestIds,
    /// The allocated capacity of every node; `None` when binds are not checked.
    pub capacity: Option<Capacity>,
}

/// Marks a response that lasts until the client or the server ends it: a watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongRunning;

/// One request in the pipeline.
pub(crate) struct Call<'a> {
    pub state: &'a ServerState,
    pub resource: &'a Resource,
    pub info: &'a RequestInfo,
    pub representation: Representation,
    pub span: &'a RequestSpan,
}

impl Call<'_> {
    /// The namespace in the path; empty when there is none.
    pub fn namespace(&self) -> &str {
        self.info.namespace.as_deref().unwrap_or_default()
    }

    /// The name in the path; empty when there is none.
    pub fn name(&self) -> &str {
        self.info.name.as_deref().unwrap_or_default()
    }

    /// The store's key of the object in the path.
    pub fn key(&self) -> StoreKey {
        self.resource.key(self.namespace(), self.name())
    }
}

impl ServerState {
    /// The resource of this name.
    pub fn resource(&self, group: &str, plural: &str) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.plural == plural && resource.group == group)
    }

    /// The resource of this kind; `None` if its gates are off.
    pub fn resource_of(&self, kind: &ApiResource) -> Option<&Resource> {
        self.resource(kind.group, kind.plural)
    }

    /// Counts a response, and adds a write to the audit log.
    fn record_response(
        &self,
        info: &RequestInfo,
        user: &str,
        path: &str,
        mut response: Response<Body>,
        mut span: RequestSpan,
    ) -> Response<Body> {
        let (resource, code) = (self.resource(&info.group, &info.resource), response.status());
        span.record_response(&response);
        self.metrics.record_request(info.verb, resource, code, span.began().elapsed());
        if let (Some(audit), true) = (&self.audit, info.verb.writes()) {
            audit(&AuditEntry { time: self.clock.now(), user, verb: info.verb.name(), path, code: code.as_u16() });
        }
        if let (Verb::Watch, true, Some(resource)) = (info.verb, code.is_success(), resource) {
            response.extensions_mut().insert(LongRunning);
            let open = self.metrics.track_watch(resource);
            return response.map(|body| body.with_guard((open, span)));
        }
        response
    }
}

impl ApiServer {
    /// A server on `config.store`. Creates the built-in namespaces and priority classes.
    pub fn new(config: Config) -> Result<ApiServer, BootstrapError> {
        let Config { store, committer, clock, random, gates } = config;
        // The store has no other users yet, so the first writes are committed in place.
        let in_place = Committer::in_place(store.clone());
        let capacity = Some(Capacity::new(store.clone()));
        let mut state = ServerState {
            store,
            committer: in_place,
            clock,
            random,
            gates,
            resources: resources::all(&gates),
            event_ttl: EVENT_TTL,
            discovery: OnceLock::new(),
            openapi: OnceLock::new(),
            health: Health::default(),
            metrics: Metrics::new(&gates),
            extra_metrics: None,
            extension: None,
            audit: None,
            request_ids: RequestIds::default(),
            capacity,
        };
        for name in BUILTIN_NAMESPACES {
            create_builtin(&state, kinds::NAMESPACE, &json!({"metadata": {"name": name}}))?;
        }
        for ((name, value), description) in SYSTEM_CLASSES.into_iter().zip(CLASS_DESCRIPTIONS) {
            let class = json!({"metadata": {"name": name}, "value": value, "description": description});
            create_builtin(&state, kinds::PRIORITY_CLASS, &class)?;
        }
        state.committer = committer;
        Ok(ApiServer(Arc::new(state)))
    }

    /// Sets how long Events live after their last write, when [`ApiServer::expire`] runs. Must be called before the
    /// server is cloned.
    #[must_use]
    pub fn with_event_ttl(mut self, event_ttl: Duration) -> ApiServer {
        Arc::get_mut(&mut self.0).expect("the server is not cloned yet").event_ttl = event_ttl;
        self
    }

    /// Sends every write request to `audit`. Must be called before the server is cloned.
    #[must_use]
    pub fn with_audit(mut self, audit: AuditSink) -> ApiServer {
        Arc::get_mut(&mut self.0).expect("the server is not cloned yet").audit = Some(audit);
        self
    }

    /// Adds the metrics of `extra` to `/metrics`. Must be called before the server is cloned.
    #[must_use]
    pub fn with_extra_metrics(mut self, extra: ExtraMetrics) -> ApiServer {
        Arc::get_mut(&mut self.0).expect("the server is not cloned yet").extra_metrics = Some(extra);
        self
    }

    /// Serves `extension` below `/apis/phalanx.dev/v1alpha1`. Must be called before the server is cloned.
    #[must_use]
    pub fn with_extension(mut self, extension: ExtensionHandler) -> ApiServer {
        Arc::get_mut(&mut self.0).expect("the server is not cloned yet").extension = Some(extension);
        self
    }

    /// Turns off the capacity check of binds, as upstream: only the scheduler checks whether pods fit. Must be called
    /// before the server is cloned.
    #[must_use]
    pub fn without_capacity_check(mut self) -> ApiServer {
        Arc::get_mut(&mut self.0).expect("the server is not cloned yet").capacity = None;
        self
    }

    /// The health of the process, to which components report.
    pub fn health(&self) -> &Health {
        &self.0.health
    }

    /// A client with the given identity. Must be called inside a tokio runtime, which `kube::Client` needs.
    pub fn client(&self, identity: Identity) -> kube::Client {
        kube::Client::new(IdentityService { inner: self.clone(), identity }, "default")
    }

    /// The served kinds.
    pub fn resources(&self) -> &[Resource] {
        &self.0.resources
    }

    pub(crate) fn state(&self) -> &ServerState {
        &self.0
    }

    async fn respond<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let state = &*self.0;
        let (parts, body) = request.into_parts();
        // Every identity that reaches the server has all rights, so the user is only recorded.
        let user = parts.extensions.get::<Identity>().map_or(ANONYMOUS, |identity| &identity.user);
        let path = parts.uri.path();
        let path_span = || RequestSpan::of_path(&state.request_ids, user, &parts);
        if let (Some(handler), Some(subpath)) = (&state.extension, extension_api::subpath(path)) {
            let span = path_span();
            let result = extension_api::respond(handler, subpath, &parts).instrument(span.handle()).await;
            return span.end(result.unwrap_or_else(Status::into_response));
        }
        match request::parse(&parts.method, &parts.uri) {
            Ok(Route::Resource(info)) => {
                let span = RequestSpan::of_resource(&state.request_ids, user, &info);
                let result =
                    resource_response(state, &span, &info, &parts.headers, body).instrument(span.handle()).await;
                state.record_response(&info, user, path, result.unwrap_or_else(Status::into_response), span)
            }
            Ok(Route::NonResource) => {
                let span = path_span();
                let response = span.handle().in_scope(|| non_resource_response(state, &parts));
                span.end(response)
            }
            Err(status) => path_span().end(status.into_response()),
        }
    }
}

/// The response to a request for a resource.
async fn resource_response<B>(
    state: &ServerState,
    span: &RequestSpan,
    info: &RequestInfo,
    headers: &HeaderMap,
    body: B,
) -> ApiResult<Response<Body>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (resource, subresource) = find_resource(state, info)?;
    let representation = Representation::negotiate(headers)?;
    let call = Call { state, resource, info, representation, span };
    dispatch(&call, subresource, headers, body).await
}

/// The resource and subresource of a request, if they are served.
fn find_resource<'a>(state: &'a ServerState, info: &RequestInfo) -> ApiResult<(&'a Resource, Option<Subresource>)> {
    let resource = state.resource(&info.group, &info.resource).ok_or_else(Status::unknown_path)?;
    // A namespaced collection has a path without a namespace, but its objects do not.
    let misplaced = if resource.namespaced {
        info.namespace.is_none() && (info.name.is_some() || info.verb == Verb::Create)
    } else {
        info.namespace.is_some()
    };
    if misplaced || !resource.served_versions().any(|version| version == info.version) {
        return Err(Status::unknown_path());
    }
    let Some(text) = &info.subresource else { return Ok((resource, None)) };
    let subresource = Subresource::parse(text).filter(|&subresource| resource.has(subresource));
    subresource.map(|subresource| (resource, Some(subresource))).ok_or_else(Status::unknown_path)
}

/// Calls the function of the verb.
async fn dispatch<B>(
    call: &Call<'_>,
    subresource: Option<Subresource>,
    headers: &HeaderMap,
    body: B,
) -> ApiResult<Response<Body>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let json = |body| json_body(call, subresource, headers, body);
    match (call.info.verb, subresource) {
        (Verb::Get, None | Some(Subresource::Status)) => read::get(call),
        (Verb::List, None) => read::list(call).await,
        (Verb::Watch, None) => watch::watch(call).await,
        (Verb::Create, None) if call.info.name.is_none() => write::create(call, &json(body).await?).await,
        (Verb::Create, Some(Subresource::Binding)) => binding::bind(call, &json(body).await?).await,
        (Verb::Create, Some(Subresource::Eviction)) => eviction::evict(call, &json(body).await?).await,
        (Verb::Update, None) => write::update(call, write::UpdateScope::Whole, &json(body).await?).await,
        (Verb::Update, Some(Subresource::Status)) => {
            write::update(call, write::UpdateScope::Status, &json(body).await?).await
        }
        (Verb::Update, Some(Subresource::Finalize)) => {
            write::update(call, write::UpdateScope::Finalizers, &json(body).await?).await
        }
        (Verb::Patch, None) => patch::patch(call, write::UpdateScope::Whole, headers, &collect(body).await?).await,
        (Verb::Patch, Some(Subresource::Status)) => {
            patch::patch(call, write::UpdateScope::Status, headers, &collect(body).await?).await
        }
        (Verb::Delete, None) => delete::delete(call, &json(body).await?).await,
        (Verb::DeleteCollection, None) if call.resource.deletes_collections => {
            delete::delete_collection(call, &json(body).await?).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// The object in the body, or the options of a delete, as JSON.
async fn json_body<B>(
    call: &Call<'_>,
    subresource: Option<Subresource>,
    headers: &HeaderMap,
    body: B,
) -> ApiResult<Bytes>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    negotiation::check_media_type(headers)?;
    let Call { resource, info, .. } = *call;
    let wanted = match info.verb {
        Verb::Delete | Verb::DeleteCollection => ExpectedKind::DELETE_OPTIONS,
        _ => {
            let kind = subresource.map_or(resource.kind, |subresource| subresource.kind(resource.kind));
            let own_group_version = subresource.and_then(Subresource::own_group_version);
            let (group, version) = own_group_version.unwrap_or((resource.group, &info.version));
            ExpectedKind { group, version, kind }
        }
    };
    negotiation::to_json(headers, &wanted, collect(body).await?)
}

async fn collect<B>(body: B) -> ApiResult<Bytes>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(body_too_large()),
        Err(error) => Err(Status::bad_request(format!("the body could not be read: {error}"))),
    }
}

/// The refusal of a body that is too large as sent, or as JSON.
pub(crate) fn body_too_large() -> Status {
    Status::too_large(format!("Request entity is too large: limit is {MAX_BODY_BYTES}"))
}

/// A response with a JSON body.
pub(crate) fn json_response(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// Responses to paths that refer to no resource.
fn non_resource_response(state: &ServerState, request: &Parts) -> Response<Body> {
    let uri = &request.uri;
    if let Some(response) = state.health.response(uri.path(), uri.query().unwrap_or_default()) {
        return response;
    }
    match uri.path() {
        "/metrics" => state.metrics.response(&state.store, &state.resources, state.extra_metrics.as_ref()),
        "/version" | "/version/" => {
            let version = json!({
                "major": "1", "minor": "37", "gitVersion": concat!("v1.37.1+phalanx-", env!("CARGO_PKG_VERSION")),
                "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "", "compiler": "rustc", "platform": platform(),
            });
            json_response(StatusCode::OK, Body::whole(version.to_string().into()))
        }
        _ => discovery_response(state, request).unwrap_or_else(Status::into_response),
    }
}

/// Discovery and OpenAPI.
fn discovery_response(state: &ServerState, request: &Parts) -> ApiResult<Response<Body>> {
    let (path, query) = (request.uri.path(), request.uri.query().unwrap_or_default());
    let (is_openapi, is_openapi2) = (path.starts_with("/openapi/v3"), path == "/openapi/v2");
    if !is_openapi
        && !is_openapi2
        && path != "/api"
        && path != "/apis"
        && !path.starts_with("/api/")
        && !path.starts_with("/apis/")
    {
        return Err(Status::unknown_path());
    }
    if request.method != Method::GET && request.method != Method::HEAD {
        return Err(Status::method_not_allowed());
    }
    if is_openapi2 {
        OpenApi2::new().response(&request.headers)
    } else if is_openapi {
        state.openapi.get_or_init(|| OpenApi::new(&state.resources)).response(path, query, &request.headers)
    } else {
        state.discovery.get_or_init(|| Discovery::new(&state.resources)).response(path, &request.headers)
    }
}

/// The platform in Go's terms, as clients expect it: `linux/amd64`.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{architecture}", std::env::consts::OS)
}

/// Creates a cluster-scoped object through the same steps as a user's request, so that it has the same fields.
fn create_builtin(state: &ServerState, kind: &ApiResource, object: &Value) -> Result<(), BootstrapError> {
    let (resource, plural) = (state.resource_of(kind).expect("built-in kinds are served"), kind.plural);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if state.store.get(&resource.key("", name)).is_some() {
        return Ok(());
    }
    let info = RequestInfo {
        verb: Verb::Create,
        group: kind.group.to_owned(),
        version: kind.version().to_owned(),
        resource: plural.to_owned(),
        namespace: None,
        name: None,
        subresource: None,
        options: RequestOptions::default(),
    };
    let span = RequestSpan::none();
    let call = Call { state, resource, info: &info, representation: Representation::Object, span: &span };
    let body = Bytes::from(object.to_string());
    let made = write::create(&call, &body).now_or_never().expect("a write in place does not wait");
    made.map(|_| ()).map_err(|status| BootstrapError { plural, name: name.to_owned(), status: Box::new(status) })
}

impl<B> Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        // The cost of a request is unknown here, except for the size of its body.
        let is_large = request.body().size_hint().upper().is_none_or(|bytes| bytes > block_in_place::MIN_BODY_BYTES);
        // YAML takes several times as long to parse as JSON, and a few lines can expand to thousands of values.
        let is_large = is_large || negotiation::is_yaml(request.headers());
        Box::pin(async move {
            let response = server.respond(request);
            Ok(if is_large { BlockInPlace::new(response).await } else { response.await })
        })
    }
}
