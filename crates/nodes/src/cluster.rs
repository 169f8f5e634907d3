//! The cluster file: nodes with their capacity, labels, taints and topology.

mod validation;

use std::collections::BTreeMap;

use api::Timestamp;
use api::field::ErrorList;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer};

use crate::address;

/// `apiVersion` of a cluster file.
pub const API_VERSION: &str = "phalanx.dev/v1alpha1";
/// `kind` of a cluster file.
pub const KIND: &str = "Cluster";
/// The label of simulated nodes. Our kubelets run the pods that are bound to them.
pub const SIMULATED_LABEL: &str = "phalanx.dev/simulated";

const HOSTNAME: &str = "kubernetes.io/hostname";
const RACK: &str = "topology.kubernetes.io/rack";
const ZONE: &str = "topology.kubernetes.io/zone";
/// The kubelet's default limit of pods.
const PODS_DEFAULT: &str = "110";

/// The nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Sets of equal nodes, in the order of the file.
    pub nodes: Vec<NodeSet>,
}

/// A set of equal nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSet {
    /// Number of nodes.
    #[serde(default = "one")]
    pub count: u32,
    /// Prefix of the names. Numbers follow, from 0; sets with the same prefix share the numbering.
    #[serde(default = "name_prefix_default")]
    pub name_prefix: String,
    /// Capacity of each node. A set without it has the default capacity; one without `pods` gets 110, because no pod fits
    /// on a node without that resource.
    #[serde(default = "capacity_default", deserialize_with = "capacity")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Labels of each node.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints of each node.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Topology labels of each node.
    #[serde(default)]
    pub topology: Vec<Topology>,
}

/// A label whose value consecutive nodes share.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Topology {
    /// Label key.
    pub key: String,
    /// How many consecutive nodes of the whole file share a value.
    pub nodes: u32,
    /// Prefix of the values, before a number. Default: the key's last segment and a dash, `rack-3`.
    #[serde(default)]
    pub prefix: Option<String>,
}

impl Cluster {
    /// Reads a cluster file. Every error names its field.
    pub fn from_document(document: &serde_json::Value) -> Result<Cluster, ErrorList> {
        validation::read(document)
    }

    /// The default cluster with `count` nodes: racks of 8, zones of 64.
    pub fn default_of(count: u32) -> Cluster {
        let topology = |key: &str, nodes| Topology { key: key.to_owned(), nodes, prefix: None };
        Cluster {
            nodes: vec![NodeSet {
                count,
                name_prefix: name_prefix_default(),
                capacity: capacity_default(),
                labels: BTreeMap::new(),
                taints: Vec::new(),
                topology: vec![topology(ZONE, 64), topology(RACK, 8)],
            }],
        }
    }

    /// The Node objects, ready since `now`, in the order of the file.
    pub fn nodes(&self, now: Timestamp) -> Vec<Node> {
        self.named_nodes().enumerate().map(|(index, (set, name))| set.node(index, name, now)).collect()
    }

    /// Every node's set and name.
    fn named_nodes(&self) -> impl Iterator<Item = (&NodeSet, String)> {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        self.nodes.iter().flat_map(|set| std::iter::repeat_n(set, set.count as usize)).map(move |set| {
            let number = numbers.entry(&set.name_prefix).or_insert(0);
            let name = format!("{}{number}", set.name_prefix);
            *number += 1;
            (set, name)
        })
    }
}

/// What the kubelet of 1.37 declares with its default gates, of the features that a pending pod can require. The
/// scheduler's filter NodeDeclaredFeatures reads it.
const DECLARED_FEATURES: [&str; 1] = ["RestartAllContainersOnContainerExits"];

