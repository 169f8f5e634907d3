//! Patches: the object there is, with changes applied, goes through the same steps as an update.

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

/// The longest JSON patch that is applied, as upstream.
const MAX_OPERATIONS: usize = 10_000;

/// The most that the copy operations of one patch may copy together, as upstream.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The most steps that the operations of one patch may take together.
const MAX_STEPS: usize = 20_000_000;

/// What the parser takes, so that what is kept can be read again.
const MAX_DEPTH: usize = 120;

/// A patch that was read but not yet applied.
enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// The same, but lists are merged as the kind has it.
    Strategic(Map<String, Value>),
    /// RFC 6902.
    Json(json_patch::Patch),
}

/// Changes parts of an object, or of its status. A patch that names no resource version wins over writes that come in
/// between.
pub(crate) async fn patch(
    call: &Call<'_>,
    part: UpdateScope,
    headers: &HeaderMap,
    body: &Bytes,
) -> ApiResult<Response<Body>> {
    let (mut patch, duplicates) = Patch::read(media_type(headers), body)?;
    let told = patch.normalize_drafts(call)?;
    let place = schema::patch_schema(call.resource.group, &call.info.version, call.resource.kind);
    let as_stored = call.resource.is_stored_as(&call.info.version);
    write::guaranteed_update(call, part, &mut |old, warnings| {
        let reached = |name: &str| !as_stored || patch.may_change(name);
        let mut document = match as_stored {
            true => Value::Object(top_level_fields(old, reached)),
            false => versions::to_request_version(call, old).document().clone(),
        };
        patch.apply(&mut document, place)?;
        let object = ApiObject::new(document).map_err(|bad| Status::bad_request(bad.to_string()))?;
        warnings.extend_from_slice(&told);
        let mut object = write::decode_document(call, object, Some(old), &duplicates, warnings)?;
        object.top_mut().extend(top_level_fields(old, |name| !reached(name)));
        Ok(object)
    })
    .await
}

/// A copy of the parts of an object with these names.
fn top_level_fields(object: &ApiObject, wanted: impl Fn(&str) -> bool) -> Map<String, Value> {
    object.top().iter().filter(|(name, _)| wanted(name)).map(|(name, part)| (name.clone(), part.clone())).collect()
}

