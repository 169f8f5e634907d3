//! Over-committed nodes: the fake server does not check binds.

use phalanx_scheduler::Config;

use crate::small_server::{SmallServer, settle, start};

/// A node with capacity for one pod, on which another scheduler binds a second one.
async fn overcommitted(config: Config) -> SmallServer {
    let server = SmallServer::new();
    server.node("n", 1);
    ["red", "blue"].iter().for_each(|gang| server.gang(gang, 1));
    server.pod_of("a", "red", "job-red");
    start(&server, config);
    settle(2).await;
    assert_eq!(server.log()[0], "bind a");
    server.pod_of("b", "blue", "job-blue");
    settle(2).await;
    server.bound_pod_of("b", "blue", "job-blue", "n");
    server.log();
    server.events();
    server
}

#[tokio::test(start_paused = true)]
async fn the_pod_that_was_bound_last_is_marked_and_deleted_with_an_event() {
    let server = overcommitted(Config::default()).await;
    settle(9).await;
    let before = server.log();
    assert!(!before.iter().any(|line| line.starts_with("delete")), "{before:?}");
    settle(20).await;
    let log = server.log();
    let at =
        |line: &str| log.iter().position(|logged| logged == line).unwrap_or_else(|| panic!("no {line} in {log:?}"));
    assert!(at("b DisruptionTarget=True ReleasedByScheduler") < at("delete b"));
    assert!(!log.contains(&"delete a".to_owned()), "{log:?}");
    let released = "Warning OvercommitReleased b: node n has 1 cpu, and its pods request 2";
    let events = server.events();
    assert!(events.iter().any(|event| event.starts_with(released)), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn two_schedulers_release_the_same_pod_once() {
    let server = overcommitted(Config::default()).await;
    // It has not observed the binds, so it does not know their order.
    start(&server, Config::default());
    settle(30).await;
    let log = server.log();
    assert_eq!(log.iter().filter(|line| line.starts_with("delete")).count(), 1, "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_setting_no_pod_is_released() {
    let mut config = Config::default();
    config.core.overcommit_after = None;
    let server = overcommitted(config).await;
    settle(60).await;
    let log = server.log();
    assert!(!log.iter().any(|line| line.starts_with("delete")), "{log:?}");
}
