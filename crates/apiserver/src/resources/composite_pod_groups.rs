//! CompositePodGroups: groups of groups. Served only in `v1alpha3`.

use api::kinds;
use api::scheduling::validation::composite_pod_group::{self, has_workload_ref};
use api::scheduling::validation::with_transition_times;
use api::scheduling::{defaults, prepare};
use k8s_openapi::api::scheduling::v1alpha3::CompositePodGroup;
use serde::Deserialize;

use crate::read::table;
use crate::resources::resource::{Resource, Strategy, Subresource};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        defaults: |group, gates| defaults::set_pod_group_defaults(group.document_mut(), gates),
        prepare_create: |new, gates| prepare::prepare_composite_create(new.document_mut(), gates),
        prepare_update: |new, old, gates| {
            prepare::prepare_composite_update(new.document_mut(), old.document(), gates);
        },
        prepare_status_update: |new, old, gates| {
            prepare::prepare_composite_status_update(new.document_mut(), old.document(), gates);
        },
        validate_create: |new, gates| {
            Ok(composite_pod_group::validate_create(&new.typed()?, has_workload_ref(new.document()), gates))
        },
        validate_update: |new, old, gates| {
            Ok(composite_pod_group::validate_update(
                &new.typed()?,
                has_workload_ref(new.document()),
                &old.typed()?,
                gates,
            ))
        },
        validate_status_update: |new, old, gates| {
            let new = CompositePodGroup::deserialize(&*with_transition_times(new.document()))?;
            Ok(composite_pod_group::validate_status_update(&new, &old.typed()?, gates))
        },
        table: table::pod_groups::COMPOSITE_TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "L+dT284DGFE=",
        subresources: &[Subresource::Status],
        unconditional_update: false,
        ..super::base_resource(kinds::COMPOSITE_POD_GROUP, strategy)
    }
}
