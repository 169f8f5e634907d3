//! Deletion: at once, after a grace period, or when the last finalizer is removed.

use std::sync::Arc;

use api::clock::rfc3339;
use api::field::{Error, Path};
use api::{Revision, Timestamp};
use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::Value;
use store::{ListQuery, Op, Precondition, StoreKey, StoredObject};

use crate::read;
use crate::read::selection::Selection;
use crate::request::Propagation;
use crate::resources::object::ApiObject;
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;
use crate::write;
use crate::write::admission;
use crate::write::metadata;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// `DeleteOptions`, from the body or the query.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    grace_period_seconds: Option<i64>,
    preconditions: Preconditions,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Vec<String>,
    #[serde(skip)]
    propagation: Option<Propagation>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// The object after a delete request.
pub(crate) struct DeleteOutcome {
    stored: Arc<StoredObject>,
    is_removed: bool,
}

/// Deletes one object.
pub(crate) async fn delete(call: &Call<'_>, body: &Bytes) -> ApiResult<Response<Body>> {
    let options = DeleteOptions::parse(call, body)?;
    let deleted = delete_one(call, &call.key(), &options).await?;
    let mut response = if deleted.is_removed && !call.resource.returns_deleted {
        Status::deleted(call.resource, call.name(), &deleted.stored.meta.uid.to_string()).into_response()
    } else {
        write::stored_response(call, StatusCode::OK, &deleted.stored, &[])
    };
    if call.resource.propagation == Propagation::Orphan && options.propagation.is_none() {
        let text = format!(
            "child pods are preserved by default when {} are deleted; set propagationPolicy=Background to remove them \
             or set propagationPolicy=Orphan to suppress this warning",
            call.resource.plural
        );
        write::add_warnings(&mut response, &[text]);
    }
    Ok(response)
}

