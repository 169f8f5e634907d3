//! Binds without a response: on virtual time and on the real control plane, one gang is bound while another waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::views::PodView;
use testkit::fault::{
    EventFault, Fault, FaultRule, InjectedStatus, RequestMatcher, RuleId, all_requests, events_of, writes,
};
use testkit::{RecordedWrite, TestCluster, is_on_kube, job, on_test_cluster};
use tokio::time::Instant;

/// Pods of each gang; both fit exactly.
const SIZE: usize = 80;
const NODES: u32 = 20;
const GPUS_PER_NODE: usize = 8;
/// How long a temporary black hole lasts.
const BLACK_HOLE: Duration = Duration::from_secs(5);
/// The time limit from the fault until all pods are bound, on any clock.
const BIND_TIMEOUT: Duration = Duration::from_secs(45);
/// The time limit of other steps, on virtual time.
const MINUTE: Duration = Duration::from_secs(60);

fn binds() -> RequestMatcher {
    writes().on_resource("pods").on_subresource("binding")
}

/// Set to 1, every fault happens at every bind of the first gang, and the longest times are printed.
const EVERY_BIND: &str = "PHALANX_EVERY_BIND";

/// The binds of the first gang with the fault: the first, one in the middle, the last of those in flight at once, the
/// last; or every one.
fn positions() -> Vec<u64> {
    if std::env::var(EVERY_BIND).is_ok_and(|set| set == "1") {
        (1..=SIZE as u64).collect()
    } else if is_on_kube() {
        vec![1, 40, 80]
    } else {
        vec![1, 40, 64, 80]
    }
}

/// Runs `case` for each position; it returns the time until all pods were placed.
fn at_each_position(fault: &str, case: impl AsyncFn(u64) -> Duration) {
    let took: Vec<(Duration, u64)> = positions().into_iter().map(|n| (on_test_cluster(case(n)), n)).collect();
    let (longest, n) = took.iter().max().expect("there are positions");
    println!("{fault}: {} cases, at most {longest:?} from the fault until all are placed (bind {n})", took.len());
}

fn count_bound(cluster: &TestCluster) -> usize {
    let is_bound = |pod: &&Arc<PodView>| pod.node_name().is_some() && !pod.metadata.is_deleting();
    cluster.cache::<PodView>().all().iter().filter(is_bound).count()
}

/// Creates two gangs of 80 under `rule`; returns once the rule was applied for the first time.
async fn start_two_gangs(seed: u64, rule: FaultRule) -> (TestCluster, RuleId, Instant) {
    let cluster = TestCluster::start(seed, NODES).await;
    let rule = cluster.inject_fault(rule);
    for name in ["red", "blue"] {
        cluster.create(&job(name).pods(SIZE as i32).indexed().gang().gpus(1).run_forever().build()).await;
    }
    let applied = tokio::time::timeout(cluster.scaled_timeout(MINUTE), cluster.faults().wait_until_applied(rule));
    applied.await.expect("the fault is applied");
    (cluster, rule, Instant::now())
}

/// Waits until both gangs are placed, and checks the invariants. Returns the time that it took.
async fn wait_until_both_placed(cluster: &TestCluster, begun: Instant, case: &str) -> Duration {
    cluster.eventually(case, BIND_TIMEOUT, |cluster| (count_bound(cluster) == 2 * SIZE).then_some(())).await;
    let took = begun.elapsed();
    assert!(took <= BIND_TIMEOUT, "{case}: placed {took:?} after the fault began");
    let history = cluster.history();
    assert_eq!(overcommitted(&history), BTreeSet::new(), "{case}");
    let created = history.iter().filter(|change| change.resource == "pods" && change.created).count();
    assert_eq!(created, 2 * SIZE, "{case}: no pod was released and recreated");
    took
}

/// Nodes that had more pods than GPUs at any time.
fn overcommitted(history: &[RecordedWrite]) -> BTreeSet<String> {
    let mut bindings: BTreeMap<&str, &str> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut over = BTreeSet::new();
    for change in history.iter().filter(|change| change.resource == "pods") {
        if let Some(node) = bindings.remove(change.name()) {
            counts.entry(node).and_modify(|count| *count -= 1);
        }
        let Some(node) = change.object["spec"]["nodeName"].as_str().filter(|_| !change.deleted) else { continue };
        bindings.insert(change.name(), node);
        let count = counts.entry(node).or_default();
        *count += 1;
        if *count > GPUS_PER_NODE {
            over.insert(node.to_owned());
        }
    }
    over
}

/// One bind has `fault`.
fn check_fault_at_each_bind(fault: &Fault) {
    at_each_position(&format!("{fault:?} at one bind"), async |n| {
        let case = format!("{fault:?} at bind {n}");
        let (cluster, rule, begun) = start_two_gangs(7, FaultRule::on(binds(), fault.clone()).nth(n)).await;
        let took = wait_until_both_placed(&cluster, begun, &case).await;
        assert_eq!(cluster.faults().counts(rule).applied, 1, "{case}");
        took
    });
}

#[test]
fn a_bind_whose_response_is_lost_is_read_back() {
    check_fault_at_each_bind(&Fault::BlackHoleResponse);
}

#[test]
fn a_bind_whose_connection_is_reset_is_read_back() {
    check_fault_at_each_bind(&Fault::CutResponse);
    check_fault_at_each_bind(&Fault::Cut);
}

#[test]
fn a_bind_on_a_dead_connection_is_sent_on_another() {
    check_fault_at_each_bind(&Fault::BlackHole);
}

#[test]
fn an_applied_bind_that_returns_an_error_is_read_back() {
    check_fault_at_each_bind(&Fault::RespondAfter(InjectedStatus::InternalError));
}

// Observed: 64 binds in flight never got a response, and scheduling stopped.
#[test]
fn scheduling_continues_after_a_network_black_hole() {
    for fault in [Fault::BlackHole, Fault::BlackHoleResponse] {
        at_each_position(&format!("{fault:?} for {BLACK_HOLE:?}"), async |n| {
            let case = format!("{fault:?} for {BLACK_HOLE:?} from bind {n} on");
            let (cluster, rule, begun) =
                start_two_gangs(7, FaultRule::on(binds(), fault.clone()).starting_at_nth(n)).await;
            // All other requests of the scheduler are lost too, and its watches stall.
            let others = cluster.inject_fault(FaultRule::on(all_requests().by_user("kube-scheduler"), fault.clone()));
            cluster.inject_fault(FaultRule::on_events(events_of("pods"), EventFault::Delay(BLACK_HOLE)).nth(1));
            tokio::time::sleep(BLACK_HOLE).await;
            cluster.faults().remove(rule);
            cluster.faults().remove(others);
            wait_until_both_placed(&cluster, begun, &case).await
        });
    }
}
