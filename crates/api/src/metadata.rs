//! Validation of the metadata of every kind: names, labels, annotations, owners, finalizers.

pub mod names; // rules for names

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use crate::field::{Error, ErrorList, Path};
use names::NameRule;

/// The message for a change of an immutable field.
pub const IMMUTABLE_MESSAGE: &str = "field is immutable";

const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;
/// The maximum number of additional controllers that are reported.
const MAX_REPORTED_CONTROLLERS: usize = 8;
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// A string field of a `T`.
type TextField<T> = fn(&T) -> &str;

/// The error for a change of one field, from the new `T` and the old one.
type ChangeCheck<T> = fn(&T, &T, &Path) -> Option<Error>;

/// Finalizers that need no prefix.
pub(crate) const STANDARD_FINALIZERS: [&str; 3] = [ORPHAN, FOREGROUND, "kubernetes"];

/// The fields that identify an owner. None may be empty.
const OWNER_FIELDS: [(&str, TextField<OwnerReference>); 4] = [
    ("apiVersion", |owner| &owner.api_version),
    ("kind", |owner| &owner.kind),
    ("name", |owner| &owner.name),
    ("uid", |owner| &owner.uid),
];

/// Fields that only the server sets. A user sends them back unchanged.
const IMMUTABLE_FIELDS: [(&str, ChangeCheck<ObjectMeta>); 6] = [
    ("name", |new, old, path| immutable(&new.name, &old.name, path)),
    ("namespace", |new, old, path| immutable(&new.namespace, &old.namespace, path)),
    ("uid", |new, old, path| immutable(&new.uid, &old.uid, path)),
    ("creationTimestamp", |new, old, path| immutable(&new.creation_timestamp, &old.creation_timestamp, path)),
    ("deletionTimestamp", |new, old, path| immutable(&new.deletion_timestamp, &old.deletion_timestamp, path)),
    ("deletionGracePeriodSeconds", |new, old, path| {
        immutable(&new.deletion_grace_period_seconds, &old.deletion_grace_period_seconds, path)
    }),
];

/// Validates the metadata of a new object whose name is a DNS subdomain.
pub fn validate_object_meta(meta: &ObjectMeta, namespaced: bool, path: &Path) -> ErrorList {
    validate_object_meta_named(meta, namespaced, names::dns_subdomain, path)
}

/// Validates the metadata of a new object whose name follows `rule`.
pub fn validate_object_meta_named(meta: &ObjectMeta, namespaced: bool, rule: NameRule, path: &Path) -> ErrorList {
    name_problems(meta, rule, path)
        .into_iter()
        .chain(namespace_problems(meta, namespaced, &path.child("namespace")))
        .chain(generation_problems(meta, i64::MIN, path))
        .chain(mutable_field_problems(meta, path))
        .collect()
}

/// Validates a change of metadata from `old` to `new`. The server checks that an update has a resourceVersion, because
/// only the server knows which kinds do not need one.
pub fn validate_object_meta_update(new: &ObjectMeta, old: &ObjectMeta, path: &Path) -> ErrorList {
    let frozen = IMMUTABLE_FIELDS.iter().filter_map(|(field, changed)| changed(new, old, &path.child(field)));
    added_finalizers_problem(new, old, &path.child("finalizers"))
        .into_iter()
        .chain(generation_problems(new, old.generation.unwrap_or(0), path))
        .chain(frozen)
        .chain(mutable_field_problems(new, path))
        .collect()
}

/// Validates labels, also those of selectors and templates.
pub fn validate_labels(labels: &BTreeMap<String, String>, path: &Path) -> ErrorList {
    let problems = |(key, value): (&String, &String)| {
        violations(names::qualified_name, key, path).into_iter().chain(violations(names::label_value, value, path))
    };
    // Two labels with the same error are reported once, because the path does not name the label.
    let mut known = BTreeSet::new();
    let is_new = |problem: &Error| known.insert((problem.value.clone(), problem.detail.clone()));
    labels.iter().flat_map(problems).filter(is_new).collect()
}

/// Validates annotations: their keys, and their total size.
pub fn validate_annotations(annotations: &BTreeMap<String, String>, path: &Path) -> ErrorList {
    // The prefix of an annotation may have upper case, unlike that of a label.
    let rule = |key: &str| names::qualified_name(&key.to_ascii_lowercase());
    let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    let size = (bytes > MAX_ANNOTATIONS_BYTES).then(|| Error::too_long(path, MAX_ANNOTATIONS_BYTES));
    annotations.keys().flat_map(|key| violations(rule, key, path)).chain(size).collect()
}

