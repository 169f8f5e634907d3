//! Pending and in-flight writes: binds, releases and conditions, each kind with its own limit.
//!
//! Binds and releases come first, and have separate limits: a release may be due because binds do not end. Conditions and
//! Events are delayed while the number of binds is high, and then a few at a time proceed. Only the first
//! `PodGroupInitiallyScheduled` of a group is written at once.

mod bind; // one bind, until the server has reported its result
pub mod bind_monitor; // how long binds have been in flight
pub mod attempts; // binds in flight, for the metrics

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

use crate::announce::conditions::{self, ConditionsPatch, DISRUPTION_TARGET};
use crate::execute::bind::bind;
use crate::run::duration_until;

/// How often the mark of a released pod is retried after a conflict.
const MAX_CONFLICTS: u32 = 5;

/// There is congestion while binds are pending, or while more than this fraction of their limit is in flight. Other writes
/// would delay the last binds of a gang then.
const CONGESTION_DIVISOR: usize = 4;
/// How long congestion delays conditions and Events.
const MAX_CONDITION_DELAY: Duration = Duration::from_secs(5);
/// After that, this fraction of the usual limit of conditions applies while congestion lasts.
const CONGESTED_WRITES_DIVISOR: usize = 8;

/// How many writes of each kind may be in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteLimits {
    /// The same limit applies to releases.
    pub(crate) binds: usize,
    pub(crate) group_conditions: usize,
    pub(crate) pod_conditions: usize,
}

/// A write that has ended.
#[derive(Debug)]
pub(crate) enum FinishedWrite {
    /// A bind. If it succeeded, the placement has the node that the pod is on.
    Bind(Placement, Result<(), Error>),
    /// The release of a pod. If it failed and the pod stays, the core decides again.
    Release,
    /// A PodGroup's condition.
    GroupCondition(ObjectKey, Result<(), Error>),
    /// A pod's condition.
    PodCondition(ObjectKey, Result<(), Error>),
}

/// A bind beyond the limit of writes in flight.
#[derive(Debug)]
struct PendingBind {
    placement: Placement,
    span: Span,
}

/// A release beyond the limit of writes in flight.
#[derive(Debug)]
struct PendingRelease {
    pod: PodRef,
    span: Span,
    /// The pod as it was last cached.
    cached: Option<Arc<PodView>>,
    message: String,
    now: Timestamp,
}

/// Pending and in-flight writes.
pub(crate) struct WriteQueue {
    client: Client,
    limits: WriteLimits,
    /// Binds beyond the limit, oldest decision first.
    pending_binds: VecDeque<PendingBind>,
    /// Releases beyond the limit.
    pending_releases: VecDeque<PendingRelease>,
    /// When congestion began.
    congested_since: Option<Timestamp>,
    /// Pods whose bind is pending (`None`), or in flight since then.
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

    /// Binds `placements` as soon as the limit allows. Each bind is a child of the decision's span.
    pub(crate) fn bind(&mut self, placements: Vec<Placement>, decision: &Span) {
        self.binding.extend(placements.iter().map(|placement| (placement.pod.clone(), None)));
        self.pending_binds.extend(placements.into_iter().map(|placement| {
            let Placement { pod, node, .. } = &placement;
            let span = tracing::debug_span!(parent: decision, "bind", %pod, %node);
            PendingBind { placement, span }
        }));
        self.start_binds();
    }

    /// Deletes the pods of `release` as soon as the limit allows, each with a condition that has the reason.
    pub(crate) fn release(&mut self, release: Release, pods: &Cache<PodView>, now: Timestamp, decision: &Span) {
        let message = release.message();
        let pending = |pod: PodRef| {
            let cached = pods.get(&pod.pod);
            let span = tracing::debug_span!(parent: decision, "release", pod = %pod.pod);
            PendingRelease { pod, span, cached, message: message.clone(), now }
        };
        self.pending_releases.extend(release.pods.into_iter().map(pending));
        self.start_releases();
    }

    /// Whether a bind of `pod` is pending or in flight.
    pub(crate) fn is_binding(&self, pod: &ObjectKey) -> bool {
        self.binding.contains_key(pod)
    }

    /// When the oldest bind in flight was sent.
    pub(crate) fn oldest_bind(&self) -> Option<Instant> {
        self.binds.first().map(|(since, _)| *since)
    }

    /// Records when congestion begins and ends.
    pub(crate) fn update_congestion(&mut self, now: Timestamp) {
        let has_pending = !self.pending_binds.is_empty() || !self.pending_releases.is_empty();
        let is_congested = has_pending || (self.binds.len() + self.releases) * CONGESTION_DIVISOR > self.limits.binds;
        self.congested_since = is_congested.then(|| self.congested_since.unwrap_or(now));
    }

