//! The resolved tree, in the layout of the target, with one priority class.
//!
//! It finds all errors that the API server would find in the Workload of the tree, and adds a remedy.

use std::collections::BTreeSet;

use crate::blocks::Blocks;
use crate::error::BuildError;
use crate::field::{Error as FieldError, Path};
use crate::format;
use crate::item::{DisruptionMode, PolicyKind, SchedulingConfig, SchedulingPolicy, WorkloadItem};
use crate::rules::{self, MAX_DEPTH, MAX_TEMPLATES};
use crate::target::GroupLayout;

/// An item with its resolved configuration.
#[derive(Clone)]
pub(crate) struct ResolvedItem<'a> {
    pub item: &'a WorkloadItem,
    pub config: SchedulingConfig,
    pub children: Vec<ResolvedItem<'a>>,
}

impl<'a> ResolvedItem<'a> {
    /// Resolves the tree of `item`.
    pub fn resolve(item: &'a WorkloadItem) -> ResolvedItem<'a> {
        ResolvedItem {
            item,
            config: item.resolve(),
            children: item.children.iter().map(ResolvedItem::resolve).collect(),
        }
    }

    pub fn is_composite(&self) -> bool {
        !self.children.is_empty()
    }

    /// Path and name of the field with the count of a gang.
    fn count_field(&self) -> (Path, &'static str) {
        let name = if self.is_composite() { "minGroupCount" } else { "minCount" };
        (self.item.fields.policy.child("gang").child(name), name)
    }

    /// The number of levels from here down. A leaf has one.
    fn depth(&self) -> usize {
        1 + self.children.iter().map(ResolvedItem::depth).max().unwrap_or(0)
    }
}

/// The resolved trees of `roots` in the layout, or all errors in them.
pub(crate) fn resolve(roots: &[WorkloadItem], layout: GroupLayout) -> Result<Vec<ResolvedItem<'_>>, Vec<BuildError>> {
    let mut nodes: Vec<ResolvedItem<'_>> = roots.iter().map(ResolvedItem::resolve).collect();
    let mut errors = Vec::new();
    if nodes.is_empty() {
        errors.push(BuildError::NoItems);
    }
    let mut names = BTreeSet::new();
    for node in &nodes {
        visit_all(node, &mut |node| {
            errors.extend(validate_name(node, &mut names));
            errors.extend(validate_level(node));
            errors.extend(validate_config(node));
        });
    }
    errors.extend(propagate_priority_class(&mut nodes));
    if layout == GroupLayout::Flat {
        nodes = nodes.into_iter().flat_map(|node| into_leaves(node, &mut errors)).collect();
    }
    errors.extend(validate_top(&nodes));
    for node in &nodes {
        errors.extend(validate_depth(node));
        visit_all(node, &mut |node| errors.extend(validate_children(node)));
    }
    if errors.is_empty() { Ok(nodes) } else { Err(errors) }
}

/// Visits all nodes of the tree, parents before children, in the given order.
fn visit_all<'n, 'a>(node: &'n ResolvedItem<'a>, visit: &mut impl FnMut(&'n ResolvedItem<'a>)) {
    visit(node);
    for child in &node.children {
        visit_all(child, visit);
    }
}

fn validate_name<'a>(node: &ResolvedItem<'a>, names: &mut BTreeSet<&'a str>) -> Option<BuildError> {
    let (path, item) = (node.item.path.clone(), node.item.name.clone());
    if item.is_empty() {
        return Some(BuildError::NoName { path });
    }
    if let Some(wrong) = format::label(&item).into_iter().next() {
        return Some(BuildError::InvalidName { path, item, wrong });
    }
    (!names.insert(&node.item.name)).then_some(BuildError::DuplicateName { path, item })
}

/// Checks that the item's blocks and configuration are of its level.
fn validate_level(node: &ResolvedItem<'_>) -> Option<BuildError> {
    let item = node.item.name.clone();
    match (&node.item.input, node.is_composite()) {
        (Blocks::PodGroup(_), true) => {
            Some(BuildError::LevelMismatch { item, blocks: "PodGroup", level: "a group of groups" })
        }
        (Blocks::CompositePodGroup(_), false) => {
            Some(BuildError::LevelMismatch { item, blocks: "CompositePodGroup", level: "a group of pods" })
        }
        (_, true) if !node.config.resource_claims.is_empty() => {
            Some(BuildError::ClaimsOnComposite { path: node.item.fields.resource_claims.clone(), item })
        }
        _ => None,
    }
}

