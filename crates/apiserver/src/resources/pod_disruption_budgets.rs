//! Pod disruption budgets: how many pods of a set must stay available during evictions.

use api::kinds;
use api::policy;
use api::scheduling::validation::with_transition_times;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Deserialize;

use crate::read::table;
use crate::resources::resource::{Resource, Strategy, Subresource};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        prepare_create: |new, _| policy::prepare_create(new.document_mut()),
        validate_create: |new, _| Ok(policy::validate_create(&new.typed_field("metadata")?, &new.typed_field("spec")?)),
        validate_update: |new, old, _| {
            let [now, before] = [new, old].map(|budget| budget.typed_field("metadata"));
            Ok(policy::validate_update(&now?, &before?, &new.typed_field("spec")?))
        },
        validate_status_update: |new, old, _| {
            let new = PodDisruptionBudget::deserialize(&*with_transition_times(new.document()))?;
            Ok(policy::validate_status_update(&new, &old.typed()?))
        },
        table: table::pod_disruption_budgets::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        subresources: &[Subresource::Status],
        unconditional_update: false,
        counts_generation: true,
        ..super::base_resource(kinds::POD_DISRUPTION_BUDGET, strategy)
    }
}
