//! The rules that the users' blocks share with Workloads and groups: unions, bounds, formats, claims.
//!
//! Each returns field errors with the API's messages. The API calls these rules declarative validation.

use serde_json::Value;

use crate::field::{Error, ErrorList, Path};
use crate::format;
use crate::item::ResourceClaim;

/// The maximum number of claims of a group.
pub const MAX_CLAIMS: usize = 4;
/// The maximum number of topology constraints of a group.
pub const MAX_TOPOLOGY_CONSTRAINTS: usize = 1;
/// The maximum number of templates in one list.
pub const MAX_TEMPLATES: usize = 8;
/// The maximum number of levels of templates, including that of the groups of pods.
pub const MAX_DEPTH: usize = 4;

/// Checks that exactly one member of a union is set. The error is about the struct with the members.
pub fn exactly_one(path: &Path, members: &[(&str, bool)]) -> Option<Error> {
    let set: Vec<&str> = members.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
    let all: Vec<String> = members.iter().map(|(name, _)| format!("`{name}`")).collect();
    match set.len() {
        0 => Some(Error::invalid(path, "", format!("must specify one of: {}", all.join(", ")))),
        1 => None,
        _ => {
            let value = format!("{{{}}}", set.join(", "));
            Some(Error::invalid(path, value, format!("must specify exactly one of: {}", all.join(", "))))
        }
    }
}

/// Checks that the number is at least `minimum`.
pub fn at_least(path: &Path, value: impl Into<i64>, minimum: i64) -> Option<Error> {
    let value = value.into();
    (value < minimum).then(|| Error::invalid(path, value, format!("must be greater than or equal to {minimum}")))
}

/// Checks that the number is at most `maximum`.
pub fn at_most(path: &Path, value: impl Into<i64>, maximum: i64) -> Option<Error> {
    let value = value.into();
    (value > maximum).then(|| Error::invalid(path, value, format!("must be less than or equal to {maximum}")))
}

/// The error for a changed immutable field. It has no value; the API server sets the value of the request.
pub fn immutable(path: &Path) -> Error {
    Error::immutable(path, Value::Null, "field is immutable")
}

/// Checks that a field that may change was neither set nor cleared.
pub fn presence_unchanged(path: &Path, new: bool, old: bool) -> Option<Error> {
    match (new, old) {
        (true, false) => Some(Error::immutable(path, Value::Null, "field cannot be set once created")),
        (false, true) => Some(Error::invalid(path, Value::Null, "field cannot be cleared once set")),
        _ => None,
    }
}

/// Checks that a string is not empty and has the format.
pub fn validate_required(path: &Path, text: &str, format: fn(&str) -> Vec<String>) -> ErrorList {
    if text.is_empty() { vec![Error::required(path, "")] } else { validate_format(path, text, format) }
}

/// Checks that a string has the format.
pub fn validate_format(path: &Path, text: &str, format: fn(&str) -> Vec<String>) -> ErrorList {
    format(text).into_iter().map(|detail| Error::invalid(path, text, detail)).collect()
}

/// Checks the keys of topology constraints: their number, and that each is a label key.
pub fn validate_topology<'a>(path: &Path, keys: impl ExactSizeIterator<Item = &'a str>) -> ErrorList {
    if keys.len() > MAX_TOPOLOGY_CONSTRAINTS {
        return vec![Error::too_many(path, keys.len(), MAX_TOPOLOGY_CONSTRAINTS)];
    }
    keys.enumerate()
        .flat_map(|(i, key)| validate_required(&path.index(i).child("key"), key, format::label_key))
        .collect()
}

/// Checks the claims of a group: their number, unique names, exactly one source each.
pub fn validate_claims(path: &Path, claims: &[ResourceClaim]) -> ErrorList {
    if claims.len() > MAX_CLAIMS {
        return vec![Error::too_many(path, claims.len(), MAX_CLAIMS)];
    }
    let mut errors = validate_unique_names(path, claims, |claim| &claim.name);
    for (i, claim) in claims.iter().enumerate() {
        let path = path.index(i);
        let sources = [
            ("resourceClaimName", &claim.resource_claim_name),
            ("resourceClaimTemplateName", &claim.resource_claim_template_name),
        ];
        errors.extend(exactly_one(&path, &sources.map(|(name, source)| (name, source.is_some()))));
        errors.extend(validate_required(&path.child("name"), &claim.name, format::label));
        for (name, source) in sources {
            let source = source.iter();
            errors.extend(source.flat_map(|text| validate_format(&path.child(name), text, format::subdomain)));
        }
    }
    errors
}

/// Checks that no two items of a list have the same name. The error is about the later item and prints all of it.
pub fn validate_unique_names<T: serde::Serialize>(path: &Path, items: &[T], name: fn(&T) -> &String) -> ErrorList {
    let repeated =
        items.iter().enumerate().filter(|(i, item)| items[..*i].iter().any(|earlier| name(earlier) == name(item)));
    repeated
        .map(|(i, item)| {
            let value = serde_json::to_value(item).expect("an API type serializes to JSON");
            Error::duplicate(&path.index(i), value)
        })
        .collect()
}
