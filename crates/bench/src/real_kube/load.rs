//! Creates and deletes nodes, groups and pods with 64 workers, and watches binds.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::core::WatchEvent;
use runtime::request::{self, PatchKind};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::scheduling_cases::{CasePolicy, NAMESPACE, RACK, SchedulingCase, rack};

/// Concurrent requests.
const WORKERS: usize = 64;
/// A case that takes longer has stopped making progress.
const TIMEOUT_SECONDS: u64 = 1_200;

const PODS: &str = "/api/v1/namespaces/bench/pods";
const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/bench/podgroups";

/// The creation of the objects of a case.
pub struct CreationTime {
    /// How long it took.
    pub seconds: f64,
}

/// Runs requests, 64 at a time; the first error ends it.
pub async fn for_each_concurrent<T, F>(items: impl IntoIterator<Item = T>, work: impl Fn(T) -> F) -> anyhow::Result<()>
where
    F: Future<Output = Result<(), kube::Error>>,
{
    stream::iter(items).map(work).buffer_unordered(WORKERS).try_collect::<()>().await.context("creating the load")
}

/// The nodes of upstream's benchmark, with racks.
pub async fn create_nodes(client: &Client, count: usize) -> anyhow::Result<()> {
    for_each_concurrent(0..count, |index| async move {
        let name = format!("node-{index:05}");
        let size = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
        let rack = rack(index);
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": rack.replace("rack", "zone"), RACK: rack,
            }},
            "status": {
                "capacity": size, "allocatable": size,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Made", "message": "no kubelet"}],
            },
        });
        request::post(client, "/api/v1/nodes", &node).await.map(drop)
    })
    .await
}

/// Creates the groups and then the pods of a case.
pub async fn create_objects(client: &Client, case: &SchedulingCase) -> anyhow::Result<CreationTime> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    match request::post(client, "/api/v1/namespaces", &namespace).await {
        Err(error) if !runtime::is_already_exists(&error) => return Err(error).context("creating the namespace"),
        _ => {}
    }
    let started = Instant::now();
    if case.policy != CasePolicy::Single {
        for_each_concurrent(0..case.groups, |group| async move {
            request::post(client, GROUPS, &pod_group(case, group)).await.map(drop)
        })
        .await?;
    }
    for_each_concurrent(0..case.pods(), |number| async move {
        let (group, index) = (number / case.pods_per_group, number % case.pods_per_group);
        request::post(client, PODS, &pod(case, group, index)).await.map(drop)
    })
    .await?;
    Ok(CreationTime { seconds: started.elapsed().as_secs_f64() })
}

/// Removes the objects of the case.
pub async fn delete_objects(client: &Client, case: &SchedulingCase) -> anyhow::Result<()> {
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let now = &now;
    for_each_concurrent(0..case.pods(), |number| async move {
        let (group, index) = (number / case.pods_per_group, number % case.pods_per_group);
        let path = format!("{PODS}/{}", SchedulingCase::pod_name(group, index));
        request::delete(client, &path, now).await.map(drop)
    })
    .await?;
    if case.policy == CasePolicy::Single {
        return Ok(());
    }
    for_each_concurrent(0..case.groups, |group| async move {
        let path = format!("{GROUPS}/{}", SchedulingCase::group_name(group));
        // There is no controller that would remove the protection finalizer.
        request::patch(client, &path, PatchKind::Merge, &json!({"metadata": {"finalizers": null}})).await?;
        request::delete(client, &path, now).await.map(drop)
    })
    .await
}

/// Binds every pod of a case, to the nodes in turn.
pub async fn bind_all(client: &Client, case: &SchedulingCase) -> anyhow::Result<()> {
    for_each_concurrent(0..case.pods(), |number| async move {
        let name = SchedulingCase::pod_name(number / case.pods_per_group, number % case.pods_per_group);
        let node = format!("node-{:05}", number % case.nodes);
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": NAMESPACE},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        request::post(client, &format!("{PODS}/{name}/binding"), &binding).await.map(drop)
    })
    .await
}

