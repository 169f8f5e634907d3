//! Strategic merge patches: objects are merged field by field, lists as the structure of the kind marks them.
//!
//! Beside values, a patch has directives:
//! `$patch: replace | delete | merge` in an object or in an item of a merged list; `$retainKeys: […]` lists all fields
//! that the merged object may have; `$setElementOrder/LIST: […]` orders a merged list; `$deleteFromPrimitiveList/LIST`
//! takes values out of a list of plain values. Directives never end up in the document.

mod lists; // the two ways in which lists are merged

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::schema::{ListMerge, PatchSchema};
use serde_json::{Map, Value};

use self::lists::ListChange;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const REMOVE: &str = "$deleteFromPrimitiveList/";

/// Why a patch makes no sense.
#[derive(Debug)]
pub struct MalformedPatch {
    /// From the innermost field outwards.
    path: Vec<String>,
    reason: String,
}

impl MalformedPatch {
    fn new(why: impl Into<String>) -> MalformedPatch {
        MalformedPatch { path: Vec::new(), reason: why.into() }
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

/// Merges `patch` into `object`, which stands at `place`. After an error the object is in no particular state.
pub fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>, place: PatchSchema) -> MergeResult<()> {
    match Directive::parse(patch)? {
        Directive::Merge => {}
        Directive::Delete => {
            object.clear();
            return Ok(());
        }
        // What replaces is merged into nothing, so that no directive or `null` inside it is kept.
        Directive::Replace => object.clear(),
    }
    retain_keys(object, patch)?;
    for (name, change) in changes(patch)? {
        let (inner, list_merge) = place.field(name);
        let old = object.remove(name);
        let new = match (change.value, list_merge) {
            (Some(Value::Null), _) => None,
            (Some(Value::Object(fields)), _) => merge_object(old, fields, inner).transpose(),
            (None | Some(Value::Array(_)), ListMerge::Union) => lists::merge_primitives(old, &change).transpose(),
            (None | Some(Value::Array(_)), ListMerge::ByKey(key)) => {
                lists::merge_by_key(old, &change, key, inner.item()).transpose()
            }
            (Some(value), _) => Some(Ok(value.clone())),
            // Only directives, and of a list that is always replaced: nothing to order or to take out.
            (None, ListMerge::Replace) => old.map(Ok),
        };
        if let Some(value) = new.transpose().map_err(|error| error.under(name))? {
            object.insert(name.to_owned(), value);
        }
    }
    Ok(())
}

/// The object that `fields` make of whatever was there; `None` when they empty what is not there.
fn merge_object(old: Option<Value>, fields: &Map<String, Value>, place: PatchSchema) -> MergeResult<Option<Value>> {
    let mut object = match old {
        Some(Value::Object(object)) => object,
        None if Directive::parse(fields)? == Directive::Delete => return Ok(None),
        _ => Map::new(),
    };
    merge(&mut object, fields, place)?;
    Ok(Some(Value::Object(object)))
}

/// What `$patch` says about the object or item it stands in.
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

/// Drops the fields that `$retainKeys` does not list, so that one member of a union can take the place of another.
fn retain_keys(object: &mut Map<String, Value>, patch: &Map<String, Value>) -> MergeResult<()> {
    let Some(kept) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = |why: String| MalformedPatch::new(format!("invalid patch format of retainKeys: {why}"));
    let kept = kept.as_array().ok_or_else(|| malformed(format!("{RETAIN_KEYS} must be a list")))?;
    let kept: BTreeSet<&str> = kept
        .iter()
        .map(|name| name.as_str().ok_or_else(|| malformed(format!("{name} is not the name of a field"))))
        .collect::<MergeResult<_>>()?;
    for (name, value) in patch {
        if is_field(name) && !value.is_null() && !kept.contains(name.as_str()) {
            return Err(malformed(format!("the patch sets {name:?}, which {RETAIN_KEYS} does not list")));
        }
    }
    object.retain(|name, _| kept.contains(name.as_str()));
    Ok(())
}

fn is_field(name: &str) -> bool {
    name != PATCH && name != RETAIN_KEYS && !name.starts_with(ORDER) && !name.starts_with(REMOVE)
}

/// What the patch says about each field: its value, and the directives that name it.
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
