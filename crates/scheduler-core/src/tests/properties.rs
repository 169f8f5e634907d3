//! What holds on every generated cluster, whatever happens to it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::world::{World, line};
use crate::{Cause, Decision, Verdict};

/// Something that happens. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Node { name: u8, gpu: u8, pods: u8, rack: u8, tainted: bool, liked: bool },
    DropNode { name: u8 },
    Group { min_count: u8, extra: u8, gpu: u8, basic: bool, in_rack: bool, priority: u8 },
    Member { group: u8, gpu: u8 },
    Pod { gpu: u8, port: bool, prefers: bool },
    Delete { pod: u8 },
    Finish { pod: u8 },
    Decide { bind: bool },
    Fail { pod: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..6u8, 0..5u8, 1..6u8, 0..4u8, prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(name, gpu, pods, rack, tainted, liked)| Step::Node { name, gpu, pods, rack, tainted, liked }),
        1 => (0..6u8).prop_map(|name| Step::DropNode { name }),
        3 => (1..6u8, 0..3u8, 1..3u8, any::<bool>(), any::<bool>(), 0..3u8).prop_map(
            |(min_count, extra, gpu, basic, in_rack, priority)| Step::Group { min_count, extra, gpu, basic, in_rack, priority }
        ),
        2 => (any::<u8>(), 1..3u8).prop_map(|(group, gpu)| Step::Member { group, gpu }),
        2 => (0..3u8, any::<bool>(), any::<bool>()).prop_map(|(gpu, port, prefers)| Step::Pod { gpu, port, prefers }),
        3 => any::<u8>().prop_map(|pod| Step::Delete { pod }),
        1 => any::<u8>().prop_map(|pod| Step::Finish { pod }),
        5 => any::<bool>().prop_map(|bind| Step::Decide { bind }),
        1 => any::<u8>().prop_map(|pod| Step::Fail { pod }),
    ];
    prop::collection::vec(step, 1..60)
}

/// The truth as a plain model keeps it.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
    groups: BTreeMap<String, Group>,
    created_count: usize,
}

struct Node {
    gpu: i64,
    pods: i64,
    rack: Option<String>,
    tainted: bool,
}

struct Pod {
    gpu: i64,
    port: bool,
    group: Option<String>,
    /// Set from the decision on.
    node: Option<String>,
    /// Whether the watch has shown it bound.
    seen_bound: bool,
    succeeded: bool,
}

struct Group {
    min_count: Option<usize>,
    in_rack: bool,
}

struct Run {
    world: World,
    model: Model,
    log: Vec<String>,
}

