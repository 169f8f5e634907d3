//! One observation, one step.

use serde_json::json;

use super::*;
use crate::job::pods::{PodFactory, PodSlot};

// A namespace that is being deleted refuses new pods, and the old ones stayed forever: the Job tried to replace them
// instead of counting them.
#[test]
fn ends_are_counted_although_nothing_can_be_created() {
    let job = || job(json!({ "completions": 5, "parallelism": 3 }));
    let mut observed = observed(job(), vec![pod("a").failed_at(1), pod("b").running()], 20);
    assert_eq!(step_text(&plain_step(&observed)), "create 2");
    observed.blocked = true;
    let step = plain_step(&observed);
    assert!(matches!(step, NextStep::WriteStatus(..)), "{}", step_text(&step));
}

// Shows: U-TestControllerSyncJob
#[test]
fn pods_are_created_up_to_parallelism_and_completions() {
    let fixed = || job(json!({ "completions": 5, "parallelism": 3 }));
    let queue = || job(json!({ "parallelism": 3 }));
    let running = |names: &[&str]| names.iter().map(|name| pod(name).running()).collect::<Vec<_>>();
    assert_steps(vec![
        ("none yet", fixed(), vec![], 1, "create 3"),
        ("one exists", fixed(), running(&["a"]), 1, "create 2"),
        ("no more than are still needed", fixed().with(|job| job.status.succeeded = 4), vec![], 1, "create 1"),
        (
            "an end counts before it is recorded",
            fixed().with(|job| job.status.succeeded = 3),
            vec![pod("a").succeeded_at(1)],
            1,
            "create 1",
        ),
        ("a queue is filled", queue(), running(&["a"]), 1, "create 2"),
        (
            "but not after a success",
            queue().with(|job| {
                job.status.succeeded = 1;
                job.status.active = 1
            }),
            running(&["a"]),
            1,
            "wait",
        ),
        ("parallelism 0 creates none", job(json!({ "parallelism": 0 })), vec![], 1, "wait"),
        ("at most 500 at once", job(json!({ "parallelism": 900 })), vec![], 1, "create 500"),
        (
            "too many",
            fixed().with(|job| job.spec.parallelism = Some(1)),
            vec![pod("a").running(), pod("b"), pod("c")],
            1,
            "delete uncounted c b",
        ),
        (
            "a deleting Job creates none",
            fixed().with(|job| job.metadata.deletion_timestamp = Some(at(1))),
            vec![],
            1,
            "wait",
        ),
        (
            "a Job of another controller is ignored",
            fixed().with(|job| job.spec.managed_by = Some("kueue".to_owned())),
            vec![],
            1,
            "wait",
        ),
        (
            "unknown mode",
            fixed().with(|job| job.spec.completion_mode = Some("Odd".to_owned())),
            vec![],
            1,
            "report UnknownCompletionMode",
        ),
    ]);
}

// Shows: U-TestControllerSyncJob
#[test]
fn a_pod_being_deleted_is_replaced_by_policy() {
    let fixed = |policy: &str| job(json!({ "completions": 2, "parallelism": 2, "podReplacementPolicy": policy }));
    let pods = || vec![pod("a").running(), pod("b").running().deleting()];
    assert_steps(vec![
        ("at once", fixed("TerminatingOrFailed"), pods(), 1, "create 1"),
        ("once it has ended", fixed("Failed"), pods(), 1, "status active=1 succeeded=0 failed=0"),
    ]);
}

// Shows: U-TestControllerSyncJob
#[test]
fn each_index_succeeds_once() {
    let indexed = || job(json!({ "completionMode": "Indexed", "completions": 4, "parallelism": 3 }));
    assert_steps(vec![
        ("the first ones", indexed(), vec![], 1, "create [0 1 2]"),
        ("those without a pod", indexed(), vec![pod("b").index(1).running()], 1, "create [0 2]"),
        (
            "not those that succeeded",
            indexed().with(|job| job.status.completed_indexes = "0,2".to_owned()),
            vec![],
            1,
            "create [1 3]",
        ),
        (
            "a second pod of one index is deleted",
            indexed(),
            vec![pod("a").index(1).running(), pod("b").index(1)],
            1,
            "delete uncounted b",
        ),
        ("so does one without a valid index", indexed(), vec![pod("a").index(9), pod("b")], 1, "delete uncounted a b"),
        (
            "success is recorded as an index",
            indexed().with(|job| job.spec.parallelism = Some(0)),
            vec![pod("a").index(2).succeeded_at(1)],
            1,
            "status active=0 succeeded=1 failed=0 indexes=2",
        ),
        (
            "then the finalizer is removed",
            indexed().with(|job| {
                job.spec.parallelism = Some(0);
                (job.status.succeeded, job.status.completed_indexes) = (1, "2".to_owned());
            }),
            vec![pod("a").index(2).succeeded_at(1)],
            1,
            "untrack a",
        ),
    ]);
}

