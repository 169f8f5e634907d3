//! The loop: a namespace that is deleted is looked at until it is empty.

use api::clock::rfc3339;
use api::views::{Condition, NamespaceView, ObjectKey, View};
use futures::future::join;
use kube::{Client, Error};
use runtime::request::{get, patch, put};
use runtime::{Change, PatchKind, WorkQueue, Worked, is_not_found};
use serde_json::{Value, json};

use super::Parts;
use super::content::empty;
use super::decide::{FINALIZER, Next, conditions, is_ours, next};
use super::kinds::discover;

/// Runs the controller for ever.
pub async fn run(parts: Parts) {
    parts.namespaces.synced().await;
    let queue = WorkQueue::counted(parts.config.recheck, parts.metrics.queue("namespace"));
    join(watch(&parts, &queue), work(&parts, &queue)).await;
}

async fn watch(parts: &Parts, queue: &WorkQueue<String>) {
    let mut cursor = parts.namespaces.subscribe();
    loop {
        let Change { old, new } = cursor.next().await;
        // A new status is our own, and no reason to look again.
        if let Some(namespace) = new.filter(|new| is_ours(new) && !old.is_some_and(|old| is_ours(&old))) {
            queue.add(namespace.metadata.name.clone());
        }
    }
}

async fn work(parts: &Parts, queue: &WorkQueue<String>) {
    let look = |name: String| async move {
        match reconcile(parts, &name).await {
            Ok(Next::Finalize) => Worked::Done,
            Ok(Next::Settle(wait)) => Worked::Later(wait),
            Ok(Next::LookAgain) => Worked::Failed,
            Err(error) => {
                tracing::warn!(namespace = name, %error, "will be tried again");
                Worked::Failed
            }
        }
    };
    queue.work(parts.config.workers, look).await;
}

/// Look, say, and let go if nothing is there. `Finalize`: nothing is left to be done.
async fn reconcile(parts: &Parts, name: &str) -> Result<Next, Error> {
    let Parts { client, namespaces, clock, config, .. } = parts;
    let path = NamespaceView::RESOURCE.object_path(&ObjectKey::new("", name));
    let Some(namespace) = namespaces.get(&ObjectKey::new("", name)).filter(|namespace| is_ours(namespace)) else {
        return Ok(Next::Finalize);
    };
    let kinds = discover(client).await;
    let found = empty(client, name, kinds).await;
    if let Some(conditions) = conditions(&namespace, &found, clock.now()) {
        let status = json!({ "status": { "conditions": conditions.iter().map(wire).collect::<Vec<_>>() } });
        match patch(client, &format!("{path}/status"), PatchKind::Merge, &status).await {
            // The next look compares with what was just written.
            Ok(answer) => namespaces.reached(answer.revision).await,
            Err(error) if is_not_found(&error) => return Ok(Next::Finalize),
            Err(error) => return Err(error),
        }
    }
    let next = next(&namespace, &found, config.settle, clock.now());
    if next == Next::Finalize {
        finalize(client, &path, &namespace).await?;
    }
    Ok(next)
}

/// Takes our finalizer off this very namespace.
async fn finalize(client: &Client, path: &str, namespace: &NamespaceView) -> Result<(), Error> {
    let mut document: Value = match get(client, path).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(Error::SerdeError)?,
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    if document["metadata"]["uid"] != namespace.metadata.uid.as_str() {
        return Ok(());
    }
    if let Some(held) = document["spec"]["finalizers"].as_array_mut() {
        held.retain(|finalizer| finalizer != FINALIZER);
    }
    match put(client, &format!("{path}/finalize"), &document).await {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

fn wire(condition: &Condition) -> Value {
    json!({
        "type": condition.kind,
        "status": condition.status,
        "lastTransitionTime": condition.last_transition_time.map(rfc3339),
        "reason": condition.reason,
        "message": condition.message,
    })
}
