//! A write from start to end; the same steps for every kind. Read this first.
//!
//! decode → draft spellings → strict check → conversion → defaults → mutating admission → prepare → validate → validating admission →
//! commit.

use std::sync::Arc;

use api::field::{Error, ErrorList, Path};
use api::{conversion, schema};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use store::{Expect, Meta, Op, Refused, Stored, Write};

use crate::accept::Wanted;
use crate::admission::{self, Attributes, Operation};
use crate::body::Body;
use crate::form::Shown;
use crate::metadata::{self, Name};
use crate::object::Object;
use crate::resource::{Judged, Subresource};
use crate::server::{Call, json_response};
use crate::status::{Answer, Status};
use crate::{encode, strict, versions};

/// How many names are drawn before a create gives up.
const NAMES_MAX: usize = 8;

/// How often a change is made anew because another write came first.
pub(crate) const ATTEMPTS_MAX: usize = 5;

/// The most that the warnings of one answer may say together.
const WARNING_BYTES_MAX: usize = 4096;

/// Which part of an object a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but the status, where the kind has one.
    Whole,
    /// The status.
    Status,
    /// What holds the object, besides `metadata.finalizers`.
    Finalizers,
}

/// Makes an object.
pub(crate) async fn create(call: &Call<'_>, body: &Bytes) -> Answer<Response<Body>> {
    let mut names = 0;
    loop {
        let mut warnings = Vec::new();
        let mut object = decode(call, body, None, &mut warnings)?;
        metadata::place(call, &mut object)?;
        metadata::drop_repeated_owners(&mut object, &mut warnings);
        let name = metadata::stamp(call, &mut object)?;
        names += 1;
        match complete_and_keep(call, &mut object, &mut warnings).await {
            // A drawn name may be taken. The whole write is repeated then, because other fields follow from the name.
            Err(status) if name == Name::Generated && status.is_already_exists() => {
                if names == NAMES_MAX {
                    return Err(Status::no_free_name(call.resource, object.name()));
                }
            }
            answered => return answered.map_err(|status| status.with_warnings(warnings)),
        }
    }
}

/// The steps of a create from defaults on.
async fn complete_and_keep(call: &Call<'_>, object: &mut Object, warnings: &mut Vec<String>) -> Answer<Response<Body>> {
    let Call { home, resource, .. } = *call;
    (resource.strategy.defaults)(object, &home.gates);
    let attributes = Attributes { call, operation: Operation::Create, old: None };
    admission::mutate(&attributes, object)?;
    (resource.strategy.prepare_create)(object, &home.gates);
    complete(call, object);
    judge(call, object, (resource.strategy.validate_create)(object, &home.gates))?;
    admission::validate(&attributes, object)?;
    warnings.extend((resource.strategy.warnings)(object, None));
    if call.info.options.dry_run {
        return Ok(answer(call, StatusCode::CREATED, &object.document().to_string().into(), warnings));
    }
    match commit(call, object, Expect::Absent, Op::Put).await? {
        Ok(stored) => Ok(answer_stored(call, StatusCode::CREATED, &stored, warnings)),
        Err(_) => Err(Status::already_exists(resource, object.name())),
    }
}

/// Replaces an object, or its status.
pub(crate) async fn update(call: &Call<'_>, part: Part, body: &Bytes) -> Answer<Response<Body>> {
    change(call, part, &mut |old, warnings| decode(call, body, Some(old), warnings)).await
}

/// Makes the next version of an object from the one there is. `next` is asked again when another write came first; it
/// returns an object in the storage version, with the resource version it insists on, if any.
pub(crate) async fn change(
    call: &Call<'_>,
    part: Part,
    next: &mut (dyn FnMut(&Object, &mut Vec<String>) -> Answer<Object> + Send),
) -> Answer<Response<Body>> {
    for _ in 0..ATTEMPTS_MAX {
        let mut warnings = Vec::new();
        match attempt(call, part, next, &mut warnings).await {
            Ok(None) => {}
            Ok(Some(response)) => return Ok(response),
            Err(status) => return Err(status.with_warnings(warnings)),
        }
    }
    Err(Status::modified(call.resource, call.name()))
}

