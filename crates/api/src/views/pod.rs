//! Pods as the scheduler, the Job controller and the nodes read them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeAffinity, Toleration};
use serde::Deserialize;

use super::meta::{Condition, Index, Meta, OwnerRef, tight};
use crate::batch::prepare::CONTROLLER_UID_LABEL;
use crate::pairs::Pairs;
use crate::quantity::Quantity;
use crate::views::view;

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodView {
    /// Metadata.
    pub metadata: Meta,
    /// What was asked for.
    pub spec: PodSpecView,
    /// What is.
    pub status: PodStatusView,
}

view!(PodView, "", "v1", "Pod", "pods", namespaced: true, lighten: PodView::lighten_ended);

impl PodView {
    /// Pods by the uid of the owner that manages them. Those of a Job that succeeded and that nobody holds any more stand
    /// apart, under [`PodView::settled_of`]: a large Job has many of them, and nearly nothing to do with them.
    pub const BY_CONTROLLER: Index<PodView> = Index {
        name: "controller",
        values: |pod| {
            let value = |owner: &OwnerRef| {
                if pod.is_settled_for(owner) { PodView::settled_of(&owner.uid) } else { owner.uid.clone() }
            };
            pod.metadata.controller().map(value).into_iter().collect()
        },
    };
    /// Pods that nobody manages, by `namespace/key=value` of each of their labels.
    pub const BY_LOOSE_LABEL: Index<PodView> = Index {
        name: "loose-label",
        values: |pod| {
            let Meta { namespace, labels, .. } = &pod.metadata;
            let labels = labels.iter().filter(|_| pod.metadata.controller().is_none());
            labels.map(|(key, value)| format!("{namespace}/{key}={value}")).collect()
        },
    };
    /// Where [`PodView::BY_CONTROLLER`] has the pods of a Job that have succeeded and were let go.
    pub fn settled_of(controller_uid: &str) -> String {
        format!("{controller_uid}/settled")
    }

    /// Whether it succeeded, is held by nobody, and is without doubt selected by the Job that controls it.
    fn is_settled_for(&self, owner: &OwnerRef) -> bool {
        self.status.phase == PodPhase::Succeeded
            && self.metadata.finalizers.is_empty()
            && self.metadata.labels.get(CONTROLLER_UID_LABEL).is_some_and(|uid| *uid == owner.uid)
    }

    /// Bound pods by node name.
    pub const BY_NODE: Index<PodView> =
        Index { name: "node", values: |pod| pod.node_name().map(str::to_owned).into_iter().collect() };
    /// Pods by `namespace/podGroupName`.
    pub const BY_GROUP: Index<PodView> = Index {
        name: "group",
        values: |pod| pod.group_name().map(|group| format!("{}/{group}", pod.metadata.namespace)).into_iter().collect(),
    };

    /// The node the pod is bound to.
    pub fn node_name(&self) -> Option<&str> {
        Some(self.spec.node_name.as_str()).filter(|name| !name.is_empty())
    }

    /// The PodGroup the pod belongs to, in its own namespace.
    pub fn group_name(&self) -> Option<&str> {
        self.spec.scheduling_group.as_ref().and_then(|group| group.pod_group_name.as_deref())
    }

    /// Whether the pod has ended, well or not.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// A pod that has ended is neither placed nor run. Why it failed is still asked; why it succeeded is not.
    fn lighten_ended(&mut self) {
        if !self.is_finished() {
            return;
        }
        let PodSpecView { node_name, scheduler_name, scheduling_group, priority, restart_policy, .. } =
            std::mem::take(&mut self.spec);
        self.spec = PodSpecView {
            node_name,
            scheduler_name,
            scheduling_group,
            priority,
            restart_policy,
            ..PodSpecView::default()
        };
        if self.status.phase == PodPhase::Succeeded {
            // Tells when a pod ended whose containers do not.
            self.status.conditions.retain(|condition| condition.kind == "Ready");
            self.status.conditions.shrink_to_fit();
        }
    }
}

