//! Extreme numbers and names that users may write.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};
use types::views::{NodeView, ObjectKey, PodView, View};

use super::property_config::property_config;
use super::text_cluster::TextCluster;
use crate::{Config, Profile, Survey, Unit};

/// Amounts, some of which overflow 64-bit sums.
const AMOUNTS: [&str; 8] = ["0", "1", "3Gi", "1Ei", "2Ei", "5Ei", "100Ei", "9223372036854775807"];

/// Requested or allocatable CPU, memory and GPUs, by position in [`AMOUNTS`].
type Triple = (usize, usize, usize);

#[derive(Clone, Debug)]
enum ExtremeStep {
    Node {
        name: u8,
        has: Triple,
        pods: usize,
    },
    /// With a node it is bound already, whether it fits or not.
    Pod {
        node: Option<u8>,
        requests: Triple,
        group: Option<u8>,
    },
    /// Another component binds a pod.
    Bind {
        pod: usize,
        node: u8,
    },
    Delete {
        pod: usize,
    },
    DropNode {
        name: u8,
    },
    Decide,
}

fn steps() -> impl Strategy<Value = Vec<ExtremeStep>> {
    let amount = || 0..AMOUNTS.len();
    let amounts = || (amount(), amount(), amount());
    let step = prop_oneof![
        2 => (0..3u8, amounts(), amount()).prop_map(|(name, has, pods)| ExtremeStep::Node { name, has, pods }),
        6 => (prop::option::weighted(0.6, 0..3u8), amounts(), prop::option::weighted(0.4, 0..2u8))
            .prop_map(|(node, requests, group)| ExtremeStep::Pod { node, requests, group }),
        3 => (0..64usize, 0..3u8).prop_map(|(pod, node)| ExtremeStep::Bind { pod, node }),
        2 => (0..64usize).prop_map(|pod| ExtremeStep::Delete { pod }),
        1 => (0..3u8).prop_map(|name| ExtremeStep::DropNode { name }),
        3 => Just(ExtremeStep::Decide),
    ];
    prop::collection::vec(step, 1..40)
}

fn amounts_text((cpu, memory, gpu): Triple) -> String {
    format!("cpu={} memory={} gpu={}", AMOUNTS[cpu], AMOUNTS[memory], AMOUNTS[gpu])
}

struct ExtremeRun {
    world: TextCluster,
    nodes: BTreeSet<u8>,
    created_count: usize,
}

impl ExtremeRun {
    fn apply(&mut self, step: &ExtremeStep) {
        match step {
            ExtremeStep::Node { name, has, pods } => {
                self.nodes.insert(*name);
                let (has, pods) = (amounts_text(*has), AMOUNTS[*pods]);
                self.world.apply(&format!("node n{name} {has} pods={pods} rack=r{}", name % 2));
            }
            ExtremeStep::Pod { node, requests, group } => {
                self.created_count += 1;
                let node = node.map(|node| format!("node=n{node}")).unwrap_or_default();
                let group = group.map(|group| format!("group=g{group}")).unwrap_or_default();
                let requests = amounts_text(*requests);
                self.world.apply(&format!("pod p{:02} {requests} {node} {group} owner=Job:j", self.created_count));
            }
            ExtremeStep::Bind { pod, node } => {
                if let Some(name) = self.nth(*pod) {
                    self.world.show_bound(&name, &format!("n{node}"));
                }
            }
            ExtremeStep::Delete { pod } => {
                if let Some(name) = self.nth(*pod) {
                    self.world.delete(&name);
                }
            }
            ExtremeStep::DropNode { name } => {
                if self.nodes.remove(name) {
                    self.world.apply(&format!("drop n{name}"));
                }
            }
            ExtremeStep::Decide => self.decide(),
        }
        self.world.core.assert_consistent();
    }

    fn nth(&self, pod: usize) -> Option<String> {
        self.world.pods.keys().nth(pod % self.world.pods.len().max(1)).cloned()
    }

