//! Priority classes.

use api::kinds;
use api::scheduling::defaults;
use api::scheduling::validation::priority_class;
use serde_json::Value;

use crate::read::table;
use crate::resources::resource::{Resource, Strategy};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        defaults: |class, gates| defaults::set_priority_class_defaults(class.document_mut(), gates),
        validate_create: |new, gates| Ok(priority_class::validate_create(&new.typed()?, gates)),
        validate_update: |new, old, gates| Ok(priority_class::validate_update(&new.typed()?, &old.typed()?, gates)),
        // Not selectable, but stored with the selectable fields: admission reads it for every pod.
        fields: |class| {
            let default = class.document()["globalDefault"] == Value::Bool(true);
            if default { vec![("globalDefault", "true".to_owned())] } else { Vec::new() }
        },
        table: table::priority_classes::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "1QwjyaZjj3Y=",
        counts_generation: true,
        ..super::base_resource(kinds::PRIORITY_CLASS, strategy)
    }
}
