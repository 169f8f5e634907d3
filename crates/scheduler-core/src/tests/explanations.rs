//! Explanations of waiting and placed units.

use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;
use types::views::{ObjectKey, PodView};

use super::text_cluster::TextCluster;
use crate::{DecisionAction, QueueStatus, RemedyStatus, Unit, UnitExplanation};

/// The explanation of a group once everything that fits is placed.
fn explanation_of(text: &str, group: &str) -> String {
    let mut world = TextCluster::of(text);
    world.decide_and_bind();
    explain(&mut world, &Unit::Group(ObjectKey::new("ns", group))).lines().join("\n")
}

fn explanation_of_pod(text: &str, pod: &str) -> String {
    let mut world = TextCluster::of(text);
    world.decide_and_bind();
    explain(&mut world, &Unit::Pod(ObjectKey::new("ns", pod))).lines().join("\n")
}

fn explain(world: &mut TextCluster, unit: &Unit) -> UnitExplanation {
    let name = unit.key().name.as_str();
    let is_of_unit = |pod: &&Arc<PodView>| match unit {
        Unit::Group(_) => pod.group_name() == Some(name),
        Unit::Pod(_) => pod.metadata.name == name,
    };
    let placed = world.pods.values().filter(is_of_unit).filter(|pod| pod.node_name().is_some());
    let placed: Vec<Arc<PodView>> = placed.cloned().collect();
    let explanation = world.core.explain(unit, &placed).unwrap();
    world.core.assert_consistent();
    explanation
}

const RACKS: &str = "node a gpu=4 rack=r1 zone=z1; node b gpu=4 rack=r1 zone=z1; node c gpu=4 rack=r2 zone=z1;
    node d gpu=4 rack=r3 zone=z2;";

#[test]
fn a_gang_too_large_for_its_rack_gets_a_lower_min_count_and_a_wider_key() {
    assert_snapshot!(explanation_of(&format!("{RACKS} group g gang minCount=9 pods=9 gpu=1 key=rack"), "g"), @r"
    podgroup ns/g waits for a change that could help; number 1 of 1 in the queue, tried once
    gang of 9 does not fit: 8 of 9 pods fit in the nearest domain rack=r1 (1 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes)
      rack=r1: 8 pods fit (Insufficient nvidia.com/gpu on 2 of 2 nodes)
      rack=r2: 4 pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes)
      rack=r3: 4 pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes)
    remedies, each tried on the current cluster:
      lower minCount to 8
      recreate podgroup ns/g with the topology key zone instead of rack
      add 1 node like a to rack=r1
    ");
}

#[test]
fn a_blocked_gang_gets_the_units_to_wait_for() {
    let busy = "group small gang minCount=2 pods=2 gpu=1 owner=Job:short; pods solo 2 gpu=1 node=b;
        group g gang minCount=8 pods=8 gpu=1 owner=Job:long key=rack";
    let busy = busy
        .replace("pods=2 gpu=1 owner=Job:short", "owner=Job:short; pods s 2 group=small gpu=1 node=a owner=Job:short");
    assert_snapshot!(explanation_of(&format!("{RACKS} {busy}"), "g"), @r"
    podgroup ns/g waits for a change that could help; number 1 of 1 in the queue, tried once
    gang of 8 does not fit: 4 of 8 pods fit in the nearest domain rack=r1 (4 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes)
      rack=r1: 4 pods fit (Insufficient nvidia.com/gpu on 2 of 2 nodes)
      rack=r2: 4 pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes)
      rack=r3: 4 pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes)
    remedies, each tried on the current cluster:
      lower minCount to 4
      recreate job ns/long with the topology key zone instead of rack
      wait for job ns/short (2 pods), pod ns/solo-0 and pod ns/solo-1 in rack=r1
      add 1 node like a to rack=r1
    ");
}

