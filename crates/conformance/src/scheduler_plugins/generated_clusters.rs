//! Clusters that are asked about: nodes of many kinds, pods that run there, and one that waits.

use serde_json::{Map, Value, json};

use super::PluginQuery;
use crate::builder::CaseGenerator;

/// One question. Everything in it is what an API server would take.
pub(super) fn random_query(draw: &CaseGenerator) -> PluginQuery {
    // An image has one size, wherever it lies; kube-scheduler believes the first node that says one.
    let sizes = IMAGES.map(|_| *draw.choose(&[1_000_000_i64, 30_000_000, 500_000_000, 2_000_000_000]));
    let nodes: Vec<Value> = (0..1 + draw.below(10)).map(|number| node(draw, number, &sizes)).collect();
    let running = (0..draw.below(12)).map(|number| {
        let mut pod = pod(draw, &format!("r{number}"));
        pod["spec"]["nodeName"] = json!(format!("n{}", draw.below(nodes.len())));
        pod["status"] = json!({"phase": "Running"});
        if draw.once_in(10) {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        pod
    });
    let pods = running.collect();
    let mut pending = pod(draw, "pending");
    if draw.once_in(12) {
        pending["spec"]["nodeName"] = json!(format!("n{}", draw.below(nodes.len() + 1)));
    }
    if draw.once_in(30) {
        pending["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    }
    PluginQuery { configuration: configuration(draw), nodes, pods, pod: pending }
}

/// One question for a whole control plane: the default profile, and pods that an API server takes as they come.
pub(super) fn random_server_query(draw: &CaseGenerator) -> PluginQuery {
    let mut question = random_query(draw);
    question.configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    });
    for pod in question.pods.iter_mut().chain(std::iter::once(&mut question.pod)) {
        let (metadata, spec) = (&pod["metadata"]["name"], &pod["spec"]);
        let mut spec = spec.clone();
        for field in ["overhead", "schedulingGates"] {
            // An overhead comes from a RuntimeClass, and there are none; gated pods are not decided.
            spec.as_object_mut().map(|spec| spec.remove(field));
        }
        for containers in ["containers", "initContainers"] {
            for container in spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
                limit_devices(container);
            }
        }
        *pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": metadata}, "spec": spec});
    }
    // A pod that names its node is bound, and nothing is decided.
    question.pod["spec"].as_object_mut().map(|spec| spec.remove("nodeName"));
    question
}

/// Devices and huge pages must be limited to what is requested.
fn limit_devices(container: &mut Value) {
    let requests = container["resources"]["requests"].as_object().cloned().unwrap_or_default();
    let devices = requests.into_iter().filter(|(name, _)| name.contains('/') || name.starts_with("hugepages-"));
    let devices: Map<String, Value> = devices.collect();
    if !devices.is_empty() {
        container["resources"]["limits"] = json!(devices);
    }
}

const KEYS: [&str; 4] = ["zone", "disk", "gen", "example.com/kind"];
const VALUES: [&str; 6] = ["a", "b", "1", "5", "12", "x1"];
const EXTENDED_RESOURCES: [&str; 3] = ["example.com/gpu", "example.com/nic", "example.org/fpga"];
const IMAGES: [&str; 5] =
    ["registry.example/train:1", "registry.example/train:2", "busybox", "registry.example:5000/tool", "alpine:latest"];

