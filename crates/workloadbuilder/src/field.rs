//! Field paths and field errors, in the form the Kubernetes API gives them.

use std::fmt;

use serde_json::Value;

/// Where in an object something is: `spec.template.spec.containers[0].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// A path of one element; the empty text is the root.
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

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with a field. The texts are those of the Kubernetes API, on the wire too (`Status` causes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A value that must be there is missing.
    Required,
    /// The value breaks a rule.
    Invalid,
    /// The value is not one of those allowed.
    NotSupported,
    /// The field may not be set, or not here, or not now.
    Forbidden,
    /// Too many items.
    TooMany,
    /// The text is too long.
    TooLong,
    /// The value stands twice where it must be unique.
    Duplicate,
    /// The value names something that is not there.
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
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
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
            ErrorKind::Invalid => "FieldValueInvalid",
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

/// One field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Where.
    pub path: Path,
    /// The offending value as printed; `None` for kinds that print none.
    pub value: Option<String>,
    /// What to do about it; may be empty.
    pub detail: String,
}

impl Error {
    /// A value that must be there is missing.
    pub fn required(path: &Path, detail: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Required, path: path.clone(), value: None, detail: detail.into() }
    }

    /// The value breaks a rule.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Error {
        Error::with_value(ErrorKind::Invalid, path, value.into(), detail.into())
    }

    /// The value is not one of `supported`, which is printed in the order given.
    pub fn not_supported(path: &Path, value: impl Into<Value>, supported: &[&str]) -> Error {
        let quoted: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Error::with_value(ErrorKind::NotSupported, path, value.into(), detail)
    }

    /// The field may not be set.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Forbidden, path: path.clone(), value: None, detail: detail.into() }
    }

    /// More items than `max`.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Error {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {items}");
        Error { kind: ErrorKind::TooMany, path: path.clone(), value: Some(actual.to_string()), detail }
    }

    /// A longer text than `max` bytes.
    pub fn too_long(path: &Path, max: usize) -> Error {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {bytes}");
        Error { kind: ErrorKind::TooLong, path: path.clone(), value: None, detail }
    }

    /// The value stands twice.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Error {
        Error::with_value(ErrorKind::Duplicate, path, value.into(), String::new())
    }

    /// The value names something that is not there.
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

    /// The error without its path, as a cause's `message` has it: `Invalid value: 4: must be …`.
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
    fn errors_read_as_the_api_prints_them() {
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
}
