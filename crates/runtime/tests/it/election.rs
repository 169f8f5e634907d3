//! Elections of several candidates over one lease, each with a connection that may fail.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use kube::Client;
use kube::client::Body;
use phalanx_runtime::TokioClock;
use phalanx_runtime::election::{Election, ElectionSettings, Fence, LeadershipState, release_lease};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, advance, sleep, timeout};
use types::{Random, Timestamp};

/// A server that has at most one Lease.
#[derive(Clone, Default)]
struct LeaseServer(Arc<Mutex<(Option<Value>, u64)>>);

/// The fault between one candidate and the server.
#[derive(Clone, Default)]
struct LineFaults {
    /// Requests do not arrive.
    is_cut: Arc<AtomicBool>,
    /// Requests arrive, but no response returns.
    loses_answers: Arc<AtomicBool>,
}

impl LeaseServer {
    fn client(&self, line: &LineFaults, random: Random) -> Client {
        let (server, line) = (self.clone(), line.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, line, random) = (server.clone(), line.clone(), random.clone());
            async move {
                sleep(Duration::from_millis(random.below(300))).await;
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                if line.is_cut.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                let (code, answer) = server.answer(&parts.method, &body);
                sleep(Duration::from_millis(random.below(300))).await;
                if line.loses_answers.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                let body = Full::<Bytes>::from(answer.to_string());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (u16, Value) {
        let mut guard = self.0.lock().unwrap();
        let (lease, version) = &mut *guard;
        let refused = |code: u16, reason: &str| {
            (code, json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason }))
        };
        if *method == Method::GET {
            return lease.clone().map_or_else(|| refused(404, "NotFound"), |lease| (200, lease));
        }
        let mut new: Value = serde_json::from_slice(body).unwrap();
        match (&*lease, method == Method::POST) {
            (Some(_), true) => return refused(409, "AlreadyExists"),
            (None, false) => return refused(404, "NotFound"),
            (Some(old), false) if old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"] => {
                return refused(409, "Conflict");
            }
            _ => {}
        }
        *version += 1;
        new["metadata"]["resourceVersion"] = version.to_string().into();
        *lease = Some(new.clone());
        (200, new)
    }

    fn spec(&self) -> Value {
        self.0.lock().unwrap().0.as_ref().map_or(Value::Null, |lease| lease["spec"].clone())
    }
}

struct Candidate {
    faults: LineFaults,
    client: Client,
    settings: ElectionSettings,
    leadership: watch::Receiver<LeadershipState>,
    fence: Fence,
    task: tokio::task::JoinHandle<()>,
}

impl Candidate {
    fn start(server: &LeaseServer, name: &str, seed: u64) -> Candidate {
        let (line, random) = (LineFaults::default(), Random::seeded(seed));
        let client = server.client(&line, random.clone());
        let settings = ElectionSettings::new("phalanx", name);
        let clock = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let (standing, fence, run) = Election::of(client.clone(), settings.clone(), clock, random);
        let task = tokio::spawn(run);
        Candidate { faults: line, client, settings, leadership: standing, fence, task }
    }

