//! Applies changes to a core and to the model, and compares them whenever the core has nothing more to decide.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::change::Change;
use super::model::{ClusterModel, GroupState, NodeState, Nomination, PodStage, PodState};
use crate::tests::reference_model::PodShape;
use crate::tests::text_cluster::{TextCluster, line};
use crate::{BindOutcome, Config, Decision, DecisionAction, QueueStatus, Refusal, RefusalCause, Release, Unit};

/// How long a gang may be half bound while no bind of it ends: until its release is due (15 s), and while its binds may
/// still make progress (30 s). The core is called up to a minute late.
const MAX_HALF_BOUND: Duration = Duration::from_secs(120);
/// How long a node may be over-committed: until the release of the surplus is due (10 s).
const MAX_OVERCOMMITTED: Duration = Duration::from_secs(40);

/// One history.
pub(super) struct OracleRun {
    world: TextCluster,
    model: ClusterModel,
    max_backoff: Duration,
    pods_created: usize,
    prints: bool,
}

/// What became of a bind.
enum SentBind {
    Bound,
    Failed,
    Unknown,
}

impl OracleRun {
    pub(super) fn new(config: Config) -> OracleRun {
        let max_backoff = config.max_backoff;
        let world = TextCluster::with(config, "");
        OracleRun { world, model: ClusterModel::default(), max_backoff, pods_created: 0, prints: false }
    }

    /// Prints changes and decisions.
    pub(super) fn printing(config: Config) -> OracleRun {
        OracleRun { prints: true, ..OracleRun::new(config) }
    }