fn pod_group(case: &SchedulingCase, group: usize) -> Value {
    let policy = match case.policy {
        CasePolicy::Gang | CasePolicy::GangInRack => json!({"gang": {"minCount": case.pods_per_group}}),
        CasePolicy::Basic | CasePolicy::Single => json!({"basic": {}}),
    };
    let mut spec = json!({"schedulingPolicy": policy});
    if case.policy == CasePolicy::GangInRack {
        spec["schedulingConstraints"] = json!({"topology": [{"key": RACK}]});
    }
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": SchedulingCase::group_name(group), "namespace": NAMESPACE}, "spec": spec,
    })
}

/// The pod template of a case's n-th pod.
pub fn pod_spec(case: &SchedulingCase, number: usize) -> Value {
    let requests = json!({"cpu": format!("{}m", case.milli_cpu(number)), "memory": "100Mi"});
    json!({"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}]})
}

fn pod(case: &SchedulingCase, group: usize, index: usize) -> Value {
    let mut spec = pod_spec(case, group * case.pods_per_group + index);
    if case.policy != CasePolicy::Single {
        spec["schedulingGroup"] = json!({"podGroupName": SchedulingCase::group_name(group)});
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": SchedulingCase::pod_name(group, index), "namespace": NAMESPACE}, "spec": spec,
    })
}

/// When binds were watched.
#[derive(Clone, Copy, Debug)]
pub struct BindTimes {
    pub first: Instant,
    pub half: Instant,
    pub last: Instant,
}

/// A watch of pods from a revision on.
pub struct BindWatch {
    client: Client,
    resource_version: String,
    path: &'static str,
}

#[derive(Clone, Deserialize)]
struct WatchedPod {
    metadata: WatchedPodMeta,
    #[serde(default)]
    spec: WatchedPodSpec,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchedPodMeta {
    name: String,
    resource_version: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WatchedPodSpec {
    node_name: String,
}

impl BindWatch {
    /// Binds after this call.
    pub async fn from_now(client: &Client) -> anyhow::Result<BindWatch> {
        BindWatch::in_collection(client, PODS).await
    }

    /// Binds of the pods in another collection.
    pub async fn in_collection(client: &Client, path: &'static str) -> anyhow::Result<BindWatch> {
        let list: Value = serde_json::from_slice(&request::get(client, &format!("{path}?limit=1")).await?)?;
        let version = list["metadata"]["resourceVersion"].as_str().context("a list has a version")?.to_owned();
        Ok(BindWatch { client: client.clone(), resource_version: version, path })
    }

    /// Resolves when this many pods have a node.
    pub async fn wait_for(self, count: usize) -> anyhow::Result<BindTimes> {
        match tokio::time::timeout(Duration::from_secs(TIMEOUT_SECONDS), self.watch(count)).await {
            Ok(last) => last,
            Err(_) => bail!("not all {count} pods were bound within {TIMEOUT_SECONDS} s"),
        }
    }

    /// kube-apiserver ends a watch that falls behind, and the client an idle one. The watch then resumes.
    async fn watch(mut self, count: usize) -> anyhow::Result<BindTimes> {
        let (mut bound, mut first, mut half) = (BTreeSet::new(), None, None);
        loop {
            let (path, version) = (self.path, &self.resource_version);
            // Only pods with a node: the first event of each pod is its bind.
            let query = format!("watch=true&resourceVersion={version}&timeoutSeconds={TIMEOUT_SECONDS}");
            let request = http::Request::get(format!("{path}?{query}&fieldSelector=spec.nodeName%21%3D"));
            let mut events = std::pin::pin!(self.client.request_events::<WatchedPod>(request.body(Vec::new())?).await?);
            while let Some(Ok(event)) = events.next().await {
                match event {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) if !pod.spec.node_name.is_empty() => {
                        self.resource_version = pod.metadata.resource_version;
                        bound.insert(pod.metadata.name);
                        let now = Instant::now();
                        let first = *first.get_or_insert(now);
                        if 2 * bound.len() >= count {
                            half.get_or_insert(now);
                        }
                        if bound.len() == count {
                            return Ok(BindTimes { first, half: half.unwrap_or(now), last: now });
                        }
                    }
                    WatchEvent::Error(status) => bail!("the watch of pods ended: {}", status.message),
                    _ => {}
                }
            }
        }
    }
}
