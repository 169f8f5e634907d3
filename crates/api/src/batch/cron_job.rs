//! CronJobs: what is filled in, what is settled, and what may be written. The Jobs that they make are judged when they
//! are made; here their template is.

pub mod validation; // what may be written, and what may change

use serde_json::{Value, json};

use super::defaults::{default, default_text, object_or_default, set_template_defaults};
use super::prepare::drop_disabled_fields;
use crate::gates::Gates;

/// Where the spec of the Jobs stands.
const JOB_SPEC: &str = "/spec/jobTemplate/spec";

/// Fills in what a CronJob leaves out. Its Jobs get theirs when they are made; only their pods are filled in here.
pub fn set_defaults(doc: &mut Value, _gates: &Gates) {
    if let Some(spec) = doc.as_object_mut().and_then(|doc| object_or_default(doc, "spec")) {
        default_text(spec, "concurrencyPolicy", "Allow");
        default(spec, "suspend", json!(false));
        default(spec, "successfulJobsHistoryLimit", json!(3));
        default(spec, "failedJobsHistoryLimit", json!(1));
        if let Some(job) =
            object_or_default(spec, "jobTemplate").and_then(|template| object_or_default(template, "spec"))
        {
            set_template_defaults(job);
        }
    }
}

/// Settles what a new CronJob may not say for itself.
pub fn prepare_create(doc: &mut Value, gates: &Gates) {
    if let Some(doc) = doc.as_object_mut() {
        doc.remove("status");
    }
    drop_disabled_fields(doc.pointer_mut(JOB_SPEC), None, gates);
}

/// Settles what an update may not bring.
pub fn prepare_update(doc: &mut Value, old: &Value, gates: &Gates) {
    drop_disabled_fields(doc.pointer_mut(JOB_SPEC), old.pointer(JOB_SPEC), gates);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{prepare_create, prepare_update, set_defaults};
    use crate::gates::{Gate, Gates};

    #[test]
    fn a_cron_job_that_says_nothing_runs_freely_and_keeps_a_short_history() {
        let mut doc = json!({"spec": {"schedule": "@daily", "jobTemplate": {"spec": {
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
            "template": {"spec": {"containers": [{"name": "a"}]}},
        }}}});
        set_defaults(&mut doc, &Gates::default());
        let spec = &doc["spec"];
        assert_eq!((&spec["concurrencyPolicy"], &spec["suspend"]), (&json!("Allow"), &json!(false)));
        assert_eq!((&spec["successfulJobsHistoryLimit"], &spec["failedJobsHistoryLimit"]), (&json!(3), &json!(1)));
        let job = &spec["jobTemplate"]["spec"];
        assert_eq!(job["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"], "True");
        assert_eq!(job["template"]["spec"]["dnsPolicy"], "ClusterFirst");
        assert_eq!(job.get("parallelism"), None, "a Job's own defaults wait for the Job");
        let once = doc.clone();
        set_defaults(&mut doc, &Gates::default());
        assert_eq!(doc, once);
    }

    // Shows: S004-33
    #[test]
    fn fields_of_gates_that_are_off_are_dropped_unless_they_were_there() {
        let off = Gates::default().with(Gate::WorkloadWithJob, false);
        let with = json!({"spec": {"jobTemplate": {"spec": {"scheduling": {}}}}, "status": {"active": []}});
        let without = json!({"spec": {"jobTemplate": {"spec": {}}}});
        let mut doc = with.clone();
        prepare_create(&mut doc, &off);
        assert_eq!(doc, without);
        for (old, want) in [(&without, json!({})), (&with, json!({"scheduling": {}}))] {
            let mut doc: Value = with.clone();
            prepare_update(&mut doc, old, &off);
            assert_eq!(doc["spec"]["jobTemplate"]["spec"], want);
        }
    }
}
