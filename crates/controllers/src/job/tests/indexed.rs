//! Limits per index, and Indexed Jobs that grow and shrink.

use serde_json::json;

use super::*;
use crate::job::pods::PodFactory;

/// An Indexed Job in which each index may fail once.
fn limited(more: Value) -> JobBuilder {
    let mut spec = json!({
        "completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 1,
        "podReplacementPolicy": "Failed",
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job(spec)
}

/// With that many pods active.
fn active(job: JobBuilder, count: i32) -> JobBuilder {
    job.with(|job| job.status.active = count)
}

fn at_index(name: &str, index: i32) -> PodBuilder {
    pod(name).index(index)
}

// Shows: U-TestSyncJobWithJobBackoffLimitPerIndex
#[test]
fn each_index_is_retried_after_its_own_back_off() {
    let two_running =
        || vec![at_index("b", 1).failed_before(0, 0).running(), at_index("c", 2).failed_before(0, 0).running()];
    let with = |failed: PodBuilder| std::iter::once(failed).chain(two_running()).collect::<Vec<_>>();
    let failed = || at_index("a", 0).failed_before(0, 0).failed_at(100);
    let ignore = json!({ "podFailurePolicy": { "rules": [{ "action": "Ignore", "onExitCodes": { "operator": "In", "values": [42] } }] } });
    let fail_index = json!({ "podFailurePolicy": { "rules": [{ "action": "FailIndex", "onExitCodes": { "operator": "In", "values": [42] } }] } });
    let job = || active(limited(json!({})), 2);
    assert_steps(vec![
        ("all are new", limited(json!({})), vec![], 1, "create [0 1 2]"),
        ("the failed pod stays uncounted until its replacement has the count", job(), with(failed()), 103, "wait 7s"),
        ("then it is replaced", job(), with(failed()), 110, "create [0(1)]"),
        (
            "and counted once the replacement exists",
            active(limited(json!({})), 3),
            with(failed()).into_iter().chain([at_index("d", 0).failed_before(1, 0)]).collect(),
            110,
            "status active=3 succeeded=0 failed=0 uncounted=/a",
        ),
        (
            "the back-off doubles",
            active(limited(json!({ "backoffLimitPerIndex": 5 })), 2),
            with(at_index("a", 0).failed_before(2, 0).failed_at(100)),
            101,
            "wait 39s",
        ),
        (
            "ignored failures lengthen it too",
            active(limited(ignore.clone()), 2),
            with(at_index("a", 0).failed_before(1, 1).terminated("main", 42, 100)),
            101,
            "wait 39s",
        ),
        (
            "and are counted separately",
            active(limited(ignore.clone()), 2),
            with(at_index("a", 0).failed_before(1, 1).terminated("main", 42, 100)),
            140,
            "create [0(1+2)]",
        ),
        (
            "the latest failure of the index counts",
            active(limited(json!({ "backoffLimitPerIndex": 5 })), 2),
            with(failed()).into_iter().chain([at_index("d", 0).failed_before(1, 0).failed_at(120)]).collect(),
            140,
            "create [0(2)]",
        ),
        (
            "beyond the limit the index fails",
            job(),
            with(at_index("a", 0).failed_before(1, 0).failed_at(100)),
            101,
            "status active=2 succeeded=0 failed=0 failed-indexes=0 uncounted=/a",
        ),
        (
            "a rule can fail it at once",
            active(limited(fail_index), 2),
            with(at_index("a", 0).failed_before(0, 0).terminated("main", 42, 100)),
            101,
            "status active=2 succeeded=0 failed=0 failed-indexes=0 uncounted=/a",
        ),
        (
            "a failed index is not retried",
            active(limited(json!({})), 2).with(|job| {
                (job.status.failed, job.status.failed_indexes) = (2, Some("0".to_owned()));
            }),
            two_running(),
            500,
            "wait",
        ),
        (
            "a disrupted index is retried at once, without a further failure",
            job(),
            with(failed().disrupted("EvictionByEvictionAPI")),
            101,
            "create [0]",
        ),
        (
            "an index in back-off does not delay the next one",
            limited(json!({ "parallelism": 1 })),
            vec![failed()],
            103,
            "create [1]",
        ),
        (
            "a Job that is being deleted counts the pod at once",
            limited(json!({})).with(|job| job.metadata.deletion_timestamp = Some(at(1))),
            vec![failed()],
            103,
            "status active=0 succeeded=0 failed=0 uncounted=/a",
        ),
    ]);
}

// Shows: U-TestSyncJobWithJobBackoffLimitPerIndex
#[test]
fn a_job_ends_when_all_indexes_are_finished_or_too_many_failed() {
    let counted = |failed_indexes: &str, failed: i32, completed: &str| {
        let (failed_indexes, completed) = (failed_indexes.to_owned(), completed.to_owned());
        move |job: &mut JobView| {
            job.status.failed_indexes = Some(failed_indexes);
            job.status.failed = failed;
            job.status.succeeded = if completed.is_empty() { 0 } else { completed.split(',').count() as i32 };
            job.status.completed_indexes = completed;
        }
    };
    assert_steps(vec![
        (
            "the others continue",
            active(limited(json!({})), 1).with(counted("0", 2, "1")),
            vec![at_index("c", 2).failed_before(0, 0).running()],
            500,
            "wait",
        ),
        (
            "all finished",
            limited(json!({})).with(counted("0", 2, "1,2")),
            vec![],
            500,
            "status active=0 succeeded=2 failed=2 indexes=1,2 failed-indexes=0 FailureTarget+Failed !FailedIndexes",
        ),
        (
            "all failed",
            limited(json!({})).with(counted("0-2", 6, "")),
            vec![],
            500,
            "status active=0 succeeded=0 failed=6 failed-indexes=0-2 FailureTarget+Failed !FailedIndexes",
        ),
        (
            "more than allowed",
            active(limited(json!({ "maxFailedIndexes": 1 })), 1).with(counted("0,1", 4, "")),
            vec![at_index("c", 2).failed_before(0, 0).running()],
            500,
            "status active=1 succeeded=0 failed=4 failed-indexes=0,1 FailureTarget",
        ),
        (
            "as many as allowed",
            active(limited(json!({ "maxFailedIndexes": 2 })), 1).with(counted("0,1", 4, "")),
            vec![at_index("c", 2).failed_before(0, 0).running()],
            500,
            "wait",
        ),
        (
            "the limit of the whole Job comes first",
            active(limited(json!({ "backoffLimit": 1 })), 1).with(counted("0", 2, "1")),
            vec![at_index("c", 2).failed_before(0, 0).running()],
            500,
            "status active=1 succeeded=1 failed=2 indexes=1 failed-indexes=0 FailureTarget",
        ),
        (
            "an index that succeeded cannot fail as well",
            limited(json!({ "completions": 2, "parallelism": 0 })),
            vec![
                at_index("a", 0).failed_before(1, 0).failed_at(1),
                at_index("b", 0).failed_before(1, 0).succeeded_at(1),
            ],
            500,
            "status active=0 succeeded=1 failed=0 indexes=0 uncounted=/a",
        ),
    ]);
}

// The index of a pod that the controller deleted because the Job had failed was listed in `failedIndexes`.
// Shows: U-TestSyncJobWithJobBackoffLimitPerIndex
#[test]
fn pods_deleted_because_the_job_failed_are_counted_but_their_indexes_have_not_failed() {
    let fail_index =
        json!({ "rules": [{ "action": "FailIndex", "onExitCodes": { "operator": "In", "values": [143] } }] });
    let ending = |replaces: &str, more: Value| {
        let spec = json!({ "podReplacementPolicy": replaces, "backoffLimit": 2 });
        let job = limited(spec).condition("FailureTarget", "BackoffLimitExceeded");
        job.with(|job| {
            job.status.failed = 3;
            job.spec.pod_failure_policy = serde_json::from_value(more).unwrap();
        })
    };
    let last_try = || at_index("d", 0).failed_before(1, 0).running();
    let counted = "status active=0 succeeded=0 failed=3 uncounted=/d FailureTarget";
    for replaces in ["TerminatingOrFailed", "Failed"] {
        let job = || ending(replaces, Value::Null);
        assert_steps(vec![
            ("it is deleted", active(job(), 1), vec![last_try()], 50, "delete d"),
            ("while it is terminating", job(), vec![last_try().deleting()], 50, counted),
            ("when it has failed because of that", job(), vec![last_try().deleting().exited("main", 143)], 50, counted),
            (
                "whatever rule its exit code matches",
                ending(replaces, fail_index.clone()),
                vec![last_try().deleting().exited("main", 143)],
                50,
                counted,
            ),
            (
                "then its finalizer is removed",
                job().uncounted(&[], &["d"]),
                vec![last_try().deleting().exited("main", 143)],
                50,
                "untrack d",
            ),
            (
                "an index that failed by itself is listed",
                job(),
                vec![last_try().failed_at(40)],
                50,
                "status active=0 succeeded=0 failed=3 failed-indexes=0 uncounted=/d FailureTarget",
            ),
        ]);
    }
}

#[test]
fn a_pod_has_the_number_of_failures_of_its_index() {
    let job = limited(json!({}));
    let factory = PodFactory::new(&job.0, None).unwrap();
    let annotations = |failures| {
        let pod = factory.pod(PodSlot { index: Some(1), prior_failures: failures });
        let annotations = pod.metadata.annotations.unwrap();
        [FAILURES_KEY, IGNORED_FAILURES_KEY].map(|key| annotations.get(key).cloned().unwrap_or_default())
    };
    assert_eq!(annotations(None), ["", ""]);
    assert_eq!(annotations(Some(IndexFailures::default())), ["0", ""]);
    assert_eq!(annotations(Some(IndexFailures { counted: 2, ignored: 3 })), ["2", "3"]);
}

#[test]
fn an_indexed_job_grows_and_shrinks_with_its_counts() {
    let elastic = |size: i32| job(json!({ "completionMode": "Indexed", "completions": size, "parallelism": size }));
    let pods = |count: i32| (0..count).map(|index| at_index(&format!("p{index}"), index).running()).collect::<Vec<_>>();
    let done = |size: i32, text: &str| {
        let text = text.to_owned();
        elastic(size).with(move |job| {
            job.status.succeeded = 2;
            job.status.completed_indexes = text;
        })
    };
    assert_steps(vec![
        ("up", elastic(4), pods(2), 5, "create [2 3]"),
        ("down: the last ones are deleted, uncounted", elastic(2), pods(4), 5, "delete uncounted p2 p3"),
        ("to zero", elastic(0), pods(2), 5, "delete uncounted p0 p1"),
        (
            "and then it is complete",
            elastic(0),
            vec![],
            5,
            "status active=0 succeeded=0 failed=0 SuccessCriteriaMet+Complete !Completed",
        ),
        (
            "an index beyond the completions no longer counts",
            done(2, "0,3"),
            vec![at_index("p1", 1).running()],
            5,
            "status active=1 succeeded=1 failed=0 indexes=0",
        ),
        (
            "and runs again after a scale-up",
            elastic(4).with(|job| (job.status.succeeded, job.status.completed_indexes) = (1, "0".to_owned())),
            vec![at_index("p1", 1).running()],
            5,
            "create [2 3]",
        ),
        (
            "the end of a pod beyond the completions does not count",
            active(elastic(1), 1),
            vec![at_index("p0", 0).running(), at_index("p3", 3).succeeded_at(4), at_index("p2", 2).failed_at(4)],
            5,
            "untrack p3 p2",
        ),
    ]);
}

#[test]
fn a_batch_of_ended_pods_is_counted_before_new_ones_are_created() {
    let large = || job(json!({ "completionMode": "Indexed", "completions": 3000, "parallelism": 600 }));
    let ended = |count| (0..count).map(|index| at_index(&format!("p{index}"), index).succeeded_at(4));
    let verb = |seen: &JobSnapshot| step_text(&plain_step(seen)).split(' ').next().unwrap_or_default().to_owned();
    assert_eq!(verb(&observed(large(), ended(499).collect(), 5)), "create", "less than a batch does not delay others");
    let mut seen = observed(large(), ended(500).collect(), 5);
    let step = plain_step(&seen);
    apply_status(&mut seen, step);
    assert_eq!(verb(&seen), "untrack");
    seen.pods = ended(500).map(|pod| pod.without_finalizer().build()).collect();
    assert_eq!(verb(&seen), "create");
}
