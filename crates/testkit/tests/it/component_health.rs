//! `/readyz` and `/livez` of a component while its server does not respond.

use api::views::PodView;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::Random;
use controlplane::{Component, Config, Health, RemoteComponents};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use nodes::cluster::Cluster;
use runtime::TokioClock;
use runtime::election::ElectionSettings;
use testkit::fault::{Fault, FaultRule, InjectedStatus, Verb, verb, writes};
use testkit::{TestCluster, job, on_paused_clock};
use tokio::sync::watch;
use tokio::time::Instant;

const SECONDS_20: Duration = Duration::from_secs(20);

/// The same client, whose server accepts requests and does not respond while `frozen`.
fn with_frozen_requests(client: Client, frozen: &Arc<AtomicBool>) -> Client {
    let frozen = Arc::clone(frozen);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, frozen) = (client.clone(), Arc::clone(&frozen));
        async move {
            if frozen.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

/// The same client, whose server does not respond while `lost`. Watches that are open then stay open without further
/// events; watches that are opened later work.
fn behind_black_hole(client: Client, lost: &Arc<watch::Sender<bool>>) -> Client {
    let lost = Arc::clone(lost);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, mut lost) = (client.clone(), lost.subscribe());
        async move {
            if *lost.borrow_and_update() {
                std::future::pending::<()>().await;
            }
            let body = client.send(request).await?.map(|body| {
                let frames = futures::stream::unfold((body, lost), async |(mut body, mut lost)| {
                    tokio::select! { biased;
                        _ = lost.changed() => std::future::pending().await,
                        frame = body.frame() => frame.map(|frame| (frame, (body, lost))),
                    }
                });
                http_body_util::StreamBody::new(frames).boxed_unsync()
            });
            Ok::<_, tower::BoxError>(body)
        }
    });
    Client::new(service, "default")
}

/// A test cluster without a scheduler.
async fn test_cluster_without_scheduler() -> TestCluster {
    let mut config = Config::for_cluster(Cluster::default_of(1));
    config.components.remove(&Component::Scheduler);
    TestCluster::with_config(3, config).await
}

async fn scheduler(
    cluster: &TestCluster,
    client: Client,
    health: &Health,
    election: Option<ElectionSettings>,
) -> RemoteComponents {
    let config =
        Config { components: [Component::Scheduler].into(), election, ..Config::for_cluster(Cluster::default()) };
    let clock = Arc::new(TokioClock::starting_at(cluster.now()));
    RemoteComponents::start(clock, Random::seeded(3), client, health.clone(), config).await
}

/// Supervises the components as their process does, for this time.
async fn supervise(components: &mut RemoteComponents, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        tokio::select! { biased;
            () = components.follow_election() => {}
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
        assert_eq!(components.check_health(), None);
    }
}

fn code(health: &Health, path: &str) -> u16 {
    health.response(path, "").unwrap().status().as_u16()
}

fn failing(health: &Health, check: &str) -> bool {
    // Without `verbose` only failed checks are listed.
    use futures::FutureExt;
    use http_body_util::BodyExt;
    let body = health.response("/readyz", "verbose").unwrap().into_body();
    let text = body.collect().now_or_never().unwrap().unwrap().to_bytes();
    String::from_utf8_lossy(&text).contains(&format!("[-]{check} failed"))
}

// Observed with a server stopped by SIGSTOP: no connection broke, and /readyz was still ok after a minute.
#[test]
fn a_component_is_not_ready_while_its_server_hangs_or_its_lease_is_lost() {
    on_paused_clock(async {
        let (cluster, frozen, health) = (test_cluster_without_scheduler().await, Arc::default(), Health::default());
        let election = ElectionSettings::new("phalanx-scheduler", "one");
        let mut components =
            scheduler(&cluster, with_frozen_requests(cluster.client(), &frozen), &health, Some(election)).await;
        supervise(&mut components, SECONDS_20).await;
        assert_eq!(code(&health, "/readyz"), 200);
        frozen.store(true, Ordering::Relaxed);
        supervise(&mut components, SECONDS_20).await;
        assert_eq!([code(&health, "/readyz"), code(&health, "/livez")], [500, 200]);
        assert!(failing(&health, "server") && failing(&health, "lease"));
        frozen.store(false, Ordering::Relaxed);
        supervise(&mut components, SECONDS_20).await;
        assert_eq!(code(&health, "/readyz"), 200, "it holds the Lease again");
        components.stop().await;
    });
}

