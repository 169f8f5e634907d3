//! Binds and other writes on their way to the server, each kind with its own limit.
//!
//! Binds and releases come first: they are what everyone waits for. A PodGroup's condition waits for them too, but not
//! for ever: a few at a time go ahead once binds have been waiting for a while. A pod's condition is only written while no
//! bind waits.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, ObjectKey, PodGroupView, PodView, View};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use kube::{Client, Error};
use runtime::{Cache, PatchKind, is_conflict, is_not_found, request};
use scheduler_core::{Member, Placement, Release};
use serde::Serialize;
use serde_json::json;

use crate::conditions::{self, ConditionsPatch, DISRUPTION_TARGET};
use crate::run::until;

/// How often a pod is marked anew when others write to it at the same time.
const CONFLICTS_MAX: u32 = 5;

/// For so long PodGroup conditions wait for binds.
const PATIENCE: Duration = Duration::from_secs(5);
/// While binds wait for longer than that, this part of the usual PodGroup conditions is in flight.
const CROWDED_SHARE: usize = 8;

/// How many writes of each kind may be in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) binds: usize,
    pub(crate) group_conditions: usize,
    pub(crate) pod_conditions: usize,
}

/// A write that has ended.
#[derive(Debug)]
pub(crate) enum Done {
    /// A bind.
    Bind(Placement, Result<(), Error>),
    /// The release of a pod.
    Release(Member, Result<(), Error>),
    /// A PodGroup's condition.
    GroupCondition(ObjectKey, Result<(), Error>),
    /// A pod's condition.
    PodCondition(ObjectKey, Result<(), Error>),
}

/// A write that goes before conditions.
#[derive(Debug)]
enum Urgent {
    Bind(Placement),
    Release { member: Member, seen: Option<Arc<PodView>>, message: String, now: Timestamp },
}

/// Writes that wait and writes in flight.
pub(crate) struct Writes {
    client: Client,
    limits: Limits,
    /// Binds and releases that wait for a free place, oldest decision first.
    waiting: VecDeque<Urgent>,
    /// Since when some wait.
    crowded_since: Option<Timestamp>,
    /// Pods whose bind waits or is in flight.
    binding: BTreeSet<ObjectKey>,
    in_flight: FuturesUnordered<BoxFuture<'static, Done>>,
    binds: usize,
    group_conditions: usize,
    pod_conditions: usize,
}

impl Writes {
    pub(crate) fn new(client: Client, limits: Limits) -> Writes {
        Writes {
            client,
            limits,
            waiting: VecDeque::new(),
            crowded_since: None,
            binding: BTreeSet::new(),
            in_flight: FuturesUnordered::new(),
            binds: 0,
            group_conditions: 0,
            pod_conditions: 0,
        }
    }

    /// Binds `placements`, as soon as there is room.
    pub(crate) fn bind(&mut self, placements: Vec<Placement>) {
        self.binding.extend(placements.iter().map(|placement| placement.pod.clone()));
        self.waiting.extend(placements.into_iter().map(Urgent::Bind));
        self.start_urgent();
    }

    /// Takes pods away, and says on each why, as soon as there is room. `seen` are the pods as they were last seen.
    pub(crate) fn release(&mut self, release: Release, seen: &Cache<PodView>, now: Timestamp) {
        let message = release.message();
        let urgent = |member: Member| {
            let seen = seen.get(&member.pod);
            Urgent::Release { member, seen, message: message.clone(), now }
        };
        self.waiting.extend(release.pods.into_iter().map(urgent));
        self.start_urgent();
    }

    /// Whether a bind of `pod` waits or is in flight.
    pub(crate) fn is_binding(&self, pod: &ObjectKey) -> bool {
        self.binding.contains(pod)
    }