    /// Decides, and runs every query.
    fn decide(&mut self) {
        self.world.now += std::time::Duration::from_secs(20);
        self.world.decide_and_bind();
        self.world.core.cache_placement_reports(self.world.now, usize::MAX);
        self.world.core.find_remedies(self.world.now, usize::MAX);
        let pods = self.world.pods.keys().map(|name| Unit::Pod(ObjectKey::new("ns", name.as_str())));
        let groups = ["g0", "g1"].map(|name| Unit::Group(ObjectKey::new("ns", name)));
        let placed: Vec<_> = self.world.pods.values().cloned().collect();
        for unit in pods.chain(groups).collect::<Vec<_>>() {
            let explanation = self.world.core.explain(&unit, &placed);
            explanation.iter().for_each(|explanation| drop(explanation.lines()));
        }
    }
}

proptest! {
    #![proptest_config(property_config(200))]

    #[test]
    fn no_amount_crashes_the_core_and_all_sums_return_to_zero(steps in steps()) {
        let world = TextCluster::of("group g0 gang minCount=2; group g1 gang minCount=2 key=rack");
        let mut run = ExtremeRun { world, nodes: BTreeSet::new(), created_count: 0 };
        steps.iter().for_each(|step| run.apply(step));
        run.apply(&ExtremeStep::Decide);
        for name in run.world.pods.keys().cloned().collect::<Vec<_>>() {
            run.world.delete(&name);
        }
        run.world.core.assert_consistent();
        (0..3).for_each(|name| run.apply(&ExtremeStep::DropNode { name }));
    }
}