/// Makes the next version once; `None` when another write came first.
async fn attempt(
    call: &Call<'_>,
    part: Part,
    next: &mut (dyn FnMut(&Object, &mut Vec<String>) -> Answer<Object> + Send),
    warnings: &mut Vec<String>,
) -> Answer<Option<Response<Body>>> {
    let Call { home, resource, .. } = *call;
    let stored = home.store.get(&call.key()).ok_or_else(|| Status::not_found(resource, call.name()))?;
    let old = Object::stored(&stored);
    let mut new = next(&old, warnings)?;
    metadata::place(call, &mut new)?;
    metadata::drop_repeated_owners(&mut new, warnings);
    check_version(call, &new, &old, &stored)?;
    complete_change(call, part, &mut new, &old)?;
    if part == Part::Whole {
        warnings.extend((resource.strategy.warnings)(&new, Some(&old)));
    }
    if call.info.options.dry_run {
        return Ok(Some(answer(call, StatusCode::OK, &new.document().to_string().into(), warnings)));
    }
    // Whoever held the object may just have let it go.
    let op = if old.is_deleting() && is_free(call, &new) { Op::Delete } else { Op::Put };
    let kept = commit(call, &new, Expect::At(stored.revision), op).await?;
    Ok(kept.ok().map(|stored| answer_stored(call, StatusCode::OK, &stored, warnings)))
}

/// The steps of a change from defaults to validating admission.
fn complete_change(call: &Call<'_>, part: Part, new: &mut Object, old: &Object) -> Answer<()> {
    let Call { home, resource, .. } = *call;
    let (strategy, gates) = (&resource.strategy, &home.gates);
    let operation = if part == Part::Whole { Operation::Update } else { Operation::UpdatePart };
    let attributes = Attributes { call, operation, old: Some(old) };
    metadata::carry_over(new, old, part);
    (strategy.defaults)(new, gates);
    admission::mutate(&attributes, new)?;
    prepare_change(call, part, new, old);
    complete(call, new);
    let judged = match part {
        Part::Whole => (strategy.validate_update)(new, old, gates),
        Part::Status => (strategy.validate_status_update)(new, old, gates),
        Part::Finalizers => (strategy.validate_finalize)(new, old, gates),
    };
    judge(call, new, judged)?;
    admission::validate(&attributes, new)
}

/// Writes what the kind shows even when it says nothing, and what a step has taken away whole: `status: {}`.
fn complete(call: &Call<'_>, object: &mut Object) {
    let Call { resource, .. } = *call;
    schema::complete(resource.storage_group, resource.storage_version, resource.kind, object.document_mut());
}

/// Whether nothing holds a deleting object any longer.
pub(crate) fn is_free(call: &Call<'_>, object: &Object) -> bool {
    object.finalizers().next().is_none()
        && object.document()["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && !(call.resource.strategy.held)(object)
}

/// Refuses a change of a version or of an object that is not there any more.
fn check_version(call: &Call<'_>, new: &Object, old: &Object, stored: &Stored) -> Answer<()> {
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
        let why = format!("Precondition failed: UID in precondition: {}, UID in object meta: {}", new.uid(), old.uid());
        return Err(Status::conflict(resource, call.name(), &why));
    }
    Ok(())
}

/// Undoes what this part of the object may not change, and counts what it did change.
fn prepare_change(call: &Call<'_>, part: Part, new: &mut Object, old: &Object) {
    let Call { home, resource, .. } = *call;
    match part {
        Part::Whole => {
            if resource.has(Subresource::Status) {
                new.take_part_from(old, "status");
            }
            (resource.strategy.prepare_update)(new, old, &home.gates);
        }
        Part::Status => {
            new.top_mut()
                .retain(|name, _| matches!(name.as_str(), "metadata" | "status") || old.top().contains_key(name));
            for name in old.top().keys().filter(|name| !matches!(name.as_str(), "metadata" | "status")) {
                new.take_part_from(old, name);
            }
            (resource.strategy.prepare_status_update)(new, old, &home.gates);
        }
        Part::Finalizers => new.take_part_from(old, "status"),
    }
    if resource.counts_generation && new.top().get("spec") != old.top().get("spec") {
        metadata::count_generation(new);
    }
}

/// Bytes → an object in the storage version that has only known fields. `old` is the stored one, if there is one.
fn decode(call: &Call<'_>, body: &Bytes, old: Option<&Object>, warnings: &mut Vec<String>) -> Answer<Object> {
    let (object, duplicates) = Object::parse_noticing(body).map_err(|bad| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {bad}",
            call.resource.kind
        ))
    })?;
    accept(call, object, old, &duplicates, warnings)
}

