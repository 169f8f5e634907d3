//! A write from start to end; the same steps for every kind. Read this first.
//!
//! decode → draft spellings → strict check → conversion → defaults → mutating admission → prepare → validate →
//! validating admission → commit.
//!
//! In: a request that creates, changes or deletes. Out: the stored object, or a `Status` with every cause.
//! Promises: a patch, a binding and an eviction take the same steps as an update; a write that fails changes nothing.

pub(crate) mod metadata; // the metadata that only the server sets
pub(crate) mod admission; // rules that read the rest of the cluster
pub(crate) mod encode; // object → stored bytes
pub(crate) mod patch; // merge patches and JSON patches
mod strategic_merge; // merge patches that use the schema of the kind
pub(crate) mod delete; // deletion: at once, graceful, or pending on finalizers
pub(crate) mod binding; // `pods/NAME/binding`
pub(crate) mod eviction; // `pods/NAME/eviction`
pub(crate) mod capacity; // how much of every node is allocated
pub(crate) mod expiry; // objects with a time to live

use std::sync::Arc;

use api::field::{Error, ErrorKind, ErrorList, Path};
use api::{conversion, schema};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use store::{ObjectWrite, Op, Precondition, StoredMeta, StoredObject, WriteRefusal};

use crate::read::representation::ResponseEncoder;
use crate::read::versions;
use crate::request::negotiation::ExpectedKind;
use crate::request::strict;
use crate::resources::object::ApiObject;
use crate::resources::resource::{Subresource, ValidationResult};
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};
use crate::server::{Call, json_response};
use crate::write::admission::{Attributes, Operation};
use crate::write::metadata::NameSource;

/// How many names are generated before a create fails.
const MAX_NAME_ATTEMPTS: usize = 8;

/// How often a change is retried after a conflict.
pub(crate) const MAX_ATTEMPTS: usize = 5;

/// The total size of the warnings of one response.
const MAX_WARNING_BYTES: usize = 4096;

/// The fields of an object that an update changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateScope {
    /// Everything except the status, if the kind has one.
    Whole,
    /// The status.
    Status,
    /// `spec.finalizers`, apart from `metadata.finalizers`.
    Finalizers,
}

/// Creates an object.
pub(crate) async fn create(call: &Call<'_>, body: &Bytes) -> ApiResult<Response<Body>> {
    let mut names = 0;
    loop {
        let mut warnings = Vec::new();
        let mut object = decode(call, body, None, &mut warnings)?;
        metadata::match_request_path(call, &mut object)?;
        metadata::dedup_owner_references(&mut object, &mut warnings);
        let name = metadata::fill_system_fields(call, &mut object)?;
        names += 1;
        match finish_create(call, &mut object, &mut warnings).await {
            // A generated name may exist already. The whole write is repeated then, because other fields depend on the
            // name.
            Err(status) if name == NameSource::Generated && status.is_already_exists() => {
                if names == MAX_NAME_ATTEMPTS {
                    return Err(Status::no_free_name(call.resource, object.name()));
                }
            }
            response => return response.map_err(|status| status.with_warnings(warnings)),
        }
    }
}

/// The steps of a create, from defaults to commit.
async fn finish_create(
    call: &Call<'_>,
    object: &mut ApiObject,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    let Call { state: server, resource, .. } = *call;
    (resource.strategy.defaults)(object, &server.gates);
    let attributes = Attributes { call, operation: Operation::Create, old: None };
    admission::mutate(&attributes, object)?;
    (resource.strategy.prepare_create)(object, &server.gates);
    fill_required_fields(call, object);
    require_valid(call, object, (resource.strategy.validate_create)(object, &server.gates))?;
    admission::validate(&attributes, object)?;
    warnings.extend((resource.strategy.warnings)(object, None));
    if call.info.options.dry_run {
        return Ok(object_response(call, StatusCode::CREATED, &object.document().to_string().into(), warnings));
    }
    match commit(call, object, Precondition::Absent, Op::Put).await? {
        Ok(stored) => Ok(stored_response(call, StatusCode::CREATED, &stored, warnings)),
        Err(_) => Err(Status::already_exists(resource, object.name())),
    }
}