impl Run {
    fn of(steps: &[Step]) -> Run {
        let mut run = Run { world: World::of(""), model: Model::default(), log: Vec::new() };
        for step in steps {
            run.take(step);
            run.world.core.assert_consistent();
        }
        run.take(&Step::Decide { bind: true });
        run
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Node { name, gpu, pods, rack, tainted, liked } => {
                let rack = (*rack > 0).then(|| format!("r{rack}"));
                let mut text = format!("node n{name} gpu={gpu} pods={pods}");
                rack.iter().for_each(|rack| text += &format!(" rack={rack}"));
                text += if *tainted { " taint=k:NoSchedule" } else { " taint=s:PreferNoSchedule" };
                text += if *liked { " disk=ssd" } else { "" };
                self.world.say(&text);
                let node = Node { gpu: (*gpu).into(), pods: (*pods).into(), rack, tainted: *tainted };
                self.model.nodes.insert(format!("n{name}"), node);
            }
            Step::DropNode { name } => {
                if self.model.nodes.remove(&format!("n{name}")).is_some() {
                    self.world.say(&format!("drop n{name}"));
                }
            }
            Step::Group { min_count, extra, gpu, basic, in_rack, priority } => {
                let name = format!("g{}", self.model.groups.len());
                let policy = if *basic { "basic".to_owned() } else { format!("gang minCount={min_count}") };
                let key = if *in_rack { " key=rack" } else { "" };
                self.world.say(&format!("group {name} {policy} groupPriority={priority}{key}"));
                let group = Group { min_count: (!basic).then_some((*min_count).into()), in_rack: *in_rack };
                self.model.groups.insert(name.clone(), group);
                (0..min_count + extra).for_each(|_| self.add_pod(*gpu, false, false, Some(&name)));
            }
            Step::Member { group, gpu } => {
                if let Some(name) = nth(self.model.groups.keys(), *group) {
                    self.add_pod(*gpu, false, false, Some(&name));
                }
            }
            Step::Pod { gpu, port, prefers } => self.add_pod(*gpu, *port, *prefers, None),
            Step::Delete { pod } => {
                if let Some(name) = nth(self.model.pods.keys(), *pod) {
                    self.model.pods.remove(&name);
                    self.world.delete(&name);
                }
            }
            Step::Finish { pod } => {
                let bound = self.model.pods.iter().filter(|(_, pod)| pod.seen_bound).map(|(name, _)| name);
                if let Some(name) = nth(bound, *pod) {
                    let pod = self.model.pods.get_mut(&name).unwrap();
                    (pod.succeeded, pod.seen_bound, pod.node) = (true, false, None);
                    self.world.change_pod(&name, |pod| pod["status"]["phase"] = json!("Succeeded"));
                }
            }
            Step::Decide { bind } => self.decide(*bind),
            Step::Fail { pod } => {
                let assumed = self.model.pods.iter().filter(|(_, pod)| pod.node.is_some() && !pod.seen_bound);
                if let Some(name) = nth(assumed.map(|(name, _)| name), *pod) {
                    self.model.pods.get_mut(&name).unwrap().node = None;
                    self.world.settle_failed(&name);
                }
            }
        }
    }

    fn add_pod(&mut self, gpu: u8, port: bool, prefers: bool, group: Option<&str>) {
        self.model.created_count += 1;
        let name = format!("p{:03}", self.model.created_count);
        let mut text = format!("pod {name} gpu={gpu}");
        text += if port { " port=80" } else { "" };
        text += if prefers { " prefers=disk:ssd" } else { "" };
        group.iter().for_each(|group| text += &format!(" group={group}"));
        self.world.say(&text);
        let group = group.map(str::to_owned);
        let pod = Pod { gpu: gpu.into(), port, group, node: None, seen_bound: false, succeeded: false };
        self.model.pods.insert(name, pod);
    }

    fn decide(&mut self, bind: bool) {
        self.world.now += std::time::Duration::from_secs(60);
        while let Some(decision) = self.world.core.next(self.world.now) {
            self.log.push(line(&decision));
            self.check(&decision);
            if bind {
                self.world.bind(&decision);
                if let Verdict::Bind(placements) = &decision.verdict {
                    for spot in placements {
                        self.model.pods.get_mut(&spot.pod.name).unwrap().seen_bound = true;
                    }
                }
            }
        }
        self.world.core.assert_consistent();
        self.model.assert_nothing_more_fits();
    }

    fn check(&mut self, decision: &Decision) {
        let group = self.model.groups.contains_key(&decision.unit.key().name).then(|| decision.unit.key().name.clone());
        let expected = group.as_deref().and_then(|group| self.model.fits_at_most(group));
        match &decision.verdict {
            Verdict::Bind(placements) => {
                for spot in placements {
                    let pod = self.model.pods.get_mut(&spot.pod.name).expect("only pods that exist are placed");
                    assert!(pod.node.is_none() && !pod.succeeded, "a pod is placed once");
                    pod.node = Some(spot.node.clone());
                    self.model.assert_not_overcommitted(&spot.node, &spot.pod.name);
                }
                if let Some(group) = &group {
                    self.model.assert_atomic_and_together(group);
                }
                if let Some((fits, pending)) = expected {
                    assert_eq!(placements.len() as i64, fits.min(pending), "everything that fits is placed");
                }
            }
            Verdict::Wait(refusal) => {
                if let (Some((fits, pending)), Some(group)) = (expected, &group) {
                    let placed = self.model.placed(group).count() as i64 + self.model.succeeded_count(group);
                    let wanted = self.model.groups[group].min_count.unwrap_or(1) as i64;
                    assert!(placed + fits.min(pending) < wanted || fits.min(pending) == 0, "{}", refusal.message());
                    if refusal.cause == Cause::NoRoom {
                        assert_eq!(refusal.fits_count as i64, fits.min(pending), "{}", refusal.message());
                        assert!(refusal.proven);
                    }
                }
            }
        }
    }
}

