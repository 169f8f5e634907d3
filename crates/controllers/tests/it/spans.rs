//! Reconciles in the log.

use std::io::Write;
use std::sync::{Arc, Mutex};

use api::views::Condition;
use serde_json::json;
use tracing::Level;

use crate::test_controllers::{TestControllers, with_controllers};

/// Captures log lines.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl LogBuffer {
    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn one_job_is_followed_through_the_log_by_its_name() {
    let log = LogBuffer::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false).without_time();
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // With one dispatcher only, `tracing` caches a callsite as disabled if a thread without a subscriber, such as another
    // test, reaches it first.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let mut uid = String::new();
    let found = &mut uid;
    with_controllers(|cluster| async move {
        let gang = json!({ "gang": {} });
        let spec = json!({ "parallelism": 2, "completions": 2, "scheduling": { "schedulingPolicy": gang } });
        cluster.post_job(spec).await;
        cluster.eventually("its pods are active", |cluster| cluster.job().status.active == 2).await;
        cluster.end_pods("Succeeded").await;
        let complete = |cluster: &TestControllers| Condition::is_true(&cluster.job().status.conditions, "Complete");
        cluster.eventually("it is complete", complete).await;
        cluster.job().metadata.uid.clone_into(found);
    })
    .await;

    let lines = log.lines();
    let span = format!("reconcile{{controller=\"job\" kind=\"Job\" object=default/train uid=\"{uid}\" revision=");
    let steps = lines.iter().filter(|line| line.contains(&span) && line.contains(" decided step="));
    let steps: Vec<&str> = steps.filter_map(|line| line.split("step=\"").nth(1)?.split('"').next()).collect();
    let mut order = steps.iter();
    for step in ["CreateWorkload", "CreatePodGroup", "CreatePods", "WriteStatus", "RemoveFinalizers", "Wait"] {
        assert!(order.any(|decided| *decided == step), "{step} in this order in {steps:?}");
    }
    let spans = lines.iter().filter_map(|line| line.split_once(&span)?.1.split_once('}'));
    for (revision, _) in spans {
        assert!(revision.parse::<u64>().is_ok(), "recorded once: {revision}");
    }
    assert!(lines.iter().all(|line| !line.contains("WARN")), "{lines:#?}");
}