/// Updates an object, or its status.
pub(crate) async fn update(call: &Call<'_>, scope: UpdateScope, body: &Bytes) -> ApiResult<Response<Body>> {
    guaranteed_update(call, scope, &mut |old, warnings| decode(call, body, Some(old), warnings)).await
}

/// Updates an object to what `next` returns. `next` is called again after a conflict. It returns an object in the
/// storage version, with a resource version if the update requires one.
pub(crate) async fn guaranteed_update(
    call: &Call<'_>,
    scope: UpdateScope,
    next: &mut (dyn FnMut(&ApiObject, &mut Vec<String>) -> ApiResult<ApiObject> + Send),
) -> ApiResult<Response<Body>> {
    for _ in 0..MAX_ATTEMPTS {
        let mut warnings = Vec::new();
        match try_update(call, scope, next, &mut warnings).await {
            Ok(None) => {}
            Ok(Some(response)) => return Ok(response),
            Err(status) => return Err(status.with_warnings(warnings)),
        }
    }
    Err(Status::modified(call.resource, call.name()))
}

/// Tries the update once; `None` after a conflict.
async fn try_update(
    call: &Call<'_>,
    scope: UpdateScope,
    next: &mut (dyn FnMut(&ApiObject, &mut Vec<String>) -> ApiResult<ApiObject> + Send),
    warnings: &mut Vec<String>,
) -> ApiResult<Option<Response<Body>>> {
    let Call { state: server, resource, .. } = *call;
    let stored = server.store.get(&call.key()).ok_or_else(|| Status::not_found(resource, call.name()))?;
    let old = ApiObject::from_stored(&stored);
    let mut new = next(&old, warnings)?;
    metadata::match_request_path(call, &mut new)?;
    metadata::dedup_owner_references(&mut new, warnings);
    check_version(call, &new, &old, &stored)?;
    finish_update(call, scope, &mut new, &old)?;
    if scope == UpdateScope::Whole {
        warnings.extend((resource.strategy.warnings)(&new, Some(&old)));
    }
    if call.info.options.dry_run {
        return Ok(Some(object_response(call, StatusCode::OK, &new.document().to_string().into(), warnings)));
    }
    // The last finalizer may just have been removed.
    let op = if old.is_deleting() && is_ready_to_delete(call, &new) { Op::Delete } else { Op::Put };
    let committed = commit(call, &new, Precondition::At(stored.revision), op).await?;
    Ok(committed.ok().map(|stored| stored_response(call, StatusCode::OK, &stored, warnings)))
}

/// The steps of an update, from defaults to validating admission.
fn finish_update(call: &Call<'_>, scope: UpdateScope, new: &mut ApiObject, old: &ApiObject) -> ApiResult<()> {
    let Call { state: server, resource, .. } = *call;
    let (strategy, gates) = (&resource.strategy, &server.gates);
    let operation = if scope == UpdateScope::Whole { Operation::Update } else { Operation::UpdateSubresource };
    let attributes = Attributes { call, operation, old: Some(old) };
    metadata::keep_system_fields(new, old, scope);
    (strategy.defaults)(new, gates);
    admission::mutate(&attributes, new)?;
    prepare_for_update(call, scope, new, old);
    fill_required_fields(call, new);
    let result = match scope {
        UpdateScope::Whole => (strategy.validate_update)(new, old, gates),
        UpdateScope::Status => (strategy.validate_status_update)(new, old, gates),
        UpdateScope::Finalizers => (strategy.validate_finalize)(new, old, gates),
    };
    require_valid(call, new, result)?;
    admission::validate(&attributes, new)
}

/// Sets fields that the kind always has, also after a step removed them: `status: {}`.
fn fill_required_fields(call: &Call<'_>, object: &mut ApiObject) {
    let Call { resource, .. } = *call;
    schema::write_empty_fields(resource.storage_group, resource.storage_version, resource.kind, object.document_mut());
}

