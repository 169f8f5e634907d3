//! Pods as the scheduler, the Job controller and the simulated nodes read them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeAffinity, Toleration};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::meta::{Condition, Index, MetaView, OwnerRef, tight};
use crate::interned_str::InternedStr;
use crate::kinds;
use crate::quantity::Quantity;
use crate::small_map::SmallMap;
use crate::views::view;

/// Label of a Job's pods with the Job's uid.
pub const CONTROLLER_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodView {
    /// Metadata.
    pub metadata: MetaView,
    /// Desired state.
    pub spec: PodSpecView,
    /// Observed state.
    pub status: PodStatusView,
}

view!(
    PodView,
    kinds::POD,
    indexes: [PodView::BY_CONTROLLER, PodView::BY_ORPHAN_LABEL, PodView::BY_NODE, PodView::BY_GROUP],
    strip: PodView::strip_finished
);

impl PodView {
    /// Reason of the condition `DisruptionTarget` on a pod that our scheduler deletes so that other pods, or its own
    /// gang as a whole, can start. It does not count as a failure of the Job.
    pub const RELEASED_BY_SCHEDULER: &str = "ReleasedByScheduler";
    /// Pods by the uid of their controller. Pods of a Job that succeeded and have no finalizer any more are indexed
    /// apart, under [`PodView::counted_index_value`]: a large Job has many of them, and its controller rarely needs
    /// them.
    pub const BY_CONTROLLER: Index<PodView> = Index {
        name: "controller",
        values: |pod| {
            let value = |owner: &OwnerRef| {
                if pod.is_counted_for(owner) { PodView::counted_index_value(&owner.uid) } else { owner.uid.clone() }
            };
            pod.metadata.controller().map(value).into_iter().collect()
        },
    };
    /// Pods without a controller, by `namespace/key=value` of each of their labels.
    pub const BY_ORPHAN_LABEL: Index<PodView> = Index {
        name: "orphan-label",
        values: |pod| {
            let MetaView { namespace, labels, .. } = &pod.metadata;
            let labels = labels.iter().filter(|_| pod.metadata.controller().is_none());
            labels.map(|(key, value)| format!("{namespace}/{key}={value}")).collect()
        },
    };
    /// The value in [`PodView::BY_CONTROLLER`] for the pods of a Job that succeeded and have no finalizer any more.
    pub fn counted_index_value(controller_uid: &str) -> String {
        format!("{controller_uid}/settled")
    }