    /// The pace of writes that are not urgent.
    pub(crate) fn pace(&self, now: Timestamp) -> Pace {
        match self.congested_since {
            None => Pace::Usual,
            Some(since) if duration_until(now, since) < MAX_CONDITION_DELAY => Pace::Paused,
            Some(_) => Pace::Slow,
        }
    }

    /// Whether a condition may be written that is not delayed by binds.
    pub(crate) fn can_write_first_condition(&self) -> bool {
        self.group_conditions < self.limits.group_conditions
    }

    /// Whether another PodGroup's condition may be written now.
    pub(crate) fn can_write_group_condition(&self, now: Timestamp) -> bool {
        self.group_conditions < self.allowed(self.limits.group_conditions, now)
    }

    /// Whether another pod's condition may be written now.
    pub(crate) fn can_write_pod_condition(&self, now: Timestamp) -> bool {
        self.pod_conditions < self.allowed(self.limits.pod_conditions, now)
    }

    /// How many of `limit` may be in flight now.
    fn allowed(&self, limit: usize, now: Timestamp) -> usize {
        match self.pace(now) {
            Pace::Usual => limit,
            Pace::Slow => limit.div_ceil(CONGESTED_WRITES_DIVISOR),
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

    /// The next write that ends; pending while none is in flight. Cancel safe.
    pub(crate) async fn next(&mut self) -> FinishedWrite {
        match self.in_flight.next().await {
            Some(done) => self.record_finished(done),
            None => std::future::pending().await,
        }
    }

    /// A write that has ended by now. The call also polls those in flight.
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
            && let Some(pending) = self.pending_releases.pop_front()
        {
            self.releases += 1;
            let client = self.client.clone();
            let PendingRelease { pod, span, cached, message, now } = pending;
            let write = async move {
                match release(&client, &pod, cached, &message, now).await {
                    Ok(()) => tracing::debug!("released"),
                    Err(error) => tracing::warn!("pod {}: not released: {}", pod.pod, failure::message(&error)),
                }
                FinishedWrite::Release
            };
            self.in_flight.push(write.instrument(span).boxed());
        }
    }
}

/// Marks the pod as disrupted, so that its Job does not count a failure, and deletes it. The pod is read only after a
/// conflict with the `cached` version.
async fn release(
    client: &Client,
    target: &PodRef,
    mut cached: Option<Arc<PodView>>,
    message: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let mut attempts = 0;
    loop {
        let pod = match cached.take() {
            Some(cached) => Some(cached),
            None => request::read::<PodView>(client, &target.pod).await?.map(Arc::new),
        };
        let Some(pod) = pod.filter(|pod| pod.metadata.uid == target.uid) else { return Ok(()) };
        let mark = Condition {
            message: message.to_owned(),
            ..conditions::true_condition(DISRUPTION_TARGET, PodView::RELEASED_BY_SCHEDULER)
        };
        let body = conditions::patch(&pod.metadata, &pod.status.conditions, &[mark], now);
        match write_conditions(client, &status_path::<PodView>(&target.pod), &body).await {
            // Its kubelet wrote at the same time.
            Err(error) if is_conflict(&error) && attempts < MAX_CONFLICTS => attempts += 1,
            Err(error) if is_not_found(&error) => return Ok(()),
            outcome => break outcome?,
        }
    }
    let options = json!({"preconditions": {"uid": target.uid}});
    match request::delete(client, &PodView::RESOURCE.object_path(&target.pod), &options).await {
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

    /// A client whose requests never end.
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
    async fn congestion_delays_conditions_for_a_limited_time() {
        let mut writes =
            WriteQueue::new(unresponsive_client(), WriteLimits { binds: 8, group_conditions: 16, pod_conditions: 4 });
        let start = Timestamp::UNIX_EPOCH;
        let mut observe = |binds: std::ops::Range<usize>, now: Timestamp| {
            writes.bind(placements(binds.start, binds.end), &Span::none());
            writes.update_congestion(now);
            let (groups, pods) = (writes.limits.group_conditions, writes.limits.pod_conditions);
            (writes.pace(now), writes.allowed(groups, now), writes.allowed(pods, now))
        };
        assert_eq!(observe(0..2, start), (Pace::Usual, 16, 4), "two binds of eight are no congestion");
        assert_eq!(observe(2..3, start), (Pace::Paused, 0, 0));
        let soon = start + MAX_CONDITION_DELAY - Duration::from_millis(1);
        assert_eq!(observe(3..20, soon), (Pace::Paused, 0, 0));
        assert_eq!(observe(20..20, start + MAX_CONDITION_DELAY), (Pace::Slow, 2, 1));
    }
}
