//! How many pods a gang can still have: the annotation on its PodGroup, when it is written, and the Job's condition.

use api::views::PodGroupView;

use super::groups::{gang, step, user_object, user_workload, with_objects};
use super::*;

fn bound(name: &str) -> PodBuilder {
    let mut pod = pod(name).running();
    pod.0.spec.node_name = "node".into();
    pod
}

/// A gang with these counts, of which `succeeded` pods are counted.
fn gang_of(completions: Option<i32>, parallelism: i32, succeeded: i32) -> JobSnapshot {
    let mut seen = with_objects(gang(None).with(|job| {
        (job.spec.completions, job.spec.parallelism) = (completions, Some(parallelism));
    }));
    let mut job = (*seen.job).clone();
    job.status.succeeded = succeeded;
    seen.job = Arc::new(job);
    seen.now = at(1000);
    seen
}

/// The value that the next step sets the annotation to; `None` if it does not.
fn expected_count_set(seen: &JobSnapshot) -> Option<i32> {
    match step(seen) {
        NextStep::SetExpectedCount(expected) => Some(expected.count),
        _ => None,
    }
}

fn expected_count_annotation(seen: &JobSnapshot) -> Option<&str> {
    seen.pod_groups[0].metadata.annotations.get(PodGroupView::EXPECTED_COUNT_ANNOTATION).map(String::as_str)
}

#[test]
fn a_gang_has_its_expected_count_from_the_start() {
    for (completions, parallelism, want) in [(Some(4), 4, "4"), (Some(10), 3, "3"), (Some(2), 5, "2"), (None, 6, "6")] {
        assert_eq!(
            expected_count_annotation(&gang_of(completions, parallelism, 0)),
            Some(want),
            "{completions:?} {parallelism}"
        );
    }
    let basic = with_objects(job(json!({ "completions": 4, "parallelism": 4 })));
    assert_eq!(expected_count_annotation(&basic), None, "a Basic group waits for no pod");
}

#[test]
fn the_count_is_written_only_if_the_old_one_would_mislead() {
    let running = |count: usize| (0..count).map(|i| bound(&format!("r{i}")).build()).collect::<Vec<_>>();
    let with = |mut seen: JobSnapshot, pods: Vec<Arc<PodView>>, counted: usize| {
        (seen.pods, seen.counted_pods.count) = (pods, counted);
        seen
    };
    let failed = || pod("f").failed_at(1).without_finalizer().build();
    let pending = || pod("p").build();
    for (case, seen, want) in [
        ("all run", with(gang_of(Some(4), 4, 0), running(4), 0), None),
        ("one has succeeded and exists", with(gang_of(Some(4), 4, 1), running(3), 1), None),
        ("one has succeeded and is gone", with(gang_of(Some(4), 4, 1), running(3), 0), Some(3)),
        ("another is to be replaced", with(gang_of(Some(4), 4, 1), [running(2), vec![failed()]].concat(), 1), Some(3)),
        ("one is pending", with(gang_of(Some(4), 4, 1), [running(2), vec![pending()]].concat(), 1), Some(3)),
        (
            "one is pending and all can still run",
            with(gang_of(Some(4), 4, 0), [running(3), vec![pending()]].concat(), 0),
            None,
        ),
        ("in the middle of many", with(gang_of(Some(10_000), 100, 5_000), running(100), 5_000), None),
        ("at the end of many", with(gang_of(Some(10_000), 100, 9_950), running(50), 9_950), None),
        ("at the end of many that no longer exist", with(gang_of(Some(10_000), 100, 9_950), running(50), 0), Some(50)),
        ("a work queue", with(gang_of(None, 4, 0), running(4), 0), None),
        ("a work queue to which none is added", with(gang_of(None, 4, 2), running(2), 0), Some(2)),
    ] {
        assert_eq!(expected_count_set(&seen), want, "{case}");
        let Some(count) = want else { continue };
        let mut after = seen.clone();
        let mut group = (*seen.pod_groups[0]).clone();
        group.metadata.annotations.insert(PodGroupView::EXPECTED_COUNT_ANNOTATION, count.to_string());
        after.pod_groups = vec![Arc::new(group)];
        assert_eq!(expected_count_set(&after), None, "{case}: once");
        after.pod_groups = vec![Arc::new({
            let mut group = (*seen.pod_groups[0]).clone();
            group.metadata.annotations.insert(PodGroupView::EXPECTED_COUNT_ANNOTATION, "many".to_owned());
            group
        })];
        assert_eq!(expected_count_set(&after), want, "{case}: an invalid value is corrected");
        let blocked = JobSnapshot { blocked: true, ..seen };
        assert_eq!(expected_count_set(&blocked), None, "{case}: the server has just refused");
    }
}