/// The same for a document that is already read, in the version of the path; it had these fields more than once.
pub(crate) fn accept(
    call: &Call<'_>,
    mut object: Object,
    old: Option<&Object>,
    duplicates: &[String],
    warnings: &mut Vec<String>,
) -> Answer<Object> {
    let Call { resource, info, .. } = *call;
    put_right(call, &mut object, warnings)?;
    let wanted = Wanted { group: resource.group, version: &info.version, kind: resource.kind };
    wanted.check(object.text(&["apiVersion"]), object.text(&["kind"]))?;
    strict::check(call, &mut object, duplicates, warnings)?;
    versions::inward(call, &mut object, old, warnings)?;
    if resource.conversion(&info.version).is_some() {
        // What a conversion makes of it is brought into form as if it had been sent so.
        schema::check(resource.storage_group, resource.storage_version, resource.kind, object.document_mut());
    }
    Ok(object)
}

/// Puts spellings of drafts right, which the strict check would refuse.
fn put_right(call: &Call<'_>, object: &mut Object, warnings: &mut Vec<String>) -> Answer<()> {
    let said = object.text(&["apiVersion"]);
    if let Some(present) = conversion::present_api_version(said) {
        warnings.push(format!("apiVersion: {said} is a draft's spelling; write {present}"));
        object.top_mut().insert("apiVersion".to_owned(), present.into());
    }
    let told = (call.resource.strategy.drafts)(object.document_mut(), &call.home.gates);
    warnings.extend(told.map_err(|errors| Status::invalid(call.resource, object.name(), &errors))?);
    Ok(())
}

/// Field errors → 422, an undecodable value → 400.
fn judge(call: &Call<'_>, object: &Object, judged: Judged) -> Answer<()> {
    let mut errors: ErrorList =
        judged.map_err(|error| strict::undecodable(call.resource, &call.info.version, &error.to_string()))?;
    if errors.is_empty() {
        return Ok(());
    }
    // Typed, a list that was left out looks like an empty one; whoever reads the error should see what stands there.
    for error in errors.iter_mut().filter(|error| error.value.as_deref() == Some("[]")) {
        if object.at(error.path.as_str()).is_none_or(serde_json::Value::is_null) {
            error.value = Some("null".to_owned());
        }
    }
    // Upstream: prints `null` for fields of groups that may not change. What was sent for them says more.
    for error in errors.iter_mut().filter(|error| error.value.as_deref() == Some("null") && forbids_change(error)) {
        if let Some(sent) = object.at(error.path.as_str()) {
            error.value = Some(sent.to_string());
        }
    }
    Err(Status::invalid(call.resource, object.name(), &errors))
}

/// Whether the error is about a field that may not change, or not come.
fn forbids_change(error: &Error) -> bool {
    error.detail.contains("immutable") || error.detail == "field cannot be set once created"
}

/// Hands one write to the store. The outer error has to be passed on, the inner one is an answer: another write came
/// first.
pub(crate) async fn commit(
    call: &Call<'_>,
    object: &Object,
    expect: Expect,
    op: Op,
) -> Answer<Result<Arc<Stored>, Refused>> {
    let Call { home, resource, .. } = *call;
    let now = home.clock.now();
    // An end beyond what a timestamp can say is none.
    let expires = if resource.expires { now.checked_add(home.event_ttl).ok() } else { None };
    let write = Write {
        key: resource.key(object.namespace(), object.name()),
        expect,
        op,
        document: encode::document(object),
        meta: Meta { expires, ..encode::meta(resource, object) },
    };
    let answers = home.committer.commit(vec![write], now).await;
    let mut answers = answers.map_err(|error| Status::store_failed(&error))?;
    match answers.pop().expect("the store answers every write") {
        Err(Refused::Full(room)) => Err(Status::insufficient_storage(room)),
        answer => Ok(answer),
    }
}

/// The stored object as an answer.
pub(crate) fn answer_stored(call: &Call<'_>, code: StatusCode, stored: &Stored, warnings: &[String]) -> Response<Body> {
    answer(call, code, &stored.bytes(), warnings)
}

/// An object in the storage version as an answer, in the version and the form asked for.
fn answer(call: &Call<'_>, code: StatusCode, bytes: &Bytes, warnings: &[String]) -> Response<Body> {
    let mut response = json_response(code, Body::whole(Shown::of(call).whole(bytes)));
    add_warnings(&mut response, warnings);
    response
}

/// `Warning: 299 - "text"`, one header each. What does not fit into a response's headers is left out, as upstream.
pub(crate) fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    let mut bytes = 0;
    for text in warnings {
        bytes += text.len();
        if bytes > WARNING_BYTES_MAX {
            return;
        }
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"").replace(char::is_control, " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}
