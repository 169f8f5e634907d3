//! Field paths and field errors in the format of the Kubernetes API.

use std::fmt;

use serde_json::Value;

/// The path of a field in an object: `spec.template.spec.containers[0].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// A path of one element. The empty string is the root.
    pub fn new(first: &str) -> Path {
        Path(first.to_owned())
    }

    /// The path of a field below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Path {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    /// The path of a list item.
    #[must_use]
    pub fn index(&self, index: usize) -> Path {
        Path(format!("{}[{index}]", self.0))
    }

    /// The path of a map entry.
    #[must_use]
    pub fn key(&self, key: &str) -> Path {
        Path(format!("{}[{key}]", self.0))
    }

    /// The path as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kind of a field error. Texts and reasons are those of the Kubernetes API (causes of a `Status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A required value is missing.
    Required,
    /// The value violates a rule.
    Invalid,
    /// The field may not be changed, or not be added, after creation. Text and reason are those of `Invalid`.
    Immutable,
    /// The value is not one of the supported ones.
    NotSupported,
    /// The field must not be set, or must not change.
    Forbidden,
    /// Too many items.
    TooMany,
    /// The string is too long.
    TooLong,
    /// The value occurs twice but must be unique.
    Duplicate,
    /// The value names an object that does not exist.
    NotFound,
    /// The value has the wrong type.
    TypeInvalid,
    /// The caller (not the user) made a mistake.
    Internal,
}

impl ErrorKind {
    /// The text in front of the value: `Invalid value`.
    pub fn text(self) -> &'static str {
        match self {
            ErrorKind::Required => "Required value",
            ErrorKind::Invalid | ErrorKind::Immutable | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooMany => "Too many",
            ErrorKind::TooLong => "Too long",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::NotFound => "Not found",
            ErrorKind::Internal => "Internal error",
        }
    }

    /// The `reason` of a cause in a `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Invalid | ErrorKind::Immutable => "FieldValueInvalid",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Internal => "InternalError",
        }
    }
}

/// An error about one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The field.
    pub path: Path,
    /// The invalid value as it is printed; `None` for kinds that print none.
    pub value: Option<String>,
    /// The rule or the remedy; may be empty.
    pub detail: String,
}

impl Error {
    /// A required value is missing.
    pub fn required(path: &Path, detail: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Required, path: path.clone(), value: None, detail: detail.into() }
    }

    /// The value violates a rule.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Error {
        Error::with_value(ErrorKind::Invalid, path, value.into(), detail.into())
    }

    /// The field may not be changed, or not be added, after creation. The API server replaces a null value by that of the
    /// request.
    pub fn immutable(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Error {
        Error::with_value(ErrorKind::Immutable, path, value.into(), detail.into())
    }

    /// The value is not one of `supported`, which is printed in the order given.
    pub fn not_supported(path: &Path, value: impl Into<Value>, supported: &[&str]) -> Error {
        let quoted: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Error::with_value(ErrorKind::NotSupported, path, value.into(), detail)
    }

    /// The field must not be set.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Forbidden, path: path.clone(), value: None, detail: detail.into() }
    }

    /// More items than `max`.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Error {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {items}");
        Error { kind: ErrorKind::TooMany, path: path.clone(), value: Some(actual.to_string()), detail }
    }

    /// The string has more than `max` bytes.
    pub fn too_long(path: &Path, max: usize) -> Error {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {bytes}");
        Error { kind: ErrorKind::TooLong, path: path.clone(), value: None, detail }
    }

    /// The value occurs twice.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Error {
        Error::with_value(ErrorKind::Duplicate, path, value.into(), String::new())
    }

    /// The value names an object that does not exist.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Error {
        Error::with_value(ErrorKind::NotFound, path, value.into(), String::new())
    }

    /// The caller made a mistake.
    pub fn internal(path: &Path, detail: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Internal, path: path.clone(), value: None, detail: detail.into() }
    }

    fn with_value(kind: ErrorKind, path: &Path, value: Value, detail: String) -> Error {
        Error { kind, path: path.clone(), value: Some(value.to_string()), detail }
    }

    /// The error without its path, as in the `message` of a cause: `Invalid value: 4: must be …`.
    pub fn message(&self) -> String {
        let mut text = self.kind.text().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(value);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.0.is_empty() {
            f.write_str(&self.message())
        } else {
            write!(f, "{}: {}", self.path, self.message())
        }
    }
}

/// All errors of one object, in the order found.
pub type ErrorList = Vec<Error>;

#[cfg(test)]
mod tests {
    use super::{Error, Path};

    #[test]
    fn errors_have_the_format_of_the_api() {
        let path = Path::new("spec").child("templates").index(2).child("name");
        assert_eq!(
            Error::invalid(&path, "a_b", "must be a label").to_string(),
            "spec.templates[2].name: Invalid value: \"a_b\": must be a label"
        );
        assert_eq!(Error::required(&path, "").to_string(), "spec.templates[2].name: Required value");
        assert_eq!(
            Error::not_supported(&path, "x", &["A", "B"]).to_string(),
            "spec.templates[2].name: Unsupported value: \"x\": supported values: \"A\", \"B\""
        );
        assert_eq!(
            Error::too_many(&Path::new("spec").child("topology"), 2, 1).to_string(),
            "spec.topology: Too many: 2: must have at most 1 item"
        );
    }

    #[test]
    fn an_immutable_field_is_reported_as_an_invalid_value() {
        let path = Path::new("spec");
        let (immutable, invalid) = (Error::immutable(&path, 4, "fixed"), Error::invalid(&path, 4, "fixed"));
        assert_eq!(immutable.to_string(), invalid.to_string());
        assert_eq!(immutable.kind.reason(), invalid.kind.reason());
    }
}