// Shows: U-TestTrackJobStatusAndRemoveFinalizers
#[test]
fn an_end_is_recorded_then_the_finalizer_is_removed_then_the_end_is_counted() {
    let one = || job(json!({ "completions": 2, "parallelism": 0 }));
    assert_steps(vec![
        (
            "recorded",
            one(),
            vec![pod("a").succeeded_at(1), pod("b").failed_at(1)],
            1,
            "status active=0 succeeded=0 failed=0 uncounted=a/b",
        ),
        (
            "finalizer removed",
            one().uncounted(&["a"], &["b"]),
            vec![pod("a").succeeded_at(1), pod("b").failed_at(1)],
            1,
            "untrack a b",
        ),
        (
            "counted",
            one().uncounted(&["a"], &["b"]),
            vec![pod("a").succeeded_at(1).without_finalizer(), pod("b").failed_at(1).without_finalizer()],
            1,
            "status active=0 succeeded=1 failed=1",
        ),
        (
            "counted also when the pod is gone",
            one().uncounted(&["a"], &["b"]),
            vec![],
            1,
            "status active=0 succeeded=1 failed=1",
        ),
        (
            "not counted again",
            one().with(|job| job.status.succeeded = 1),
            vec![pod("a").succeeded_at(1).without_finalizer()],
            1,
            "wait",
        ),
    ]);
}

// Shows: U-TestTrackJobStatusAndRemoveFinalizers
#[test]
fn a_job_completes_when_enough_succeeded_and_all_are_counted() {
    let two = || job(json!({ "completions": 2, "parallelism": 2 }));
    let ends = || vec![pod("a").succeeded_at(1), pod("b").succeeded_at(2)];
    assert_steps(vec![
        (
            "the outcome is written before finalizers are removed",
            two(),
            ends(),
            3,
            "status active=0 succeeded=0 failed=0 uncounted=a+b/ SuccessCriteriaMet",
        ),
        (
            "finalizer removed",
            two().condition("SuccessCriteriaMet", "CompletionsReached").uncounted(&["a", "b"], &[]),
            ends(),
            3,
            "untrack a b",
        ),
        (
            "complete",
            two().condition("SuccessCriteriaMet", "CompletionsReached").uncounted(&["a", "b"], &[]),
            vec![],
            3,
            "status active=0 succeeded=2 failed=0 SuccessCriteriaMet+Complete !Completed",
        ),
        (
            "nothing to do at all",
            job(json!({ "completions": 0 })),
            vec![],
            3,
            "status active=0 succeeded=0 failed=0 SuccessCriteriaMet+Complete !Completed",
        ),
        (
            "a queue with an active pod continues",
            job(json!({ "parallelism": 2 })).with(|job| {
                job.status.succeeded = 1;
                job.status.active = 1
            }),
            vec![pod("b").running()],
            3,
            "wait",
        ),
        ("a finished Job removes remaining finalizers", two().condition("Complete", ""), ends(), 3, "untrack a b"),
        ("and waits", two().condition("Complete", ""), vec![], 3, "wait"),
    ]);
}

