//! PersistentVolumeClaims. No volume controller runs here yet, so a claim stays pending unless a client binds it.
//!
//! Upstream: admission adds the finalizer `kubernetes.io/pvc-protection` to a new claim, and the volume controllers remove
//! it. Here no controller would, so that a deleted claim would stay forever.
//! Upstream: admission refuses to expand a claim whose StorageClass does not allow it. There are no StorageClasses here,
//! and nothing expands volumes, so that the request alone changes.

use api::core::persistent_volume_claim as rules;
use api::kinds;
use serde_json::Value;

use crate::read::table::{PrinterColumn, PrinterTable, age, items, non_empty_or};
use crate::resources::object::ApiObject;
use crate::resources::resource::{Resource, Strategy, Subresource};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        defaults: |claim, _| rules::set_defaults(claim.document_mut()),
        prepare_create: |new, _| rules::prepare_create(new.document_mut()),
        prepare_update: |new, old, _| rules::prepare_update(new.document_mut(), old.document()),
        prepare_status_update: |new, old, _| rules::prepare_status_update(new.document_mut(), old.document()),
        validate_create: |new, _| Ok(rules::validate_create(&new.typed()?)),
        validate_update: |new, old, _| Ok(rules::validate_update(&new.typed()?, &old.typed()?)),
        validate_status_update: |new, old, _| Ok(rules::validate_status_update(&new.typed()?, &old.typed()?)),
        warnings: |new, _| rules::warnings(new.document()),
        table: TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "QWTyNDq0dC4=",
        subresources: &[Subresource::Status],
        returns_deleted: true,
        ..super::base_resource(kinds::PERSISTENT_VOLUME_CLAIM, strategy)
    }
}

/// Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, and VolumeMode if wide.
const TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::NAME,
        PrinterColumn::text("Status", "Whether the claim is bound to a volume."),
        PrinterColumn::text("Volume", "The bound volume."),
        PrinterColumn::text("Capacity", "The size of the bound volume."),
        PrinterColumn::text("Access Modes", "How the bound volume can be used."),
        PrinterColumn::text("StorageClass", "The class that provisions the volume."),
        PrinterColumn::text("VolumeAttributesClass", "The class of the volume's attributes."),
        PrinterColumn::AGE,
        PrinterColumn::wide("VolumeMode", "Whether the volume is a file system or a block device."),
    ],
    cells: |claim, now| {
        let (spec, status) = (&claim.document()["spec"], &claim.document()["status"]);
        let phase = if claim.is_deleting() { "Terminating" } else { claim.text(&["status", "phase"]) };
        let volume = claim.text(&["spec", "volumeName"]);
        let (capacity, modes) = match volume {
            "" => (String::new(), String::new()),
            _ => {
                (status["capacity"]["storage"].as_str().unwrap_or("0").to_owned(), short_modes(&status["accessModes"]))
            }
        };
        let attributes_class = spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>");
        let volume_mode = spec["volumeMode"].as_str().unwrap_or("<unset>");
        vec![
            claim.name().into(),
            phase.into(),
            volume.into(),
            capacity.into(),
            modes.into(),
            storage_class(claim).into(),
            attributes_class.into(),
            age(claim, now),
            volume_mode.into(),
        ]
    },
};

/// The class of the annotation, or that of the spec.
fn storage_class(claim: &ApiObject) -> &str {
    let annotation = claim.text(&["metadata", "annotations", rules::STORAGE_CLASS_ANNOTATION]);
    non_empty_or(annotation, claim.text(&["spec", "storageClassName"]))
}

/// Access modes as `RWO,ROX`.
fn short_modes(modes: &Value) -> String {
    let has = |mode: &str| items(modes).iter().any(|item| item == mode);
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    known.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
