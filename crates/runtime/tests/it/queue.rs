//! The work queue: order, delays, backoff.

use std::time::Duration;

use phalanx_runtime::{Backoff, QueueMetrics, WorkQueue};
use prometheus_client::registry::Registry;
use tokio::time::{Instant, timeout};

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(4) })
}

async fn take(queue: &WorkQueue<&'static str>) -> &'static str {
    let key = queue.next().await;
    queue.done(&key);
    key
}

#[tokio::test(start_paused = true)]
async fn keys_are_returned_in_order_and_once() {
    let queue = queue();
    for key in ["b", "a", "b", "c", "a"] {
        queue.add(key);
    }
    assert_eq!([take(&queue).await, take(&queue).await, take(&queue).await], ["b", "a", "c"]);
    assert!(timeout(Duration::from_secs(5), queue.next()).await.is_err(), "nothing is left");
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_processed_is_returned_again_when_done() {
    let queue = queue();
    queue.add("a");
    let taken = queue.next().await;
    queue.add("a");
    assert!(timeout(Duration::from_secs(5), queue.next()).await.is_err(), "no second worker gets it");
    queue.done(&taken);
    assert_eq!(timeout(Duration::from_secs(5), queue.next()).await, Ok("a"));
}

#[tokio::test(start_paused = true)]
async fn delays_are_kept_and_the_earliest_counts() {
    let (queue, start) = (queue(), Instant::now());
    queue.add_after("late", Duration::from_secs(9));
    queue.add_after("early", Duration::from_secs(8));
    queue.add_after("early", Duration::from_secs(3));
    queue.add_after("early", Duration::from_secs(7));
    assert_eq!((take(&queue).await, start.elapsed().as_secs()), ("early", 3));
    assert_eq!((take(&queue).await, start.elapsed().as_secs()), ("late", 9));
}

// A Job may set any number of seconds, and adding such a delay to the current time panicked.
#[tokio::test(start_paused = true)]
async fn an_unbounded_delay_is_a_year() {
    for delay in [Duration::MAX, Duration::from_secs(i64::MAX as u64)] {
        let (queue, start) = (queue(), Instant::now());
        queue.add_after("late", delay);
        queue.add_after("early", Duration::from_secs(3));
        assert_eq!((take(&queue).await, start.elapsed().as_secs()), ("early", 3));
        assert_eq!((take(&queue).await, start.elapsed().as_secs()), ("late", 365 * 24 * 60 * 60));
    }
}

#[tokio::test(start_paused = true)]
async fn a_shorter_delay_wakes_a_worker_that_sleeps_for_a_longer_one() {
    let (queue, start) = (queue(), Instant::now());
    queue.add_after("late", Duration::from_secs(9));
    let (taken, ()) = tokio::join!(take(&queue), async { queue.add_after("early", Duration::from_secs(2)) });
    assert_eq!((taken, start.elapsed().as_secs()), ("early", 2));
}

#[tokio::test(start_paused = true)]
async fn backoff_grows_until_forgotten() {
    let queue = queue();
    let mut waits = Vec::new();
    for forget in [false, false, false, true, false] {
        let start = Instant::now();
        queue.add_with_backoff("a");
        take(&queue).await;
        waits.push(start.elapsed().as_secs());
        if forget {
            queue.forget(&"a");
        }
    }
    assert_eq!(waits, [1, 2, 4, 4, 1]);
}

#[tokio::test(start_paused = true)]
async fn metrics_count_keys() {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    let backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(4) };
    let queue = WorkQueue::with_metrics(backoff, metrics.of("test"));
    let metric = |figure: &str| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let prefix = format!("workqueue_{figure}{{name=\"test\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)?.parse::<f64>().ok())
    };
    queue.add("a");
    queue.add("b");
    queue.add("a");
    assert_eq!((metric("depth"), metric("adds_total")), (Some(2.0), Some(2.0)), "one that waits is not added again");
    tokio::time::advance(Duration::from_secs(3)).await;
    let key = queue.next().await;
    assert_eq!((metric("depth"), metric("queue_duration_seconds_sum")), (Some(1.0), Some(3.0)));
    tokio::time::advance(Duration::from_secs(2)).await;
    queue.add_with_backoff(key);
    queue.done(&key);
    assert_eq!((metric("work_duration_seconds_sum"), metric("retries_total")), (Some(2.0), Some(1.0)));
    assert_eq!([take(&queue).await, take(&queue).await], ["b", "a"]);
    assert_eq!(
        (metric("depth"), metric("adds_total"), metric("work_duration_seconds_count")),
        (Some(0.0), Some(3.0), Some(3.0))
    );
}
