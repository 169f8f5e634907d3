//! Patches: the object there is, with changes applied, goes through the same steps as an update.

use api::schema::{self, Merging};
use bytes::Bytes;
use http::{HeaderMap, Response};
use json_patch::PatchOperation;
use serde_json::{Map, Value};

use crate::accept::media_type;
use crate::body::Body;
use crate::object::Object;
use crate::server::Call;
use crate::status::{Answer, Status};
use crate::write::{self, Part};
use crate::{duplicates, strategic, versions};

/// The longest JSON patch that is applied, as upstream.
const OPERATIONS_MAX: usize = 10_000;

/// The most that the copy operations of one patch may copy together, as upstream.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The most steps that the operations of one patch may take together.
const STEPS_MAX: usize = 20_000_000;

/// What the parser takes, so that what is kept can be read again.
const DEPTH_MAX: usize = 120;

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
pub(crate) async fn patch(call: &Call<'_>, part: Part, headers: &HeaderMap, body: &Bytes) -> Answer<Response<Body>> {
    let (mut patch, duplicates) = Patch::read(media_type(headers), body)?;
    let told = patch.put_right(call)?;
    let place = schema::merging(call.resource.group, &call.info.version, call.resource.kind);
    let as_stored = call.resource.is_stored_as(&call.info.version);
    write::change(call, part, &mut |old, warnings| {
        let reached = |name: &str| !as_stored || patch.reaches(name);
        let mut document = match as_stored {
            true => Value::Object(parts(old, reached)),
            false => versions::outward(call, old).document().clone(),
        };
        patch.apply(&mut document, place)?;
        let object = Object::new(document).map_err(|bad| Status::bad_request(bad.to_string()))?;
        warnings.extend_from_slice(&told);
        let mut object = write::accept(call, object, Some(old), &duplicates, warnings)?;
        object.top_mut().extend(parts(old, |name| !reached(name)));
        Ok(object)
    })
    .await
}

/// A copy of the parts of an object with these names.
fn parts(object: &Object, wanted: impl Fn(&str) -> bool) -> Map<String, Value> {
    object.top().iter().filter(|(name, _)| wanted(name)).map(|(name, part)| (name.clone(), part.clone())).collect()
}

impl Patch {
    /// Reads a body; fields that it has twice are named beside the patch.
    fn read(media_type: &str, body: &Bytes) -> Answer<(Patch, Vec<String>)> {
        let malformed = |error: serde_json::Error| Status::bad_request(format!("error decoding patch: {error}"));
        let object = || {
            let (changes, duplicates) = duplicates::read(body).map_err(malformed)?;
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
                if operations.len() > OPERATIONS_MAX {
                    let count = operations.len();
                    return Err(Status::too_large(format!(
                        "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}"
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
    fn put_right(&mut self, call: &Call<'_>) -> Answer<Vec<String>> {
        let drafts = call.resource.strategy.drafts;
        let told = match self {
            Patch::Json(_) => Ok(Vec::new()),
            Patch::Merge(changes) => drafts(changes, &call.home.gates),
            Patch::Strategic(changes) => {
                let mut document = Value::Object(std::mem::take(changes));
                let told = drafts(&mut document, &call.home.gates);
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
    fn reaches(&self, part: &str) -> bool {
        let changes = match self {
            Patch::Merge(Value::Object(changes)) | Patch::Strategic(changes) => changes,
            Patch::Merge(_) | Patch::Json(_) => return true,
        };
        // A directive may be about all there is.
        matches!(part, "apiVersion" | "kind" | "metadata")
            || changes.contains_key(part)
            || changes.keys().any(|name| name.starts_with('$'))
    }

    fn apply(&self, document: &mut Value, place: Merging) -> Answer<()> {
        match (self, document) {
            (Patch::Strategic(changes), Value::Object(document)) => strategic::merge(document, changes, place)
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
fn apply_operations(document: &mut Value, operations: &[PatchOperation]) -> Answer<()> {
    let mut spent = Spent::default();
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
struct Spent {
    copied_bytes: usize,
    /// Values looked at, and items of lists that make place or move up.
    steps: usize,
}

impl Spent {
    fn check(&mut self, document: &Value, operation: &PatchOperation) -> Answer<()> {
        let (brought, from) = match operation {
            PatchOperation::Add(add) => (Some(&add.value), None),
            PatchOperation::Replace(replace) => (Some(&replace.value), None),
            PatchOperation::Copy(copy) => (document.pointer(copy.from.as_str()), None),
            PatchOperation::Move(moved) => (document.pointer(moved.from.as_str()), Some(moved.from.as_str())),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, None),
        };
        let (depth, values_count) = brought.map(extent).unwrap_or_default();
        if operation.path().count() + depth > DEPTH_MAX {
            return Err(Status::patch_does_not_apply(format!("the patched object is nested deeper than {DEPTH_MAX}")));
        }
        if let (PatchOperation::Copy(_), Some(value)) = (operation, brought) {
            self.copied_bytes += value.to_string().len();
            if self.copied_bytes > COPIED_BYTES_MAX {
                let text = format!("the copy operations of the patch add up to more than {COPIED_BYTES_MAX} bytes");
                return Err(Status::too_large(text));
            }
        }
        let beside: usize =
            [Some(operation.path().as_str()), from].into_iter().flatten().map(|at| items_beside(document, at)).sum();
        self.steps += values_count + beside;
        if self.steps > STEPS_MAX {
            let text = format!("the operations of the patch take more than {STEPS_MAX} steps together");
            return Err(Status::too_large(text));
        }
        Ok(())
    }
}

/// How many items the list has that the value at `pointer` stands in.
fn items_beside(document: &Value, pointer: &str) -> usize {
    let list = pointer.rsplit_once('/').and_then(|(list, _)| document.pointer(list));
    list.and_then(Value::as_array).map_or(0, Vec::len)
}

/// How deeply a value is nested, and of how many values it is made. The depth is bounded: by the parser, or by this
/// check in earlier operations.
fn extent(value: &Value) -> (usize, usize) {
    let within = |found: (usize, usize), (depth, count): (usize, usize)| (found.0.max(depth), found.1 + count);
    let (depth, count) = match value {
        Value::Array(items) => items.iter().map(extent).fold((0, 0), within),
        Value::Object(fields) => fields.values().map(extent).fold((0, 0), within),
        _ => return (0, 1),
    };
    (depth + 1, count + 1)
}
