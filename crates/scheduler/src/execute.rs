//! Binds and other writes on their way to the server, each kind with its own limit.
//!
//! Binds and releases come first: they are what everyone waits for. Neither takes the other's places: a release may be
//! due because binds do not end. Conditions and Events wait for both, but not for ever: a few at a time go ahead once binds
//! have been many for a while. Only that a group was scheduled for the first time is written at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, ObjectKey, PodGroupView, PodView, View};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use kube::{Client, Error};
use runtime::{Cache, Pace, PatchKind, failure, is_conflict, is_not_found, request};
use scheduler_core::{Placement, PodRef, Release};
use serde_json::json;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::bind::bind;
use crate::conditions::{self, ConditionsPatch, DISRUPTION_TARGET};
use crate::run::duration_until;

/// How often a pod is marked anew when others write to it at the same time.
const MAX_CONFLICTS: u32 = 5;

/// The server is crowded while binds wait, or more than this part of those that may be are in flight: whatever else is
/// written then holds up the last of a gang.
const CONGESTION_DIVISOR: usize = 4;
/// For so long conditions and Events wait for a crowd of binds.
const MAX_CONDITION_DELAY: Duration = Duration::from_secs(5);
/// While there is a crowd for longer than that, this part of the usual conditions is in flight.
const CONGESTED_WRITES_DIVISOR: usize = 8;

/// How many writes of each kind may be in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteLimits {
    /// So many releases as well.
    pub(crate) binds: usize,
    pub(crate) group_conditions: usize,
    pub(crate) pod_conditions: usize,
}

/// A write that has ended.
#[derive(Debug)]
pub(crate) enum FinishedWrite {
    /// A bind; the placement names the node that the pod is on where it did not fail.
    Bind(Placement, Result<(), Error>),
    /// The release of a pod. If it failed and the pod stays, the core decides again.
    Release,
    /// A PodGroup's condition.
    GroupCondition(ObjectKey, Result<(), Error>),
    /// A pod's condition.
    PodCondition(ObjectKey, Result<(), Error>),
}

/// A bind that waits for a free place.
#[derive(Debug)]
struct PendingBind {
    placement: Placement,
    span: Span,
}

/// A release that waits for a free place.
#[derive(Debug)]
struct PendingRelease {
    pod: PodRef,
    span: Span,
    /// The pod as it was last seen.
    cached: Option<Arc<PodView>>,
    message: String,
    now: Timestamp,
}

/// Writes that wait and writes in flight.
pub(crate) struct WriteQueue {
    client: Client,
    limits: WriteLimits,
    /// Binds that wait for a free place, oldest decision first.
    pending_binds: VecDeque<PendingBind>,
    /// Releases that do.
    pending_releases: VecDeque<PendingRelease>,
    /// Since when there are many of both.
    congested_since: Option<Timestamp>,
    /// Pods whose bind waits, or is in flight since then.
    binding: BTreeMap<ObjectKey, Option<Instant>>,
    in_flight: FuturesUnordered<BoxFuture<'static, FinishedWrite>>,
    /// Binds in flight, the oldest first.
    binds: BTreeSet<(Instant, ObjectKey)>,
    releases: usize,
    group_conditions: usize,
    pod_conditions: usize,
}

impl WriteQueue {
    pub(crate) fn new(client: Client, limits: WriteLimits) -> WriteQueue {
        WriteQueue {
            client,
            limits,
            pending_binds: VecDeque::new(),
            pending_releases: VecDeque::new(),
            congested_since: None,
            binding: BTreeMap::new(),
            in_flight: FuturesUnordered::new(),
            binds: BTreeSet::new(),
            releases: 0,
            group_conditions: 0,
            pod_conditions: 0,
        }
    }

    /// Binds `placements`, as soon as there is room. Each bind is a child of the decision's span.
    pub(crate) fn bind(&mut self, placements: Vec<Placement>, decision: &Span) {
        self.binding.extend(placements.iter().map(|placement| (placement.pod.clone(), None)));
        self.pending_binds.extend(placements.into_iter().map(|placement| {
            let Placement { pod, node, .. } = &placement;
            let span = tracing::debug_span!(parent: decision, "bind", %pod, %node);
            PendingBind { placement, span }
        }));
        self.start_binds();
    }

    /// Takes pods away, and says on each why, as soon as there is room. `seen` are the pods as they were last seen.
    pub(crate) fn release(&mut self, release: Release, seen: &Cache<PodView>, now: Timestamp, decision: &Span) {
        let message = release.message();
        let waiting = |member: PodRef| {
            let seen = seen.get(&member.pod);
            let span = tracing::debug_span!(parent: decision, "release", pod = %member.pod);
            PendingRelease { pod: member, span, cached: seen, message: message.clone(), now }
        };
        self.pending_releases.extend(release.pods.into_iter().map(waiting));
        self.start_releases();
    }

