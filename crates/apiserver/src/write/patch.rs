//! Patches: the stored object, with changes applied, takes the same steps as an update.

use api::schema::{self, PatchSchema};
use bytes::Bytes;
use http::{HeaderMap, Response};
use json_patch::PatchOperation;
use serde_json::{Map, Value};

use crate::read::versions;
use crate::request::duplicates;
use crate::request::negotiation::media_type;
use crate::resources::object::ApiObject;
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;
use crate::write::strategic_merge;
use crate::write::{self, UpdateScope};

/// The maximum number of operations in a JSON patch, as upstream.
const MAX_OPERATIONS: usize = 10_000;

/// The maximum total size of the copy operations of one patch, as upstream.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The maximum total number of steps of the operations of one patch.
const MAX_STEPS: usize = 20_000_000;

/// The nesting limit of the parser, so that stored objects can be parsed again.
const MAX_DEPTH: usize = 120;

/// A parsed patch.
enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// The same, but lists are merged by the schema of the kind.
    Strategic(Map<String, Value>),
    /// RFC 6902.
    Json(json_patch::Patch),
}

/// Changes fields of an object, or of its status. A patch without a resource version is retried after a conflict.
pub(crate) async fn patch(
    call: &Call<'_>,
    scope: UpdateScope,
    headers: &HeaderMap,
    body: &Bytes,
) -> ApiResult<Response<Body>> {
    let (mut patch, duplicates) = Patch::read(media_type(headers), body)?;
    let draft_warnings = patch.normalize_drafts(call)?;
    let schema = schema::patch_schema(call.resource.group, &call.info.version, call.resource.kind);
    let as_stored = call.resource.is_stored_as(&call.info.version);
    write::guaranteed_update(call, scope, &mut |old, warnings| {
        let is_patched = |name: &str| !as_stored || patch.may_change(name);
        let mut document = match as_stored {
            true => Value::Object(top_level_fields(old, is_patched)),
            false => versions::to_request_version(call, old).document().clone(),
        };
        patch.apply(&mut document, schema)?;
        let object = ApiObject::new(document).map_err(|bad| Status::bad_request(bad.to_string()))?;
        warnings.extend_from_slice(&draft_warnings);
        let mut object = write::decode_document(call, object, Some(old), &duplicates, warnings)?;
        object.top_mut().extend(top_level_fields(old, |name| !is_patched(name)));
        Ok(object)
    })
    .await
}

/// A copy of the selected top-level fields of an object.
fn top_level_fields(object: &ApiObject, wanted: impl Fn(&str) -> bool) -> Map<String, Value> {
    object.top().iter().filter(|(name, _)| wanted(name)).map(|(name, field)| (name.clone(), field.clone())).collect()
}

impl Patch {
    /// Parses a body. Also returns its duplicate fields.
    fn read(media_type: &str, body: &Bytes) -> ApiResult<(Patch, Vec<String>)> {
        let malformed = |error: serde_json::Error| Status::bad_request(format!("error decoding patch: {error}"));
        let object = || {
            let (changes, duplicates) = duplicates::parse(body).map_err(malformed)?;
            match changes {
                Value::Object(changes) => Ok((changes, duplicates)),
                _ => Err(Status::bad_request("error decoding patch: a merge patch must be a JSON object")),
            }
        };
        match media_type {
            "application/merge-patch+json" => {
                object().map(|(changes, duplicates)| (Patch::Merge(Value::Object(changes)), duplicates))
            }
            "application/strategic-merge-patch+json" => {
                object().map(|(changes, duplicates)| (Patch::Strategic(changes), duplicates))
            }
            "application/json-patch+json" => {
                let operations: json_patch::Patch = serde_json::from_slice(body).map_err(malformed)?;
                if operations.len() > MAX_OPERATIONS {
                    let count = operations.len();
                    return Err(Status::too_large(format!(
                        "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
                    )));
                }
                Ok((Patch::Json(operations), Vec::new()))
            }
            // Upstream: supports apply patches. Supported here when server-side apply is served.
            apply if apply.starts_with("application/apply-patch+") => Err(Status::unsupported_media_type(
                "server-side apply is not supported; use client-side apply instead (kubectl apply --server-side=false)",
            )),
            other => Err(Status::unsupported_media_type(format!(
                "the body of the request was in an unknown format ({other}) - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json"
            ))),
        }
    }

    /// Replaces draft spellings. Merged into the object, they would be additional fields. Operations of JSON patches
    /// refer to the served object, which has no draft spellings.
    fn normalize_drafts(&mut self, call: &Call<'_>) -> ApiResult<Vec<String>> {
        let drafts = call.resource.strategy.normalize_drafts;
        let warnings = match self {
            Patch::Json(_) => Ok(Vec::new()),
            Patch::Merge(changes) => drafts(changes, &call.state.gates),
            Patch::Strategic(changes) => {
                let mut document = Value::Object(std::mem::take(changes));
                let warnings = drafts(&mut document, &call.state.gates);
                if let Value::Object(document) = document {
                    *changes = document;
                }
                warnings
            }
        };
        warnings.map_err(|errors| Status::invalid(call.resource, call.name(), &errors))
    }

