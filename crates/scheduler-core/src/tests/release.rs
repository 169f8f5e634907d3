//! Half-bound gangs, as after a crash between two binds: completed, or released.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;

use super::property_config::property_config;
use super::text_cluster::TextCluster;
use crate::{Config, DecisionAction, ReleaseReason};

const PAUSE: Duration = Duration::from_secs(15);

#[test]
fn a_half_bound_gang_is_completed_if_possible() {
    let mut world = TextCluster::of(
        "node a gpu=4; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4; pods h 2 group=g gpu=1 owner=Job:j",
    );
    assert_snapshot!(world.decide_and_bind(), @"g: bind h-0 to a, h-1 to a");
    world.now += 10 * PAUSE;
    assert_eq!(world.decide(), "");
}

#[test]
fn a_half_bound_gang_that_cannot_be_completed_is_released() {
    let mut world = TextCluster::of(
        "node a gpu=3; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4; pods h 2 group=g gpu=1 owner=Job:j",
    );
    assert!(world.decide().starts_with("g: wait"));
    assert_eq!(world.core.next_at(), Some(world.now + PAUSE));
    world.now += PAUSE;
    assert_snapshot!(world.decide(), @"g: release g-0, g-1");
    assert_eq!(world.decide(), "", "once");
    world.apply("delete g-0; delete g-1; pods i 2 group=g gpu=1 owner=Job:j");
    assert_snapshot!(world.decide(), @"g: wait (gang of 4 does not fit: 3 of 4 pods fit (1 more needed; Insufficient nvidia.com/gpu on 1 of 1 nodes))");
    world.now += 2 * PAUSE;
    assert_eq!(world.decide(), "");
}

// Releases came after all decisions, so a busy queue kept a half-bound gang on its nodes.
#[test]
fn a_release_does_not_wait_behind_decisions() {
    let mut world = TextCluster::of(
        "node a gpu=3; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4; pods h 2 group=g gpu=1 owner=Job:j",
    );
    world.decide();
    world.now += PAUSE;
    world.apply("pods small 3 priority=10 gpu=1");
    assert_snapshot!(world.decide().lines().next().unwrap(), @"g: release g-0, g-1");
}

// A gang that was woken again and again was never released.
#[test]
fn a_half_bound_gang_that_is_woken_and_still_does_not_fit_is_released_at_once() {
    let mut world = TextCluster::of(
        "node a gpu=5; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=5; pods h 3 group=g gpu=1 owner=Job:j;
         pod used node=a gpu=3",
    );
    world.decide();
    world.now += PAUSE;
    // It is woken, and then another scheduler uses a part of the room.
    world.apply("delete used; pod other node=a gpu=1; pods small 1 priority=10 gpu=1");
    let decided = world.decide();
    assert!(decided.starts_with("g: release"), "{decided}");
}

#[test]
fn a_half_bound_gang_that_can_be_completed_now_is_not_released() {
    let mut world = TextCluster::of(
        "node a gpu=3; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4; pods h 2 group=g gpu=1 owner=Job:j",
    );
    world.decide();
    world.now += PAUSE;
    world.apply("node b gpu=1");
    assert_snapshot!(world.decide(), @"g: bind h-0 to a, h-1 to b");
}