/// Whether no finalizer is left on a deleting object.
pub(crate) fn is_ready_to_delete(call: &Call<'_>, object: &ApiObject) -> bool {
    object.finalizers().next().is_none()
        && object.document()["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && !(call.resource.strategy.has_spec_finalizers)(object)
}

/// Refuses an update that is based on an outdated version or on a deleted object of the same name.
fn check_version(call: &Call<'_>, new: &ApiObject, old: &ApiObject, stored: &StoredObject) -> ApiResult<()> {
    let Call { resource, .. } = *call;
    match new.text(&["metadata", "resourceVersion"]) {
        "" | "0" if resource.unconditional_update => {}
        "" | "0" => {
            let path = Path::new("metadata").child("resourceVersion");
            let errors = vec![Error::invalid(&path, 0, "must be specified for an update")];
            return Err(Status::invalid(resource, call.name(), &errors));
        }
        version if api::Revision::parse(version) == Some(stored.revision) => {}
        version if version.parse::<u64>().is_err() => return Err(Status::unreadable_version(version)),
        _ => return Err(Status::modified(resource, call.name())),
    }
    if !new.uid().is_empty() && new.uid() != old.uid() {
        let cause =
            format!("Precondition failed: UID in precondition: {}, UID in object meta: {}", new.uid(), old.uid());
        return Err(Status::conflict(resource, call.name(), &cause));
    }
    Ok(())
}

/// Reverts fields outside the scope, and increments the generation if the spec changed.
fn prepare_for_update(call: &Call<'_>, scope: UpdateScope, new: &mut ApiObject, old: &ApiObject) {
    let Call { state: server, resource, .. } = *call;
    match scope {
        UpdateScope::Whole => {
            if resource.has(Subresource::Status) {
                new.copy_field_from(old, "status");
            }
            (resource.strategy.prepare_update)(new, old, &server.gates);
        }
        UpdateScope::Status => {
            new.top_mut()
                .retain(|name, _| matches!(name.as_str(), "metadata" | "status") || old.top().contains_key(name));
            for name in old.top().keys().filter(|name| !matches!(name.as_str(), "metadata" | "status")) {
                new.copy_field_from(old, name);
            }
            (resource.strategy.prepare_status_update)(new, old, &server.gates);
        }
        UpdateScope::Finalizers => new.copy_field_from(old, "status"),
    }
    if resource.counts_generation && new.top().get("spec") != old.top().get("spec") {
        metadata::increment_generation(new);
    }
}

/// Bytes → an object in the storage version without unknown fields. `old` is the stored object, if it exists.
fn decode(call: &Call<'_>, body: &Bytes, old: Option<&ApiObject>, warnings: &mut Vec<String>) -> ApiResult<ApiObject> {
    let (object, duplicates) = ApiObject::parse_with_duplicates(body).map_err(|bad| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {bad}",
            call.resource.kind
        ))
    })?;
    decode_document(call, object, old, &duplicates, warnings)
}

/// The same for a parsed document in the version of the path, with its duplicate fields.
pub(crate) fn decode_document(
    call: &Call<'_>,
    mut object: ApiObject,
    old: Option<&ApiObject>,
    duplicates: &[String],
    warnings: &mut Vec<String>,
) -> ApiResult<ApiObject> {
    let Call { resource, info, .. } = *call;
    normalize_drafts(call, &mut object, warnings)?;
    let wanted = ExpectedKind { group: resource.group, version: &info.version, kind: resource.kind };
    wanted.check(object.text(&["apiVersion"]), object.text(&["kind"]))?;
    strict::check(call, &mut object, duplicates, warnings)?;
    versions::to_storage_version(call, &mut object, old, warnings)?;
    if resource.conversion(&info.version).is_some() {
        // The converted document is normalized as if it had been sent in this form.
        schema::check(resource.storage_group, resource.storage_version, resource.kind, object.document_mut());
    }
    Ok(object)
}

