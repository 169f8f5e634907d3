//! Jobs on a server without groups: on virtual time with the gates off, and on the real control plane with its default
//! gates.

use api::views::{JobView, PodGroupView, PodView, WorkloadView};
use std::time::Duration;

use testkit::{TestCluster, job, on_test_cluster};

#[test]
fn without_groups_every_job_runs_as_plain_pods() {
    on_test_cluster(async {
        let cluster = TestCluster::with_gate_off("GenericWorkload", 4, 1).await;
        cluster.create(&job("plain").pods(4).gpus(1).build()).await;
        // The server drops its scheduling fields before the controller sees them.
        cluster.create(&job("gang").pods(4).indexed().gang().gpus(1).build()).await;
        cluster
            .eventually("both complete", Duration::from_secs(60), |cluster| {
                let jobs = cluster.cache::<JobView>().all();
                (jobs.iter().filter(|job| job.status.succeeded == 4 && job.status.completion_time.is_some()).count()
                    == 2)
                    .then_some(())
            })
            .await;
        assert!(cluster.cache::<PodView>().all().iter().all(|pod| pod.group_name().is_none()));
        assert!(cluster.cache::<WorkloadView>().is_empty() && cluster.cache::<PodGroupView>().is_empty());
        let history = cluster.history();
        let created = history.iter().filter(|change| change.resource == "pods" && change.created).count();
        assert_eq!(created, 8, "one pod for each completion");
    });
}