/// The error for a changed immutable field, if it has changed.
pub fn immutable<T: PartialEq + serde::Serialize>(new: &T, old: &T, path: &Path) -> Option<Error> {
    (new != old).then(|| Error::immutable(path, to_json(new), IMMUTABLE_MESSAGE))
}

/// The value of a field error: the value as JSON.
pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("API types have string keys and serialize to JSON")
}

/// The value of a string field. The empty string is unset, as on the wire.
pub(crate) fn non_empty(field: &Option<String>) -> Option<&str> {
    field.as_deref().filter(|text| !text.is_empty())
}

/// One error for each violation of `rule` by `value`.
pub(crate) fn violations(rule: impl Fn(&str) -> Vec<String>, value: &str, path: &Path) -> ErrorList {
    rule(value).into_iter().map(|problem| Error::invalid(path, value, problem)).collect()
}

/// Adds one error for each problem with `value`.
pub(crate) fn push_violations(problems: Vec<String>, value: &str, path: &Path, errors: &mut ErrorList) {
    errors.extend(problems.into_iter().map(|problem| Error::invalid(path, value, problem)));
}

/// An object has a name or a prefix for one. The server completes a prefix before validation; a caller without a server
/// need not.
fn name_problems(meta: &ObjectMeta, rule: NameRule, path: &Path) -> ErrorList {
    let (name, prefix) = (non_empty(&meta.name), non_empty(&meta.generate_name));
    if name.or(prefix).is_none() {
        return vec![Error::required(&path.child("name"), "name or generateName is required")];
    }
    let prefix_rule = |prefix: &str| names::prefix(prefix, rule);
    let of_prefix = prefix.map(|prefix| violations(prefix_rule, prefix, &path.child("generateName")));
    let of_name = name.map(|name| violations(rule, name, &path.child("name")));
    of_prefix.into_iter().chain(of_name).flatten().collect()
}

/// The prefix of a name must be valid even if the name is set.
pub(crate) fn prefix_problems(meta: &ObjectMeta, path: &Path) -> ErrorList {
    let rule = |prefix: &str| names::prefix(prefix, names::dns_subdomain);
    non_empty(&meta.generate_name)
        .map(|prefix| violations(rule, prefix, &path.child("generateName")))
        .unwrap_or_default()
}

/// A namespace is set if and only if the kind is namespaced.
fn namespace_problems(meta: &ObjectMeta, namespaced: bool, path: &Path) -> ErrorList {
    match non_empty(&meta.namespace) {
        Some(namespace) if namespaced => violations(names::dns_label, namespace, path),
        Some(_) => vec![Error::forbidden(path, "not allowed on this type")],
        None if namespaced => vec![Error::required(path, "")],
        None => ErrorList::new(),
    }
}

/// A generation starts at zero and does not decrease from `before`.
fn generation_problems(meta: &ObjectMeta, before: i64, path: &Path) -> impl Iterator<Item = Error> {
    let generation = meta.generation.unwrap_or(0);
    [(0, "must be greater than or equal to 0"), (before, "must not be decremented")]
        .into_iter()
        .filter(move |(least, _)| generation < *least)
        .map(move |(_, detail)| Error::invalid(&path.child("generation"), generation, detail))
}

/// The fields that a user may change at any time.
fn mutable_field_problems(meta: &ObjectMeta, path: &Path) -> impl Iterator<Item = Error> {
    [
        meta.labels.as_ref().map(|labels| validate_labels(labels, &path.child("labels"))),
        meta.annotations.as_ref().map(|annotations| validate_annotations(annotations, &path.child("annotations"))),
        meta.owner_references.as_ref().map(|owners| owner_problems(owners, &path.child("ownerReferences"))),
        meta.finalizers.as_ref().map(|finalizers| finalizer_problems(finalizers, &path.child("finalizers"))),
    ]
    .into_iter()
    .flatten()
    .flatten()
}

