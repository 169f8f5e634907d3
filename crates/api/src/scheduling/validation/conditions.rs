//! Conditions in the format of newer kinds.

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;
use workloadbuilder::{format, rules};

use crate::clock::rfc3339;
use crate::field::{Error, ErrorList, Path};

/// The zero time, which means unset.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";
const MAX_REASON_BYTES: usize = 1024;
const MAX_MESSAGE_BYTES: usize = 32_768;

/// The document with the zero time in conditions that have no time, so that it decodes. The typed form requires a time,
/// and the missing one is reported together with other errors.
pub fn with_transition_times(document: &Value) -> Cow<'_, Value> {
    let lacks_time = |condition: &Value| condition.is_object() && condition["lastTransitionTime"].is_null();
    let conditions = document.pointer("/status/conditions").and_then(Value::as_array);
    if !conditions.is_some_and(|conditions| conditions.iter().any(lacks_time)) {
        return Cow::Borrowed(document);
    }
    let mut document = document.clone();
    let conditions = document.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter(|condition| lacks_time(condition)) {
        condition["lastTransitionTime"] = ZERO_TIME.into();
    }
    Cow::Owned(document)
}

pub(crate) fn validate(path: &Path, conditions: &[Condition]) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut types = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        if !types.insert(&condition.type_) {
            errors.push(Error::duplicate(&path, condition.type_.as_str()));
        }
        errors.extend(validate_condition(&path, condition));
    }
    errors
}

fn validate_condition(path: &Path, condition: &Condition) -> ErrorList {
    let mut errors = match condition.type_.as_str() {
        "" => vec![Error::required(&path.child("type"), "is required")],
        kind => rules::validate_format(&path.child("type"), kind, format::label_key),
    };
    let statuses = ["False", "True", "Unknown"];
    if condition.status.is_empty() {
        errors.push(Error::required(&path.child("status"), ""));
    } else if !statuses.contains(&condition.status.as_str()) {
        errors.push(Error::not_supported(&path.child("status"), condition.status.as_str(), &statuses));
    }
    if let Some(generation) = condition.observed_generation.filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to zero";
        errors.push(Error::invalid(&path.child("observedGeneration"), generation, detail));
    }
    if rfc3339(condition.last_transition_time.0) == ZERO_TIME {
        errors.push(Error::required(&path.child("lastTransitionTime"), ""));
    }
    match condition.reason.as_str() {
        "" => errors.push(Error::required(&path.child("reason"), "")),
        reason => {
            errors.extend(rules::validate_format(&path.child("reason"), reason, reason_format));
            if reason.len() > MAX_REASON_BYTES {
                errors.push(Error::too_long(&path.child("reason"), MAX_REASON_BYTES));
            }
        }
    }
    if condition.message.len() > MAX_MESSAGE_BYTES {
        errors.push(Error::too_long(&path.child("message"), MAX_MESSAGE_BYTES));
    }
    errors
}

fn reason_format(reason: &str) -> Vec<String> {
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
