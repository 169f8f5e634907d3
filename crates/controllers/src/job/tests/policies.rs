//! Rules of a Job about failures and successes, and disrupted pods.

use serde_json::json;

use super::*;

/// A Job of two pods at a time with these failure rules, which may fail once.
fn with_failure_rules(rules: Value) -> JobBuilder {
    let spec = json!({
        "completions": 4, "parallelism": 2, "backoffLimit": 1, "podReplacementPolicy": "Failed",
        "podFailurePolicy": { "rules": rules },
    });
    job(spec)
}

fn on_code(action: &str, code: i32) -> Value {
    json!({ "action": action, "onExitCodes": { "operator": "In", "values": [code] } })
}

fn on_disruption(action: &str) -> Value {
    json!({ "action": action, "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] })
}

// Shows: U-TestSyncJobWithJobPodFailurePolicy
#[test]
fn a_rule_can_fail_the_job_at_once() {
    let fails = || with_failure_rules(json!([on_code("FailJob", 42)]));
    let target = || fails().condition("FailureTarget", "PodFailurePolicy");
    let failed = || pod("a").exited("main", 42);
    assert_steps(vec![
        (
            "the outcome is written before pods are deleted or finalizers removed",
            fails(),
            vec![failed(), pod("b").running()],
            50,
            "status active=1 succeeded=0 failed=0 uncounted=/a FailureTarget",
        ),
        ("another code counts as usual", fails(), vec![pod("a").exited("main", 1), pod("b").running()], 50, "create 1"),
        (
            "the outcome survives the pod and the controller",
            target().with(|job| job.status.failed = 1),
            vec![pod("b").running()],
            50,
            "delete b",
        ),
        (
            "deleted pods count as failed",
            target().with(|job| job.status.failed = 1),
            vec![pod("b").running().deleting()],
            50,
            "status active=0 succeeded=0 failed=1 uncounted=/b FailureTarget",
        ),
        (
            "failed when all are counted",
            target().with(|job| job.status.failed = 2),
            vec![],
            50,
            "status active=0 succeeded=0 failed=2 FailureTarget+Failed !PodFailurePolicy",
        ),
        (
            "a pod without the finalizer does not count",
            fails().with(|job| job.status.active = 2),
            vec![failed().without_finalizer(), pod("b").running(), pod("c").running()],
            50,
            "wait",
        ),
        (
            "a pod that is only being deleted has no exit code yet",
            fails().with(|job| (job.status.active, job.status.terminating) = (1, Some(1))),
            vec![failed().running().deleting(), pod("b").running()],
            50,
            "wait",
        ),
    ]);
    let step = plain_step(&observed(fails(), vec![failed()], 50));
    let NextStep::WriteStatus(status, _) = step else { panic!("a status") };
    let condition = &status.conditions[0];
    let want = "Container main for pod ns/a failed with exit code 42 matching FailJob rule at index 0";
    assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("PodFailurePolicy", want));
}

// Shows: U-TestSyncJobWithJobPodFailurePolicy
#[test]
fn a_rule_can_make_a_failure_not_count() {
    let ignores = || with_failure_rules(json!([on_code("Ignore", 42), on_disruption("Ignore")]));
    let pods = |ended: PodBuilder| vec![ended, pod("b").running(), pod("c").running()];
    let ended = || pod("a").exited("main", 42);
    let running = |job: JobBuilder| job.with(|job| job.status.active = 2);
    assert_steps(vec![
        ("the finalizer is removed without a record", running(ignores()), pods(ended()), 50, "untrack a"),
        (
            "by a condition too",
            running(ignores()),
            pods(pod("a").exited("main", 1).condition("DisruptionTarget", "True")),
            50,
            "untrack a",
        ),
        ("and nothing else", running(ignores()), pods(ended().without_finalizer()), 50, "wait"),
        (
            "however many there are",
            running(ignores()),
            vec![
                ended(),
                pod("d").exited("main", 42),
                pod("e").exited("main", 42),
                pod("b").running(),
                pod("c").running(),
            ],
            50,
            "untrack a d e",
        ),
        (
            "its replacement has a back-off all the same",
            ignores().with(|job| job.status.active = 1),
            vec![ended().without_finalizer(), pod("b").running()],
            5,
            "wait 6s",
        ),
        (
            "a Job that fails for another reason does not count it either",
            ignores().condition("FailureTarget", "DeadlineExceeded"),
            vec![ended()],
            50,
            "untrack a",
        ),
        (
            "the rule Count",
            running(with_failure_rules(json!([on_code("Count", 42), on_code("Ignore", 42)]))),
            pods(ended()),
            50,
            "status active=2 succeeded=0 failed=0 uncounted=/a",
        ),
        (
            "no rule applies",
            running(ignores()),
            pods(pod("a").exited("main", 1)),
            50,
            "status active=2 succeeded=0 failed=0 uncounted=/a",
        ),
    ]);
}

#[test]
fn disrupted_pods_count_toward_no_limit_unless_the_setting_is_on() {
    let plain =
        || job(json!({ "completions": 2, "parallelism": 2, "backoffLimit": 0 })).with(|job| job.status.active = 2);
    let disrupted = |name: &str| pod(name).exited("main", 137).disrupted("EvictionByEvictionAPI");
    let pods = || vec![disrupted("a"), pod("b").running(), pod("c").running()];
    let counting = Config { count_disruptions: true, ..Config::default() };
    let seen = observed(plain(), pods(), 50);
    assert_eq!(step_text(&plain_step(&seen)), "untrack a");
    let counted = "status active=2 succeeded=0 failed=0 uncounted=/a FailureTarget";
    assert_eq!(step_text(&plain_step_with(&seen, &counting)), counted);
    assert_steps(vec![
        ("it is replaced at once", plain(), vec![disrupted("a"), pod("b").running()], 2, "create 1"),
        (
            "also while it is being deleted",
            plain(),
            vec![pod("a").running().deleting().disrupted("PreemptionByScheduler"), pod("b").running()],
            2,
            "create 1",
        ),
        (
            "a rule of the Job has precedence over the setting",
            with_failure_rules(json!([on_disruption("FailJob")])).with(|job| job.status.active = 2),
            pods(),
            50,
            "status active=2 succeeded=0 failed=0 uncounted=/a FailureTarget",
        ),
        (
            "a pod that is deleted without a condition has failed",
            plain(),
            vec![pod("a").running().deleting(), pod("b").running(), pod("c").running()],
            50,
            "status active=2 succeeded=0 failed=0 uncounted=/a FailureTarget",
        ),
    ]);
}

// A pod that exhausted its node's memory was evicted by the kubelet and recreated forever, whatever the backoffLimit.
#[test]
fn pods_that_the_kubelet_evicts_count_as_failed() {
    let counted = "status active=2 succeeded=0 failed=0 uncounted=/a FailureTarget";
    for (reason, want) in [
        ("PreemptionByScheduler", "untrack a"),
        ("ReleasedByScheduler", "untrack a"),
        ("EvictionByEvictionAPI", "untrack a"),
        ("DeletionByPodGC", "untrack a"),
        ("DeletionByTaintManager", "untrack a"),
        ("TerminationByKubelet", counted),
        ("SomethingOfALaterVersion", counted),
        ("", counted),
    ] {
        let job = job(json!({ "completions": 2, "parallelism": 2, "backoffLimit": 0 }));
        let pods = vec![pod("a").exited("main", 137).disrupted(reason), pod("b").running(), pod("c").running()];
        let seen = observed(job.with(|job| job.status.active = 2), pods, 50);
        assert_eq!(step_text(&plain_step(&seen)), want, "{reason}");
    }
}

// Shows: U-TestSyncJobWithJobSuccessPolicy
#[test]
fn a_success_policy_ends_the_job_before_all_indexes_have_succeeded() {
    let leader = |more: Value| {
        let mut spec = json!({
            "completionMode": "Indexed", "completions": 4, "parallelism": 4,
            "successPolicy": { "rules": [{ "succeededIndexes": "0,1", "succeededCount": 1 }] },
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job(spec)
    };
    let plain = || leader(json!({}));
    let met = || plain().condition("SuccessCriteriaMet", "SuccessPolicy");
    let others = || [1, 2, 3].map(|index| pod(&format!("p{index}")).index(index).running());
    let with_first = |first: PodBuilder| std::iter::once(first.index(0)).chain(others()).collect::<Vec<_>>();
    assert_steps(vec![
        (
            "the outcome is written before pods are deleted",
            plain(),
            with_first(pod("p0").succeeded_at(1)),
            5,
            "status active=3 succeeded=1 failed=0 indexes=0 SuccessCriteriaMet",
        ),
        (
            "not met by an index that is not listed",
            plain(),
            vec![
                pod("p3").index(3).succeeded_at(1),
                pod("p0").index(0).running(),
                pod("p1").index(1).running(),
                pod("p2").index(2).running(),
            ],
            5,
            "status active=3 succeeded=1 failed=0 indexes=3",
        ),
        (
            "the others are deleted",
            met().with(|job| (job.status.succeeded, job.status.completed_indexes) = (1, "0".to_owned())),
            others().into(),
            5,
            "delete p1 p2 p3",
        ),
        (
            "it completes when they are gone, with the indexes that succeeded",
            met().with(|job| (job.status.succeeded, job.status.completed_indexes) = (1, "0".to_owned())),
            vec![],
            5,
            "status active=0 succeeded=1 failed=0 indexes=0 SuccessCriteriaMet+Complete !Completed",
        ),
        (
            "no end while one is terminating",
            met().with(|job| {
                (job.status.succeeded, job.status.completed_indexes) = (1, "0".to_owned());
                job.status.terminating = Some(1);
            }),
            vec![pod("p1").index(1).running().deleting().without_finalizer()],
            5,
            "wait",
        ),
        (
            "too many failures come first",
            leader(json!({ "backoffLimit": 0 })),
            vec![pod("p0").index(0).succeeded_at(1), pod("p2").index(2).failed_at(1)],
            5,
            "status active=0 succeeded=1 failed=0 indexes=0 uncounted=/p2 FailureTarget",
        ),
        (
            "so do failed indexes",
            leader(json!({ "backoffLimitPerIndex": 0, "maxFailedIndexes": 0 })),
            vec![pod("p0").index(0).succeeded_at(1), pod("p2").index(2).failed_at(1)],
            5,
            "status active=0 succeeded=1 failed=0 indexes=0 failed-indexes=2 uncounted=/p2 FailureTarget",
        ),
        (
            "once met it stays met",
            met().with(|job| (job.status.succeeded, job.status.completed_indexes) = (1, "0".to_owned())),
            vec![pod("p2").index(2).failed_at(1)],
            5,
            "status active=0 succeeded=1 failed=0 indexes=0 uncounted=/p2 SuccessCriteriaMet",
        ),
    ]);
    let step = plain_step(&observed(plain(), with_first(pod("p0").succeeded_at(1)), 5));
    let NextStep::WriteStatus(status, _) = step else { panic!("a status") };
    let condition = (status.conditions[0].reason.as_str(), status.conditions[0].message.as_str());
    assert_eq!(condition, ("SuccessPolicy", "Matched rules at index 0"));
}

// Pods that were deleted because the success policy was met were counted in `status.failed`.
// Shows: U-TestSyncJobWithJobSuccessPolicy
#[test]
fn pods_deleted_because_the_job_succeeded_are_not_counted() {
    let met = |replaces: &str| {
        let spec = json!({
            "completionMode": "Indexed", "completions": 3, "parallelism": 3, "podReplacementPolicy": replaces,
            "successPolicy": { "rules": [{ "succeededIndexes": "0" }] },
        });
        job(spec).condition("SuccessCriteriaMet", "SuccessPolicy").with(|job| {
            (job.status.succeeded, job.status.completed_indexes) = (1, "0".to_owned());
            job.status.terminating = Some(1);
        })
    };
    let still = |job: JobBuilder| job.with(|job| job.status.terminating = Some(0));
    let stopped = || pod("p1").index(1).running().deleting();
    for replaces in ["TerminatingOrFailed", "Failed"] {
        assert_steps(vec![
            ("while it is terminating", met(replaces), vec![stopped()], 5, "untrack p1"),
            (
                "when it has failed because of that",
                still(met(replaces)),
                vec![stopped().exited("main", 143)],
                5,
                "untrack p1",
            ),
            (
                "its end is a success if it has one",
                still(met(replaces)),
                vec![stopped().succeeded_at(4)],
                5,
                "status active=0 succeeded=2 failed=0 indexes=0,1 SuccessCriteriaMet",
            ),
            (
                "a deletion that was recorded before is counted",
                met(replaces).uncounted(&[], &["p1"]),
                vec![stopped()],
                5,
                "untrack p1",
            ),
            (
                "a failure by itself is counted",
                still(met(replaces)),
                vec![pod("p1").index(1).failed_at(4)],
                5,
                "status active=0 succeeded=1 failed=0 indexes=0 uncounted=/p1 SuccessCriteriaMet",
            ),
        ]);
    }
}
