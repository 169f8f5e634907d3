//! One value that describes a kind. The pipeline knows nothing else about it and never matches on a kind.

use std::ops::Deref;
use std::sync::Arc;

use api::conversion::Conversion;
use api::field::ErrorList;
use api::gates::Gates;
use api::kinds::ApiResource;
use serde_json::Value;
use store::StoreKey;

use crate::read::table::PrinterTable;
use crate::request::Propagation;
use crate::resources::object::ApiObject;

/// A kind as the server serves it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The kind in the registry: group, names, scope and versions. A `Resource` derefs to it.
    pub api: &'static ApiResource,
    /// Versions of another structure, served by conversion.
    pub conversions: &'static [Conversion],
    /// The group of the stored form: the kind's own, unless another group serves the same objects.
    pub storage_group: &'static str,
    /// The version of the stored form.
    pub storage_version: &'static str,
    /// The hash of the storage version. It is upstream's, because migration tools compare it.
    pub storage_version_hash: &'static str,
    /// The subresources.
    pub subresources: &'static [Subresource],
    /// The default propagation policy of a delete.
    pub propagation: Propagation,
    /// Whether an update without a `resourceVersion` is accepted.
    pub unconditional_update: bool,
    /// Whether `metadata.generation` counts changes of the spec.
    pub counts_generation: bool,
    /// Whether a whole collection can be deleted at once.
    pub deletes_collections: bool,
    /// Whether the response to a completed delete is the object instead of a `Status`.
    pub returns_deleted: bool,
    /// Whether objects expire some time after their last write.
    pub expires: bool,
    /// The kind's own functions.
    pub strategy: Strategy,
    /// The kind's name in the store: `group/plural`, or the plural alone.
    pub store_name: Arc<str>,
}

impl Deref for Resource {
    type Target = ApiResource;

    fn deref(&self) -> &ApiResource {
        self.api
    }
}

/// A subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// `status`: an update of the spec cannot change it, and the reverse.
    Status,
    /// `binding`: sets the node of a pod.
    Binding,
    /// `eviction`: deletes a pod within its disruption budget.
    Eviction,
    /// `finalize`: changes `spec.finalizers`.
    Finalize,
}

impl Subresource {
    /// Parses the form in paths.
    pub fn parse(text: &str) -> Option<Subresource> {
        match text {
            "status" => Some(Subresource::Status),
            "binding" => Some(Subresource::Binding),
            "eviction" => Some(Subresource::Eviction),
            "finalize" => Some(Subresource::Finalize),
            _ => None,
        }
    }

    /// The form in paths.
    pub fn as_str(self) -> &'static str {
        match self {
            Subresource::Status => "status",
            Subresource::Binding => "binding",
            Subresource::Eviction => "eviction",
            Subresource::Finalize => "finalize",
        }
    }

    /// The supported verbs.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Subresource::Status => &["get", "patch", "update"],
            Subresource::Binding | Subresource::Eviction => &["create"],
            Subresource::Finalize => &["update"],
        }
    }

    /// The kind of the body and of the response. `of` is the kind of the object.
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

/// Field errors, or the reason why the typed form cannot be decoded.
pub type ValidationResult = Result<ErrorList, serde_json::Error>;