// Observed after twenty seconds without a network: all connections were dead. /readyz was ok as soon as one new
// connection worked, but the scheduler got no events for another minute.
#[test]
fn a_scheduler_with_dead_connections_recovers_when_the_server_responds_again() {
    on_paused_clock(async {
        let (cluster, lost, health) =
            (test_cluster_without_scheduler().await, Arc::new(watch::Sender::new(false)), Health::default());
        let mut components = scheduler(&cluster, behind_black_hole(cluster.client(), &lost), &health, None).await;
        supervise(&mut components, SECONDS_20).await;
        assert_eq!(code(&health, "/readyz"), 200);
        lost.send_replace(true);
        supervise(&mut components, SECONDS_20).await;
        assert_eq!(code(&health, "/readyz"), 500);
        cluster.create(&job("late").pods(4).gang().gpus(1).run_forever().build()).await;
        lost.send_replace(false);
        let bound = || cluster.cache::<PodView>().all().iter().filter(|pod| pod.node_name().is_some()).count();
        let began = Instant::now();
        while bound() < 4 {
            supervise(&mut components, Duration::from_millis(500)).await;
            assert!(code(&health, "/readyz") == 500 || bound() == 4, "it is ready but gets no events");
            assert!(began.elapsed() < SECONDS_20, "it gets no events");
        }
        assert_eq!(code(&health, "/readyz"), 200);
        components.stop().await;
    });
}

#[test]
fn a_standby_component_is_ready() {
    on_paused_clock(async {
        let (cluster, frozen) = (test_cluster_without_scheduler().await, Arc::default());
        let (first, second) = (Health::default(), Health::default());
        let election = |name: &str| Some(ElectionSettings::new("phalanx-scheduler", name));
        let mut one =
            scheduler(&cluster, with_frozen_requests(cluster.client(), &frozen), &first, election("one")).await;
        supervise(&mut one, SECONDS_20).await;
        let mut two = scheduler(&cluster, cluster.client(), &second, election("two")).await;
        frozen.store(true, Ordering::Relaxed);
        tokio::join!(supervise(&mut one, 2 * SECONDS_20), supervise(&mut two, 2 * SECONDS_20));
        assert_eq!([code(&first, "/readyz"), code(&second, "/readyz")], [500, 200]);
        frozen.store(false, Ordering::Relaxed);
        tokio::join!(supervise(&mut one, SECONDS_20), supervise(&mut two, SECONDS_20));
        assert_eq!(
            [code(&first, "/readyz"), code(&second, "/readyz")],
            [200, 200],
            "the first one reads the holder of the Lease"
        );
    });
}

#[test]
fn binds_that_never_complete_fail_liveness() {
    on_paused_clock(async {
        let (cluster, health) = (test_cluster_without_scheduler().await, Health::default());
        let client = cluster.faults().wrap("kube-scheduler", cluster.client());
        let mut components = scheduler(&cluster, client, &health, None).await;
        cluster.inject_fault(FaultRule::on(
            writes().by_user("kube-scheduler").on_subresource("binding"),
            Fault::BlackHole,
        ));
        let unreadable = Fault::Respond(InjectedStatus::InternalError);
        cluster.inject_fault(FaultRule::on(verb(Verb::Get).by_user("kube-scheduler").on_resource("pods"), unreadable));
        cluster.create(&job("gang").pods(4).indexed().gang().gpus(1).run_forever().build()).await;
        supervise(&mut components, Duration::from_secs(110)).await;
        assert_eq!(code(&health, "/livez"), 200);
        supervise(&mut components, SECONDS_20).await;
        assert_eq!(code(&health, "/livez"), 500);
        cluster.faults().clear();
        supervise(&mut components, SECONDS_20).await;
        assert_eq!(code(&health, "/livez"), 200);
        let bound = cluster.cache::<PodView>().all().iter().filter(|pod| pod.node_name().is_some()).count();
        assert_eq!(bound, 4);
        components.stop().await;
    });
}