#[test]
fn a_half_bound_gang_without_the_rest_of_its_pods_is_released() {
    let mut world = TextCluster::of(
        "node a gpu=3; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4; pod h group=g gpu=1 owner=Job:j",
    );
    assert_eq!(world.decide(), "");
    world.now += PAUSE;
    assert_snapshot!(world.decide(), @"
    g: release g-0, g-1
    g: wait (waiting for pods: 3 of minCount 4 exist)
    ");
}

#[test]
fn a_gang_that_once_had_its_min_count_keeps_its_pods() {
    for later in ["OnceSatisfied", "AlwaysMin"] {
        let mut world = TextCluster::of(&format!(
            "node a gpu=2; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4 placed=True later={later}"
        ));
        world.apply("pods h 2 group=g gpu=1 owner=Job:j");
        world.decide();
        world.now += 10 * PAUSE;
        assert!(!world.decide().contains("release"), "{later}");
    }
}

#[test]
fn a_gang_observed_with_its_quorum_keeps_its_pods_before_the_condition_says_so() {
    let mut world = TextCluster::of("node a gpu=3; group g gang minCount=3 pods=3 gpu=1 owner=Job:j");
    world.decide_and_bind();
    world.apply("delete g-0; pod other node=a gpu=1; pod h group=g gpu=1 owner=Job:j");
    world.decide();
    world.now += 10 * PAUSE;
    assert!(!world.decide().contains("release"));
}

#[test]
fn a_running_gang_keeps_its_pods_when_a_new_core_has_not_observed_its_quorum() {
    // The condition was not written yet, a member is gone with its node, and its replacement does not fit.
    let gang = "node a gpu=2; pods g 2 node=a group=g gpu=1 owner=Job:j created=10; group g gang minCount=3;";
    for (replacement, released) in [
        ("", false),
        ("pod h group=g gpu=1 owner=Job:j created=20", false),
        // This pod was pending when the others started: the gang is half bound.
        ("pod h group=g gpu=1 owner=Job:j created=10", true),
    ] {
        let mut world = TextCluster::of(&format!("{gang} {replacement}"));
        world.apply("start g-0 at=11; start g-1 at=12");
        world.decide();
        world.now += PAUSE;
        assert_eq!(world.decide().contains("release"), released, "{replacement}");
        world.now += 10 * PAUSE;
        assert_eq!(world.decide().contains("release"), released, "{replacement}, later");
    }
}

// The condition was not written yet when a node and the scheduler died.
#[test]
fn a_running_gang_keeps_its_pods_after_a_failover_although_its_node_died() {
    let gang = "node a gpu=2; node b gpu=2; group g gang minCount=3;
        pods g 2 node=a group=g gpu=1 owner=Job:j created=10; pod h node=b group=g gpu=1 owner=Job:j created=10";
    let start = "start g-0 at=11; start g-1 at=12; start h at=13";
    for (case, before, after) in [
        ("its pod is still there", "drop b", ""),
        ("its pod is deleted later", "drop b", "delete h"),
        ("its pod is replaced later", "drop b", "delete h; pod i group=g gpu=1 owner=Job:j created=20"),
        ("its pod is gone", "drop b; delete h", ""),
        ("its pod is replaced", "drop b; delete h; pod i group=g gpu=1 owner=Job:j created=20", ""),
        (
            "the larger part is replaced",
            "drop a; delete g-0; delete g-1; pods i 2 group=g gpu=2 owner=Job:j created=20",
            "",
        ),
        ("the node dies later", "", "drop b; delete h; pod i group=g gpu=1 owner=Job:j created=20"),
        ("another one succeeded", "finish g-0 at=15; drop b; delete h; pod i group=g gpu=2 owner=Job:j created=20", ""),
        // The condition is that of an earlier run.
        (
            "in a later run",
            "group g gang minCount=3 placed=True; drop b; delete h; pod i group=g gpu=1 owner=Job:j created=20",
            "",
        ),
    ] {
        let mut world = TextCluster::of(gang);
        world.apply(start);
        world.apply(before);
        world.fail_over();
        let mut decided = world.decide();
        world.apply(after);
        for _ in 0..20 {
            decided += &world.decide();
            world.now += PAUSE;
        }
        assert!(!decided.contains("release"), "{case}: {decided}");
        // The missing member joins the others when there is room.
        world.apply("node c gpu=4");
        let joins = world.pods.contains_key("i") || world.pods.contains_key("i-0");
        assert_eq!(world.decide().contains("g: bind i"), joins, "{case}");
    }
}

#[test]
fn a_basic_group_is_never_released() {
    let mut world = TextCluster::of(
        "node a gpu=1; pod g node=a group=g gpu=1 owner=Job:j; group g basic; pods h 2 group=g gpu=1 owner=Job:j",
    );
    world.decide();
    world.now += 10 * PAUSE;
    assert!(!world.decide().contains("release"));
}

#[test]
fn a_release_waits_for_binds_in_flight() {
    let mut world = TextCluster::of("node a gpu=4; group g gang minCount=3 pods=3 gpu=1 owner=Job:j");
    world.decide();
    // One bind failed, and its capacity is used before it can be tried again.
    world.apply("fail g-0; pods other 2 node=a gpu=1");
    world.decide();
    world.now += PAUSE;
    let decided = world.decide();
    assert!(!decided.contains("release"), "{decided}");
    world.show_bound("g-1", "a");
    world.show_bound("g-2", "a");
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"g: release g-1, g-2");
}

