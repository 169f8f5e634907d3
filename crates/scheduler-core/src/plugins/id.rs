//! The identity of plugins.

use std::borrow::Cow;

/// A plugin, by its name in configuration, metrics and explanations. It is kube-scheduler's, if it has the plugin.
///
/// Equal ids mean the same plugin, whether they come from a filter, a reason or a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId(Cow<'static, str>);

impl PluginId {
    /// Pods with gates wait.
    pub const SCHEDULING_GATES: PluginId = PluginId(Cow::Borrowed("SchedulingGates"));
    /// The node selector and node affinity.
    pub const NODE_AFFINITY: PluginId = PluginId(Cow::Borrowed("NodeAffinity"));
    /// Taints.
    pub const TAINT_TOLERATION: PluginId = PluginId(Cow::Borrowed("TaintToleration"));
    /// Requests and the number of pods.
    pub const NODE_RESOURCES_FIT: PluginId = PluginId(Cow::Borrowed("NodeResourcesFit"));
    /// Volumes by claim.
    pub const VOLUME_BINDING: PluginId = PluginId(Cow::Borrowed("VolumeBinding"));
    /// Spread over domains.
    pub const POD_TOPOLOGY_SPREAD: PluginId = PluginId(Cow::Borrowed("PodTopologySpread"));
    /// Affinity to other pods.
    pub const INTER_POD_AFFINITY: PluginId = PluginId(Cow::Borrowed("InterPodAffinity"));
    /// Devices by claim.
    pub const DYNAMIC_RESOURCES: PluginId = PluginId(Cow::Borrowed("DynamicResources"));
    /// Gangs, and pods without their PodGroup.
    pub const GANG_SCHEDULING: PluginId = PluginId(Cow::Borrowed("GangScheduling"));
    /// The choice of a topology domain.
    pub const TOPOLOGY: PluginId = PluginId(Cow::Borrowed("TopologyPlacementGenerator"));
    /// Reservations for starved units.
    // Upstream: there are no reservations, and so no name for them.
    pub const RESERVATION: PluginId = PluginId(Cow::Borrowed("Reservation"));

    /// The plugin with this name.
    pub fn new(name: impl Into<Cow<'static, str>>) -> PluginId {
        PluginId(name.into())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}
