//! Remedies in conditions, and the query API.

use std::time::Duration;

use api::views::ObjectKey;
use phalanx_scheduler::query::error::{ErrorResponse, QueryErrorCode};
use phalanx_scheduler::{Config, CoreMode, NoScheduler, Query, SchedulerHandle};
use scheduler_core::{QueueStatus, RemedyStatus, Unit};
use serde_json::Value;

use crate::small_server::{SmallServer, settle, start};

/// A node for three pods with one pod on it, and a gang of four.
fn crowded() -> SmallServer {
    let server = SmallServer::new();
    server.node("n", 3);
    server.pod("x", None, Some("n"));
    server.gang("g", 4);
    server.pods(&["a", "b", "c", "d"], Some("g"), None);
    server
}

fn gang() -> Unit {
    Unit::Group(ObjectKey::new("ns", "g"))
}

/// The message of the group's condition.
fn message(server: &SmallServer) -> String {
    server.pod_groups.all()[0].status.conditions[0].message.clone()
}

#[tokio::test(start_paused = true)]
async fn the_first_condition_has_remedies_that_change_at_most_every_ten_seconds() {
    let server = crowded();
    start(&server, Config::default());
    settle(3).await;
    assert!(
        message(&server).ends_with("; remedies: lower minCount to 2, or add 1 node like n"),
        "{}",
        message(&server)
    );
    let group_writes = |server: &SmallServer| server.log().iter().filter(|line| line.starts_with("g ")).count();
    assert_eq!(group_writes(&server), 1, "refusal and remedies are one write");
    server.remove("pods", "x");
    settle(3).await;
    assert_eq!(group_writes(&server), 0, "only numbers changed");
    settle(10).await;
    assert_eq!(group_writes(&server), 1);
    assert!(
        message(&server).ends_with("; remedies: lower minCount to 3, or add 1 node like n"),
        "{}",
        message(&server)
    );
    settle(60).await;
    assert_eq!(group_writes(&server), 0, "the same message is not written again");
}

async fn query(handle: &SchedulerHandle) -> (String, QueueStatus, usize) {
    let explained = handle.explain(gang(), Vec::new()).await.unwrap().unwrap();
    let Some(RemedyStatus::Found(report)) = explained.refusal.map(|refusal| refusal.remedies) else {
        panic!("no remedies")
    };
    let queue = handle.queue().await.unwrap();
    (report.remedies[0].text(), queue[0].state, queue.len())
}

#[tokio::test(start_paused = true)]
async fn requests_fail_without_a_scheduler() {
    let server = crowded();
    let handle = start(&server, Config::default());
    settle(3).await;
    assert_eq!(query(&handle).await, ("lower minCount to 2".to_owned(), QueueStatus::Waiting, 1));
    let unknown = Unit::Pod(ObjectKey::new("ns", "unknown"));
    assert_eq!(handle.explain(unknown, Vec::new()).await, Ok(None));
    assert_eq!(SchedulerHandle::default().queue().await, Err(NoScheduler));
}

#[tokio::test]
async fn a_core_on_its_own_thread_responds_as_well() {
    let server = crowded();
    let handle = start(&server, Config { core_mode: CoreMode::OnThread, ..Config::default() });
    let refused = async {
        while !handle.contains(&gang()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), refused).await.unwrap();
    assert_eq!(query(&handle).await, ("lower minCount to 2".to_owned(), QueueStatus::Waiting, 1));
}

#[tokio::test(start_paused = true)]
async fn queries_get_typed_responses_or_an_error_with_a_code() {
    let server = crowded();
    let (pods, pod_groups) = (server.pods.clone(), server.pod_groups.clone());
    let handle = start(&server, Config::default());
    settle(3).await;
    let revision = pods.revision().to_string();
    let query_handler = Query { handle, pods, pod_groups };
    let found = async |path: &str, query: &str| -> Value {
        let response = query_handler.respond(path, query).await.unwrap();
        assert_eq!(response.code, 200, "{path}?{query}: {}", response.body);
        serde_json::from_str(&response.body).unwrap()
    };
    let group = found("/explain", "kind=podgroup&namespace=ns&name=g").await;
    assert_eq!(group["units"][0]["state"], "Waiting");
    assert_eq!(group["units"][0]["refusal"]["code"], "DoesNotFit");
    assert_eq!(group["units"][0]["refusal"]["remedies"][0]["type"], "LowerMinCount", "{group:#}");
    let member = found("/explain", "kind=pod&namespace=ns&name=a").await;
    assert_eq!(member["units"][0]["unit"]["name"], "g", "a member waits with its group");
    let placed = found("/explain", "kind=pod&namespace=ns&name=x").await;
    assert_eq!(placed["units"][0]["placement"]["nodes"][0]["node"], "n", "{placed:#}");
    let queue = found("/queue", "").await;
    assert_eq!(
        (&queue["units"][0]["state"], &queue["units"][0]["refusalCode"]),
        (&"Waiting".into(), &"DoesNotFit".into())
    );
    // The response includes every change of a pod up to this revision.
    assert_eq!(
        (&queue["resourceVersion"], &group["resourceVersion"]),
        (&revision.as_str().into(), &revision.as_str().into())
    );
    let failed = async |handler: &Query, path: &str, query: &str| {
        let response = handler.respond(path, query).await.unwrap();
        let error: ErrorResponse = serde_json::from_str(&response.body).unwrap();
        (response.code, error.reason)
    };
    let unknown = failed(&query_handler, "/explain", "kind=job&namespace=ns&name=unknown").await;
    assert_eq!(unknown, (404, QueryErrorCode::UnitNotFound));
    assert_eq!(failed(&query_handler, "/explain", "").await, (400, QueryErrorCode::InvalidRequest));
    assert_eq!(query_handler.respond("/secrets", "").await, None);
    let without_scheduler = Query { handle: SchedulerHandle::default(), ..query_handler.clone() };
    assert_eq!(failed(&without_scheduler, "/queue", "").await, (503, QueryErrorCode::NoScheduler));
}
