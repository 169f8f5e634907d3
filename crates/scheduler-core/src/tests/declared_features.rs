//! Features that nodes declare and pods require, on generated clusters: pods are placed only where all their features
//! are declared, and no wake-up is missed when a node begins to declare one.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::properties::plain;
use super::property_config::property_config;
use super::text_cluster::TextCluster;
use crate::DecisionAction;

/// A set of features: bit 0 restarts all containers, bit 1 is bind mount options.
type Features = u8;

#[derive(Clone, Debug)]
enum FeatureStep {
    Node {
        name: u8,
        gpu: u8,
        declares: Features,
    },
    Pod {
        gpu: u8,
        needs: Features,
    },
    /// Its first pod needs other features than the rest.
    Gang {
        min_count: u8,
        leader_needs: Features,
        needs: Features,
    },
    Delete {
        pod: u8,
    },
    Decide,
}

fn steps() -> impl Strategy<Value = Vec<FeatureStep>> {
    let step = prop_oneof![
        4 => (0..4u8, 1..4u8, 0..4u8).prop_map(|(name, gpu, declares)| FeatureStep::Node { name, gpu, declares }),
        2 => (0..3u8, 0..4u8).prop_map(|(gpu, needs)| FeatureStep::Pod { gpu, needs }),
        2 => (1..4u8, 0..4u8, 0..4u8)
            .prop_map(|(min_count, leader_needs, needs)| FeatureStep::Gang { min_count, leader_needs, needs }),
        1 => any::<u8>().prop_map(|pod| FeatureStep::Delete { pod }),
        4 => Just(FeatureStep::Decide),
    ];
    prop::collection::vec(step, 1..40)
}

struct FeatureRun {
    world: TextCluster,
    declared: BTreeMap<String, Features>,
    needed: BTreeMap<String, Features>,
    created_count: usize,
}

fn listed(features: Features) -> &'static str {
    ["none", "restart", "mount", "restart,mount"][usize::from(features)]
}

impl FeatureRun {
    fn apply(&mut self, step: &FeatureStep) {
        match step {
            FeatureStep::Node { name, gpu, declares } => {
                self.world.apply(&format!("node n{name} gpu={gpu} declares={}", listed(*declares)));
                self.declared.insert(format!("n{name}"), *declares);
            }
            FeatureStep::Pod { gpu, needs } => self.add_pod(&format!("gpu={gpu}"), *needs),
            FeatureStep::Gang { min_count, leader_needs, needs } => {
                let name = format!("g{}", self.created_count);
                self.world.apply(&format!("group {name} gang minCount={min_count}"));
                for number in 0..*min_count {
                    let needs = if number == 0 { leader_needs } else { needs };
                    self.add_pod(&format!("gpu=1 group={name}"), *needs);
                }
            }
            FeatureStep::Delete { pod } => {
                let at = usize::from(*pod) % self.needed.len().max(1);
                if let Some(name) = self.needed.keys().nth(at).cloned() {
                    self.needed.remove(&name);
                    self.world.delete(&name);
                }
            }
            FeatureStep::Decide => self.decide(),
        }
        self.world.core.assert_consistent();
    }

    fn add_pod(&mut self, options: &str, needs: Features) {
        self.created_count += 1;
        let name = format!("p{:03}", self.created_count);
        self.world.apply(&format!("pod {name} {options} needs={}", listed(needs)));
        self.needed.insert(name, needs);
    }

    fn decide(&mut self) {
        self.world.now += std::time::Duration::from_secs(60);
        while let Some(decision) = self.world.core.next(self.world.now) {
            if let DecisionAction::Bind(placements) = &decision.action {
                for placement in placements {
                    let (needed, declared) = (self.needed[&placement.pod.name], self.declared[&placement.node]);
                    assert_eq!(needed & !declared, 0, "{} lacks features of {}", placement.node, placement.pod.name);
                }
            }
            self.world.bind(&decision);
        }
        for queued in self.world.core.queue() {
            let explanation = self.world.core.explain(&queued.unit, &[]).expect("a queued unit is tracked");
            let missed = self.world.core.take_missed_wakeups();
            assert_eq!(missed, 0, "{} fits and was not woken: {:?}", queued.unit, explanation.lines());
        }
    }
}

proptest! {
    #![proptest_config(property_config(300))]

    #[test]
    fn pods_are_placed_where_their_features_are_declared_and_no_wakeup_is_missed(steps in steps()) {
        let world = TextCluster::with(plain(), "");
        let mut run = FeatureRun { world, declared: BTreeMap::new(), needed: BTreeMap::new(), created_count: 0 };
        steps.iter().for_each(|step| run.apply(step));
        run.apply(&FeatureStep::Decide);
    }
}
