//! A small cluster as text: `node a gpu=2 rack=r1; group trainer gang minCount=4 pods=4 gpu=1`.
//!
//! Statements: `node NAME …`, `group NAME gang|basic …`, `composite NAME gang|basic …`, `forget COMPOSITE`, `pods
//! PREFIX COUNT …`, `pod NAME …`, `delete NAME`, `start NAME at=10`, `finish NAME at=20`, `fail NAME`, `drop NODE`. A
//! pod with `node=` is bound, one with `group=` is a member, `created=10` is the second of its creation.
//! `owner=Job:a` is the controller of a pod or group, `index=3` the completion index of a pod, `label=app:cache` a label.
//! `names=a,b` are the nodes it names in its affinity, `nominated=NODE` is its nominated node.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use types::Timestamp;
use types::views::{CompositePodGroupView, NodeView, ObjectKey, PodGroupView, PodView, View};

use crate::{BindOutcome, ClusterChange, Config, Core, Decision, DecisionAction};

/// What the core decides about a cluster in text, one line per decision.
pub(super) fn decide_text(text: &str) -> String {
    TextCluster::of(text).decide()
}

pub(super) struct TextCluster {
    pub(super) core: Core,
    pub(super) now: Timestamp,
    pub(super) pods: BTreeMap<String, Arc<PodView>>,
    pub(super) nodes: BTreeMap<String, Arc<NodeView>>,
    groups: BTreeMap<String, Arc<PodGroupView>>,
    composites: BTreeMap<String, Arc<CompositePodGroupView>>,
    created_count: usize,
    config: Config,
}

impl TextCluster {
    pub(super) fn of(text: &str) -> TextCluster {
        TextCluster::with(Config::default(), text)
    }

    pub(super) fn with(config: Config, text: &str) -> TextCluster {
        let config = Config { max_index_bytes: 2000, ..config };
        let mut world = TextCluster {
            core: Core::new(config.clone()),
            now: Timestamp::UNIX_EPOCH,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            groups: BTreeMap::new(),
            composites: BTreeMap::new(),
            created_count: 0,
            config,
        };
        world.apply(text);
        world
    }

    /// Replaces the core by a new one that observes everything there is, as after a failover.
    pub(super) fn fail_over(&mut self) {
        let nodes = self.nodes.values().map(|node| ClusterChange::Node { old: None, new: Some(Arc::clone(node)) });
        let groups =
            self.groups.values().map(|group| ClusterChange::PodGroup { old: None, new: Some(Arc::clone(group)) });
        let composites = self.composites.values().cloned();
        let composites = composites.map(|new| ClusterChange::CompositePodGroup { old: None, new: Some(new) });
        let pods = self.pods.values().map(|pod| ClusterChange::Pod { old: None, new: Some(Arc::clone(pod)) });
        let mut core = Core::new(self.config.clone());
        nodes.chain(groups).chain(composites).chain(pods).for_each(|change| core.observe(change));
        self.core = core;
    }