/// `pod.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpecView {
    /// Set by a bind; empty before.
    pub node_name: String,
    /// Who places this pod.
    pub scheduler_name: String,
    /// Membership in a PodGroup.
    pub scheduling_group: Option<SchedulingGroupView>,
    /// Resolved by admission.
    pub priority: Option<i32>,
    /// `Always`, `OnFailure` or `Never`.
    pub restart_policy: String,
    /// Labels a node must carry.
    pub node_selector: Pairs<String>,
    /// Only node affinity is read; inter-pod terms come with their plugin.
    pub affinity: Option<AffinityView>,
    /// Taints the pod stands.
    #[serde(deserialize_with = "tight")]
    pub tolerations: Vec<Toleration>,
    /// Main containers.
    #[serde(deserialize_with = "tight")]
    pub containers: Vec<ContainerView>,
    /// Init containers and, with `restartPolicy: Always`, sidecars.
    #[serde(deserialize_with = "tight")]
    pub init_containers: Vec<ContainerView>,
    /// What the runtime class adds to the requests.
    pub overhead: Pairs<Quantity>,
    /// Requests of the pod as a whole.
    pub resources: Option<ResourcesView>,
    /// While any is left the pod is not placed.
    pub scheduling_gates: Vec<SchedulingGateView>,
    /// References of the images that are mounted as volumes; of other volumes nothing is read.
    #[serde(rename = "volumes", deserialize_with = "image_volumes")]
    pub image_volumes: Vec<Box<str>>,
}

fn image_volumes<'de, D: serde::Deserializer<'de>>(volumes: D) -> Result<Vec<Box<str>>, D::Error> {
    #[derive(Deserialize)]
    struct Volume {
        #[serde(default)]
        image: Option<Image>,
    }
    #[derive(Deserialize)]
    struct Image {
        #[serde(default)]
        reference: Box<str>,
    }
    let volumes: Option<Vec<Volume>> = Option::deserialize(volumes)?;
    Ok(volumes.into_iter().flatten().filter_map(|volume| volume.image).map(|image| image.reference).collect())
}

/// `pod.spec.affinity`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityView {
    /// Required and preferred node terms.
    pub node_affinity: Option<NodeAffinity>,
}

/// `pod.spec.schedulingGates[]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SchedulingGateView {
    /// Name of the gate.
    pub name: String,
}

/// `pod.spec.schedulingGroup`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGroupView {
    /// The PodGroup's name, in the pod's namespace.
    pub pod_group_name: Option<String>,
}

/// One container, as far as placing it goes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerView {
    /// Name, unique in the pod.
    pub name: String,
    /// Image reference.
    pub image: String,
    /// Requests (limits without a request become requests by defaulting).
    pub resources: ResourcesView,
    /// Ports; only host ports matter for placement.
    #[serde(deserialize_with = "tight")]
    pub ports: Vec<PortView>,
    /// `Always` on an init container makes it a sidecar.
    pub restart_policy: Option<String>,
}

/// `resources` of a container or a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourcesView {
    /// What placement reserves.
    pub requests: Pairs<Quantity>,
}

/// A container port.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PortView {
    /// 0 when the port is not published on the node.
    pub host_port: i32,
    /// Empty means all addresses.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// `TCP`, `UDP` or `SCTP`; empty means TCP.
    pub protocol: String,
}

/// `pod.status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum PodPhase {
    /// Not all containers have started.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended with exit code 0.
    Succeeded,
    /// All containers ended, at least one of them not well.
    Failed,
    /// The node cannot be asked.
    #[serde(other)]
    Unknown,
}

/// `pod.status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatusView {
    /// Where the pod is in its life.
    pub phase: PodPhase,
    /// PodScheduled, Ready, DisruptionTarget and others.
    #[serde(deserialize_with = "tight")]
    pub conditions: Vec<Condition>,
    /// A node held for this pod by preemption.
    pub nominated_node_name: String,
    /// One per main container.
    #[serde(deserialize_with = "tight")]
    pub container_statuses: Vec<ContainerStatusView>,
    /// One per init container.
    #[serde(deserialize_with = "tight")]
    pub init_container_statuses: Vec<ContainerStatusView>,
    /// When the kubelet took the pod.
    pub start_time: Option<Timestamp>,
    /// Whether a kubelet put the pod out to save its node; `reason: Evicted` on the wire.
    #[serde(rename = "reason", deserialize_with = "is_evicted")]
    pub evicted: bool,
}

fn is_evicted<'de, D: serde::Deserializer<'de>>(reason: D) -> Result<bool, D::Error> {
    Ok(String::deserialize(reason)? == "Evicted")
}

/// State of one container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatusView {
    /// Name of the container.
    pub name: String,
    /// How often it was started again.
    pub restart_count: i32,
    /// Waiting (neither is set), running or terminated.
    pub state: ContainerStateView,
}

/// `containerStatuses[].state`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerStateView {
    /// Set while the container runs.
    pub running: Option<RunningView>,
    /// Set once the container ended.
    pub terminated: Option<TerminatedView>,
}

/// Since when a container runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunningView {
    /// When it was last started.
    pub started_at: Option<Timestamp>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TerminatedView {
    /// Exit code; 0 is success.
    pub exit_code: i32,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}
