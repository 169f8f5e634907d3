//! The identity of plugins.

use std::borrow::Cow;
use std::fmt;

/// A plugin, by its name in configuration, metrics and explanations. It is kube-scheduler's, if it has the plugin.
///
/// Equal ids mean the same plugin, whether they come from a filter, a reason or a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId(Cow<'static, str>);

impl PluginId {
    /// Pods with gates wait.
    pub const SCHEDULING_GATES: PluginId = PluginId::of("SchedulingGates");
    /// The node named in the pod.
    pub const NODE_NAME: PluginId = PluginId::of("NodeName");
    /// Cordoned nodes.
    pub const NODE_UNSCHEDULABLE: PluginId = PluginId::of("NodeUnschedulable");
    /// Features that kubelets declare.
    pub const NODE_DECLARED_FEATURES: PluginId = PluginId::of("NodeDeclaredFeatures");
    /// Host ports.
    pub const NODE_PORTS: PluginId = PluginId::of("NodePorts");
    /// Equal shares of the resources of a node.
    pub const BALANCED_ALLOCATION: PluginId = PluginId::of("NodeResourcesBalancedAllocation");
    /// Images that nodes have.
    pub const IMAGE_LOCALITY: PluginId = PluginId::of("ImageLocality");
    /// The node selector and node affinity.
    pub const NODE_AFFINITY: PluginId = PluginId::of("NodeAffinity");
    /// Taints.
    pub const TAINT_TOLERATION: PluginId = PluginId::of("TaintToleration");
    /// Requests and the number of pods.
    pub const NODE_RESOURCES_FIT: PluginId = PluginId::of("NodeResourcesFit");
    /// Volumes by claim.
    pub const VOLUME_BINDING: PluginId = PluginId::of("VolumeBinding");
    /// Spread over domains.
    pub const POD_TOPOLOGY_SPREAD: PluginId = PluginId::of("PodTopologySpread");
    /// Affinity to other pods.
    pub const INTER_POD_AFFINITY: PluginId = PluginId::of("InterPodAffinity");
    /// Devices by claim.
    pub const DYNAMIC_RESOURCES: PluginId = PluginId::of("DynamicResources");
    /// Gangs, and pods without their PodGroup.
    pub const GANG_SCHEDULING: PluginId = PluginId::of("GangScheduling");
    /// The choice of a topology domain.
    pub const TOPOLOGY: PluginId = PluginId::of("TopologyPlacementGenerator");
    /// Reservations for starved units.
    // Upstream: there are no reservations, and so no name for them.
    pub const RESERVATION: PluginId = PluginId::of("Reservation");

    /// The plugin with this name, for tables.
    pub const fn of(name: &'static str) -> PluginId {
        PluginId(Cow::Borrowed(name))
    }

    /// The plugin with this name.
    pub fn new(name: impl Into<Cow<'static, str>>) -> PluginId {
        PluginId(name.into())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
