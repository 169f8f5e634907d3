//! Ways out for groups that wait: when they are due, and who is named in them.
//!
//! They are looked for apart from decisions, when the shell has time for it: after the first refusal of a group, and then
//! at most once in a while however often it is refused. A refusal also goes stale by itself: a group comes back only when
//! there is more room, and nobody tells it that there is less. So those who were told are told anew, one after another,
//! once something has changed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use rustc_hash::FxHashMap;

use super::Core;
use crate::advice::{self, Asked, Found, Plan, Running};
use crate::alarms::Alarms;
use crate::cycle;
use crate::decision::Unit;
use crate::groups::{Group, GroupId};
use crate::moment::later;
use crate::need::Need;
use crate::queue::UnitId;
use crate::refusal::{Cause, Refusal};
use crate::search::Effort;
use crate::ways_out::{Advice, Advised, Leaving, Origin, WayOut};

/// Of how many pods on nodes it is asked whether their leaving would help. A pass over them takes a few milliseconds.
const PODS_LOOKED_AT_MAX: usize = 50_000;

/// How often one of the groups that were not refused again is told anew. There may be thousands of them, and each takes
/// some milliseconds in a large cluster.
const RENEW_EVERY: Duration = Duration::from_millis(100);

/// For whom ways out are to be looked for.
#[derive(Debug, Default)]
pub(super) struct Advisory {
    /// When that was last done, for groups that exist.
    last: FxHashMap<UnitId, Told>,
    due: Alarms<UnitId>,
    /// Those who were told, and have not been found to wait no more since.
    told: BTreeSet<(Told, UnitId)>,
    /// Changes of what is on the nodes so far.
    changes_count: u64,
    /// When somebody was last told anew without having been refused again.
    renewed: Option<Timestamp>,
}

/// When a group was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Told {
    /// How many changes there had been.
    changes_count: u64,
    at: Timestamp,
}

impl Advisory {
    /// The unit was refused. True if ways out are due at once.
    fn refused(&mut self, unit: UnitId, now: Timestamp, pause: Duration) -> bool {
        let at = self.last.get(&unit).map_or(now, |last| later(last.at, pause).max(now));
        self.due.ring_at(unit, at);
        at == now
    }

    fn next_due(&mut self, now: Timestamp, pause: Duration) -> Option<UnitId> {
        let unit = self.due.ringing(now, pause)?;
        self.due.clear(unit);
        Some(unit)
    }

    fn next_stale(&mut self, now: Timestamp, pause: Duration) -> Option<UnitId> {
        self.stale_at(pause).filter(|at| *at <= now)?;
        let (_, unit) = self.told.pop_first()?;
        Some(unit)
    }

    /// When somebody is to be told anew because something has changed since.
    fn stale_at(&self, pause: Duration) -> Option<Timestamp> {
        // Whoever was told first has seen the fewest changes.
        let (told, _) = self.told.first().filter(|(told, _)| told.changes_count != self.changes_count)?;
        let not_before = self.renewed.map_or(told.at, |renewed| renewed + RENEW_EVERY);
        Some(later(told.at, pause).max(not_before))
    }

    fn next_at(&self, pause: Duration) -> Option<Timestamp> {
        self.due.next_at().into_iter().chain(self.stale_at(pause)).min()
    }

    /// The unit is told now.
    fn tell(&mut self, unit: UnitId, now: Timestamp) {
        let told = Told { changes_count: self.changes_count, at: now };
        if let Some(before) = self.last.insert(unit, told)
            && !self.told.remove(&(before, unit))
        {
            // It came from there, and was not refused again.
            self.renewed = Some(now);
        }
        self.told.insert((told, unit));
    }

    /// Something on the nodes is not what it was.
    pub(super) fn cluster_changed(&mut self) {
        self.changes_count += 1;
    }

    /// The unit is no more.
    pub(super) fn forget(&mut self, unit: UnitId) {
        self.due.clear(unit);
        if let Some(told) = self.last.remove(&unit) {
            self.told.remove(&(told, unit));
        }
    }
}

impl Core {
    /// Looks for ways out for at most so many groups that wait and for which that is due. A refusal that says they are
    /// [`Advised::Coming`] gets them here, and one that is no longer true is put right. None for a group that finds a
    /// place by now; it is decided next.
    pub fn advise(&mut self, now: Timestamp, count_max: usize) -> Vec<(Unit, Option<Refusal>)> {
        let Some(pause) = self.config.advise_every else { return Vec::new() };
        let (mut given, mut running) = (Vec::new(), None);
        while given.len() < count_max
            && let Some(unit) = self.next_to_advise(now, pause)
        {
            // Whoever does not wait any more is decided anew, or was placed.
            let Some(need) = self.need(unit).filter(|_| self.queue.is_waiting(unit)) else { continue };
            self.show_hold_to(unit);
            self.advisory.tell(unit, now);
            let refusal = self.judge(&need).map(|refusal| {
                let running = running.get_or_insert_with(|| self.running());
                let advised = Advised::Given(self.ways_out(unit, &need, &refusal, running));
                Refusal { advised, ..refusal }
            });
            if refusal.is_none() {
                self.found_to_fit(unit);
            }
            given.push((need.unit, refusal));
        }
        given
    }

