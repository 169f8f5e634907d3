//! Generated clusters: nodes of many kinds, pods that run there, and one pending pod.

use serde_json::{Map, Value, json};

use super::{PluginQuery, all_plugins};
use crate::builder::CaseGenerator;

/// A random query. An API server would accept everything in it.
pub(super) fn random_query(generator: &CaseGenerator) -> PluginQuery {
    // An image has the same size on every node: kube-scheduler uses the size of the first node that has one.
    let sizes = IMAGES.map(|_| *generator.choose(&[1_000_000_i64, 30_000_000, 500_000_000, 2_000_000_000]));
    let nodes: Vec<Value> = (0..1 + generator.below(10)).map(|number| node(generator, number, &sizes)).collect();
    let running = (0..generator.below(12)).map(|number| {
        let mut pod = pod(generator, &format!("r{number}"));
        pod["spec"]["nodeName"] = json!(format!("n{}", generator.below(nodes.len())));
        pod["status"] = json!({"phase": "Running"});
        if generator.once_in(10) {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        pod
    });
    let pods = running.collect();
    let mut pending = pod(generator, "pending");
    if generator.once_in(12) {
        pending["spec"]["nodeName"] = json!(format!("n{}", generator.below(nodes.len() + 1)));
    }
    if generator.once_in(30) {
        pending["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    }
    PluginQuery { plugins: all_plugins(), configuration: configuration(generator), nodes, pods, pod: pending }
}

/// A random query for a whole control plane: the default profile, and pods that an API server accepts as they are.
pub(super) fn random_server_query(generator: &CaseGenerator) -> PluginQuery {
    let mut query = random_query(generator);
    query.configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    });
    for pod in query.pods.iter_mut().chain(std::iter::once(&mut query.pod)) {
        let (metadata, spec) = (&pod["metadata"]["name"], &pod["spec"]);
        let mut spec = spec.clone();
        for field in ["overhead", "schedulingGates", "hostNetwork", "hostUsers", "ephemeralContainers"] {
            // An overhead needs a RuntimeClass, and there are none. Gated pods are not scheduled. A server without
            // their feature gates refuses the others.
            spec.as_object_mut().map(|spec| spec.remove(field));
        }
        for containers in ["containers", "initContainers"] {
            for container in spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten() {
                limit_devices(container);
                container.as_object_mut().map(|container| container.remove("volumeMounts"));
            }
        }
        *pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": metadata}, "spec": spec});
    }
    // A pod with a node name is already bound, and there is nothing to decide.
    query.pod["spec"].as_object_mut().map(|spec| spec.remove("nodeName"));
    query
}

/// Devices and huge pages must have limits equal to their requests.
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

/// Features that kubelets declare, sorted. Pending pods require all but the first.
const FEATURES: [&str; 4] = [
    "InPlacePodLevelResourcesVerticalScaling",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
];

fn node(generator: &CaseGenerator, number: usize, image_sizes: &[i64]) -> Value {
    let mut allocatable = Map::new();
    let mut has = |resource: &str, amounts: &[&str], often: usize| {
        if !generator.once_in(often) {
            allocatable.insert(resource.to_owned(), json!(generator.choose(amounts)));
        }
    };
    has("cpu", &["1", "3900m", "8", "16", "32", "64"], 30);
    has("memory", &["1Gi", "3500Mi", "8Gi", "16000000000", "64Gi", "1Ti"], 30);
    has("ephemeral-storage", &["1Gi", "10Gi", "100Gi"], 3);
    has("hugepages-2Mi", &["4Mi", "64Mi"], 2);
    for extended in EXTENDED_RESOURCES {
        has(extended, &["0", "1", "8", "64"], 3);
    }
    // Upstream: a node that allows no pods may have its pods preempted in vain.
    allocatable.insert("pods".to_owned(), json!(generator.choose(&["1", "3", "110", "110", "110", "110"])));
    let mut labels = json!({"kubernetes.io/hostname": format!("n{number}")});
    for key in KEYS {
        if generator.once_in(2) {
            labels[key] = json!(generator.choose(&VALUES));
        }
    }
    let mut node = json!({
        "metadata": {"name": format!("n{number}"), "labels": labels},
        "spec": {},
        "status": {"allocatable": allocatable},
    });
    if generator.once_in(12) {
        node["spec"]["unschedulable"] = json!(true);
    }
    let mut taints: Vec<Value> = Vec::new();
    for key in ["k1", "k2", "soft", "node.kubernetes.io/unschedulable"] {
        if generator.once_in(10) {
            let effect = if key == "soft" { "PreferNoSchedule" } else { effect(generator) };
            taints.push(json!({"key": key, "value": generator.choose(&["", "v1", "v2"]), "effect": effect}));
        }
    }
    node["spec"]["taints"] = json!(taints);
    let images = IMAGES.iter().zip(image_sizes).filter(|_| generator.once_in(3)).map(|(image, size)| {
        let names = if generator.once_in(2) { json!([image]) } else { json!([image, format!("{image}@sha256:1234")]) };
        json!({"names": names, "sizeBytes": size})
    });
    node["status"]["images"] = images.collect();
    node["status"]["declaredFeatures"] =
        FEATURES.iter().filter(|_| !generator.once_in(3)).map(|name| json!(name)).collect();
    node
}

fn effect(generator: &CaseGenerator) -> &'static str {
    ["NoSchedule", "PreferNoSchedule", "NoExecute"][generator.below(3)]
}

