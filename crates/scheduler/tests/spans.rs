//! Decisions in the log. The test has its own process: while threads of other tests register the same callsites, tracing can
//! miss a subscriber that is set meanwhile.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "this test needs few of its functions")]
#[path = "it/small_server.rs"]
mod small_server;

use std::io::Write;
use std::sync::{Arc, Mutex};

use phalanx_scheduler::Config;
use tracing::Level;

use small_server::{SmallServer, settle, start};

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

/// `decision{id=7 `, of the first line that contains `text`.
fn decision_of(lines: &[String], text: &str) -> String {
    let line = lines.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text:?} in {lines:#?}"));
    let span = &line[line.find("decision{id=").unwrap()..];
    span[..=span.find(' ').unwrap()].to_owned()
}

#[tokio::test(start_paused = true)]
async fn one_decision_is_followed_through_the_log_by_its_id() {
    let log = LogBuffer::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false).without_time();
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = SmallServer::new();
    server.node("n", 2);
    server.gang("g", 2);
    server.pods(&["a", "b"], Some("g"), None);
    start(&server, Config::default());
    settle(3).await;
    server.gang("h", 2);
    server.pods(&["c", "d"], Some("h"), None);
    settle(3).await;
    let lines = log.lines();
    let of = |id: &str| lines.iter().filter(|line| line.contains(id)).cloned().collect::<Vec<_>>();

    let placed = of(&decision_of(&lines, "unit=ns/g"));
    assert!(placed[0].contains("unit_kind=\"PodGroup\" unit=ns/g attempt=1 revision="), "{placed:#?}");
    assert!(placed[0].contains("result=\"Bind\"") && placed[0].ends_with("binding 2 pods"), "{placed:#?}");
    for pod in ["ns/a", "ns/b"] {
        let bind = format!("bind{{pod={pod} node=n}}");
        assert!(placed.iter().any(|line| line.contains(&bind) && line.ends_with(": bound")), "{bind}: {placed:#?}");
    }
    let refused = of(&decision_of(&lines, "unit=ns/h"));
    assert!(refused[0].contains("result=\"Wait\"") && refused[0].contains("refused: gang of 2"), "{refused:#?}");
    assert!(refused.iter().all(|line| line.contains("unit=ns/h")), "{refused:#?}");
}
