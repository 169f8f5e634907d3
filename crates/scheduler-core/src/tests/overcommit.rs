//! Over-committed nodes, as by two schedulers on a server that does not check binds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;

use super::property_config::property_config;
use super::text_cluster::TextCluster;
use crate::plugins::profile::FitArgs;
use crate::{Config, DecisionAction, Profile, ReleaseReason};

const PAUSE: Duration = Duration::from_secs(10);

/// The watch shows pods that another scheduler bound, one after the other.
fn show(world: &mut TextCluster, pods: &[&str], node: &str) {
    pods.iter().for_each(|pod| world.show_bound(pod, node));
}

/// What is decided once a node has been over-committed for long enough.
fn decide_later(world: &mut TextCluster) -> String {
    assert_eq!(world.decide(), "", "not at once");
    world.now += PAUSE;
    world.decide()
}

#[test]
fn of_two_pods_with_the_same_capacity_the_one_bound_last_is_released() {
    let mut world = TextCluster::of("node a gpu=1; pod old gpu=1 owner=Job:j; pod new gpu=1 owner=Job:k");
    show(&mut world, &["new", "old"], "a");
    assert_eq!(world.decide(), "");
    assert_eq!(world.core.next_at(), Some(world.now + PAUSE));
    world.now += PAUSE;
    let decision = world.core.next(world.now).unwrap();
    let DecisionAction::Release(release) = &decision.action else { panic!("{decision:?}") };
    assert_eq!(release.pods[0].pod.name, "old", "the order of creation does not matter");
    assert_snapshot!(release.message(), @"node a has 1 nvidia.com/gpu, and its pods request 2; this pod was bound beyond the node's capacity and is released");
    assert_eq!(world.decide(), "", "once");
    world.now += PAUSE;
    assert_eq!(world.decide(), "old: release old", "it is released again while it exists");
    world.apply("delete old");
    world.now += PAUSE;
    assert_eq!((world.decide(), world.core.next_at()), (String::new(), None));
}

#[test]
fn a_release_does_not_wait_behind_decisions() {
    let mut world = TextCluster::of("node a gpu=1; node b gpu=3; pod old gpu=1 owner=Job:j; pod new gpu=1 owner=Job:k");
    show(&mut world, &["old", "new"], "a");
    assert_eq!(world.decide(), "");
    world.now += PAUSE;
    world.apply("pods small 3 priority=10 gpu=1");
    assert_snapshot!(world.decide().lines().next().unwrap(), @"new: release new");
}

