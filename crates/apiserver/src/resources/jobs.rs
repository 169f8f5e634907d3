//! Jobs. Unlike the dependents of other kinds, the pods of a deleted Job are orphaned by default.

use api::batch::{defaults, prepare, validation, workload_ref};
use api::conversion;
use api::kinds;
use api::metadata::names;

use crate::read::table;
use crate::request::Propagation;
use crate::resources::object::ApiObject;
use crate::resources::resource::{Resource, Strategy, Subresource};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        normalize_drafts: conversion::normalize_job_drafts,
        defaults: |job, gates| defaults::set_defaults(job.document_mut(), gates),
        prepare_create: |job, gates| prepare::prepare_create(job.document_mut(), gates),
        prepare_update: |new, old, gates| prepare::prepare_update(new.document_mut(), old.document(), gates),
        validate_create: |new, gates| {
            let mut errors = validation::validate_create(&new.typed()?, gates);
            errors.extend(workload_ref::validate(new.document(), None, "/spec"));
            Ok(errors)
        },
        validate_update: |new, old, gates| {
            let mut errors = validation::validate_update(&new.typed()?, &old.typed()?, gates);
            errors.extend(workload_ref::validate(new.document(), Some(old.document()), "/spec"));
            Ok(errors)
        },
        validate_status_update: |new, old, gates| {
            Ok(validation::validate_status_update(&new.typed()?, &old.typed()?, gates))
        },
        warnings,
        selectable: &["status.successful"],
        fields: |job| {
            let succeeded = job.document()["status"]["succeeded"].as_i64().unwrap_or(0);
            vec![("status.successful", succeeded.to_string())]
        },
        table: table::jobs::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "mudhfqk/qZY=",
        subresources: &[Subresource::Status],
        propagation: Propagation::Orphan,
        counts_generation: true,
        ..super::base_resource(kinds::JOB, strategy)
    }
}

/// The warning about a name that is not valid as the host name of pods.
pub(super) fn name_warning(name: &str) -> Option<String> {
    let problems = names::dns_label(name);
    (!problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
             label is recommended: {problems:?}"
        )
    })
}

fn warnings(job: &ApiObject, old: Option<&ApiObject>) -> Vec<String> {
    let mut warnings: Vec<String> = old.is_none().then(|| name_warning(job.name())).flatten().into_iter().collect();
    if old.is_none() {
        warnings.extend(workload_ref::warning(job.document(), "/spec"));
    }
    let changed = old.is_none_or(|old| old.metadata().get("generation") != job.metadata().get("generation"));
    let spec = &job.document()["spec"];
    let large = |field: &str, limit: i64| spec[field].as_i64().is_some_and(|value| value > limit);
    if changed && spec["completionMode"] == "Indexed" && large("completions", 100_000) && large("parallelism", 10_000) {
        warnings.push(
            "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
                .to_owned(),
        );
    }
    warnings
}
