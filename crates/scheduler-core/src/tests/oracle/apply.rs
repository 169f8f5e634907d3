//! Applies a change to the core and to the model.

use std::time::Duration;

use serde_json::json;
use types::views::ObjectKey;

use super::change::Change;
use super::model::{GroupState, NodeState, Nomination, PodStage, PodState};
use super::run::{OracleRun, job, nth};
use crate::BindOutcome;
use crate::tests::reference_model::PodShape;

impl OracleRun {
    pub(super) fn apply(&mut self, change: &Change) {
        self.print(|| format!("{change:?}"));
        match *change {
            Change::SetNode { .. } | Change::Relabel { .. } | Change::LoseNode { .. } => self.change_nodes(change),
            Change::Group { .. } | Change::Member { .. } | Change::Single { .. } | Change::Foreign { .. } => {
                self.add(change);
            }
            Change::SetMinCount { .. }
            | Change::SetExpectedCount { .. }
            | Change::SetPriority { .. }
            | Change::ToggleRack { .. }
            | Change::SetOwner { .. }
            | Change::ForgetGroup { .. }
            | Change::RestoreGroup { .. }
            | Change::NewRun { .. } => self.change_group(change),
            Change::Steal { .. } | Change::Nominate { .. } | Change::BindForeign { .. } => {
                self.change_by_other_scheduler(change);
            }
            Change::Ungate { .. }
            | Change::Adopt { .. }
            | Change::TerminateInFlight { .. }
            | Change::Recreate { .. }
            | Change::Terminate { .. }
            | Change::Delete { .. }
            | Change::Finish { .. }
            | Change::Resize { .. }
            | Change::Shrink { .. } => self.change_pod(change),
            Change::Publish => self.publish(),
            Change::Settle { bound } => self.settle(bound),
            Change::FailOver { bound } => self.fail_over(bound),
            Change::Decide { seconds, outcomes } => {
                self.world.now += Duration::from_secs(seconds.into());
                self.decide(outcomes);
                self.model.update_nodes();
                self.check();
            }
        }
        self.model.update_groups();
        self.model.update_nodes();
        self.world.core.assert_consistent();
    }

    fn change_nodes(&mut self, change: &Change) {
        match *change {
            Change::SetNode { name, gpu, cpu, pods, rack, is_tainted, has_ssd } => {
                let rack = (rack > 0).then(|| format!("r{rack}"));
                self.set_node(&format!("n{name}"), (gpu, cpu, pods), rack, (is_tainted, has_ssd));
            }
            Change::Relabel { name, rack } => self.relabel(&format!("n{name}"), rack),
            Change::LoseNode { name } => {
                if self.model.nodes.remove(&format!("n{name}")).is_some() {
                    self.world.apply(&format!("drop n{name}"));
                }
            }
            _ => unreachable!("a change of nodes"),
        }
    }

    fn add(&mut self, change: &Change) {
        match *change {
            Change::Group {
                basic,
                min_count,
                extra,
                gpu,
                cpu,
                leader,
                in_rack,
                priority,
                on_ssd,
                gated_count,
                owner,
            } => {
                let name = format!("g{}", self.model.groups.len());
                let min_count_of = (!basic).then_some(min_count.into());
                let owner = job(owner);
                let group = GroupState { min_count: min_count_of, in_rack, priority, owner, ..GroupState::default() };
                self.model.groups.insert(name.clone(), group);
                self.write_group(&name);
                for number in 0..min_count + extra {
                    let (gpu, cpu) = leader.filter(|_| number == 0).unwrap_or((gpu, cpu));
                    let shape = PodShape { gpu: gpu.into(), cpu: cpu.into(), on_ssd, on_node: None };
                    self.add_pod(shape, Some(&name), "job", number < gated_count);
                }
            }
            Change::Member { group, gpu, is_gated, has_other_owner } => {
                if let Some(name) = nth(self.model.groups.keys(), group) {
                    let owner = if has_other_owner { "other" } else { "job" };
                    self.add_pod(gpus(gpu), Some(&name), owner, is_gated);
                }
            }
            Change::Single { gpu, cpu, on_ssd, on_node } => {
                self.add_pod(PodShape { gpu: gpu.into(), cpu: cpu.into(), on_ssd, on_node }, None, "job", false);
            }
            Change::Foreign { gpu, priority, node } => self.add_foreign(gpu, priority, format!("n{node}")),
            _ => unreachable!("new pods"),
        }
    }