// Shows: U-TestControllerSyncJob
#[test]
fn too_many_failures_or_a_deadline_fail_the_job() {
    let limited = || job(json!({ "completions": 3, "parallelism": 3, "backoffLimit": 1 }));
    let failing = || limited().condition("FailureTarget", "BackoffLimitExceeded");
    let deadline = || job(json!({ "parallelism": 1, "activeDeadlineSeconds": 30 })).with(|job| job.status.active = 1);
    assert_steps(vec![
        (
            "the outcome is written before pods are deleted",
            limited().with(|job| job.status.failed = 1),
            vec![pod("a").failed_at(1), pod("b").running()],
            50,
            "status active=1 succeeded=0 failed=1 uncounted=/a FailureTarget",
        ),
        (
            "the others are deleted",
            failing().uncounted(&[], &["a"]),
            vec![pod("a").failed_at(1), pod("b").running()],
            50,
            "delete b",
        ),
        (
            "and count as failed",
            failing().uncounted(&[], &["a"]),
            vec![pod("a").failed_at(1), pod("b").running().deleting()],
            50,
            "status active=0 succeeded=0 failed=0 uncounted=/a+b FailureTarget",
        ),
        (
            "no end while a pod is terminating",
            failing().with(|job| (job.status.failed, job.status.terminating) = (2, Some(1))),
            vec![pod("b").running().deleting().without_finalizer()],
            50,
            "wait",
        ),
        (
            "failed",
            failing().with(|job| job.status.failed = 2),
            vec![],
            50,
            "status active=0 succeeded=0 failed=2 FailureTarget+Failed !BackoffLimitExceeded",
        ),
        ("before the deadline", deadline(), vec![pod("a").running()], 10, "wait 20s"),
        (
            "at the deadline",
            deadline(),
            vec![pod("a").running()],
            30,
            "status active=1 succeeded=0 failed=0 FailureTarget",
        ),
    ]);
}

// Shows: U-TestJobBackoffForOnFailure
#[test]
fn restarts_in_place_count_toward_the_limit() {
    let on_failure = json!({ "spec": { "restartPolicy": "OnFailure", "containers": [] } });
    let limited = |limit: i32| job(json!({ "parallelism": 1, "backoffLimit": limit, "template": on_failure }));
    let restarts = |times: i32| ContainerStatusView { restart_count: times, ..Default::default() };
    let restarted = |times: i32| {
        let mut builder = pod("a").running();
        builder.0.status.container_statuses = vec![restarts(times)];
        vec![builder]
    };
    let prepared = |init: i32, main: i32| {
        let mut builder = pod("a");
        builder.0.status.init_container_statuses = vec![restarts(init)];
        builder.0.status.container_statuses = vec![restarts(main)];
        vec![builder]
    };
    let two = |one: i32, other: i32| {
        let mut pods = [restarted(one), restarted(other)].into_iter().flatten().collect::<Vec<_>>();
        (pods[1].0.metadata.name, pods[1].0.metadata.uid) = ("b".to_owned(), "b".to_owned());
        pods
    };
    let pair = || {
        job(json!({ "parallelism": 2, "backoffLimit": 3, "template": on_failure })).with(|job| job.status.active = 2)
    };
    let failed = "status active=1 succeeded=0 failed=0 FailureTarget";
    let continues = "status active=1 succeeded=0 failed=0";
    assert_steps(vec![
        ("below the limit", limited(2), restarted(1), 1, continues),
        ("at the limit", limited(2), restarted(2), 1, failed),
        ("none allowed, none happened", limited(0), restarted(0), 1, continues),
        ("none allowed, one happened", limited(0), restarted(1), 1, failed),
        ("init containers count, also while the pod is pending", limited(2), prepared(1, 1), 1, failed),
        ("of all pods together", pair(), two(1, 2), 1, "status active=2 succeeded=0 failed=0 FailureTarget"),
        ("too few of all together", pair(), two(1, 1), 1, "wait"),
        (
            "restarts of ended pods do not count",
            job(json!({ "parallelism": 0, "completions": 2, "backoffLimit": 1, "template": on_failure })),
            restarted(3).into_iter().map(|pod| pod.succeeded_at(1)).collect(),
            1,
            "status active=0 succeeded=0 failed=0 uncounted=a/",
        ),
        (
            "without restarts in place they do not count",
            job(json!({ "parallelism": 1, "backoffLimit": 1 })).with(|job| job.status.active = 1),
            restarted(3),
            1,
            "wait",
        ),
    ]);
}

