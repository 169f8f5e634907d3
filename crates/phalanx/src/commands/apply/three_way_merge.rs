//! The three-way merge of `apply`: last applied form, wanted form and current object.
//!
//! Wanted fields are set. Fields that were applied and are no longer wanted are removed. All other fields, written by the
//! server or by other clients, stay.

use api::schema::{ListMerge, PatchSchema};
use serde_json::{Map, Value};

/// kubectl's annotation for the last applied manifest.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// `manifest` in `namespace`, with a copy of itself in the annotation, byte for byte as kubectl writes it.
pub fn with_last_applied(manifest: &Value, namespace: Option<&str>) -> Value {
    let mut document = manifest.clone();
    let Some(metadata) = document["metadata"].as_object_mut() else { return document };
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.remove(LAST_APPLIED);
    }
    let mut copy = go_json(&document);
    copy.push('\n');
    document["metadata"]["annotations"][LAST_APPLIED] = copy.into();
    document
}

/// JSON as Go writes it, with HTML characters escaped.
fn go_json(value: &Value) -> String {
    let mut text = String::new();
    for character in value.to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", character as u32)),
            other => text.push(other),
        }
    }
    text
}

/// The manifest that was last applied to `current`.
pub fn last_applied(current: &Value) -> Option<Value> {
    let text = current["metadata"]["annotations"][LAST_APPLIED].as_str()?;
    serde_json::from_str(text).ok()
}

/// The merge patch from `current` to the merged object; `None` if they are equal. `schema` has the merge rules of lists:
/// lists of built-in kinds merge by the key of their items, all others are replaced.
pub fn patch(original: Option<&Value>, wanted: &Value, current: &Value, schema: PatchSchema) -> Option<Value> {
    let desired = value((schema, ListMerge::Replace), original, wanted, Some(current));
    diff(current, &desired)
}

fn value(
    (schema, lists): (PatchSchema, ListMerge),
    original: Option<&Value>,
    wanted: &Value,
    current: Option<&Value>,
) -> Value {
    match (wanted, current) {
        (Value::Object(wanted), current) => {
            let current = current.and_then(Value::as_object);
            Value::Object(object(schema, original.and_then(Value::as_object), wanted, current))
        }
        (Value::Array(wanted), Some(Value::Array(current))) => {
            let original = original.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            Value::Array(match lists {
                ListMerge::Replace => wanted.clone(),
                ListMerge::Union => merge_sets(original, wanted, current),
                ListMerge::ByKey(key) => by_key(schema, key, original, wanted, current),
            })
        }
        _ => wanted.clone(),
    }
}

fn object(
    schema: PatchSchema,
    original: Option<&Map<String, Value>>,
    wanted: &Map<String, Value>,
    current: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let mut merged = current.cloned().unwrap_or_default();
    for (field, new) in wanted {
        if new.is_null() {
            merged.remove(field);
            continue;
        }
        let original = original.and_then(|original| original.get(field));
        let current = current.and_then(|current| current.get(field));
        merged.insert(field.clone(), value(schema.field(field), original, new, current));
    }
    for field in original.into_iter().flat_map(Map::keys).filter(|field| !wanted.contains_key(*field)) {
        merged.remove(field);
    }
    merged
}

/// Lists of unique scalars.
fn merge_sets(original: &[Value], wanted: &[Value], current: &[Value]) -> Vec<Value> {
    let is_dropped = |item: &Value| original.contains(item) && !wanted.contains(item);
    let kept = current.iter().filter(|item| !is_dropped(item));
    let added = wanted.iter().filter(|item| !current.contains(item));
    kept.chain(added).cloned().collect()
}

/// Lists whose items are identified by `key`.
fn by_key(schema: PatchSchema, key: &str, original: &[Value], wanted: &[Value], current: &[Value]) -> Vec<Value> {
    if ![original, wanted, current].into_iter().all(|list| has_unique_keys(list, key)) {
        return wanted.to_vec();
    }
    fn find<'a>(list: &'a [Value], key: &str, item: &Value) -> Option<&'a Value> {
        list.iter().find(|other| other[key] == item[key])
    }
    let within = (schema.item(), ListMerge::Replace);
    let merge = |item: &Value| value(within, find(original, key, item), item, find(current, key, item));
    // In the current order, so that an unchanged list needs no patch.
    let mut merged = Vec::new();
    for item in current {
        match find(wanted, key, item) {
            Some(item) => merged.push(merge(item)),
            None if find(original, key, item).is_some() => {}
            None => merged.push(item.clone()),
        }
    }
    merged.extend(wanted.iter().filter(|item| find(current, key, item).is_none()).map(merge));
    let is_wanted = |item: &&Value| find(wanted, key, item).is_some();
    if merged.iter().filter(is_wanted).map(|item| &item[key]).eq(wanted.iter().map(|item| &item[key])) {
        return merged;
    }
    let others: Vec<Value> = merged.iter().filter(|item| !is_wanted(item)).cloned().collect();
    wanted.iter().map(merge).chain(others).collect()
}

fn has_unique_keys(list: &[Value], key: &str) -> bool {
    let keys: Vec<String> = list.iter().map(|item| item[key].to_string()).collect();
    let is_first = |(at, key): (usize, &String)| key != "null" && !keys[..at].contains(key);
    keys.iter().enumerate().all(is_first)
}

