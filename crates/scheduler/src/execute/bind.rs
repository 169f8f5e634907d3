//! One bind: sent, and read back if the response leaves its result unknown.

use std::time::Duration;

use api::views::{PodView, View};
use kube::{Client, Error};
use runtime::{Backoff, failure, is_conflict, is_uncertain, request};
use scheduler_core::Placement;
use serde::Serialize;

/// How often a bind is sent whose pod is found without a node afterwards. Always to the same node: an attempt without a
/// response may still arrive, and the capacity that it needs stays assumed meanwhile.
const MAX_ATTEMPTS: u32 = 3;

/// Pauses between reads that fail, and between a read and the next attempt. Short: a gang waits for its last pod.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(5) };

/// Binds the pod, and returns its node.
///
/// A bind without a response, or with an error that a server can also send after the bind was done, is neither a success
/// nor a failure: this returns only when the server has reported which.
pub(crate) async fn bind(client: &Client, placement: &Placement) -> Result<String, Error> {
    let path = PodView::RESOURCE.object_path(&placement.pod) + "/binding";
    let mut unknown_count = 0;
    loop {
        let error = match request::post(client, &path, &Binding::of(placement)).await {
            Ok(_) => return Ok(placement.node.clone()),
            Err(error) => error,
        };
        // The first attempt can meet a conflict only with another client's write.
        if !is_uncertain(&error) || (is_conflict(&error) && unknown_count == 0) {
            return Err(error);
        }
        unknown_count += 1;
        let message = failure::message(&error);
        tracing::info!("pod {}: result of bind to {} unknown: {message}", placement.pod, placement.node);
        match read_back(client, placement).await {
            Some(BindStatus::Bound(node)) => return Ok(node),
            Some(BindStatus::Unbound) if !is_conflict(&error) && unknown_count < MAX_ATTEMPTS => {
                tokio::time::sleep(BACKOFF.delay(unknown_count)).await;
            }
            Some(BindStatus::Unbound | BindStatus::Gone) | None => return Err(error),
        }
    }
}

/// The state of the pod after a bind with an unknown result.
enum BindStatus {
    Bound(String),
    Unbound,
    Gone,
}

/// Reads the pod until the server responds; `None` if the pod may not be read.
async fn read_back(client: &Client, placement: &Placement) -> Option<BindStatus> {
    let mut failures = 0;
    loop {
        match request::read::<PodView>(client, &placement.pod).await {
            Ok(pod) => {
                let Some(pod) = pod.filter(|pod| pod.metadata.uid == placement.uid) else {
                    return Some(BindStatus::Gone);
                };
                return Some(pod.node_name().map_or(BindStatus::Unbound, |node| BindStatus::Bound(node.to_owned())));
            }
            Err(error) if !failure::is_retriable(&error) => return None,
            Err(error) => {
                failures += 1;
                tracing::debug!("pod {}: not read back: {}", placement.pod, failure::message(&error));
                tokio::time::sleep(BACKOFF.delay(failures)).await;
            }
        }
    }
}

/// A core/v1 Binding. With the uid, a new pod of the same name is not bound.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: BindingMeta<'a>,
    target: BindingTarget<'a>,
}

#[derive(Serialize)]
struct BindingMeta<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BindingTarget<'a> {
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
            target: BindingTarget { api_version: "v1", kind: "Node", name: node },
        }
    }
}