#[test]
fn failed_pods_are_replaced_after_a_back_off() {
    let two =
        || job(json!({ "completions": 2, "parallelism": 2 })).uncounted(&[], &[]).with(|job| job.status.failed = 1);
    let failed = || vec![pod("a").failed_at(100).without_finalizer()];
    assert_steps(vec![
        ("at first it waits", two(), failed(), 103, "wait 7s"),
        ("then it creates", two(), failed(), 110, "create 2"),
    ]);
}

// Shows: U-TestControllerSyncJob
#[test]
fn suspend_deletes_the_pods_and_resume_starts_again() {
    let suspended = || job(json!({ "completions": 2, "parallelism": 2, "suspend": true }));
    assert_steps(vec![
        (
            "pods are deleted first, uncounted",
            suspended(),
            vec![pod("a").running(), pod("b")],
            5,
            "delete uncounted b a",
        ),
        (
            "then the condition is set",
            suspended(),
            vec![],
            5,
            "status active=0 succeeded=0 failed=0 Suspended !Suspended",
        ),
        (
            "once",
            suspended().condition("Suspended", "JobSuspended").with(|job| {
                job.status.start_time = None;
                job.status.conditions[0].message = "Job suspended".to_owned();
            }),
            vec![],
            5,
            "wait",
        ),
        (
            "deleted pods do not count",
            suspended().condition("Suspended", "JobSuspended").with(|job| {
                (job.status.start_time, job.status.terminating) = (None, Some(1));
                job.status.conditions[0].message = "Job suspended".to_owned();
            }),
            vec![pod("a").running().deleting().without_finalizer()],
            5,
            "wait",
        ),
        (
            "the deadline does not run",
            job(json!({ "suspend": true, "activeDeadlineSeconds": 1 })),
            vec![],
            9,
            "status active=0 succeeded=0 failed=0 Suspended !Suspended",
        ),
    ]);
    let resumed = job(json!({ "completions": 2, "parallelism": 2 })).condition("Suspended", "JobSuspended");
    let pods = || vec![pod("a"), pod("b")];
    let step = plain_step(&observed(resumed.with(|job| job.status.start_time = None), pods(), 9));
    assert_eq!(step_text(&step), "status active=2 succeeded=0 failed=0 !Resumed");
    let NextStep::WriteStatus(status, _) = step else { panic!("a status") };
    assert_eq!(status.start_time, Some(at(9)));
}

// Shows: U-TestControllerSyncJob
#[test]
fn a_suspended_job_without_work_completes_without_ever_starting() {
    let empty = job(json!({ "completions": 0, "suspend": true })).with(|job| job.status.start_time = None);
    let step = plain_step(&observed(empty, vec![], 9));
    assert_eq!(step_text(&step), "status active=0 succeeded=0 failed=0 SuccessCriteriaMet+Complete !Completed");
    let NextStep::WriteStatus(status, _) = step else { panic!("a status") };
    assert_eq!((status.start_time, status.completion_time), (None, Some(at(9))));
}

// Shows: U-TestTrackJobStatusAndRemoveFinalizers
#[test]
fn ends_are_recorded_in_batches_of_500_and_the_job_ends_after_the_last() {
    let many = |count: usize| (0..count).map(|n| pod(&format!("p{n:04}")).succeeded_at(1)).collect::<Vec<_>>();
    let job = || job(json!({ "completions": 600, "parallelism": 600 }));
    let NextStep::WriteStatus(status, _) = plain_step(&observed(job(), many(600), 2)) else { panic!("a status") };
    let uncounted = status.uncounted_terminated_pods.clone().unwrap();
    assert_eq!((uncounted.succeeded.len(), status.succeeded), (500, 0));
    assert!(Condition::is_true(&status.conditions, "SuccessCriteriaMet"));
    let recorded = job().with(|job| job.status = *status);
    let step = plain_step(&observed(recorded, many(600), 2));
    let NextStep::RemoveFinalizers(pods) = step else { panic!("{}", step_text(&step)) };
    assert_eq!(pods.len(), 500);
}

