//! Merges a patch into a list: primitive values are united, objects are matched by their merge key.
//!
//! Both use the same order. Items in the patch have the order of `$setElementOrder`, or else of the patch. Items that
//! only the server has keep their order. The positions in the old list decide between the two, and new items come
//! first. So applying a patch again changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use api::schema::PatchSchema;
use serde_json::{Map, Value};

use super::{Directive, MalformedPatch, MergeResult, merge};

/// The change of one field: its value, and the directives for its list.
#[derive(Clone, Copy, Default)]
pub(super) struct ListChange<'a> {
    pub value: Option<&'a Value>,
    /// `$setElementOrder`.
    pub order: Option<&'a [Value]>,
    /// `$deleteFromPrimitiveList`.
    pub removed: &'a [Value],
}

impl<'a> ListChange<'a> {
    fn items(&self) -> &'a [Value] {
        self.value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Whether there is nothing to do: a patch that only orders or removes items does not create a missing list.
    fn is_noop(&self, old: Option<&Value>) -> bool {
        self.value.is_none() && old.is_none()
    }
}

/// One item of the new list.
struct MergedItem {
    /// What identifies it, as text.
    key: String,
    value: Value,
    /// Its index in the old list; `None` for a new item.
    old_index: Option<usize>,
}

/// The values of the old list and of the patch, without duplicates and removed values.
pub(super) fn merge_primitives(old: Option<Value>, change: &ListChange<'_>) -> MergeResult<Option<Value>> {
    if change.is_noop(old.as_ref()) {
        return Ok(None);
    }
    let plain = |value: &Value| match value {
        Value::Array(_) | Value::Object(_) => Err(MalformedPatch::new(format!("{value} is not a primitive value"))),
        _ => Ok(value.to_string()),
    };
    let removed: BTreeSet<String> = change.removed.iter().map(plain).collect::<MergeResult<_>>()?;
    let mut seen = BTreeSet::new();
    let mut entries = Vec::new();
    for (old_index, value) in old_items(old).into_iter().enumerate() {
        let key = value.to_string();
        if !removed.contains(&key) && seen.insert(key.clone()) {
            entries.push(MergedItem { key, value, old_index: Some(old_index) });
        }
    }
    let named: Vec<String> = change.items().iter().map(plain).collect::<MergeResult<_>>()?;
    for (key, value) in named.iter().zip(change.items()) {
        if !removed.contains(key) && seen.insert(key.clone()) {
            entries.push(MergedItem { key: key.clone(), value: value.clone(), old_index: None });
        }
    }
    let order = match change.order {
        None => named,
        Some(order) => check_order(order.iter().map(plain).collect::<MergeResult<_>>()?, &named)?,
    };
    Ok(Some(ordered_list(entries, &order)))
}

/// Items with the same value of `key` are merged, others are added. `$patch` removes items or replaces the list.
pub(super) fn merge_by_key(
    old: Option<Value>,
    change: &ListChange<'_>,
    key: &str,
    item_schema: PatchSchema,
) -> MergeResult<Option<Value>> {
    if change.is_noop(old.as_ref()) {
        return Ok(None);
    }
    let items = PatchItems::read(change.items(), key)?;
    let old = if items.replace { Vec::new() } else { old_items(old) };
    let old_count = old.len();
    let mut entries: Vec<MergedItem> = old
        .into_iter()
        .enumerate()
        .map(|(old_index, value)| MergedItem { key: value[key].to_string(), value, old_index: Some(old_index) })
        .filter(|entry| !items.deleted.contains(&entry.key))
        .collect();
    // Upstream: when a patch removes items and orders the rest, new items follow those that only the server has.
    let shifted = change.order.is_some() && entries.len() < old_count;
    // Only old lists contain several items with one key. The patch applies to the first.
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        known.entry(entry.key.clone()).or_insert(at);
    }
    for (key, fields) in &items.merged {
        let at = *known.entry(key.clone()).or_insert_with(|| {
            let old_index = shifted.then_some(old_count + entries.len());
            entries.push(MergedItem { key: key.clone(), value: Value::Object(Map::new()), old_index });
            entries.len() - 1
        });
        if let Value::Object(object) = &mut entries[at].value {
            merge(object, fields, item_schema).map_err(|error| error.under(&format!("[{key}]")))?;
        }
    }
    let named: Vec<String> = items.merged.into_iter().map(|(key, _)| key).collect();
    let order = match change.order {
        None => named,
        Some(order) => {
            let keys = order.iter().map(|item| item_key(item, key));
            check_order(keys.collect::<MergeResult<_>>()?, &named)?
        }
    };
    Ok(Some(ordered_list(entries, &order)))
}

/// The items of a patch, by their directive.
#[derive(Default)]
struct PatchItems<'a> {
    /// Whether the old list is discarded.
    replace: bool,
    deleted: BTreeSet<String>,
    merged: Vec<(String, &'a Map<String, Value>)>,
}

impl<'a> PatchItems<'a> {
    fn read(items: &'a [Value], key: &str) -> MergeResult<PatchItems<'a>> {
        let mut read = PatchItems::default();
        for item in items {
            let fields = item
                .as_object()
                .ok_or_else(|| MalformedPatch::new(format!("{item} is not an object, so it has no merge key")))?;
            match Directive::parse(fields)? {
                // It is a directive for the list, not an item.
                Directive::Replace => read.replace = true,
                Directive::Delete => drop(read.deleted.insert(item_key(item, key)?)),
                Directive::Merge => read.merged.push((item_key(item, key)?, fields)),
            }
        }
        Ok(read)
    }
}

fn item_key(item: &Value, key: &str) -> MergeResult<String> {
    match item.get(key) {
        None | Some(Value::Null) => {
            Err(MalformedPatch::new(format!("item does not contain declared merge key: {key}: {item}")))
        }
        Some(value) => Ok(value.to_string()),
    }
}

fn old_items(old: Option<Value>) -> Vec<Value> {
    match old {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// `order`, if it contains the patch's items in their order.
fn check_order(order: Vec<String>, named: &[String]) -> MergeResult<Vec<String>> {
    let mut rest = order.iter();
    if named.iter().all(|key| rest.any(|ordered| ordered == key)) {
        return Ok(order);
    }
    let (named, order) = (named.join(", "), order.join(", "));
    Err(MalformedPatch::new(format!("the order in patch list [{named}] doesn't match $setElementOrder list [{order}]")))
}

/// The list in its final order; see the module comment.
fn ordered_list(entries: Vec<MergedItem>, order: &[String]) -> Value {
    let mut ranks: BTreeMap<&str, usize> = BTreeMap::new();
    for (rank, key) in order.iter().enumerate() {
        ranks.entry(key).or_insert(rank);
    }
    let (mut named, others): (Vec<MergedItem>, Vec<MergedItem>) =
        entries.into_iter().partition(|entry| ranks.contains_key(entry.key.as_str()));
    named.sort_by_key(|entry| ranks[entry.key.as_str()]);
    let mut list = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for entry in named {
        while let Some(other) =
            others.next_if(|other| entry.old_index.is_some_and(|old_index| other.old_index < Some(old_index)))
        {
            list.push(other.value);
        }
        list.push(entry.value);
    }
    list.extend(others.map(|other| other.value));
    Value::Array(list)
}
