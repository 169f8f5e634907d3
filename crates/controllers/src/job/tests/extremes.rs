//! The largest and smallest numbers. A user can write them into a spec or a status, and an overflow would end the process
//! (release builds check too).

use super::*;
use crate::job::job_params::JobParams;
use crate::job::status::tally::Tally;

const EXTREMES: [i32; 5] = [i32::MIN, -1, 0, 1, i32::MAX];

fn restarted(name: &str, times: i32) -> PodBuilder {
    let restarts = || ContainerStatusView { restart_count: times, ..ContainerStatusView::default() };
    let mut pod = pod(name).running();
    pod.0.status.container_statuses = vec![restarts(), restarts()];
    pod.0.status.init_container_statuses = vec![restarts(), restarts()];
    pod
}

#[test]
fn restart_counts_do_not_overflow() {
    let template = json!({ "spec": { "restartPolicy": "OnFailure", "containers": [] } });
    let failed = "status active=2 succeeded=0 failed=0 FailureTarget";
    let pods = || vec![restarted("a", i32::MAX), restarted("b", i32::MAX)];
    let with_limit = |limit: i32| job(json!({ "parallelism": 2, "backoffLimit": limit, "template": template }));
    assert_steps(vec![
        ("they reach the limit", with_limit(6), pods(), 1, failed),
        ("and any limit", with_limit(i32::MAX), pods(), 1, failed),
        ("also of surplus pods", with_limit(i32::MAX).with(|job| job.spec.parallelism = Some(0)), pods(), 1, failed),
        (
            "without restarts in place they do not count",
            job(json!({ "parallelism": 1 })),
            pods(),
            1,
            "delete uncounted b",
        ),
    ]);
}

#[test]
fn counts_saturate() {
    let full = || job(json!({})).with(|job| (job.status.succeeded, job.status.failed) = (i32::MAX, i32::MAX));
    let full = full().uncounted(&["a"], &["b"]);
    let (params, pods) = (JobParams::of(&full.0, &Config::default()).unwrap(), [pod("c").failed_at(1).build()]);
    let tally = Tally::of(&full.0, &params, &pods);
    assert_eq!((tally.succeeded, tally.failed), (i32::MAX, i32::MAX));
}

#[test]
fn any_numbers_lead_to_a_step() {
    let policy = json!({ "rules": [{ "succeededIndexes": "0-2147483646", "succeededCount": i32::MAX }] });
    for (one, other) in EXTREMES.into_iter().flat_map(|one| EXTREMES.map(|other| (one, other))) {
        for mode in ["NonIndexed", "Indexed"] {
            let spec = json!({
                "completionMode": mode, "completions": one, "parallelism": other, "backoffLimit": other,
                "backoffLimitPerIndex": one, "maxFailedIndexes": other, "successPolicy": policy,
                "activeDeadlineSeconds": i64::MAX, "ttlSecondsAfterFinished": one,
            });
            let extreme = || {
                job(spec.clone()).uncounted(&["a", "gone"], &["b", "lost"]).with(|job| {
                    let status = &mut job.status;
                    (status.succeeded, status.failed, status.active) = (other, other, other);
                    (status.ready, status.terminating) = (Some(other), Some(one));
                    status.completed_indexes = "0-2147483646,5,7-2147483647,-3".to_owned();
                    status.failed_indexes = Some("0-2147483647".to_owned());
                })
            };
            let pods = || {
                vec![
                    pod("a").index(0).succeeded_at(1),
                    pod("b").index(1).failed_before(i32::MAX, i32::MAX).failed_at(2),
                    pod("c").index(i32::MAX - 1).failed_at(i64::from(i32::MAX)),
                    restarted("d", one).index(2).deleted_at(9, i32::MIN),
                    restarted("e", other).index(3),
                ]
            };
            for second in [-62_135_596_800, 0, 253_402_207_200] {
                _ = plain_step(&observed(extreme(), pods(), second));
                _ = plain_step(&observed(extreme().with(|job| job.status.completed_indexes.clear()), vec![], second));
            }
        }
    }
}
