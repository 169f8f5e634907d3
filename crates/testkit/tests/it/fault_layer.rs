//! The effect of each fault on requests and events, in process and over HTTP.

use std::collections::BTreeSet;
use std::time::Duration;

use controlplane::Config;
use futures::{AsyncBufReadExt, TryStreamExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Error};
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::fault::{EventFault, Fault, FaultRule, InjectedStatus, Proxy, all_requests, events_of, verb, writes};
use testkit::fault::{RequestMatcher, Verb};
use testkit::{TestCluster, on_paused_clock, pod};
use tokio::time::Instant;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECONDS_5: Duration = Duration::from_secs(5);

/// A server without components.
async fn server() -> TestCluster {
    TestCluster::with_config(1, Config { components: BTreeSet::new(), ..Config::for_cluster(Cluster::default_of(1)) })
        .await
}

async fn create(client: &Client, name: &str) -> Result<Value, Error> {
    let body = serde_json::to_vec(&pod(name).build()).unwrap();
    let request = http::Request::post(PODS).header("content-type", "application/json");
    client.request(request.body(body).unwrap()).await
}

fn response_text(result: Result<Value, Error>) -> String {
    match result {
        Ok(object) => format!("created {}", object["metadata"]["name"].as_str().unwrap()),
        Err(Error::Api(status)) => format!("{} {}", status.code, status.reason),
        // In process the injected error is returned as it is; over HTTP the client returns its own error of a broken
        // connection.
        Err(Error::Service(_) | Error::HyperError(_)) => "cut".to_owned(),
        Err(other) => panic!("{other:?}"),
    }
}

/// Each fault, the response, and how many pods exist then.
fn faults() -> [(Fault, &'static str, usize); 11] {
    let busy = InjectedStatus::TooManyRequests { retry_after_seconds: 3 };
    [
        (Fault::Count, "created p", 1),
        (Fault::Cut, "cut", 0),
        (Fault::CutResponse, "cut", 1),
        (Fault::Repeat, "409 AlreadyExists", 1),
        (Fault::Respond(InjectedStatus::Forbidden), "403 Forbidden", 0),
        (Fault::Respond(InjectedStatus::Conflict), "409 Conflict", 0),
        (Fault::Respond(busy), "429 TooManyRequests", 0),
        (Fault::Respond(InjectedStatus::Unavailable), "503 ServiceUnavailable", 0),
        (Fault::RespondAfter(InjectedStatus::InternalError), "500 InternalError", 1),
        (Fault::RespondAfter(InjectedStatus::Timeout), "504 Timeout", 1),
        (Fault::RespondAfter(InjectedStatus::Expired), "410 Expired", 1),
    ]
}

fn created_pods(cluster: &TestCluster) -> usize {
    cluster.history().iter().filter(|change| change.resource == "pods" && change.created).count()
}

#[test]
fn each_fault_has_its_effect_on_caller_and_server() {
    for (fault, want, made) in faults() {
        on_paused_clock(async {
            let cluster = server().await;
            let client = cluster.faults().wrap("component", cluster.client());
            let rule =
                cluster.inject_fault(FaultRule::on(writes().on_resource("pods").by_user("component"), fault.clone()));
            assert_eq!(response_text(create(&client, "p").await), want, "{fault:?}");
            assert_eq!(created_pods(&cluster), made, "{fault:?}");
            assert_eq!(cluster.faults().counts(rule).applied, 1, "{fault:?}");
            cluster.faults().remove(rule);
            assert_eq!(
                response_text(create(&client, "q").await),
                "created q",
                "{fault:?}: a removed rule has no effect"
            );
        });
    }
}

#[test]
fn a_delay_is_before_or_after_the_server_handles_the_request() {
    for (fault, created_after) in
        [(Fault::Delay(SECONDS_5), SECONDS_5), (Fault::DelayResponse(SECONDS_5), Duration::ZERO)]
    {
        on_paused_clock(async {
            let cluster = server().await;
            let client = cluster.faults().wrap("component", cluster.client());
            cluster.inject_fault(FaultRule::on(writes(), fault.clone()));
            let (began, now) = (Instant::now(), cluster.now());
            let made = create(&client, "p").await.unwrap();
            assert_eq!(began.elapsed(), SECONDS_5, "{fault:?}");
            let created: api::Timestamp = made["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
            assert_eq!(created, now + created_after, "{fault:?}");
        });
    }
}

#[test]
fn an_injected_429_has_retry_after() {
    on_paused_clock(async {
        let cluster = server().await;
        let client = cluster.faults().wrap("component", cluster.client());
        cluster.inject_fault(FaultRule::on(
            all_requests(),
            Fault::Respond(InjectedStatus::TooManyRequests { retry_after_seconds: 3 }),
        ));
        let request = http::Request::get(format!("{PODS}/p")).body(kube::client::Body::empty()).unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.headers()["retry-after"], "3");
        let bytes = response.into_body().collect_bytes().await.unwrap();
        let status: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(status["details"], json!({"name": "p", "group": "", "kind": "pods", "retryAfterSeconds": 3}));
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(429)));
    });
}