    /// Executes the statements, in order.
    pub(super) fn apply(&mut self, text: &str) {
        for statement in text.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            let words: Vec<_> = statement.split_whitespace().collect();
            let options: BTreeMap<_, _> = words[1..].iter().filter_map(|word| word.split_once('=')).collect();
            match words[0] {
                "node" => self.set_node(words[1], &options, words.contains(&"cordoned")),
                "group" => self.set_group(words[1], words[2] == "gang", &options),
                "composite" => self.set_composite(words[1], words[2] == "gang", &options),
                "forget" => self.forget_composite(words[1]),
                "pods" => {
                    (0..words[2].parse().unwrap()).for_each(|n| self.add_pod(&format!("{}-{n}", words[1]), &options))
                }
                "pod" => self.add_pod(words[1], &options),
                "delete" => self.delete(words[1]),
                "finish" => self.change_pod(words[1], |pod| {
                    let end = options.get("at").map(|second| format!("2026-01-01T00:00:{second}Z"));
                    let state = json!({"terminated": {"exitCode": 0, "finishedAt": end}});
                    pod["status"] =
                        json!({"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": state}]});
                }),
                "start" => self.change_pod(words[1], |pod| {
                    let start = format!("2026-01-01T00:00:{}Z", options["at"]);
                    pod["status"] = json!({"phase": "Running", "startTime": start});
                }),
                "fail" => self.settle_failed(words[1]),
                "drop" => {
                    let old = self.nodes.remove(words[1]);
                    self.core.observe(ClusterChange::Node { old, new: None });
                }
                other => panic!("unknown statement {other}"),
            }
        }
    }

    /// All decisions that are due now.
    pub(super) fn decide(&mut self) -> String {
        let mut lines = Vec::new();
        while let Some(decision) = self.core.next(self.now) {
            lines.push(line(&decision));
        }
        lines.join("\n")
    }

    /// Decides, and shows the core every bound pod as the watch would.
    pub(super) fn decide_and_bind(&mut self) -> String {
        let mut lines = Vec::new();
        while let Some(decision) = self.core.next(self.now) {
            lines.push(line(&decision));
            self.bind(&decision);
        }
        lines.join("\n")
    }

    /// Executes a decision.
    pub(super) fn bind(&mut self, decision: &Decision) {
        let DecisionAction::Bind(placements) = &decision.action else { return };
        for placement in placements {
            let (pod, uid) = (placement.pod.clone(), placement.uid.clone());
            self.core.settled(BindOutcome::Bound { pod, uid }, self.now);
            self.change_pod(&placement.pod.name, |pod| pod["spec"]["nodeName"] = json!(placement.node));
        }
    }

    pub(super) fn settle_failed(&mut self, name: &str) {
        let uid = self.pods[name].metadata.uid.clone();
        self.core.settled(BindOutcome::Failed { pod: ObjectKey::new("ns", name), uid }, self.now);
    }

    pub(super) fn delete(&mut self, name: &str) {
        let old = self.pods.remove(name);
        self.core.observe(ClusterChange::Pod { old, new: None });
    }

    pub(super) fn forget_group(&mut self, name: &str) {
        let old = self.groups.remove(name);
        self.core.observe(ClusterChange::PodGroup { old, new: None });
    }

    /// The watch shows the pod bound.
    pub(super) fn show_bound(&mut self, name: &str, node: &str) {
        self.change_pod(name, |pod| pod["spec"]["nodeName"] = json!(node));
    }

    /// Replaces a pod by what `change` makes of it.
    pub(super) fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let old = self.pods.get(name).cloned();
        let mut document = describe(old.as_deref().unwrap());
        change(&mut document);
        self.observe_pod(name, &document);
    }

    pub(super) fn observe_pod(&mut self, name: &str, document: &Value) {
        let new = Arc::new(PodView::decode(document.to_string().as_bytes()).unwrap());
        let old = self.pods.insert(name.to_owned(), Arc::clone(&new));
        self.core.observe(ClusterChange::Pod { old, new: Some(new) });
    }

    pub(super) fn add_pod(&mut self, name: &str, options: &BTreeMap<&str, &str>) {
        self.created_count += 1;
        let mut requests = serde_json::Map::new();
        for (option, resource) in [("gpu", "nvidia.com/gpu"), ("cpu", "cpu"), ("memory", "memory")] {
            options.get(option).map(|amount| requests.insert(resource.to_owned(), json!(amount)));
        }
        let mut spec = json!({"schedulerName": "default-scheduler"});
        let mut container = json!({"name": "main", "resources": {"requests": requests}});
        for (option, value) in options {
            match *option {
                "group" => spec["schedulingGroup"] = json!({"podGroupName": value}),
                "node" => spec["nodeName"] = json!(value),
                "priority" => spec["priority"] = json!(value.parse::<i32>().unwrap()),
                "port" => container["ports"] = json!([{"hostPort": value.parse::<i32>().unwrap()}]),
                "needs" => {
                    for feature in value.split(',') {
                        match feature {
                            "restart" => container["restartPolicyRules"] = json!([{"action": "RestartAllContainers"}]),
                            "mount" => container["volumeMounts"] = json!([{"bindMountOptions": ["noexec"]}]),
                            _ => {}
                        }
                    }
                }
                "gate" => spec["schedulingGates"] = json!([{"name": value}]),
                "scheduler" => spec["schedulerName"] = json!(value),
                "apart" => {
                    let terms = json!([{"topologyKey": value, "labelSelector": {}}]);
                    spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = terms;
                }
                "near" => {
                    let terms = json!([{"topologyKey": value, "labelSelector": {}}]);
                    spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = terms;
                }
                "spread" => spec["topologySpreadConstraints"] = json!([{"whenUnsatisfiable": value}]),
                "volume" => spec["volumes"] = json!([{"name": "data", *value: {}}]),
                "device" => spec["resourceClaims"] = json!([{"name": value}]),
                "tolerates" => spec["tolerations"] = json!([{"key": value, "operator": "Exists"}]),
                "selects" => {
                    let (key, value) = value.split_once(':').unwrap();
                    spec["nodeSelector"] = json!({key: value});
                }
                "names" => spec["affinity"]["nodeAffinity"] = naming(value),
                "prefers" => {
                    let (key, value) = value.split_once(':').unwrap();
                    let term = json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
                    spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                        json!([{"weight": 10, "preference": term}]);
                }
                _ => {}
            }
        }
        spec["containers"] = json!([container]);
        let uid = format!("uid-{}", self.created_count);
        let owners = options.get("owner").map(|owner| owned_by(owner)).unwrap_or_default();
        let mut metadata = json!({"name": name, "namespace": "ns", "uid": uid, "ownerReferences": owners});
        if let Some(index) = options.get("index") {
            metadata["labels"] = json!({"batch.kubernetes.io/job-completion-index": index});
        }
        if let Some((key, value)) = options.get("label").and_then(|label| label.split_once(':')) {
            metadata["labels"][key] = json!(value);
        }
        if let Some(second) = options.get("created") {
            metadata["creationTimestamp"] = json!(format!("2026-01-01T00:00:{second}Z"));
        }
        let status = json!({"phase": "Pending", "nominatedNodeName": options.get("nominated")});
        self.observe_pod(name, &json!({"metadata": metadata, "spec": spec, "status": status}));
    }

    pub(super) fn set_node(&mut self, name: &str, options: &BTreeMap<&str, &str>, cordoned: bool) {
        let amount = |option, default| options.get(option).copied().unwrap_or(default).to_owned();
        let mut labels = serde_json::Map::new();
        let (mut taints, mut features) = (Vec::new(), Vec::new());
        for (option, value) in options {
            match *option {
                "gpu" | "cpu" | "memory" | "pods" => {}
                "declares" => {
                    let full = |feature| match feature {
                        "restart" => Some("RestartAllContainersOnContainerExits"),
                        "mount" => Some("VolumeBindMountOptions"),
                        _ => None,
                    };
                    features.extend(value.split(',').filter_map(full));
                }
                "taint" => {
                    let (key, effect) = value.split_once(':').unwrap();
                    taints.push(json!({"key": key, "effect": effect}));
                }
                label => drop(labels.insert(label.to_owned(), json!(value))),
            }
        }
        let document = json!({
            "metadata": {"name": name, "uid": name, "labels": labels},
            "spec": {"unschedulable": cordoned, "taints": taints},
            "status": {
                "allocatable": {
                    "cpu": amount("cpu", "96"), "memory": amount("memory", "1Ti"), "pods": amount("pods", "110"),
                    "nvidia.com/gpu": amount("gpu", "0"),
                },
                "declaredFeatures": features,
            },
        });
        let new = Arc::new(NodeView::decode(document.to_string().as_bytes()).unwrap());
        let old = self.nodes.insert(name.to_owned(), Arc::clone(&new));
        self.core.observe(ClusterChange::Node { old, new: Some(new) });
    }

    fn set_composite(&mut self, name: &str, gang: bool, options: &BTreeMap<&str, &str>) {
        let policy = if gang { json!({"gang": {"minGroupCount": 2}}) } else { json!({"basic": {}}) };
        let mut spec = json!({"schedulingPolicy": policy, "parentCompositePodGroupName": options.get("parent")});
        if let Some(key) = options.get("key") {
            spec["schedulingConstraints"] = json!({"topology": [{"key": key}]});
        }
        let document = json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec});
        let new = Arc::new(CompositePodGroupView::decode(document.to_string().as_bytes()).unwrap());
        let old = self.composites.insert(name.to_owned(), Arc::clone(&new));
        self.core.observe(ClusterChange::CompositePodGroup { old, new: Some(new) });
    }

    fn forget_composite(&mut self, name: &str) {
        let old = self.composites.remove(name);
        self.core.observe(ClusterChange::CompositePodGroup { old, new: None });
    }

    /// The PodGroup, then its pods, if `pods=` is set.
    pub(super) fn set_group(&mut self, name: &str, gang: bool, options: &BTreeMap<&str, &str>) {
        let number = |option: &str| options.get(option).map(|text| text.parse::<i32>().unwrap());
        let policy = match number("minCount").filter(|_| gang) {
            Some(min_count) => json!({"gang": {"minCount": min_count}}),
            None => json!({"basic": {}}),
        };
        let mut spec = json!({"schedulingPolicy": policy, "priority": number("groupPriority")});
        if let Some(parent) = options.get("parent") {
            spec["parentCompositePodGroupName"] = json!(parent);
        }
        if let Some(key) = options.get("key") {
            spec["schedulingConstraints"] = json!({"topology": [{"key": key}]});
        }
        let mut document = json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec});
        if let Some(placed) = options.get("placed") {
            document["status"]["conditions"] = json!([{"type": "PodGroupInitiallyScheduled", "status": placed}]);
        }
        if let Some(owner) = options.get("owner") {
            document["metadata"]["ownerReferences"] = json!(owned_by(owner));
        }
        if let Some(later) = options.get("later") {
            document["metadata"]["annotations"] = json!({"phalanx.dev/after-min-count": later});
        }
        if let Some(maker) = options.get("maker") {
            document["metadata"]["annotations"] = json!({"phalanx.dev/managed-by": maker});
        }
        if let Some(expected) = options.get("expected") {
            document["metadata"]["annotations"]["phalanx.dev/expected-count"] = json!(expected);
        }
        let new = Arc::new(PodGroupView::decode(document.to_string().as_bytes()).unwrap());
        let old = self.groups.insert(name.to_owned(), Arc::clone(&new));
        self.core.observe(ClusterChange::PodGroup { old, new: Some(new) });
        let mut options = options.clone();
        options.insert("group", name);
        (0..number("pods").unwrap_or(0)).for_each(|n| self.add_pod(&format!("{name}-{n}"), &options));
    }
}

