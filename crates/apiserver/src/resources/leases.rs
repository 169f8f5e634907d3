//! Leases, mainly for leader election.

use api::coordination;
use api::kinds;

use crate::read::table;
use crate::resources::resource::{Resource, Strategy};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        prepare_create: |new, _| coordination::drop_coordinated_election_fields(new.document_mut()),
        prepare_update: |new, _, _| coordination::drop_coordinated_election_fields(new.document_mut()),
        validate_create: |new, _| Ok(coordination::validate_create(&new.typed()?)),
        validate_update: |new, old, _| Ok(coordination::validate_update(&new.typed()?, &old.typed()?)),
        table: table::leases::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "gqkMMb/YqFM=",
        // Many clients write a lease concurrently, so an update must name the version it is based on.
        unconditional_update: false,
        ..super::base_resource(kinds::LEASE, strategy)
    }
}
