//! The loop: a deleted namespace is reconciled until it is empty.

use api::clock::rfc3339;
use api::views::{Condition, NamespaceView, ObjectKey, View};
use futures::FutureExt;
use futures::future::{BoxFuture, join};
use kube::{Client, Error};
use runtime::request::{get, patch, put};
use runtime::{
    CacheChange, PatchKind, WorkQueue, WorkResult, is_not_found, log_retry, reconcile_span, record_observed,
};
use serde_json::{Value, json};
use tracing::Instrument;

use super::NamespaceContext;
use super::content::delete_content;
use super::decide::{FINALIZER, NamespaceStep, awaits_finalize, conditions, next_step};
use super::kinds::discover;

/// Runs the controller forever.
pub fn run(ctx: NamespaceContext) -> BoxFuture<'static, ()> {
    run_forever(ctx).boxed()
}

async fn run_forever(ctx: NamespaceContext) {
    ctx.namespaces.wait_for_sync().await;
    let queue = WorkQueue::with_metrics(ctx.config.recheck, ctx.metrics.queue("namespace"));
    join(watch(&ctx, &queue), work(&ctx, &queue)).await;
}

async fn watch(ctx: &NamespaceContext, queue: &WorkQueue<String>) {
    let mut cursor = ctx.namespaces.subscribe();
    loop {
        let CacheChange { old, new } = cursor.next().await;
        // A new status is our own write, and no reason to reconcile again.
        if let Some(namespace) = new.filter(|new| awaits_finalize(new) && !old.is_some_and(|old| awaits_finalize(&old)))
        {
            queue.add(namespace.metadata.name.clone());
        }
    }
}

async fn work(ctx: &NamespaceContext, queue: &WorkQueue<String>) {
    let reconcile_key = |name: String| {
        let span = reconcile_span("namespace", NamespaceView::RESOURCE.kind, &name, None);
        async move {
            match reconcile(ctx, &name).await {
                Ok(NamespaceStep::Finalize) => WorkResult::Done,
                Ok(NamespaceStep::WaitBeforeFinalize(wait)) => WorkResult::RequeueAfter(wait),
                Ok(NamespaceStep::Recheck) => WorkResult::Failed,
                Err(error) => {
                    log_retry("namespace", &name, &error);
                    WorkResult::Failed
                }
            }
        }
        .instrument(span)
    };
    queue.work(ctx.config.workers, reconcile_key).await;
}

/// Deletes the content, writes the conditions, and finalizes an empty namespace. `Finalize`: nothing is left to do.
async fn reconcile(ctx: &NamespaceContext, name: &str) -> Result<NamespaceStep, Error> {
    let NamespaceContext { client, namespaces, clock, config, .. } = ctx;
    let path = NamespaceView::RESOURCE.object_path(&ObjectKey::new("", name));
    let Some(namespace) = namespaces.get(&ObjectKey::new("", name)).filter(|namespace| awaits_finalize(namespace))
    else {
        return Ok(NamespaceStep::Finalize);
    };
    record_observed(&namespace.metadata);
    let kinds = discover(client).await;
    let found = delete_content(client, name, kinds).await;
    if let Some(conditions) = conditions(&namespace, &found, clock.now()) {
        let status = json!({ "status": { "conditions": conditions.iter().map(condition_json).collect::<Vec<_>>() } });
        match patch(client, &format!("{path}/status"), PatchKind::Merge, &status).await {
            // The next reconcile compares with what was just written.
            Ok(response) => namespaces.wait_for_revision(response.revision).await,
            Err(error) if is_not_found(&error) => return Ok(NamespaceStep::Finalize),
            Err(error) => return Err(error),
        }
    }
    let next = next_step(&namespace, &found, config.min_termination, clock.now());
    if next == NamespaceStep::Finalize {
        finalize(client, &path, &namespace).await?;
    }
    Ok(next)
}

/// Removes our finalizer from this namespace.
async fn finalize(client: &Client, path: &str, namespace: &NamespaceView) -> Result<(), Error> {
    let mut document: Value = match get(client, path).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(Error::SerdeError)?,
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    if document["metadata"]["uid"] != namespace.metadata.uid.as_str() {
        return Ok(());
    }
    if let Some(finalizers) = document["spec"]["finalizers"].as_array_mut() {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    match put(client, &format!("{path}/finalize"), &document).await {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

fn condition_json(condition: &Condition) -> Value {
    json!({
        "type": condition.kind,
        "status": condition.status,
        "lastTransitionTime": condition.last_transition_time.map(rfc3339),
        "reason": condition.reason,
        "message": condition.message,
    })
}