fn node(draw: &CaseGenerator, number: usize, image_sizes: &[i64]) -> Value {
    let mut allocatable = Map::new();
    let mut has = |resource: &str, amounts: &[&str], often: usize| {
        if !draw.once_in(often) {
            allocatable.insert(resource.to_owned(), json!(draw.choose(amounts)));
        }
    };
    has("cpu", &["1", "3900m", "8", "16", "32", "64"], 30);
    has("memory", &["1Gi", "3500Mi", "8Gi", "16000000000", "64Gi", "1Ti"], 30);
    has("ephemeral-storage", &["1Gi", "10Gi", "100Gi"], 3);
    has("hugepages-2Mi", &["4Mi", "64Mi"], 2);
    for extended in EXTENDED_RESOURCES {
        has(extended, &["0", "1", "8", "64"], 3);
    }
    // Upstream: a node that allows no pods at all may have its pods put out in vain.
    allocatable.insert("pods".to_owned(), json!(draw.choose(&["1", "3", "110", "110", "110", "110"])));
    let mut labels = json!({"kubernetes.io/hostname": format!("n{number}")});
    for key in KEYS {
        if draw.once_in(2) {
            labels[key] = json!(draw.choose(&VALUES));
        }
    }
    let mut node = json!({
        "metadata": {"name": format!("n{number}"), "labels": labels},
        "spec": {},
        "status": {"allocatable": allocatable},
    });
    if draw.once_in(12) {
        node["spec"]["unschedulable"] = json!(true);
    }
    let mut taints: Vec<Value> = Vec::new();
    for key in ["k1", "k2", "soft", "node.kubernetes.io/unschedulable"] {
        if draw.once_in(10) {
            let effect = if key == "soft" { "PreferNoSchedule" } else { effect(draw) };
            taints.push(json!({"key": key, "value": draw.choose(&["", "v1", "v2"]), "effect": effect}));
        }
    }
    node["spec"]["taints"] = json!(taints);
    let images = IMAGES.iter().zip(image_sizes).filter(|_| draw.once_in(3)).map(|(image, size)| {
        let names = if draw.once_in(2) { json!([image]) } else { json!([image, format!("{image}@sha256:1234")]) };
        json!({"names": names, "sizeBytes": size})
    });
    node["status"]["images"] = images.collect();
    node
}

fn effect(draw: &CaseGenerator) -> &'static str {
    ["NoSchedule", "PreferNoSchedule", "NoExecute"][draw.below(3)]
}

