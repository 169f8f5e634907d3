//! What `/readyz` and `/livez` of a part say while its server does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::Random;
use controlplane::{Config, Health, OnCluster, Part};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use nodes::cluster::Cluster;
use runtime::TokioClock;
use runtime::election::Settings;
use testkit::fault::{Fault, Refusal, Rule, Verb, verb, writes};
use testkit::{Home, job, on_paused_clock};
use tokio::sync::watch;
use tokio::time::Instant;

const SECONDS_20: Duration = Duration::from_secs(20);

/// The same client, whose server takes requests and answers none while `frozen`.
fn through(client: Client, frozen: &Arc<AtomicBool>) -> Client {
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

/// The same client, whose server answers nothing while `lost`. Connections of watches that are open then stay so and bring
/// nothing more, for ever; those opened later are as good as new.
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

/// Everything but the scheduler.
async fn home() -> Home {
    let mut config = Config::on(Cluster::default_of(1));
    config.parts.remove(&Part::Scheduler);
    Home::with_config(3, config).await
}

async fn scheduler(home: &Home, client: Client, health: &Health, election: Option<Settings>) -> OnCluster {
    let config = Config { parts: [Part::Scheduler].into(), election, ..Config::on(Cluster::default()) };
    let clock = Arc::new(TokioClock::starting_at(home.now()));
    OnCluster::start(clock, Random::seeded(3), client, health.clone(), config).await
}

/// Looks after the part as its process does, for so long.
async fn attend(parts: &mut OnCluster, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        tokio::select! { biased;
            () = parts.elected() => {}
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
        assert_eq!(parts.look(), None);
    }
}

fn code(health: &Health, path: &str) -> u16 {
    health.answer(path, "").unwrap().status().as_u16()
}

fn failing(health: &Health, check: &str) -> bool {
    // Only what fails is told without being asked.
    use futures::FutureExt;
    use http_body_util::BodyExt;
    let body = health.answer("/readyz", "verbose").unwrap().into_body();
    let text = body.collect().now_or_never().unwrap().unwrap().to_bytes();
    String::from_utf8_lossy(&text).contains(&format!("[-]{check} failed"))
}

// A server that was stopped with SIGSTOP: no connection breaks, and a minute later /readyz still said ok.
#[test]
fn a_part_whose_server_is_frozen_or_whose_lease_is_lost_is_not_ready() {
    on_paused_clock(async {
        let (home, frozen, health) = (home().await, Arc::default(), Health::default());
        let election = Settings::new("phalanx-scheduler", "one");
        let mut parts = scheduler(&home, through(home.client(), &frozen), &health, Some(election)).await;
        attend(&mut parts, SECONDS_20).await;
        assert_eq!(code(&health, "/readyz"), 200);
        frozen.store(true, Ordering::Relaxed);
        attend(&mut parts, SECONDS_20).await;
        assert_eq!([code(&health, "/readyz"), code(&health, "/livez")], [500, 200]);
        assert!(failing(&health, "server") && failing(&health, "lease"));
        frozen.store(false, Ordering::Relaxed);
        attend(&mut parts, SECONDS_20).await;
        assert_eq!(code(&health, "/readyz"), 200, "it has the lease again");
        parts.stop().await;
    });
}

// After twenty seconds without a network all connections were dead. /readyz said ok as soon as one new connection was
// answered, and the scheduler saw nothing for a minute more.
#[test]
fn a_scheduler_whose_connections_are_dead_sees_the_server_as_soon_as_it_answers_again() {
    on_paused_clock(async {
        let (home, lost, health) = (home().await, Arc::new(watch::Sender::new(false)), Health::default());
        let mut parts = scheduler(&home, behind_black_hole(home.client(), &lost), &health, None).await;
        attend(&mut parts, SECONDS_20).await;
        assert_eq!(code(&health, "/readyz"), 200);
        lost.send_replace(true);
        attend(&mut parts, SECONDS_20).await;
        assert_eq!(code(&health, "/readyz"), 500);
        home.create(&job("late").pods(4).gang().gpus(1).endless().build()).await;
        lost.send_replace(false);
        let bound = || home.caches().pods.all().iter().filter(|pod| pod.node_name().is_some()).count();
        let began = Instant::now();
        while bound() < 4 {
            attend(&mut parts, Duration::from_millis(500)).await;
            assert!(code(&health, "/readyz") == 500 || bound() == 4, "it is ready and sees nothing");
            assert!(began.elapsed() < SECONDS_20, "it sees nothing");
        }
        assert_eq!(code(&health, "/readyz"), 200);
        parts.stop().await;
    });
}

#[test]
fn a_part_that_stands_by_is_ready() {
    on_paused_clock(async {
        let (home, frozen) = (home().await, Arc::default());
        let (first, second) = (Health::default(), Health::default());
        let election = |name: &str| Some(Settings::new("phalanx-scheduler", name));
        let mut one = scheduler(&home, through(home.client(), &frozen), &first, election("one")).await;
        attend(&mut one, SECONDS_20).await;
        let mut two = scheduler(&home, home.client(), &second, election("two")).await;
        frozen.store(true, Ordering::Relaxed);
        tokio::join!(attend(&mut one, 2 * SECONDS_20), attend(&mut two, 2 * SECONDS_20));
        assert_eq!([code(&first, "/readyz"), code(&second, "/readyz")], [500, 200]);
        frozen.store(false, Ordering::Relaxed);
        tokio::join!(attend(&mut one, SECONDS_20), attend(&mut two, SECONDS_20));
        assert_eq!([code(&first, "/readyz"), code(&second, "/readyz")], [200, 200], "the first sees who has the lease");
    });
}

#[test]
fn binds_that_never_end_fail_liveness_while_the_server_can_be_read() {
    on_paused_clock(async {
        let (home, health) = (home().await, Health::default());
        let client = home.faults().wrap("kube-scheduler", home.client());
        let mut parts = scheduler(&home, client, &health, None).await;
        home.fault(Rule::on(writes().by("kube-scheduler").at("binding"), Fault::BlackHole));
        let unreadable = Fault::Answer(Refusal::InternalError);
        home.fault(Rule::on(verb(Verb::Get).by("kube-scheduler").of("pods"), unreadable));
        home.create(&job("gang").pods(4).indexed().gang().gpus(1).endless().build()).await;
        attend(&mut parts, Duration::from_secs(110)).await;
        assert_eq!(code(&health, "/livez"), 200);
        attend(&mut parts, SECONDS_20).await;
        assert_eq!(code(&health, "/livez"), 500);
        home.faults().clear();
        attend(&mut parts, SECONDS_20).await;
        assert_eq!(code(&health, "/livez"), 200);
        let bound = home.caches().pods.all().iter().filter(|pod| pod.node_name().is_some()).count();
        assert_eq!(bound, 4);
        parts.stop().await;
    });
}