#[test]
fn a_release_does_not_wait_forever_for_binds_in_flight() {
    let mut world = TextCluster::of("node a gpu=4; group g gang minCount=3 pods=3 gpu=1 owner=Job:j");
    world.decide();
    world.apply("fail g-0; pods other 2 node=a gpu=1");
    world.decide();
    world.now += PAUSE;
    assert!(!world.decide().contains("release"));
    // One of two binds ends: the other may be next.
    world.now += Duration::from_secs(29);
    world.show_bound("g-1", "a");
    let decided = world.decide();
    assert!(!decided.contains("release"), "{decided}");
    world.now += Duration::from_secs(29);
    assert!(!world.decide().contains("release"));
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"g: release g-1, g-2");
}

#[test]
fn without_the_setting_nothing_is_released() {
    let mut world = TextCluster::with(
        Config { release_after: None, ..Config::default() },
        "node a gpu=3; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4; pods h 2 group=g gpu=1 owner=Job:j",
    );
    world.decide();
    world.now += 100 * PAUSE;
    assert!(!world.decide().contains("release"));
}

#[test]
fn pods_without_a_controller_stay() {
    let mut world =
        TextCluster::of("node a gpu=3; pods g 2 node=a group=g gpu=1; group g gang minCount=4; pods h 2 group=g gpu=1");
    world.decide();
    world.now += 10 * PAUSE;
    assert!(!world.decide().contains("release"));
}

#[test]
fn only_pods_of_our_own_groups_are_released_if_so_configured() {
    let text = "node a gpu=3; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4";
    for (maker, want) in [("", ""), (" maker=job-controller", "g: release g-0, g-1"), (" maker=another", "")] {
        let config = Config { release_only_ours: true, ..Config::default() };
        let mut world = TextCluster::with(config, &format!("{text}{maker}; pods h 2 group=g gpu=1 owner=Job:j"));
        world.decide();
        world.now += PAUSE;
        assert_eq!(world.decide(), want, "{maker}");
    }
}

/// A step of a generated history of gangs.
#[derive(Clone, Debug)]
enum ReleaseStep {
    /// A node with this number of GPUs.
    Node {
        name: u8,
        gpu: u8,
    },
    /// A gang with pending pods, and with pods bound by a scheduler that crashed.
    Gang {
        min_count: u8,
        bound: u8,
        waiting: u8,
        gpu: u8,
        had_quorum: bool,
    },
    /// A pod of another owner uses capacity.
    Other {
        node: u8,
    },
    Delete {
        pod: u8,
    },
    /// The next binds of this gang fail.
    Fail {
        gang: u8,
    },
    Pass {
        seconds: u8,
    },
}

fn steps() -> impl Strategy<Value = Vec<ReleaseStep>> {
    let gang = (1..5u8, 0..4u8, 0..5u8, 1..3u8, prop::bool::weighted(0.2));
    let step = prop_oneof![
        2 => (0..3u8, 0..6u8).prop_map(|(name, gpu)| ReleaseStep::Node { name, gpu }),
        4 => gang.prop_map(|(min_count, bound, waiting, gpu, had_quorum)| {
            ReleaseStep::Gang { min_count, bound, waiting, gpu, had_quorum }
        }),
        1 => (0..3u8).prop_map(|node| ReleaseStep::Other { node }),
        2 => any::<u8>().prop_map(|pod| ReleaseStep::Delete { pod }),
        1 => any::<u8>().prop_map(|gang| ReleaseStep::Fail { gang }),
        4 => (0..20u8).prop_map(|seconds| ReleaseStep::Pass { seconds }),
    ];
    prop::collection::vec(step, 1..40)
}

struct Gang {
    min_count: usize,
    /// It has had its quorum since its first pod was bound.
    had_quorum: bool,
    fails: bool,
}

/// A plain model of the gangs; pods with their gang, and whether they are bound.
struct ReleaseRun {
    world: TextCluster,
    gangs: BTreeMap<String, Gang>,
    pods: BTreeMap<String, (String, bool)>,
    created_count: usize,
}

impl ReleaseRun {
    fn of(steps: &[ReleaseStep]) -> ReleaseRun {
        let (gangs, pods) = (BTreeMap::new(), BTreeMap::new());
        let config = Config { overcommit_after: None, reserve_after: None, ..Config::default() };
        let mut run = ReleaseRun { world: TextCluster::with(config, ""), gangs, pods, created_count: 0 };
        steps.iter().for_each(|step| run.apply(step));
        run
    }