/// Deletes the objects that match the selectors, and returns them.
pub(crate) async fn delete_collection(call: &Call<'_>, body: &Bytes) -> ApiResult<Response<Body>> {
    let options = DeleteOptions::parse(call, body)?;
    let selection = Selection::parse(call.resource, call.info)?;
    let query = ListQuery { namespace: call.info.namespace.clone(), ..ListQuery::all(&call.resource.store_name) };
    let page = call.state.store.list(&query, &mut |stored| selection.matches(stored));
    let mut page = page.expect("the current revision is never compacted");
    let mut deleted = Vec::with_capacity(page.items.len());
    for stored in &page.items {
        match delete_one(call, &stored.key, &options).await {
            Ok(one) => deleted.push(one.stored),
            // Another client deleted it first.
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
    }
    page.items = deleted;
    page.revision = call.state.store.revision();
    Ok(read::list_response(call, page, &selection))
}

pub(crate) async fn delete_one(call: &Call<'_>, key: &StoreKey, options: &DeleteOptions) -> ApiResult<DeleteOutcome> {
    for _ in 0..write::MAX_ATTEMPTS {
        let stored = call.state.store.get(key).ok_or_else(|| Status::not_found(call.resource, &key.name))?;
        options.check_preconditions(call, &stored)?;
        admission::delete(call, &stored)?;
        let (object, is_removed) = next_state(call, &ApiObject::from_stored(&stored), options, call.state.clock.now());
        if call.info.options.dry_run || !options.dry_run.is_empty() {
            return Ok(DeleteOutcome { stored, is_removed });
        }
        let op = if is_removed { Op::Delete } else { Op::Put };
        if let Ok(stored) = write::commit(call, &object, Precondition::At(stored.revision), op).await? {
            return Ok(DeleteOutcome { stored, is_removed });
        }
    }
    Err(Status::modified(call.resource, &key.name))
}

/// The object after a delete request, and whether it is removed.
fn next_state(call: &Call<'_>, old: &ApiObject, options: &DeleteOptions, now: Timestamp) -> (ApiObject, bool) {
    let strategy = &call.resource.strategy;
    let mut object = old.clone();
    set_finalizers(&mut object, call.resource.propagation, options.propagation);
    let requested = (strategy.grace_seconds)(old, options.grace_period_seconds).max(0);
    // The deletion that has already begun, if any.
    let pending = PendingDeletion::from_object(old);
    let grace = pending.as_ref().map_or(requested, |pending| pending.grace.min(requested));
    let has_finalizers = object.finalizers().next().is_some() || (strategy.has_spec_finalizers)(&object);
    if grace == 0 && !has_finalizers {
        return (object, true);
    }
    if pending.as_ref().is_none_or(|pending| pending.grace != grace) {
        // A second delete may shorten the grace period, which still counts from the first delete. It cannot extend it.
        let began = pending.as_ref().map_or(now, |pending| pending.began);
        let ends = began.checked_add(SignedDuration::from_secs(grace)).unwrap_or(Timestamp::MAX);
        let metadata = object.metadata_mut();
        metadata.insert("deletionTimestamp".to_owned(), rfc3339(ends).into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        if call.resource.counts_generation && pending.is_none() {
            metadata::increment_generation(&mut object);
        }
    }
    (strategy.mark_deleting)(&mut object);
    (object, false)
}

/// A deletion in progress.
struct PendingDeletion {
    began: Timestamp,
    grace: i64,
}

impl PendingDeletion {
    fn from_object(object: &ApiObject) -> Option<PendingDeletion> {
        let ends: Timestamp = object.text(&["metadata", "deletionTimestamp"]).parse().ok()?;
        let grace = object.document()["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        let began = ends.checked_sub(SignedDuration::from_secs(grace)).unwrap_or(Timestamp::MIN);
        Some(PendingDeletion { began, grace })
    }
}

/// Adds or removes the garbage collector's finalizers, as requested or by the kind's default.
fn set_finalizers(object: &mut ApiObject, by_kind: Propagation, requested: Option<Propagation>) {
    let had = |name: &str| object.finalizers().any(|finalizer| finalizer == name);
    let propagation = match requested {
        Some(requested) => requested,
        None if had(ORPHAN) => Propagation::Orphan,
        None if had(FOREGROUND) => Propagation::Foreground,
        None => by_kind,
    };
    let wanted = match propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    let mut finalizers: Vec<Value> =
        object.finalizers().filter(|finalizer| ![FOREGROUND, ORPHAN].contains(finalizer)).map(Value::from).collect();
    finalizers.extend(wanted.map(Value::from));
    if finalizers.is_empty() {
        object.metadata_mut().remove("finalizers");
    } else {
        object.metadata_mut().insert("finalizers".to_owned(), finalizers.into());
    }
}

impl DeleteOptions {
    /// The body wins over the query, as upstream: the query is for clients that send no body.
    pub fn parse(call: &Call<'_>, body: &Bytes) -> ApiResult<DeleteOptions> {
        let query = &call.info.options;
        let mut options = DeleteOptions::default();
        if !body.iter().all(u8::is_ascii_whitespace) {
            options = serde_json::from_slice(body)
                .map_err(|error| Status::bad_request(format!("DeleteOptions cannot be decoded: {error}")))?;
        }
        options.grace_period_seconds = options.grace_period_seconds.or(query.grace_period_seconds);
        let orphan = options.orphan_dependents.or(query.orphan_dependents);
        let policy = Path::new("propagationPolicy");
        let refuse = |error| Err(Status::invalid_named("DeleteOptions.meta.k8s.io", "", &vec![error]));
        options.propagation = match &options.propagation_policy {
            None => query.propagation_policy,
            Some(text) => match Propagation::parse(text) {
                Some(propagation) => Some(propagation),
                None => {
                    let supported = ["Background", "Foreground", "Orphan"];
                    return refuse(Error::not_supported(&policy, text.as_str(), &supported));
                }
            },
        };
        if let Some(other) = options.dry_run.iter().find(|text| *text != "All") {
            return refuse(Error::not_supported(&Path::new("dryRun"), other.as_str(), &["All"]));
        }
        match (orphan, options.propagation) {
            (Some(_), Some(propagation)) => {
                let text = format!("{propagation:?}");
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                return refuse(Error::invalid(&policy, text, detail));
            }
            (Some(true), None) => options.propagation = Some(Propagation::Orphan),
            (Some(false), None) => options.propagation = Some(Propagation::Background),
            (None, _) => {}
        }
        Ok(options)
    }

    /// Whether the request is a dry run.
    pub fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// Requires the object with this uid, in any version.
    pub fn require_uid(&mut self, uid: &str) {
        self.preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    }

    /// Refuses a delete whose preconditions do not match the object.
    pub fn check_preconditions(&self, call: &Call<'_>, stored: &StoredObject) -> ApiResult<()> {
        let refuse = |what: &str, wanted: &str, found: &str| {
            let cause =
                format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
            Err(Status::conflict(call.resource, &stored.key.name, &cause))
        };
        let Preconditions { uid, resource_version } = &self.preconditions;
        let found = stored.meta.uid.to_string();
        if let Some(uid) = uid.as_ref().filter(|uid| **uid != found) {
            return refuse("UID", uid, &found);
        }
        match resource_version {
            Some(version) if Revision::parse(version) != Some(stored.revision) => {
                refuse("ResourceVersion", version, &stored.revision.to_string())
            }
            _ => Ok(()),
        }
    }
}