    fn change_group(&mut self, change: &Change) {
        match *change {
            Change::SetMinCount { group, min_count } => {
                if let Some(name) = self.pick_group(group, |group| !group.is_forgotten && group.min_count.is_some()) {
                    self.group(&name).min_count = Some(min_count.into());
                    self.write_group(&name);
                }
            }
            Change::SetExpectedCount { group, expected_count } => {
                if let Some(name) = self.pick_group(group, |group| !group.is_forgotten) {
                    self.group(&name).expected_count = expected_count.map(usize::from);
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
            Change::SetOwner { group, owner } => {
                if let Some(name) = self.pick_group(group, |group| !group.is_forgotten) {
                    self.count_again(|run| {
                        run.group(&name).owner = job(owner);
                        run.write_group(&name);
                    });
                }
            }
            Change::ForgetGroup { group } => {
                if let Some(name) = self.pick_group(group, |group| !group.is_forgotten) {
                    self.count_again(|run| {
                        let group = run.group(&name);
                        (group.is_forgotten, group.is_reached) = (true, false);
                        (group.had_quorum, group.start_observed) = (false, false);
                        run.world.forget_group(&name);
                    });
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
            Change::NewRun { group, count, is_same_job } => {
                if let Some(name) = nth(self.model.groups.keys(), group) {
                    self.begin_run(&name, count, is_same_job);
                }
            }
            _ => unreachable!("a change of one group"),
        }
    }

    fn change_by_other_scheduler(&mut self, change: &Change) {
        match *change {
            Change::Steal { pod, node } => {
                let node = nth(self.model.nodes.keys(), node);
                let pod = self.pick(pod, PodState::is_pending);
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
            _ => unreachable!("what another scheduler does"),
        }
    }

    fn change_pod(&mut self, change: &Change) {
        match *change {
            Change::Ungate { pod } => {
                if let Some(name) = self.pick(pod, |pod| pod.stage == PodStage::Gated) {
                    // What a pod is described by does not include gates.
                    self.world.change_pod(&name, |_| {});
                    self.pod(&name).stage = PodStage::Pending;
                }
            }
            Change::Adopt { pod, owner } => {
                if let Some(name) = self.pick(pod, |pod| pod.group.is_some() && pod.stage != PodStage::Gated) {
                    self.adopt(&name, job(owner).unwrap_or_else(|| "nobody".to_owned()));
                }
            }
            Change::Terminate { pod } => {
                if let Some(name) = self.pick(pod, |pod| pod.is_bound() && !pod.is_terminating) {
                    self.terminate(&name);
                }
            }
            Change::TerminateInFlight { pod } => {
                let is_in_flight = |pod: &PodState| matches!(pod.stage, PodStage::InFlight(_));
                if let Some(name) = self.pick(pod, |pod| is_in_flight(pod) && !pod.is_terminating) {
                    self.terminate(&name);
                }
            }
            Change::Recreate { pod } => {
                if let Some(name) = self.pick(pod, |pod| !matches!(pod.stage, PodStage::Nominated(_))) {
                    self.recreate(&name);
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
                // What a pod is described by does not include its affinity.
                let is_described = |pod: &PodState| !pod.is_terminating && pod.shape.on_node.is_none();
                if let Some(name) = self.pick(pod, |pod| is_resizable(pod) && is_described(pod)) {
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

    fn adopt(&mut self, name: &str, uid: String) {
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": uid, "uid": uid, "controller": true}]);
        self.count_again(|run| {
            let has_succeeded = run.model.pods[name].stage == PodStage::Succeeded;
            run.world.change_pod(name, |pod| {
                pod["metadata"]["ownerReferences"] = owner;
                pod["status"]["phase"] = json!(if has_succeeded { "Succeeded" } else { "Pending" });
            });
            run.pod(name).owner = Some(uid);
        });
    }

    fn terminate(&mut self, name: &str) {
        let at = json!("2026-01-01T00:00:00Z");
        self.world.change_pod(name, |pod| pod["metadata"]["deletionTimestamp"] = at);
        self.pod(name).is_terminating = true;
    }

    fn recreate(&mut self, name: &str) {
        let (before, uid) = (self.model.pods[name].clone(), self.world.pods[name].metadata.uid.clone());
        let owner = before.owner.unwrap_or_else(|| "job".to_owned());
        self.add_named_pod(name, before.shape, before.group.as_deref(), &owner, false);
        if matches!(before.stage, PodStage::InFlight(_)) {
            // The result of a bind of the pod that is gone says nothing about the new one.
            self.world.core.settled(BindOutcome::Failed { pod: ObjectKey::new("ns", name), uid }, self.world.now);
        }
    }

    /// A change of owners. Succeeded pods that are members again may belong to the current run.
    fn count_again(&mut self, change: impl FnOnce(&mut OracleRun)) {
        let is_no_member = |name: &&String| !self.model.is_member(&self.model.pods[*name]);
        let before: Vec<String> = self.model.pods.keys().filter(is_no_member).cloned().collect();
        change(self);
        for name in before {
            if self.model.is_member(&self.model.pods[&name]) {
                self.pod(&name).is_past = false;
            }
        }
    }

    fn request(&mut self, pod: &str, gpu: u8) {
        let mut requests = json!({"nvidia.com/gpu": gpu.to_string()});
        if self.model.pods[pod].shape.cpu > 0 {
            requests["cpu"] = json!(self.model.pods[pod].shape.cpu.to_string());
        }
        self.world.change_pod(pod, |pod| pod["spec"]["containers"][0]["resources"]["requests"] = requests);
    }

    fn set_node(
        &mut self,
        name: &str,
        (gpu, cpu, pods): (u8, u8, u8),
        rack: Option<String>,
        (is_tainted, has_ssd): (bool, bool),
    ) {
        let mut text = format!("node {name} gpu={gpu} cpu={cpu} pods={pods}");
        rack.iter().for_each(|rack| text += &format!(" rack={rack}"));
        text += if is_tainted { " taint=k:NoSchedule" } else { "" };
        text += if has_ssd { " disk=ssd" } else { "" };
        self.world.apply(&text);
        let (gpu, cpu, pods) = (gpu.into(), cpu.into(), pods.into());
        // A node that shrinks over-commits itself, and no pod is released for that.
        let node = NodeState { gpu, cpu, pods, rack, is_tainted, has_ssd, ..NodeState::default() };
        self.model.nodes.insert(name.to_owned(), node);
    }

    fn relabel(&mut self, name: &str, rack: u8) {
        if let Some(node) = self.model.nodes.get(name) {
            let rack = (rack > 0).then(|| format!("r{rack}"));
            let sizes = (node.gpu as u8, node.cpu as u8, node.pods as u8);
            self.set_node(name, sizes, rack, (node.is_tainted, node.has_ssd));
        }
    }

    fn write_group(&mut self, name: &str) {
        let group = &self.model.groups[name];
        let policy = group.min_count.map_or("basic".to_owned(), |count| format!("gang minCount={count}"));
        let mut text = format!("group {name} {policy} groupPriority={}", group.priority);
        text += if group.in_rack { " key=rack" } else { "" };
        text += if group.is_reached { " placed=True" } else { "" };
        group.expected_count.iter().for_each(|expected| text += &format!(" expected={expected}"));
        group.owner.iter().for_each(|owner| text += &format!(" owner=Job:{owner}"));
        self.world.apply(&text);
    }

    pub(super) fn add_pod(&mut self, shape: PodShape, group: Option<&str>, owner: &str, is_gated: bool) {
        self.pods_created += 1;
        self.add_named_pod(&format!("p{:03}", self.pods_created), shape, group, owner, is_gated);
    }

    fn add_named_pod(&mut self, name: &str, shape: PodShape, group: Option<&str>, owner: &str, is_gated: bool) {
        let mut text = format!("pod {name} gpu={} owner=Job:{owner}", shape.gpu);
        text += &if shape.cpu > 0 { format!(" cpu={}", shape.cpu) } else { String::new() };
        shape.on_node.iter().for_each(|node| text += &format!(" names=n{node}"));
        text += if shape.on_ssd { " selects=disk:ssd" } else { "" };
        text += if is_gated { " gate=wait" } else { "" };
        group.iter().for_each(|group| text += &format!(" group={group}"));
        self.world.apply(&text);
        let stage = if is_gated { PodStage::Gated } else { PodStage::Pending };
        let (group, owner) = (group.map(str::to_owned), Some(owner.to_owned()));
        let pod = PodState { shape, group, owner, stage, is_terminating: false, resized_gpu: None, is_past: false };
        self.model.pods.insert(name.to_owned(), pod);
    }

    fn add_foreign(&mut self, gpu: u8, priority: u8, node: String) {
        self.pods_created += 1;
        let name = format!("p{:03}", self.pods_created);
        self.world.apply(&format!("pod {name} gpu={gpu} scheduler=other priority={priority} nominated={node}"));
        let (shape, stage) = (gpus(gpu), PodStage::Nominated(Nomination { node, priority }));
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

    pub(super) fn delete(&mut self, name: &str) {
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

    pub(super) fn show_bound(&mut self, name: &str, node: &str) {
        self.world.show_bound(name, node);
        self.pod(name).settle(PodStage::Bound(node.to_owned()));
        self.model.update_groups();
    }

    fn begin_run(&mut self, group: &str, count: u8, is_same_job: bool) {
        let members = self.model.pods.iter().filter(|(_, pod)| pod.group.as_deref() == Some(group));
        let members: Vec<String> = members.map(|(name, _)| name.clone()).collect();
        let mut shape = gpus(1);
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
            if bound >> (at % 16) & 1 == 1 && !self.pod(&name).is_terminating {
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
                1 if !self.pod(&name).is_terminating => self.show_bound(&name, &node),
                _ => self.pod(&name).settle(PodStage::Pending),
            }
        }
        self.world.fail_over();
        self.model.forget_observations();
    }
}

fn gpus(gpu: u8) -> PodShape {
    PodShape { gpu: gpu.into(), ..PodShape::default() }
}
