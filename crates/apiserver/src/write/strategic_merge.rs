//! Strategic merge patches: objects are merged field by field, lists by the markers of the schema.
//!
//! Besides values, a patch has directives:
//! `$patch: replace | delete | merge` in an object or in an item of a merged list; `$retainKeys: […]` lists all fields
//! that the merged object may have; `$setElementOrder/LIST: […]` orders a merged list; `$deleteFromPrimitiveList/LIST`
//! removes values from a list of primitive values. Directives are never part of the result.

mod lists; // lists of primitives and lists with a merge key

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::schema::{ListMerge, PatchSchema};
use serde_json::{Map, Value};

use self::lists::ListChange;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const REMOVE: &str = "$deleteFromPrimitiveList/";

/// Why a patch is malformed.
#[derive(Debug)]
pub struct MalformedPatch {
    /// From the innermost field outwards.
    path: Vec<String>,
    reason: String,
}

impl MalformedPatch {
    fn new(cause: impl Into<String>) -> MalformedPatch {
        MalformedPatch { path: Vec::new(), reason: cause.into() }
    }

    fn under(mut self, name: &str) -> MalformedPatch {
        self.path.push(name.to_owned());
        self
    }
}

impl fmt::Display for MalformedPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<&str> = self.path.iter().rev().map(String::as_str).collect();
        let colon = if path.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", path.join("."), self.reason)
    }
}

type MergeResult<T> = Result<T, MalformedPatch>;

/// Merges `patch` into `object`, whose schema is `schema`. After an error the object is partly merged.
pub fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>, schema: PatchSchema) -> MergeResult<()> {
    match Directive::parse(patch)? {
        Directive::Merge => {}
        Directive::Delete => {
            object.clear();
            return Ok(());
        }
        // A replacement is merged into an empty object, so that it contains no directive and no `null`.
        Directive::Replace => object.clear(),
    }
    retain_keys(object, patch)?;
    for (name, change) in changes(patch)? {
        let (inner, list_merge) = schema.field(name);
        let old = object.remove(name);
        let new = match (change.value, list_merge) {
            (Some(Value::Null), _) => None,
            (Some(Value::Object(fields)), _) => merge_object(old, fields, inner).transpose(),
            (None | Some(Value::Array(_)), ListMerge::Union) => lists::merge_primitives(old, &change).transpose(),
            (None | Some(Value::Array(_)), ListMerge::ByKey(key)) => {
                lists::merge_by_key(old, &change, key, inner.item()).transpose()
            }
            (Some(value), _) => Some(Ok(value.clone())),
            // Only directives for a list that is always replaced: nothing to order or remove.
            (None, ListMerge::Replace) => old.map(Ok),
        };
        if let Some(value) = new.transpose().map_err(|error| error.under(name))? {
            object.insert(name.to_owned(), value);
        }
    }
    Ok(())
}

/// Merges `fields` into the old value; `None` when they only remove fields of a missing value.
fn merge_object(old: Option<Value>, fields: &Map<String, Value>, schema: PatchSchema) -> MergeResult<Option<Value>> {
    let mut object = match old {
        Some(Value::Object(object)) => object,
        None if Directive::parse(fields)? == Directive::Delete => return Ok(None),
        _ => Map::new(),
    };
    merge(&mut object, fields, schema)?;
    Ok(Some(Value::Object(object)))
}

/// The value of `$patch` in an object or item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

impl Directive {
    fn parse(patch: &Map<String, Value>) -> MergeResult<Directive> {
        match patch.get(PATCH) {
            None => Ok(Directive::Merge),
            Some(Value::String(text)) if text == "merge" => Ok(Directive::Merge),
            Some(Value::String(text)) if text == "replace" => Ok(Directive::Replace),
            Some(Value::String(text)) if text == "delete" => Ok(Directive::Delete),
            Some(other) => {
                Err(MalformedPatch::new(format!("unknown patch type: {other}, must be one of delete, merge, replace")))
            }
        }
    }
}

/// Removes the fields that `$retainKeys` does not list, so that one member of a union can replace another.
fn retain_keys(object: &mut Map<String, Value>, patch: &Map<String, Value>) -> MergeResult<()> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = |cause: String| MalformedPatch::new(format!("invalid patch format of retainKeys: {cause}"));
    let retained = retained.as_array().ok_or_else(|| malformed(format!("{RETAIN_KEYS} must be a list")))?;
    let retained: BTreeSet<&str> = retained
        .iter()
        .map(|name| name.as_str().ok_or_else(|| malformed(format!("{name} is not the name of a field"))))
        .collect::<MergeResult<_>>()?;
    for (name, value) in patch {
        if is_field(name) && !value.is_null() && !retained.contains(name.as_str()) {
            return Err(malformed(format!("the patch sets {name:?}, which {RETAIN_KEYS} does not list")));
        }
    }
    object.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

fn is_field(name: &str) -> bool {
    name != PATCH && name != RETAIN_KEYS && !name.starts_with(ORDER) && !name.starts_with(REMOVE)
}

/// The change of each field: its value, and its directives.
fn changes(patch: &Map<String, Value>) -> MergeResult<BTreeMap<&str, ListChange<'_>>> {
    let mut changes: BTreeMap<&str, ListChange<'_>> = BTreeMap::new();
    for (name, value) in patch {
        let list = || {
            let text = || MalformedPatch::new(format!("{name} must be a list"));
            value.as_array().map(Vec::as_slice).ok_or_else(text)
        };
        if let Some(of) = name.strip_prefix(ORDER) {
            changes.entry(of).or_default().order = Some(list()?);
        } else if let Some(of) = name.strip_prefix(REMOVE) {
            changes.entry(of).or_default().removed = list()?;
        } else if is_field(name) {
            changes.entry(name).or_default().value = Some(value);
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests;
