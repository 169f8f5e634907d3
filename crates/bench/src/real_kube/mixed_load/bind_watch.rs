//! When the last pod of each Job was bound, as a watch reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::{Context, bail};
use futures::StreamExt;
use kube::Client;
use kube::core::WatchEvent;
use runtime::request;
use serde::Deserialize;
use serde_json::Value;

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";

/// A watch of pods with a node, from a revision on.
pub struct JobBindWatch {
    client: Client,
    resource_version: String,
}

#[derive(Clone, Deserialize)]
struct WatchedPod {
    metadata: WatchedPodMeta,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchedPodMeta {
    name: String,
    resource_version: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl JobBindWatch {
    /// Binds after this call.
    pub async fn from_now(client: &Client) -> anyhow::Result<JobBindWatch> {
        let list: Value = serde_json::from_slice(&request::get(client, &format!("{PODS}?limit=1")).await?)?;
        let version = list["metadata"]["resourceVersion"].as_str().context("a list has a version")?.to_owned();
        Ok(JobBindWatch { client: client.clone(), resource_version: version })
    }

    /// When the last pod of each of the Jobs `PREFIX-0`, `PREFIX-1` and so on was bound; `pods` has the number of pods
    /// of each.
    pub async fn wait_for_all(mut self, prefix: String, pods: Vec<usize>) -> anyhow::Result<Vec<Instant>> {
        let index_of = |name: &str| name.strip_prefix(&prefix)?.strip_prefix('-')?.parse::<usize>().ok();
        let mut bound: Vec<BTreeSet<String>> = vec![BTreeSet::new(); pods.len()];
        let mut last: Vec<Option<Instant>> = vec![None; pods.len()];
        loop {
            let query = format!("watch=true&resourceVersion={}&timeoutSeconds=600", self.resource_version);
            let request = http::Request::get(format!("{PODS}?{query}&fieldSelector=spec.nodeName%21%3D"));
            let mut events = std::pin::pin!(self.client.request_events::<WatchedPod>(request.body(Vec::new())?).await?);
            // kube-apiserver ends a watch that falls behind, and the client an idle one. The watch then resumes.
            while let Some(Ok(event)) = events.next().await {
                let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else {
                    if let WatchEvent::Error(status) = event {
                        bail!("the watch of pods ended: {}", status.message);
                    }
                    continue;
                };
                self.resource_version = pod.metadata.resource_version;
                let Some(index) = pod.metadata.labels.get(JOB_NAME_LABEL).and_then(|name| index_of(name)) else {
                    continue;
                };
                if bound[index].insert(pod.metadata.name) && bound[index].len() == pods[index] {
                    last[index] = Some(Instant::now());
                }
                if let Some(all) = last.iter().copied().collect::<Option<Vec<_>>>() {
                    return Ok(all);
                }
            }
        }
    }
}
