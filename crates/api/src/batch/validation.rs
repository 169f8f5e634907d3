//! Validation of Jobs, at creation and update.
//!
//! Errors have the order of the API server: handwritten rules first, then those that the types declare (for a Job only
//! those of `spec.scheduling`).

mod spec; // the spec
mod policies; // failure, success and replacement policies
mod scheduling; // spec.scheduling
mod update; // mutable fields
mod status; // the status, and its changes

use k8s_openapi::api::batch::v1::{Job, JobSpec};

use crate::batch::prepare::{CONTROLLER_UID_LABEL, JOB_NAME_LABEL, LEGACY_CONTROLLER_UID_LABEL, LEGACY_JOB_NAME_LABEL};
use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{names, to_json, validate_object_meta, validate_object_meta_update};
use crate::selector::ParsedLabelSelector;

pub use scheduling::validate_parallelism_unchanged;
pub use status::validate_status_update;

/// Validates a new Job after defaulting and with its selector.
pub fn validate_create(job: &Job, gates: &Gates) -> ErrorList {
    let spec = spec_of(job);
    let mut errors = validate_object_meta(&job.metadata, true, &Path::new("metadata"));
    let template = spec.template.metadata.as_ref();
    let template_labels = template.and_then(|metadata| metadata.labels.as_ref());
    let generated = [CONTROLLER_UID_LABEL, JOB_NAME_LABEL, LEGACY_CONTROLLER_UID_LABEL, LEGACY_JOB_NAME_LABEL];
    let all_generated =
        template_labels.is_some_and(|labels| labels.keys().all(|label| generated.contains(&label.as_str())));
    if all_generated && job.metadata.labels.as_ref() == template_labels {
        // The labels were copied from the template, and are reported only there.
        errors.retain(|error| error.path.as_str() != "metadata.labels");
    }
    errors.extend(generated_selector(job, &spec));
    errors.extend(spec::validate(job, &spec, gates));
    errors.extend(validate_indexed_pod_names(job, &spec));
    errors.extend(scheduling::validate_declarative(spec.scheduling.as_ref(), None, gates));
    errors
}

/// Validates a change of a Job.
pub fn validate_update(new: &Job, old: &Job, gates: &Gates) -> ErrorList {
    let (new_spec, old_spec) = (spec_of(new), spec_of(old));
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(spec::validate(new, &new_spec, gates));
    errors.extend(update::validate(&new_spec, old, &old_spec));
    errors.extend(validate_indexed_pod_names(new, &new_spec));
    errors.extend(scheduling::validate_declarative(
        new_spec.scheduling.as_ref(),
        Some(old_spec.scheduling.as_ref()),
        gates,
    ));
    errors
}

/// Validates a Job template, whose spec `job` has: the handwritten rules.
pub(super) fn validate_template_handwritten(job: &Job, gates: &Gates) -> ErrorList {
    spec::template(job, &spec_of(job), gates)
}

/// Validates a Job template: the rules that the types declare.
pub(super) fn validate_template_declarative(new: &JobSpec, old: Option<&JobSpec>, gates: &Gates) -> ErrorList {
    scheduling::validate_declarative(new.scheduling.as_ref(), old.map(|old| old.scheduling.as_ref()), gates)
}

/// The spec of a Job. A missing spec is validated as an empty one.
fn spec_of(job: &Job) -> std::borrow::Cow<'_, JobSpec> {
    job.spec.as_ref().map_or_else(Default::default, std::borrow::Cow::Borrowed)
}

/// The selector of a new Job is the generated one, unless `manualSelector` is set.
fn generated_selector(job: &Job, spec: &JobSpec) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(selector) = spec.selector.as_ref().filter(|_| spec.manual_selector != Some(true)) else { return errors };
    let uid = job.metadata.uid.clone().unwrap_or_default();
    let name = job.metadata.name.clone().unwrap_or_default();
    if uid.is_empty() {
        errors.push(Error::required(&Path::new("metadata").child("uid"), ""));
    }
    let expected = [
        (LEGACY_CONTROLLER_UID_LABEL, &uid),
        (LEGACY_JOB_NAME_LABEL, &name),
        (CONTROLLER_UID_LABEL, &uid),
        (JOB_NAME_LABEL, &name),
    ];
    let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    let path = Path::new("spec").child("template").child("metadata").child("labels");
    for (label, value) in expected {
        let detail = format!("must be '{value}'");
        match labels.get(label) {
            None => errors.push(Error::required(&path.key(label), detail)),
            Some(given) if given != value => {
                errors.push(Error::invalid(&path.key(label), to_json(&labels), detail));
            }
            Some(_) => {}
        }
    }
    let expected = expected.map(|(label, value)| (label.to_owned(), value.clone())).into();
    if ParsedLabelSelector::from_label_selector(selector).is_ok_and(|selector| !selector.matches(&expected)) {
        let path = Path::new("spec").child("selector");
        errors.push(Error::invalid(&path, to_json(selector), "`selector` not auto-generated"));
    }
    errors
}

/// The pods of an Indexed Job have names with an index, which must be valid host names.
fn validate_indexed_pod_names(job: &Job, spec: &JobSpec) -> Option<Error> {
    let completions = spec.completions.filter(|completions| *completions > 0)?;
    if spec.completion_mode.as_deref() != Some("Indexed") {
        return None;
    }
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let longest = format!("{name}-{}", completions - 1);
    (!names::dns_label(&longest).is_empty()).then(|| {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        Error::invalid(&Path::new("metadata").child("name"), name, detail)
    })
}

#[cfg(test)]
mod tests;
