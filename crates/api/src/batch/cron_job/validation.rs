//! Validation of CronJobs, at creation and update.

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, Job, JobSpec};
use workloadbuilder::rules::at_least;

use crate::batch::validation::{validate_template_declarative, validate_template_handwritten};
use crate::cron::{Schedule, time_zone};
use crate::field::{Error, ErrorKind, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{to_json, validate_object_meta, validate_object_meta_update};

/// A Job's name has at most 63 bytes: the CronJob's name and the minute of its start.
const MAX_NAME_BYTES: usize = 52;
/// The maximum length of a component of a time zone's name.
const MAX_ZONE_PART_BYTES: usize = 14;

/// Validates a new CronJob.
pub fn validate_create(cron_job: &CronJob, gates: &Gates) -> ErrorList {
    let path = Path::new("metadata");
    let mut errors = validate_object_meta(&cron_job.metadata, true, &path);
    errors.extend(validate_handwritten(&cron_job.spec, None, gates));
    let name = cron_job.metadata.name.as_deref().unwrap_or_default();
    if name.len() > MAX_NAME_BYTES {
        let detail = format!("must be no more than {MAX_NAME_BYTES} characters");
        errors.push(Error::invalid(&path.child("name"), name, detail));
    }
    errors.extend(validate_declarative(&cron_job.spec, None, gates));
    errors
}

/// Validates a change of a CronJob.
pub fn validate_update(new: &CronJob, old: &CronJob, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(validate_handwritten(&new.spec, Some(&old.spec), gates));
    errors.extend(validate_declarative(&new.spec, Some(&old.spec), gates));
    errors
}

/// Validates a write to a CronJob's status. The controller is trusted.
pub fn validate_status_update(new: &CronJob, old: &CronJob, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(validate_declarative(&new.spec, Some(&old.spec), gates));
    errors
}

fn validate_handwritten(new: &CronJobSpec, old: Option<&CronJobSpec>, gates: &Gates) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = schedule(new, old, &path.child("schedule"));
    let at_least_zero = |name: &str, count: Option<i64>| at_least(&path.child(name), count?, 0);
    errors.extend(at_least_zero("startingDeadlineSeconds", new.starting_deadline_seconds));
    if old.is_none_or(|old| old.time_zone != new.time_zone) {
        errors.extend(zone(new.time_zone.as_deref(), &path.child("timeZone")));
    }
    let policies = ["Allow", "Forbid", "Replace"];
    let policy_path = path.child("concurrencyPolicy");
    errors.extend(match new.concurrency_policy.as_deref().unwrap_or_default() {
        "" => Some(Error::required(&policy_path, "")),
        policy if policies.contains(&policy) => None,
        policy => Some(Error::not_supported(&policy_path, policy, &policies)),
    });
    errors.extend(template(new, gates));
    for (name, limit) in [
        ("successfulJobsHistoryLimit", new.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", new.failed_jobs_history_limit),
    ] {
        errors.extend(at_least_zero(name, limit.map(i64::from)));
    }
    errors
}

/// A zone belongs in `timeZone`. A schedule that has one may keep it. That the schedule is set is a declared rule.
fn schedule(new: &CronJobSpec, old: Option<&CronJobSpec>, path: &Path) -> ErrorList {
    let text = new.schedule.as_str();
    if text.is_empty() {
        return ErrorList::new();
    }
    let problem = Schedule::parse(text).err().map(|bad| Error::invalid(path, text, bad.to_string()));
    let mut errors: ErrorList = problem.into_iter().collect();
    if text.contains("TZ") {
        let had_zone = old.is_some_and(|old| old.schedule.contains("TZ"));
        let detail = match (had_zone, &new.time_zone) {
            (true, None) => return errors,
            (true, Some(_)) => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
            (false, _) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        };
        errors.push(Error::invalid(path, text, detail));
    }
    errors
}

fn zone(name: Option<&str>, path: &Path) -> ErrorList {
    let Some(name) = name else { return ErrorList::new() };
    let invalid = |detail: String| Error::invalid(path, name, detail);
    if name.is_empty() {
        return vec![invalid("timeZone must be nil or non-empty string".to_owned())];
    }
    let is_good = |part: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
        !matches!(part, "" | "." | "..")
            && !part.starts_with('-')
            && part.len() <= MAX_ZONE_PART_BYTES
            && part.bytes().all(known)
    };
    // The name of a zone can be used as a file path elsewhere, so its format is validated before it is looked up.
    let malformed = name.split('/').any(|part| !is_good(part)).then(|| invalid(format!("unknown time zone {name}")));
    let mut errors: ErrorList = malformed.into_iter().collect();
    if name.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(invalid(detail.to_owned()));
    } else if errors.is_empty() && time_zone(name).is_none() {
        errors.push(invalid(format!("unknown time zone {name}")));
    }
    errors
}

/// The template as a Job without a name and selector.
fn job_from_template(spec: &CronJobSpec) -> Job {
    Job { spec: Some(job_spec(spec).into_owned()), ..Job::default() }
}

fn job_spec(spec: &CronJobSpec) -> std::borrow::Cow<'_, JobSpec> {
    spec.job_template.spec.as_ref().map_or_else(Default::default, std::borrow::Cow::Borrowed)
}

fn template(spec: &CronJobSpec, gates: &Gates) -> ErrorList {
    let job = job_spec(spec);
    let mut errors = validate_template_handwritten(&job_from_template(spec), gates);
    let path = Path::new("spec");
    if let Some(selector) = &job.selector {
        let detail = "`selector` will be auto-generated";
        errors.push(Error::invalid(&path.child("selector"), to_json(selector), detail));
    }
    if job.manual_selector == Some(true) {
        let detail = "supported values: \"nil\", \"false\"".to_owned();
        let (path, value) = (path.child("manualSelector"), Some("true".to_owned()));
        errors.push(Error { kind: ErrorKind::NotSupported, path, value, detail });
    }
    with_template_path(errors)
}

/// The rules that the types declare.
fn validate_declarative(new: &CronJobSpec, old: Option<&CronJobSpec>, gates: &Gates) -> ErrorList {
    let old = old.map(job_spec);
    let missing = new.schedule.is_empty().then(|| Error::required(&Path::new("spec").child("schedule"), ""));
    let scheduling = with_template_path(validate_template_declarative(&job_spec(new), old.as_deref(), gates));
    missing.into_iter().chain(scheduling).collect()
}

/// Errors about a Job as errors about the CronJob's template.
fn with_template_path(errors: ErrorList) -> ErrorList {
    let template = Path::new("spec").child("jobTemplate");
    let moved = |error: Error| Error { path: template.child(error.path.as_str()), ..error };
    errors.into_iter().map(moved).collect()
}

#[cfg(test)]
mod tests;