/// The errors that the API server would find in the template of one item.
fn validate_config(node: &ResolvedItem<'_>) -> Vec<BuildError> {
    let (item, fields) = (node.item, &node.item.fields);
    let mut field_errors: Vec<FieldError> = Vec::new();
    let mut errors = Vec::new();
    match node.config.policy {
        Some(SchedulingPolicy::Gang { min_count: None }) => {
            let (path, field) = node.count_field();
            errors.push(BuildError::NoMinCount { path, item: item.name.clone(), field });
        }
        Some(SchedulingPolicy::Gang { min_count: Some(count) }) => {
            field_errors.extend(rules::at_least(&node.count_field().0, count, 1));
        }
        Some(SchedulingPolicy::Other(name)) => {
            let (path, item) = (fields.policy.clone(), item.name.clone());
            errors.push(BuildError::NotInApi { path, item, what: "the scheduling policy", name });
        }
        None | Some(SchedulingPolicy::Basic) => {}
    }
    if let Some(DisruptionMode::Other(name)) = node.config.disruption_mode {
        let (path, item) = (fields.disruption_mode.clone(), item.name.clone());
        errors.push(BuildError::NotInApi { path, item, what: "the disruption mode", name });
    }
    if let Some(constraints) = &node.config.constraints {
        let path = fields.constraints.child("topology");
        field_errors.extend(rules::validate_topology(&path, constraints.topology.iter().map(String::as_str)));
    }
    field_errors.extend(rules::validate_claims(&fields.resource_claims, &node.config.resource_claims));
    if let Some(class) = priority_class(node) {
        field_errors.extend(rules::validate_format(&item.path.child("priorityClassName"), class, format::subdomain));
    }
    errors.extend(
        field_errors.into_iter().map(|error| BuildError::InvalidField { item: item.name.clone(), error: error.into() }),
    );
    errors
}

fn priority_class<'n>(node: &'n ResolvedItem<'_>) -> Option<&'n str> {
    node.config.priority_class_name.as_deref().filter(|class| !class.is_empty())
}

/// Sets the priority class of any node in all nodes.
// Upstream: each template has the class of its own item, and the server refuses the Workload unless all are equal.
fn propagate_priority_class(nodes: &mut [ResolvedItem<'_>]) -> Vec<BuildError> {
    let mut first: Option<String> = None;
    let mut errors = Vec::new();
    for node in &*nodes {
        visit_all(node, &mut |node| match (priority_class(node), &first) {
            (Some(class), None) => first = Some(class.to_owned()),
            (Some(other), Some(first)) if other != first => errors.push(BuildError::PriorityClassMismatch {
                path: node.item.path.clone(),
                item: node.item.name.clone(),
                first: first.clone(),
                other: other.to_owned(),
            }),
            _ => {}
        });
    }
    fn set_priority_class(node: &mut ResolvedItem<'_>, class: Option<&String>) {
        node.config.priority_class_name = class.cloned();
        node.children.iter_mut().for_each(|child| set_priority_class(child, class));
    }
    nodes.iter_mut().for_each(|node| set_priority_class(node, first.as_ref()));
    errors
}

/// The groups of pods of a tree, as a list.
fn into_leaves<'a>(node: ResolvedItem<'a>, errors: &mut Vec<BuildError>) -> Vec<ResolvedItem<'a>> {
    if !node.is_composite() {
        return vec![node];
    }
    let fields = &node.item.fields;
    let set_fields = [
        (node.config.policy_kind() != PolicyKind::Basic, "the scheduling policy", &fields.policy),
        (node.config.constraints.is_some(), "the topology", &fields.constraints),
        (node.config.disruption_mode == Some(DisruptionMode::All), "the disruption mode", &fields.disruption_mode),
    ];
    for (_, what, path) in set_fields.into_iter().filter(|(is_set, _, _)| *is_set) {
        errors.push(BuildError::NeedsComposites { path: path.clone(), item: node.item.name.clone(), what });
    }
    node.children.into_iter().flat_map(|child| into_leaves(child, errors)).collect()
}

/// Checks the list at the top of a Workload: one level, and not too long.
fn validate_top(nodes: &[ResolvedItem<'_>]) -> Option<BuildError> {
    let first = nodes.first()?;
    if let Some(other) = nodes.iter().find(|node| node.is_composite() != first.is_composite()) {
        return Some(BuildError::MixedTopLevel { item: other.item.name.clone() });
    }
    (nodes.len() > MAX_TEMPLATES).then(|| BuildError::TooManyTemplates {
        path: first.item.path.clone(),
        owner: "the top of the workload".to_owned(),
        count: nodes.len(),
    })
}

/// Checks that the lists of a composite are not too long.
fn validate_children(node: &ResolvedItem<'_>) -> Option<BuildError> {
    let composites = node.children.iter().filter(|child| child.is_composite()).count();
    let count = composites.max(node.children.len() - composites);
    (count > MAX_TEMPLATES).then(|| BuildError::TooManyTemplates {
        path: node.item.path.clone(),
        owner: format!("item {}", node.item.name),
        count,
    })
}

fn validate_depth(node: &ResolvedItem<'_>) -> Option<BuildError> {
    let depth = node.depth();
    let (path, item) = (node.item.path.clone(), node.item.name.clone());
    (depth > MAX_DEPTH).then_some(BuildError::TooDeep { path, item, depth })
}
