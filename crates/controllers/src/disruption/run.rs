//! The loop: changes become keys of budgets, and each budget is reconciled.

use std::sync::Arc;

use api::views::{ObjectKey, PodDisruptionBudgetView, PodView, View};
use futures::FutureExt;
use futures::future::{BoxFuture, join3};
use runtime::{CacheChange, EventKind, ObjectRef, WorkQueue, WorkResult, log_retry, reconcile_span, record_observed};
use tracing::Instrument;

use super::decide::{next_status, selects, sync_failure};
use super::execute::write_status;
use super::{BATCH_PERIOD, DisruptionContext, RETRY, WORKERS};

/// Runs the controller forever.
pub fn run(ctx: DisruptionContext) -> BoxFuture<'static, ()> {
    run_forever(ctx).boxed()
}

async fn run_forever(ctx: DisruptionContext) {
    ctx.budgets.wait_for_sync().await;
    ctx.pods.wait_for_sync().await;
    let queue = WorkQueue::with_metrics(RETRY, ctx.metrics.queue("disruption"));
    join3(watch_budgets(&ctx, &queue), watch_pods(&ctx, &queue), work(&ctx, &queue)).await;
}

async fn watch_budgets(ctx: &DisruptionContext, queue: &WorkQueue<ObjectKey>) {
    let mut cursor = ctx.budgets.subscribe();
    loop {
        if let Some(budget) = cursor.next().await.new {
            queue.add(budget.metadata.key());
        }
    }
}

/// A change of a pod enqueues the budgets that select or selected it.
async fn watch_pods(ctx: &DisruptionContext, queue: &WorkQueue<ObjectKey>) {
    let mut cursor = ctx.pods.subscribe();
    loop {
        let CacheChange { old, new } = cursor.next().await;
        for pod in [&old, &new].into_iter().flatten() {
            let budgets = ctx.budgets.by_index(&PodDisruptionBudgetView::BY_NAMESPACE, &pod.metadata.namespace);
            for budget in budgets.into_iter().filter(|budget| selects(budget, pod)) {
                queue.add_after(budget.metadata.key(), BATCH_PERIOD);
            }
        }
    }
}

async fn work(ctx: &DisruptionContext, queue: &WorkQueue<ObjectKey>) {
    let reconcile_key = |key: ObjectKey| {
        let span = reconcile_span("disruption", PodDisruptionBudgetView::RESOURCE.kind, &key, None);
        reconcile(ctx, key).instrument(span)
    };
    queue.work(WORKERS, reconcile_key).await;
}

/// Observes, decides and executes.
async fn reconcile(ctx: &DisruptionContext, key: ObjectKey) -> WorkResult {
    let Some(budget) = ctx.budgets.get(&key).filter(|budget| !budget.metadata.is_deleting()) else {
        return WorkResult::Done;
    };
    record_observed(&budget.metadata);
    let pods: Vec<Arc<PodView>> = ctx.pods.all().into_iter().filter(|pod| selects(&budget, pod)).collect();
    let (status, recheck) = next_status(&budget, &pods, ctx.clock.now());
    if let Err(error) = write_status(&ctx.client, &budget, &status, ctx.clock.now()).await {
        log_retry("disruption", &key, &error);
        return WorkResult::Failed;
    }
    // Once for each change of the status. Users who wonder why a drain hangs read the Events of the budget.
    if status != budget.status
        && let Some(reason) = sync_failure(&status)
    {
        let message = format!("Failed to calculate the number of expected pods: {reason}");
        let target = ObjectRef::of(budget.as_ref());
        ctx.recorder.event(&target, EventKind::Warning, "CalculateExpectedPodCountFailed", "Reconcile", &message);
    }
    recheck.map_or(WorkResult::Done, WorkResult::RequeueAfter)
}