    /// Whether the pod succeeded, has no finalizer, and certainly matches the selector of the Job that controls it.
    fn is_counted_for(&self, owner: &OwnerRef) -> bool {
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

    /// Whether the pod has finished, successfully or not.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Drops fields that are not read of a finished pod. The reason of a failure is still read, that of a success is
    /// not.
    fn strip_finished(&mut self) {
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
        self.status.nominated_node_name = None;
        if self.status.phase == PodPhase::Succeeded {
            // The time of this condition is the end of a pod whose containers have no end time.
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
    /// The scheduler of this pod.
    pub scheduler_name: InternedStr,
    /// Membership in a PodGroup.
    pub scheduling_group: Option<SchedulingGroupView>,
    /// Resolved by admission.
    pub priority: Option<i32>,
    /// `Always`, `OnFailure` or `Never`.
    pub restart_policy: InternedStr,
    /// Labels that the node must have.
    pub node_selector: SmallMap<String>,
    /// Of inter-pod terms only their presence is read.
    pub affinity: Option<Box<AffinityView>>,
    /// Taints that the pod tolerates.
    #[serde(deserialize_with = "tight")]
    pub tolerations: Vec<Toleration>,
    /// Main containers.
    #[serde(deserialize_with = "tight")]
    pub containers: Vec<ContainerView>,
    /// Init containers and, with `restartPolicy: Always`, sidecars.
    #[serde(deserialize_with = "tight")]
    pub init_containers: Vec<ContainerView>,
    /// Overhead of the runtime class, added to the requests.
    pub overhead: SmallMap<Quantity>,
    /// Requests at pod level.
    pub resources: Option<ResourcesView>,
    /// While there is one, the pod is not scheduled.
    pub scheduling_gates: Vec<SchedulingGateView>,
    /// Volumes that matter for scheduling.
    #[serde(deserialize_with = "volumes")]
    pub volumes: VolumesView,
    /// Whether a topology spread constraint must be satisfied.
    #[serde(rename = "topologySpreadConstraints", deserialize_with = "hard_spread")]
    pub must_spread: bool,
    /// Whether the pod has resource claims.
    #[serde(rename = "resourceClaims", deserialize_with = "any")]
    pub claims_devices: bool,
    /// Whether the pod uses the network of its node.
    pub host_network: bool,
    /// `false`: the pod has a user namespace of its own.
    pub host_users: Option<bool>,
    /// Whether a volume mount of an ephemeral container has bind mount options.
    #[serde(rename = "ephemeralContainers", deserialize_with = "ephemeral_bind_mount_options")]
    pub ephemeral_bind_mount_options: bool,
}

impl PodSpecView {
    /// Fields with scheduling requirements that no plugin supports yet.
    pub fn unsupported_fields(&self) -> Vec<&'static str> {
        let affinity = self.affinity.as_ref();
        let is_required = |terms: Option<PodTermsView>| terms.is_some_and(|terms| terms.is_required);
        let unsupported = [
            (is_required(affinity.and_then(|affinity| affinity.pod_affinity)), "affinity.podAffinity"),
            (is_required(affinity.and_then(|affinity| affinity.pod_anti_affinity)), "affinity.podAntiAffinity"),
            (self.must_spread, "topologySpreadConstraints"),
            (self.volumes.has_claims, "volumes[].persistentVolumeClaim"),
            (self.claims_devices, "resourceClaims"),
        ];
        unsupported.into_iter().filter_map(|(demanded, field)| demanded.then_some(field)).collect()
    }
}

/// `pod.spec.volumes`: the fields that are read.
#[derive(Clone, Debug, Default)]
pub struct VolumesView {
    /// References of the images that are mounted.
    pub images: Box<[Box<str>]>,
    /// Whether a claim is mounted. Its volume may not be reachable from every node.
    pub has_claims: bool,
}

fn volumes<'de, D: serde::Deserializer<'de>>(volumes: D) -> Result<VolumesView, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Volume {
        image: Option<Image>,
        persistent_volume_claim: Option<IgnoredAny>,
        ephemeral: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Image {
        #[serde(default)]
        reference: Box<str>,
    }
    let volumes: Vec<Volume> = Option::deserialize(volumes)?.unwrap_or_default();
    let is_claim = |volume: &Volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
    let has_claims = volumes.iter().any(is_claim);
    let images = volumes.into_iter().filter_map(|volume| volume.image).map(|image| image.reference).collect();
    Ok(VolumesView { images, has_claims })
}

fn hard_spread<'de, D: serde::Deserializer<'de>>(constraints: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Constraint {
        #[serde(default)]
        when_unsatisfiable: String,
    }
    let constraints: Option<Vec<Constraint>> = Option::deserialize(constraints)?;
    Ok(constraints.into_iter().flatten().any(|constraint| constraint.when_unsatisfiable == "DoNotSchedule"))
}

/// Whether a list has anything in it.
fn any<'de, D: serde::Deserializer<'de>>(list: D) -> Result<bool, D::Error> {
    let list: Option<Vec<IgnoredAny>> = Option::deserialize(list)?;
    Ok(list.is_some_and(|list| !list.is_empty()))
}

/// `pod.spec.affinity`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityView {
    /// Required and preferred node terms.
    pub node_affinity: Option<NodeAffinity>,
    /// Terms that attract the pod to other pods.
    pub pod_affinity: Option<PodTermsView>,
    /// Terms that keep the pod away from other pods.
    pub pod_anti_affinity: Option<PodTermsView>,
}

/// `pod.spec.affinity.podAffinity` and `podAntiAffinity`: the fields that are read.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodTermsView {
    /// Whether there are required terms.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "any")]
    pub is_required: bool,
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

/// A container: the fields that scheduling reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerView {
    /// Name, unique in the pod.
    pub name: String,
    /// Image reference.
    pub image: String,
    /// Requests (limits without a request become requests by defaulting).
    pub resources: ResourcesView,
    /// Ports. Only host ports matter for scheduling.
    pub ports: Box<[PortView]>,
    /// Whether `restartPolicy` is `Always`, which makes an init container a sidecar.
    #[serde(rename = "restartPolicy", deserialize_with = "is_always")]
    pub is_restarted_always: bool,
    /// Whether a restart rule restarts all containers of the pod.
    #[serde(rename = "restartPolicyRules", deserialize_with = "restarts_all")]
    pub restarts_all: bool,
    /// Whether a volume mount has bind mount options.
    #[serde(rename = "volumeMounts", deserialize_with = "bind_mount_options")]
    pub has_bind_mount_options: bool,
}