    async fn wait_for(&mut self, wanted: LeadershipState, within: u64) {
        let becoming = self.leadership.wait_for(|standing| *standing == wanted);
        let got = timeout(Duration::from_secs(within), becoming).await;
        assert!(got.is_ok(), "{} is not {wanted:?} within {within} s", self.settings.identity);
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_leads_only_after_the_first_has_stopped_by_its_own_clock() {
    let server = LeaseServer::default();
    let mut first = Candidate::start(&server, "first", 1);
    first.wait_for(LeadershipState::Leading(1), 2).await;
    let mut second = Candidate::start(&server, "second", 2);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(*second.leadership.borrow(), LeadershipState::Standby, "the lease is renewed");
    first.faults.is_cut.store(true, Ordering::Relaxed);
    first.wait_for(LeadershipState::Lost, 13).await;
    assert!(!first.fence.is_open());
    assert_eq!(*second.leadership.borrow(), LeadershipState::Standby);
    second.wait_for(LeadershipState::Leading(1), 10).await;
    assert_eq!(server.spec()["holderIdentity"], "second");
    assert_eq!(server.spec()["leaseTransitions"], 1);
    first.faults.is_cut.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(*first.leadership.borrow(), LeadershipState::Lost, "until it has read the lease again");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(*first.leadership.borrow(), LeadershipState::Standby, "it is a candidate again");
    second.faults.loses_answers.store(true, Ordering::Relaxed);
    first.wait_for(LeadershipState::Leading(2), 40).await;
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_the_next_attempt() {
    let server = LeaseServer::default();
    let mut first = Candidate::start(&server, "first", 1);
    first.wait_for(LeadershipState::Leading(1), 2).await;
    let mut second = Candidate::start(&server, "second", 2);
    sleep(Duration::from_secs(10)).await;
    first.task.abort();
    release_lease(&first.client, &first.settings, &TokioClock::starting_at(Timestamp::UNIX_EPOCH)).await;
    second.wait_for(LeadershipState::Leading(1), 4).await;
    release_lease(&first.client, &first.settings, &TokioClock::starting_at(Timestamp::UNIX_EPOCH)).await;
    assert_eq!(server.spec()["holderIdentity"], "second", "only the holder releases the lease");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_process_finds_its_fence_closed_before_any_timer_fires() {
    let server = LeaseServer::default();
    let mut first = Candidate::start(&server, "first", 1);
    let fenced = first.fence.wrap(first.client.clone());
    let write = async || phalanx_runtime::request::put(&fenced, "/any", &json!({})).await;
    let refused = write().await.unwrap_err();
    assert!(phalanx_runtime::failure::message(&refused).contains("does not hold its lease"), "{refused}");
    first.wait_for(LeadershipState::Leading(1), 2).await;
    assert!(write().await.is_err_and(|error| matches!(error, kube::Error::Api(_))), "it reached the server");
    // `advance` moves the clock at once, as for a suspended process.
    advance(Duration::from_secs(11)).await;
    assert!(!first.fence.is_open());
    assert!(write().await.is_err_and(|error| matches!(error, kube::Error::Service(_))), "the fence refused it");
    assert!(phalanx_runtime::request::get(&fenced, "/any").await.is_ok(), "reads always pass");
}

/// A write that began just before the fence closed had the 15 s of every request, but the lease only 5 s more.
#[tokio::test(start_paused = true)]
async fn a_write_without_a_response_is_abandoned_before_another_process_leads() {
    let server = LeaseServer::default();
    let mut first = Candidate::start(&server, "first", 1);
    first.wait_for(LeadershipState::Leading(1), 2).await;
    let mut second = Candidate::start(&server, "second", 2);
    sleep(Duration::from_secs(20)).await;
    let fenced = first.fence.wrap(first.client.clone());
    first.faults.is_cut.store(true, Ordering::Relaxed);
    let cut_at = Instant::now();
    // One write every 100 ms, until the fence is closed.
    let mut writes = tokio::task::JoinSet::new();
    while first.fence.is_open() {
        let fenced = fenced.clone();
        writes.spawn(async move { (phalanx_runtime::request::put(&fenced, "/any", &json!({})).await, Instant::now()) });
        sleep(Duration::from_millis(100)).await;
    }
    second.wait_for(LeadershipState::Leading(1), 10).await;
    let led_at = Instant::now();
    assert!(cut_at.elapsed() > Duration::from_secs(10) && writes.len() > 70, "{} writes", writes.len());
    while let Some(ended) = writes.join_next().await {
        let (answer, at) = ended.unwrap();
        assert!(at + Duration::from_secs(2) < led_at, "abandoned at {at:?}, another leads since {led_at:?}");
        assert!(phalanx_runtime::failure::message(&answer.unwrap_err()).contains("lease"), "the error has the cause");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_write_continues_while_the_lease_is_renewed() {
    let server = LeaseServer::default();
    let mut first = Candidate::start(&server, "first", 1);
    first.wait_for(LeadershipState::Leading(1), 2).await;
    let slow = tower::service_fn(|_: Request<Body>| async {
        sleep(Duration::from_secs(14)).await;
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("{}")))
    });
    let fenced = first.fence.wrap(Client::new(slow, "default"));
    let write = async || phalanx_runtime::request::put(&fenced, "/any", &json!({})).await;
    assert!(write().await.is_ok());
    let (write, ()) = tokio::join!(write(), async {
        sleep(Duration::from_secs(1)).await;
        first.task.abort();
    });
    assert!(write.is_err(), "without a renewal it is abandoned");
}

#[tokio::test(start_paused = true)]
async fn two_processes_never_write_at_once_despite_network_faults() {
    for seed in 0..6 {
        let server = LeaseServer::default();
        let random = Random::seeded(seed);
        let mut candidates: Vec<_> =
            (0..3).map(|n| Candidate::start(&server, &format!("c{n}"), seed * 10 + n)).collect();
        let (mut led, mut generation) = (0, 3);
        for _ in 0..4_000 {
            sleep(Duration::from_millis(50)).await;
            let open = candidates.iter().filter(|candidate| candidate.fence.is_open()).count();
            assert!(open <= 1, "seed {seed}: {open} at once");
            led += usize::from(open == 1);
            let candidate = &mut candidates[random.below(3) as usize];
            match random.below(200) {
                0 => candidate.faults.is_cut.store(true, Ordering::Relaxed),
                1 => candidate.faults.loses_answers.store(true, Ordering::Relaxed),
                2..=5 => {
                    candidate.faults.is_cut.store(false, Ordering::Relaxed);
                    candidate.faults.loses_answers.store(false, Ordering::Relaxed);
                }
                _ => {}
            }
            // From time to time a process is killed and started again with another identity.
            if random.below(300) == 0 {
                candidate.task.abort();
                generation += 1;
                *candidate = Candidate::start(&server, &format!("c{generation}"), seed * 10 + generation);
            }
        }
        assert!(led > 1_000, "seed {seed}: there was a leader {led} times of 4,000");
    }
}
