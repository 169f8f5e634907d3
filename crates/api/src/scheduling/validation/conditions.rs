//! Conditions in the form that newer kinds share.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use workloadbuilder::{format, rules};

use crate::field::{Error, ErrorList, Path};

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32_768;

/// A condition without `lastTransitionTime` is not seen here: it does not decode.
pub(super) fn validate(path: &Path, conditions: &[Condition]) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        if !seen.insert(&condition.type_) {
            errors.push(Error::duplicate(&path.child("type"), condition.type_.as_str()));
        }
        errors.extend(validate_one(&path, condition));
    }
    errors
}

fn validate_one(path: &Path, condition: &Condition) -> ErrorList {
    let must_be_set = |name: &str| Error::required(&path.child(name), "must be set");
    let mut errors = match condition.type_.as_str() {
        "" => vec![must_be_set("type")],
        kind => rules::written_as(&path.child("type"), kind, format::label_key),
    };
    let statuses = ["False", "True", "Unknown"];
    if !statuses.contains(&condition.status.as_str()) {
        errors.push(Error::not_supported(&path.child("status"), condition.status.as_str(), &statuses));
    }
    if let Some(generation) = condition.observed_generation.filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to zero";
        errors.push(Error::invalid(&path.child("observedGeneration"), generation, detail));
    }
    match condition.reason.as_str() {
        "" => errors.push(must_be_set("reason")),
        reason => {
            errors.extend(rules::written_as(&path.child("reason"), reason, reason_form));
            if reason.len() > REASON_BYTES_MAX {
                errors.push(Error::too_long(&path.child("reason"), REASON_BYTES_MAX));
            }
        }
    }
    if condition.message.len() > MESSAGE_BYTES_MAX {
        errors.push(Error::too_long(&path.child("message"), MESSAGE_BYTES_MAX));
    }
    errors
}

fn reason_form(reason: &str) -> Vec<String> {
    let bytes = reason.as_bytes();
    let is_last = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let good = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(is_last)
        && bytes.iter().all(|byte| is_last(byte) || matches!(byte, b',' | b':'));
    if good {
        return Vec::new();
    }
    vec![
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric \
         characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or \
         'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
         '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
            .to_owned(),
    ]
}