    /// Whether the patch may change this top-level field. Other fields were validated when they were written and are
    /// not validated again.
    fn may_change(&self, field: &str) -> bool {
        let changes = match self {
            Patch::Merge(Value::Object(changes)) | Patch::Strategic(changes) => changes,
            Patch::Merge(_) | Patch::Json(_) => return true,
        };
        // A directive may affect every field.
        matches!(field, "apiVersion" | "kind" | "metadata")
            || changes.contains_key(field)
            || changes.keys().any(|name| name.starts_with('$'))
    }

    fn apply(&self, document: &mut Value, schema: PatchSchema) -> ApiResult<()> {
        match (self, document) {
            (Patch::Strategic(changes), Value::Object(document)) => strategic_merge::merge(document, changes, schema)
                .map_err(|malformed| Status::bad_request(format!("error applying patch: {malformed}"))),
            // Documents are always objects.
            (Patch::Strategic(_), _) => Ok(()),
            (Patch::Merge(changes), document) => {
                json_patch::merge(document, changes);
                Ok(())
            }
            (Patch::Json(operations), document) => apply_operations(document, operations),
        }
    }
}

/// Applies the operations in order. The document is a copy that is discarded after an error, so nothing needs to be
/// undone.
fn apply_operations(document: &mut Value, operations: &[PatchOperation]) -> ApiResult<()> {
    let mut cost = PatchCost::default();
    for (index, operation) in operations.iter().enumerate() {
        cost.check(document, operation)?;
        json_patch::patch_unsafe(document, std::slice::from_ref(operation)).map_err(|mut error| {
            error.operation = index;
            Status::patch_does_not_apply(error.to_string())
        })?;
    }
    Ok(())
}

/// The cost of the operations of one patch. A short patch can copy a document into itself repeatedly, or move large
/// values. Size, depth and time are therefore limited.
#[derive(Default)]
struct PatchCost {
    copied_bytes: usize,
    /// Values that are visited, and list items that are shifted.
    steps: usize,
}

impl PatchCost {
    fn check(&mut self, document: &Value, operation: &PatchOperation) -> ApiResult<()> {
        let (inserted, from) = match operation {
            PatchOperation::Add(add) => (Some(&add.value), None),
            PatchOperation::Replace(replace) => (Some(&replace.value), None),
            PatchOperation::Copy(copy) => (document.pointer(copy.from.as_str()), None),
            PatchOperation::Move(moved) => (document.pointer(moved.from.as_str()), Some(moved.from.as_str())),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, None),
        };
        let (depth, values_count) = inserted.map(depth_and_size).unwrap_or_default();
        if operation.path().count() + depth > MAX_DEPTH {
            return Err(Status::patch_does_not_apply(format!("the patched object is nested deeper than {MAX_DEPTH}")));
        }
        if let (PatchOperation::Copy(_), Some(value)) = (operation, inserted) {
            self.copied_bytes += value.to_string().len();
            if self.copied_bytes > MAX_COPIED_BYTES {
                let text = format!("the copy operations of the patch copy more than {MAX_COPIED_BYTES} bytes");
                return Err(Status::too_large(text));
            }
        }
        let shifted: usize =
            [Some(operation.path().as_str()), from].into_iter().flatten().map(|at| sibling_count(document, at)).sum();
        self.steps += values_count + shifted;
        if self.steps > MAX_STEPS {
            let text = format!("the operations of the patch take more than {MAX_STEPS} steps");
            return Err(Status::too_large(text));
        }
        Ok(())
    }
}

/// The length of the list that contains the value at `pointer`.
fn sibling_count(document: &Value, pointer: &str) -> usize {
    let list = pointer.rsplit_once('/').and_then(|(list, _)| document.pointer(list));
    list.and_then(Value::as_array).map_or(0, Vec::len)
}

/// The depth of a value, and the number of values in it. The depth is limited by the parser and by this check for
/// earlier operations.
fn depth_and_size(value: &Value) -> (usize, usize) {
    let within = |found: (usize, usize), (depth, count): (usize, usize)| (found.0.max(depth), found.1 + count);
    let (depth, count) = match value {
        Value::Array(items) => items.iter().map(depth_and_size).fold((0, 0), within),
        Value::Object(fields) => fields.values().map(depth_and_size).fold((0, 0), within),
        _ => return (0, 1),
    };
    (depth + 1, count + 1)
}