#[test]
fn fault_rules_apply_only_to_components() {
    on_paused_clock(async {
        let cluster = server().await;
        cluster.inject_fault(FaultRule::on(all_requests(), Fault::Cut));
        cluster.create(&pod("p").build()).await;
    });
}

/// The events of a watch over four new pods, by name, and its end if it was not the timeout.
async fn watched_names(cluster: &TestCluster, client: &Client) -> String {
    let from = cluster.history().last().unwrap().revision;
    let uri = format!("{PODS}?watch=true&timeoutSeconds=2&resourceVersion={from}");
    let body = client.request_stream(http::Request::get(uri).body(Vec::new()).unwrap()).await.unwrap();
    for name in ["a", "b", "c", "d"] {
        cluster.create(&pod(name).build()).await;
    }
    let mut lines = Box::pin(body).lines();
    let mut names = Vec::new();
    loop {
        match lines.try_next().await {
            Ok(Some(line)) => {
                let event: Value = serde_json::from_str(&line).unwrap();
                names.push(match event["type"].as_str().unwrap() {
                    "ERROR" => event["object"]["code"].to_string(),
                    _ => event["object"]["metadata"]["name"].as_str().unwrap().to_owned(),
                });
            }
            Ok(None) => return names.join(" "),
            Err(_) => {
                names.push("cut".to_owned());
                return names.join(" ");
            }
        }
    }
}

/// The watch of the test, not that of the cluster's own cache.
fn watched_pods() -> RequestMatcher {
    events_of("pods").by_user("component")
}

