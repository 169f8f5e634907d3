//! PodGroups.

use api::conversion;
use api::kinds;
use api::scheduling::validation::{pod_group, with_transition_times};
use api::scheduling::{defaults, prepare};
use k8s_openapi::api::scheduling::v1beta1::PodGroup;
use serde::Deserialize;

use crate::read::table;
use crate::resources::resource::{Resource, Strategy, Subresource};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        defaults: |group, gates| defaults::set_pod_group_defaults(group.document_mut(), gates),
        prepare_create: |new, gates| prepare::prepare_pod_group_create(new.document_mut(), gates),
        prepare_update: |new, old, gates| {
            prepare::prepare_pod_group_update(new.document_mut(), old.document(), gates);
        },
        prepare_status_update: |new, old, gates| {
            prepare::prepare_pod_group_status_update(new.document_mut(), old.document(), gates);
        },
        validate_create: |new, gates| Ok(pod_group::validate_create(&new.typed()?, gates)),
        validate_update: |new, old, gates| Ok(pod_group::validate_update(&new.typed()?, &old.typed()?, gates)),
        validate_status_update: |new, old, gates| {
            let new = PodGroup::deserialize(&*with_transition_times(new.document()))?;
            Ok(pod_group::validate_status_update(&new, &old.typed()?, gates))
        },
        table: table::pod_groups::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        conversions: conversion::POD_GROUP_CONVERSIONS,
        storage_version_hash: "QjOl2H5qPs0=",
        subresources: &[Subresource::Status],
        unconditional_update: false,
        ..super::base_resource(kinds::POD_GROUP, strategy)
    }
}
