//! The loop: what changes becomes budgets to look at, and those become counts.

use std::sync::Arc;

use api::views::{ObjectKey, PodDisruptionBudgetView, PodView};
use futures::future::join3;
use runtime::{Change, EventKind, ObjectRef, WorkQueue, Worked};

use super::carry_out::write;
use super::decide::{failure, means, standing};
use super::{GATHER, Parts, RETRY, WORKERS};

/// Runs the controller for ever.
pub async fn run(parts: Parts) {
    parts.budgets.synced().await;
    parts.pods.synced().await;
    let queue = WorkQueue::counted(RETRY, parts.metrics.queue("disruption"));
    join3(watch_budgets(&parts, &queue), watch_pods(&parts, &queue), work(&parts, &queue)).await;
}

async fn watch_budgets(parts: &Parts, queue: &WorkQueue<ObjectKey>) {
    let mut cursor = parts.budgets.subscribe();
    loop {
        if let Some(budget) = cursor.next().await.new {
            queue.add(budget.metadata.key());
        }
    }
}

/// A pod that came, changed or went is looked at by the budgets that mean or meant it.
async fn watch_pods(parts: &Parts, queue: &WorkQueue<ObjectKey>) {
    let mut cursor = parts.pods.subscribe();
    loop {
        let Change { old, new } = cursor.next().await;
        for pod in [&old, &new].into_iter().flatten() {
            let budgets = parts.budgets.by_index(&PodDisruptionBudgetView::BY_NAMESPACE, &pod.metadata.namespace);
            for budget in budgets.into_iter().filter(|budget| means(budget, pod)) {
                queue.add_after(budget.metadata.key(), GATHER);
            }
        }
    }
}

async fn work(parts: &Parts, queue: &WorkQueue<ObjectKey>) {
    queue.work(WORKERS, |key| reconcile(parts, key)).await;
}

/// Observe, decide, do.
async fn reconcile(parts: &Parts, key: ObjectKey) -> Worked {
    let Some(budget) = parts.budgets.get(&key).filter(|budget| !budget.metadata.is_deleting()) else {
        return Worked::Done;
    };
    let pods: Vec<Arc<PodView>> = parts.pods.all().into_iter().filter(|pod| means(&budget, pod)).collect();
    let (status, look_again) = standing(&budget, &pods, parts.clock.now());
    if let Err(error) = write(&parts.client, &budget, &status, parts.clock.now()).await {
        tracing::warn!(budget = %key, %error, "counting for it will be tried again");
        return Worked::Failed;
    }
    // Once for each change of the status. Users who wonder why a drain hangs read the Events of the budget.
    if status != budget.status
        && let Some(why) = failure(&status)
    {
        let message = format!("Failed to calculate the number of expected pods: {why}");
        let about = ObjectRef::of(budget.as_ref());
        parts.recorder.event(&about, EventKind::Warning, "CalculateExpectedPodCountFailed", "Reconcile", &message);
    }
    look_again.map_or(Worked::Done, Worked::Later)
}
