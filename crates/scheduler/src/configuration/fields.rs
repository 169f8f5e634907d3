//! Reads one object of the file field by field. A field that is not read is unknown.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use api::field::{Error, ErrorList, Path};
use serde_json::{Map, Value};

/// The fields of one object, with its path in the file.
pub(super) struct FieldReader<'a> {
    map: &'a Map<String, Value>,
    path: Path,
    known_fields: BTreeSet<&'static str>,
    errors: &'a mut ErrorList,
}

impl<'a> FieldReader<'a> {
    /// `None`, with an error, if the value is not an object.
    pub(super) fn of<'b>(value: &'b Value, path: &Path, errors: &'b mut ErrorList) -> Option<FieldReader<'b>> {
        match value.as_object() {
            Some(map) => Some(FieldReader { map, path: path.clone(), known_fields: BTreeSet::new(), errors }),
            None => {
                errors.push(Error::invalid(path, value.clone(), "must be a mapping"));
                None
            }
        }
    }

    /// The path of a field.
    pub(super) fn path(&self, field: &str) -> Path {
        self.path.child(field)
    }

    pub(super) fn error(&mut self, error: Error) {
        self.errors.push(error);
    }

    pub(super) fn errors(&mut self) -> &mut ErrorList {
        self.errors
    }

    /// The value of a field; `None` if it is absent or null.
    pub(super) fn value(&mut self, field: &'static str) -> Option<&'a Value> {
        self.known_fields.insert(field);
        self.map.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn require_value(&mut self, field: &'static str, wanted: &str) {
        match self.value(field) {
            Some(value) if value.as_str() == Some(wanted) => {}
            Some(value) => {
                let error = Error::not_supported(&self.path(field), value.clone(), &[wanted]);
                self.error(error);
            }
            None => {
                let error = Error::required(&self.path(field), format!("must be {wanted}"));
                self.error(error);
            }
        }
    }

    pub(super) fn text(&mut self, field: &'static str) -> Option<String> {
        self.read(field, "must be a string", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Option<bool> {
        self.read(field, "must be true or false", Value::as_bool)
    }

    pub(super) fn number(&mut self, field: &'static str, range: RangeInclusive<i64>) -> Option<i64> {
        let wanted = match *range.end() {
            i64::MAX => format!("must be a whole number of at least {}", range.start()),
            end => format!("must be a whole number from {} to {end}", range.start()),
        };
        self.read(field, &wanted, |value| value.as_i64().filter(|number| range.contains(number)))
    }

    pub(super) fn decimal(&mut self, field: &'static str) -> Option<f64> {
        self.read(field, "must be a number", Value::as_f64)
    }

    pub(super) fn duration(&mut self, field: &'static str, min: Duration) -> Option<Duration> {
        let wanted = format!("must be a duration from {min:?} to 87600h, such as 15s");
        self.read(field, &wanted, |value| api::clock::parse_duration_setting_at_least(min, value.as_str()?))
    }

    pub(super) fn texts(&mut self, field: &'static str) -> Vec<String> {
        let texts = self.read(field, "must be a list of strings", |value| {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        texts.unwrap_or_default()
    }

    /// The items of a list; empty without a list.
    pub(super) fn list(&mut self, field: &'static str) -> &'a [Value] {
        let Some(value) = self.value(field) else { return &[] };
        value.as_array().map_or_else(
            || {
                let error = Error::invalid(&self.path(field), value.clone(), "must be a list");
                self.errors.push(error);
                &[][..]
            },
            Vec::as_slice,
        )
    }

    /// The object in a field.
    pub(super) fn object(&mut self, field: &'static str) -> Option<FieldReader<'_>> {
        let value = self.value(field)?;
        FieldReader::of(value, &self.path.child(field), self.errors)
    }

    /// Reports every field that was not read as unknown.
    pub(super) fn reject_unknown(self) {
        let known: Vec<_> = self.known_fields.iter().copied().collect();
        for field in self.map.keys().filter(|field| !self.known_fields.contains(field.as_str())) {
            let detail = format!("unknown field; known here are {}", known.join(", "));
            self.errors.push(Error::forbidden(&self.path.child(field), detail));
        }
    }

    fn read<T>(&mut self, field: &'static str, wanted: &str, parse: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let value = self.value(field)?;
        let parsed = parse(value);
        if parsed.is_none() {
            let error = Error::invalid(&self.path(field), value.clone(), wanted);
            self.error(error);
        }
        parsed
    }
}
