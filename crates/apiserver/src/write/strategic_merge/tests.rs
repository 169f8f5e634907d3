//! Merges tested by table, against recorded results of kubectl's own merge, and by property.
#![allow(clippy::unwrap_used)]

use api::schema::patch_schema;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::merge;

fn pod() -> Value {
    json!({
        "metadata": {"name": "a", "labels": {"x": "1", "y": "2"}, "finalizers": ["f/a", "f/b", "f/c"]},
        "spec": {
            "containers": [
                {"name": "one", "image": "i1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                {"name": "two", "image": "i2", "command": ["a", "b"]},
            ],
            "tolerations": [{"key": "t"}],
            "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
        },
    })
}

/// The patched pod, or the error.
fn patched(patch: &Value) -> Result<Value, String> {
    let Value::Object(mut document) = pod() else { panic!("a pod is an object") };
    let Value::Object(patch) = patch else { panic!("a patch is an object") };
    merge(&mut document, patch, patch_schema("", "v1", "Pod")).map_err(|malformed| malformed.to_string())?;
    Ok(Value::Object(document))
}

/// `one=i1 two=i2`.
fn containers(pod: &Value) -> String {
    let containers = pod["spec"]["containers"].as_array().unwrap().iter();
    let texts: Vec<String> =
        containers.map(|c| format!("{}={}", c["name"].as_str().unwrap(), c["image"].as_str().unwrap_or("-"))).collect();
    texts.join(" ")
}

#[test]
fn lists_with_a_merge_key_are_merged_by_it() {
    for (case, spec, want) in [
        (
            "an existing item is changed in place",
            json!({"containers": [{"name": "two", "image": "x"}]}),
            "one=i1 two=x",
        ),
        ("a new item goes first", json!({"containers": [{"name": "new", "image": "x"}]}), "new=x one=i1 two=i2"),
        (
            "items of the patch have its order",
            json!({"containers": [{"name": "two"}, {"name": "one"}]}),
            "two=i2 one=i1",
        ),
        ("delete", json!({"containers": [{"name": "one", "$patch": "delete"}]}), "two=i2"),
        ("delete of a missing item", json!({"containers": [{"name": "none", "$patch": "delete"}]}), "one=i1 two=i2"),
        ("replace", json!({"containers": [{"name": "new", "image": "x"}, {"$patch": "replace"}]}), "new=x"),
        ("merge is the default", json!({"containers": [{"name": "two", "$patch": "merge"}]}), "one=i1 two=i2"),
        ("an order alone", json!({"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]}), "two=i2 one=i1"),
        (
            "an order with a missing item",
            json!({"$setElementOrder/containers": [{"name": "z"}, {"name": "two"}, {"name": "one"}]}),
            "two=i2 one=i1",
        ),
        (
            "an order with a new item, around one that only the server has",
            json!({"$setElementOrder/containers": [{"name": "two"}, {"name": "new"}],
                   "containers": [{"name": "new", "image": "x"}]}),
            "one=i1 two=i2 new=x",
        ),
    ] {
        assert_eq!(containers(&patched(&json!({"spec": spec})).unwrap()), want, "{case}");
    }
}

#[test]
fn every_other_value_is_merged_replaced_or_removed() {
    for (case, patch, pointer, want) in [
        (
            "maps are merged",
            json!({"metadata": {"labels": {"y": "3", "z": "4"}}}),
            "/metadata/labels",
            json!({"x": "1", "y": "3", "z": "4"}),
        ),
        (
            "null removes",
            json!({"metadata": {"labels": {"x": null, "none": null}}}),
            "/metadata/labels",
            json!({"y": "2"}),
        ),
        ("null removes a list", json!({"spec": {"containers": null}}), "/spec/containers", Value::Null),
        (
            "a map can be replaced",
            json!({"metadata": {"labels": {"$patch": "replace", "z": "4"}}}),
            "/metadata/labels",
            json!({"z": "4"}),
        ),
        ("a map can be emptied", json!({"metadata": {"labels": {"$patch": "delete"}}}), "/metadata/labels", json!({})),
        (
            "atomic lists are replaced",
            json!({"spec": {"tolerations": [{"key": "u"}]}}),
            "/spec/tolerations",
            json!([{"key": "u"}]),
        ),
        (
            "commands are atomic",
            json!({"spec": {"containers": [{"name": "two", "command": ["c"]}]}}),
            "/spec/containers/1/command",
            json!(["c"]),
        ),
        (
            "primitive values are united",
            json!({"metadata": {"finalizers": ["f/d", "f/b"]}}),
            "/metadata/finalizers",
            json!(["f/d", "f/a", "f/b", "f/c"]),
        ),
        (
            "primitive values are removed",
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["f/b", "f/z"]}}),
            "/metadata/finalizers",
            json!(["f/a", "f/c"]),
        ),
        (
            "primitive values are ordered",
            json!({"metadata": {"$setElementOrder/finalizers": ["f/c", "f/d", "f/a"],
            "finalizers": ["f/d"]}}),
            "/metadata/finalizers",
            json!(["f/b", "f/c", "f/d", "f/a"]),
        ),
        (
            "one member of a union replaces another",
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}),
            "/spec/volumes",
            json!([{"name": "v", "hostPath": {"path": "/x"}}]),
        ),
        (
            "nested lists are merged",
            json!({"spec": {"containers": [{"name": "one",
            "$setElementOrder/env": [{"name": "B"}, {"name": "A"}], "env": [{"name": "A", "value": null}]}]}}),
            "/spec/containers/0/env",
            json!([{"name": "B", "value": "2"}, {"name": "A"}]),
        ),
        (
            "new values have no nulls and no directives",
            json!({"spec": {"securityContext": {"runAsUser": null,
            "$retainKeys": ["runAsGroup"], "runAsGroup": 3}}}),
            "/spec/securityContext",
            json!({"runAsGroup": 3}),
        ),
        (
            "an order creates no list",
            json!({"spec": {"$setElementOrder/hostAliases": []}}),
            "/spec/hostAliases",
            Value::Null,
        ),
        ("another type replaces the value", json!({"metadata": {"labels": "x"}}), "/metadata/labels", json!("x")),
        (
            "an unknown directive is an unknown field",
            json!({"spec": {"$x/containers": 1}}),
            "/spec/$x~1containers",
            json!(1),
        ),
    ] {
        let document = patched(&patch).unwrap();
        assert_eq!(document.pointer(pointer).cloned().unwrap_or_default(), want, "{case}");
    }
}

