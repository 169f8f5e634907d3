//! A core and the model beside it: what the core decides becomes true in both, and they are compared whenever the core
//! has nothing more to decide.

use std::collections::BTreeSet;
use std::time::Duration;

use super::model::{ClusterModel, GroupState, PodStage, PodState};
use crate::tests::text_cluster::{TextCluster, line};
use crate::{
    BindOutcome, Config, Decision, DecisionAction, QueueStatus, Refusal, RefusalCause, Release, ReleaseReason, Unit,
};

/// How long a gang may be half bound while no bind of it ends: until its release is due (15 s), and while its binds may
/// still make progress (30 s). The core is called up to a minute late.
const MAX_HALF_BOUND: Duration = Duration::from_secs(120);
/// How long a node may be over-committed: until the release of the surplus is due (10 s).
const MAX_OVERCOMMITTED: Duration = Duration::from_secs(40);

/// One history.
pub(super) struct OracleRun {
    pub(super) world: TextCluster,
    pub(super) model: ClusterModel,
    pub(super) pods_created: usize,
    max_backoff: Duration,
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

    pub(super) fn print(&self, text: impl FnOnce() -> String) {
        if self.prints {
            println!("{}", text());
        }
    }

    pub(super) fn pod(&mut self, name: &str) -> &mut PodState {
        self.model.pods.get_mut(name).expect("the pod exists")
    }

    pub(super) fn group(&mut self, name: &str) -> &mut GroupState {
        self.model.groups.get_mut(name).expect("the group exists")
    }

    pub(super) fn pick(&self, number: u8, which: impl Fn(&PodState) -> bool) -> Option<String> {
        nth(self.model.pods.iter().filter(|(_, pod)| which(pod)).map(|(name, _)| name), number)
    }

    pub(super) fn pick_group(&self, number: u8, which: impl Fn(&GroupState) -> bool) -> Option<String> {
        nth(self.model.groups.iter().filter(|(_, group)| which(group)).map(|(name, _)| name), number)
    }

    pub(super) fn decide(&mut self, mut outcomes: u64) {
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
        if let ReleaseReason::HalfBound { .. } = release.reason {
            self.model.update_groups();
            for released in &release.pods {
                let group = self.model.pods[&released.pod.name].group.clone().expect("it is a member");
                let group_state = &self.model.groups[&group];
                let may_be_half_bound = group_state.is_half_bound || group_state.has_unclear_start;
                assert!(may_be_half_bound, "{group} is released and is not half bound");
            }
        }
        for released in &release.pods {
            let pod = self.model.pods[&released.pod.name].clone();
            self.delete(&released.pod.name);
            self.add_pod(pod.shape, pod.group.as_deref(), &pod.owner.expect("only owned pods are released"), false);
        }
    }

    /// The core has nothing more to decide.
    pub(super) fn check(&mut self) {
        let now = self.world.now;
        self.check_listed();
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
            for (name, _) in singles.filter(|(name, pod)| is_decided(name) && pod.is_pending()) {
                assert!(!self.model.pod_fits(name), "{name} fits and waits");
            }
        }
        self.check_releases();
    }

    /// Every unit with pods to place is in the queue.
    fn check_listed(&mut self) {
        let queue = self.world.core.queue();
        let listed: BTreeSet<&String> = queue.iter().map(|queued| &queued.unit.key().name).collect();
        let groups = self.model.groups.keys().filter(|group| self.model.pending(group).next().is_some());
        let singles = self.model.pods.iter().filter(|(_, pod)| pod.group.is_none() && pod.is_pending());
        for name in groups.chain(singles.map(|(name, _)| name)) {
            assert!(listed.contains(name), "{name} is not in the queue");
        }
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

/// The uid of a Job, or none.
pub(super) fn job(number: u8) -> Option<String> {
    [None, Some("job"), Some("other")][usize::from(number)].map(str::to_owned)
}

/// The name with this number, counted around.
pub(super) fn nth<'a>(names: impl Iterator<Item = &'a String>, number: u8) -> Option<String> {
    let names: Vec<_> = names.collect();
    names.get(usize::from(number) % names.len().max(1)).map(|name| (*name).clone())
}