impl Model {
    fn placed<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(move |pod| pod.group.as_deref() == Some(group) && pod.node.is_some())
    }

    fn succeeded_count(&self, group: &str) -> i64 {
        self.pods.values().filter(|pod| pod.group.as_deref() == Some(group) && pod.succeeded).count() as i64
    }

    fn free_slots(&self, name: &str, gpu: i64) -> i64 {
        let node = &self.nodes[name];
        let on: Vec<_> = self.pods.values().filter(|pod| pod.node.as_deref() == Some(name)).collect();
        let free_gpu = node.gpu - on.iter().map(|pod| pod.gpu).sum::<i64>();
        if node.tainted { 0 } else { (free_gpu / gpu).min(node.pods - on.len() as i64).max(0) }
    }

    /// How many pods fit by brute force and how many wait, for groups whose pending pods are all alike.
    fn fits_at_most(&self, group: &str) -> Option<(i64, i64)> {
        let pending = self
            .pods
            .values()
            .filter(|pod| pod.group.as_deref() == Some(group) && pod.node.is_none() && !pod.succeeded);
        let sizes: Vec<_> = pending.map(|pod| pod.gpu).collect();
        let gpu = *sizes.first()?;
        if sizes.iter().any(|size| *size != gpu) {
            return None;
        }
        let slots = |rack: Option<&String>| -> i64 {
            let inside = self.nodes.iter().filter(|(_, node)| rack.is_none() || node.rack.as_ref() == rack);
            inside.map(|(name, _)| self.free_slots(name, gpu)).sum()
        };
        let fits = if self.groups[group].in_rack {
            let pinned = self.racks_of(group);
            match pinned.len() {
                0 => self
                    .nodes
                    .values()
                    .filter_map(|node| node.rack.as_ref())
                    .map(|rack| slots(Some(rack)))
                    .max()
                    .unwrap_or(0),
                1 => slots(pinned.first()),
                _ => 0,
            }
        } else {
            slots(None)
        };
        Some((fits, sizes.len() as i64))
    }

    /// Whoever still waits has reason to: no change that made room was missed.
    fn assert_nothing_more_fits(&self) {
        for (name, group) in &self.groups {
            if let Some((fits, pending)) = self.fits_at_most(name) {
                let placed = self.placed(name).count() as i64 + self.succeeded_count(name);
                let wanted = group.min_count.unwrap_or(1) as i64;
                assert!(fits == 0 || placed + fits.min(pending) < wanted, "{name} was forgotten");
            }
        }
        let alone = self.pods.iter().filter(|(_, pod)| pod.group.is_none() && pod.node.is_none() && !pod.succeeded);
        for (name, pod) in alone.filter(|(_, pod)| pod.gpu > 0 && !pod.port) {
            assert!(self.nodes.keys().all(|node| self.free_slots(node, pod.gpu) == 0), "{name} was forgotten");
        }
    }

    fn racks_of(&self, group: &str) -> BTreeSet<String> {
        let nodes = self.placed(group).filter_map(|pod| self.nodes.get(pod.node.as_deref()?));
        nodes.filter_map(|node| node.rack.clone()).collect()
    }

    /// A node may have shrunk under its pods; what comes now must fit into what it has now.
    fn assert_not_overcommitted(&self, name: &str, came: &str) {
        let node = self.nodes.get(name).expect("pods go only to nodes that exist");
        let on: Vec<_> = self.pods.values().filter(|pod| pod.node.as_deref() == Some(name)).collect();
        let gpu = on.iter().map(|pod| pod.gpu).sum::<i64>();
        assert!(gpu <= node.gpu || self.pods[came].gpu == 0, "{gpu} of {} gpus taken on {name}", node.gpu);
        assert!(on.len() as i64 <= node.pods, "too many pods on {name}");
        assert!(on.iter().filter(|pod| pod.port).count() <= 1, "one host port twice on {name}");
        assert!(!node.tainted, "{name} is tainted");
    }

    fn assert_atomic_and_together(&self, group: &str) {
        let placed = self.placed(group).count() + self.succeeded_count(group) as usize;
        assert!(placed >= self.groups[group].min_count.unwrap_or(1), "{group} has {placed} pods placed");
        if self.groups[group].in_rack {
            assert_eq!(self.racks_of(group).len(), 1, "{group} is spread over racks");
        }
    }
}

fn nth<'a>(names: impl Iterator<Item = &'a String>, number: u8) -> Option<String> {
    let names: Vec<_> = names.collect();
    names.get(usize::from(number) % names.len().max(1)).map(|name| (*name).clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// No over-commit, gangs whole or not at all, groups in one domain, exact answers for groups of equal pods, and
    /// kept indexes equal to fresh ones: all checked after every step.
    #[test]
    fn every_decision_keeps_the_promises(steps in steps()) {
        Run::of(&steps);
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn same_changes_give_the_same_decisions(steps in steps()) {
        prop_assert_eq!(Run::of(&steps).log, Run::of(&steps).log);
    }
}
