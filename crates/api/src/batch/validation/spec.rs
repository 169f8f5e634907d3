//! The spec of a new or changed Job.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use serde_json::Value;
use workloadbuilder::rules::at_least;

use super::{policies, scheduling};
use crate::core::validation::validate_pod_template;
use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{names, to_json};
use crate::selector::{ParsedLabelSelector, validate_label_selector};

const MAX_PARALLELISM_INDEXED: i32 = 100_000;
const MAX_FAILED_INDEXES: i32 = 100_000;
/// Above this number of completions, the limits on failures per index are lower.
const SOFT_MAX_COMPLETIONS: i32 = 100_000;
const MAX_FAILED_INDEXES_ABOVE_SOFT_MAX: i32 = 10_000;
const MAX_PARALLELISM_ABOVE_SOFT_MAX: i32 = 10_000;
const MAX_MANAGED_BY_BYTES: usize = 63;

pub(super) fn validate(job: &Job, spec: &JobSpec, gates: &Gates) -> ErrorList {
    let mut errors = template(job, spec, gates);
    errors.extend(selector(spec, &Path::new("spec")));
    errors
}

/// As [`validate`], for a spec without a selector: Jobs are created from it later.
pub(super) fn template(job: &Job, spec: &JobSpec, gates: &Gates) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = counts(spec, &path);
    errors.extend(managed_by(spec, &path));
    errors.extend(completion_mode(spec, &path));
    errors.extend(policies::failure(spec, &path));
    errors.extend(policies::success(spec, &path));
    errors.extend(policies::replacement(spec, &path));
    errors.extend(scheduling::validate_semantics(job, spec, gates));
    errors.extend(validate_pod_template(&spec.template, &path.child("template")));
    errors.extend(restart_policy(spec, &path));
    errors
}

fn counts(spec: &JobSpec, path: &Path) -> ErrorList {
    let counts = [
        ("parallelism", spec.parallelism.map(i64::from)),
        ("completions", spec.completions.map(i64::from)),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit.map(i64::from)),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from)),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index.map(i64::from)),
        ("maxFailedIndexes", spec.max_failed_indexes.map(i64::from)),
    ];
    let negative = counts.iter().filter_map(|(name, count)| at_least(&path.child(name), (*count)?, 0));
    let mut errors: ErrorList = negative.collect();
    if spec.max_failed_indexes.is_some() && spec.backoff_limit_per_index.is_none() {
        errors.push(Error::required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    errors
}

fn managed_by(spec: &JobSpec, path: &Path) -> ErrorList {
    let path = path.child("managedBy");
    let Some(value) = spec.managed_by.as_deref() else { return ErrorList::new() };
    let mut errors = match value.split_once('/') {
        _ if value.is_empty() => vec![Error::required(&path, "")],
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            let problems = names::dns_subdomain(domain).into_iter();
            problems.map(|problem| Error::invalid(&path, domain, problem)).collect()
        }
        _ => vec![Error::invalid(&path, value, "must be a domain-prefixed path (such as \"acme.io/foo\")")],
    };
    if value.len() > MAX_MANAGED_BY_BYTES {
        errors.push(Error::too_long(&path, MAX_MANAGED_BY_BYTES));
    }
    errors
}

fn completion_mode(spec: &JobSpec, path: &Path) -> ErrorList {
    match spec.completion_mode.as_deref() {
        Some("Indexed") => indexed(spec, path),
        None | Some("NonIndexed") => validate_non_indexed(spec, path),
        Some(other) => vec![Error::not_supported(&path.child("completionMode"), other, &["NonIndexed", "Indexed"])],
    }
}

