//! CronJobs and Jobs with a TTL or deadline, when the clock or the schedule changes.

use api::views::JobView;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use api::{Clock, Timestamp};
use controlplane::{Config, ControlPlane, ControlPlaneEnvironment};
use nodes::cluster::Cluster;
use runtime::request::{self, PatchKind};
use serde_json::{Value, json};
use store::HistoryLimits;
use testkit::{job, on_paused_clock};

const MINUTE: Duration = Duration::from_secs(60);
const NEW_YEAR: i64 = 1_767_225_600 / 60;
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// A clock that can be set.
struct SettableClock {
    inner: Arc<dyn Clock>,
    ahead_seconds: AtomicI64,
}

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead_seconds.load(Ordering::Relaxed);
        let by = Duration::from_secs(ahead.unsigned_abs());
        if ahead < 0 { self.inner.now() - by } else { self.inner.now() + by }
    }
}

/// A control plane on a clock that can be set.
struct SettableClockPlane {
    clock: Arc<SettableClock>,
    plane: ControlPlane,
}

impl SettableClockPlane {
    async fn start() -> SettableClockPlane {
        let origin = Timestamp::from_second(NEW_YEAR * 60).unwrap();
        let environment = testkit::virtual_time::environment(5, origin, HistoryLimits::default());
        let clock = Arc::new(SettableClock { inner: environment.clock.clone(), ahead_seconds: 0.into() });
        let environment = ControlPlaneEnvironment { clock: clock.clone(), ..environment };
        let plane = ControlPlane::start(environment, Config::for_cluster(Cluster::default_of(1))).await.unwrap();
        SettableClockPlane { clock, plane }
    }

    fn set(&self, seconds: i64) {
        self.clock.ahead_seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    async fn create_cron_job(&self, schedule: &str) {
        let spec = json!({
            "schedule": schedule, "successfulJobsHistoryLimit": 100,
            "jobTemplate": {"spec": job("unnamed").annotate("phalanx.dev/run-seconds", "1").build()["spec"]},
        });
        let meta = json!({"name": "c", "namespace": "default"});
        let manifest = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec});
        request::post(&self.plane.client(), CRON_JOBS, &manifest).await.unwrap();
    }

    /// The minutes of the existing Jobs, counted from new year.
    fn served_minutes(&self) -> Vec<i64> {
        let jobs = self.plane.cache::<JobView>().all();
        let minute = |name: &str| name.strip_prefix("c-").unwrap().parse::<i64>().unwrap() - NEW_YEAR;
        let mut minutes: Vec<i64> = jobs.iter().map(|job| minute(&job.metadata.name)).collect();
        minutes.sort_unstable();
        minutes
    }
}

async fn advance(time: Duration) {
    tokio::time::sleep(time).await;
}

#[test]
fn a_clock_set_forward_starts_the_last_skipped_time_and_continues() {
    on_paused_clock(async {
        let cluster = SettableClockPlane::start().await;
        cluster.create_cron_job("*/10 * * * *").await;
        advance(MINUTE * 15).await;
        assert_eq!(cluster.served_minutes(), [10]);
        cluster.set(3600);
        advance(MINUTE / 2).await;
        assert_eq!(cluster.served_minutes(), [10, 70], "only the last skipped time, within seconds");
        advance(MINUTE * 10).await;
        assert_eq!(cluster.served_minutes(), [10, 70, 80], "on time by the new clock");
    });
}

#[test]
fn a_clock_set_back_starts_no_time_twice() {
    on_paused_clock(async {
        let cluster = SettableClockPlane::start().await;
        cluster.create_cron_job("*/10 * * * *").await;
        advance(MINUTE * 25).await;
        assert_eq!(cluster.served_minutes(), [10, 20]);
        cluster.set(-900);
        advance(MINUTE * 19).await;
        assert_eq!(cluster.served_minutes(), [10, 20], "these times were started before");
        advance(MINUTE * 2).await;
        assert_eq!(cluster.served_minutes(), [10, 20, 30]);
    });
}

#[test]
fn ttl_and_deadline_follow_a_clock_that_was_set() {
    on_paused_clock(async {
        let cluster = SettableClockPlane::start().await;
        let expires = job("expires").annotate("phalanx.dev/run-seconds", "1").spec("ttlSecondsAfterFinished", 3600);
        request::post(&cluster.plane.client(), JOBS, &expires.build()).await.unwrap();
        let late = job("late").annotate("phalanx.dev/run-seconds", "86400").spec("activeDeadlineSeconds", 3600);
        request::post(&cluster.plane.client(), JOBS, &late.build()).await.unwrap();
        advance(MINUTE).await;
        cluster.set(3600);
        advance(MINUTE / 2).await;
        let left = cluster.plane.cache::<JobView>().all();
        let ends: Vec<_> =
            left.iter().map(|job| (&*job.metadata.name, job.finished_condition().map(|end| &*end.reason))).collect();
        assert_eq!(ends, [("late", Some("DeadlineExceeded"))]);
    });
}

#[test]
fn a_changed_schedule_starts_with_its_next_time() {
    on_paused_clock(async {
        let cluster = SettableClockPlane::start().await;
        cluster.create_cron_job("0 3 * * *").await;
        advance(MINUTE * 12).await;
        let other = json!({"spec": {"schedule": "*/5 * * * *"}});
        request::patch(&cluster.plane.client(), &format!("{CRON_JOBS}/c"), PatchKind::Merge, &other).await.unwrap();
        advance(MINUTE * 2).await;
        assert_eq!(cluster.served_minutes(), Vec::<i64>::new(), "00:10 was not missed");
        advance(MINUTE * 7).await;
        assert_eq!(cluster.served_minutes(), [15, 20]);
        let zone: Value = json!({"spec": {"timeZone": "Europe/Berlin"}});
        request::patch(&cluster.plane.client(), &format!("{CRON_JOBS}/c"), PatchKind::Merge, &zone).await.unwrap();
        advance(MINUTE * 5).await;
        assert_eq!(cluster.served_minutes(), [15, 20, 25]);
    });
}