/// The merge patch (RFC 7386) from `old` to `new`.
fn diff(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = Map::new();
    for field in old.keys().filter(|field| !new.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    for (field, value) in new {
        let changed = match old.get(field) {
            Some(before) => diff(before, value),
            None => Some(value.clone()),
        };
        if let Some(changed) = changed {
            patch.insert(field.clone(), changed);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn unknown() -> PatchSchema {
        api::schema::patch_schema("example.com", "v1", "Gadget")
    }

    fn pod_spec() -> PatchSchema {
        api::schema::patch_schema("", "v1", "Pod").field("spec").0
    }

    #[test]
    fn wanted_fields_are_set_dropped_ones_removed_and_others_stay() {
        for (case, original, wanted, current, want) in [
            ("nothing new", json!({"a": 1}), json!({"a": 1}), json!({"a": 1, "default": 2}), None),
            ("a change", json!({"a": 1}), json!({"a": 2}), json!({"a": 1, "b": 1}), Some(json!({"a": 2}))),
            ("drift is corrected", json!({"a": 1}), json!({"a": 1}), json!({"a": 3}), Some(json!({"a": 1}))),
            (
                "a dropped field",
                json!({"a": 1, "b": 1}),
                json!({"a": 1}),
                json!({"a": 1, "b": 1}),
                Some(json!({"b": null})),
            ),
            ("dropped and already absent", json!({"a": 1, "b": 1}), json!({"a": 1}), json!({"a": 1}), None),
            ("never applied by us", json!(null), json!({"a": 1}), json!({"a": 1, "b": 1}), None),
            ("an explicit null", json!(null), json!({"a": null}), json!({"a": 1}), Some(json!({"a": null}))),
            (
                "deep inside",
                json!({"spec": {"x": 1, "y": {"z": 1}}}),
                json!({"spec": {"x": 2}}),
                json!({"spec": {"x": 1, "y": {"z": 1}, "d": 0}}),
                Some(json!({"spec": {"x": 2, "y": null}})),
            ),
        ] {
            assert_eq!(patch(Some(&original), &wanted, &current, unknown()), want, "{case}");
        }
    }

    #[test]
    fn lists_with_keys_merge_item_by_item() {
        let container = |name: &str, image: &str| json!({"name": name, "image": image});
        let current = json!({"containers": [
            {"name": "a", "image": "1", "terminationMessagePath": "/dev/termination-log"},
            container("injected", "x"),
            container("b", "1"),
        ]});
        let applied = json!({"containers": [container("a", "1"), container("b", "1")]});
        assert_eq!(patch(Some(&applied), &applied, &current, pod_spec()), None, "defaults and additions stay");
        let wanted = json!({"containers": [container("a", "2")]});
        let want = json!({"containers": [
            {"name": "a", "image": "2", "terminationMessagePath": "/dev/termination-log"},
            container("injected", "x"),
        ]});
        assert_eq!(patch(Some(&applied), &wanted, &current, pod_spec()), Some(want));
        let reordered = json!({"containers": [container("b", "1"), container("a", "1")]});
        let names = patch(Some(&applied), &reordered, &current, pod_spec()).map(|patch| {
            let items = patch["containers"].as_array().cloned().unwrap_or_default();
            items.iter().map(|item| item["name"].to_string()).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(names.as_deref(), Some(r#""b" "a" "injected""#));
    }

    #[test]
    fn lists_without_keys_are_replaced_and_sets_merged() {
        let ports =
            |numbers: &[i64]| json!({"ports": numbers.iter().map(|n| json!({"containerPort": n})).collect::<Vec<_>>()});
        let container = pod_spec().field("containers").0.item();
        for (case, schema, wanted, current) in [
            ("twice the same key", container, ports(&[1, 1]), ports(&[1, 2])),
            ("an unknown kind", unknown(), ports(&[1]), ports(&[1, 2])),
            ("no key at all", container, json!({"args": ["a"]}), json!({"args": ["a", "b"]})),
        ] {
            assert_eq!(patch(None, &wanted, &current, schema), Some(wanted.clone()), "{case}");
        }
        let finalizers = |names: &[&str]| json!({"finalizers": names});
        let metadata = api::schema::patch_schema("", "v1", "Pod").field("metadata").0;
        let original = finalizers(&["mine", "old"]);
        let merged =
            patch(Some(&original), &finalizers(&["mine", "new"]), &finalizers(&["theirs", "old", "mine"]), metadata);
        assert_eq!(merged, Some(finalizers(&["theirs", "mine", "new"])));
    }

    #[test]
    fn the_annotation_is_written_as_kubectl_writes_it() {
        let manifest = json!({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"args": ["a<b && c"]}});
        let document = with_last_applied(&manifest, Some("default"));
        let want = concat!(
            r#"{"kind":"Pod","metadata":{"annotations":{},"name":"a","namespace":"default"},"#,
            r#""spec":{"args":["a\u003cb \u0026\u0026 c"]}}"#,
            "\n"
        );
        assert_eq!(document["metadata"]["annotations"][LAST_APPLIED], want);
        assert_eq!(with_last_applied(&document, Some("default")), document, "the copy does not contain a copy");
        assert_eq!(last_applied(&document).map(|copy| copy["spec"].clone()), Some(manifest["spec"].clone()));
    }

    #[test]
    fn applying_the_same_again_changes_nothing() {
        let wanted = with_last_applied(&json!({"metadata": {"name": "a"}, "spec": {"n": 1}}), None);
        assert_eq!(patch(last_applied(&wanted).as_ref(), &wanted, &wanted, unknown()), None);
    }
}
