//! Properties that hold on every generated cluster, after every step.

use proptest::prelude::*;
use serde_json::json;

use super::property_config::property_config;
use super::reference_model::{ModelGroup, ModelNode, ModelPod, ReferenceModel};
use super::text_cluster::{TextCluster, line};
use crate::{Config, Decision, DecisionAction, Refusal, RefusalCause};

/// A step of a generated history. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
pub(super) enum PropertyStep {
    Node {
        name: u8,
        gpu: u8,
        pods: u8,
        rack: u8,
        tainted: bool,
        liked: bool,
    },
    DropNode {
        name: u8,
    },
    /// `leader`: how many GPUs its first pod requests, if different from its other pods.
    Group {
        min_count: u8,
        extra: u8,
        gpu: u8,
        leader: Option<u8>,
        basic: bool,
        in_rack: bool,
        priority: u8,
    },
    Member {
        group: u8,
        gpu: u8,
    },
    Pod {
        gpu: u8,
        port: bool,
        prefers: bool,
    },
    Delete {
        pod: u8,
    },
    Finish {
        pod: u8,
    },
    Decide {
        bind: bool,
    },
    Fail {
        pod: u8,
    },
}

pub(super) fn steps() -> impl Strategy<Value = Vec<PropertyStep>> {
    let step = prop_oneof![
        4 => (0..6u8, 0..8u8, 1..6u8, 0..4u8, prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(name, gpu, pods, rack, tainted, liked)| PropertyStep::Node { name, gpu, pods, rack, tainted, liked }),
        1 => (0..6u8).prop_map(|name| PropertyStep::DropNode { name }),
        3 => (1..6u8, 0..3u8, 1..4u8, prop::option::of(1..6u8), any::<bool>(), any::<bool>(), 0..3u8).prop_map(
            |(min_count, extra, gpu, leader, basic, in_rack, priority)| {
                PropertyStep::Group { min_count, extra, gpu, leader, basic, in_rack, priority }
            }
        ),
        2 => (any::<u8>(), 1..4u8).prop_map(|(group, gpu)| PropertyStep::Member { group, gpu }),
        2 => (0..3u8, any::<bool>(), any::<bool>()).prop_map(|(gpu, port, prefers)| PropertyStep::Pod { gpu, port, prefers }),
        3 => any::<u8>().prop_map(|pod| PropertyStep::Delete { pod }),
        1 => any::<u8>().prop_map(|pod| PropertyStep::Finish { pod }),
        5 => any::<bool>().prop_map(|bind| PropertyStep::Decide { bind }),
        1 => any::<u8>().prop_map(|pod| PropertyStep::Fail { pod }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Histories of a crowded cluster: one or two nodes full of small pods that leave one by one, and gangs whose leader
/// requests another number of GPUs than their workers. A decision follows every step.
fn crowded() -> impl Strategy<Value = Vec<PropertyStep>> {
    let node = |name: u8| {
        let node = move |gpu, pods, rack| PropertyStep::Node { name, gpu, pods, rack, tainted: false, liked: false };
        (4..10u8, 5..11u8, 1..3u8).prop_map(move |(gpu, pods, rack)| node(gpu, pods, rack))
    };
    let gang = (2..4u8, 0..2u8, 2..4u8, 2..6u8, any::<bool>()).prop_map(|(min_count, extra, gpu, leader, in_rack)| {
        PropertyStep::Group { min_count, extra, gpu, leader: Some(leader), basic: false, in_rack, priority: 0 }
    });
    let small = || (1..3u8).prop_map(|gpu| PropertyStep::Pod { gpu, port: false, prefers: false });
    let step = prop_oneof![
        1 => (0..2u8).prop_flat_map(node),
        2 => gang,
        1 => small(),
        5 => any::<u8>().prop_map(|pod| PropertyStep::Delete { pod }),
    ];
    let steps = (node(0), prop::collection::vec(small(), 3..10), prop::collection::vec(step, 5..25));
    steps.prop_map(|(node, small, steps)| {
        let decided = steps.into_iter().flat_map(|step| [step, PropertyStep::Decide { bind: true }]);
        std::iter::once(node).chain(small).chain([PropertyStep::Decide { bind: true }]).chain(decided).collect()
    })
}

/// A core without reservations, releases and recounts. A recount would hide a missed wake-up.
pub(super) fn plain() -> Config {
    let forever = std::time::Duration::from_secs(1 << 30);
    Config {
        reserve_after: None,
        release_after: None,
        overcommit_after: None,
        recount_after: forever,
        // Packing uses half of the steps. The other half must be enough to search these clusters to the end.
        max_search_steps: 2 * Config::default().max_search_steps,
        ..Config::default()
    }
}

pub(super) struct PropertyRun {
    pub(super) world: TextCluster,
    pub(super) model: ReferenceModel,
    pub(super) log: Vec<String>,
    /// Whether everything that fits must be placed. With reservations some units wait, and without a search some
    /// placements are not found.
    all_fit: bool,
    /// Whether searches run to their end.
    searches: bool,
    /// Whether every step is checked; a repeated history is not checked again.
    is_checked: bool,
}

impl PropertyRun {
    pub(super) fn of(steps: &[PropertyStep]) -> PropertyRun {
        PropertyRun::with(plain(), steps)
    }

    pub(super) fn with(config: Config, steps: &[PropertyStep]) -> PropertyRun {
        PropertyRun::new(config, true).through(steps)
    }

    /// The same history once more.
    pub(super) fn again(steps: &[PropertyStep]) -> PropertyRun {
        PropertyRun::new(plain(), false).through(steps)
    }

    fn new(config: Config, is_checked: bool) -> PropertyRun {
        let searches = config.max_search_steps > 0;
        let all_fit = config.reserve_after.is_none() && searches;
        let (world, model) = (TextCluster::with(config, ""), ReferenceModel::default());
        PropertyRun { world, model, log: Vec::new(), all_fit, searches, is_checked }
    }

    fn through(mut self, steps: &[PropertyStep]) -> PropertyRun {
        for step in steps {
            self.apply(step);
            if self.is_checked {
                self.world.core.assert_consistent();
            }
        }
        self.apply(&PropertyStep::Decide { bind: true });
        self
    }

    pub(super) fn apply(&mut self, step: &PropertyStep) {
        match step {
            PropertyStep::Node { name, gpu, pods, rack, tainted, liked } => {
                let rack = (*rack > 0).then(|| format!("r{rack}"));
                let mut text = format!("node n{name} gpu={gpu} pods={pods}");
                // Two racks make a zone.
                let zone = |rack: &String| if rack == "r3" { "z2" } else { "z1" };
                rack.iter().for_each(|rack| text += &format!(" rack={rack} zone={}", zone(rack)));
                text += if *tainted { " taint=k:NoSchedule" } else { " taint=s:PreferNoSchedule" };
                text += if *liked { " disk=ssd" } else { "" };
                self.world.apply(&text);
                let node = ModelNode { gpu: (*gpu).into(), pods: (*pods).into(), rack, tainted: *tainted };
                self.model.nodes.insert(format!("n{name}"), node);
            }
            PropertyStep::DropNode { name } => {
                if self.model.nodes.remove(&format!("n{name}")).is_some() {
                    self.world.apply(&format!("drop n{name}"));
                }
            }
            PropertyStep::Group { min_count, extra, gpu, leader, basic, in_rack, priority } => {
                let name = format!("g{}", self.model.groups.len());
                let policy = if *basic { "basic".to_owned() } else { format!("gang minCount={min_count}") };
                let key = if *in_rack { " key=rack" } else { "" };
                self.world.apply(&format!("group {name} {policy} groupPriority={priority}{key}"));
                let min_count_of = (!basic).then_some((*min_count).into());
                let group = ModelGroup { min_count: min_count_of, in_rack: *in_rack, priority: *priority };
                self.model.groups.insert(name.clone(), group);
                for number in 0..min_count + extra {
                    let gpu = leader.filter(|_| number == 0).unwrap_or(*gpu);
                    self.add_pod(gpu, false, false, Some(&name));
                }
            }
            PropertyStep::Member { group, gpu } => {
                if let Some(name) = nth(self.model.groups.keys(), *group) {
                    self.add_pod(*gpu, false, false, Some(&name));
                }
            }
            PropertyStep::Pod { gpu, port, prefers } => self.add_pod(*gpu, *port, *prefers, None),
            PropertyStep::Delete { pod } => {
                if let Some(name) = nth(self.model.pods.keys(), *pod) {
                    self.model.pods.remove(&name);
                    self.world.delete(&name);
                }
            }
            PropertyStep::Finish { pod } => {
                let bound = self.model.pods.iter().filter(|(_, pod)| pod.observed_bound).map(|(name, _)| name);
                if let Some(name) = nth(bound, *pod) {
                    let pod = self.model.pods.get_mut(&name).unwrap();
                    (pod.succeeded, pod.observed_bound, pod.node) = (true, false, None);
                    self.world.change_pod(&name, |pod| pod["status"]["phase"] = json!("Succeeded"));
                }
            }
            PropertyStep::Decide { bind } => self.decide(*bind),
            PropertyStep::Fail { pod } => {
                let assumed = self.model.pods.iter().filter(|(_, pod)| pod.node.is_some() && !pod.observed_bound);
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
        self.world.apply(&text);
        let group = group.map(str::to_owned);
        let members = || self.model.pods.values().filter(|pod| group.is_some() && pod.group == group);
        if members().all(|pod| pod.succeeded) {
            let members = self.model.pods.values_mut().filter(|pod| group.is_some() && pod.group == group);
            members.for_each(|pod| pod.is_past = true);
        }
        let pod = ModelPod {
            gpu: gpu.into(),
            port,
            group,
            node: None,
            observed_bound: false,
            succeeded: false,
            is_past: false,
        };
        self.model.pods.insert(name, pod);
    }

    fn decide(&mut self, bind: bool) {
        self.world.now += std::time::Duration::from_secs(60);
        while let Some(decision) = self.world.core.next(self.world.now) {
            self.log.push(line(&decision));
            self.check(&decision);
            if bind {
                self.world.bind(&decision);
                if let DecisionAction::Bind(placements) = &decision.action {
                    for placement in placements {
                        self.model.pods.get_mut(&placement.pod.name).unwrap().observed_bound = true;
                    }
                }
            }
        }
        if self.is_checked {
            self.world.core.assert_consistent();
        }
        if self.all_fit && self.is_checked {
            self.model.assert_nothing_more_fits();
        }
        if self.is_checked {
            self.assert_no_missed_wakeup();
        }
    }

    /// No waiting unit fits, as explanations check it, reservations included. A search that gives up may find more in
    /// a fuller cluster, so nothing is claimed for units that were not searched to the end.
    fn assert_no_missed_wakeup(&mut self) {
        if self.searches {
            for queued in self.world.core.queue() {
                let explanation = self.world.core.explain(&queued.unit, &[]).expect("a queued unit is tracked");
                let missed = self.world.core.take_missed_wakeups();
                assert_eq!(missed, 0, "{} fits and was not woken: {:?}", queued.unit, explanation.lines());
            }
        }
    }

    fn check(&mut self, decision: &Decision) {
        let group = self.model.groups.contains_key(&decision.unit.key().name).then(|| decision.unit.key().name.clone());
        let checked = group.as_deref().filter(|_| self.is_checked);
        let expected = checked.map(|group| (self.model.fits_at_most(group), self.model.is_mixed(group)));
        match &decision.action {
            DecisionAction::Bind(placements) => {
                for placement in placements {
                    let pod = self.model.pods.get_mut(&placement.pod.name).expect("only existing pods are placed");
                    assert!(pod.node.is_none() && !pod.succeeded, "a pod is placed once");
                    pod.node = Some(placement.node.clone());
                    self.model.assert_not_overcommitted(&placement.node, &placement.pod.name);
                }
                if let Some(group) = &group {
                    self.model.assert_atomic_and_together(group);
                }
                if let Some((fits, false)) = expected.filter(|_| self.all_fit) {
                    assert_eq!(placements.len(), fits, "everything that fits is placed");
                }
            }
            DecisionAction::Wait(refusal) => {
                if let (Some((fits, is_mixed)), Some(group)) = (expected, &group) {
                    self.check_refusal(refusal, group, fits, is_mixed);
                }
            }
            DecisionAction::Release(_) => panic!("nothing is released here"),
        }
    }

    fn check_refusal(&self, refusal: &Refusal, group: &str, fits: usize, is_mixed: bool) {
        let placed = self.model.placed(group).count() + self.model.succeeded_count(group) as usize;
        let too_few = placed + fits < self.model.groups[group].min_count.unwrap_or(1) || fits == 0;
        assert!(refusal.fits_count <= fits || refusal.cause != RefusalCause::DoesNotFit, "{}", refusal.message());
        // With reservations it is proven that no unreserved capacity is left.
        let has_reservation = self.world.core.has_reservation();
        if self.all_fit {
            assert!(too_few, "{}", refusal.message());
        } else if refusal.proven && refusal.cause == RefusalCause::DoesNotFit && !has_reservation {
            assert!(too_few, "proven, but wrong: {}", refusal.message());
        }
        if self.all_fit && refusal.cause == RefusalCause::DoesNotFit {
            assert!(refusal.proven, "clusters this small are searched to the end");
            assert!(is_mixed || refusal.fits_count == fits, "{}", refusal.message());
        }
    }
}

fn nth<'a>(names: impl Iterator<Item = &'a String>, number: u8) -> Option<String> {
    let names: Vec<_> = names.collect();
    names.get(usize::from(number) % names.len().max(1)).map(|name| (*name).clone())
}

proptest! {
    #![proptest_config(property_config(300))]

    /// No over-commit, gangs whole or not at all, groups in one domain, everything that fits is placed and what is
    /// refused does not fit (by exhaustive search), refusals are proven, no wake-up is missed, and cached indexes
    /// equal rebuilt ones: all checked after every step.
    #[test]
    fn every_decision_keeps_the_promises(steps in steps()) {
        PropertyRun::of(&steps);
    }
}

proptest! {
    #![proptest_config(property_config(300))]

    /// A waiting unit does not fit, whatever arrived and left while it waited.
    #[test]
    fn no_wakeup_is_missed_where_pods_of_several_sizes_wait(steps in crowded()) {
        PropertyRun::of(&steps);
    }

    /// The same while nodes are reserved.
    #[test]
    fn no_wakeup_is_missed_while_nodes_are_reserved(steps in crowded()) {
    let pause = std::time::Duration::from_secs(100);
    PropertyRun::with(Config { reserve_after: Some(pause), max_reservation: pause, ..plain() }, &steps);
    }
}

proptest! {
    #![proptest_config(property_config(100))]

    #[test]
    fn same_changes_give_the_same_decisions(steps in steps()) {
        prop_assert_eq!(PropertyRun::of(&steps).log, PropertyRun::of(&steps).log);
    }

    /// A refusal that is proven without a search is correct.
    #[test]
    fn a_proven_refusal_is_never_wrong(steps in steps()) {
        PropertyRun::with(Config { max_search_steps: 0, ..plain() }, &steps);
    }

    /// Reservations break no promise, and a unit that waits for one is woken when it ends.
    #[test]
    fn reservations_break_no_promise_and_end(steps in steps()) {
    let pause = std::time::Duration::from_secs(100);
    let config = Config { reserve_after: Some(pause), max_reservation: pause, ..plain() };
    let mut run = PropertyRun::with(config, &steps);
    // Nothing changes any more. Reservations begin and end, and each time one ends, the units that fit are placed. In
    // the end only units wait that do not fit.
        let mut idle = 0;
        while idle < 12 {
            let before = run.log.iter().filter(|line| line.contains(": bind")).count();
            run.apply(&PropertyStep::Decide { bind: true });
            if !run.world.core.has_reservation() {
                run.model.assert_nothing_more_fits();
            }
            idle = if run.log.iter().filter(|line| line.contains(": bind")).count() == before { idle + 1 } else { 0 };
        }
    }

    /// A gang is placed once its minCount is lowered to the reported number of pods that fit.
    #[test]
    fn the_number_that_fits_is_a_remedy(steps in steps()) {
        let mut run = PropertyRun::of(&steps);
        for name in run.model.groups.keys().cloned().collect::<Vec<_>>() {
            let Some(refusal) = run.refusal_of(&name) else { continue };
            if refusal.cause == RefusalCause::DoesNotFit && refusal.is_gang && refusal.fits_count > 0 {
                run.set_min_count(&name, refusal.placed_count + refusal.fits_count);
                run.apply(&PropertyStep::Decide { bind: true });
                let placed = run.model.placed(&name).count() + run.model.succeeded_count(&name) as usize;
                prop_assert!(placed >= refusal.placed_count + refusal.fits_count, "{}", refusal.message());
            }
        }
    }
}

impl PropertyRun {
    /// Why a group is refused now, if it is. It is decided once more for that.
    fn refusal_of(&mut self, name: &str) -> Option<Refusal> {
        let min_count = self.model.groups[name].min_count?;
        self.model.groups.get_mut(name).unwrap().priority += 10;
        self.set_min_count(name, min_count);
        let mut refused = None;
        while let Some(decision) = self.world.core.next(self.world.now) {
            self.check(&decision);
            self.world.bind(&decision);
            match decision.action {
                DecisionAction::Wait(refusal) if decision.unit.key().name == name => refused = Some(refusal),
                _ => {}
            }
        }
        refused
    }

    fn set_min_count(&mut self, name: &str, min_count: usize) {
        let group = self.model.groups.get_mut(name).unwrap();
        group.min_count = Some(min_count);
        let key = if group.in_rack { " key=rack" } else { "" };
        self.world.apply(&format!("group {name} gang minCount={min_count} groupPriority={}{key}", group.priority));
    }
}