    fn print(&self, text: impl FnOnce() -> String) {
        if self.prints {
            println!("{}", text());
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        self.print(|| format!("{change:?}"));
        match *change {
            Change::SetNode { name, gpu, pods, rack, is_tainted, has_ssd } => {
                let rack = (rack > 0).then(|| format!("r{rack}"));
                self.set_node(&format!("n{name}"), gpu, pods, rack, (is_tainted, has_ssd));
            }
            Change::Relabel { name, rack } => self.relabel(&format!("n{name}"), rack),
            Change::LoseNode { name } => {
                if self.model.nodes.remove(&format!("n{name}")).is_some() {
                    self.world.apply(&format!("drop n{name}"));
                }
            }
            Change::Group { basic, min_count, extra, gpu, leader, in_rack, priority, on_ssd, gated_count } => {
                let name = format!("g{}", self.model.groups.len());
                let min_count_of = (!basic).then_some(min_count.into());
                let group = GroupState { min_count: min_count_of, in_rack, priority, ..GroupState::default() };
                self.model.groups.insert(name.clone(), group);
                self.write_group(&name);
                for number in 0..min_count + extra {
                    let gpu = leader.filter(|_| number == 0).unwrap_or(gpu);
                    let shape = PodShape { gpu: gpu.into(), on_ssd };
                    self.add_pod(shape, Some(&name), "job", number < gated_count);
                }
            }
            Change::Member { group, gpu, is_gated } => {
                if let Some(name) = nth(self.model.groups.keys(), group) {
                    self.add_pod(PodShape { gpu: gpu.into(), on_ssd: false }, Some(&name), "job", is_gated);
                }
            }
            Change::Single { gpu, on_ssd } => {
                self.add_pod(PodShape { gpu: gpu.into(), on_ssd }, None, "job", false);
            }
            Change::Foreign { gpu, priority, node } => self.add_foreign(gpu, priority, format!("n{node}")),
            Change::SetMinCount { group, min_count } => {
                if let Some(name) = self.pick_group(group, |group| !group.is_forgotten && group.min_count.is_some()) {
                    self.group(&name).min_count = Some(min_count.into());
                    self.write_group(&name);
                }
            }
            Change::SetPriority { group, priority } => {
                if let Some(name) = self.pick_group(group, |group| !group.is_forgotten) {
                    self.group(&name).priority = priority;
                    self.write_group(&name);
                }
            }
            Change::ToggleRack { group } => {
                if let Some(name) = self.pick_group(group, |group| !group.is_forgotten) {
                    self.group(&name).in_rack ^= true;
                    self.write_group(&name);
                }
            }
            Change::ForgetGroup { group } => {
                if let Some(name) = self.pick_group(group, |group| !group.is_forgotten) {
                    let group = self.group(&name);
                    (group.is_forgotten, group.is_reached) = (true, false);
                    (group.had_quorum, group.start_observed) = (false, false);
                    self.world.forget_group(&name);
                }
            }
            Change::RestoreGroup { group, min_count } => {
                if let Some(name) = self.pick_group(group, |group| group.is_forgotten) {
                    let group = self.group(&name);
                    group.is_forgotten = false;
                    group.min_count = group.min_count.map(|_| min_count.into());
                    self.write_group(&name);
                }
            }
            Change::Publish => self.publish(),
            Change::NewRun { group, count, is_same_job } => {
                if let Some(name) = nth(self.model.groups.keys(), group) {
                    self.begin_run(&name, count, is_same_job);
                }
            }
            Change::Settle { bound } => self.settle(bound),
            Change::FailOver { bound } => self.fail_over(bound),
            Change::Decide { seconds, outcomes } => {
                self.world.now += Duration::from_secs(seconds.into());
                self.decide(outcomes);
                self.model.update_nodes();
                self.check();
            }
            Change::Steal { .. }
            | Change::Nominate { .. }
            | Change::BindForeign { .. }
            | Change::Ungate { .. }
            | Change::Terminate { .. }
            | Change::Delete { .. }
            | Change::Finish { .. }
            | Change::Resize { .. }
            | Change::Shrink { .. } => self.change_pod(change),
        }
        self.model.update_groups();
        self.model.update_nodes();
        self.world.core.assert_consistent();
    }

    fn change_pod(&mut self, change: &Change) {
        match *change {
            Change::Steal { pod, node } => {
                let node = nth(self.model.nodes.keys(), node);
                let pod = self.pick(pod, |pod| pod.stage == PodStage::Pending);
                if let (Some(pod), Some(node)) = (pod, node) {
                    // A node that has shrunk stays over-committed when the surplus pod is released.
                    let had_room = !self.model.is_overcommitted(&node);
                    self.show_bound(&pod, &node);
                    let has_surplus = had_room && self.model.is_overcommitted(&node);
                    self.model.nodes.get_mut(&node).unwrap().has_surplus |= has_surplus;
                }
            }
            Change::Nominate { pod, node } => {
                let node = format!("n{node}");
                if let Some(name) = self.pick(pod, |pod| matches!(pod.stage, PodStage::Nominated(_))) {
                    self.world.change_pod(&name, |pod| pod["status"] = json!({"nominatedNodeName": node}));
                    if let PodStage::Nominated(nomination) = &mut self.pod(&name).stage {
                        nomination.node = node;
                    }
                }
            }
            Change::BindForeign { pod, node } => {
                let node = format!("n{node}");
                if let Some(name) = self.pick(pod, |pod| matches!(pod.stage, PodStage::Nominated(_)))
                    && self.model.nodes.contains_key(&node)
                    && self.model.free(&node).takes(self.model.pods[&name].shape)
                {
                    self.show_bound(&name, &node);
                }
            }
            Change::Ungate { pod } => {
                if let Some(name) = self.pick(pod, |pod| pod.stage == PodStage::Gated) {
                    // What a pod is described by does not include gates.
                    self.world.change_pod(&name, |_| {});
                    self.pod(&name).stage = PodStage::Pending;
                }
            }
            Change::Terminate { pod } => {
                if let Some(name) = self.pick(pod, |pod| pod.is_bound() && !pod.is_terminating) {
                    let at = json!("2026-01-01T00:00:00Z");
                    self.world.change_pod(&name, |pod| pod["metadata"]["deletionTimestamp"] = at);
                    self.pod(&name).is_terminating = true;
                }
            }
            Change::Delete { pod } => {
                if let Some(name) = self.pick(pod, |_| true) {
                    self.delete(&name);
                }
            }
            Change::Finish { pod } => {
                if let Some(name) = self.pick(pod, |pod| pod.is_bound() && !pod.is_terminating) {
                    self.finish(&name);
                }
            }
            Change::Shrink { pod } => {
                if let Some(name) = self.pick(pod, |pod| pod.is_bound() && !pod.is_terminating) {
                    self.request(&name, 1);
                    self.pod(&name).shape.gpu = 1;
                }
            }
            Change::Resize { pod, gpu } => {
                let is_resizable = |pod: &PodState| matches!(pod.stage, PodStage::Pending | PodStage::InFlight(_));
                if let Some(name) = self.pick(pod, is_resizable) {
                    // A pod in flight that grows may over-commit its node.
                    let gpu = if self.pod(&name).node().is_some() { 1 } else { gpu };
                    self.request(&name, gpu);
                    let pod = self.pod(&name);
                    match pod.node() {
                        Some(_) => pod.resized_gpu = Some(gpu.into()),
                        None => pod.shape.gpu = gpu.into(),
                    }
                }
            }
            _ => unreachable!("a change of one pod"),
        }
    }

    fn pod(&mut self, name: &str) -> &mut PodState {
        self.model.pods.get_mut(name).expect("the pod exists")
    }

    fn group(&mut self, name: &str) -> &mut GroupState {
        self.model.groups.get_mut(name).expect("the group exists")
    }

    fn pick(&self, number: u8, which: impl Fn(&PodState) -> bool) -> Option<String> {
        nth(self.model.pods.iter().filter(|(_, pod)| which(pod)).map(|(name, _)| name), number)
    }

    fn pick_group(&self, number: u8, which: impl Fn(&GroupState) -> bool) -> Option<String> {
        nth(self.model.groups.iter().filter(|(_, group)| which(group)).map(|(name, _)| name), number)
    }

    fn request(&mut self, pod: &str, gpu: u8) {
        let requests = json!({"nvidia.com/gpu": gpu.to_string()});
        self.world.change_pod(pod, |pod| pod["spec"]["containers"][0]["resources"]["requests"] = requests);
    }

    fn set_node(&mut self, name: &str, gpu: u8, pods: u8, rack: Option<String>, (is_tainted, has_ssd): (bool, bool)) {
        let mut text = format!("node {name} gpu={gpu} pods={pods}");
        rack.iter().for_each(|rack| text += &format!(" rack={rack}"));
        text += if is_tainted { " taint=k:NoSchedule" } else { "" };
        text += if has_ssd { " disk=ssd" } else { "" };
        self.world.apply(&text);
        let (gpu, pods) = (gpu.into(), pods.into());
        // A node that shrinks over-commits itself, and no pod is released for that.
        let node = NodeState { gpu, pods, rack, is_tainted, has_ssd, ..NodeState::default() };
        self.model.nodes.insert(name.to_owned(), node);
    }

    fn relabel(&mut self, name: &str, rack: u8) {
        if let Some(node) = self.model.nodes.get(name) {
            let rack = (rack > 0).then(|| format!("r{rack}"));
            let (gpu, pods) = (node.gpu as u8, node.pods as u8);
            self.set_node(name, gpu, pods, rack, (node.is_tainted, node.has_ssd));
        }
    }

    fn write_group(&mut self, name: &str) {
        let group = &self.model.groups[name];
        let policy = group.min_count.map_or("basic".to_owned(), |count| format!("gang minCount={count}"));
        let mut text = format!("group {name} {policy} groupPriority={}", group.priority);
        text += if group.in_rack { " key=rack" } else { "" };
        text += if group.is_reached { " placed=True" } else { "" };
        self.world.apply(&text);
    }

    fn add_pod(&mut self, shape: PodShape, group: Option<&str>, owner: &str, is_gated: bool) {
        self.pods_created += 1;
        let name = format!("p{:03}", self.pods_created);
        let mut text = format!("pod {name} gpu={} owner=Job:{owner}", shape.gpu);
        text += if shape.on_ssd { " selects=disk:ssd" } else { "" };
        text += if is_gated { " gate=wait" } else { "" };
        group.iter().for_each(|group| text += &format!(" group={group}"));
        self.world.apply(&text);
        let stage = if is_gated { PodStage::Gated } else { PodStage::Pending };
        let (group, owner) = (group.map(str::to_owned), Some(owner.to_owned()));
        let pod = PodState { shape, group, owner, stage, is_terminating: false, resized_gpu: None, is_past: false };
        self.model.pods.insert(name, pod);
    }

    fn add_foreign(&mut self, gpu: u8, priority: u8, node: String) {
        self.pods_created += 1;
        let name = format!("p{:03}", self.pods_created);
        self.world.apply(&format!("pod {name} gpu={gpu} scheduler=other priority={priority} nominated={node}"));
        let (shape, stage) =
            (PodShape { gpu: gpu.into(), on_ssd: false }, PodStage::Nominated(Nomination { node, priority }));
        let pod = PodState {
            shape,
            group: None,
            owner: None,
            stage,
            is_terminating: false,
            resized_gpu: None,
            is_past: false,
        };
        self.model.pods.insert(name, pod);
    }

    fn delete(&mut self, name: &str) {
        self.model.pods.remove(name);
        self.world.delete(name);
    }

    fn finish(&mut self, name: &str) {
        self.world.change_pod(name, |pod| pod["status"]["phase"] = json!("Succeeded"));
        match self.model.pods[name].group {
            Some(_) => self.pod(name).stage = PodStage::Succeeded,
            None => drop(self.model.pods.remove(name)),
        }
    }

    fn show_bound(&mut self, name: &str, node: &str) {
        self.world.show_bound(name, node);
        self.pod(name).settle(PodStage::Bound(node.to_owned()));
        self.model.update_groups();
    }

    fn begin_run(&mut self, group: &str, count: u8, is_same_job: bool) {
        let members = self.model.pods.iter().filter(|(_, pod)| pod.group.as_deref() == Some(group));
        let members: Vec<String> = members.map(|(name, _)| name.clone()).collect();
        let mut shape = PodShape { gpu: 1, on_ssd: false };
        let mut owner = None;
        for name in members {
            let pod = &self.model.pods[&name];
            (shape, owner) = (pod.shape, pod.owner.clone().filter(|_| is_same_job));
            match pod.stage {
                PodStage::Bound(_) if !pod.is_terminating => self.finish(&name),
                PodStage::Succeeded => {}
                _ => self.delete(&name),
            }
        }
        let owner = owner.unwrap_or_else(|| format!("job-{}", self.pods_created));
        (0..count).for_each(|_| self.add_pod(shape, Some(group), &owner, false));
    }

    fn publish(&mut self) {
        let is_due = |name: &&String| !self.model.groups[*name].is_reached && self.model.has_quorum(name);
        for name in self.model.groups.keys().filter(is_due).cloned().collect::<Vec<_>>() {
            self.group(&name).is_reached = true;
            // The core takes it as evidence that the quorum was there.
            self.group(&name).had_quorum = true;
            self.write_group(&name);
        }
    }

    fn in_flight(&self) -> Vec<(String, String)> {
        let in_flight = self.model.pods.iter().filter_map(|(name, pod)| match &pod.stage {
            PodStage::InFlight(node) => Some((name.clone(), node.clone())),
            _ => None,
        });
        in_flight.collect()
    }

    fn settle(&mut self, bound: u16) {
        for (at, (name, node)) in self.in_flight().into_iter().enumerate() {
            if bound >> (at % 16) & 1 == 1 {
                self.show_bound(&name, &node);
            } else {
                self.world.settle_failed(&name);
                self.pod(&name).settle(PodStage::Pending);
            }
        }
    }

    fn fail_over(&mut self, bound: u16) {
        for (at, (name, node)) in self.in_flight().into_iter().enumerate() {
            match bound >> (at % 16) & 1 {
                1 => self.show_bound(&name, &node),
                _ => self.pod(&name).settle(PodStage::Pending),
            }
        }
        self.world.fail_over();
        self.model.forget_observations();
    }

    fn decide(&mut self, mut outcomes: u64) {
        loop {
            let decision = self.world.core.next(self.world.now);
            self.note_new_runs();
            let Some(decision) = decision else { return };
            self.print(|| line(&decision));
            match &decision.action {
                DecisionAction::Bind(_) => self.bind(&decision, &mut outcomes),
                DecisionAction::Wait(_) => {}
                DecisionAction::Release(release) => self.release(release),
            }
            self.model.update_groups();
        }
    }

    fn note_new_runs(&mut self) {
        for run in self.world.core.take_new_runs() {
            self.group(&run.group.name).is_continued = run.is_continued;
            let is_past = |name: &&String| run.past_uids.contains(&self.world.pods[*name].metadata.uid);
            for name in self.model.pods.keys().filter(is_past).cloned().collect::<Vec<_>>() {
                self.pod(&name).is_past = true;
            }
        }
    }

    fn bind(&mut self, decision: &Decision, outcomes: &mut u64) {
        let DecisionAction::Bind(placements) = &decision.action else { return };
        if let Unit::Group(group) = &decision.unit {
            assert!(placements.len() >= self.model.required_count(&group.name), "{} starts in part", group.name);
            self.model.note_start(&group.name);
        }
        for placement in placements {
            let pod = self.model.pods.get_mut(&placement.pod.name).expect("only existing pods are placed");
            assert_eq!(pod.stage, PodStage::Pending, "{} is placed once", placement.pod.name);
            pod.stage = PodStage::InFlight(placement.node.clone());
            self.model.assert_placed_within_capacity(&placement.pod.name);
        }
        if let Unit::Group(group) = &decision.unit
            && self.model.groups[&group.name].in_rack
        {
            let racks = self.model.racks_of(&group.name).map(|racks| racks.len());
            assert_eq!(racks, Some(1), "{} is in one rack", group.name);
        }
        self.model.update_groups();
        for placement in placements {
            let (name, outcome) = (&placement.pod.name, *outcomes & 3);
            *outcomes >>= 2;
            let sent = match outcome {
                0 => SentBind::Bound,
                2 => SentBind::Failed,
                _ => SentBind::Unknown,
            };
            match sent {
                SentBind::Bound => {
                    let (pod, uid) = (placement.pod.clone(), placement.uid.clone());
                    self.world.core.settled(BindOutcome::Bound { pod, uid }, self.world.now);
                    self.show_bound(name, &placement.node);
                }
                SentBind::Failed => {
                    self.world.settle_failed(name);
                    self.pod(name).settle(PodStage::Pending);
                }
                SentBind::Unknown => {}
            }
        }
    }

    /// The pods are deleted, and their controllers create others.
    fn release(&mut self, release: &Release) {
        for released in &release.pods {
            let pod = self.model.pods[&released.pod.name].clone();
            self.delete(&released.pod.name);
            self.add_pod(pod.shape, pod.group.as_deref(), &pod.owner.expect("only owned pods are released"), false);
        }
    }

    /// The core has nothing more to decide.
    fn check(&mut self) {
        let now = self.world.now;
        let mut backing_off = BTreeSet::new();
        let mut undecided = BTreeSet::new();
        for queued in self.world.core.queue() {
            let name = queued.unit.key().name.clone();
            match queued.state {
                QueueStatus::Active => panic!("{name} is ready and was not decided"),
                QueueStatus::BackOff => {
                    assert!(queued.next_try.is_some_and(|at| at <= now + self.max_backoff), "{name} backs off");
                    backing_off.insert(name);
                    continue;
                }
                QueueStatus::Waiting | QueueStatus::Incomplete | QueueStatus::Unsupported => {}
            }
            let explanation = self.world.core.explain(&queued.unit, &[]).expect("a queued unit is tracked");
            let missed = self.world.core.take_missed_wakeups();
            assert_eq!(missed, 0, "{name} fits and was not woken: {:?}", explanation.lines());
            let gave_up = |refusal: &Refusal| refusal.cause == RefusalCause::DoesNotFit && !refusal.proven;
            if explanation.refusal.as_ref().is_some_and(gave_up) {
                undecided.insert(name);
            }
        }
        let is_decided = |name: &String| !backing_off.contains(name) && !undecided.contains(name);
        if !self.world.core.has_reservation() {
            for name in self.model.groups.keys().filter(|name| is_decided(name)) {
                assert!(!self.model.group_fits(name), "{name} fits and waits");
            }
            let singles = self.model.pods.iter().filter(|(_, pod)| pod.group.is_none());
            for (name, _) in singles.filter(|(name, pod)| is_decided(name) && pod.stage == PodStage::Pending) {
                assert!(!self.model.pod_fits(name), "{name} fits and waits");
            }
        }
        self.check_releases();
    }

    /// No gang is half bound, and no node over-committed, for longer than allowed.
    fn check_releases(&mut self) {
        let now = self.world.now;
        for name in self.model.groups.keys().cloned().collect::<Vec<_>>() {
            let in_flight = self.model.in_flight_count(&name);
            let group = self.group(&name);
            // The core learns the time only when it decides.
            let before = group.half_bound_since.filter(|(_, count)| group.is_half_bound && *count == in_flight);
            let since = before.map_or(now, |(since, _)| since);
            group.half_bound_since = group.is_half_bound.then_some((since, in_flight));
            assert!(now <= since + MAX_HALF_BOUND, "{name} is half bound since {since}");
        }
        for (name, node) in self.model.nodes.iter_mut().filter(|(_, node)| node.has_surplus) {
            let since = *node.overcommitted_since.get_or_insert(now);
            assert!(now <= since + MAX_OVERCOMMITTED, "{name} is over-committed since {since}");
        }
    }
}

fn nth<'a>(names: impl Iterator<Item = &'a String>, number: u8) -> Option<String> {
    let names: Vec<_> = names.collect();
    names.get(usize::from(number) % names.len().max(1)).map(|name| (*name).clone())
}