#[test]
fn pods_with_overflowing_requests_leave_their_node_as_it_was() {
    // Two of them on one node by its name crashed the process, and again after each start.
    let mut world = TextCluster::of("node a cpu=4 memory=8Gi; node b cpu=4 memory=1Gi");
    world.apply("pods huge 9 node=a cpu=100E memory=5Ei; pod small cpu=1 memory=2Gi; pod none");
    assert_snapshot!(world.decide_and_bind(), @"
    small: wait (0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient memory.)
    none: bind none to b
    ");
    (0..9).for_each(|number| world.delete(&format!("huge-{number}")));
    assert_snapshot!(world.decide(), @"small: bind small to a");
    world.core.assert_consistent();
}

#[test]
fn pods_bound_elsewhere_with_overflowing_requests_are_released() {
    let mut world =
        TextCluster::of("node a memory=8Gi; pods huge 6 memory=5Ei owner=Job:j; pod small memory=1Gi owner=Job:j");
    (0..6).for_each(|number| world.show_bound(&format!("huge-{number}"), "a"));
    world.show_bound("small", "a");
    world.decide();
    world.now += std::time::Duration::from_secs(10);
    assert_snapshot!(world.decide(), @"
    huge-5: release huge-5
    huge-4: release huge-4
    huge-3: release huge-3
    huge-2: release huge-2
    huge-1: release huge-1
    huge-0: release huge-0
    ");
}

#[test]
fn the_end_of_pods_with_overflowing_requests_is_a_remedy() {
    let mut world = TextCluster::of("node a memory=8Gi; group g basic; pods huge 6 node=a group=g memory=5Ei");
    world.apply("group h gang minCount=1 pods=1 memory=2Gi");
    world.decide();
    let remedies = world.core.find_remedies(world.now, 1).remove(0).1.unwrap().remedies;
    let crate::RemedyStatus::Found(report) = remedies else { panic!("no remedies") };
    let texts: Vec<_> = report.remedies.iter().map(crate::Remedy::text).collect();
    assert_snapshot!(texts.join("; "), @"wait for podgroup ns/g (6 pods); add 1 node like a");
}

#[test]
fn a_pod_that_requests_the_maximum_fits_nowhere() {
    let mut world = TextCluster::of("node a memory=100Ei; pod some memory=1Ei; pod huge memory=5Ei");
    assert_snapshot!(world.decide(), @"
    some: bind some to a
    huge: wait (0/1 nodes are available: 1 Insufficient memory.)
    ");
}

#[test]
fn images_of_any_size_have_a_score() {
    fn view<V: View>(document: Value) -> V {
        V::decode(document.to_string().as_bytes()).unwrap()
    }
    let images = ["a:1", "b:1"].map(|name| json!({"names": [name], "sizeBytes": i64::MAX}));
    let node: NodeView = view(json!({
        "metadata": {"name": "n"},
        "status": {"allocatable": {"pods": "1"}, "images": images},
    }));
    let containers = ["a:1", "b:1"].map(|image| json!({"name": "c", "image": image}));
    let pod: PodView = view(json!({"metadata": {"name": "p"}, "spec": {"containers": containers}}));
    let survey = Survey::of(&Profile::default(), &[node], &[], &pod);
    assert!(survey.nodes[0].scores.contains(&("ImageLocality".to_owned(), 100)), "{survey:?}");
}

#[test]
fn names_that_only_pods_and_groups_use_need_no_memory_per_node() {
    // Each such resource and topology key used a table with a row for each node, forever.
    let mut world =
        TextCluster::of("node a gpu=1 rack=r; node b gpu=1; pod one gpu=1; group g basic pods=1 gpu=1 key=rack");
    world.decide_and_bind();
    let before = world.core.classes_and_tables_count();
    for number in 0..20 {
        let requests = json!({format!("example.com/r{number}"): "1"});
        let container = json!({"name": "main", "resources": {"requests": requests}});
        let spec = json!({"schedulerName": "default-scheduler", "containers": [container]});
        let name = format!("p{number}");
        world.observe_pod(&name, &json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec}));
        world.apply(&format!("group k{number} basic pods=1 gpu=1 key=created_count-up-{number}"));
    }
    let decided = world.decide();
    assert!(decided.contains("p7: wait (0/2 nodes are available: 2 Insufficient example.com/r7.)"), "{decided}");
    assert!(decided.contains("k7: wait (no node has the topology label created_count-up-7)"), "{decided}");
    assert_eq!(world.core.classes_and_tables_count().1, before.1, "tables");
    for number in 0..20 {
        world.delete(&format!("p{number}"));
        world.delete(&format!("k{number}-0"));
        world.forget_group(&format!("k{number}"));
    }
    assert_eq!(world.core.classes_and_tables_count(), before);
    world.core.assert_consistent();
}

#[test]
fn the_usage_of_a_resource_counts_when_its_first_node_is_added_and_after_its_last_is_gone() {
    let mut world = TextCluster::of("node a gpu=0; pod x node=a gpu=3; pod y gpu=2");
    assert_snapshot!(world.decide(), @"y: wait (0/1 nodes are available: 1 Insufficient nvidia.com/gpu.)");
    world.apply("node a gpu=4");
    assert!(world.decide().starts_with("y: wait"), "one is left");
    world.apply("node a gpu=5");
    assert_snapshot!(world.decide_and_bind(), @"y: bind y to a");
    world.apply("node a gpu=0; delete x; pod z gpu=1; node a gpu=2");
    assert_snapshot!(world.decide(), @"z: wait (0/1 nodes are available: 1 Insufficient nvidia.com/gpu.)");
    world.core.assert_consistent();
    world.apply("node b gpu=1");
    assert_snapshot!(world.decide(), @"z: bind z to b");
}

#[test]
fn no_pause_is_too_long_for_the_core() {
    let (forever, second) = (std::time::Duration::MAX, std::time::Duration::from_secs(1));
    for (some, others) in [(forever, forever), (forever, second), (second, forever)] {
        let config = Config {
            initial_backoff: some,
            max_backoff: others,
            incomplete_after: others,
            recount_after: some,
            reserve_after: Some(others),
            max_reservation: some,
            release_after: Some(others),
            overcommit_after: Some(some),
            remedies_interval: Some(some),
            ..Config::default()
        };
        let mut world =
            TextCluster::with(config, "node a gpu=2; pods run 2 gpu=1; group few gang minCount=3 pods=2 gpu=1");
        world.decide();
        // Binds that fail, groups that wait for capacity and for pods, a half-bound gang, an over-committed node.
        world.apply(
            "fail run-0; group g gang minCount=2 pods=2 gpu=1 owner=Job:j; pod g-2 group=g gpu=1 node=a owner=Job:j",
        );
        world.apply("pod extra gpu=2 node=a owner=Job:j; delete few-1; pod few-2 group=few gpu=1");
        for _ in 0..20 {
            world.decide();
            world.core.find_remedies(world.now, usize::MAX);
            world.now += second;
            assert!(world.core.next_at().is_none_or(|at| at >= types::Timestamp::UNIX_EPOCH));
        }
        world.apply("delete g-0; pod g-3 group=g gpu=2");
        world.decide();
        world.core.assert_consistent();
    }
}