    /// Whether a bind of `pod` waits or is in flight.
    pub(crate) fn is_binding(&self, pod: &ObjectKey) -> bool {
        self.binding.contains_key(pod)
    }

    /// Since when the oldest bind in flight is under way.
    pub(crate) fn oldest_bind(&self) -> Option<Instant> {
        self.binds.first().map(|(since, _)| *since)
    }

    /// Takes note of the time, for how long binds have been a crowd.
    pub(crate) fn update_congestion(&mut self, now: Timestamp) {
        let waits = !self.pending_binds.is_empty() || !self.pending_releases.is_empty();
        let is_crowded = waits || (self.binds.len() + self.releases) * CONGESTION_DIVISOR > self.limits.binds;
        self.congested_since = is_crowded.then(|| self.congested_since.unwrap_or(now));
    }

    /// How much of the server may be taken by what is not urgent.
    pub(crate) fn pace(&self, now: Timestamp) -> Pace {
        match self.congested_since {
            None => Pace::Usual,
            Some(since) if duration_until(now, since) < MAX_CONDITION_DELAY => Pace::Paused,
            Some(_) => Pace::Slow,
        }
    }

    /// Whether a condition may be written that is not to wait for binds.
    pub(crate) fn has_room_for_first_condition(&self) -> bool {
        self.group_conditions < self.limits.group_conditions
    }

    /// Whether another PodGroup's condition may be written now.
    pub(crate) fn has_room_for_group_condition(&self, now: Timestamp) -> bool {
        self.group_conditions < self.allowed(self.limits.group_conditions, now)
    }

    /// Whether another pod's condition may be written now.
    pub(crate) fn has_room_for_pod_condition(&self, now: Timestamp) -> bool {
        self.pod_conditions < self.allowed(self.limits.pod_conditions, now)
    }

    /// How many of `most` may be in flight now.
    fn allowed(&self, most: usize, now: Timestamp) -> usize {
        match self.pace(now) {
            Pace::Usual => most,
            Pace::Slow => most.div_ceil(CONGESTED_WRITES_DIVISOR),
            Pace::Paused => 0,
        }
    }

    /// Writes conditions of the PodGroup at `key`.
    pub(crate) fn write_group_condition(&mut self, key: ObjectKey, body: ConditionsPatch) {
        self.group_conditions += 1;
        let (client, path) = (self.client.clone(), status_path::<PodGroupView>(&key));
        let write = async move { FinishedWrite::GroupCondition(key, write_conditions(&client, &path, &body).await) };
        self.in_flight.push(write.boxed());
    }

    /// Writes conditions of the pod at `key`.
    pub(crate) fn write_pod_condition(&mut self, key: ObjectKey, body: ConditionsPatch) {
        self.pod_conditions += 1;
        let (client, path) = (self.client.clone(), status_path::<PodView>(&key));
        let write = async move { FinishedWrite::PodCondition(key, write_conditions(&client, &path, &body).await) };
        self.in_flight.push(write.boxed());
    }

    /// The next write that ends; waits for ever while none is in flight. Cancel safe.
    pub(crate) async fn next(&mut self) -> FinishedWrite {
        match self.in_flight.next().await {
            Some(done) => self.record_finished(done),
            None => std::future::pending().await,
        }
    }

    /// A write that has ended by now. Asking also lets those in flight proceed.
    pub(crate) fn try_next(&mut self) -> Option<FinishedWrite> {
        let done = self.in_flight.next().now_or_never()??;
        Some(self.record_finished(done))
    }

    fn record_finished(&mut self, done: FinishedWrite) -> FinishedWrite {
        match &done {
            FinishedWrite::Bind(placement, _) => {
                if let Some((pod, Some(since))) = self.binding.remove_entry(&placement.pod) {
                    self.binds.remove(&(since, pod));
                }
                self.start_binds();
            }
            FinishedWrite::Release => {
                self.releases -= 1;
                self.start_releases();
            }
            FinishedWrite::GroupCondition(..) => self.group_conditions -= 1,
            FinishedWrite::PodCondition(..) => self.pod_conditions -= 1,
        }
        done
    }

