//! Which plugins a profile has, and their weights: `profiles[].plugins`.
//!
//! Plugins are enabled and disabled at one extension point (filter, score, preEnqueue) or at all of them (multiPoint). An
//! extension point overrides multiPoint. Here preFilter and preScore are part of a plugin's filter and score; these points
//! may be configured, too, as long as no filter or score loses what it needs.

use api::field::Error;
use scheduler_core::profile::{FilterPlugin, PluginArgs, ScorePlugin};
use scheduler_core::{BUILT_IN_FILTERS, BUILT_IN_SCORES, BuiltInFilter, BuiltInScore, PluginId, Profile};

use super::fields::FieldReader;

/// A supported plugin.
#[derive(Clone, Copy, Debug)]
pub(super) struct PluginInfo {
    id: &'static PluginId,
    filter: Option<&'static BuiltInFilter>,
    score: Option<&'static BuiltInScore>,
}

/// All plugins of kube-scheduler, in its order. Those that are neither built in nor in [`OTHER_PLUGINS`] are not
/// supported yet, or their work is done elsewhere.
static KUBE_SCHEDULER_PLUGINS: [PluginId; 24] = [
    PluginId::SCHEDULING_GATES,
    PluginId::of("PrioritySort"),
    PluginId::NODE_NAME,
    PluginId::NODE_UNSCHEDULABLE,
    PluginId::TAINT_TOLERATION,
    PluginId::NODE_AFFINITY,
    PluginId::NODE_PORTS,
    PluginId::NODE_RESOURCES_FIT,
    PluginId::of("VolumeRestrictions"),
    PluginId::of("NodeVolumeLimits"),
    PluginId::VOLUME_BINDING,
    PluginId::of("VolumeZone"),
    PluginId::POD_TOPOLOGY_SPREAD,
    PluginId::INTER_POD_AFFINITY,
    PluginId::DYNAMIC_RESOURCES,
    PluginId::of("DefaultPreemption"),
    PluginId::BALANCED_ALLOCATION,
    PluginId::IMAGE_LOCALITY,
    PluginId::of("DefaultBinder"),
    PluginId::NODE_DECLARED_FEATURES,
    PluginId::GANG_SCHEDULING,
    PluginId::TOPOLOGY,
    PluginId::of("PodGroupPodsCount"),
    PluginId::of("DeferredPodScheduling"),
];

/// Supported plugins without a filter or score.
const OTHER_PLUGINS: [PluginId; 3] =
    [PluginId::SCHEDULING_GATES, PluginId::of("PrioritySort"), PluginId::of("DefaultBinder")];

impl PluginInfo {
    fn of(id: &'static PluginId) -> Option<PluginInfo> {
        let filter = BUILT_IN_FILTERS.iter().find(|filter| filter.id == *id);
        let score = BUILT_IN_SCORES.iter().find(|score| score.id == *id);
        let is_supported = filter.is_some() || score.is_some() || OTHER_PLUGINS.contains(id);
        is_supported.then_some(PluginInfo { id, filter, score })
    }

    fn gates(self) -> bool {
        *self.id == PluginId::SCHEDULING_GATES
    }

    fn needs_pre_filter(self) -> bool {
        self.filter.is_some_and(|filter| filter.needs_pre_filter)
    }

    fn needs_pre_score(self) -> bool {
        self.score.is_some_and(|score| score.needs_pre_score)
    }
}

/// In the order of kube-scheduler.
fn supported_plugins() -> impl Iterator<Item = PluginInfo> {
    KUBE_SCHEDULER_PLUGINS.iter().filter_map(PluginInfo::of)
}

/// Result of a lookup by name.
pub(super) enum PluginLookup {
    Supported(PluginInfo),
    Unsupported,
    Unknown,
}

impl PluginLookup {
    pub(super) fn of(name: &str) -> PluginLookup {
        match KUBE_SCHEDULER_PLUGINS.iter().find(|plugin| plugin.name() == name) {
            Some(plugin) => PluginInfo::of(plugin).map_or(PluginLookup::Unsupported, PluginLookup::Supported),
            None => PluginLookup::Unknown,
        }
    }
}

/// The configuration of one extension point, or of multiPoint.
#[derive(Debug, Default)]
struct PluginSet {
    enabled: Vec<(PluginInfo, Option<i64>)>,
    disabled: Vec<PluginId>,
    disables_all: bool,
}

impl PluginSet {
    fn disables(&self, id: &PluginId) -> bool {
        self.disables_all || self.disabled.contains(id)
    }

    /// The weight with which a plugin is enabled, if it is.
    fn enables(&self, id: &PluginId) -> Option<Option<i64>> {
        self.enabled.iter().find(|(plugin, _)| plugin.id == id).map(|(_, weight)| *weight)
    }

    /// Whether a plugin is enabled at this point.
    fn has(&self, multi: &PluginSet, id: &PluginId) -> bool {
        let everywhere = multi.enables(id).is_some() || !multi.disables(id);
        self.enables(id).is_some() || (everywhere && !self.disables(id))
    }
}

