//! The status of a Job, and how it may change. A rule is applied only where the part it is about has changed, so that
//! a status that was accepted once does not stop later writes.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use workloadbuilder::rules::at_least;

use super::spec_of;
use crate::batch::indexes;
use crate::field::{Error, ErrorKind, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{immutable, json_of, validate_object_meta_update};

/// What is wrong with a change of a Job's status.
pub fn validate_status_update(new: &Job, old: &Job, _gates: &Gates) -> ErrorList {
    let change = Change {
        new: new.status.clone().unwrap_or_default(),
        old: old.status.clone().unwrap_or_default(),
        job: new,
        path: Path::new("status"),
    };
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(change.counts());
    errors.extend(change.uncounted_pods());
    errors.extend(change.conditions());
    errors.extend(change.times());
    errors.extend(change.finished());
    errors.extend(change.indexes());
    errors.extend(change.counters());
    errors
}

struct Change<'a> {
    new: JobStatus,
    old: JobStatus,
    job: &'a Job,
    path: Path,
}

impl Change<'_> {
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

    /// Which conditions may stand together, and which may not be taken back.
    fn conditions(&self) -> ErrorList {
        let now = |kind| is_true(&self.new, kind);
        let changed = |kind| is_true(&self.new, kind) != is_true(&self.old, kind);
        let mut errors = ErrorList::new();
        let mut refuse = |refused: bool, detail: &str| {
            if refused {
                errors.push(self.about_conditions(detail));
            }
        };
        for kind in ["Failed", "Complete", "FailureTarget"] {
            let taken_back = is_true(&self.old, kind) && !now(kind);
            refuse(taken_back, &format!("cannot disable the terminal {kind}=True condition"));
        }
        let taken_back = is_true(&self.old, "SuccessCriteriaMet") && !now("SuccessCriteriaMet");
        refuse(taken_back, "cannot disable the SuccessCriteriaMet=True condition");
        let too_late = is_true(&self.old, "Complete") && now("SuccessCriteriaMet") && changed("SuccessCriteriaMet");
        refuse(too_late, "cannot set SuccessCriteriaMet=True for Job already has Complete=True condition");
        for other in ["Failed", "FailureTarget"] {
            let both = now("SuccessCriteriaMet") && now(other);
            refuse(both, &format!("cannot set {other}=True and SuccessCriteriaMet=True conditions"));
        }
        for other in ["Failed", "FailureTarget"] {
            let both = now("Complete") && now(other) && (changed("Complete") || changed(other));
            refuse(both, &format!("cannot set Complete=True and {other}=true conditions"));
        }
        let indexes_changed = self.new.failed_indexes != self.old.failed_indexes;
        let unannounced = now("Failed") && !now("FailureTarget") && (changed("Failed") || indexes_changed);
        refuse(unannounced, "cannot set Failed=True condition without the FailureTarget=true condition");
        let has_policy = spec_of(self.job).success_policy.is_some();
        let unannounced = now("Complete")
            && !now("SuccessCriteriaMet")
            && (has_policy || changed("Complete") || changed("SuccessCriteriaMet"));
        refuse(unannounced, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
        errors
    }

    fn times(&self) -> ErrorList {
        let (new, old) = (&self.new, &self.old);
        let (start_path, completion_path) = (self.path.child("startTime"), self.path.child("completionTime"));
        let completed = is_true(new, "Complete");
        let mut errors = ErrorList::new();
        if completed != is_true(old, "Complete") || new.completion_time != old.completion_time {
            match (&new.completion_time, completed) {
                (Some(time), false) => {
                    let detail = "cannot set completionTime when there is no Complete=True condition";
                    errors.push(Error::invalid(&completion_path, json_of(time), detail));
                }
                (None, true) => {
                    errors.push(Error::required(&completion_path, "completionTime is required for Complete jobs"));
                }
                _ => {}
            }
        }
        if old.completion_time.is_some() {
            errors.extend(immutable(&new.completion_time, &old.completion_time, &completion_path));
        }
        let times_changed = new.completion_time != old.completion_time || new.start_time != old.start_time;
        if let (Some(start), Some(completion), true) = (&new.start_time, &new.completion_time, times_changed)
            && completion.0 < start.0
        {
            let detail = "completionTime cannot be set before startTime";
            errors.push(Error::invalid(&completion_path, json_of(completion), detail));
        }
        let suspended = spec_of(self.job).suspend == Some(true);
        let resumed = is_true(old, "Suspended") && !is_true(new, "Suspended");
        if old.start_time.is_some() && new.start_time != old.start_time && !suspended && !resumed {
            errors.push(match &new.start_time {
                None => Error::required(&start_path, "startTime cannot be removed for unsuspended job"),
                Some(time) => {
                    let detail = "startTime cannot be modified for unsuspended job";
                    Error::invalid(&start_path, json_of(time), detail)
                }
            });
        }
        errors
    }

    /// A finished Job has nothing left to do.
    fn finished(&self) -> ErrorList {
        let (new, old) = (&self.new, &self.old);
        let finished = |status: &JobStatus| is_true(status, "Complete") || is_true(status, "Failed");
        let mut errors = ErrorList::new();
        if !finished(new) {
            return errors;
        }
        let newly = !finished(old);
        for (name, now, before) in
            [("active", new.active, old.active), ("terminating", new.terminating, old.terminating)]
        {
            if let Some(count) = now.filter(|count| *count > 0 && (newly || now != before)) {
                let detail = format!("{name}>0 is invalid for finished job");
                errors.push(Error::invalid(&self.path.child(name), count, detail));
            }
        }
        let uncounted_changed = new.uncounted_terminated_pods != old.uncounted_terminated_pods;
        if let Some(uncounted) = &new.uncounted_terminated_pods
            && (newly || uncounted_changed)
            && uncounted.succeeded.iter().chain(&uncounted.failed).any(|uids| !uids.is_empty())
        {
            let detail = "uncountedTerminatedPods needs to be empty for finished job";
            errors.push(Error::invalid(&self.path.child("uncountedTerminatedPods"), json_of(uncounted), detail));
        }
        let spec = spec_of(self.job);
        // A suspended Job without work completes without ever starting.
        let never_started = spec.suspend == Some(true) && spec.completions == Some(0);
        if new.start_time.is_none() && (newly || old.start_time.is_some()) && !never_started {
            errors.push(Error::required(&self.path.child("startTime"), "startTime is required for finished job"));
        }
        errors
    }

    fn indexes(&self) -> ErrorList {
        let spec = spec_of(self.job);
        let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
        let (new, old) = (&self.new, &self.old);
        let mut errors = ErrorList::new();
        let lists = [
            ("completedIndexes", &new.completed_indexes, &old.completed_indexes, is_indexed),
            ("failedIndexes", &new.failed_indexes, &old.failed_indexes, spec.backoff_limit_per_index.is_some()),
        ];
        let mut sets = Vec::new();
        for (name, text, before, allowed) in lists {
            let path = self.path.child(name);
            let Some(text) = text.as_deref().filter(|text| !text.is_empty()) else { continue };
            let changed = Some(text) != before.as_deref();
            if changed && !allowed {
                let needed = if name == "completedIndexes" { "an Indexed job" } else { "backoffLimitPerIndex" };
                errors.push(Error::invalid(&path, text, format!("cannot set non-empty {name} without {needed}")));
            }
            match indexes::parse(text, spec.completions.unwrap_or(i32::MAX)) {
                Ok(runs) => sets.push((runs, changed)),
                Err(problem) if changed => {
                    errors.push(Error::invalid(&path, text, format!("error parsing {name}: {problem}")));
                }
                Err(_) => {}
            }
        }
        if let [(completed, completed_changed), (failed, failed_changed)] = &sets[..]
            && (*completed_changed || *failed_changed)
            && indexes::overlap(completed, failed)
        {
            let detail = "failedIndexes and completedIndexes overlap";
            errors.push(Error::invalid(&self.path.child("failedIndexes"), new.failed_indexes.as_deref(), detail));
        }
        errors
    }

    /// Counters only grow, and what is ready is active.
    fn counters(&self) -> ErrorList {
        let (new, old) = (&self.new, &self.old);
        let spec = spec_of(self.job);
        let mut errors = ErrorList::new();
        if new.failed.unwrap_or(0) < old.failed.unwrap_or(0) {
            let detail = "cannot decrease the failed counter";
            errors.push(Error::invalid(&self.path.child("failed"), new.failed.unwrap_or(0), detail));
        }
        // Indexes that are cut off by a smaller Job no longer count.
        let elastic = spec.completion_mode.as_deref() == Some("Indexed")
            && spec.completions.is_some()
            && spec.completions == spec.parallelism;
        if !elastic && new.succeeded.unwrap_or(0) < old.succeeded.unwrap_or(0) {
            let detail = "cannot decrease the succeeded counter";
            errors.push(Error::invalid(&self.path.child("succeeded"), new.succeeded.unwrap_or(0), detail));
        }
        let changed = new.ready != old.ready || new.active != old.active;
        if let Some(ready) = new.ready.filter(|ready| changed && *ready > new.active.unwrap_or(0)) {
            errors.push(Error::invalid(&self.path.child("ready"), ready, "cannot set more ready pods than active"));
        }
        errors
    }

    fn about_conditions(&self, detail: &str) -> Error {
        let path = self.path.child("conditions");
        Error { kind: ErrorKind::Invalid, path, value: None, detail: detail.to_owned() }
    }
}

fn is_true(status: &JobStatus, kind: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == kind && condition.status == "True")
}
