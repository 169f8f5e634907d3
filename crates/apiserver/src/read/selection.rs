//! Which objects of a resource a list, watch or collection delete selects. Decided from fields that the store has next
//! to the bytes.

use api::selector::{FieldSelector, ParsedLabelSelector};
use store::{StoredMeta, StoredObject};

use crate::request::RequestInfo;
use crate::resources::resource::Resource;
use crate::response::status::{ApiResult, Status};

/// Namespace, labels and fields that objects must have.
#[derive(Debug)]
pub struct Selection {
    namespace: Option<String>,
    labels: ParsedLabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Reads the selectors of a request.
    pub fn parse(resource: &Resource, info: &RequestInfo) -> ApiResult<Selection> {
        let labels = ParsedLabelSelector::parse(info.options.label_selector.as_deref().unwrap_or_default())
            .map_err(|bad| Status::bad_request(bad.to_string()))?;
        let fields = FieldSelector::parse(info.options.field_selector.as_deref().unwrap_or_default())
            .map_err(|bad| Status::bad_request(bad.to_string()))?;
        let fields = fields.with_renamed_fields(|field| resource.stored_field_name(field)).map_err(|unknown| {
            Status::bad_request(format!("field label \"{unknown}\" not supported for {}", resource.kind))
        })?;
        Ok(Selection { namespace: info.namespace.clone(), labels, fields })
    }

    /// The namespace, if the request is for only one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether every object of the namespace is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether this object is selected.
    pub fn matches(&self, stored: &StoredObject) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == stored.key.namespace)
            && self.labels.matches(&stored.meta.labels)
            && self.fields.matches(|field| field_value(stored, field))
    }
}

fn field_value<'a>(stored: &'a StoredObject, field: &str) -> &'a str {
    match field {
        "metadata.name" => &stored.key.name,
        "metadata.namespace" => &stored.key.namespace,
        _ => stored_field(&stored.meta, field),
    }
}

/// A selectable field's value; empty when the object has none.
pub fn stored_field<'a>(meta: &'a StoredMeta, field: &str) -> &'a str {
    meta.fields.get(field).unwrap_or_default()
}
