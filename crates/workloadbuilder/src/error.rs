//! Why nothing could be built.

use thiserror::Error;

use crate::field::{Error as FieldError, ErrorKind, Path};
use crate::rules::{MAX_DEPTH, MAX_TEMPLATES};

/// Why nothing could be built. Each is a mistake of the controller or its user, so trying again does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The fields say what the messages say.
pub enum BuildError {
    /// A Workload has at least one template.
    #[error("there is no item to build from")]
    NoItems,
    /// Templates are found by name.
    #[error("{path}: an item has no name")]
    NoName { path: Path },
    /// Templates bear DNS labels. Where the name is not the user's, [`crate::names`] makes a legal one of any.
    #[error("item {item}: its name has to be a DNS label: {wrong}")]
    InvalidName { path: Path, item: String, wrong: String },
    /// Templates are found by name, wherever in the tree they stand.
    #[error("item {item}: the name stands twice in the tree")]
    DuplicateName { path: Path, item: String },
    /// A leaf has the blocks of a composite, or a composite those of a leaf.
    #[error("item {item}: these are the blocks of a {blocks}, but the item is {level}")]
    LevelMismatch { item: String, blocks: &'static str, level: &'static str },
    /// Claims are shared by pods, and a composite has groups.
    #[error("item {item}: claims are shared by pods: move resourceClaims to the items below")]
    ClaimsOnComposite { path: Path, item: String },
    /// A Workload has one list of templates at the top.
    #[error(
        "item {item}: a workload has groups of pods at the top or groups of groups, not both: put all under one item"
    )]
    MixedTopLevel { item: String },
    /// A list of templates is full.
    #[error(
        "{owner}: {count} templates in one list, and at most {MAX_TEMPLATES} are allowed: put some of them under an item of \
         their own"
    )]
    TooManyTemplates { path: Path, owner: String, count: usize },
    /// The tree is too deep.
    #[error(
        "item {item}: {depth} levels, and at most {MAX_DEPTH} are allowed, that of the pods included: leave out a level \
         that asks for nothing"
    )]
    TooDeep { path: Path, item: String, depth: usize },
    /// Nobody said how many members a gang needs: neither the user, nor the defaults, nor a callback.
    #[error("item {item}: a gang needs {field}")]
    NoMinCount { path: Path, item: String, field: &'static str },
    /// A value that the API server would refuse.
    #[error("item {item}: {error}")]
    InvalidField { item: String, error: Box<FieldError> },
    /// All groups of a Workload have the same priority.
    #[error(
        "item {item}: priority class {other} where {first} is set elsewhere in the tree: all pods of a workload need one \
         class"
    )]
    PriorityClassMismatch { path: Path, item: String, first: String, other: String },
    /// The library knows the policy or mode by name only.
    #[error("item {item}: {what} {name} has no form in the API")]
    NotInApi { path: Path, item: String, what: &'static str, name: &'static str },
    /// Without composites nobody would carry out what a composite asks for.
    #[error(
        "item {item}: {what} of a group of groups needs CompositePodGroup, which the target does not have: ask for it at \
         the items below, or choose Basic here"
    )]
    NeedsComposites { path: Path, item: String, what: &'static str },
    /// A Workload has to say what it stands for.
    #[error("a workload needs an owner")]
    NoOwner,
    /// The server would refuse the reference.
    #[error("owner {kind} {name}: kind, name and uid must be set")]
    IncompleteOwner { kind: String, name: String },
    /// The owner's group cannot be read.
    #[error("owner {kind} {name}: apiVersion {api_version:?} is not group/version")]
    InvalidOwnerVersion { kind: String, name: String, api_version: String },
    /// The server would refuse the name.
    #[error("workload: {0}")]
    InvalidWorkloadName(Box<FieldError>),
    /// The builder was made from a Workload, which is there already.
    #[error("this builder was made from workload {name} and builds no other")]
    BuiltFromWorkload { name: String },
    /// The Workload has no such template.
    #[error("workload {workload} has no template {template:?}, only: {}", known.join(", "))]
    NoTemplate { workload: String, template: String, known: Vec<String> },
    /// The template is of the other level.
    #[error("template {template} of workload {workload} makes a {makes}, not a {asked}")]
    TemplateKindMismatch { workload: String, template: String, makes: &'static str, asked: &'static str },
}

impl BuildError {
    /// The error as one about a field of the controller's object. Where only the controller can have made the mistake
    /// it is an internal error at `root`.
    pub fn to_field_error(&self, root: &Path) -> FieldError {
        let text = self.to_string();
        // The path says which item it is; what follows the item's name says what is wrong.
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
                // The other advice is for who builds the tree; users know no items.
                detail: format!("a workload has at most {MAX_TEMPLATES} groups side by side"),
            },
            BuildError::TooDeep { path, .. }
            | BuildError::ClaimsOnComposite { path, .. }
            | BuildError::NotInApi { path, .. }
            | BuildError::NeedsComposites { path, .. } => FieldError::forbidden(path, detail),
            _ => FieldError::internal(root, text),
        }
    }
}
