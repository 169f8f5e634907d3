//! What the pipeline knows about a kind: one value, nothing else. Nothing in the pipeline matches on a kind.

use std::sync::Arc;

use api::conversion::Conversion;
use api::field::ErrorList;
use api::gates::Gates;
use serde_json::Value;
use store::StoreKey;

use crate::read::table::PrinterTable;
use crate::request::Propagation;
use crate::resources::object::ApiObject;

/// A kind as the server serves it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Versions served as they are kept: objects differ in nothing but their `apiVersion` between them.
    pub versions: &'static [&'static str],
    /// Versions that differ in more and are served by conversion.
    pub conversions: &'static [Conversion],
    /// The group in whose form objects are kept: its own, unless another group serves the same objects.
    pub storage_group: &'static str,
    /// The version of that group in which objects are kept.
    pub storage_version: &'static str,
    /// A mark of that version, which clients can only compare: upstream's, as migration tools know it.
    pub storage_version_hash: &'static str,
    /// Plural, as in the path.
    pub plural: &'static str,
    /// Singular.
    pub singular: &'static str,
    /// Kind, as in `kind: Pod`.
    pub kind: &'static str,
    /// Shorter names for people.
    pub short_names: &'static [&'static str],
    /// Names under which several kinds are listed together, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// The subresources.
    pub subresources: &'static [Subresource],
    /// The default propagation policy of a delete.
    pub propagation: Propagation,
    /// Whether an update may leave the version out and win.
    pub unconditional_update: bool,
    /// Whether `metadata.generation` counts changes of the spec.
    pub counts_generation: bool,
    /// Whether a whole collection can be deleted at once.
    pub deletes_collections: bool,
    /// Whether the response to a completed delete is the object instead of a `Status`.
    pub returns_deleted: bool,
    /// Whether objects go by themselves, some time after their last write.
    pub expires: bool,
    /// What the kind does its own way.
    pub strategy: Strategy,
    /// The name under which the store keeps the kind: `group/plural`, or the plural alone.
    pub store_name: Arc<str>,
}

/// Something of an object with a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// `status`, which the owner of the spec cannot touch, nor the other way round.
    Status,
    /// `binding`, which gives a pod its node.
    Binding,
    /// `eviction`, which deletes a pod within its disruption budget.
    Eviction,
    /// `finalize`, which changes `spec.finalizers`.
    Finalize,
}

impl Subresource {
    /// Reads the path's form.
    pub fn parse(text: &str) -> Option<Subresource> {
        match text {
            "status" => Some(Subresource::Status),
            "binding" => Some(Subresource::Binding),
            "eviction" => Some(Subresource::Eviction),
            "finalize" => Some(Subresource::Finalize),
            _ => None,
        }
    }

    /// The path's form.
    pub fn as_str(self) -> &'static str {
        match self {
            Subresource::Status => "status",
            Subresource::Binding => "binding",
            Subresource::Eviction => "eviction",
            Subresource::Finalize => "finalize",
        }
    }

    /// What can be done with it.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Subresource::Status => &["get", "patch", "update"],
            Subresource::Binding | Subresource::Eviction => &["create"],
            Subresource::Finalize => &["update"],
        }
    }

    /// The kind of the body and of the response, given that of the object.
    pub fn kind(self, of: &'static str) -> &'static str {
        match self {
            Subresource::Status | Subresource::Finalize => of,
            Subresource::Binding => "Binding",
            Subresource::Eviction => "Eviction",
        }
    }

    /// Group and version of that kind, where they are not those of the object.
    pub fn own_group_version(self) -> Option<(&'static str, &'static str)> {
        (self == Subresource::Eviction).then_some(("policy", "v1"))
    }
}

/// Field errors, or the reason why the typed form cannot be decoded at all.
pub type ValidationResult = Result<ErrorList, serde_json::Error>;