fn indexed(spec: &JobSpec, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let (parallelism_path, failed_path) = (path.child("parallelism"), path.child("maxFailedIndexes"));
    if spec.completions.is_none() {
        errors.push(Error::required(&path.child("completions"), "when completion mode is Indexed"));
    }
    if let Some(parallelism) = spec.parallelism.filter(|parallelism| *parallelism > MAX_PARALLELISM_INDEXED) {
        let detail = format!("must be less than or equal to {MAX_PARALLELISM_INDEXED} when completion mode is Indexed");
        errors.push(Error::invalid(&parallelism_path, parallelism, detail));
    }
    let completions = spec.completions.unwrap_or(0);
    if let (Some(failed), Some(completions)) = (spec.max_failed_indexes, spec.completions)
        && failed > completions
    {
        errors.push(Error::invalid(&failed_path, failed, "must be less than or equal to completions"));
    }
    if let Some(failed) = spec.max_failed_indexes.filter(|failed| *failed > MAX_FAILED_INDEXES) {
        let detail = format!("must be less than or equal to {MAX_FAILED_INDEXES}");
        errors.push(Error::invalid(&failed_path, failed, detail));
    }
    if completions > SOFT_MAX_COMPLETIONS && spec.backoff_limit_per_index.is_some() {
        let bounded = |max: i32| {
            format!(
                "must be less than or equal to {max} when completions are above {SOFT_MAX_COMPLETIONS} and used with \
                 backoff limit per index"
            )
        };
        match spec.max_failed_indexes {
            None => {
                let detail = format!("must be specified when completions is above {SOFT_MAX_COMPLETIONS}");
                errors.push(Error::required(&failed_path, detail));
            }
            Some(failed) if failed > MAX_FAILED_INDEXES_ABOVE_SOFT_MAX => {
                errors.push(Error::invalid(&failed_path, failed, bounded(MAX_FAILED_INDEXES_ABOVE_SOFT_MAX)));
            }
            Some(_) => {}
        }
        if let Some(parallelism) = spec.parallelism.filter(|parallelism| *parallelism > MAX_PARALLELISM_ABOVE_SOFT_MAX)
        {
            errors.push(Error::invalid(&parallelism_path, parallelism, bounded(MAX_PARALLELISM_ABOVE_SOFT_MAX)));
        }
    }
    errors
}

fn validate_non_indexed(spec: &JobSpec, path: &Path) -> ErrorList {
    let needs_indexes = [
        ("backoffLimitPerIndex", spec.backoff_limit_per_index.map(|limit| to_json(&limit))),
        ("maxFailedIndexes", spec.max_failed_indexes.map(|max| to_json(&max))),
    ];
    let given = needs_indexes.into_iter().filter_map(|(name, value)| Some((name, value?)));
    given.map(|(name, value)| Error::invalid(&path.child(name), value, "requires indexed completion mode")).collect()
}

fn restart_policy(spec: &JobSpec, path: &Path) -> Option<Error> {
    let path = path.child("template").child("spec").child("restartPolicy");
    let policy = spec.template.spec.as_ref().and_then(|pod| pod.restart_policy.as_deref()).unwrap_or_default();
    match policy {
        "" | "Always" => Some(Error::required(&path, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if spec.pod_failure_policy.is_some() => {
            Some(Error::invalid(&path, policy, "only \"Never\" is supported when podFailurePolicy is specified"))
        }
        "OnFailure" | "Never" => None,
        _ => Some(Error::not_supported(&path, policy, &["OnFailure", "Never"])),
    }
}

fn selector(spec: &JobSpec, path: &Path) -> ErrorList {
    let selector_path = path.child("selector");
    let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    let pod_labels = labels.clone().into_iter().collect();
    let (mut errors, is_mismatch) = match &spec.selector {
        // A missing selector selects nothing.
        None => (vec![Error::required(&selector_path, "")], true),
        Some(selector) => (
            validate_label_selector(selector, &selector_path),
            ParsedLabelSelector::from_label_selector(selector).is_ok_and(|selector| !selector.matches(&pod_labels)),
        ),
    };
    if is_mismatch {
        let path = path.child("template").child("metadata").child("labels");
        errors.push(Error::invalid(&path, labels_value(&labels), "`selector` does not match template `labels`"));
    }
    errors
}

/// Labels in a message. No labels are `null`.
fn labels_value(labels: &BTreeMap<String, String>) -> Value {
    if labels.is_empty() { Value::Null } else { to_json(labels) }
}
