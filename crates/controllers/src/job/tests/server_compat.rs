//! Jobs on a server that lacks kinds or drops fields.

use api::gates::AutoGang;
use api::views::{PodGroupView, WorkloadView};

use super::*;

fn unserved(spec: Value) -> JobSnapshot {
    JobSnapshot { serves_groups: false, ..observed(job(spec), vec![], 1) }
}

/// The steps from here on, each status written as decided, until one that is no status.
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
fn without_the_kinds_jobs_that_ask_for_a_group_wait_and_say_so() {
    let gang = json!({"parallelism": 2, "completions": 2, "scheduling": {"schedulingPolicy": {"gang": {}}}});
    let plain = json!({"parallelism": 2, "completions": 2});
    let indexed = json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed"});
    let (explicit, auto) = (Gates::default(), Gates::default().with_auto_gang(AutoGang::Indexed));
    let waits = "status active=0 succeeded=0 failed=0 SchedulingBlocked !WorkloadsNotServed; rest";
    for (case, spec, gates, want) in [
        ("a gang waits", &gang, &explicit, waits),
        ("one that asks for nothing has plain pods", &plain, &explicit, "create 2"),
        ("a gang by setting waits", &indexed, &auto, waits),
        ("no gang by that setting", &plain, &auto, "create 2"),
    ] {
        assert_eq!(steps(unserved(spec.clone()), gates), want, "{case}");
    }
}

// Shows: S000-89
#[test]
fn a_job_that_waited_goes_on_when_the_kinds_are_there() {
    let gang = json!({"parallelism": 2, "completions": 2, "scheduling": {"schedulingPolicy": {"gang": {}}}});
    let mut seen = unserved(gang);
    let NextStep::WriteStatus(status, _) = next_step(&seen, &Gates::default(), &Config::default()).unwrap() else {
        panic!("it is said first")
    };
    let mut waiting = (*seen.job).clone();
    waiting.status = *status;
    seen.job = Arc::new(waiting);
    seen.serves_groups = true;
    assert!(steps(seen, &Gates::default()).starts_with("create workload"));
}

// Beside DeadlineExceeded stood that the Job waited for nothing.
#[test]
fn a_job_that_waited_until_its_deadline_still_says_what_for() {
    let gang = json!({
        "parallelism": 2, "completions": 2, "activeDeadlineSeconds": 30, "scheduling": {"schedulingPolicy": {"gang": {}}},
    });
    let mut seen = unserved(gang);
    let said = next_step(&seen, &Gates::default(), &Config::default()).unwrap();
    apply_status(&mut seen, said);
    seen.now = at(30);
    let want = "status active=0 succeeded=0 failed=0 SchedulingBlocked+FailureTarget+Failed !DeadlineExceeded; rest";
    assert_eq!(steps(seen, &Gates::default()), want);
}

#[test]
fn a_dropped_topology_is_said_before_the_first_pod_is_made() {
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
    // As a server keeps it whose gate is off.
    document["spec"]["podGroupTemplates"][0].as_object_mut().unwrap().remove("schedulingConstraints");
    seen.workloads = vec![Arc::new(WorkloadView::decode(document.to_string().as_bytes()).unwrap())];
    let NextStep::CreatePodGroup(group) = next_step(&seen, &gates, &Config::default()).unwrap() else {
        panic!("a group")
    };
    assert!(group.spec.scheduling_constraints.is_none(), "what the server dropped stays dropped");
    let name = group.metadata.name.clone().unwrap();
    let document = serde_json::to_value(&group).unwrap().to_string();
    seen.pod_groups = vec![Arc::new(PodGroupView::decode(document.as_bytes()).unwrap())];
    let want = format!("status active=0 succeeded=0 failed=0 SchedulingFallback !FieldsDropped; create 2 in {name}");
    assert_eq!(steps(seen, &gates), want);
}
