//! PodGroups.

use api::scheduling::validation::pod_group;
use api::scheduling::{defaults, prepare};

use crate::resource::{Resource, Strategy, Subresource};
use crate::table;

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
            Ok(pod_group::validate_status_update(&new.typed()?, &old.typed()?, gates))
        },
        table: table::pod_groups::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "QjOl2H5qPs0=",
        subresources: &[Subresource::Status],
        unconditional_update: false,
        ..super::plain(
            super::Names("scheduling.k8s.io", &["v1beta1", "v1alpha3"], "podgroups", "podgroup", "PodGroup"),
            strategy,
        )
    }
}
