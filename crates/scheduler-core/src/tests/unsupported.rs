//! Pods with placement terms that no plugin supports.

use std::time::Duration;

use insta::assert_snapshot;

use super::text_cluster::TextCluster;
use crate::{Config, UnsupportedTerms};

#[test]
fn a_pod_with_an_unsupported_term_waits_and_names_the_field() {
    for (demand, field) in [
        ("apart=rack", "affinity.podAntiAffinity"),
        ("near=rack", "affinity.podAffinity"),
        ("spread=DoNotSchedule", "topologySpreadConstraints"),
        ("volume=persistentVolumeClaim", "volumes[].persistentVolumeClaim"),
        ("volume=ephemeral", "volumes[].persistentVolumeClaim"),
        ("device=gpu", "resourceClaims"),
    ] {
        let mut world = TextCluster::of(&format!("node a; pod p {demand}"));
        let want = format!(
            "p: wait (this scheduler does not support {field}; such pods wait unless scheduler.unsupportedTerms is set to \
        ignore)"
        );
        assert_eq!(world.decide(), want, "{demand}");
        assert_eq!(world.decide(), "", "{demand}, once");
    }
    for demand in ["spread=ScheduleAnyway", "volume=emptyDir", "volume=configMap", "volume=hostPath"] {
        let mut world = TextCluster::of(&format!("node a; pod p {demand}"));
        assert_eq!(world.decide(), "p: bind p to a", "{demand}");
    }
}

#[test]
fn one_unsupported_pod_makes_its_gang_wait() {
    let mut world = TextCluster::of("node a; group g gang minCount=2; pods g 2 group=g; pod h group=g apart=rack");
    assert_eq!(world.decide(), "");
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"g: wait (this scheduler does not support affinity.podAntiAffinity; such pods wait unless scheduler.unsupportedTerms is set to ignore)");
    world.apply("pod i group=g device=gpu");
    assert_eq!(world.decide(), "");
    world.now += Duration::from_secs(1);
    assert!(world.decide().contains("does not support affinity.podAntiAffinity, resourceClaims;"));
    world.apply("delete h; delete i");
    assert_snapshot!(world.decide(), @"g: bind g-0 to a, g-1 to a");
}

#[test]
fn a_gang_of_only_unsupported_pods_waits_too() {
    let mut world = TextCluster::of("node a; pods g 2 group=g spread=DoNotSchedule");
    world.decide();
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"g: wait (waiting for podgroup ns/g to exist)");
    world.apply("group g gang minCount=2");
    world.decide();
    world.now += Duration::from_secs(1);
    assert!(world.decide().starts_with("g: wait (this scheduler does not support topologySpreadConstraints"));
    world.core.assert_consistent();
}

#[test]
fn in_a_basic_group_only_unsupported_pods_wait() {
    for text in [
        "node a; group g basic; pod h group=g apart=rack; pod g-0 group=g",
        "node a; pod h group=g apart=rack; pod g-0 group=g; group g basic",
    ] {
        let mut world = TextCluster::of(text);
        let decided = world.decide();
        assert!(decided.starts_with("g: bind g-0 to a\nh: wait (this scheduler does not support"), "{decided}");
    }
}

#[test]
fn a_setting_ignores_unsupported_terms() {
    let config = Config { unsupported_terms: UnsupportedTerms::Ignore, ..Config::default() };
    let mut world = TextCluster::with(config, "node a; group g gang minCount=2 pods=2 apart=rack; pod p device=gpu");
    assert_snapshot!(world.decide(), @"
    g: bind g-0 to a, g-1 to a
    p: bind p to a
    ");
}

// The gang waited for a change of a pod that is none of its members.
#[test]
fn a_pod_of_another_owner_with_an_unsupported_term_blocks_only_itself() {
    let mut world = TextCluster::of(
        "node a gpu=2; group g gang minCount=2 owner=Job:a pods=2 gpu=1; pod other group=g owner=Job:b apart=zone",
    );
    assert_eq!(
        world.decide(),
        "g: bind g-0 to a, g-1 to a\nother: wait (podgroup ns/g belongs to another owner than this pod)"
    );
}