/// A kind's own functions, in the order in which the pipeline calls them.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// Replaces draft spellings, in a document or in a patch; returns warnings for the user.
    pub normalize_drafts: fn(&mut Value, &Gates) -> Result<Vec<String>, ErrorList>,
    /// Sets defaults.
    pub defaults: fn(&mut ApiObject, &Gates),
    /// Sets the fields that a client may not set on a new object.
    pub prepare_create: fn(&mut ApiObject, &Gates),
    /// Resets fields that an update may not change. The status is already the old one.
    pub prepare_update: fn(&mut ApiObject, &ApiObject, &Gates),
    /// Resets fields that a status update may not change. Everything but metadata and status is already the old one.
    pub prepare_status_update: fn(&mut ApiObject, &ApiObject, &Gates),
    /// Validates a new object.
    pub validate_create: fn(&ApiObject, &Gates) -> ValidationResult,
    /// Validates an update.
    pub validate_update: fn(&ApiObject, &ApiObject, &Gates) -> ValidationResult,
    /// Validates a status update.
    pub validate_status_update: fn(&ApiObject, &ApiObject, &Gates) -> ValidationResult,
    /// Validates a change of `spec.finalizers`, where the kind has `finalize`.
    pub validate_finalize: fn(&ApiObject, &ApiObject, &Gates) -> ValidationResult,
    /// Warnings for the user of an accepted object.
    pub warnings: fn(&ApiObject, Option<&ApiObject>) -> Vec<String>,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [&'static str],
    /// Selectable fields that are stored under another name: (name, stored name).
    pub stored_field_names: &'static [(&'static str, &'static str)],
    /// The non-empty values of the selectable fields, by stored name.
    pub fields: fn(&ApiObject) -> Vec<(&'static str, String)>,
    /// How objects are printed.
    pub table: PrinterTable,
    /// The grace period in seconds, given the requested one. Zero: the object is removed at once.
    pub grace_seconds: fn(&ApiObject, Option<i64>) -> i64,
    /// Changes an object that is being deleted but not removed yet.
    pub mark_deleting: fn(&mut ApiObject),
    /// Whether `spec.finalizers` is not empty.
    pub has_spec_finalizers: fn(&ApiObject) -> bool,
}

impl Strategy {
    /// A kind without functions of its own.
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
    /// `jobs.batch`, or `pods` in the core group: the resource's name in messages.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `Job.batch`, or `Pod` in the core group: the kind's name in messages, with the group of the stored form.
    pub fn qualified_kind(&self) -> String {
        let group = self.storage_group;
        if group.is_empty() { self.kind.to_owned() } else { format!("{}.{group}", self.kind) }
    }

    /// `apiVersion` of objects in `version`.
    pub fn api_version(&self, version: &str) -> String {
        api_version(self.group, version)
    }

    /// `apiVersion` of stored objects.
    pub fn storage_api_version(&self) -> String {
        api_version(self.storage_group, self.storage_version)
    }

    /// Whether objects in `version` have the stored structure.
    pub fn is_stored_as(&self, version: &str) -> bool {
        self.conversion(version).is_none() && version == self.storage_version
    }

    /// Whether objects are stored in the form of another group, which serves them too.
    pub fn is_stored_elsewhere(&self) -> bool {
        self.storage_group != self.group
    }

    /// Every served version.
    pub fn served_versions(&self) -> impl Iterator<Item = &'static str> {
        let converted = self.conversions.iter().map(|conversion| conversion.version);
        self.versions.iter().copied().chain(converted)
    }

    /// The conversion of `version`; `None` if it has the stored structure.
    pub fn conversion(&self, version: &str) -> Option<&'static Conversion> {
        self.conversions.iter().find(|conversion| conversion.version == version)
    }

    /// The store's key of one object.
    pub fn key(&self, namespace: &str, name: &str) -> StoreKey {
        StoreKey::new(&self.store_name, namespace, name)
    }

    /// The supported verbs.
    pub fn verbs(&self) -> Vec<&'static str> {
        let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        all.into_iter().filter(|&verb| self.deletes_collections || verb != "deletecollection").collect()
    }

    /// Whether the kind has this subresource.
    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// The name under which a field's value is stored; `None` when a field selector may not use it.
    pub fn stored_field_name(&self, field: &str) -> Option<&'static str> {
        let Strategy { selectable, stored_field_names: names_in_store, .. } = self.strategy;
        let mut names = ["metadata.name", "metadata.namespace"].iter().chain(selectable);
        let name = names.find(|name| **name == field)?;
        Some(names_in_store.iter().find(|(known, _)| known == name).map_or(name, |(_, kept)| kept))
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