#[test]
fn the_count_is_written_before_the_pods_and_without_failed_indexes() {
    let limits = json!({ "completionMode": "Indexed", "backoffLimitPerIndex": 0, "completions": 4, "parallelism": 4 });
    let scheduling = json!({ "schedulingPolicy": { "gang": {} } });
    let mut seen = with_objects(job(limits).with(|job| {
        job.spec.scheduling = Some(serde_json::from_value(scheduling).unwrap());
    }));
    let mut job = (*seen.job).clone();
    (job.status.completed_indexes, job.status.succeeded) = ("0".to_owned(), 1);
    job.status.failed_indexes = Some("2".to_owned());
    seen.job = Arc::new(job);
    seen.pods = vec![bound("b").index(1).build()];
    assert_eq!(step_text(&step(&seen)), "expect 2");
    let mut group = (*seen.pod_groups[0]).clone();
    group.metadata.annotations.insert(PodGroupView::EXPECTED_COUNT_ANNOTATION, "2".to_owned());
    seen.pod_groups = vec![Arc::new(group)];
    assert!(step_text(&step(&seen)).starts_with("create [3]"), "{}", step_text(&step(&seen)));
}

#[test]
fn a_gang_that_grows_expects_more_pods() {
    let mut seen = with_objects(gang(Some(2)));
    let mut grown = (*seen.job).clone();
    (grown.spec.parallelism, grown.spec.completions) = (Some(6), Some(6));
    seen.job = Arc::new(grown);
    seen.pods = ["a", "b", "c", "d"].map(|name| bound(name).build()).to_vec();
    assert_eq!(step_text(&step(&seen)), "expect 6");
}

/// A user's gang of two for a Job of which one pod has succeeded and is gone, while another is pending.
fn users_gang() -> JobSnapshot {
    let template = json!([{ "name": "t", "schedulingPolicy": { "gang": { "minCount": 2 } } }]);
    let mut seen = observed(job(json!({ "completions": 2, "parallelism": 2 })), vec![pod("b")], 1);
    let mut job = (*seen.job).clone();
    (job.status.succeeded, job.status.active) = (1, 1);
    seen.job = Arc::new(job);
    seen.workloads = vec![user_workload("mine", template)];
    let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "reason": reason, "message": message });
    seen.pod_groups = vec![user_object(json!({
        "metadata": { "name": "theirs", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": {
            "workloadRef": { "workloadName": "mine", "templateName": "t" },
            "schedulingPolicy": { "gang": { "minCount": 2 } },
        },
        "status": { "conditions": [
            condition("PodGroupInitiallyScheduled", "Scheduled", "2 pods bound"),
            condition("Degraded", "BelowMinCount", "0 of minCount 2 pods bound, 1 waiting"),
        ] },
    }))];
    seen
}

// The replacement waited forever, and the Job did not report it.
#[test]
fn a_job_reports_what_its_gang_lacks_and_the_remedy_for_a_users_group() {
    let group_condition = |seen: &JobSnapshot| {
        let NextStep::WriteStatus(status, _) = step(seen) else { panic!("a status, not {}", step_text(&step(seen))) };
        let found = status.conditions.iter().find(|condition| condition.kind == "PodGroupScheduled").unwrap();
        format!("{} {} {}", found.status, found.reason, found.message)
    };
    let seen = users_gang();
    let lacks = "False BelowMinCount PodGroup theirs: 0 of minCount 2 pods bound, 1 waiting";
    assert_eq!(
        group_condition(&seen),
        format!(
            "{lacks}; some of the Job's pods that succeeded (1) no longer exist, and it can have 1 more at once: set the \
             PodGroup's annotation phalanx.dev/expected-count to the number of pods that it can still have at once"
        )
    );
    let mut annotated = seen.clone();
    let mut group = (*seen.pod_groups[0]).clone();
    group.metadata.annotations.insert(PodGroupView::EXPECTED_COUNT_ANNOTATION, "1".to_owned());
    annotated.pod_groups = vec![Arc::new(group.clone())];
    assert_eq!(group_condition(&annotated), lacks, "the annotation is set");

    let write = step(&annotated);
    apply_status(&mut annotated, write);
    group.status.conditions[1].status = "False".to_owned();
    annotated.pod_groups = vec![Arc::new(group)];
    assert_eq!(group_condition(&annotated), "True Scheduled PodGroup theirs is placed");

    // Without a group the condition is removed. Its numbers stayed on the Job forever.
    let mut gone = seen.clone();
    let write = step(&gone);
    apply_status(&mut gone, write);
    gone.pod_groups.clear();
    let NextStep::WriteStatus(status, _) = step(&gone) else { panic!("a status, not {}", step_text(&step(&gone))) };
    assert!(!status.conditions.iter().any(|condition| condition.kind == "PodGroupScheduled"));

    // The same for a PodGroup that the pod template names.
    let mut named = seen;
    let mut job = (*named.job).clone();
    job.spec.template.scheduling_group = Some("theirs".to_owned());
    named.job = Arc::new(job);
    named.named_group = named.pod_groups.pop();
    assert!(group_condition(&named).starts_with(lacks), "{}", group_condition(&named));
}