    /// Whether binds or releases wait for a free place.
    pub(crate) fn are_crowded(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes note of the time, for how long binds have been waiting.
    pub(crate) fn look_at_the_clock(&mut self, now: Timestamp) {
        self.crowded_since = self.are_crowded().then(|| self.crowded_since.unwrap_or(now));
    }

    /// Whether another PodGroup's condition may be written now.
    pub(crate) fn has_room_for_group_condition(&self, now: Timestamp) -> bool {
        let most = self.limits.group_conditions;
        let allowed = match self.crowded_since {
            None => most,
            Some(since) if until(now, since) < PATIENCE => 0,
            Some(_) => most.div_ceil(CROWDED_SHARE),
        };
        self.group_conditions < allowed
    }

    /// Whether another pod's condition may be written now.
    pub(crate) fn has_room_for_pod_condition(&self) -> bool {
        !self.are_crowded() && self.pod_conditions < self.limits.pod_conditions
    }

    /// Writes conditions of the PodGroup at `key`.
    pub(crate) fn write_group_condition(&mut self, key: ObjectKey, body: ConditionsPatch) {
        self.group_conditions += 1;
        let (client, path) = (self.client.clone(), status_path::<PodGroupView>(&key));
        let write = async move { Done::GroupCondition(key, write_conditions(&client, &path, &body).await) };
        self.in_flight.push(write.boxed());
    }

    /// Writes conditions of the pod at `key`.
    pub(crate) fn write_pod_condition(&mut self, key: ObjectKey, body: ConditionsPatch) {
        self.pod_conditions += 1;
        let (client, path) = (self.client.clone(), status_path::<PodView>(&key));
        let write = async move { Done::PodCondition(key, write_conditions(&client, &path, &body).await) };
        self.in_flight.push(write.boxed());
    }

    /// The next write that ends; waits for ever while none is in flight. Cancel safe.
    pub(crate) async fn next(&mut self) -> Done {
        match self.in_flight.next().await {
            Some(done) => self.ended(done),
            None => std::future::pending().await,
        }
    }

    /// A write that has ended by now. Asking also lets those in flight proceed.
    pub(crate) fn try_next(&mut self) -> Option<Done> {
        let done = self.in_flight.next().now_or_never()??;
        Some(self.ended(done))
    }

    fn ended(&mut self, done: Done) -> Done {
        match &done {
            Done::Bind(placement, _) => {
                self.binding.remove(&placement.pod);
                self.binds -= 1;
                self.start_urgent();
            }
            Done::Release(..) => {
                self.binds -= 1;
                self.start_urgent();
            }
            Done::GroupCondition(..) => self.group_conditions -= 1,
            Done::PodCondition(..) => self.pod_conditions -= 1,
        }
        done
    }

    fn start_urgent(&mut self) {
        while self.binds < self.limits.binds
            && let Some(urgent) = self.waiting.pop_front()
        {
            self.binds += 1;
            let client = self.client.clone();
            self.in_flight.push(match urgent {
                Urgent::Bind(placement) => async move { bind(&client, placement).await }.boxed(),
                Urgent::Release { member, seen, message, now } => async move {
                    let outcome = release(&client, &member, seen, &message, now).await;
                    Done::Release(member, outcome)
                }
                .boxed(),
            });
        }
    }
}

async fn bind(client: &Client, placement: Placement) -> Done {
    let path = PodView::RESOURCE.object_path(&placement.pod) + "/binding";
    let outcome = request::post(client, &path, &Binding::of(&placement)).await;
    Done::Bind(placement, outcome.map(drop))
}

/// Marks the pod as taken away by somebody else's doing, so that its Job does not count it as a failure, and deletes it.
/// Only where others wrote to it since it was `seen` is it read once more.
async fn release(
    client: &Client,
    member: &Member,
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
            ..conditions::holds(DISRUPTION_TARGET, PodView::RELEASED_BY_SCHEDULER)
        };
        let body = conditions::patch(&pod.metadata, &pod.status.conditions, &[mark], now);
        match write_conditions(client, &status_path::<PodView>(&member.pod), &body).await {
            // Its kubelet wrote as well.
            Err(error) if is_conflict(&error) && attempts < CONFLICTS_MAX => attempts += 1,
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

/// A core/v1 Binding. The uid keeps it from a namesake created meanwhile.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: BindingMeta<'a>,
    target: Target<'a>,
}

#[derive(Serialize)]
struct BindingMeta<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Target<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
}

impl Binding<'_> {
    fn of(placement: &Placement) -> Binding<'_> {
        let Placement { pod, uid, node } = placement;
        Binding {
            api_version: "v1",
            kind: "Binding",
            metadata: BindingMeta { namespace: &pod.namespace, name: &pod.name, uid },
            target: Target { api_version: "v1", kind: "Node", name: node },
        }
    }
}