fn pod(generator: &CaseGenerator, name: &str) -> Value {
    let containers: Vec<_> =
        (0..1 + generator.below(3)).map(|number| container(generator, &format!("c{number}"))).collect();
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "restartPolicy": "Always",
        "containers": containers,
    });
    if generator.once_in(4) {
        let init = (0..1 + generator.below(3)).map(|number| {
            let mut container = container(generator, &format!("i{number}"));
            if generator.once_in(2) {
                container["restartPolicy"] = json!("Always");
                container.as_object_mut().map(|container| container.remove("restartPolicyRules"));
            } else {
                container["ports"] = json!([]);
            }
            container
        });
        spec["initContainers"] = init.collect();
    }
    if generator.once_in(6) {
        spec["hostNetwork"] = json!(generator.once_in(2));
        spec["hostUsers"] = json!(generator.once_in(2));
    }
    if generator.once_in(15) {
        spec["ephemeralContainers"] = json!([{"name": "debug", "image": "busybox", "volumeMounts": mounts(generator)}]);
    }
    if generator.once_in(6) {
        spec["overhead"] = json!({"cpu": "50m", "memory": "40Mi"});
    }
    if generator.once_in(10) {
        spec["resources"] = pod_resources(generator);
    }
    if generator.once_in(12) {
        let key = generator.choose(&KEYS);
        spec["nodeSelector"] = json!({*key: generator.choose(&VALUES)});
    }
    let (required, preferred) = (generator.once_in(6), generator.once_in(3));
    if required {
        let terms: Vec<_> = (0..1 + generator.below(2)).map(|_| term(generator)).collect();
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
    }
    if preferred {
        spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            preferred_terms(generator);
    }
    spec["tolerations"] = (0..generator.below(4)).map(|_| toleration(generator)).collect();
    if generator.once_in(6) {
        spec["volumes"] = json!([
            {"name": "weights", "image": {"reference": generator.choose(&IMAGES), "pullPolicy": "IfNotPresent"}},
            {"name": "scratch", "emptyDir": {}},
        ]);
    }
    json!({"metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "x"}}, "spec": spec})
}

fn container(generator: &CaseGenerator, name: &str) -> Value {
    let mut requests = Map::new();
    let mut requests_resource = |resource: &str, amounts: &[&str], often: usize| {
        if generator.once_in(often) {
            requests.insert(resource.to_owned(), json!(generator.choose(amounts)));
        }
    };
    requests_resource("cpu", &["0", "10m", "100m", "250m", "600m", "1500m"], 2);
    requests_resource("memory", &["0", "1", "64Mi", "200Mi", "500M", "1Gi"], 2);
    requests_resource("ephemeral-storage", &["100Mi", "2Gi"], 12);
    requests_resource("hugepages-2Mi", &["2Mi", "8Mi"], 25);
    for extended in EXTENDED_RESOURCES {
        requests_resource(extended, &["0", "1", "2"], 24);
    }
    let mut container = json!({"name": name, "image": generator.choose(&IMAGES), "resources": {"requests": requests}});
    if generator.once_in(5) {
        let mut port = json!({"containerPort": 80, "protocol": generator.choose(&["TCP", "UDP"])});
        port["hostPort"] = json!(generator.choose(&[80, 81]));
        if generator.once_in(2) {
            port["hostIP"] = json!(generator.choose(&["0.0.0.0", "10.0.0.1", "10.0.0.2", "127.0.0.1"]));
        }
        container["ports"] = json!([port]);
    }
    if generator.once_in(12) {
        let action = generator.choose(&["Restart", "RestartAllContainers"]);
        container["restartPolicy"] = json!("Never");
        container["restartPolicyRules"] =
            json!([{"action": action, "exitCodes": {"operator": "In", "values": [generator.choose(&[3, 42])]}}]);
    }
    if generator.once_in(12) {
        container["volumeMounts"] = mounts(generator);
    }
    container
}

fn mounts(generator: &CaseGenerator) -> Value {
    let options = generator.choose(&[json!([]), json!(["noexec"]), json!(["noexec", "nosuid"])]).clone();
    json!([{"name": "scratch", "mountPath": "/scratch", "bindMountOptions": options}])
}

/// Requests of the pod as a whole, large enough for those of its containers.
fn pod_resources(generator: &CaseGenerator) -> Value {
    match generator.below(3) {
        0 => json!({"requests": {"cpu": "12"}}),
        1 => json!({"requests": {"memory": "6Gi"}}),
        _ => json!({"requests": {"cpu": "9500m", "memory": "5Gi"}}),
    }
}

fn requirement(generator: &CaseGenerator) -> Value {
    let operator = *generator.choose(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    let mut requirement = json!({"key": generator.choose(&KEYS), "operator": operator});
    match operator {
        "In" | "NotIn" => {
            requirement["values"] = (0..1 + generator.below(3)).map(|_| json!(generator.choose(&VALUES))).collect()
        }
        "Gt" | "Lt" => requirement["values"] = json!([generator.choose(&["0", "4", "5", "40"])]),
        _ => {}
    }
    requirement
}

fn term(generator: &CaseGenerator) -> Value {
    let mut term = json!({});
    let by_name = generator.once_in(4);
    if !by_name || generator.once_in(2) {
        term["matchExpressions"] = (0..1 + generator.below(2)).map(|_| requirement(generator)).collect();
    }
    if by_name {
        let fields = (0..1 + generator.below(2)).map(|_| {
            let operator = generator.choose(&["In", "In", "NotIn"]);
            json!({"key": "metadata.name", "operator": operator, "values": [format!("n{}", generator.below(8))]})
        });
        term["matchFields"] = fields.collect();
    }
    if generator.once_in(20) {
        // Matches nothing.
        term = json!({});
    }
    term
}

fn preferred_terms(generator: &CaseGenerator) -> Value {
    (0..1 + generator.below(3))
        .map(|_| json!({"weight": generator.choose(&[1, 10, 33, 100]), "preference": term(generator)}))
        .collect()
}

fn toleration(generator: &CaseGenerator) -> Value {
    let keys = ["k1", "k2", "soft", "node.kubernetes.io/unschedulable"];
    let mut toleration = match generator.below(6) {
        0 => json!({"operator": "Exists"}),
        1 => json!({"key": generator.choose(&keys), "value": generator.choose(&["v1", "v2"])}),
        2 => json!({"key": generator.choose(&keys), "operator": "Equal", "value": generator.choose(&["", "v1"])}),
        _ => json!({"key": generator.choose(&keys), "operator": "Exists"}),
    };
    if generator.once_in(2) {
        toleration["effect"] = json!(effect(generator));
    }
    toleration
}

/// Mostly the default; otherwise a profile with arguments, weights or fewer plugins.
fn configuration(generator: &CaseGenerator) -> Value {
    let mut profile = json!({"schedulerName": "default-scheduler"});
    if generator.once_in(2) {
        profile["pluginConfig"] = arguments(generator);
    }
    if generator.once_in(3) {
        profile["plugins"] = plugins(generator);
    }
    let mut profiles = vec![profile];
    if generator.once_in(8) {
        profiles.insert(generator.below(2), json!({"schedulerName": "another"}));
    }
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    })
}