/// What a kind does its own way, as plain functions in the order in which the pipeline calls them.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// Replaces draft spellings, in a document or in a patch; returns warnings for the user.
    pub normalize_drafts: fn(&mut Value, &Gates) -> Result<Vec<String>, ErrorList>,
    /// Fills in what the user left out.
    pub defaults: fn(&mut ApiObject, &Gates),
    /// Sets the fields that a client may not set on a new object.
    pub prepare_create: fn(&mut ApiObject, &Gates),
    /// Settles what an update may not change. Status is already as before.
    pub prepare_update: fn(&mut ApiObject, &ApiObject, &Gates),
    /// Settles what a status update may not change. All but metadata and status is already as before.
    pub prepare_status_update: fn(&mut ApiObject, &ApiObject, &Gates),
    /// Judges a new object.
    pub validate_create: fn(&ApiObject, &Gates) -> ValidationResult,
    /// Judges a change.
    pub validate_update: fn(&ApiObject, &ApiObject, &Gates) -> ValidationResult,
    /// Judges a change of status.
    pub validate_status_update: fn(&ApiObject, &ApiObject, &Gates) -> ValidationResult,
    /// Validates a change of `spec.finalizers`, where the kind has `finalize`.
    pub validate_finalize: fn(&ApiObject, &ApiObject, &Gates) -> ValidationResult,
    /// Warnings for the user of an accepted object.
    pub warnings: fn(&ApiObject, Option<&ApiObject>) -> Vec<String>,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [&'static str],
    /// Those of them that are stored under another name, which comes second.
    pub stored_field_names: &'static [(&'static str, &'static str)],
    /// The values of those of them that are not empty, by the name under which they are kept.
    pub fields: fn(&ApiObject) -> Vec<(&'static str, String)>,
    /// How objects are shown to people.
    pub table: PrinterTable,
    /// The grace period in seconds, given the requested one. Zero: the object is removed at once.
    pub grace_seconds: fn(&ApiObject, Option<i64>) -> i64,
    /// What deletion does to an object that cannot go at once.
    pub mark_deleting: fn(&mut ApiObject),
    /// Whether `spec.finalizers` is not empty.
    pub has_spec_finalizers: fn(&ApiObject) -> bool,
}

impl Strategy {
    /// A kind without ways of its own.
    pub const PLAIN: Strategy = Strategy {
        normalize_drafts: |_, _| Ok(Vec::new()),
        defaults: |_, _| {},
        prepare_create: |_, _| {},
        prepare_update: |_, _, _| {},
        prepare_status_update: |_, _, _| {},
        validate_create: |_, _| Ok(ErrorList::new()),
        validate_update: |_, _, _| Ok(ErrorList::new()),
        validate_status_update: |_, _, _| Ok(ErrorList::new()),
        validate_finalize: |_, _, _| Ok(ErrorList::new()),
        warnings: |_, _| Vec::new(),
        selectable: &[],
        stored_field_names: &[],
        fields: |_| Vec::new(),
        table: PrinterTable::PLAIN,
        grace_seconds: |_, _| 0,
        mark_deleting: |_| {},
        has_spec_finalizers: |_| false,
    };
}

impl Resource {
    /// `jobs.batch`, or `pods` in the core group: how messages name the resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `Job.batch`, or `Pod` in the core group: how messages name the kind, in the group in which it is kept.
    pub fn qualified_kind(&self) -> String {
        let group = self.storage_group;
        if group.is_empty() { self.kind.to_owned() } else { format!("{}.{group}", self.kind) }
    }

    /// `apiVersion` of objects in `version`.
    pub fn api_version(&self, version: &str) -> String {
        api_version(self.group, version)
    }

    /// `apiVersion` of objects as they are kept.
    pub fn storage_api_version(&self) -> String {
        api_version(self.storage_group, self.storage_version)
    }

    /// Whether objects in `version` are as they are kept.
    pub fn is_stored_as(&self, version: &str) -> bool {
        self.conversion(version).is_none() && version == self.storage_version
    }

    /// Whether objects are kept in the form of another group, which serves them too.
    pub fn is_stored_elsewhere(&self) -> bool {
        self.storage_group != self.group
    }

    /// Every version that is served.
    pub fn served_versions(&self) -> impl Iterator<Item = &'static str> {
        let converted = self.conversions.iter().map(|conversion| conversion.version);
        self.versions.iter().copied().chain(converted)
    }

    /// How objects in `version` are converted; `None` where they need not be.
    pub fn conversion(&self, version: &str) -> Option<&'static Conversion> {
        self.conversions.iter().find(|conversion| conversion.version == version)
    }

    /// The store's key of one object.
    pub fn key(&self, namespace: &str, name: &str) -> StoreKey {
        StoreKey::new(&self.store_name, namespace, name)
    }

    /// What can be done with objects of the kind.
    pub fn verbs(&self) -> Vec<&'static str> {
        let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        all.into_iter().filter(|&verb| self.deletes_collections || verb != "deletecollection").collect()
    }

    /// Whether the kind has this subresource.
    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// The name under which the value of a field is kept; `None` when a field selector may not name it.
    pub fn stored_field_name(&self, field: &str) -> Option<&'static str> {
        let Strategy { selectable, stored_field_names: kept_names, .. } = self.strategy;
        let mut names = ["metadata.name", "metadata.namespace"].iter().chain(selectable);
        let name = names.find(|name| **name == field)?;
        Some(kept_names.iter().find(|(known, _)| known == name).map_or(name, |(_, kept)| kept))
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
