//! Selectors, as lists and watches are asked with them: by label and by field.

mod fields; // `metadata.name=x,status.phase!=Running`
mod labels; // `app=web,tier in (a,b),!legacy`

pub use fields::{FieldOperator, FieldRequirement, FieldSelector};
pub use labels::{LabelRequirement, ParsedLabelSelector, validate_label_selector};

/// The selector cannot be understood; the text says where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseSelectorError(String);

impl ParseSelectorError {
    fn new(text: impl Into<String>) -> ParseSelectorError {
        ParseSelectorError(text.into())
    }
}
