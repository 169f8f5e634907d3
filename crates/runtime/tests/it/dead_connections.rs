//! Servers that stop responding and dead connections that do not break.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use kube::client::Body;
use phalanx_runtime::request::Connection;
use phalanx_runtime::{Cache, ListWatchConfig, Reachability, list_and_watch, reconnecting};
use tokio::time::{Instant, timeout};
use types::views::{NodeView, PodView, View};

use crate::fake_server::{FakeServer, WatchEnd};

const EMPTY_LIST: &str = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;

/// A kind without objects that is watched on a server of its own.
fn watched_server<V: View>(reachability: &Reachability) -> (FakeServer, WatchEnd) {
    let server = FakeServer::default();
    server.reply(200, EMPTY_LIST);
    let watch = server.reply_watch();
    let config = ListWatchConfig { reachability: Some(reachability.clone()), ..ListWatchConfig::default() };
    tokio::spawn(list_and_watch(server.client(), Cache::<V>::new(&[]), config));
    (server, watch)
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_server_is_noticed_although_no_connection_breaks() {
    let (server, reach) = (FakeServer::default(), Reachability::default());
    server.reply(200, "{}");
    server.reply(403, r#"{"kind":"Status","code":403}"#);
    tokio::spawn(reach.clone().probe(server.client()));
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(reach.is_reachable(), "a refusal is a response");
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(!reach.is_reachable());
    server.reply(200, "{}");
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert!(reach.is_reachable());
}

// The connections of the watches were dead forever, which was noticed only when the next bookmark did not arrive.
#[tokio::test(start_paused = true)]
async fn all_watches_restart_when_the_server_responds_again() {
    let (prober, reach) = (FakeServer::default(), Reachability::default());
    let ((pods, _first), (nodes, _second)) = (watched_server::<PodView>(&reach), watched_server::<NodeView>(&reach));
    prober.reply(200, "{}");
    prober.lose_answer();
    tokio::spawn(reach.clone().probe(prober.client()));
    seconds(4).await;
    assert!(reach.is_reachable());
    assert_eq!([pods.take_requests().len(), nodes.take_requests().len()], [2, 2], "a list and a watch each");
    seconds(7).await;
    assert!(!reach.is_reachable(), "no response within five seconds");
    (0..5).for_each(|_| prober.reply(200, "{}"));
    let _third = pods.reply_watch();
    // Sent on a new connection after the first one timed out, and timed out ten seconds later. The next one gets a
    // response.
    seconds(15).await;
    let resumed = pods.take_requests();
    assert!(resumed.len() == 1 && resumed[0].contains("resourceVersion=5"), "{resumed:?}");
    assert_eq!(nodes.take_requests().len(), 1);
    assert!(!reach.is_reachable(), "nodes are not watched again yet");
    nodes.reply(503, "");
    let _fourth = nodes.reply_watch();
    timeout(Duration::from_secs(20), reach.wait_for_recovery(0)).await.unwrap();
    assert!(reach.is_reachable());
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_restarts_all_watches() {
    let reach = Reachability::default();
    let ((_pods, pods_watch), (nodes, nodes_watch)) =
        (watched_server::<PodView>(&reach), watched_server::<NodeView>(&reach));
    let bookmark = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n";
    seconds(1).await;
    pods_watch.send(bookmark);
    seconds(60).await;
    nodes_watch.send(bookmark);
    nodes.take_requests();
    let began = Instant::now();
    while nodes.take_requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(began.elapsed() < Duration::from_secs(11), "{:?}: 70 s after the last event of pods", began.elapsed());
}

// Servers send no bookmarks for a kind that was never written.
#[tokio::test(start_paused = true)]
async fn a_watch_that_never_sent_anything_restarts_alone() {
    let reach = Reachability::default();
    let ((pods, _pods_watch), (nodes, nodes_watch)) =
        (watched_server::<PodView>(&reach), watched_server::<NodeView>(&reach));
    seconds(60).await;
    nodes_watch.send("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n");
    seconds(15).await;
    assert_eq!([pods.take_requests().len(), nodes.take_requests().len()], [3, 2], "a list, and one watch more of pods");
}

#[tokio::test(start_paused = true)]
async fn all_requests_after_one_on_a_new_connection_use_it() {
    let made = Arc::new(AtomicUsize::new(0));
    let servers = [FakeServer::default(), FakeServer::default()];
    for server in &servers {
        (0..2).for_each(|_| server.reply(200, "{}"));
    }
    let connect = {
        let (servers, made) = (servers.clone(), Arc::clone(&made));
        move || Ok(servers[made.fetch_add(1, Ordering::Relaxed)].client())
    };
    let client = reconnecting(connect).unwrap();
    let ask = async |path: &str, connection: Connection| {
        let request = Request::get(path).extension(connection).body(Body::empty()).unwrap();
        client.send(request).await.unwrap();
    };
    ask("/old", Connection::Any).await;
    ask("/new", Connection::New).await;
    ask("/later", Connection::Any).await;
    assert_eq!(servers.map(|server| server.take_requests()), [vec!["GET /old"], vec!["GET /new", "GET /later"]]);
}
