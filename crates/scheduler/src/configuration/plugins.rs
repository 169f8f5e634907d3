//! Which plugins a profile has, and their weights: `profiles[].plugins`.
//!
//! Plugins are enabled and disabled at one extension point (filter, score, preEnqueue) or at all of them (multiPoint). An
//! extension point overrides multiPoint. Here preFilter and preScore are part of a plugin's filter and score; these points
//! may be configured, too, as long as no filter or score loses what it needs.

use api::field::Error;
use scheduler_core::Profile;
use scheduler_core::profile::{FilterPlugin, ScorePlugin};

use super::args::Arguments;
use super::fields::FieldReader;

/// A supported plugin.
#[derive(Debug)]
pub(super) struct PluginInfo {
    name: &'static str,
    filters: bool,
    /// Default weight of its score; `None`: it has no score.
    weight: Option<i64>,
    /// Whether it keeps pods out of the queue.
    gates: bool,
    /// Whether its filter needs its preFilter.
    pre_filters: bool,
    /// Whether its score needs its preScore.
    pre_scores: bool,
}

const fn plugin(name: &'static str, filters: bool, weight: Option<i64>) -> PluginInfo {
    PluginInfo { name, filters, weight, gates: false, pre_filters: false, pre_scores: false }
}

/// In the order of kube-scheduler.
const SUPPORTED_PLUGINS: [PluginInfo; 11] = [
    PluginInfo { gates: true, ..plugin("SchedulingGates", false, None) },
    plugin("PrioritySort", false, None),
    plugin("NodeName", true, None),
    plugin("NodeUnschedulable", true, None),
    PluginInfo { pre_scores: true, ..plugin("TaintToleration", true, Some(3)) },
    PluginInfo { pre_filters: true, pre_scores: true, ..plugin("NodeAffinity", true, Some(2)) },
    PluginInfo { pre_filters: true, ..plugin("NodePorts", true, None) },
    PluginInfo { pre_filters: true, pre_scores: true, ..plugin("NodeResourcesFit", true, Some(1)) },
    PluginInfo { pre_scores: true, ..plugin("NodeResourcesBalancedAllocation", false, Some(1)) },
    plugin("ImageLocality", false, Some(1)),
    plugin("DefaultBinder", false, None),
];

/// Plugins of kube-scheduler that are not supported yet, or whose work is done elsewhere.
const UNSUPPORTED_PLUGINS: [&str; 13] = [
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "DefaultPreemption",
    "NodeDeclaredFeatures",
    "GangScheduling",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
    "DeferredPodScheduling",
];

/// Result of a lookup by name.
pub(super) enum PluginLookup {
    Supported(&'static PluginInfo),
    Unsupported,
    Unknown,
}

impl PluginLookup {
    pub(super) fn of(name: &str) -> PluginLookup {
        match SUPPORTED_PLUGINS.iter().find(|plugin| plugin.name == name) {
            Some(plugin) => PluginLookup::Supported(plugin),
            None if UNSUPPORTED_PLUGINS.contains(&name) => PluginLookup::Unsupported,
            None => PluginLookup::Unknown,
        }
    }
}

/// The configuration of one extension point, or of multiPoint.
#[derive(Debug, Default)]
struct PluginSet {
    enabled: Vec<(&'static PluginInfo, Option<i64>)>,
    disabled: Vec<String>,
}

impl PluginSet {
    fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|disabled| disabled == "*" || disabled == name)
    }

    /// The weight with which a plugin is enabled, if it is.
    fn enables(&self, name: &str) -> Option<Option<i64>> {
        self.enabled.iter().find(|(plugin, _)| plugin.name == name).map(|(_, weight)| *weight)
    }

    /// Whether a plugin is enabled at this point.
    fn has(&self, multi: &PluginSet, name: &str) -> bool {
        let everywhere = multi.enables(name).is_some() || !multi.disables(name);
        self.enables(name).is_some() || (everywhere && !self.disables(name))
    }
}