fn pod(draw: &CaseGenerator, name: &str) -> Value {
    let containers: Vec<_> = (0..1 + draw.below(3)).map(|number| container(draw, &format!("c{number}"))).collect();
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "restartPolicy": "Always",
        "containers": containers,
    });
    if draw.once_in(4) {
        let init = (0..1 + draw.below(3)).map(|number| {
            let mut container = container(draw, &format!("i{number}"));
            if draw.once_in(2) {
                container["restartPolicy"] = json!("Always");
            } else {
                container["ports"] = json!([]);
            }
            container
        });
        spec["initContainers"] = init.collect();
    }
    if draw.once_in(6) {
        spec["overhead"] = json!({"cpu": "50m", "memory": "40Mi"});
    }
    if draw.once_in(10) {
        spec["resources"] = pod_resources(draw);
    }
    if draw.once_in(12) {
        let key = draw.choose(&KEYS);
        spec["nodeSelector"] = json!({*key: draw.choose(&VALUES)});
    }
    let (required, preferred) = (draw.once_in(6), draw.once_in(3));
    if required {
        let terms: Vec<_> = (0..1 + draw.below(2)).map(|_| term(draw)).collect();
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
    }
    if preferred {
        spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred_terms(draw);
    }
    spec["tolerations"] = (0..draw.below(4)).map(|_| toleration(draw)).collect();
    if draw.once_in(6) {
        spec["volumes"] = json!([
            {"name": "weights", "image": {"reference": draw.choose(&IMAGES), "pullPolicy": "IfNotPresent"}},
            {"name": "scratch", "emptyDir": {}},
        ]);
    }
    json!({"metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "x"}}, "spec": spec})
}

fn container(draw: &CaseGenerator, name: &str) -> Value {
    let mut requests = Map::new();
    let mut asks = |resource: &str, amounts: &[&str], often: usize| {
        if draw.once_in(often) {
            requests.insert(resource.to_owned(), json!(draw.choose(amounts)));
        }
    };
    asks("cpu", &["0", "10m", "100m", "250m", "600m", "1500m"], 2);
    asks("memory", &["0", "1", "64Mi", "200Mi", "500M", "1Gi"], 2);
    asks("ephemeral-storage", &["100Mi", "2Gi"], 12);
    asks("hugepages-2Mi", &["2Mi", "8Mi"], 25);
    for extended in EXTENDED_RESOURCES {
        asks(extended, &["0", "1", "2"], 24);
    }
    let mut container = json!({"name": name, "image": draw.choose(&IMAGES), "resources": {"requests": requests}});
    if draw.once_in(5) {
        let mut port = json!({"containerPort": 80, "protocol": draw.choose(&["TCP", "UDP"])});
        port["hostPort"] = json!(draw.choose(&[80, 81]));
        if draw.once_in(2) {
            port["hostIP"] = json!(draw.choose(&["0.0.0.0", "10.0.0.1", "10.0.0.2", "127.0.0.1"]));
        }
        container["ports"] = json!([port]);
    }
    container
}

/// Requests of the pod as a whole: large enough for what its containers ask for.
fn pod_resources(draw: &CaseGenerator) -> Value {
    match draw.below(3) {
        0 => json!({"requests": {"cpu": "12"}}),
        1 => json!({"requests": {"memory": "6Gi"}}),
        _ => json!({"requests": {"cpu": "9500m", "memory": "5Gi"}}),
    }
}

fn requirement(draw: &CaseGenerator) -> Value {
    let operator = *draw.choose(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    let mut requirement = json!({"key": draw.choose(&KEYS), "operator": operator});
    match operator {
        "In" | "NotIn" => requirement["values"] = (0..1 + draw.below(3)).map(|_| json!(draw.choose(&VALUES))).collect(),
        "Gt" | "Lt" => requirement["values"] = json!([draw.choose(&["0", "4", "5", "40"])]),
        _ => {}
    }
    requirement
}

fn term(draw: &CaseGenerator) -> Value {
    let mut term = json!({});
    let by_name = draw.once_in(4);
    if !by_name || draw.once_in(2) {
        term["matchExpressions"] = (0..1 + draw.below(2)).map(|_| requirement(draw)).collect();
    }
    if by_name {
        let fields = (0..1 + draw.below(2)).map(|_| {
            let operator = draw.choose(&["In", "In", "NotIn"]);
            json!({"key": "metadata.name", "operator": operator, "values": [format!("n{}", draw.below(8))]})
        });
        term["matchFields"] = fields.collect();
    }
    if draw.once_in(20) {
        // Matches nothing.
        term = json!({});
    }
    term
}

fn preferred_terms(draw: &CaseGenerator) -> Value {
    (0..1 + draw.below(3))
        .map(|_| json!({"weight": draw.choose(&[1, 10, 33, 100]), "preference": term(draw)}))
        .collect()
}

fn toleration(draw: &CaseGenerator) -> Value {
    let keys = ["k1", "k2", "soft", "node.kubernetes.io/unschedulable"];
    let mut toleration = match draw.below(6) {
        0 => json!({"operator": "Exists"}),
        1 => json!({"key": draw.choose(&keys), "value": draw.choose(&["v1", "v2"])}),
        2 => json!({"key": draw.choose(&keys), "operator": "Equal", "value": draw.choose(&["", "v1"])}),
        _ => json!({"key": draw.choose(&keys), "operator": "Exists"}),
    };
    if draw.once_in(2) {
        toleration["effect"] = json!(effect(draw));
    }
    toleration
}

/// Mostly the default; else a profile with arguments, weights or fewer plugins.
fn configuration(draw: &CaseGenerator) -> Value {
    let mut profile = json!({"schedulerName": "default-scheduler"});
    if draw.once_in(2) {
        profile["pluginConfig"] = arguments(draw);
    }
    if draw.once_in(3) {
        profile["plugins"] = plugins(draw);
    }
    let mut profiles = vec![profile];
    if draw.once_in(8) {
        profiles.insert(draw.below(2), json!({"schedulerName": "another"}));
    }
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    })
}