/// The profile with the enabled plugins.
pub(super) fn profile(profile: &mut FieldReader<'_>, scheduler_name: String, args: PluginArgs) -> Profile {
    let (mut multi, mut filter, mut score, mut gate) =
        (PluginSet::default(), PluginSet::default(), PluginSet::default(), PluginSet::default());
    if let Some(mut points) = profile.object("plugins") {
        multi = read_plugin_set(&mut points, "multiPoint", |_| true);
        filter = read_plugin_set(&mut points, "filter", |plugin| plugin.filter.is_some());
        score = read_plugin_set(&mut points, "score", |plugin| plugin.score.is_some());
        gate = read_plugin_set(&mut points, "preEnqueue", PluginInfo::gates);
        let pre_filter = read_plugin_set(&mut points, "preFilter", PluginInfo::needs_pre_filter);
        let pre_score = read_plugin_set(&mut points, "preScore", PluginInfo::needs_pre_score);
        for plugin in supported_plugins() {
            let filters = plugin.needs_pre_filter() && filter.has(&multi, plugin.id);
            let scores = plugin.needs_pre_score() && score.has(&multi, plugin.id);
            for (needed, before, point, after) in
                [(filters, &pre_filter, "preFilter", "filter"), (scores, &pre_score, "preScore", "score")]
            {
                if needed && before.disables(plugin.id) && before.enables(plugin.id).is_none() {
                    let path = points.path(point);
                    let message = format!("{} is disabled here and enabled at {after}, which needs it", plugin.id);
                    points.error(Error::forbidden(&path, message));
                }
            }
        }
        refuse_other_points(&mut points);
        points.reject_unknown();
    }
    // Upstream: a plugin whose filter alone is disabled may still exclude nodes at preFilter. Here it is disabled.
    let filters = BUILT_IN_FILTERS.iter().filter(|plugin| filter.has(&multi, &plugin.id));
    // An enabled plugin without a weight has weight 1, also if its default is another.
    let weight = |plugin: &BuiltInScore| match score.enables(&plugin.id).or(multi.enables(&plugin.id)) {
        Some(weight) => weight.unwrap_or(1),
        None => plugin.default_weight,
    };
    let scores = BUILT_IN_SCORES.iter().filter(|plugin| score.has(&multi, &plugin.id));
    Profile {
        scheduler_name,
        filters: filters.map(FilterPlugin::BuiltIn).collect(),
        scores: scores.map(|plugin| (ScorePlugin::BuiltIn(plugin), weight(plugin))).collect(),
        args,
        scheduling_gates: gate.has(&multi, &PluginId::SCHEDULING_GATES),
    }
}

/// Reads the configuration of one point. Unsupported plugins may be disabled, but not enabled.
fn read_plugin_set(points: &mut FieldReader<'_>, point: &'static str, fits: impl Fn(PluginInfo) -> bool) -> PluginSet {
    let mut read = PluginSet::default();
    let Some(mut set) = points.object(point) else { return read };
    for (list, on) in [("enabled", true), ("disabled", false)] {
        let (path, items) = (set.path(list), set.list(list));
        for (at, item) in items.iter().enumerate() {
            let Some(mut entry) = FieldReader::of(item, &path.index(at), set.errors()) else { continue };
            let name = entry.text("name").unwrap_or_default();
            let weight = entry.number("weight", 0..=i64::from(i32::MAX)).filter(|weight| *weight != 0);
            let path = entry.path("name");
            match PluginLookup::of(&name) {
                PluginLookup::Supported(plugin) if on && !fits(plugin) => {
                    entry.error(Error::invalid(&path, name, format!("does not implement {point}")));
                }
                PluginLookup::Supported(plugin) if on => match read.enables(plugin.id) {
                    Some(_) => entry.error(Error::duplicate(&path, name)),
                    None => read.enabled.push((plugin, weight)),
                },
                PluginLookup::Unsupported if on => {
                    entry.error(Error::forbidden(&path, format!("plugin {name} is not supported; remove it")));
                }
                PluginLookup::Supported(_) | PluginLookup::Unsupported => read.disabled.push(PluginId::new(name)),
                PluginLookup::Unknown if !on && name == "*" => read.disables_all = true,
                PluginLookup::Unknown => {
                    let names: Vec<_> = supported_plugins().map(|plugin| plugin.id.name()).collect();
                    entry.error(Error::not_supported(&path, name, &names));
                }
            }
            entry.reject_unknown();
        }
    }
    set.reject_unknown();
    read
}

/// Extension points that are not configurable.
fn refuse_other_points(points: &mut FieldReader<'_>) {
    const NO_CHOICE: &str = "not configurable; remove it";
    for point in [
        "queueSort",
        "postFilter",
        "reserve",
        "permit",
        "preBind",
        "bind",
        "postBind",
        "placementGenerate",
        "placementScore",
        "podGroupPostFilter",
    ] {
        let Some(mut set) = points.object(point) else { continue };
        let path = set.path("enabled");
        if !set.list("enabled").is_empty() {
            set.error(Error::forbidden(&path, NO_CHOICE));
        }
        // Unsupported plugins are disabled anyway.
        let (path, items) = (set.path("disabled"), set.list("disabled"));
        for (at, item) in items.iter().enumerate() {
            let name = item.get("name").and_then(|name| name.as_str()).unwrap_or_default();
            if !matches!(PluginLookup::of(name), PluginLookup::Unsupported) {
                set.error(Error::forbidden(&path.index(at), NO_CHOICE));
            }
        }
        set.reject_unknown();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_plugin_is_configurable() {
        let filters = BUILT_IN_FILTERS.iter().map(|filter| &filter.id);
        for id in filters.chain(BUILT_IN_SCORES.iter().map(|score| &score.id)) {
            assert!(KUBE_SCHEDULER_PLUGINS.contains(id), "{id}");
        }
    }
}