/// Each event fault, and the events that a client gets.
fn event_faults() -> [(FaultRule, &'static str); 9] {
    let on = |fault| FaultRule::on_events(watched_pods(), fault);
    let soon = Duration::from_millis(200);
    [
        (on(EventFault::Count), "a b c d"),
        (on(EventFault::Drop).nth(2), "a c d"),
        (on(EventFault::Repeat).nth(2), "a b b c d"),
        (on(EventFault::Postpone(soon)).nth(2), "a c b d"),
        (on(EventFault::Postpone(soon)).nth(4), "a b c d"),
        (on(EventFault::Cut).nth(2), "a cut"),
        (on(EventFault::Expire).nth(2), "a 410"),
        (on(EventFault::Delay(soon)).first_n(2), "a b c d"),
        (FaultRule::on_events(watched_pods().named("c"), EventFault::Drop), "a b d"),
    ]
}

#[test]
fn each_event_fault_has_its_effect_on_a_watch() {
    for (rule, want) in event_faults() {
        on_paused_clock(async {
            let cluster = server().await;
            let client = cluster.faults().wrap("component", cluster.client());
            let case = format!("{rule:?}");
            cluster.inject_fault(rule);
            assert_eq!(watched_names(&cluster, &client).await, want, "{case}");
        });
    }
}

#[test]
fn a_delayed_watch_stalls_and_then_delivers_all_events() {
    on_paused_clock(async {
        let cluster = server().await;
        let client = cluster.faults().wrap("component", cluster.client());
        cluster.inject_fault(FaultRule::on_events(watched_pods(), EventFault::Delay(Duration::from_secs(30))).nth(1));
        let began = Instant::now();
        assert_eq!(watched_names(&cluster, &client).await, "a b c d");
        assert_eq!(began.elapsed(), Duration::from_secs(30), "the watch continues after its timeout");
    });
}

#[test]
fn the_proxy_applies_request_faults_like_the_layer() {
    over_http(async |cluster, proxy| {
        let client = proxy.client().unwrap();
        for (count, (fault, want, made)) in faults().into_iter().enumerate() {
            let name = format!("p{count}");
            let rule = cluster.inject_fault(FaultRule::on(writes().named(&name).by_user("component"), fault.clone()));
            let before = created_pods(cluster);
            assert_eq!(
                response_text(create(&client, &name).await),
                want.replace("created p", &format!("created {name}")),
                "{fault:?}"
            );
            assert_eq!(created_pods(cluster) - before, made, "{fault:?}");
            assert_eq!(cluster.faults().counts(rule).applied, 1, "{fault:?}");
        }
    });
}

#[test]
fn a_black_holed_connection_is_not_reused() {
    for (fault, made) in [(Fault::BlackHole, 0), (Fault::BlackHoleResponse, 1)] {
        over_http(async |cluster, proxy| {
            let client = proxy.client().unwrap();
            assert_eq!(response_text(create(&client, "before").await), "created before", "the connection is open");
            let rule = cluster.inject_fault(FaultRule::on(writes().by_user("component"), fault.clone()).nth(1));
            let result = tokio::time::timeout(Duration::from_millis(300), create(&client, "lost"));
            assert!(result.await.is_err(), "{fault:?}: there is no response");
            assert_eq!(created_pods(cluster), 1 + made, "{fault:?}");
            assert_eq!(response_text(create(&client, "after").await), "created after", "{fault:?}");
            assert_eq!(cluster.faults().counts(rule).applied, 1, "{fault:?}");
        });
    }
}

#[test]
fn the_proxy_applies_event_faults_like_the_layer() {
    for (rule, want) in event_faults().into_iter().take(7) {
        over_http(async |cluster, proxy| {
            let case = format!("{rule:?}");
            cluster.inject_fault(rule.clone());
            assert_eq!(watched_names(cluster, &proxy.client().unwrap()).await, want, "{case}");
        });
    }
}

#[test]
fn the_kubeconfig_of_a_proxy_routes_through_it() {
    over_http(async |cluster, proxy| {
        let lists = cluster.inject_fault(FaultRule::on(verb(Verb::List).on_resource("nodes"), Fault::Count));
        let file = Kubeconfig::from_yaml(&proxy.kubeconfig()).unwrap();
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let request = http::Request::get("/api/v1/nodes").body(Vec::new()).unwrap();
        let list: Value = client.request(request).await.unwrap();
        assert_eq!(list["kind"], "NodeList");
        assert_eq!(cluster.faults().counts(lists).matched, 1);
        let version = client.apiserver_version().await.unwrap();
        assert_eq!(version.major, "1", "requests without a resource pass");
    });
}

#[test]
fn dropping_a_proxy_closes_its_watches() {
    over_http(async |cluster, _| {
        let proxy = Proxy::start(cluster.faults(), "other", cluster.client()).await.unwrap();
        let client = proxy.client().unwrap();
        let request = http::Request::get(format!("{PODS}?watch=true")).body(Vec::new()).unwrap();
        let mut lines = Box::pin(client.request_stream(request).await.unwrap()).lines();
        drop(proxy);
        assert!(lines.try_next().await.is_err(), "the watch breaks");
        assert_eq!(response_text(create(&client, "p").await), "cut");
    });
}

/// Runs `scenario` with a proxy for the user `component`, on the wall clock and a real socket, for at most a minute.
fn over_http(scenario: impl AsyncFnOnce(&TestCluster, &Proxy)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cluster = server().await;
        let proxy = Proxy::start(cluster.faults(), "component", cluster.client()).await.unwrap();
        tokio::time::timeout(Duration::from_secs(60), scenario(&cluster, &proxy)).await.expect("a minute is enough");
    });
}

#[test]
fn rules_match_by_every_attribute_of_a_request() {
    on_paused_clock(async {
        let cluster = server().await;
        let (one, two) =
            (cluster.faults().wrap("system:one", cluster.client()), cluster.faults().wrap("two", cluster.client()));
        let count = |of: RequestMatcher| cluster.inject_fault(FaultRule::on(of, Fault::Count));
        let rules = [
            (count(all_requests().in_namespace("default")), 3),
            (count(writes()), 3),
            (count(all_requests().by_user("one")), 2),
            (count(verb(Verb::Create).on_resource("pods").named("b")), 1),
            (count(all_requests().on_resource("pods").on_subresource("binding")), 1),
            (count(verb(Verb::List).not_on_resource("pods")), 1),
        ];
        create(&one, "a").await.unwrap();
        create(&two, "b").await.unwrap();
        let bind = http::Request::post(format!("{PODS}/a/binding")).body(b"{}".to_vec()).unwrap();
        one.request::<Value>(bind).await.unwrap_err();
        let nodes = http::Request::get("/api/v1/nodes").body(Vec::new()).unwrap();
        two.request::<Value>(nodes).await.unwrap();
        for (position, (rule, want)) in rules.into_iter().enumerate() {
            assert_eq!(cluster.faults().counts(rule).matched, want, "rule {position}");
        }
    });
}
