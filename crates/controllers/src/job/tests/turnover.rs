//! A Job whose pods end between any two steps: they lose their finalizer and are counted before its end.

use std::collections::BTreeMap;

use super::*;
use crate::job::job_params::{has_tracking_finalizer, is_active, is_finished};

/// Statistics of a Job of which some pods end after each step of the controller.
#[derive(Debug, Default)]
struct TurnoverStats {
    status_writes: usize,
    max_with_finalizer: usize,
    max_lag: i32,
}

fn run_turnover(mut job: JobView, ends_per_step: usize) -> TurnoverStats {
    let mut pods: BTreeMap<String, Arc<PodView>> = BTreeMap::new();
    let (mut stats, mut created, mut succeeded) = (TurnoverStats::default(), 0, 0);
    while !is_finished(&job) {
        let seen =
            JobSnapshot { pods: pods.values().cloned().collect(), ..observed(JobBuilder(job.clone()), vec![], 1) };
        match plain_step(&seen) {
            NextStep::CreatePods(slots, _) => slots.iter().for_each(|slot| {
                created += 1;
                let new = pod(&format!("p{created:05}")).running();
                let new = slot.index.into_iter().fold(new, PodBuilder::index);
                pods.insert(new.0.metadata.name.clone(), new.build());
            }),
            // Pods without the finalizer are counted pods from then on.
            NextStep::RemoveFinalizers(counted) => counted.iter().for_each(|pod| _ = pods.remove(&pod.metadata.name)),
            NextStep::WriteStatus(status, _) => {
                job.status = *status;
                stats.status_writes += 1;
            }
            other => panic!("{}: {stats:?}", step_text(&other)),
        }
        let active = pods.values().filter(|pod| is_active(pod)).take(ends_per_step).cloned().collect::<Vec<_>>();
        succeeded += active.len() as i32;
        for pod in active {
            let ended = PodBuilder((*pod).clone()).succeeded_at(1);
            pods.insert(pod.metadata.name.clone(), ended.build());
        }
        stats.max_with_finalizer = stats
            .max_with_finalizer
            .max(pods.values().filter(|pod| has_tracking_finalizer(pod) && !is_active(pod)).count());
        stats.max_lag = stats.max_lag.max(succeeded - job.status.succeeded);
    }
    stats
}

// Finalizers were removed only when the status was up to date. That was at the end or never: in a Job of 100,000 all pods
// kept their finalizer.
#[test]
fn pods_that_end_all_the_time_lose_their_finalizer_and_are_counted() {
    for mode in ["NonIndexed", "Indexed"] {
        for ends_per_step in [1, 7, 50] {
            let spec = json!({ "completions": 3_000, "parallelism": 50, "completionMode": mode });
            let stats = run_turnover(job(spec).0, ends_per_step);
            let case = format!("{mode}, {ends_per_step} ends after each step: {stats:?}");
            assert!(stats.max_with_finalizer <= 550, "{case}");
            assert!(stats.max_lag <= 1_100, "{case}");
            assert!(stats.status_writes <= 40, "{case}");
        }
    }
}

#[test]
fn a_pod_that_keeps_its_finalizer_does_not_stop_the_counting_of_others() {
    let job = job(json!({ "completions": 9, "parallelism": 1 })).uncounted(&["stuck"], &[]);
    let pods = vec![pod("stuck").succeeded_at(1), pod("next").succeeded_at(2), pod("last").running()];
    let mut seen = observed(job, pods, 3);
    assert_eq!(step_text(&plain_step(&seen)), "untrack stuck");
    seen.blocked = true;
    assert_eq!(step_text(&plain_step(&seen)), "status active=1 succeeded=0 failed=0 uncounted=stuck+next/");
}

// Shows: U-e2e-job-deadline
#[test]
fn a_large_job_gets_its_start_time_before_its_first_pods_are_created() {
    let new = |pods: i32| {
        let job = job(json!({ "completions": pods, "parallelism": pods }));
        observed(job.with(|job| job.status.start_time = None), vec![], 9)
    };
    let mut seen = new(500);
    let step = plain_step(&seen);
    assert_eq!(step_text(&step), "status active=0 succeeded=0 failed=0");
    apply_status(&mut seen, step);
    assert_eq!((seen.job.status.start_time, step_text(&plain_step(&seen)).as_str()), (Some(at(9)), "create 500"));
    assert_eq!(step_text(&plain_step(&new(499))), "create 499", "a smaller one needs no extra write");
}

#[test]
fn the_limits_of_one_step_are_settings() {
    let config = Config { max_pods_per_sync: 3, max_uncounted_pods: 2, ..Config::default() };
    let many = |count: i32, of: fn(PodBuilder) -> PodBuilder| -> Vec<PodBuilder> {
        (0..count).map(|number| of(pod(&format!("p{number}")))).collect()
    };
    let of_size = |parallelism: i32| job(json!({ "completions": 10, "parallelism": parallelism }));
    let succeeded = |pod: PodBuilder| pod.succeeded_at(1);
    for (case, job, pods, want) in [
        ("created", of_size(10), vec![], "create 3"),
        ("deleted", of_size(1), many(9, PodBuilder::running), "delete uncounted p8 p7 p6"),
        ("recorded", of_size(0), many(5, succeeded), "status active=0 succeeded=0 failed=0 uncounted=p0+p1/"),
        (
            "finalizers removed",
            of_size(0).condition("Complete", "CompletionsReached"),
            many(5, succeeded),
            "untrack p0 p1 p2",
        ),
        (
            "a full batch is recorded before others are created",
            of_size(9),
            many(2, succeeded),
            "status active=0 succeeded=0 failed=0 uncounted=p0+p1/",
        ),
    ] {
        assert_eq!(step_text(&plain_step_with(&observed(job, pods, 5), &config)), want, "{case}");
    }
}