impl NodeSet {
    fn node(&self, index: usize, name: String, now: Timestamp) -> Node {
        let mut labels = self.labels.clone();
        labels.extend(self.topology.iter().map(|topology| (topology.key.clone(), topology.value(index))));
        for (key, value) in [("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")] {
            labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
        labels.insert(HOSTNAME.to_owned(), name.clone());
        labels.insert(SIMULATED_LABEL.to_owned(), "true".to_owned());
        let status = NodeStatus {
            addresses: Some(vec![
                node_address("InternalIP", address::of_node(&name).to_string()),
                node_address("Hostname", name.clone()),
            ]),
            allocatable: Some(self.capacity.clone()),
            capacity: Some(self.capacity.clone()),
            conditions: Some(conditions(now)),
            declared_features: Some(DECLARED_FEATURES.map(str::to_owned).to_vec()),
            node_info: Some(NodeSystemInfo {
                architecture: "amd64".to_owned(),
                kubelet_version: "v1.37.1-simulated".to_owned(),
                operating_system: "linux".to_owned(),
                os_image: "simulated".to_owned(),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        };
        Node {
            metadata: ObjectMeta { name: Some(name), labels: Some(labels), ..ObjectMeta::default() },
            spec: Some(NodeSpec {
                taints: Some(self.taints.clone()).filter(|taints| !taints.is_empty()),
                ..NodeSpec::default()
            }),
            status: Some(status),
        }
    }
}

impl Topology {
    /// The label value of the node at `index` of the whole file.
    fn value(&self, index: usize) -> String {
        let domain = index / self.nodes.max(1) as usize;
        match &self.prefix {
            Some(prefix) => format!("{prefix}{domain}"),
            None => format!("{}-{domain}", self.key.rsplit('/').next().unwrap_or_default()),
        }
    }
}

fn node_address(kind: &str, address: String) -> NodeAddress {
    NodeAddress { address, type_: kind.to_owned() }
}

fn conditions(now: Timestamp) -> Vec<NodeCondition> {
    // Times on the wire have whole seconds.
    let time = Timestamp::from_second(now.as_second()).ok().map(Time);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: time.clone(),
        last_transition_time: time.clone(),
    };
    vec![
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
}

fn one() -> u32 {
    1
}

fn name_prefix_default() -> String {
    "node-".to_owned()
}

fn capacity_default() -> BTreeMap<String, Quantity> {
    [("cpu", "96"), ("memory", "1Ti"), ("nvidia.com/gpu", "8"), ("pods", PODS_DEFAULT)]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .into()
}

/// Quantities as strings or numbers, `"8"` or `8`.
fn capacity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Quantity>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a quantity is a string or a number")]
    enum Amount {
        Text(String),
        Number(serde_json::Number),
    }
    let amounts = BTreeMap::<String, Amount>::deserialize(deserializer)?;
    let mut capacity: BTreeMap<String, Quantity> = amounts
        .into_iter()
        .map(|(name, amount)| match amount {
            Amount::Text(text) => (name, Quantity(text)),
            Amount::Number(number) => (name, Quantity(number.to_string())),
        })
        .collect();
    capacity.entry("pods".to_owned()).or_insert_with(|| Quantity(PODS_DEFAULT.to_owned()));
    Ok(capacity)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use insta::{assert_json_snapshot, assert_snapshot};
    use serde_json::{Value, json};

    fn file(nodes: Value) -> Value {
        json!({"apiVersion": API_VERSION, "kind": KIND, "nodes": nodes})
    }

    fn errors(document: &Value) -> String {
        let errors = Cluster::from_document(document).unwrap_err();
        errors.iter().map(|error| format!("{error}\n")).collect()
    }

    /// One line per node: name, topology, capacity.
    fn text(cluster: &Cluster) -> String {
        let nodes = cluster.nodes(Timestamp::UNIX_EPOCH);
        let line = |node: &Node| {
            let labels = node.metadata.labels.as_ref().unwrap();
            let label = |key: &str| labels.get(key).map_or("-", String::as_str).to_owned();
            let name = node.metadata.name.as_deref().unwrap();
            assert_eq!(label(HOSTNAME), name);
            let capacity = node.status.as_ref().unwrap().capacity.as_ref().unwrap();
            let capacity: Vec<String> = capacity.iter().map(|(name, amount)| format!("{name}={}", amount.0)).collect();
            format!("{name} {} {} {}\n", label(ZONE), label(RACK), capacity.join(" "))
        };
        nodes.iter().map(line).collect()
    }

    #[test]
    fn a_node_looks_like_one_that_a_kubelet_registered() {
        let document = file(json!([{
            "namePrefix": "gpu-",
            "capacity": {"cpu": 4, "memory": "16Gi"},
            "labels": {"accelerator": "h100"},
            "taints": [{"key": "gpu", "effect": "NoSchedule"}],
            "topology": [{"key": RACK, "nodes": 8}],
        }]));
        let cluster = Cluster::from_document(&document).unwrap();
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let node = &cluster.nodes(now)[0];
        assert_json_snapshot!((&node.metadata, &node.spec), @r#"
        [
          {
            "labels": {
              "accelerator": "h100",
              "kubernetes.io/arch": "amd64",
              "kubernetes.io/hostname": "gpu-0",
              "kubernetes.io/os": "linux",
              "phalanx.dev/simulated": "true",
              "topology.kubernetes.io/rack": "rack-0"
            },
            "name": "gpu-0"
          },
          {
            "taints": [
              {
                "effect": "NoSchedule",
                "key": "gpu"
              }
            ]
          }
        ]
        "#);
        let status = node.status.as_ref().unwrap();
        assert_json_snapshot!((&status.allocatable, &status.addresses, &status.conditions.as_ref().unwrap()[3]), @r#"
        [
          {
            "cpu": "4",
            "memory": "16Gi",
            "pods": "110"
          },
          [
            {
              "address": "10.179.88.178",
              "type": "InternalIP"
            },
            {
              "address": "gpu-0",
              "type": "Hostname"
            }
          ],
          {
            "lastHeartbeatTime": "2026-01-02T03:04:05Z",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "message": "kubelet is posting ready status",
            "reason": "KubeletReady",
            "status": "True",
            "type": "Ready"
          }
        ]
        "#);
    }

    #[test]
    fn sets_share_the_numbering_of_topology_and_of_a_name_prefix() {
        let document = file(json!([
            {"count": 2, "namePrefix": "gpu-", "topology": [{"key": ZONE, "nodes": 4}, {"key": RACK, "nodes": 2}]},
            {"count": 1, "capacity": {"cpu": "1"}},
            {"count": 2, "namePrefix": "gpu-", "topology": [{"key": ZONE, "nodes": 4, "prefix": "z"}, {"key": RACK, "nodes": 2}]},
        ]));
        assert_snapshot!(text(&Cluster::from_document(&document).unwrap()), @r#"
        gpu-0 zone-0 rack-0 cpu=96 memory=1Ti nvidia.com/gpu=8 pods=110
        gpu-1 zone-0 rack-0 cpu=96 memory=1Ti nvidia.com/gpu=8 pods=110
        node-0 - - cpu=1 pods=110
        gpu-2 z0 rack-1 cpu=96 memory=1Ti nvidia.com/gpu=8 pods=110
        gpu-3 z1 rack-2 cpu=96 memory=1Ti nvidia.com/gpu=8 pods=110
        "#);
    }

    #[test]
    fn the_default_cluster_has_racks_of_8_nodes_and_zones_of_64() {
        let all = text(&Cluster::default_of(65));
        let lines: Vec<&str> = all.lines().collect();
        assert_snapshot!([lines[0], lines[7], lines[8], lines[64]].join("\n"), @r#"
        node-0 zone-0 rack-0 cpu=96 memory=1Ti nvidia.com/gpu=8 pods=110
        node-7 zone-0 rack-0 cpu=96 memory=1Ti nvidia.com/gpu=8 pods=110
        node-8 zone-0 rack-1 cpu=96 memory=1Ti nvidia.com/gpu=8 pods=110
        node-64 zone-1 rack-8 cpu=96 memory=1Ti nvidia.com/gpu=8 pods=110
        "#);
    }

    #[test]
    fn every_error_names_its_field() {
        assert_snapshot!(errors(&json!({"apiVersion": "v1", "kind": "Node", "node": []})), @"Invalid value: unknown field `node`, expected one of `apiVersion`, `kind`, `nodes`");
        assert_snapshot!(errors(&file(json!([
            {"count": 0, "namePrefix": "Big_", "capacity": {"cpu": "4 cores", "memory": "-1", "pods": 1.5}},
            {"labels": {"-a": "b", "phalanx.dev/simulated": "false"}, "topology": [{"key": "x y", "nodes": 0}]},
            {"labels": {"rack": "a"}, "topology": [{"key": "rack", "nodes": 1}, {"key": "rack", "nodes": 2}]},
            {"topology": [{"key": "rack", "nodes": 1, "prefix": "-"}]},
            {"taints": [{"key": "a", "effect": "Sometimes"}, {"effect": "NoSchedule"}]},
        ]))), @r#"
        nodes[0].count: Invalid value: 0: must be at least 1
        nodes[0].namePrefix: Invalid value: "Big_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        nodes[0].capacity[cpu]: Invalid value: "4 cores": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        nodes[0].capacity[memory]: Invalid value: "-1": must be greater than or equal to 0
        nodes[0].capacity[pods]: Invalid value: "1.5": must be an integer
        nodes[1].labels: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        nodes[1].labels[phalanx.dev/simulated]: Forbidden: set by the simulated node
        nodes[1].topology[0].key: Invalid value: "x y": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        nodes[1].topology[0].nodes: Invalid value: 0: must be at least 1
        nodes[2].topology[0].key: Duplicate value: "rack"
        nodes[2].topology[1].key: Duplicate value: "rack"
        nodes[3].topology[0].prefix: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        nodes[4].taints[0].effect: Unsupported value: "Sometimes": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
        nodes[4].taints[1].key: Invalid value: "": name part must be non-empty
        nodes[4].taints[1].key: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        "#);
        assert_snapshot!(errors(&file(json!([{"cuont": 1}, {"count": -1}, {"topology": [{"key": "a"}]}]))), @r#"
        nodes[0].cuont: Invalid value: unknown field `cuont`, expected one of `count`, `namePrefix`, `capacity`, `labels`, `taints`, `topology`
        nodes[1].count: Invalid value: invalid value: integer `-1`, expected u32
        nodes[2].topology: Invalid value: missing field `nodes`
        "#);
        assert_snapshot!(errors(&file(json!([{"count": 60_000}, {"count": 40_001}]))), @"nodes: Too many: 100001: must have at most 100000 items");
        assert_snapshot!(errors(&file(json!([{"count": 13}, {"namePrefix": "node-1", "count": 3}]))), @r#"
        nodes: Duplicate value: "node-10"
        "#);
        assert_snapshot!(errors(&file(json!([]))), @"nodes: Required value: a cluster has at least one node");
    }
}
