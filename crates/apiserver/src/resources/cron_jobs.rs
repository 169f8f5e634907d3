//! CronJobs: Jobs created on a schedule.

use api::batch::cron_job::validation;
use api::batch::{cron_job, workload_ref};
use api::conversion;
use api::kinds;

use super::jobs::name_warning;
use crate::read::table;
use crate::resources::object::ApiObject;
use crate::resources::resource::{Resource, Strategy, Subresource};

/// The path of the Job template's spec.
const JOB_SPEC: &str = "/spec/jobTemplate/spec";

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        normalize_drafts: conversion::normalize_cron_job_drafts,
        defaults: |cron_job, gates| cron_job::set_defaults(cron_job.document_mut(), gates),
        prepare_create: |new, gates| cron_job::prepare_create(new.document_mut(), gates),
        prepare_update: |new, old, gates| cron_job::prepare_update(new.document_mut(), old.document(), gates),
        validate_create: |new, gates| {
            let mut errors = validation::validate_create(&new.typed()?, gates);
            errors.extend(workload_ref::validate(new.document(), None, JOB_SPEC));
            Ok(errors)
        },
        validate_update: |new, old, gates| {
            let mut errors = validation::validate_update(&new.typed()?, &old.typed()?, gates);
            errors.extend(workload_ref::validate(new.document(), Some(old.document()), JOB_SPEC));
            Ok(errors)
        },
        validate_status_update: |new, old, gates| {
            Ok(validation::validate_status_update(&new.typed()?, &old.typed()?, gates))
        },
        warnings,
        table: table::cron_jobs::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "sd5LIXh4Fjs=",
        subresources: &[Subresource::Status],
        counts_generation: true,
        ..super::base_resource(kinds::CRON_JOB, strategy)
    }
}

fn warnings(cron_job: &ApiObject, old: Option<&ApiObject>) -> Vec<String> {
    if old.is_none() {
        let reference = workload_ref::warning(cron_job.document(), "/spec/jobTemplate/spec");
        return name_warning(cron_job.name()).into_iter().chain(reference).collect();
    }
    // Upstream: has `spec` twice in this message.
    let unsupported = "CRON_TZ or TZ used in spec.spec.schedule is not officially supported, see \
                       https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
    let has_zone = cron_job.text(&["spec", "schedule"]).contains("TZ");
    has_zone.then(|| unsupported.to_owned()).into_iter().collect()
}