    fn apply(&mut self, step: &ReleaseStep) {
        match step {
            ReleaseStep::Node { name, gpu } => self.world.apply(&format!("node n{name} gpu={gpu}")),
            ReleaseStep::Gang { min_count, bound, waiting, gpu, had_quorum } => {
                self.created_count += 1;
                let (name, min_count) = (format!("g{:02}", self.created_count), usize::from(*min_count));
                let placed = if *had_quorum { " placed=True" } else { "" };
                let pods = format!("group={name} gpu={gpu} owner=Job:{name}");
                self.world.apply(&format!("group {name} gang minCount={min_count}{placed} owner=Job:{name}"));
                self.world.apply(&format!("pods {name}-b {bound} node=n0 {pods}; pods {name}-w {waiting} {pods}"));
                (0..*bound).for_each(|n| drop(self.pods.insert(format!("{name}-b-{n}"), (name.clone(), true))));
                (0..*waiting).for_each(|n| drop(self.pods.insert(format!("{name}-w-{n}"), (name.clone(), false))));
                let had_quorum = *had_quorum || usize::from(*bound) >= min_count;
                self.gangs.insert(name, Gang { min_count, had_quorum, fails: false });
            }
            ReleaseStep::Other { node } => {
                self.created_count += 1;
                self.world.apply(&format!("pod other{} gpu=1 node=n{node}", self.created_count));
            }
            ReleaseStep::Delete { pod } => {
                let name = self.pods.keys().nth(usize::from(*pod) % self.pods.len().max(1)).cloned();
                name.into_iter().for_each(|name| self.delete(&name));
            }
            ReleaseStep::Fail { gang } => {
                let at = usize::from(*gang) % self.gangs.len().max(1);
                self.gangs.values_mut().nth(at).into_iter().for_each(|gang| gang.fails = true);
            }
            ReleaseStep::Pass { seconds } => {
                self.world.now += Duration::from_secs(u64::from(*seconds));
                self.decide();
            }
        }
    }

    fn delete(&mut self, name: &str) {
        self.pods.remove(name);
        self.world.delete(name);
    }

    fn bound(&self, gang: &str) -> BTreeSet<String> {
        let bound = self.pods.iter().filter(|(_, (of, bound))| of == gang && *bound);
        bound.map(|(name, _)| name.clone()).collect()
    }

    /// Whether the gang has its quorum for the first time.
    fn note_quorum(&mut self, gang: &str) -> bool {
        let bound = self.bound(gang).len();
        let gang = self.gangs.get_mut(gang).unwrap();
        bound >= gang.min_count && !std::mem::replace(&mut gang.had_quorum, true)
    }

    fn decide(&mut self) {
        while let Some(decision) = self.world.core.next(self.world.now) {
            let gang = decision.unit.key().name.clone();
            if matches!(decision.action, DecisionAction::Bind(_)) && self.bound(&gang).is_empty() {
                // A new start: that an earlier one reached the minCount does not count for it.
                self.gangs.get_mut(&gang).unwrap().had_quorum = false;
            }
            match &decision.action {
                DecisionAction::Wait(_) => {}
                DecisionAction::Bind(placements) if std::mem::take(&mut self.gangs.get_mut(&gang).unwrap().fails) => {
                    // All but the first are refused.
                    let (first, rest) = placements.split_first().unwrap();
                    self.world.show_bound(&first.pod.name, &first.node);
                    self.pods.get_mut(&first.pod.name).unwrap().1 = true;
                    rest.iter().for_each(|refused| self.world.settle_failed(&refused.pod.name));
                    self.note_quorum(&gang);
                }
                DecisionAction::Bind(placements) => {
                    self.world.bind(&decision);
                    placements.iter().for_each(|placement| self.pods.get_mut(&placement.pod.name).unwrap().1 = true);
                    if self.note_quorum(&gang) {
                        let min_count = self.gangs[&gang].min_count;
                        let text = format!("group {gang} gang minCount={min_count} placed=True owner=Job:{gang}");
                        self.world.apply(&text);
                    }
                }
                DecisionAction::Release(release) => {
                    let ReleaseReason::HalfBound { min_count } = release.reason else { panic!("{release:?}") };
                    let released: BTreeSet<String> =
                        release.pods.iter().map(|member| member.pod.name.clone()).collect();
                    assert!(!self.gangs[&gang].had_quorum, "{gang} had its minCount");
                    assert_eq!(released, self.bound(&gang), "all of {gang} or nothing");
                    assert!(released.len() < min_count && min_count == self.gangs[&gang].min_count);
                    released.iter().for_each(|name| self.delete(name));
                }
            }
        }
        self.world.core.assert_consistent();
    }
}

