//! Pending pods by the plugins that refuse them. They are counted when the metrics are read, so refusals cost nothing more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use api::views::PodView;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use runtime::Cache;
use scheduler_core::{PluginId, Refusal, RefusalCause, Unit};

use crate::handle::SchedulerHandle;

/// The refusals of the running scheduler, if there is one.
#[derive(Clone, Default)]
pub(super) struct UnschedulableCollector(Arc<Mutex<Option<WatchedScheduler>>>);

/// The handle with the refusals, and the pods.
type WatchedScheduler = (SchedulerHandle, Cache<PodView>);

impl UnschedulableCollector {
    pub(super) fn watch(&self, handle: &SchedulerHandle, pods: &Cache<PodView>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((handle.clone(), pods.clone()));
    }

    /// Pending pods by plugin and profile. A pod counts for each plugin that refuses it.
    fn counts(&self) -> BTreeMap<(PluginId, String), i64> {
        let mut counts = BTreeMap::new();
        let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((handle, pods)) = watched else { return counts };
        for (unit, refusal) in handle.refusals() {
            let profile = profile(&unit, &pods);
            for plugin in plugins(&refusal) {
                *counts.entry((plugin, profile.clone())).or_default() += refusal.pods_count as i64;
            }
        }
        counts
    }
}

/// The `schedulerName` of the pods of a unit.
fn profile(unit: &Unit, pods: &Cache<PodView>) -> String {
    let pod = match unit {
        Unit::Pod(key) => pods.get(key),
        Unit::Group(key) => {
            let members = pods.by_index(&PodView::BY_GROUP, &key.to_string());
            members.into_iter().find(|pod| pod.node_name().is_none())
        }
    };
    pod.map(|pod| pod.spec.scheduler_name.to_string()).unwrap_or_default()
}

/// The plugins that refuse a unit, by kube-scheduler's names.
fn plugins(refusal: &Refusal) -> Vec<PluginId> {
    let mut plugins: Vec<PluginId> = match &refusal.cause {
        RefusalCause::DoesNotFit => refusal.reasons.0.keys().map(|reason| reason.plugin.clone()).collect(),
        RefusalCause::NoDomain { .. } | RefusalCause::MembersSplit { .. } => {
            vec![PluginId::TOPOLOGY]
        }
        RefusalCause::Gated => vec![PluginId::SCHEDULING_GATES],
        RefusalCause::UnsupportedTerms { fields } => fields.iter().map(|field| plugin_for(field)).collect(),
        RefusalCause::Incomplete
        | RefusalCause::NoPodGroup
        | RefusalCause::NoParent { .. }
        | RefusalCause::ParentNotBasic { .. }
        | RefusalCause::ParentCycle { .. }
        | RefusalCause::OtherOwner { .. }
        | RefusalCause::PriorityMismatch { .. } => vec![PluginId::GANG_SCHEDULING],
    };
    plugins.sort_unstable();
    plugins.dedup();
    plugins
}

/// The plugin of kube-scheduler that reads such a field of a pod.
fn plugin_for(field: &str) -> PluginId {
    match field.split(['.', '[']).next() {
        Some("affinity") => PluginId::INTER_POD_AFFINITY,
        Some("topologySpreadConstraints") => PluginId::POD_TOPOLOGY_SPREAD,
        Some("volumes") => PluginId::VOLUME_BINDING,
        Some("resourceClaims") => PluginId::DYNAMIC_RESOURCES,
        _ => PluginId::new("other"),
    }
}

impl Collector for UnschedulableCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (name, help) = ("scheduler_unschedulable_pods", "Pending pods, by the plugins that refuse them");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((plugin, profile), count) in self.counts() {
            let labels = [("plugin", plugin.name()), ("profile", profile.as_str())];
            ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for UnschedulableCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unschedulable").finish_non_exhaustive()
    }
}
