//! Jobs where the server has no groups: on virtual time with the gates off, and on a real control plane as it ships.

use std::time::Duration;

use testkit::{TestCluster, job, on_test_cluster};

#[test]
fn without_groups_every_job_runs_as_plain_pods() {
    on_test_cluster(async {
        let home = TestCluster::with_gate_off("GenericWorkload", 4, 1).await;
        home.create(&job("plain").pods(4).gpus(1).build()).await;
        // What this one asks for is dropped before anybody sees it.
        home.create(&job("gang").pods(4).indexed().gang().gpus(1).build()).await;
        home.eventually("both complete", Duration::from_secs(60), |home| {
            let jobs = home.caches().jobs.all();
            (jobs.iter().filter(|job| job.status.succeeded == 4 && job.status.completion_time.is_some()).count() == 2)
                .then_some(())
        })
        .await;
        assert!(home.caches().pods.all().iter().all(|pod| pod.group_name().is_none()));
        assert!(home.caches().workloads.is_empty() && home.caches().pod_groups.is_empty());
        let history = home.history();
        let made = history.iter().filter(|change| change.resource == "pods" && change.created).count();
        assert_eq!(made, 8, "one pod for each completion");
    });
}
