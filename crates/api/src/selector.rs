//! Label and field selectors of lists and watches.

mod fields; // `metadata.name=x,status.phase!=Running`
mod labels; // `app=web,tier in (a,b),!legacy`

pub use fields::{FieldOperator, FieldRequirement, FieldSelector};
pub use labels::{LabelRequirement, ParsedLabelSelector, validate_label_selector};

/// The selector cannot be parsed. The message has the position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseSelectorError(String);

impl ParseSelectorError {
    fn new(text: impl Into<String>) -> ParseSelectorError {
        ParseSelectorError(text.into())
    }
}
