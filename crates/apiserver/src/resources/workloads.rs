//! Workloads: the templates from which a controller creates its groups. They have no status.

use api::conversion;
use api::kinds;
use api::scheduling::prepare;
use api::scheduling::validation::workload;

use crate::resources::resource::{Resource, Strategy};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        normalize_drafts: conversion::normalize_workload_drafts,
        prepare_create: |new, gates| prepare::prepare_workload_create(new.document_mut(), gates),
        prepare_update: |new, old, gates| {
            prepare::prepare_workload_update(new.document_mut(), old.document(), gates);
        },
        validate_create: |new, gates| Ok(workload::validate_create(&new.typed()?, gates)),
        validate_update: |new, old, gates| Ok(workload::validate_update(&new.typed()?, &old.typed()?, gates)),
        ..Strategy::PLAIN
    };
    Resource {
        conversions: conversion::WORKLOAD_CONVERSIONS,
        storage_version_hash: "Fgcxusx6IUo=",
        unconditional_update: false,
        ..super::base_resource(kinds::WORKLOAD, strategy)
    }
}