#[test]
fn lists_are_merged_as_by_kubectl() {
    let names = |text: &str| -> Vec<Value> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(|name| json!({"name": name})).collect()
    };
    for row in include_str!("recorded.txt").lines().filter(|line| !line.starts_with('#')) {
        let (given, want) = row.split_once("=>").unwrap();
        let [live, items, order, deleted] = given.split('|').map(str::trim).collect::<Vec<_>>().try_into().unwrap();
        let mut items = names(items);
        items.extend(names(deleted).into_iter().map(|mut item| {
            item["$patch"] = "delete".into();
            item
        }));
        let mut patch = json!({"spec": {"containers": items}});
        if order != "-" {
            patch["spec"]["$setElementOrder/containers"] = names(order).into();
        }
        let merged = match apply(&json!({"spec": {"containers": names(live)}}), &patch) {
            Ok(pod) => pod["spec"]["containers"].clone(),
            Err(_) => "refused".into(),
        };
        assert_eq!(merged, if want.trim() == "refused" { "refused".into() } else { Value::from(names(want)) }, "{row}");
    }
}

/// The exercises of the task "Update API Objects in Place Using kubectl patch" of the Kubernetes documentation, on a Job.
#[test]
fn the_documented_exercises_have_the_documented_results() {
    let mut job = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "patch-demo-ctr", "image": "nginx"}],
        "tolerations": [{"effect": "NoSchedule", "key": "dedicated", "value": "test-team"}],
    }}}});
    for patch in [
        json!({"spec": {"template": {"spec": {"containers": [{"name": "patch-demo-ctr-2", "image": "redis"}]}}}}),
        json!({"spec": {"template": {"spec": {"tolerations": [
            {"effect": "NoSchedule", "key": "disktype", "value": "ssd"}]}}}}),
    ] {
        let schema = patch_schema("batch", "v1", "Job");
        merge(job.as_object_mut().unwrap(), patch.as_object().unwrap(), schema).unwrap();
    }
    assert_eq!(
        job["spec"]["template"]["spec"],
        json!({
            "containers": [{"name": "patch-demo-ctr-2", "image": "redis"}, {"name": "patch-demo-ctr", "image": "nginx"}],
            "tolerations": [{"effect": "NoSchedule", "key": "disktype", "value": "ssd"}],
        })
    );
}

