//! Jobs on a server that lacks kinds or drops fields.

use api::gates::AutoGang;
use api::views::{PodGroupView, WorkloadView};

use super::*;

fn unserved(spec: Value) -> JobSnapshot {
    JobSnapshot { serves_groups: false, ..observed(job(spec), vec![], 1) }
}

/// The next steps, with each status applied, up to the first that is no status.
fn steps(mut observed: JobSnapshot, gates: &Gates) -> String {
    let mut texts = Vec::new();
    loop {
        let step = next_step(&observed, gates, &Config::default()).unwrap();
        texts.push(step_text(&step));
        let NextStep::WriteStatus(status, _) = step else { return texts.join("; ") };
        let mut job = (*observed.job).clone();
        job.status = *status;
        observed.job = Arc::new(job);
    }
}

// Shows: S000-89
#[test]
fn without_the_kinds_jobs_that_request_a_group_wait_and_report_it() {
    let gang = json!({"parallelism": 2, "completions": 2, "scheduling": {"schedulingPolicy": {"gang": {}}}});
    let plain = json!({"parallelism": 2, "completions": 2});
    let indexed = json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed"});
    let (explicit, auto) = (Gates::default(), Gates::default().with_auto_gang(AutoGang::Indexed));
    let waits = "status active=0 succeeded=0 failed=0 SchedulingBlocked !WorkloadsNotServed; wait";
    for (case, spec, gates, want) in [
        ("a gang waits", &gang, &explicit, waits),
        ("a Job without spec.scheduling has plain pods", &plain, &explicit, "create 2"),
        ("a gang by setting waits", &indexed, &auto, waits),
        ("no gang by that setting", &plain, &auto, "create 2"),
    ] {
        assert_eq!(steps(unserved(spec.clone()), gates), want, "{case}");
    }
}

// Shows: S000-89
#[test]
fn a_job_that_waited_continues_when_the_kinds_are_served() {
    let gang = json!({"parallelism": 2, "completions": 2, "scheduling": {"schedulingPolicy": {"gang": {}}}});
    let mut seen = unserved(gang);
    let NextStep::WriteStatus(status, _) = next_step(&seen, &Gates::default(), &Config::default()).unwrap() else {
        panic!("a status first")
    };
    let mut waiting = (*seen.job).clone();
    waiting.status = *status;
    seen.job = Arc::new(waiting);
    seen.serves_groups = true;
    assert!(steps(seen, &Gates::default()).starts_with("create workload"));
}

// Beside DeadlineExceeded a condition reported that the Job was not blocked.
#[test]
fn a_job_that_waited_until_its_deadline_still_reports_what_for() {
    let gang = json!({
        "parallelism": 2, "completions": 2, "activeDeadlineSeconds": 30, "scheduling": {"schedulingPolicy": {"gang": {}}},
    });
    let mut seen = unserved(gang);
    let step = next_step(&seen, &Gates::default(), &Config::default()).unwrap();
    apply_status(&mut seen, step);
    seen.now = at(30);
    let want = "status active=0 succeeded=0 failed=0 SchedulingBlocked+FailureTarget+Failed !DeadlineExceeded; wait";
    assert_eq!(steps(seen, &Gates::default()), want);
}

#[test]
fn a_dropped_topology_is_reported_before_the_first_pod_is_created() {
    let scheduling = json!({
        "schedulingPolicy": {"gang": {}}, "schedulingConstraints": {"topology": [{"key": "rack"}]},
    });
    let mut seen = observed(job(json!({"parallelism": 2, "completions": 2, "scheduling": scheduling})), vec![], 1);
    let gates = Gates::default();
    let NextStep::CreateWorkload(workload) = next_step(&seen, &gates, &Config::default()).unwrap() else {
        panic!("a workload")
    };
    let mut document = serde_json::to_value(&workload).unwrap();
    document["metadata"]["uid"] = json!("workload-uid");
    // As stored by a server whose gate is off.
    document["spec"]["podGroupTemplates"][0].as_object_mut().unwrap().remove("schedulingConstraints");
    seen.workloads = vec![Arc::new(WorkloadView::decode(document.to_string().as_bytes()).unwrap())];
    let NextStep::CreatePodGroup(group) = next_step(&seen, &gates, &Config::default()).unwrap() else {
        panic!("a group")
    };
    assert!(group.spec.scheduling_constraints.is_none(), "a dropped field stays dropped");
    let name = group.metadata.name.clone().unwrap();
    let document = serde_json::to_value(&group).unwrap().to_string();
    seen.pod_groups = vec![Arc::new(PodGroupView::decode(document.as_bytes()).unwrap())];
    let want = format!("status active=0 succeeded=0 failed=0 SchedulingFallback !FieldsDropped; create 2 in {name}");
    assert_eq!(steps(seen, &gates), want);
}