/// The profile with the enabled plugins.
pub(super) fn profile(profile: &mut FieldReader<'_>, scheduler_name: String, args: &Arguments) -> Profile {
    let (mut multi, mut filter, mut score, mut gate) =
        (PluginSet::default(), PluginSet::default(), PluginSet::default(), PluginSet::default());
    if let Some(mut points) = profile.object("plugins") {
        multi = read_plugin_set(&mut points, "multiPoint", |_| true);
        filter = read_plugin_set(&mut points, "filter", |plugin| plugin.filters);
        score = read_plugin_set(&mut points, "score", |plugin| plugin.weight.is_some());
        gate = read_plugin_set(&mut points, "preEnqueue", |plugin| plugin.gates);
        let pre_filter = read_plugin_set(&mut points, "preFilter", |plugin| plugin.pre_filters);
        let pre_score = read_plugin_set(&mut points, "preScore", |plugin| plugin.pre_scores);
        for plugin in &SUPPORTED_PLUGINS {
            let filters = plugin.pre_filters && filter.has(&multi, plugin.name);
            let scores = plugin.pre_scores && score.has(&multi, plugin.name);
            for (needed, before, point, after) in
                [(filters, &pre_filter, "preFilter", "filter"), (scores, &pre_score, "preScore", "score")]
            {
                if needed && before.disables(plugin.name) && before.enables(plugin.name).is_none() {
                    let (path, name) = (points.path(point), plugin.name);
                    let message = format!("{name} is disabled here and enabled at {after}, which needs it");
                    points.error(Error::forbidden(&path, message));
                }
            }
        }
        refuse_other_points(&mut points);
        points.reject_unknown();
    }
    let on = |point: &PluginSet, plugin: &PluginInfo| point.has(&multi, plugin.name);
    // Upstream: a plugin whose filter alone is disabled may still exclude nodes at preFilter. Here it is disabled.
    let filters = SUPPORTED_PLUGINS.iter().filter(|plugin| plugin.filters && on(&filter, plugin));
    // An enabled plugin without a weight has weight 1, also if its default is another.
    let weight = |plugin: &PluginInfo, default: i64| match score.enables(plugin.name).or(multi.enables(plugin.name)) {
        Some(weight) => weight.unwrap_or(1),
        None => default,
    };
    let scores = SUPPORTED_PLUGINS.iter().filter_map(|plugin| Some((plugin, plugin.weight?)));
    let scores = scores.filter(|(plugin, _)| on(&score, plugin));
    Profile {
        scheduler_name,
        filters: filters.filter_map(|plugin| filter_plugin(plugin.name, args)).collect(),
        scores: scores
            .filter_map(|(plugin, default)| Some((score_plugin(plugin.name, args)?, weight(plugin, default))))
            .collect(),
        scheduling_gates: SUPPORTED_PLUGINS.iter().any(|plugin| plugin.gates && on(&gate, plugin)),
    }
}

/// Reads the configuration of one point. Unsupported plugins may be disabled, but not enabled.
fn read_plugin_set(points: &mut FieldReader<'_>, point: &'static str, fits: impl Fn(&PluginInfo) -> bool) -> PluginSet {
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
                PluginLookup::Supported(plugin) if on => match read.enables(plugin.name) {
                    Some(_) => entry.error(Error::duplicate(&path, name)),
                    None => read.enabled.push((plugin, weight)),
                },
                PluginLookup::Unsupported if on => {
                    entry.error(Error::forbidden(&path, format!("plugin {name} is not supported; remove it")));
                }
                PluginLookup::Supported(_) | PluginLookup::Unsupported => read.disabled.push(name),
                PluginLookup::Unknown if !on && name == "*" => read.disabled.push(name),
                PluginLookup::Unknown => {
                    entry.error(Error::not_supported(&path, name, &SUPPORTED_PLUGINS.map(|plugin| plugin.name)))
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

fn filter_plugin(name: &str, args: &Arguments) -> Option<FilterPlugin> {
    Some(match name {
        "NodeName" => FilterPlugin::NodeName,
        "NodeUnschedulable" => FilterPlugin::NodeUnschedulable,
        "TaintToleration" => FilterPlugin::TaintToleration,
        "NodeAffinity" => FilterPlugin::NodeAffinity(args.node_affinity.clone()),
        "NodePorts" => FilterPlugin::NodePorts,
        "NodeResourcesFit" => FilterPlugin::NodeResourcesFit(args.fit.clone()),
        _ => return None,
    })
}

fn score_plugin(name: &str, args: &Arguments) -> Option<ScorePlugin> {
    Some(match name {
        "TaintToleration" => ScorePlugin::TaintToleration,
        "NodeAffinity" => ScorePlugin::NodeAffinity(args.node_affinity.clone()),
        "NodeResourcesFit" => ScorePlugin::NodeResourcesFit(args.fit.clone()),
        "NodeResourcesBalancedAllocation" => ScorePlugin::NodeResourcesBalancedAllocation(args.balance.clone()),
        "ImageLocality" => ScorePlugin::ImageLocality,
        _ => return None,
    })
}
