//! The cache kept up to date by list and watch against a scripted server.

use std::time::Duration;

use phalanx_runtime::{Cache, Cursor, ListWatchConfig, list_and_watch};
use tokio::time::{Instant, timeout};
use types::Revision;
use types::views::{ObjectKey, PodView};

use crate::fake_server::FakeServer;

/// A pod's JSON at `revision`.
fn pod(name: &str, revision: u64) -> String {
    format!(r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"uid-{name}","resourceVersion":"{revision}"}}}}"#)
}

fn list(revision: u64, next: &str, pods: &[String]) -> String {
    let meta = format!(r#"{{"resourceVersion":"{revision}","continue":"{next}"}}"#);
    format!(r#"{{"kind":"PodList","metadata":{meta},"items":[{}]}}"#, pods.join(","))
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

struct ListWatchHarness {
    server: FakeServer,
    cache: Cache<PodView>,
    cursor: Cursor<PodView>,
}

impl ListWatchHarness {
    fn start(prepare: impl FnOnce(&FakeServer)) -> ListWatchHarness {
        let server = FakeServer::default();
        prepare(&server);
        let cache = Cache::new(&[]);
        tokio::spawn(list_and_watch(server.client(), cache.clone(), ListWatchConfig::default()));
        ListWatchHarness { server, cursor: cache.subscribe(), cache }
    }

    /// The next `count` changes: `+` created, `~` changed, `-` deleted.
    async fn changes(&mut self, count: usize) -> String {
        let mut out = Vec::new();
        for _ in 0..count {
            let change = timeout(Duration::from_secs(60), self.cursor.next()).await.expect("a change is due");
            let mark = match (&change.old, &change.new) {
                (None, _) => '+',
                (Some(_), Some(_)) => '~',
                (_, None) => '-',
            };
            out.push(format!("{mark}{}", change.latest().metadata.name));
        }
        out.join(" ")
    }
}

const PODS: &str = "GET /api/v1/pods?&";

#[tokio::test(start_paused = true)]
async fn the_cache_keeps_only_the_used_fields_of_finished_pods() {
    let ended = |name: &str, revision| {
        let spec = r#","spec":{"nodeName":"n","containers":[{"name":"c"}]},"status":{"phase":"Succeeded"}}"#;
        pod(name, revision).replace("}}", &format!("}}{spec}"))
    };
    let mut watch = None;
    let mut world = ListWatchHarness::start(|server| {
        server.reply(200, &list(5, "", &[ended("listed", 1)]));
        watch = Some(server.reply_watch());
    });
    world.cache.wait_for_sync().await;
    watch.unwrap().send(&event("ADDED", &ended("watched", 6)));
    assert_eq!(world.changes(2).await, "+listed +watched");
    for pod in world.cache.all() {
        assert_eq!((pod.node_name(), pod.spec.containers.len()), (Some("n"), 0), "{}", pod.metadata.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_and_its_watch_fill_the_cache() {
    let mut watch = None;
    let mut world = ListWatchHarness::start(|server| {
        server.reply(200, &list(5, "next/page=", &[pod("a", 1)]));
        server.reply(200, &list(5, "", &[pod("b", 2)]));
        watch = Some(server.reply_watch());
    });
    world.cache.wait_for_sync().await;
    assert_eq!(world.changes(2).await, "+a +b");
    assert_eq!(world.cache.revision(), Revision(5));
    // Several events in one chunk, and one event over two chunks.
    let watch = watch.unwrap();
    let last = event("DELETED", &pod("b", 8));
    let (head, tail) = last.split_at(20);
    watch.send(&format!("{}{}{head}", event("ADDED", &pod("c", 6)), event("MODIFIED", &pod("a", 7))));
    watch.send(tail);
    assert_eq!(world.changes(3).await, "+c ~a -b");
    assert_eq!(world.cache.revision(), Revision(8));
    assert!(world.cache.get(&ObjectKey::new("ns", "b")).is_none());
    let watching = "watch=true&timeoutSeconds=290&allowWatchBookmarks=true&resourceVersion=5";
    assert_eq!(
        world.server.take_requests(),
        [format!("{PODS}limit=500"), format!("{PODS}limit=500&continue=next%2Fpage%3D"), format!("{PODS}{watching}")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_moves_the_revision_and_wakes_its_waiters() {
    let mut watch = None;
    let world = ListWatchHarness::start(|server| {
        server.reply(200, &list(5, "", &[]));
        watch = Some(server.reply_watch());
    });
    world.cache.wait_for_sync().await;
    let (cache, watch) = (world.cache.clone(), watch.unwrap());
    let waiting = tokio::spawn(async move { cache.wait_for_revision(Revision(40)).await });
    watch.send(&event("BOOKMARK", r#"{"kind":"Pod","metadata":{"resourceVersion":"39"}}"#));
    assert!(timeout(Duration::from_secs(1), world.cache.wait_for_revision(Revision(40))).await.is_err());
    watch.send(&event("BOOKMARK", r#"{"kind":"Pod","metadata":{"resourceVersion":"41"}}"#));
    timeout(Duration::from_secs(1), waiting).await.expect("revision 40 is reached").unwrap();
    assert_eq!(world.cache.revision(), Revision(41));
}

// A Job waited up to a minute for the cache of its pods to reach the revision of a list of another kind.
#[tokio::test(start_paused = true)]
async fn a_condition_ends_a_wait_for_a_revision_of_another_kind() {
    let mut watch = None;
    let world = ListWatchHarness::start(|server| {
        server.reply(200, &list(5, "", &[pod("a", 1)]));
        watch = Some(server.reply_watch());
    });
    world.cache.wait_for_sync().await;
    let (cache, watch) = (world.cache.clone(), watch.unwrap());
    let waiting =
        tokio::spawn(async move { cache.wait_for_revision_or(Revision(40), || cache.all().is_empty()).await });
    watch.send(&event("MODIFIED", &pod("a", 6)));
    watch.send(&event("DELETED", &pod("a", 7)));
    timeout(Duration::from_secs(1), waiting).await.expect("the pod is deleted").unwrap();
    assert_eq!(world.cache.revision(), Revision(7), "no bookmark has arrived");
}

#[tokio::test(start_paused = true)]
async fn a_closed_watch_resumes_after_the_last_event() {
    let mut watches = Vec::new();
    let mut world = ListWatchHarness::start(|server| {
        server.reply(200, &list(5, "", &[]));
        watches.extend([server.reply_watch(), server.reply_watch()]);
    });
    let second = watches.pop().unwrap();
    let first = watches.pop().unwrap();
    first.send(&event("ADDED", &pod("a", 9)));
    assert_eq!(world.changes(1).await, "+a");
    let before = Instant::now();
    first.cut();
    second.send(&event("ADDED", &pod("b", 10)));
    assert_eq!(world.changes(1).await, "+b");
    assert_eq!(before.elapsed(), Duration::from_millis(200), "one step of backoff");
    let requests = world.server.take_requests();
    assert_eq!(requests.len(), 3, "no second list: {requests:?}");
    assert!(requests[2].ends_with("resourceVersion=9"), "{}", requests[2]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_events_resets_the_backoff() {
    let mut watches = Vec::new();
    let mut world = ListWatchHarness::start(|server| {
        server.reply(200, &list(5, "", &[]));
        watches.extend((0..6).map(|_| server.reply_watch()));
    });
    let before = Instant::now();
    for (number, watch) in watches.into_iter().enumerate() {
        watch.send(&event("ADDED", &pod(&format!("p{number}"), 10 + number as u64)));
        world.changes(1).await;
        watch.cut();
    }
    assert_eq!(before.elapsed(), Duration::from_millis(5 * 200), "five interruptions, each with the first delay");
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_lists_again_and_reports_what_was_missed() {
    for by_status_code in [false, true] {
        let expired = r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"}"#;
        let mut watch = None;
        let mut world = ListWatchHarness::start(|server| {
            server.reply(200, &list(5, "", &[pod("a", 1), pod("b", 2)]));
            if by_status_code {
                server.reply(410, expired);
            } else {
                watch = Some(server.reply_watch());
            }
            server.reply(200, &list(20, "", &[pod("b", 2), pod("c", 18)]));
        });
        if let Some(watch) = &watch {
            watch.send(&event("ERROR", expired));
        }
        assert_eq!(world.changes(4).await, "+a +b -a +c", "by status code: {by_status_code}");
        assert_eq!(world.cache.revision(), Revision(20));
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_skipped() {
    let bad = r#"{"metadata":{"namespace":"ns","name":"bad","resourceVersion":"6"},"spec":{"containers":"none"}}"#;
    let mut watch = None;
    let mut world = ListWatchHarness::start(|server| {
        server.reply(200, &list(5, "", &[pod("a", 1), bad.to_owned()]));
        watch = Some(server.reply_watch());
    });
    let watch = watch.unwrap();
    watch.send(&format!("{}not json\n{}", event("ADDED", bad), event("ADDED", &pod("b", 7))));
    assert_eq!(world.changes(2).await, "+a +b");
    assert_eq!(world.cache.all().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_to_an_unavailable_server_are_retried_with_growing_delays() {
    let before = Instant::now();
    let world = ListWatchHarness::start(|server| {
        (0..3).for_each(|_| server.reply(503, "upstream connect error"));
        server.reply(200, &list(5, "", &[]));
    });
    world.cache.wait_for_sync().await;
    assert_eq!(before.elapsed().as_millis() / 100, 14, "200 + 400 + 800 ms");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_has_no_objects_until_it_is() {
    let (server, reach, cache) =
        (FakeServer::default(), phalanx_runtime::Reachability::default(), Cache::<PodView>::new(&[]));
    server.reply(404, "404 page not found");
    server.reply(200, &list(7, "", &[pod("a", 5)]));
    let watch = server.reply_watch();
    server.reply(404, "404 page not found");
    let config = ListWatchConfig { reachability: Some(reach.clone()), ..ListWatchConfig::default() };
    tokio::spawn(list_and_watch(server.client(), cache.clone(), config));
    let mut world = ListWatchHarness { server, cursor: cache.subscribe(), cache };
    let start = Instant::now();
    timeout(Duration::from_secs(1), world.cache.wait_for_sync()).await.expect("the cache is synced without objects");
    assert!(world.cache.is_empty());
    assert_eq!(world.changes(1).await, "+a");
    assert_eq!(start.elapsed(), Duration::from_secs(30), "retried, but not all the time");
    // The server was always reachable, but it is not the same server as before.
    timeout(Duration::from_secs(1), reach.wait_for_recovery(0))
        .await
        .expect("a newly served kind counts as a recovery");
    // The watch is closed, and the server that returns has changed again.
    watch.cut();
    assert_eq!(world.changes(1).await, "-a");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_and_its_recovery_are_noticed() {
    let (server, reach) = (FakeServer::default(), phalanx_runtime::Reachability::default());
    server.reply(503, "");
    server.reply(200, &list(7, "", &[]));
    let _watch = server.reply_watch();
    let cache = Cache::<PodView>::new(&[]);
    let config = ListWatchConfig { reachability: Some(reach.clone()), ..ListWatchConfig::default() };
    tokio::spawn(list_and_watch(server.client(), cache.clone(), config));
    tokio::task::yield_now().await;
    while server.take_requests().is_empty() || reach.is_reachable() {
        tokio::task::yield_now().await;
    }
    timeout(Duration::from_secs(10), reach.wait_for_recovery(0)).await.expect("the server responds again");
    assert!(reach.is_reachable() && cache.is_synced());
}

// A watch that had lost an event reached the same revision as any other, and the object stayed lost until the next
// list.
#[tokio::test(start_paused = true)]
async fn a_cache_that_is_reported_wrong_is_listed_again_at_once() {
    let mut watches = Vec::new();
    let mut world = ListWatchHarness::start(|server| {
        server.reply(200, &list(5, "", &[pod("a", 1)]));
        watches.push(server.reply_watch());
        server.reply(200, &list(9, "", &[pod("a", 1), pod("b", 6)]));
        watches.push(server.reply_watch());
    });
    assert_eq!(world.changes(1).await, "+a");
    watches[0].send(&event("ADDED", &pod("c", 7)));
    assert_eq!(world.changes(1).await, "+c");
    let asked_at = Instant::now();
    world.cache.relist().await;
    assert_eq!(asked_at.elapsed(), Duration::ZERO);
    assert_eq!(world.changes(2).await, "-c +b");
    watches[1].send(&event("MODIFIED", &pod("b", 10)));
    assert_eq!(world.changes(1).await, "~b", "the watch continues from the list");
}

#[tokio::test(start_paused = true)]
async fn a_cache_catches_up_with_one_object_by_waiting_or_by_a_list() {
    let mut watches = Vec::new();
    let mut world = ListWatchHarness::start(|server| {
        server.reply(200, &list(5, "", &[pod("a", 5)]));
        watches.push(server.reply_watch());
    });
    assert_eq!(world.changes(1).await, "+a");
    world.server.take_requests();
    let (client, key) = (world.server.client(), ObjectKey::new("ns", "a"));
    let catch_up = || phalanx_runtime::request::catch_up(&client, &world.cache, &key);

    world.server.reply(200, &pod("a", 5));
    catch_up().await.unwrap();
    assert_eq!(world.server.take_requests(), ["GET /api/v1/namespaces/ns/pods/a"], "the cache is up to date");

    world.server.reply(404, r#"{"kind":"Status","code":404}"#);
    catch_up().await.unwrap();
    assert_eq!(world.server.take_requests().len(), 1, "the deletion arrives as an event");

    // The event of revision 6 was lost; the watch is past it.
    watches[0].send(&event("ADDED", &pod("b", 7)));
    world.server.reply(200, &pod("a", 6));
    world.server.reply(200, &list(8, "", &[pod("a", 6), pod("b", 7)]));
    watches.push(world.server.reply_watch());
    catch_up().await.unwrap();
    assert_eq!(world.cache.get(&key).unwrap().metadata.resource_version, Revision(6));
}

// A frozen server, or a network that drops packets: the connection stays open and nothing arrives.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_resumes_at_its_revision() {
    let mut watches = Vec::new();
    let mut world = ListWatchHarness::start(|server| {
        server.reply(200, &list(5, "", &[pod("a", 5)]));
        watches.push(server.reply_watch());
        watches.push(server.reply_watch());
    });
    assert_eq!(world.changes(1).await, "+a");
    watches[0].send(&event("ADDED", &pod("b", 7)));
    assert_eq!(world.changes(1).await, "+b");
    world.server.take_requests();
    let began = Instant::now();
    watches[1].send(&event("ADDED", &pod("c", 9)));
    let change = timeout(Duration::from_secs(600), world.cursor.next()).await.expect("the second watch begins");
    assert_eq!((change.latest().metadata.name.as_str(), began.elapsed().as_secs()), ("c", 70));
    assert!(world.server.take_requests()[0].contains("resourceVersion=7"), "from the last event");
}

#[tokio::test(start_paused = true)]
async fn a_list_and_a_watch_without_a_response_are_retried() {
    let mut world = ListWatchHarness::start(FakeServer::lose_answer);
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.server.reply(200, &list(5, "", &[pod("a", 5)]));
    world.server.lose_answer();
    let watch = world.server.reply_watch();
    watch.send(&event("ADDED", &pod("b", 6)));
    let began = Instant::now();
    assert_eq!(world.changes(2).await, "+a +b");
    assert!(began.elapsed() < Duration::from_secs(32), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_response_ends_with_an_error() {
    let server = FakeServer::default();
    let began = Instant::now();
    let error = phalanx_runtime::request::get(&server.client(), "/version").await.unwrap_err();
    assert_eq!(began.elapsed(), phalanx_runtime::request::DEADLINE);
    assert_eq!(phalanx_runtime::failure::message(&error), "no response within 15 s");
    assert!(
        phalanx_runtime::is_retriable(&error) && phalanx_runtime::is_uncertain(&error),
        "it may have been applied or not"
    );
    // A response whose body does not end counts as none.
    let _never = server.reply_watch();
    let began = Instant::now();
    assert!(phalanx_runtime::request::get(&server.client(), "/version").await.is_err());
    assert_eq!(began.elapsed(), phalanx_runtime::request::DEADLINE);
}