fn owner_problems<'a>(owners: &'a [OwnerReference], path: &Path) -> ErrorList {
    let mut controllers = ControllerReferences { owners, first: None, reported: 0 };
    let problems = |(index, owner): (usize, &'a OwnerReference)| -> ErrorList {
        let at = path.index(index);
        let empty = OWNER_FIELDS.iter().filter(|(_, text)| text(owner).is_empty());
        empty
            .map(|(field, _)| Error::required(&at.child(field), "must not be empty"))
            .chain(owner_version_problem(owner, &at.child("apiVersion")))
            .chain(controllers.problem(owner, path))
            .collect()
    };
    owners.iter().enumerate().flat_map(problems).collect()
}

fn owner_version_problem(owner: &OwnerReference, path: &Path) -> Option<Error> {
    let parts_count = owner.api_version.split('/').count();
    let detail = "must be <group>/<version> or <version>";
    (parts_count > 2).then(|| Error::invalid(path, owner.api_version.as_str(), detail))
}

/// The owners with `controller: true`, while the list is validated.
struct ControllerReferences<'a> {
    owners: &'a [OwnerReference],
    first: Option<&'a OwnerReference>,
    reported: usize,
}

impl<'a> ControllerReferences<'a> {
    /// At most one owner is the controller. The error about a further one names the first.
    // Upstream: reports all of them. Each of these errors prints all owners, so the total grows with their square.
    fn problem(&mut self, owner: &'a OwnerReference, path: &Path) -> Option<Error> {
        if owner.controller != Some(true) {
            return None;
        }
        let Some(first) = self.first else {
            self.first = Some(owner);
            return None;
        };
        self.reported += 1;
        (self.reported <= MAX_REPORTED_CONTROLLERS).then(|| {
            let detail = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
                first.kind, first.name, owner.kind, owner.name
            );
            Error::invalid(path, to_json(&self.owners), detail)
        })
    }
}

/// A finalizer is a standard one or has a prefix, and an object has at most one way of deletion.
fn finalizer_problems(finalizers: &[String], path: &Path) -> ErrorList {
    let problems = |(index, finalizer): (usize, &String)| {
        let is_known = finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer.as_str());
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        let unknown = (!is_known).then(|| Error::invalid(&path.index(index), finalizer.as_str(), detail));
        violations(names::qualified_name, finalizer, path).into_iter().chain(unknown)
    };
    let is_contradiction = [ORPHAN, FOREGROUND].iter().all(|way| finalizers.iter().any(|finalizer| finalizer == way));
    let contradiction = is_contradiction.then(|| {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        Error::invalid(path, to_json(&finalizers), detail)
    });
    finalizers.iter().enumerate().flat_map(problems).chain(contradiction).collect()
}