/// Replaces draft spellings, which the strict check would refuse.
fn normalize_drafts(call: &Call<'_>, object: &mut ApiObject, warnings: &mut Vec<String>) -> ApiResult<()> {
    let sent_version = object.text(&["apiVersion"]);
    if let Some(present) = conversion::current_api_version(sent_version) {
        warnings.push(format!("apiVersion: {sent_version} is a name from a draft of the API; use {present}"));
        object.top_mut().insert("apiVersion".to_owned(), present.into());
    }
    let draft_warnings = (call.resource.strategy.normalize_drafts)(object.document_mut(), &call.state.gates);
    warnings.extend(draft_warnings.map_err(|errors| Status::invalid(call.resource, object.name(), &errors))?);
    Ok(())
}

/// Field errors → 422, an undecodable value → 400.
fn require_valid(call: &Call<'_>, object: &ApiObject, result: ValidationResult) -> ApiResult<()> {
    let mut errors: ErrorList =
        result.map_err(|error| strict::undecodable(call.resource, &call.info.version, &error.to_string()))?;
    if errors.is_empty() {
        return Ok(());
    }
    // A missing list decodes as an empty one. The error shows the value of the document.
    for error in errors.iter_mut().filter(|error| error.value.as_deref() == Some("[]")) {
        if object.get_path(error.path.as_str()).is_none_or(serde_json::Value::is_null) {
            error.value = Some("null".to_owned());
        }
    }
    // Upstream: prints `null` for immutable fields of groups. The value that was sent is more helpful.
    let is_unknown = |error: &&mut Error| error.kind == ErrorKind::Immutable && error.value.as_deref() == Some("null");
    for error in errors.iter_mut().filter(is_unknown) {
        if let Some(sent) = object.get_path(error.path.as_str()) {
            error.value = Some(sent.to_string());
        }
    }
    Err(Status::invalid(call.resource, object.name(), &errors))
}

/// Sends one write to the store. The outer error is a refusal. The inner one is a conflict with another write.
pub(crate) async fn commit(
    call: &Call<'_>,
    object: &ApiObject,
    expect: Precondition,
    op: Op,
) -> ApiResult<Result<Arc<StoredObject>, WriteRefusal>> {
    let Call { state: server, resource, .. } = *call;
    let now = server.clock.now();
    // An expiry beyond the range of timestamps means none.
    let expires = if resource.expires { now.checked_add(server.event_ttl).ok() } else { None };
    let write = ObjectWrite {
        key: resource.key(object.namespace(), object.name()),
        precondition: expect,
        op,
        document: encode::document(object),
        meta: StoredMeta { expires, ..encode::meta(resource, object) },
    };
    let results = server.committer.commit(vec![write], now).await;
    let mut results = results.map_err(|error| Status::store_failed(&error))?;
    match results.pop().expect("the store returns a result for every write") {
        Err(WriteRefusal::Full(space)) => Err(Status::insufficient_storage(space)),
        result => {
            if let Ok(stored) = &result {
                call.span.record_write(stored);
            }
            Ok(result)
        }
    }
}

/// The stored object as a response.
pub(crate) fn stored_response(
    call: &Call<'_>,
    code: StatusCode,
    stored: &StoredObject,
    warnings: &[String],
) -> Response<Body> {
    object_response(call, code, &stored.bytes(), warnings)
}

/// An object in the storage version as a response, in the requested version and representation.
fn object_response(call: &Call<'_>, code: StatusCode, bytes: &Bytes, warnings: &[String]) -> Response<Body> {
    let mut response = json_response(code, Body::whole(ResponseEncoder::new(call).encode(bytes)));
    add_warnings(&mut response, warnings);
    response
}

/// Adds `Warning: 299 - "text"`, one header each. Warnings beyond the limit are dropped, as upstream.
pub(crate) fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    let mut bytes = 0;
    for text in warnings {
        bytes += text.len();
        if bytes > MAX_WARNING_BYTES {
            return;
        }
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"").replace(char::is_control, " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}