proptest! {
    #![proptest_config(property_config(300))]

    /// Only a gang that has not had its minCount in this start is released, and then all of it. In the end no gang is
    /// half bound.
    #[test]
    fn a_gang_that_never_had_its_quorum_ends_with_it_or_without_any_pod(steps in steps()) {
        let mut run = ReleaseRun::of(&steps);
        (0..3).for_each(|_| run.apply(&ReleaseStep::Pass { seconds: 16 }));
        for (name, gang) in run.gangs.iter().filter(|(_, gang)| !gang.had_quorum) {
            let bound = run.bound(name).len();
            prop_assert!(bound == 0 || bound >= gang.min_count, "{name} has {bound} of {} pods", gang.min_count);
        }
    }
}

// The start that the core had observed was taken for that of the new PodGroup, and the running pods were released.
#[test]
fn a_running_gang_is_not_released_when_its_pod_group_is_deleted_and_created_again() {
    let mut world = TextCluster::of("node a gpu=3; group g gang minCount=3 pods=3 gpu=1 created=10 owner=Job:j");
    world.decide_and_bind();
    world.apply("start g-0 at=20; start g-1 at=20; delete g-2; pod other gpu=1 node=a");
    world.apply("pod g-3 group=g gpu=1 created=30 owner=Job:j");
    world.decide();
    world.forget_group("g");
    world.apply("group g gang minCount=3");
    for _ in 0..3 {
        let decided = world.decide();
        assert!(!decided.contains("release"), "{decided}");
        world.now += PAUSE;
    }
}

// Terminating members of the start before counted as bound.
#[test]
fn a_start_beside_terminating_members_that_is_half_bound_is_released() {
    let mut world = TextCluster::of("node a gpu=6; group g gang minCount=3 pods=3 gpu=1 owner=Job:j");
    world.decide_and_bind();
    for name in ["g-0", "g-1", "g-2"] {
        world.change_pod(name, |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    }
    world.apply("pods n 3 group=g gpu=1 owner=Job:j");
    assert_eq!(world.decide(), "g: bind n-0 to a, n-1 to a, n-2 to a");
    world.show_bound("n-0", "a");
    world.show_bound("n-1", "a");
    world.apply("fail n-2; pod other node=a gpu=1");
    world.now += 2 * PAUSE;
    world.decide();
    world.now += PAUSE;
    assert_snapshot!(world.decide(), @"g: release n-0, n-1");
}

#[test]
fn a_gang_with_bound_pods_of_another_owner_that_is_half_bound_is_released() {
    // The pods are observed before their group, so that all of them seem to be members.
    let mut world = TextCluster::of(
        "node a gpu=2; pod theirs group=g gpu=1 owner=Job:b; pod own node=a group=g gpu=1 owner=Job:a; pod other node=a group=g gpu=1 owner=Job:b;
         group g gang minCount=2 owner=Job:a; pod late group=g gpu=1 owner=Job:a",
    );
    world.decide();
    world.now += PAUSE;
    assert_snapshot!(world.decide(), @"g: release own");
}

// Its quorum was noted only with the next change of a member, which was its loss.
#[test]
fn a_running_gang_whose_group_got_its_owner_late_keeps_its_pods() {
    let mut world = TextCluster::of(
        "node a gpu=2; group g gang minCount=2 owner=Job:z; pods g 2 node=a group=g gpu=1 owner=Job:a;
         group g gang minCount=2 owner=Job:a; delete g-0; pod other node=a gpu=1; pod h group=g gpu=1 owner=Job:a",
    );
    world.decide();
    world.now += PAUSE;
    assert_eq!(world.decide(), "");
}

// Its quorum was noted only with the next change of a member, by the minCount of then.
#[test]
fn a_gang_whose_succeeded_members_are_its_quorum_keeps_its_last_pod_when_its_min_count_grows() {
    let mut world =
        TextCluster::of("node a gpu=2; group g gang minCount=1; pod g-0 group=g gpu=1 owner=Job:j created=10");
    world.decide_and_bind();
    world.apply("finish g-0 at=20; pod g-1 group=g gpu=1 owner=Job:j created=15");
    assert_eq!(world.decide(), "g: bind g-1 to a");
    world.apply("group g gang minCount=3");
    world.show_bound("g-1", "a");
    world.decide();
    world.now += 10 * PAUSE;
    assert_eq!(world.decide(), "");
}
