//! The kinds of a scripted server, and when discovery is read.

use std::time::Duration;

use phalanx_runtime::{Capabilities, Reachability};
use tokio::time::timeout;
use types::Random;
use types::views::{PodGroupView, View, WorkloadView};

use crate::fake_server::FakeServer;

const GROUP: &str = r#"{"name":"scheduling.k8s.io","versions":[{"groupVersion":"scheduling.k8s.io/v1beta1"}],
    "preferredVersion":{"groupVersion":"scheduling.k8s.io/v1beta1"}}"#;
const KINDS: &str = r#"{"resources":[{"name":"workloads","kind":"Workload","namespaced":true},
    {"name":"podgroups/status","kind":"PodGroup","namespaced":true}]}"#;

fn capabilities(server: &FakeServer, reachability: &Reachability) -> Capabilities {
    let groups = &["scheduling.k8s.io"];
    let (capabilities, keeping) = Capabilities::of(server.client(), groups, reachability.clone(), Random::seeded(1));
    tokio::spawn(keeping);
    capabilities
}

#[tokio::test(start_paused = true)]
async fn a_server_has_the_kinds_that_its_discovery_lists() {
    let server = FakeServer::default();
    server.reply(503, "");
    server.reply(200, GROUP);
    server.reply(200, KINDS);
    let mut capabilities = capabilities(&server, &Reachability::default());
    assert!(!capabilities.serves(WorkloadView::RESOURCE), "discovery was not read yet");
    timeout(Duration::from_secs(5), capabilities.wait_until_known()).await.expect("tried again");
    assert!(capabilities.serves(WorkloadView::RESOURCE));
    assert!(!capabilities.serves(PodGroupView::RESOURCE), "a subresource is not a kind");
    assert!(Capabilities::everything().serves(PodGroupView::RESOURCE));
}

#[tokio::test(start_paused = true)]
async fn discovery_is_read_again_after_a_change_of_the_server() {
    let server = FakeServer::default();
    server.reply(404, "404 page not found");
    server.reply(200, GROUP);
    server.reply(200, KINDS);
    let mut capabilities = capabilities(&server, &Reachability::default());
    capabilities.wait_until_known().await;
    assert!(!capabilities.serves(WorkloadView::RESOURCE), "the whole group is missing");
    timeout(Duration::from_secs(120), capabilities.wait_for_change()).await.expect("discovery is read again");
    assert!(capabilities.serves(WorkloadView::RESOURCE));
}
