//! CronJobs: defaults and validation. The template of the Jobs is validated here, the Jobs when they are created.

pub mod validation; // rules for creation and update

use serde_json::{Value, json};

use super::defaults::{default, default_text, object_or_default, set_template_defaults};
use super::prepare::drop_disabled_fields;
use crate::gates::Gates;

/// The path of the Jobs' spec.
const JOB_SPEC: &str = "/spec/jobTemplate/spec";

/// Sets the defaults of a CronJob. Of its Jobs only the pods get defaults here, the rest when a Job is created.
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

/// Prepares a new CronJob: drops its status and the fields of gates that are off.
pub fn prepare_create(doc: &mut Value, gates: &Gates) {
    if let Some(doc) = doc.as_object_mut() {
        doc.remove("status");
    }
    drop_disabled_fields(doc.pointer_mut(JOB_SPEC), None, gates);
}

/// Prepares an update: keeps the status, and drops the fields of gates that are off.
pub fn prepare_update(doc: &mut Value, old: &Value, gates: &Gates) {
    drop_disabled_fields(doc.pointer_mut(JOB_SPEC), old.pointer(JOB_SPEC), gates);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{prepare_create, prepare_update, set_defaults};
    use crate::gates::{Gate, Gates};

    #[test]
    fn minimal_cron_job_gets_its_defaults() {
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
        assert_eq!(job.get("parallelism"), None, "a Job gets its defaults when it is created");
        let once = doc.clone();
        set_defaults(&mut doc, &Gates::default());
        assert_eq!(doc, once);
    }

    // Shows: S004-33
    #[test]
    fn fields_of_gates_that_are_off_are_dropped_unless_they_were_set() {
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
