//! Nodes. A kubelet registers itself together with its status, so a new node keeps it.

use api::core::{defaults, validation};
use api::kinds;
use serde_json::Value;

use crate::read::table;
use crate::resources::resource::{Resource, Strategy, Subresource};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        defaults: |node, gates| defaults::set_node_defaults(node.document_mut(), gates),
        validate_create: |new, gates| Ok(validation::node::validate_create(&new.typed()?, gates)),
        validate_update: |new, old, gates| Ok(validation::node::validate_update(&new.typed()?, &old.typed()?, gates)),
        validate_status_update: |new, old, gates| {
            Ok(validation::node::validate_status_update(&new.typed()?, &old.typed()?, gates))
        },
        selectable: &["spec.unschedulable"],
        fields: |node| {
            let unschedulable = node.document()["spec"]["unschedulable"] == Value::Bool(true);
            vec![("spec.unschedulable", unschedulable.to_string())]
        },
        table: table::nodes::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "XwShjMxG9Fs=",
        subresources: &[Subresource::Status],
        ..super::base_resource(kinds::NODE, strategy)
    }
}