#[test]
fn a_gang_too_large_for_the_cluster_gets_the_number_of_missing_nodes() {
    assert_snapshot!(explanation_of("node a gpu=4; node b gpu=4; group g gang minCount=20 pods=20 gpu=2", "g"), @r"
    podgroup ns/g waits for a change that could help; number 1 of 1 in the queue, tried once
    gang of 20 does not fit: 4 of 20 pods fit (16 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes)
    remedies, each tried on the current cluster:
      lower minCount to 4
      add 8 nodes like a
    ");
}

#[test]
fn a_gang_of_several_classes_gets_the_number_that_fits_together() {
    let mixed = "node a gpu=4; node b gpu=3; group g gang minCount=4; pods l 2 group=g gpu=3; pods s 2 group=g gpu=1";
    assert_snapshot!(explanation_of(mixed, "g"), @r"
    podgroup ns/g waits for a change that could help; number 1 of 1 in the queue, tried once
    gang of 4 does not fit: 3 of 4 pods fit (1 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes)
    remedies, each tried on the current cluster:
      lower minCount to 3
      add 1 node like a
    ");
}

#[test]
fn a_key_that_no_node_has_gets_one_that_nodes_have() {
    assert_snapshot!(explanation_of(&format!("{RACKS} group g gang minCount=2 pods=2 gpu=1 key=block"), "g"), @r"
    podgroup ns/g waits for a change that could help; number 1 of 1 in the queue, tried once
    no node has the topology label block
    remedies, each tried on the current cluster:
      recreate podgroup ns/g with the topology key rack instead of block
    ");
}

#[test]
fn a_pod_that_fits_nowhere_gets_the_shortfall() {
    assert_snapshot!(explanation_of_pod("node a gpu=4; node b gpu=8; pod p gpu=16", "p"), @r"
    pod ns/p waits for a change that could help; number 1 of 1 in the queue, tried once
    0/2 nodes are available: 2 Insufficient nvidia.com/gpu.
    remedies, each tried on the current cluster:
      add larger nodes or request less: a pod requests nvidia.com/gpu 16, the largest node has 8
    ");
}

#[test]
fn a_waiting_pod_gets_the_pod_to_wait_for() {
    assert_snapshot!(explanation_of_pod("node a gpu=4; pod x gpu=1 node=a; pod y gpu=2 node=a; pod p gpu=2", "p"), @r"
    pod ns/p waits for a change that could help; number 1 of 1 in the queue, tried once
    0/1 nodes are available: 1 Insufficient nvidia.com/gpu.
    remedies, each tried on the current cluster:
      wait for pod ns/x
      add 1 node like a
    ");
}

#[test]
fn a_gated_pod_is_reported_as_gated() {
    assert_snapshot!(explanation_of_pod("node a gpu=4; pod p gate=later", "p"), @"pod ns/p is not placed: it has scheduling gates");
}

#[test]
fn a_group_that_lacks_pods_is_reported_as_incomplete() {
    let mut world = TextCluster::of("node a gpu=4; group g gang minCount=3 pods=2 gpu=1");
    world.decide();
    let lines = explain(&mut world, &Unit::Group(ObjectKey::new("ns", "g"))).lines();
    assert_snapshot!(lines.join("\n"), @r"
    podgroup ns/g waits for missing pods or its PodGroup; number 1 of 1 in the queue, not tried yet
    waiting for pods: 2 of minCount 3 exist
    ");
}

// Pods arrive one by one. The first one was refused, and the condition was "none of 1 pods fits" for seconds.
#[test]
fn the_message_of_a_basic_group_is_valid_for_pods_that_arrive_later() {
    let mut world = TextCluster::of("node a gpu=1; pod x gpu=1 node=a; group g basic pods=1 gpu=1");
    let first = world.decide();
    assert_snapshot!(first, @"g: wait (no pod fits (Insufficient nvidia.com/gpu on 1 of 1 nodes))");
    world.apply("pods more 2 group=g gpu=1");
    let refusal = explain(&mut world, &Unit::Group(ObjectKey::new("ns", "g"))).refusal.unwrap();
    assert_eq!((refusal.pods_count, format!("g: wait ({})", refusal.plain_message())), (3, first));
}

#[test]
fn late_members_get_only_the_domain_that_they_must_join() {
    let mut world = TextCluster::of(&format!("{RACKS} group g gang minCount=8 pods=8 gpu=1 key=rack"));
    world.decide_and_bind();
    world.apply("pods late 2 group=g gpu=1");
    world.decide();
    let late = explain(&mut world, &Unit::Group(ObjectKey::new("ns", "g")));
    let refusal = late.refusal.unwrap();
    assert_snapshot!(refusal.plain_message(), @"no more pods fit in the domain of its members rack=r1 (Insufficient nvidia.com/gpu on 2 of 2 nodes)");
    assert_eq!(refusal.domains.iter().map(|domain| domain.value.as_str()).collect::<Vec<_>>(), ["r1"]);
    assert_snapshot!(refusal.pod_message(), @"0/4 nodes are available: 2 Insufficient nvidia.com/gpu, 2 node(s) were in another topology domain than the placed pods of the group.");
}

#[test]
fn a_group_with_unsupported_terms_is_not_reported_as_incomplete() {
    for text in [
        "group g gang minCount=2 pods=2 gpu=1 apart=rack",
        "composite both gang; group g gang minCount=2 pods=2 gpu=1 parent=both",
    ] {
        let mut world = TextCluster::of(&format!("node a gpu=4; {text}"));
        world.decide();
        let group = explain(&mut world, &Unit::Group(ObjectKey::new("ns", "g")));
        let want = "podgroup ns/g requests something that this scheduler does not support; number 1 of 1 in the queue, \
                    not tried yet";
        assert_eq!(
            (group.lines()[0].as_str(), group.queued.unwrap().state),
            (want, QueueStatus::Unsupported),
            "{text}"
        );
    }
}

#[test]
fn the_node_of_a_leader_is_listed_beside_those_of_its_workers() {
    let text = "node a cpu=64 gpu=0; node b cpu=8 gpu=2; node c cpu=8 gpu=2; group g gang minCount=5;
        pod lead group=g cpu=64; pods work 4 group=g gpu=1";
    let mut world = TextCluster::of(text);
    world.decide_and_bind();
    let placed = explain(&mut world, &Unit::Group(ObjectKey::new("ns", "g"))).placement.unwrap();
    let nodes: Vec<(&str, usize)> = placed.nodes.iter().map(|node| (node.node.as_str(), node.pods_count)).collect();
    assert_eq!((placed.nodes_count, nodes), (3, vec![("b", 2), ("c", 2), ("a", 1)]));
    // Also if there are more workers than are listed.
    let many: String = (0..9).map(|n| format!("node w{n} cpu=8 gpu=1;")).collect();
    let mut world = TextCluster::of(&format!(
        "{many} node a cpu=64 gpu=0; group g gang minCount=10; pods work 9 group=g gpu=1; pod lead group=g cpu=64"
    ));
    world.decide_and_bind();
    let placed = explain(&mut world, &Unit::Group(ObjectKey::new("ns", "g"))).placement.unwrap();
    let nodes: Vec<&str> = placed.nodes.iter().map(|node| node.node.as_str()).collect();
    assert_eq!((nodes.len(), nodes[4]), (5, "a"), "{nodes:?}");
}

// "wait for pod x" and "use another key" were tried for one pod, and reported to a group of three.
#[test]
fn remedies_of_a_basic_group_help_all_its_pods() {
    let full = "pods x 4 gpu=1 node=a; pods y 4 gpu=1 node=b; pods z 4 gpu=1 node=c; pods w 3 gpu=1 node=d;";
    assert_snapshot!(explanation_of(&format!("{RACKS} {full} pod v gpu=1 node=d; group g basic pods=3 gpu=1"), "g"), @r"
    podgroup ns/g waits for a change that could help; number 1 of 1 in the queue, tried once
    no pod fits (Insufficient nvidia.com/gpu on 4 of 4 nodes)
    remedies, each tried on the current cluster:
      wait for pod ns/x-0, pod ns/x-1 and pod ns/x-2
      add 1 node like a
    ");
    // One is placed in the first rack. For the two pending ones there is capacity in other racks, but not in that
    // zone.
    let full = "pods x 4 gpu=1 node=a; pods y 3 gpu=1 node=b; pods z 3 gpu=1 node=c; pods w 3 gpu=1 node=d;";
    let text = explanation_of(&format!("{RACKS} {full} group g basic pods=3 gpu=1 key=rack"), "g");
    let remedies: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("remedies")).skip(1).take(3).collect();
    let want = [
        "  recreate podgroup ns/g without the topology key rack",
        "  wait for pod ns/x-0 and pod ns/x-1 in rack=r1",
        "  add 1 node like a to rack=r1",
    ];
    assert_eq!(remedies, want, "{text}");
}

#[test]
fn a_placed_group_gets_the_reason_for_its_domain_and_nodes() {
    assert_snapshot!(explanation_of(&format!("{RACKS} group g gang minCount=4 pods=4 gpu=1 key=rack"), "g"), @r"
    in rack=r2: 3 of 3 domains had capacity for all 4; chosen: 4 of the pods fit, 0 slots left over; next best: r3 (4 of the pods fit, 0 slots left over)
    4 pods on node c; 1 node in rack=r2 was feasible
      c, 4 pods: score 399 (TaintToleration 300, NodeResourcesFit 99)
    computed on the current cluster
    ");
}

#[test]
fn a_placed_pod_gets_the_deciding_score() {
    let nodes =
        "node a cpu=8 memory=8Gi; node b cpu=16 memory=16Gi; node c cpu=8 memory=8Gi taint=slow:PreferNoSchedule;";
    assert_snapshot!(explanation_of_pod(&format!("{nodes} pod p cpu=2 memory=2Gi"), "p"), @r"
    1 pod on node b; 3 nodes were feasible
      b, 1 pod: score 462 (TaintToleration 300, NodeResourcesFit 87, NodeResourcesBalancedAllocation 75)
      next best: a: score 450 (TaintToleration 300, NodeResourcesFit 75, NodeResourcesBalancedAllocation 75); NodeResourcesFit made the difference
    computed on the current cluster
    ");
}

#[test]
fn a_report_computed_right_after_a_decision_is_cached() {
    let mut world = TextCluster::of("node a gpu=4; node b gpu=4; group g gang minCount=2 pods=2 gpu=1");
    let decision = world.core.next(world.now).unwrap();
    world.core.cache_placement_reports(world.now, 8);
    world.bind(&decision);
    let group = Unit::Group(ObjectKey::new("ns", "g"));
    let cached = explain(&mut world, &group).placement.unwrap();
    assert_eq!(cached.recorded_at, Some(world.now));
    // The pods are gone, and another group has the name.
    world.apply("delete g-0; delete g-1");
    assert_eq!(explain(&mut world, &group).placement, None);
}

/// The messages of the remedy searches that are due now.
fn remedies_now(world: &mut TextCluster) -> Vec<String> {
    let reports = world.core.find_remedies(world.now, 4);
    reports.into_iter().map(|(_, refusal)| refusal.map_or_else(String::new, |refusal| refusal.message())).collect()
}

#[test]
fn a_refusal_is_updated_when_capacity_or_nodes_are_gone() {
    let mut world = TextCluster::of(
        "node a gpu=1; node b gpu=1; node c gpu=1; node d gpu=1; pod small gpu=3; group g gang minCount=6 pods=6 gpu=1",
    );
    world.decide();
    assert!(remedies_now(&mut world)[0].contains("4 of 6 pods fit"));
    world.apply("pod x gpu=1 node=a; pod y gpu=1 node=b; pod z gpu=1 node=c");
    assert_eq!((world.decide().as_str(), remedies_now(&mut world)), ("", vec![]));
    assert_eq!(world.core.remedies_due_at(), Some(world.now + Duration::from_secs(10)));
    world.now += Duration::from_secs(10);
    let now = remedies_now(&mut world).pop().unwrap();
    assert!(
        now.contains(": 1 of 6 pods fit (5 more needed;") && now.contains("remedies: lower minCount to 1"),
        "{now}"
    );
    // After the report there is nothing to do until something changes again.
    world.now += Duration::from_secs(100);
    assert_eq!((remedies_now(&mut world), world.core.remedies_due_at()), (vec![], None));
    world.apply("drop a; drop b; drop c; drop d");
    assert_eq!(
        remedies_now(&mut world),
        ["gang of 6 does not fit: 0 of 6 pods fit (6 more needed; there are no nodes)".to_owned()]
    );
    // None of that was an attempt.
    assert_eq!(world.decide(), "");
    assert!(world.core.queue().iter().all(|queued| queued.tries_count == 1));
}

#[test]
fn many_refusals_are_updated_one_after_another() {
    let groups: String = (0..20).map(|n| format!("group g{n} gang minCount=3 pods=3 gpu=1; ")).collect();
    let mut world = TextCluster::of(&format!("node a gpu=2; {groups}"));
    world.decide();
    for _ in 0..5 {
        assert_eq!(remedies_now(&mut world).len(), 4);
    }
    world.apply("pod x gpu=1 node=a");
    world.now += Duration::from_secs(10);
    // Decisions come first.
    world.apply("pod large gpu=900");
    assert_eq!(world.core.find_remedies(world.now, 4), []);
    world.decide();
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let reports = world.core.find_remedies(world.now, 4);
        assert_eq!(reports.len(), 1);
        assert!(reports[0].1.as_ref().unwrap().message().contains("1 of 3 pods fit"));
        names.insert(reports[0].0.clone());
        assert_eq!(world.core.find_remedies(world.now, 4), []);
        // Each is reported once.
        let next = if names.len() < 20 { Some(world.now + Duration::from_millis(100)) } else { None };
        assert_eq!(world.core.remedies_due_at(), next);
        world.now += Duration::from_millis(100);
    }
    // Placed groups are not reported.
    world.apply("node b gpu=100");
    assert_eq!(world.decide().matches("bind").count(), 20);
    world.now += Duration::from_secs(60);
    assert_eq!((remedies_now(&mut world), world.core.remedies_due_at()), (vec![], None));
}

#[test]
fn remedies_come_after_the_first_refusal_and_then_at_most_every_ten_seconds() {
    let mut world = TextCluster::of("node a gpu=4; group g gang minCount=6 pods=6 gpu=1");
    let refused = |world: &mut TextCluster| {
        let DecisionAction::Wait(refusal) = world.core.next(world.now).unwrap().action else { panic!("it fits") };
        refusal.remedies
    };
    assert_eq!(refused(&mut world), RemedyStatus::Pending);
    assert_eq!(
        remedies_now(&mut world),
        ["gang of 6 does not fit: 4 of 6 pods fit (2 more needed; Insufficient nvidia.com/gpu \
        on 1 of 1 nodes); remedies: lower minCount to 4, or add 1 node like a"]
    );
    assert_eq!((world.core.find_remedies(world.now, 4).len(), world.core.remedies_due_at()), (0, None));
    // Refused once more, soon after, because it has changed.
    world.now += Duration::from_secs(4);
    world.apply("node b gpu=1; pod g-6 group=g gpu=2");
    assert_eq!(refused(&mut world), RemedyStatus::NotSearched);
    assert_eq!(world.core.find_remedies(world.now, 4), []);
    assert_eq!(world.core.remedies_due_at(), Some(world.now + Duration::from_secs(6)));
    world.now += Duration::from_secs(6);
    assert!(remedies_now(&mut world)[0].contains("remedies: lower minCount to 5"));
    // A placed group needs no remedies.
    world.now += Duration::from_secs(60);
    world.apply("node c gpu=0");
    world.apply("node d gpu=8");
    assert!(world.decide().contains("bind"));
    assert_eq!(world.core.find_remedies(world.now, 4), []);
}

#[test]
fn the_queue_lists_units_with_their_state_in_queue_order() {
    let mut world = TextCluster::of(
        "node a gpu=4; group full gang minCount=6 pods=6 gpu=1; group few gang minCount=3 pods=1 gpu=1;
        pod first gpu=1 priority=7; pod unlucky gpu=1",
    );
    world.decide();
    world.settle_failed("unlucky");
    world.apply("pod late gpu=1");
    let queue = world.core.queue();
    let line = |one: &crate::QueuedUnit| {
        let (name, state) = (&one.unit.key().name, one.state.name());
        format!(
            "{} {name} {state} pods={} tries={} next={:?}",
            one.position, one.pods_count, one.tries_count, one.next_try
        )
    };
    assert_snapshot!(queue.iter().map(line).collect::<Vec<_>>().join("\n"), @r"
    1 full Waiting pods=6 tries=1 next=None
    2 few Incomplete pods=1 tries=0 next=None
    3 unlucky BackOff pods=1 tries=1 next=Some(1970-01-01T00:00:01Z)
    4 late Active pods=1 tries=0 next=None
    ");
    assert!(
        queue
            .iter()
            .all(|one| one.units_count == queue.len() && one.state != QueueStatus::BackOff || one.next_try.is_some())
    );
}

#[test]
fn the_search_for_remedies_is_limited_and_reports_that() {
    let nodes: String = (0..150).map(|n| format!("node n{n} gpu=4; ")).collect();
    let pods: String = (0..150).map(|n| format!("pods p{n} 4 gpu=1 node=n{n}; ")).collect();
    let mut world = TextCluster::of(&format!("{nodes} {pods} group g gang minCount=100 pods=100 gpu=1"));
    world.decide();
    let before = world.core.steps_count();
    let refusal = world.core.find_remedies(world.now, 1).pop().unwrap().1.unwrap();
    let RemedyStatus::Found(report) = refusal.remedies else { panic!("no remedies") };
    let texts: Vec<String> = report.remedies.iter().map(crate::Remedy::text).collect();
    // A hundred single pods would have to end: such a list is of no use.
    assert_eq!((texts, report.truncated), (vec!["add 25 nodes like n0".to_owned()], true));
    let steps = world.core.steps_count() - before;
    assert!(steps < 5_000, "{steps} pods were added to nodes or removed");
    world.core.assert_consistent();
}

#[test]
fn nodes_to_add_are_enough_for_all_pending_pods() {
    let remedies = |text: &str| {
        let mut world = TextCluster::of(text);
        world.decide_and_bind();
        let refusal = explain(&mut world, &Unit::Group(ObjectKey::new("ns", "g"))).refusal.unwrap();
        let RemedyStatus::Found(report) = refusal.remedies else { panic!("no remedies") };
        let about_nodes = report.remedies.iter().filter(|remedy| remedy.is_about_nodes());
        about_nodes.map(crate::Remedy::text).collect::<Vec<_>>().join(", ")
    };
    // Each pod of a Basic group waits for itself, and so do pods beyond a gang's minCount.
    assert_eq!(remedies("node a gpu=4; pods run 4 gpu=1 node=a; group g basic pods=12 gpu=1"), "add 3 nodes like a");
    assert_eq!(remedies("node a gpu=4; group g gang minCount=4 pods=13 gpu=1"), "add 3 nodes like a");
    // A gang that has not started needs its minCount.
    assert_eq!(remedies("node a gpu=4; group g gang minCount=5 pods=13 gpu=1"), "add 1 node like a");
    // No node can be added to the domain of one node.
    let host = "kubernetes.io/hostname";
    let nodes = format!("node a gpu=4 {host}=a; node b gpu=4 {host}=b; pod run gpu=3 node=b");
    assert_eq!(remedies(&format!("{nodes}; group g gang minCount=6 pods=6 gpu=1 key={host}")), "");
    assert_eq!(
        remedies(&format!("{nodes}; pod more gpu=1 node=a; group g gang minCount=4 pods=4 gpu=1 key={host}")),
        "add 1 node like a"
    );
}

#[test]
fn a_node_that_scores_higher_is_not_called_the_next_best() {
    // Both pods are on a, and by now b would be better for another one like them.
    let mut world =
        TextCluster::of("node a gpu=4 cpu=8; node b gpu=4 cpu=8; pod x gpu=1 cpu=1 node=a; pods y 2 cpu=3 node=a");
    let text = explain(&mut world, &Unit::Pod(ObjectKey::new("ns", "x"))).lines().join("\n");
    assert!(text.contains("  scores higher, but was not chosen: b: score"), "{text}");
    assert!(text.contains("; the cluster has changed since they were placed"), "{text}");
    assert!(!text.contains("next best"), "{text}");
    // The same for domains: by now r2 is tighter.
    let mut world = TextCluster::of(
        "node a gpu=8 rack=r1; node b gpu=2 rack=r2; group g gang minCount=2 key=rack; pods g 2 group=g gpu=1 node=a",
    );
    let text = explain(&mut world, &Unit::Group(ObjectKey::new("ns", "g"))).lines().join("\n");
    assert!(
        text.contains("6 slots left over; would be chosen now: r2 (2 of the pods fit, 0 slots left over)"),
        "{text}"
    );
}

// The line of a domain counted only pods of the size that does not fit, beside the others: "0 pods fit".
#[test]
fn the_numbers_of_a_gang_of_two_sizes_do_not_contradict_each_other() {
    let text = "node a cpu=8 gpu=2 rack=r1; node b cpu=8 rack=r2; group g gang minCount=4 key=rack;
                pod leader cpu=8 group=g; pods w 3 cpu=1 gpu=1 group=g";
    assert_snapshot!(explanation_of(text, "g"), @r"
    podgroup ns/g waits for a change that could help; number 1 of 1 in the queue, tried once
    gang of 4 does not fit: 2 of 4 pods fit in the nearest domain rack=r1 (2 more needed; Insufficient nvidia.com/gpu on 1 of 1 nodes)
      rack=r1: 2 pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes)
      rack=r2: at most 1 pod fits (Insufficient nvidia.com/gpu on 1 of 1 nodes)
    remedies, each tried on the current cluster:
      lower minCount to 2
      add 2 nodes like a to rack=r1
    ");
}

// Only units that help alone were found: eight GPUs in use by four Jobs of two had no such remedy.
#[test]
fn a_pod_that_needs_a_whole_node_waits_for_all_units_on_it() {
    let text = "node a gpu=8; node b gpu=8; pods f 4 gpu=2; pod h gpu=4; pod i gpu=4; group g gang minCount=1;
                pod whole gpu=8 group=g";
    assert_snapshot!(explanation_of(text, "g"), @r"
    podgroup ns/g waits for a change that could help; number 1 of 1 in the queue, tried once
    gang of 1 does not fit: 0 of 1 pods fit (1 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes)
    remedies, each tried on the current cluster:
      wait for pod ns/h and pod ns/i
      add 1 node like a
    ");
}
