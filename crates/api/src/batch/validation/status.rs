//! The status of a Job, and its changes. A rule is applied only if its fields have changed, so that a status that was
//! accepted once does not block later writes.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use workloadbuilder::rules::at_least;

use super::spec_of;
use crate::batch::indexes;
use crate::field::{Error, ErrorKind, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{immutable, non_empty, to_json, validate_object_meta_update};

/// Validates a write to a Job's status.
pub fn validate_status_update(new: &Job, old: &Job, _gates: &Gates) -> ErrorList {
    let change = JobStatusUpdate {
        new: new.status.clone().unwrap_or_default(),
        old: old.status.clone().unwrap_or_default(),
        job: new,
        path: Path::new("status"),
    };
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(change.counts());
    errors.extend(change.uncounted_pods());
    errors.extend(change.validate_terminal_conditions());
    errors.extend(change.finished());
    errors.extend(change.indexes());
    errors.extend(change.validate_active_counts());
    errors.extend(change.success());
    errors.extend(change.validate_irreversible());
    errors
}

struct JobStatusUpdate<'a> {
    new: JobStatus,
    old: JobStatus,
    job: &'a Job,
    path: Path,
}

impl JobStatusUpdate<'_> {
    fn counts(&self) -> ErrorList {
        let counts = [
            ("active", self.new.active),
            ("succeeded", self.new.succeeded),
            ("failed", self.new.failed),
            ("ready", self.new.ready),
            ("terminating", self.new.terminating),
        ];
        counts.iter().filter_map(|(name, count)| at_least(&self.path.child(name), (*count)?, 0)).collect()
    }

    fn uncounted_pods(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        let Some(uncounted) = &self.new.uncounted_terminated_pods else { return errors };
        let path = self.path.child("uncountedTerminatedPods");
        let mut seen = BTreeSet::new();
        for (name, uids) in [("succeeded", &uncounted.succeeded), ("failed", &uncounted.failed)] {
            for (i, uid) in uids.iter().flatten().enumerate() {
                let path = path.child(name).index(i);
                if uid.is_empty() {
                    errors.push(Error::invalid(&path, "", "must not be empty"));
                } else if !seen.insert(uid) {
                    errors.push(Error::duplicate(&path, uid.as_str()));
                }
            }
        }
        errors
    }

    /// A Job has at most one terminal condition, and it comes after FailureTarget or SuccessCriteriaMet.
    fn validate_terminal_conditions(&self) -> ErrorList {
        let (new, old) = (&self.new, &self.old);
        let mut errors = ErrorList::new();
        for other in ["Failed", "FailureTarget"] {
            let both = self.has_condition("Complete")
                && self.has_condition(other)
                && (self.changed("Complete") || self.changed(other));
            errors.extend(
                self.condition_error_if(both, &format!("cannot set Complete=True and {other}=true conditions")),
            );
        }
        let path = self.path.child("completionTime");
        if self.changed("Complete") || new.completion_time != old.completion_time {
            match (&new.completion_time, self.has_condition("Complete")) {
                (Some(time), false) => {
                    let detail = "cannot set completionTime when there is no Complete=True condition";
                    errors.push(Error::invalid(&path, to_json(time), detail));
                }
                (None, true) => errors.push(Error::required(&path, "completionTime is required for Complete jobs")),
                _ => {}
            }
        }
        let times_changed = new.completion_time != old.completion_time || new.start_time != old.start_time;
        if let (Some(start), Some(completion), true) = (&new.start_time, &new.completion_time, times_changed)
            && completion.0 < start.0
        {
            errors.push(Error::invalid(&path, to_json(completion), "must be equal to or after `startTime`"));
        }
        let indexes_changed = new.failed_indexes != old.failed_indexes;
        let lacks_target = self.has_condition("Failed")
            && !self.has_condition("FailureTarget")
            && (self.changed("Failed") || indexes_changed);
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.extend(self.condition_error_if(lacks_target, detail));
        let lacks_target = self.has_condition("Complete")
            && !self.has_condition("SuccessCriteriaMet")
            && (self.has_success_policy() || self.changed("Complete") || self.changed("SuccessCriteriaMet"));
        let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.extend(self.condition_error_if(lacks_target, detail));
        errors
    }

    /// A finished Job has no active pods and a start time.
    fn finished(&self) -> ErrorList {
        let (new, old) = (&self.new, &self.old);
        let mut errors = ErrorList::new();
        if !is_finished(new) {
            return errors;
        }
        let newly = !is_finished(old);
        errors.extend(self.leftover_pods_error("active", new.active, old.active));
        let spec = spec_of(self.job);
        // A suspended Job with no completions completes without a start.
        let never_started = spec.suspend == Some(true) && spec.completions == Some(0);
        if new.start_time.is_none() && (newly || old.start_time.is_some()) && !never_started {
            errors.push(Error::required(&self.path.child("startTime"), "startTime is required for finished job"));
        }
        let uncounted_changed = new.uncounted_terminated_pods != old.uncounted_terminated_pods;
        if let Some(uncounted) = &new.uncounted_terminated_pods
            && (newly || uncounted_changed)
            && uncounted.succeeded.iter().chain(&uncounted.failed).any(|uids| !uids.is_empty())
        {
            let path = self.path.child("uncountedTerminatedPods");
            errors.push(Error::invalid(&path, to_json(uncounted), "must be empty for finished job"));
        }
        errors
    }

    /// Completed indexes are set only for Indexed Jobs, failed indexes only with a backoff limit per index.
    fn indexes(&self) -> ErrorList {
        let spec = spec_of(self.job);
        let (new, old) = (&self.new, &self.old);
        let mut errors = ErrorList::new();
        let completions = spec.completions.unwrap_or(i32::MAX);
        let parsed = |name: &str, text: &str| {
            let path = self.path.child(name);
            let parse_error = |problem| Error::invalid(&path, text, format!("error parsing {name}: {problem}"));
            indexes::parse(text, completions).map_err(parse_error)
        };
        let completed_changed = new.completed_indexes != old.completed_indexes;
        let completed = non_empty(&new.completed_indexes).map(|text| (text, parsed("completedIndexes", text)));
        if let Some((text, parsed)) = completed.as_ref().filter(|_| completed_changed) {
            errors.extend(parsed.as_ref().err().cloned());
            if spec.completion_mode.as_deref() != Some("Indexed") {
                let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
                errors.push(Error::invalid(&self.path.child("completedIndexes"), *text, detail));
            }
        }
        let path = self.path.child("failedIndexes");
        let Some(text) = new.failed_indexes.as_deref() else { return errors };
        let failed_changed = new.failed_indexes != old.failed_indexes;
        if spec.backoff_limit_per_index.is_none() {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.extend(failed_changed.then(|| Error::invalid(&path, text, detail)));
            return errors;
        }
        match (parsed("failedIndexes", text), completed) {
            (Err(problem), _) => errors.extend(failed_changed.then_some(problem)),
            (Ok(failed), Some((_, Ok(completed)))) if completed_changed || failed_changed => {
                let shared = indexes::first_common_index(&completed, &failed);
                errors.extend(shared.map(|index| {
                    let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
                    Error::invalid(&path, text, detail)
                }));
            }
            _ => {}
        }
        errors
    }

    /// The number of ready pods is at most that of active pods, and no count is negative.
    fn validate_active_counts(&self) -> ErrorList {
        let (new, old) = (&self.new, &self.old);
        let mut errors = ErrorList::new();
        errors.extend(
            self.leftover_pods_error("terminating", new.terminating, old.terminating).filter(|_| is_finished(new)),
        );
        let changed = new.ready != old.ready || new.active != old.active;
        if let Some(ready) = new.ready.filter(|ready| changed && *ready > new.active.unwrap_or(0)) {
            errors.push(Error::invalid(&self.path.child("ready"), ready, "cannot set more ready pods than active"));
        }
        errors
    }

    /// A Job with SuccessCriteriaMet does not fail, and a Job with a success policy needs that condition to complete.
    fn success(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        for other in ["Failed", "FailureTarget"] {
            let both = self.has_condition("SuccessCriteriaMet") && self.has_condition(other);
            let detail = format!("cannot set SuccessCriteriaMet=True and {other}=true conditions");
            errors.extend(self.condition_error_if(both, &detail));
        }
        let criteria_not_met =
            self.has_success_policy() && self.has_condition("Complete") && !self.has_condition("SuccessCriteriaMet");
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errors.extend(self.condition_error_if(criteria_not_met, detail));
        errors
    }

    /// Terminal conditions, counters and times are not reverted.
    fn validate_irreversible(&self) -> ErrorList {
        let (new, old) = (&self.new, &self.old);
        let removed = |kind: &str| is_true(old, kind) && !self.has_condition(kind);
        let mut errors = ErrorList::new();
        for kind in ["Failed", "Complete", "FailureTarget"] {
            errors.extend(
                self.condition_error_if(removed(kind), &format!("cannot disable the terminal {kind}=True condition")),
            );
        }
        errors.extend(self.counters());
        if let (Some(_), Some(_)) = (&new.completion_time, &old.completion_time) {
            let path = self.path.child("completionTime");
            errors.extend(immutable(&new.completion_time, &old.completion_time, &path));
        }
        let suspended = spec_of(self.job).suspend == Some(true);
        if old.start_time.is_some() && new.start_time != old.start_time && !suspended && !removed("Suspended") {
            let detail = "field is immutable for unsuspended job once set";
            errors.push(Error::immutable(&self.path.child("startTime"), to_json(&new.start_time), detail));
        }
        let detail = "cannot disable the SuccessCriteriaMet=True condition";
        errors.extend(self.condition_error_if(removed("SuccessCriteriaMet"), detail));
        let too_late =
            is_true(old, "Complete") && self.has_condition("SuccessCriteriaMet") && self.changed("SuccessCriteriaMet");
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=True condition";
        errors.extend(self.condition_error_if(too_late, detail));
        errors
    }

    /// Counters do not decrease.
    fn counters(&self) -> ErrorList {
        let (new, old) = (&self.new, &self.old);
        let spec = spec_of(self.job);
        // Indexes beyond the completions of a smaller Job no longer count.
        let elastic = spec.completion_mode.as_deref() == Some("Indexed")
            && spec.completions.is_some()
            && spec.completions == spec.parallelism;
        let counters =
            [("failed", new.failed, old.failed, false), ("succeeded", new.succeeded, old.succeeded, elastic)];
        let decreased = counters.iter().filter(|(_, now, before, may)| now.unwrap_or(0) < before.unwrap_or(0) && !may);
        decreased
            .map(|(name, now, ..)| {
                let detail = format!("cannot decrease the {name} counter");
                Error::invalid(&self.path.child(name), now.unwrap_or(0), detail)
            })
            .collect()
    }

    /// The error about pods of a finished Job.
    fn leftover_pods_error(&self, name: &str, now: Option<i32>, before: Option<i32>) -> Option<Error> {
        let count = now.filter(|count| *count > 0 && (!is_finished(&self.old) || now != before))?;
        Some(Error::invalid(&self.path.child(name), count, format!("{name}>0 is invalid for finished job")))
    }

    fn has_condition(&self, kind: &str) -> bool {
        is_true(&self.new, kind)
    }

    fn changed(&self, kind: &str) -> bool {
        is_true(&self.new, kind) != is_true(&self.old, kind)
    }

    fn has_success_policy(&self) -> bool {
        spec_of(self.job).success_policy.is_some()
    }

    fn condition_error_if(&self, refused: bool, detail: &str) -> Option<Error> {
        refused.then(|| self.condition_error(detail))
    }

    fn condition_error(&self, detail: &str) -> Error {
        let path = self.path.child("conditions");
        Error { kind: ErrorKind::Invalid, path, value: None, detail: detail.to_owned() }
    }
}

fn is_finished(status: &JobStatus) -> bool {
    is_true(status, "Complete") || is_true(status, "Failed")
}

fn is_true(status: &JobStatus, kind: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == kind && condition.status == "True")
}