#[test]
fn a_pod_that_fits_beside_the_others_stays() {
    let mut world = TextCluster::of("node a gpu=4; pods p 4 gpu=2 owner=Job:j; pod small gpu=1 owner=Job:j");
    show(&mut world, &["p-0", "p-1"], "a");
    show(&mut world, &["p-2", "p-3", "small"], "a");
    world.apply("delete p-0");
    assert_snapshot!(decide_later(&mut world), @"
    small: release small
    p-3: release p-3
    ");
}

#[test]
fn a_pod_that_leaves_in_time_is_enough() {
    let mut world = TextCluster::of("node a gpu=1; pod x gpu=1 owner=Job:j; pod y gpu=1 owner=Job:k");
    show(&mut world, &["x", "y"], "a");
    assert_eq!(world.decide(), "");
    world.change_pod("x", |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    world.now += PAUSE;
    assert_eq!((world.decide(), world.core.next_at()), (String::new(), None));
}

#[test]
fn a_node_that_shrinks_releases_no_pod() {
    let mut world = TextCluster::of("node a gpu=2; pods p 2 gpu=1 owner=Job:j");
    show(&mut world, &["p-0", "p-1"], "a");
    world.apply("node a gpu=0");
    assert_eq!(decide_later(&mut world), "");
    world.apply("drop a");
    world.now += PAUSE;
    assert_eq!(world.decide(), "");
}

#[test]
fn a_node_that_is_gone_releases_no_pod() {
    let mut world = TextCluster::of("node a gpu=1; pods p 2 gpu=1 owner=Job:j");
    show(&mut world, &["p-0", "p-1"], "a");
    world.apply("drop a");
    assert_eq!(decide_later(&mut world), "");
}

#[test]
fn only_managed_pods_of_our_scheduler_with_an_observed_bind_are_released() {
    for (case, second) in [
        ("no controller recreates it", "pod y gpu=1"),
        ("of another scheduler", "pod y gpu=1 owner=Job:k scheduler=other"),
        ("it does not request what is over-committed", "pod y cpu=1 owner=Job:k"),
    ] {
        let mut world = TextCluster::of(&format!("node a gpu=1; pod x gpu=1 owner=Job:j; {second}"));
        show(&mut world, &["x", "y"], "a");
        assert_eq!(decide_later(&mut world), "", "{case}");
    }
    let mut world = TextCluster::of("node a gpu=1; pods p 2 node=a gpu=1 owner=Job:k");
    assert_eq!(decide_later(&mut world), "", "first observed on its node, as after a restart");
}

#[test]
fn a_pod_of_ours_is_released_behind_one_that_cannot_be() {
    let mut world = TextCluster::of(
        "node a gpu=1; pod x gpu=1 owner=Job:j; pod other gpu=1 scheduler=other; pod y gpu=1 owner=Job:k",
    );
    show(&mut world, &["x", "other", "y"], "a");
    assert_snapshot!(decide_later(&mut world), @"y: release y");
}

#[test]
fn our_own_bind_in_flight_counts_after_the_observed_one() {
    let mut world = TextCluster::of("node a gpu=1; pod ours gpu=1 owner=Job:j");
    assert_snapshot!(world.decide(), @"ours: bind ours to a");
    world.apply("pod theirs gpu=1 owner=Job:k");
    show(&mut world, &["theirs", "ours"], "a");
    assert_snapshot!(decide_later(&mut world), @"ours: release ours");
}

#[test]
fn a_node_can_be_overcommitted_by_the_number_of_pods() {
    let mut world = TextCluster::of("node a pods=2; pods p 3 owner=Job:j");
    show(&mut world, &["p-1", "p-2", "p-0"], "a");
    assert_snapshot!(decide_later(&mut world), @"p-0: release p-0");
}

#[test]
fn of_two_gangs_bound_at_once_the_first_to_start_stays_whole() {
    let mut world = TextCluster::of("node a gpu=4; group red gang minCount=4; group blue gang minCount=4");
    world.apply("pods red 4 gpu=1 group=red owner=Job:r; pods blue 4 gpu=1 group=blue owner=Job:b");
    for number in 0..4 {
        for gang in ["blue", "red"] {
            let second = if gang == "blue" { 3 } else { 4 };
            world.change_pod(&format!("{gang}-{number}"), |pod| {
                pod["spec"]["nodeName"] = json!("a");
                let bound = json!({"type": "PodScheduled", "status": "True"});
                pod["status"]["conditions"] = json!([bound]);
                let at = format!("2026-01-01T00:00:0{second}Z");
                pod["status"]["conditions"][0]["lastTransitionTime"] = json!(at);
            });
        }
    }
    // By the order of binds half of each gang would be released, and neither could work.
    assert_snapshot!(decide_later(&mut world), @"
    red-3: release red-3
    red-2: release red-2
    red-1: release red-1
    red-0: release red-0
    ");
}

#[test]
fn a_resource_that_the_profile_ignores_is_not_overcommitted() {
    let mut profile = Profile::default();
    profile.args.fit =
        FitArgs { ignored_resource_groups: BTreeSet::from(["nvidia.com".to_owned()]), ..FitArgs::default() };
    let config = Config { profiles: vec![profile], ..Config::default() };
    let mut world = TextCluster::with(config, "node a gpu=1; pods p 2 gpu=1 owner=Job:j");
    show(&mut world, &["p-0", "p-1"], "a");
    assert_eq!(decide_later(&mut world), "");
}

#[test]
fn without_the_setting_no_pod_is_released() {
    let config = Config { overcommit_after: None, ..Config::default() };
    let mut world = TextCluster::with(config, "node a gpu=1; pods p 2 gpu=1 owner=Job:j");
    show(&mut world, &["p-0", "p-1"], "a");
    assert_eq!(decide_later(&mut world), "");
}

/// A step of a generated history.
#[derive(Clone, Debug)]
enum OvercommitStep {
    Node {
        name: u8,
        gpu: u8,
        pods: u8,
    },
    /// Another component binds a new pod, whether it fits or not.
    Bind {
        node: u8,
        gpu: u8,
        gang: Option<u8>,
        origin: PodOrigin,
    },
    Leave {
        pod: u8,
    },
    Delete {
        pod: u8,
    },
    /// Time passes, and released pods are deleted.
    Pass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodOrigin {
    Ours,
    Unmanaged,
    Others,
}

fn steps() -> impl Strategy<Value = Vec<OvercommitStep>> {
    let origin = prop_oneof![6 => Just(PodOrigin::Ours), 1 => Just(PodOrigin::Unmanaged), 1 => Just(PodOrigin::Others)];
    let step = prop_oneof![
        2 => (0..3u8, 0..6u8, 1..6u8).prop_map(|(name, gpu, pods)| OvercommitStep::Node { name, gpu, pods }),
        8 => (0..3u8, 0..3u8, prop::option::weighted(0.4, 0..2u8), origin)
        .prop_map(|(node, gpu, gang, origin)| OvercommitStep::Bind { node, gpu, gang, origin }),
        1 => any::<u8>().prop_map(|pod| OvercommitStep::Leave { pod }),
        2 => any::<u8>().prop_map(|pod| OvercommitStep::Delete { pod }),
        2 => Just(OvercommitStep::Pass),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Clone, Debug)]
struct OvercommitPod {
    node: String,
    gpu: i64,
    gang: Option<u8>,
    origin: PodOrigin,
    leaving: bool,
    /// It did not fit beside the pods that were on the node when it was bound.
    overcommitted: bool,
}

struct OvercommitRun {
    world: TextCluster,
    nodes: BTreeMap<String, (i64, i64)>,
    pods: BTreeMap<String, OvercommitPod>,
    created_count: usize,
}

impl OvercommitRun {
    fn of(steps: &[OvercommitStep]) -> OvercommitRun {
        let world = TextCluster::of("group g0 gang minCount=2; group g1 gang minCount=3");
        let mut run = OvercommitRun { world, nodes: BTreeMap::new(), pods: BTreeMap::new(), created_count: 0 };
        steps.iter().for_each(|step| run.apply(step));
        run.apply(&OvercommitStep::Pass);
        run
    }

    fn apply(&mut self, step: &OvercommitStep) {
        let nth = |number: u8, pods: &BTreeMap<String, OvercommitPod>| {
            pods.keys().nth(usize::from(number) % pods.len().max(1)).cloned()
        };
        match step {
            OvercommitStep::Node { name, gpu, pods } => {
                self.nodes.insert(format!("n{name}"), (i64::from(*gpu), i64::from(*pods)));
                self.world.apply(&format!("node n{name} gpu={gpu} pods={pods}"));
            }
            OvercommitStep::Bind { node, gpu, gang, origin } => {
                self.bind(&format!("n{node}"), i64::from(*gpu), *gang, *origin)
            }
            OvercommitStep::Leave { pod } => {
                if let Some(name) = nth(*pod, &self.pods) {
                    self.pods.get_mut(&name).unwrap().leaving = true;
                    let deleted = json!("2026-01-01T00:00:00Z");
                    self.world.change_pod(&name, |pod| pod["metadata"]["deletionTimestamp"] = deleted);
                }
            }
            OvercommitStep::Delete { pod } => {
                if let Some(name) = nth(*pod, &self.pods) {
                    self.pods.remove(&name);
                    self.world.delete(&name);
                }
            }
            OvercommitStep::Pass => self.pass(),
        }
    }

    fn bind(&mut self, node: &str, gpu: i64, gang: Option<u8>, origin: PodOrigin) {
        if !self.nodes.contains_key(node) {
            return;
        }
        self.created_count += 1;
        let name = format!("p{:03}", self.created_count);
        let owner = if origin == PodOrigin::Unmanaged { "" } else { "owner=Job:j" };
        let scheduler = if origin == PodOrigin::Others { "scheduler=other" } else { "" };
        let group = gang.map(|gang| format!("group=g{gang}")).unwrap_or_default();
        self.world.apply(&format!("pod {name} gpu={gpu} {owner} {scheduler} {group}"));
        let overcommitted = self.exceeds(node, gpu, |_| true);
        self.pods.insert(
            name.clone(),
            OvercommitPod { node: node.to_owned(), gpu, gang, origin, leaving: false, overcommitted },
        );
        self.world.show_bound(&name, node);
    }

    /// Whether one more pod does not fit beside those of the node that count.
    fn exceeds(&self, node: &str, gpu: i64, counts: impl Fn(&OvercommitPod) -> bool) -> bool {
        let (gpus, pods) = self.nodes[node];
        let on: Vec<&OvercommitPod> = self.pods.values().filter(|pod| pod.node == node && counts(pod)).collect();
        let used: i64 = on.iter().map(|pod| pod.gpu).sum();
        on.len() as i64 + 1 > pods || (gpu > 0 && used + gpu > gpus)
    }

    fn pass(&mut self) {
        let mut released = Vec::new();
        for pause in [Duration::ZERO, PAUSE] {
            self.world.now += pause;
            while let Some(decision) = self.world.core.next(self.world.now) {
                let DecisionAction::Release(release) = decision.action else { continue };
                if matches!(release.reason, ReleaseReason::Overcommit(_)) {
                    released.push(release.pods[0].pod.name.clone());
                }
            }
        }
        let candidates = self.candidates();
        let mut deleted = BTreeMap::new();
        for name in &released {
            assert!(candidates.contains(name), "{name} was bound within the capacity");
            deleted.insert(name.clone(), self.pods.remove(name).expect("a pod is released once"));
            self.world.delete(name);
        }
        for (name, pod) in &deleted {
            assert!(self.exceeds(&pod.node, pod.gpu, |pod| !pod.leaving), "{name} could have stayed");
        }
        for name in candidates.iter().filter(|name| !deleted.contains_key(*name)) {
            let pod = self.pods.remove(name).unwrap();
            assert!(!self.exceeds(&pod.node, pod.gpu, |pod| !pod.leaving), "{name} stays but does not fit");
            self.pods.insert(name.clone(), pod);
        }
        // Pods that may stay now stay.
        self.pods.values_mut().for_each(|pod| pod.overcommitted = false);
        self.world.core.assert_consistent();
    }

    /// Pods that may have to leave: those bound beyond the capacity, and all pods of their gangs on that node.
    fn candidates(&self) -> BTreeSet<String> {
        let ours = |pod: &OvercommitPod| pod.origin == PodOrigin::Ours && !pod.leaving;
        let is_surplus = |pod: &&OvercommitPod| pod.overcommitted && pod.origin == PodOrigin::Ours;
        let gangs: BTreeSet<(&str, u8)> =
            self.pods.values().filter(is_surplus).filter_map(|pod| Some((&*pod.node, pod.gang?))).collect();
        let is_candidate =
            |pod: &OvercommitPod| pod.overcommitted || pod.gang.is_some_and(|gang| gangs.contains(&(&*pod.node, gang)));
        let candidates = self.pods.iter().filter(|(_, pod)| ours(pod) && is_candidate(pod));
        candidates.map(|(name, _)| name.clone()).collect()
    }
}

proptest! {
    #![proptest_config(property_config(300))]

    /// A released pod was bound beyond the capacity (or its gang was) and does not fit. A pod bound beyond the
    /// capacity that stays fits.
    #[test]
    fn exactly_the_pods_that_do_not_fit_are_released(steps in steps()) {
        OvercommitRun::of(&steps);
    }
}