fn describe(pod: &PodView) -> Value {
    let requests = &pod.spec.containers[0].resources.requests;
    let requests: BTreeMap<_, _> = requests.iter().map(|(name, q)| (name, q.to_string())).collect();
    let ports: Vec<_> = pod.spec.containers[0].ports.iter().map(|port| json!({"hostPort": port.host_port})).collect();
    let mut document = json!({
        "metadata": {"name": pod.metadata.name, "namespace": "ns", "uid": pod.metadata.uid},
        "spec": {
            "nodeName": pod.spec.node_name, "schedulerName": pod.spec.scheduler_name, "priority": pod.spec.priority,
            "nodeSelector": pod.spec.node_selector, "tolerations": pod.spec.tolerations,
            "containers": [{"name": "main", "resources": {"requests": requests}, "ports": ports}],
        },
    });
    if let Some(app) = pod.metadata.labels.get("app") {
        document["metadata"]["labels"]["app"] = json!(app);
    }
    if let Some(created) = pod.metadata.creation_timestamp {
        document["metadata"]["creationTimestamp"] = json!(created.to_string());
    }
    if let Some(deleted) = pod.metadata.deletion_timestamp {
        document["metadata"]["deletionTimestamp"] = json!(deleted.to_string());
    }
    if let Some(group) = pod.group_name() {
        document["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    }
    if let Some(owner) = pod.metadata.controller() {
        document["metadata"]["ownerReferences"] = json!(owned_by(&format!("{}:{}", owner.kind, owner.uid)));
    }
    document
}

/// Node affinity for nodes by their names.
fn naming(nodes: &str) -> Value {
    let names: Vec<_> = nodes.split(',').collect();
    let field = json!([{"key": "metadata.name", "operator": "In", "values": names}]);
    let terms = json!({"nodeSelectorTerms": [{"matchFields": field}]});
    json!({"requiredDuringSchedulingIgnoredDuringExecution": terms})
}

/// `Job:a`: kind and uid.
fn owned_by(owner: &str) -> Vec<Value> {
    let (kind, uid) = owner.split_once(':').unwrap();
    vec![json!({"apiVersion": "batch/v1", "kind": kind, "name": uid, "uid": uid, "controller": true})]
}

pub(super) fn line(decision: &Decision) -> String {
    let name = &decision.unit.key().name;
    match &decision.action {
        DecisionAction::Wait(refusal) => format!("{name}: wait ({})", refusal.message()),
        DecisionAction::Release(release) => {
            let pods: Vec<_> = release.pods.iter().map(|member| member.pod.name.as_str()).collect();
            format!("{name}: release {}", pods.join(", "))
        }
        DecisionAction::Bind(placements) => {
            let bound: Vec<_> = placements.iter().map(|one| format!("{} to {}", one.pod.name, one.node)).collect();
            let rest = decision.unplaced.as_ref().map(|rest| format!(" ({})", rest.message())).unwrap_or_default();
            format!("{name}: bind {}{rest}", bound.join(", "))
        }
    }
}