fn arguments(draw: &CaseGenerator) -> Value {
    let mut all = Vec::new();
    if draw.once_in(2) {
        let mut args = json!({"scoringStrategy": strategy(draw)});
        if draw.once_in(3) {
            args["ignoredResources"] = json!([draw.choose(&EXTENDED_RESOURCES)]);
        }
        if draw.once_in(3) {
            args["ignoredResourceGroups"] = json!([draw.choose(&["example.com", "example.org"])]);
        }
        all.push(json!({"name": "NodeResourcesFit", "args": args}));
    }
    if draw.once_in(3) {
        all.push(json!({"name": "NodeResourcesBalancedAllocation", "args": {"resources": resources(draw, &[1])}}));
    }
    if draw.once_in(3) {
        let mut added = json!({});
        if draw.once_in(2) {
            added["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": [added_term(draw)]});
        } else {
            added["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"weight": draw.choose(&[1, 50]), "preference": added_term(draw)}]);
        }
        all.push(json!({"name": "NodeAffinity", "args": {"addedAffinity": added}}));
    }
    json!(all)
}

fn added_term(draw: &CaseGenerator) -> Value {
    json!({"matchExpressions": [requirement(draw)]})
}

fn strategy(draw: &CaseGenerator) -> Value {
    let mut strategy = json!({"resources": resources(draw, &[1, 2, 5])});
    let kind = *draw.choose(&["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]);
    strategy["type"] = json!(kind);
    if kind == "RequestedToCapacityRatio" {
        let shapes = [
            json!([{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]),
            json!([{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]),
            json!([{"utilization": 20, "score": 3}, {"utilization": 45, "score": 9}, {"utilization": 90, "score": 0}]),
            json!([{"utilization": 50, "score": 7}]),
        ];
        strategy["requestedToCapacityRatio"] = json!({"shape": draw.choose(&shapes)});
    }
    strategy
}

fn resources(draw: &CaseGenerator, weights: &[i64]) -> Value {
    let names = ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "example.com/nic", "hugepages-2Mi"];
    let mut chosen: Vec<_> = names.iter().filter(|_| draw.once_in(2)).collect();
    if chosen.is_empty() {
        chosen.push(&"cpu");
    }
    chosen.into_iter().map(|name| json!({"name": name, "weight": draw.choose(weights)})).collect()
}

fn plugins(draw: &CaseGenerator) -> Value {
    // Upstream: NodeName and NodeAffinity go on to narrow the nodes from preFilter when their filter alone is off.
    const FILTERS: [&str; 4] = ["NodeUnschedulable", "TaintToleration", "NodePorts", "NodeResourcesFit"];
    const SCORES: [&str; 5] =
        ["TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality"];
    let named = |names: &[&str]| json!([{"name": draw.choose(names)}]);
    match draw.below(7) {
        0 => json!({"score": {"disabled": named(&SCORES)}}),
        1 => json!({"score": {"enabled": [{"name": draw.choose(&SCORES), "weight": 1 + draw.below(9)}]}}),
        2 => json!({"filter": {"disabled": named(&FILTERS)}}),
        3 => json!({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": draw.choose(&SCORES), "weight": 4}]}}),
        4 => {
            json!({"multiPoint": {"disabled": named(&["NodeName", "NodeAffinity", "NodePorts", "ImageLocality", "TaintToleration"])}})
        }
        5 => json!({"multiPoint": {"enabled": [{"name": draw.choose(&SCORES), "weight": 1 + draw.below(9)}]}}),
        _ => json!({"multiPoint": {"enabled": named(&SCORES)}}),
    }
}