#[test]
fn malformed_directives_are_refused_with_their_path() {
    for (patch, want) in [
        (json!({"spec": {"$patch": "burn"}}), "spec: unknown patch type: \"burn\""),
        (json!({"spec": {"$patch": 1}}), "spec: unknown patch type: 1"),
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            "spec.containers: item does not contain declared merge key: name",
        ),
        (json!({"spec": {"containers": [{"$patch": "delete"}]}}), "spec.containers: item does not contain"),
        (json!({"spec": {"containers": ["x"]}}), "spec.containers: \"x\" is not an object"),
        (json!({"spec": {"$setElementOrder/containers": "x"}}), "spec: $setElementOrder/containers must be a list"),
        (json!({"spec": {"$setElementOrder/containers": [{"image": "x"}]}}), "spec.containers: item does not contain"),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "two"}], "containers": [{"name": "one"}]}}),
            "spec.containers: the order in patch list [\"one\"] doesn't match $setElementOrder list [\"two\"]",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}),
            "metadata: $deleteFromPrimitiveList/finalizers",
        ),
        (json!({"metadata": {"finalizers": [{}]}}), "metadata.finalizers: {} is not a primitive value"),
        (json!({"spec": {"$retainKeys": 1}}), "spec: invalid patch format of retainKeys: $retainKeys must be a list"),
        (json!({"spec": {"$retainKeys": [1]}}), "spec: invalid patch format of retainKeys: 1 is not the name"),
        (
            json!({"spec": {"$retainKeys": ["a"], "b": 1}}),
            "spec: invalid patch format of retainKeys: the patch sets \"b\"",
        ),
        (
            json!({"spec": {"containers": [{"name": "one", "env": [{}]}]}}),
            "spec.containers.[\"one\"].env: item does not contain declared merge key: name",
        ),
    ] {
        let refusal = patched(&patch).unwrap_err();
        assert!(refusal.starts_with(want), "{refusal}\n{want}");
    }
}

/// Generated patches of the pod above, directives included; some of them are malformed.
fn patches() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["one", "two", "three"]);
    let directive = prop::sample::select(vec![None, None, None, Some("delete"), Some("replace"), Some("merge")]);
    let item = (name.clone(), directive.clone(), prop::option::of("[xy]")).prop_map(|(name, directive, image)| {
        let mut item = json!({"name": name});
        if let Some(directive) = directive {
            item["$patch"] = directive.into();
        }
        if let Some(image) = image {
            item["image"] = image.into();
        }
        item
    });
    let order = prop::collection::vec(name.prop_map(|name| json!({"name": name})), 0..4);
    let finalizer = || prop::collection::vec("f/[a-e]", 0..4);
    (
        prop::option::of(prop::collection::vec(item, 0..4)),
        prop::option::of(order),
        prop::option::of(finalizer()),
        prop::option::of(finalizer()),
        prop::option::of(finalizer()),
        directive,
    )
        .prop_map(|(items, order, finalizers, finalizer_order, removed, directive)| {
            let (mut spec, mut metadata) = (Map::new(), Map::new());
            let set = |part: &mut Map<String, Value>, name: &str, value: Option<Value>| {
                value.map(|value| part.insert(name.to_owned(), value));
            };
            // An item that is deleted and added by the same patch is created again each time, so such patches are
            // excluded.
            let items = items.map(|mut items: Vec<Value>| {
                let mut seen = Vec::new();
                items.retain(|item| {
                    !seen.contains(&item["name"]) && {
                        seen.push(item["name"].clone());
                        true
                    }
                });
                items
            });
            set(&mut spec, "containers", items.map(Value::from));
            set(&mut spec, "$setElementOrder/containers", order.map(Value::from));
            set(&mut metadata, "finalizers", finalizers.map(Value::from));
            set(&mut metadata, "$setElementOrder/finalizers", finalizer_order.map(Value::from));
            set(&mut metadata, "$deleteFromPrimitiveList/finalizers", removed.map(Value::from));
            set(&mut metadata, "labels", directive.map(|directive| json!({"$patch": directive, "z": "1"})));
            json!({"spec": spec, "metadata": metadata})
        })
}

fn apply(document: &Value, patch: &Value) -> Result<Value, String> {
    let mut document = document.as_object().unwrap().clone();
    merge(&mut document, patch.as_object().unwrap(), patch_schema("", "v1", "Pod"))
        .map_err(|error| error.to_string())?;
    Ok(Value::Object(document))
}

fn has_directives(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_directives),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.starts_with('$') || has_directives(value)),
        _ => false,
    }
}

proptest! {
    #[test]
    fn a_patch_applied_again_changes_nothing_and_leaves_no_directive(patch in patches()) {
        if let Ok(once) = apply(&pod(), &patch) {
            prop_assert!(!has_directives(&once), "{once}");
            prop_assert_eq!(apply(&once, &patch).unwrap(), once);
        }
    }

    #[test]
    fn a_patch_of_nulls_removes_every_field_in_it(names in prop::collection::btree_set("metadata|spec|status|x", 0..4)) {
        let patch: Map<String, Value> = names.iter().map(|name| (name.clone(), Value::Null)).collect();
        let left = apply(&pod(), &Value::Object(patch)).unwrap();
        let want: Vec<&str> = ["metadata", "spec"].into_iter().filter(|name| !names.contains(*name)).collect();
        prop_assert_eq!(left.as_object().unwrap().keys().collect::<Vec<_>>(), want);
    }
}