#[test]
fn more_successes_than_completions_cause_a_warning() {
    let done = |succeeded: i32| {
        let job =
            job(json!({ "completions": 2, "parallelism": 2 })).condition("SuccessCriteriaMet", "CompletionsReached");
        job.with(|job| job.status.succeeded = succeeded)
    };
    let end = "SuccessCriteriaMet+Complete";
    assert_steps(vec![
        ("as many", done(2), vec![], 3, &format!("status active=0 succeeded=2 failed=0 {end} !Completed")),
        (
            "more",
            done(3),
            vec![],
            3,
            &format!("status active=0 succeeded=3 failed=0 {end} !TooManySucceededPods !Completed"),
        ),
    ]);
}

#[test]
fn pods_are_adopted_and_released_before_anything_is_counted() {
    let mut seen = observed(job(json!({ "completions": 2, "parallelism": 2 })), vec![pod("a").failed_at(1)], 5);
    seen.to_adopt = vec![pod("orphan").build()];
    assert_eq!(step_text(&plain_step(&seen)), "adopt orphan");
    seen.to_release = vec![pod("stray").build()];
    assert_eq!(step_text(&plain_step(&seen)), "release stray");
}

#[test]
fn a_changed_deadline_counts_from_the_start() {
    let running = |deadline: i64| {
        let job = job(json!({ "parallelism": 1, "activeDeadlineSeconds": deadline }));
        job.with(|job| job.status.active = 1)
    };
    let pods = || vec![pod("a").running()];
    assert_steps(vec![
        ("as it was", running(100), pods(), 40, "wait 60s"),
        ("longer", running(200), pods(), 40, "wait 160s"),
        ("shorter than it has run", running(30), pods(), 40, "status active=1 succeeded=0 failed=0 FailureTarget"),
        // The API accepts both, and both once ended the process.
        ("the largest deadline", running(i64::MAX), pods(), 40, &format!("wait {}s", i64::MAX - 40)),
        ("the clock was set back", running(i64::MAX), pods(), -40, &format!("wait {}s", i64::MAX)),
    ]);
}

#[test]
fn a_deleting_job_counts_ended_pods_and_removes_all_finalizers() {
    let deleting = || {
        job(json!({ "completions": 3, "parallelism": 3 })).with(|job| {
            job.metadata.deletion_timestamp = Some(at(1));
            job.status.active = 1;
        })
    };
    let pods = || vec![pod("a").running(), pod("b").succeeded_at(1)];
    assert_steps(vec![
        ("ends are recorded first", deleting(), pods(), 2, "status active=1 succeeded=0 failed=0 uncounted=b/"),
        ("then all finalizers are removed", deleting().uncounted(&["b"], &[]), pods(), 2, "untrack a b"),
    ]);
}

#[test]
fn an_indexed_pod_has_its_index_in_metadata_hostname_and_environment() {
    let indexed = job(json!({ "completionMode": "Indexed", "completions": 4 }));
    let factory = PodFactory::new(&indexed.0, None).unwrap();
    let pod = serde_json::to_value(factory.pod(PodSlot { index: Some(3), prior_failures: None })).unwrap();
    assert_eq!(pod["metadata"]["generateName"], "train-3-");
    assert_eq!(pod["metadata"]["labels"][INDEX_KEY], "3");
    assert_eq!(pod["metadata"]["annotations"][INDEX_KEY], "3");
    assert_eq!(pod["metadata"]["finalizers"], json!([TRACKING_FINALIZER]));
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "job-uid");
    assert_eq!(pod["spec"]["hostname"], "train-3");
    let variable = &pod["spec"]["containers"][0]["env"][0];
    assert_eq!(variable["name"], "JOB_COMPLETION_INDEX");
    assert_eq!(variable["valueFrom"]["fieldRef"]["fieldPath"], format!("metadata.labels['{INDEX_KEY}']"));
    assert_eq!(factory.pod(PodSlot::default()).metadata.generate_name.as_deref(), Some("train-"));
}

#[test]
fn a_generated_name_keeps_its_index_however_long_the_job_name_is() {
    let long =
        job(json!({ "completionMode": "Indexed", "completions": 4 })).with(|job| job.metadata.name = "j".repeat(60));
    let name = PodFactory::new(&long.0, None)
        .unwrap()
        .pod(PodSlot { index: Some(12), prior_failures: None })
        .metadata
        .generate_name
        .unwrap();
    assert_eq!(name, format!("{}-12-", "j".repeat(54)));
}