fn is_always<'de, D: serde::Deserializer<'de>>(policy: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    enum RestartPolicy {
        Always,
        #[serde(other)]
        Other,
    }
    let policy: Option<RestartPolicy> = Option::deserialize(policy)?;
    Ok(matches!(policy, Some(RestartPolicy::Always)))
}

fn restarts_all<'de, D: serde::Deserializer<'de>>(rules: D) -> Result<bool, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Rule {
        action: InternedStr,
    }
    let rules: Option<Vec<Rule>> = Option::deserialize(rules)?;
    Ok(rules.into_iter().flatten().any(|rule| rule.action == "RestartAllContainers"))
}

fn bind_mount_options<'de, D: serde::Deserializer<'de>>(mounts: D) -> Result<bool, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Mount {
        #[serde(rename = "bindMountOptions", deserialize_with = "any")]
        has_options: bool,
    }
    let mounts: Option<Vec<Mount>> = Option::deserialize(mounts)?;
    Ok(mounts.into_iter().flatten().any(|mount| mount.has_options))
}

fn ephemeral_bind_mount_options<'de, D: serde::Deserializer<'de>>(containers: D) -> Result<bool, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Container {
        #[serde(rename = "volumeMounts", deserialize_with = "bind_mount_options")]
        has_options: bool,
    }
    let containers: Option<Vec<Container>> = Option::deserialize(containers)?;
    Ok(containers.into_iter().flatten().any(|container| container.has_options))
}

/// `resources` of a container or a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourcesView {
    /// What the scheduler reserves.
    pub requests: SmallMap<Quantity>,
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
    /// All containers ended, at least one of them with an error.
    Failed,
    /// The node does not respond.
    #[serde(other)]
    Unknown,
}

/// `pod.status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatusView {
    /// The phase of the pod.
    pub phase: PodPhase,
    /// PodScheduled, Ready, DisruptionTarget and others.
    #[serde(deserialize_with = "tight")]
    pub conditions: Vec<Condition>,
    /// One per main container.
    #[serde(deserialize_with = "tight")]
    pub container_statuses: Vec<ContainerStatusView>,
    /// One per init container.
    #[serde(deserialize_with = "tight")]
    pub init_container_statuses: Vec<ContainerStatusView>,
    /// When the kubelet accepted the pod.
    pub start_time: Option<Timestamp>,
    /// The node where a scheduler makes room for the pod, or will bind it to.
    pub nominated_node_name: Option<Box<str>>,
    /// Whether a kubelet evicted the pod to protect its node; `reason: Evicted` on the wire.
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
    /// How often it was restarted.
    pub restart_count: i32,
    /// Waiting (neither field is set), running or terminated.
    pub state: ContainerStateView,
}

/// `containerStatuses[].state`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerStateView {
    /// Set while the container runs.
    pub running: Option<ContainerRunningView>,
    /// Set once the container ended.
    pub terminated: Option<ContainerTerminatedView>,
}

/// A running container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRunningView {
    /// When it was last started.
    pub started_at: Option<Timestamp>,
}

/// A terminated container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerTerminatedView {
    /// Exit code; 0 is success.
    pub exit_code: i32,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pods are the most frequent objects, and the allocator has size classes: 640 bytes is one, 768 the next.
    #[test]
    fn pod_view_fits_its_size_class() {
        let counts_of_arc = 2 * size_of::<usize>();
        assert!(size_of::<PodView>() + counts_of_arc <= 640, "{}", size_of::<PodView>());
        assert!(size_of::<ContainerView>() <= 96, "{}", size_of::<ContainerView>());
    }
}
