//! Why a build failed.

use thiserror::Error;

use crate::field::{Error as FieldError, ErrorKind, Path};
use crate::rules::{MAX_DEPTH, MAX_TEMPLATES};

/// Why a build failed. Each is a mistake of the controller or its user, so a retry does not help.
///
/// In all variants `path` is the field of the controller's object, and `item` the name of the item. The other fields
/// are the values in the message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The enum's documentation describes the fields.
pub enum BuildError {
    /// There is no item. A Workload has at least one template.
    #[error("there is no item to build from")]
    NoItems,
    /// An item has no name.
    #[error("{path}: an item has no name")]
    NoName { path: Path },
    /// The name of a template must be a DNS label. [`crate::names`] makes a valid name from any object name.
    #[error("item {item}: its name must be a DNS label: {wrong}")]
    InvalidName { path: Path, item: String, wrong: String },
    /// Two items have the same name. Templates are found by name, at any depth.
    #[error("item {item}: the name is used twice in the tree")]
    DuplicateName { path: Path, item: String },
    /// A leaf has the blocks of a composite, or a composite those of a leaf.
    #[error("item {item}: the blocks are those of a {blocks}, but the item is {level}")]
    LevelMismatch { item: String, blocks: &'static str, level: &'static str },
    /// A composite has claims. Only pods share claims.
    #[error("item {item}: only pods share claims: move resourceClaims to the items below")]
    ClaimsOnComposite { path: Path, item: String },
    /// The items at the top are of both levels. A Workload has one list of templates at the top.
    #[error(
        "item {item}: the top of a workload has groups of pods or groups of groups, not both: put all under one item"
    )]
    MixedTopLevel { item: String },
    /// A list has too many templates.
    #[error(
        "{owner}: {count} templates in one list, at most {MAX_TEMPLATES} are allowed: put some of them under a new item"
    )]
    TooManyTemplates { path: Path, owner: String, count: usize },
    /// The tree is too deep.
    #[error(
        "item {item}: {depth} levels, at most {MAX_DEPTH} are allowed, including that of the pods: remove a level that \
         sets nothing"
    )]
    TooDeep { path: Path, item: String, depth: usize },
    /// A gang has no count, neither from the user nor from the defaults nor from a callback.
    #[error("item {item}: a gang needs {field}")]
    NoMinCount { path: Path, item: String, field: &'static str },
    /// A value that the API server would refuse.
    #[error("item {item}: {error}")]
    InvalidField { item: String, error: Box<FieldError> },
    /// All groups of a Workload have the same priority.
    #[error(
        "item {item}: priority class {other}, but {first} elsewhere in the tree: all pods of a workload need the same \
         class"
    )]
    PriorityClassMismatch { path: Path, item: String, first: String, other: String },
    /// The library knows the policy or mode by name only.
    #[error("item {item}: {what} {name} is not in the API")]
    NotInApi { path: Path, item: String, what: &'static str, name: &'static str },
    /// A composite sets a field that the server applies only to CompositePodGroups, which the target does not have.
    #[error(
        "item {item}: {what} of a group of groups needs CompositePodGroup, which the target does not have: set it at the \
         items below, or choose Basic here"
    )]
    NeedsComposites { path: Path, item: String, what: &'static str },
    /// The options have no owner.
    #[error("a workload needs an owner")]
    NoOwner,
    /// The owner lacks a field that the API server requires.
    #[error("owner {kind} {name}: kind, name and uid must be set")]
    IncompleteOwner { kind: String, name: String },
    /// The owner's `apiVersion` cannot be parsed.
    #[error("owner {kind} {name}: apiVersion {api_version:?} is not group/version")]
    InvalidOwnerVersion { kind: String, name: String, api_version: String },
    /// The name or namespace of the Workload is not valid.
    #[error("workload: {0}")]
    InvalidWorkloadName(Box<FieldError>),
    /// The builder was made from an existing Workload.
    #[error("this builder was made from workload {name} and cannot build another")]
    BuiltFromWorkload { name: String },
    /// The Workload has no such template.
    #[error("workload {workload} has no template {template:?}, only: {}", known.join(", "))]
    NoTemplate { workload: String, template: String, known: Vec<String> },
    /// The template is of the other level.
    #[error("template {template} of workload {workload} is for a {makes}, not for a {requested}")]
    TemplateKindMismatch { workload: String, template: String, makes: &'static str, requested: &'static str },
}

impl BuildError {
    /// The error as an error about a field of the controller's object. A mistake that only the controller can make is
    /// an internal error at `root`.
    pub fn to_field_error(&self, root: &Path) -> FieldError {
        let text = self.to_string();
        // The path identifies the item, so the item's name in front of the message is left out.
        let detail = text.split_once(": ").map_or(text.as_str(), |(_, detail)| detail);
        match self {
            BuildError::InvalidField { error, .. } => (**error).clone(),
            BuildError::NoMinCount { path, .. } => FieldError::required(path, detail),
            BuildError::InvalidName { path, item, .. } => FieldError::invalid(path, item.as_str(), detail),
            BuildError::DuplicateName { path, item } => FieldError::duplicate(path, item.as_str()),
            BuildError::PriorityClassMismatch { path, other, .. } => FieldError::invalid(path, other.as_str(), detail),
            BuildError::TooManyTemplates { path, count, .. } => FieldError {
                kind: ErrorKind::TooMany,
                path: path.clone(),
                value: Some(count.to_string()),
                // The remedy in the message is for controllers. Users do not know items.
                detail: format!("a workload has at most {MAX_TEMPLATES} groups in one list"),
            },
            BuildError::TooDeep { path, .. }
            | BuildError::ClaimsOnComposite { path, .. }
            | BuildError::NotInApi { path, .. }
            | BuildError::NeedsComposites { path, .. } => FieldError::forbidden(path, detail),
            _ => FieldError::internal(root, text),
        }
    }
}