fn arguments(generator: &CaseGenerator) -> Value {
    let mut all = Vec::new();
    if generator.once_in(2) {
        let mut args = json!({"scoringStrategy": strategy(generator)});
        if generator.once_in(3) {
            args["ignoredResources"] = json!([generator.choose(&EXTENDED_RESOURCES)]);
        }
        if generator.once_in(3) {
            args["ignoredResourceGroups"] = json!([generator.choose(&["example.com", "example.org"])]);
        }
        all.push(json!({"name": "NodeResourcesFit", "args": args}));
    }
    if generator.once_in(3) {
        all.push(json!({"name": "NodeResourcesBalancedAllocation", "args": {"resources": resources(generator, &[1])}}));
    }
    if generator.once_in(3) {
        let mut added = json!({});
        if generator.once_in(2) {
            added["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": [added_term(generator)]});
        } else {
            added["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"weight": generator.choose(&[1, 50]), "preference": added_term(generator)}]);
        }
        all.push(json!({"name": "NodeAffinity", "args": {"addedAffinity": added}}));
    }
    json!(all)
}

fn added_term(generator: &CaseGenerator) -> Value {
    json!({"matchExpressions": [requirement(generator)]})
}

fn strategy(generator: &CaseGenerator) -> Value {
    let mut strategy = json!({"resources": resources(generator, &[1, 2, 5])});
    let kind = *generator.choose(&["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]);
    strategy["type"] = json!(kind);
    if kind == "RequestedToCapacityRatio" {
        let shapes = [
            json!([{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]),
            json!([{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]),
            json!([{"utilization": 20, "score": 3}, {"utilization": 45, "score": 9}, {"utilization": 90, "score": 0}]),
            json!([{"utilization": 50, "score": 7}]),
        ];
        strategy["requestedToCapacityRatio"] = json!({"shape": generator.choose(&shapes)});
    }
    strategy
}

fn resources(generator: &CaseGenerator, weights: &[i64]) -> Value {
    let names = ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "example.com/nic", "hugepages-2Mi"];
    let mut chosen: Vec<_> = names.iter().filter(|_| generator.once_in(2)).collect();
    if chosen.is_empty() {
        chosen.push(&"cpu");
    }
    chosen.into_iter().map(|name| json!({"name": name, "weight": generator.choose(weights)})).collect()
}

fn plugins(generator: &CaseGenerator) -> Value {
    // Upstream: NodeName and NodeAffinity still restrict the nodes in preFilter when only their filter is disabled.
    const FILTERS: [&str; 4] = ["NodeUnschedulable", "TaintToleration", "NodePorts", "NodeResourcesFit"];
    const SCORES: [&str; 5] =
        ["TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality"];
    let named = |names: &[&str]| json!([{"name": generator.choose(names)}]);
    match generator.below(7) {
        0 => json!({"score": {"disabled": named(&SCORES)}}),
        1 => json!({"score": {"enabled": [{"name": generator.choose(&SCORES), "weight": 1 + generator.below(9)}]}}),
        2 => json!({"filter": {"disabled": named(&FILTERS)}}),
        3 => {
            json!({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": generator.choose(&SCORES), "weight": 4}]}})
        }
        4 => {
            json!({"multiPoint": {"disabled": named(&["NodeName", "NodeAffinity", "NodePorts", "ImageLocality", "TaintToleration"])}})
        }
        5 => {
            json!({"multiPoint": {"enabled": [{"name": generator.choose(&SCORES), "weight": 1 + generator.below(9)}]}})
        }
        _ => json!({"multiPoint": {"enabled": named(&SCORES)}}),
    }
}
