//! The rules that users' blocks share with the kinds compiled from them: unions, bounds, formats, claims.
//!
//! Each returns field errors in the API's words. They are what the API calls declarative validation.

use serde_json::Value;

use crate::field::{Error, ErrorList, Path};
use crate::format;
use crate::item::ResourceClaim;

/// The most claims a group may have.
pub const MAX_CLAIMS: usize = 4;
/// The most topology constraints a group may have.
pub const MAX_TOPOLOGY_CONSTRAINTS: usize = 1;
/// The most templates in one list.
pub const MAX_TEMPLATES: usize = 8;
/// The most levels of templates, that of the groups of pods included.
pub const MAX_DEPTH: usize = 4;

/// Exactly one member of a union is set. The error is about the struct around the members.
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

/// The number is not below `minimum`.
pub fn at_least(path: &Path, value: impl Into<i64>, minimum: i64) -> Option<Error> {
    let value = value.into();
    (value < minimum).then(|| Error::invalid(path, value, format!("must be greater than or equal to {minimum}")))
}

/// The number is not above `maximum`.
pub fn at_most(path: &Path, value: impl Into<i64>, maximum: i64) -> Option<Error> {
    let value = value.into();
    (value > maximum).then(|| Error::invalid(path, value, format!("must be less than or equal to {maximum}")))
}

/// A field that never changes has changed. The value is not at hand here; the API server fills in what was sent.
pub fn immutable(path: &Path) -> Error {
    Error::invalid(path, Value::Null, "field is immutable")
}

/// A field that may change but neither come nor go has neither come nor gone.
pub fn presence_unchanged(path: &Path, new: bool, old: bool) -> Option<Error> {
    match (new, old) {
        (true, false) => Some(Error::invalid(path, Value::Null, "field cannot be set once created")),
        (false, true) => Some(Error::invalid(path, Value::Null, "field cannot be cleared once set")),
        _ => None,
    }
}

/// A text that has to be there and to be written as `format` says.
pub fn validate_required(path: &Path, text: &str, format: fn(&str) -> Vec<String>) -> ErrorList {
    if text.is_empty() { vec![Error::required(path, "")] } else { validate_format(path, text, format) }
}

/// A text that has to be written as `format` says.
pub fn validate_format(path: &Path, text: &str, format: fn(&str) -> Vec<String>) -> ErrorList {
    format(text).into_iter().map(|wrong| Error::invalid(path, text, wrong)).collect()
}

/// Topology constraints, given by their keys: few enough, each a label key.
pub fn validate_topology<'a>(path: &Path, keys: impl ExactSizeIterator<Item = &'a str>) -> ErrorList {
    if keys.len() > MAX_TOPOLOGY_CONSTRAINTS {
        return vec![Error::too_many(path, keys.len(), MAX_TOPOLOGY_CONSTRAINTS)];
    }
    keys.enumerate()
        .flat_map(|(i, key)| validate_required(&path.index(i).child("key"), key, format::label_key))
        .collect()
}

/// Claims of a group: few enough, names unique, each with exactly one source.
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

/// No two items of a list bear the same name. The error is about the later one and shows it whole.
pub fn validate_unique_names<T: serde::Serialize>(path: &Path, items: &[T], name: fn(&T) -> &String) -> ErrorList {
    let repeated =
        items.iter().enumerate().filter(|(i, item)| items[..*i].iter().any(|earlier| name(earlier) == name(item)));
    repeated
        .map(|(i, item)| {
            let value = serde_json::to_value(item).expect("an API type becomes JSON");
            Error::duplicate(&path.index(i), value)
        })
        .collect()
}