    fn next_to_advise(&mut self, now: Timestamp, pause: Duration) -> Option<UnitId> {
        let due = self.advisory.next_due(now, pause);
        // Decisions come first: numbers of those who wait anyway can wait until there are none to make.
        due.or_else(|| if self.queue.has_ready() { None } else { self.advisory.next_stale(now, pause) })
    }

    /// When [`Core::advise`] has something to do.
    pub fn advise_at(&self) -> Option<Timestamp> {
        self.config.advise_every.and_then(|pause| self.advisory.next_at(pause))
    }

    /// Takes note of a refusal for which ways out are to be looked for.
    pub(super) fn note_refused(&mut self, unit: UnitId, refusal: &mut Refusal, now: Timestamp) {
        // Single pods say what kube-scheduler's would; ways out are told to whoever asks.
        let is_told =
            matches!(unit, UnitId::Group(_)) && matches!(refusal.cause, Cause::NoRoom | Cause::NoDomain { .. });
        if let Some(pause) = self.config.advise_every.filter(|_| is_told)
            && self.advisory.refused(unit, now, pause)
        {
            refusal.advised = Advised::Coming;
        }
    }

    /// Why the unit finds no place now; none if it does. Nothing changes.
    pub(super) fn judge(&mut self, need: &Need) -> Option<Refusal> {
        cycle::judge(need, &mut self.cluster, &mut self.classes, Effort::of(self.config.search_steps_max))
    }

    /// Looks for ways out.
    pub(super) fn ways_out(&mut self, unit: UnitId, need: &Need, refusal: &Refusal, running: &InUse) -> Arc<Advice> {
        let members_on: Vec<_> = match unit {
            UnitId::Group(group) => self.groups.get(group).placed.nodes().collect(),
            UnitId::Pod(_) => Vec::new(),
        };
        let origin = match unit {
            UnitId::Group(group) => origin_of(self.groups.get(group)),
            UnitId::Pod(pod) => Origin { kind: "pod".to_owned(), key: self.pods.get(pod).key() },
        };
        let asked = Asked { unit, need, refusal, origin: &origin, members_on: &members_on, running: &running.units };
        let steps_max = self.config.search_steps_max;
        let mut found: Found = advice::look(&asked, &mut self.cluster, &mut self.classes, steps_max);
        found.advice.cut |= running.cut && refusal.could_wait;
        if let Some(end) = self.hold_to_end(&need.for_all_that_wait()) {
            // Room there is: nobody has to leave, and no node has to come.
            found.advice.ways.retain(|way| !way.is_about_nodes());
            return found.with(Some(end));
        }
        let wait = found.plan.take().map(|plan| self.wait_for(&plan, running));
        found.with(wait)
    }

    /// What has pods on nodes.
    pub(super) fn running(&self) -> InUse {
        let mut in_use = InUse { units: Vec::new(), cut: false };
        let mut by_group: FxHashMap<GroupId, usize> = FxHashMap::default();
        let mut looked_at = 0;
        for (id, pod) in self.pods.with_ids() {
            let Some(node) = pod.stage.node().filter(|node| self.cluster.node(*node).present) else { continue };
            looked_at += 1;
            if looked_at > PODS_LOOKED_AT_MAX {
                in_use.cut = true;
                break;
            }
            let mut new = |unit| {
                in_use.units.push(Running { unit, spots: Vec::new() });
                in_use.units.len() - 1
            };
            let at = match pod.group {
                Some(group) => *by_group.entry(group).or_insert_with(|| new(UnitId::Group(group))),
                None => new(UnitId::Pod(id)),
            };
            in_use.units[at].spots.push((node, Arc::clone(&pod.usage)));
        }
        in_use
    }

    fn wait_for(&self, plan: &Plan, running: &InUse) -> WayOut {
        let leaving = plan.leaving.iter().map(|at| {
            let Running { unit, spots } = &running.units[*at];
            let pods_count = spots.len();
            match unit {
                UnitId::Pod(id) => {
                    let key = self.pods.get(*id).key();
                    Leaving { kind: "pod".to_owned(), key, pods_count, group: None }
                }
                UnitId::Group(id) => leaving_group(self.groups.get(*id), pods_count),
            }
        });
        WayOut::WaitFor { leaving: leaving.collect(), domain: plan.region.chosen(&self.cluster) }
    }
}

/// Everything with pods on nodes.
pub(super) struct InUse {
    units: Vec<Running>,
    /// Whether there is more than was looked at.
    cut: bool,
}

/// People know the Job, or whatever else has made the group, rather than the group.
fn origin_of(group: &Group) -> Origin {
    let owner = group.terms.as_ref().and_then(|terms| terms.owner.as_ref());
    let (kind, name) = match owner {
        Some(owner) => (owner.kind.to_lowercase(), &owner.name),
        None => ("podgroup".to_owned(), &group.key.name),
    };
    Origin { kind, key: api::views::ObjectKey::new(group.key.namespace.as_str(), name.as_str()) }
}

fn leaving_group(group: &Group, pods_count: usize) -> Leaving {
    let Origin { kind, key } = origin_of(group);
    Leaving { kind, key, pods_count, group: Some(group.key.clone()) }
}