/// After deletion was requested, finalizers can only be removed.
fn added_finalizers_problem(new: &ObjectMeta, old: &ObjectMeta, path: &Path) -> Option<Error> {
    old.deletion_timestamp.as_ref()?;
    let old_finalizers: BTreeSet<&String> = old.finalizers.iter().flatten().collect();
    let added: BTreeSet<&String> =
        new.finalizers.iter().flatten().filter(|name| !old_finalizers.contains(name)).collect();
    (!added.is_empty()).then(|| {
        // A set prints as the API prints its list: sorted, quoted, in braces.
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{added:?}"
        );
        Error::forbidden(path, detail)
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::{Value, json};

    use super::{validate_object_meta, validate_object_meta_named, validate_object_meta_update};
    use crate::field::{ErrorList, Path};

    fn meta(value: Value) -> ObjectMeta {
        serde_json::from_value(value).expect("valid metadata")
    }

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn name_and_namespace_are_required() {
        for (case, value, namespaced, want) in [
            ("both", json!({"name": "a", "namespace": "b"}), true, vec![]),
            ("prefix", json!({"generateName": "a-", "namespace": "b"}), true, vec![]),
            (
                "neither",
                json!({}),
                true,
                vec![
                    "metadata.name: Required value: name or generateName is required",
                    "metadata.namespace: Required value",
                ],
            ),
            ("cluster", json!({"name": "a"}), false, vec![]),
            (
                "cluster with namespace",
                json!({"name": "a", "namespace": "b"}),
                false,
                vec!["metadata.namespace: Forbidden: not allowed on this type"],
            ),
            (
                "dots in a namespace",
                json!({"name": "a", "namespace": "b.c"}),
                true,
                vec!["metadata.namespace: Invalid value: \"b.c\": must not contain dots"],
            ),
        ] {
            assert_eq!(texts(&validate_object_meta(&meta(value), namespaced, &Path::new("metadata"))), want, "{case}");
        }
    }

    #[test]
    fn names_of_namespaces_follow_the_stricter_rule() {
        let dotted = meta(json!({"name": "a.b"}));
        let path = Path::new("metadata");
        assert!(validate_object_meta(&dotted, false, &path).is_empty());
        assert_eq!(
            texts(&validate_object_meta_named(&dotted, false, super::names::dns_label, &path)),
            ["metadata.name: Invalid value: \"a.b\": must not contain dots"]
        );
    }

    #[test]
    fn owners_finalizers_and_sizes_are_validated() {
        let owner = |kind: &str, controller: bool| json!({"apiVersion": "v1", "kind": kind, "name": "x", "uid": "u", "controller": controller});
        for (case, value, want) in [
            ("one controller", json!({"ownerReferences": [owner("A", true), owner("B", false)]}), vec![]),
            (
                "empty owner",
                json!({"ownerReferences": [{"apiVersion": "a/b/c", "kind": "", "name": "x", "uid": ""}]}),
                vec![
                    "m.ownerReferences[0].kind: Required value: must not be empty",
                    "m.ownerReferences[0].uid: Required value: must not be empty",
                    "m.ownerReferences[0].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>",
                ],
            ),
            ("finalizers", json!({"finalizers": ["orphan", "example.com/x"]}), vec![]),
            (
                "short finalizer",
                json!({"finalizers": ["x"]}),
                vec![
                    "m.finalizers[0]: Invalid value: \"x\": name is neither a standard finalizer name nor is it fully qualified",
                ],
            ),
            (
                "two ways of deletion",
                json!({"finalizers": ["orphan", "foregroundDeletion"]}),
                vec![
                    "m.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
                ],
            ),
            (
                "too much",
                json!({"annotations": {"a": "x".repeat(256 * 1024)}}),
                vec!["m.annotations: Too long: may not be more than 262144 bytes"],
            ),
        ] {
            let mut meta = meta(value);
            meta.name = Some("a".to_owned());
            assert_eq!(texts(&validate_object_meta(&meta, false, &Path::new("m"))), want, "{case}");
        }
        let mut two = meta(json!({"name": "a", "ownerReferences": [owner("A", true), owner("B", true)]}));
        let errors = validate_object_meta(&two, false, &Path::new("m"));
        assert_eq!(
            errors[0].detail,
            "Only one reference can have Controller set to true. Found \"true\" in references for A/x and B/x"
        );
        two.owner_references = None;
        assert!(validate_object_meta(&two, false, &Path::new("m")).is_empty());
    }

    #[test]
    fn identity_is_immutable() {
        let old = json!({"name": "a", "namespace": "n", "uid": "1", "generation": 2});
        for (case, change, want) in [
            ("nothing", json!({}), vec![]),
            ("labels", json!({"labels": {"a": "b"}}), vec![]),
            ("name", json!({"name": "b"}), vec!["metadata.name: Invalid value: \"b\": field is immutable"]),
            (
                "namespace",
                json!({"namespace": "b"}),
                vec!["metadata.namespace: Invalid value: \"b\": field is immutable"],
            ),
            ("uid", json!({"uid": "2"}), vec!["metadata.uid: Invalid value: \"2\": field is immutable"]),
            (
                "generation",
                json!({"generation": 1}),
                vec!["metadata.generation: Invalid value: 1: must not be decremented"],
            ),
        ] {
            let mut new = old.clone();
            new.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
            let errors = validate_object_meta_update(&meta(new), &meta(old.clone()), &Path::new("metadata"));
            assert_eq!(texts(&errors), want, "{case}");
        }
    }

    #[test]
    fn object_in_deletion_gets_no_new_finalizers() {
        let old = meta(json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["e.io/a"]}));
        let mut new = old.clone();
        new.finalizers = Some(vec![]);
        assert!(validate_object_meta_update(&new, &old, &Path::new("metadata")).is_empty());
        new.finalizers = Some(vec!["e.io/c".to_owned(), "e.io/b".to_owned()]);
        assert_eq!(
            texts(&validate_object_meta_update(&new, &old, &Path::new("metadata"))),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"e.io/b\", \"e.io/c\"}"
            ]
        );
    }
}