impl Patch {
    /// Reads a body; fields that it has twice are named beside the patch.
    fn read(media_type: &str, body: &Bytes) -> ApiResult<(Patch, Vec<String>)> {
        let malformed = |error: serde_json::Error| Status::bad_request(format!("error decoding patch: {error}"));
        let object = || {
            let (changes, duplicates) = duplicates::parse(body).map_err(malformed)?;
            match changes {
                Value::Object(changes) => Ok((changes, duplicates)),
                _ => Err(Status::bad_request("error decoding patch: a merge patch is a JSON object")),
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
            // Upstream: takes apply patches. They come with the issue that brings server-side apply.
            apply if apply.starts_with("application/apply-patch+") => Err(Status::unsupported_media_type(
                "server-side apply is not served; apply on the client's side instead (kubectl apply --server-side=false)",
            )),
            other => Err(Status::unsupported_media_type(format!(
                "the body of the request was in an unknown format ({other}) - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json"
            ))),
        }
    }

    /// Puts spellings of drafts right: merged into the object, they would stand beside the present ones. Operations are
    /// about the object as it is shown, which has none of them.
    fn normalize_drafts(&mut self, call: &Call<'_>) -> ApiResult<Vec<String>> {
        let drafts = call.resource.strategy.normalize_drafts;
        let told = match self {
            Patch::Json(_) => Ok(Vec::new()),
            Patch::Merge(changes) => drafts(changes, &call.state.gates),
            Patch::Strategic(changes) => {
                let mut document = Value::Object(std::mem::take(changes));
                let told = drafts(&mut document, &call.state.gates);
                if let Value::Object(document) = document {
                    *changes = document;
                }
                told
            }
        };
        told.map_err(|errors| Status::invalid(call.resource, call.name(), &errors))
    }

    /// Whether the part of an object with this name may be another one afterwards. The others were judged when they
    /// were written; they need not be looked at again.
    fn may_change(&self, part: &str) -> bool {
        let changes = match self {
            Patch::Merge(Value::Object(changes)) | Patch::Strategic(changes) => changes,
            Patch::Merge(_) | Patch::Json(_) => return true,
        };
        // A directive may be about all there is.
        matches!(part, "apiVersion" | "kind" | "metadata")
            || changes.contains_key(part)
            || changes.keys().any(|name| name.starts_with('$'))
    }

    fn apply(&self, document: &mut Value, place: PatchSchema) -> ApiResult<()> {
        match (self, document) {
            (Patch::Strategic(changes), Value::Object(document)) => strategic_merge::merge(document, changes, place)
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

/// One operation after the other. The document is a copy that a failure throws away, so nothing needs to be undone.
fn apply_operations(document: &mut Value, operations: &[PatchOperation]) -> ApiResult<()> {
    let mut spent = PatchCost::default();
    for (index, operation) in operations.iter().enumerate() {
        spent.check(document, operation)?;
        json_patch::patch_unsafe(document, std::slice::from_ref(operation)).map_err(|mut error| {
            error.operation = index;
            Status::patch_does_not_apply(error.to_string())
        })?;
    }
    Ok(())
}

/// What the operations of one patch have cost. A short patch can copy a document into itself again and again, or move a
/// large part of it about: neither its size nor its depth nor the time that it takes may run away.
#[derive(Default)]
struct PatchCost {
    copied_bytes: usize,
    /// Values looked at, and items of lists that make place or move up.
    steps: usize,
}

impl PatchCost {
    fn check(&mut self, document: &Value, operation: &PatchOperation) -> ApiResult<()> {
        let (brought, from) = match operation {
            PatchOperation::Add(add) => (Some(&add.value), None),
            PatchOperation::Replace(replace) => (Some(&replace.value), None),
            PatchOperation::Copy(copy) => (document.pointer(copy.from.as_str()), None),
            PatchOperation::Move(moved) => (document.pointer(moved.from.as_str()), Some(moved.from.as_str())),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, None),
        };
        let (depth, values_count) = brought.map(depth_and_size).unwrap_or_default();
        if operation.path().count() + depth > MAX_DEPTH {
            return Err(Status::patch_does_not_apply(format!("the patched object is nested deeper than {MAX_DEPTH}")));
        }
        if let (PatchOperation::Copy(_), Some(value)) = (operation, brought) {
            self.copied_bytes += value.to_string().len();
            if self.copied_bytes > MAX_COPIED_BYTES {
                let text = format!("the copy operations of the patch add up to more than {MAX_COPIED_BYTES} bytes");
                return Err(Status::too_large(text));
            }
        }
        let beside: usize =
            [Some(operation.path().as_str()), from].into_iter().flatten().map(|at| sibling_count(document, at)).sum();
        self.steps += values_count + beside;
        if self.steps > MAX_STEPS {
            let text = format!("the operations of the patch take more than {MAX_STEPS} steps together");
            return Err(Status::too_large(text));
        }
        Ok(())
    }
}

/// How many items the list has that the value at `pointer` stands in.
fn sibling_count(document: &Value, pointer: &str) -> usize {
    let list = pointer.rsplit_once('/').and_then(|(list, _)| document.pointer(list));
    list.and_then(Value::as_array).map_or(0, Vec::len)
}

/// How deeply a value is nested, and of how many values it is made. The depth is bounded: by the parser, or by this
/// check in earlier operations.
fn depth_and_size(value: &Value) -> (usize, usize) {
    let within = |found: (usize, usize), (depth, count): (usize, usize)| (found.0.max(depth), found.1 + count);
    let (depth, count) = match value {
        Value::Array(items) => items.iter().map(depth_and_size).fold((0, 0), within),
        Value::Object(fields) => fields.values().map(depth_and_size).fold((0, 0), within),
        _ => return (0, 1),
    };
    (depth + 1, count + 1)
}