    fn start_binds(&mut self) {
        while self.binds.len() < self.limits.binds
            && let Some(PendingBind { mut placement, span }) = self.pending_binds.pop_front()
        {
            let now = Instant::now();
            self.binding.insert(placement.pod.clone(), Some(now));
            self.binds.insert((now, placement.pod.clone()));
            let client = self.client.clone();
            let write = async move {
                let outcome = bind(&client, &placement).await.map(|node| placement.node = node);
                match &outcome {
                    Ok(()) => tracing::debug!("bound"),
                    Err(error) => {
                        let Placement { pod, node, .. } = &placement;
                        tracing::info!("pod {pod}: bind to {node} failed: {}", failure::message(error));
                    }
                }
                FinishedWrite::Bind(placement, outcome)
            };
            self.in_flight.push(write.instrument(span).boxed());
        }
    }

    fn start_releases(&mut self) {
        while self.releases < self.limits.binds
            && let Some(waiting) = self.pending_releases.pop_front()
        {
            self.releases += 1;
            let client = self.client.clone();
            let PendingRelease { pod: member, span, cached: seen, message, now } = waiting;
            let write = async move {
                match release(&client, &member, seen, &message, now).await {
                    Ok(()) => tracing::debug!("released"),
                    Err(error) => tracing::warn!("pod {}: not released: {}", member.pod, failure::message(&error)),
                }
                FinishedWrite::Release
            };
            self.in_flight.push(write.instrument(span).boxed());
        }
    }
}

/// Marks the pod as taken away by somebody else's doing, so that its Job does not count it as a failure, and deletes it.
/// Only where others wrote to it since it was `seen` is it read once more.
async fn release(
    client: &Client,
    member: &PodRef,
    mut seen: Option<Arc<PodView>>,
    message: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let mut attempts = 0;
    loop {
        let pod = match seen.take() {
            Some(seen) => Some(seen),
            None => request::read::<PodView>(client, &member.pod).await?.map(Arc::new),
        };
        let Some(pod) = pod.filter(|pod| pod.metadata.uid == member.uid) else { return Ok(()) };
        let mark = Condition {
            message: message.to_owned(),
            ..conditions::true_condition(DISRUPTION_TARGET, PodView::RELEASED_BY_SCHEDULER)
        };
        let body = conditions::patch(&pod.metadata, &pod.status.conditions, &[mark], now);
        match write_conditions(client, &status_path::<PodView>(&member.pod), &body).await {
            // Its kubelet wrote as well.
            Err(error) if is_conflict(&error) && attempts < MAX_CONFLICTS => attempts += 1,
            Err(error) if is_not_found(&error) => return Ok(()),
            outcome => break outcome?,
        }
    }
    let options = json!({"preconditions": {"uid": member.uid}});
    match request::delete(client, &PodView::RESOURCE.object_path(&member.pod), &options).await {
        Err(error) if is_not_found(&error) => Ok(()),
        outcome => outcome.map(drop),
    }
}

async fn write_conditions(client: &Client, path: &str, body: &ConditionsPatch) -> Result<(), Error> {
    request::patch(client, path, PatchKind::Merge, body).await.map(drop)
}

fn status_path<V: View>(key: &ObjectKey) -> String {
    V::RESOURCE.object_path(key) + "/status"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody answers.
    fn unresponsive_client() -> Client {
        let never = |_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<http_body_util::Full<bytes::Bytes>>, std::convert::Infallible>>(
            )
        };
        Client::new(tower::service_fn(never), "default")
    }

    fn placements(from: usize, to: usize) -> Vec<Placement> {
        let one = |number: usize| Placement {
            pod: ObjectKey::new("default", format!("pod-{number}")),
            uid: number.to_string(),
            node: "node".to_owned(),
        };
        (from..to).map(one).collect()
    }

    #[tokio::test]
    async fn what_is_not_urgent_waits_for_a_crowd_of_binds_but_not_for_ever() {
        let mut writes =
            WriteQueue::new(unresponsive_client(), WriteLimits { binds: 8, group_conditions: 16, pod_conditions: 4 });
        let start = Timestamp::UNIX_EPOCH;
        let mut look = |binds: std::ops::Range<usize>, now: Timestamp| {
            writes.bind(placements(binds.start, binds.end), &Span::none());
            writes.update_congestion(now);
            let (groups, pods) = (writes.limits.group_conditions, writes.limits.pod_conditions);
            (writes.pace(now), writes.allowed(groups, now), writes.allowed(pods, now))
        };
        assert_eq!(look(0..2, start), (Pace::Usual, 16, 4), "two binds of eight are no crowd");
        assert_eq!(look(2..3, start), (Pace::Paused, 0, 0));
        let soon = start + MAX_CONDITION_DELAY - Duration::from_millis(1);
        assert_eq!(look(3..20, soon), (Pace::Paused, 0, 0));
        assert_eq!(look(20..20, start + MAX_CONDITION_DELAY), (Pace::Slow, 2, 1));
    }
}
