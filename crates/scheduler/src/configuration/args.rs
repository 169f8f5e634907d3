//! Arguments of plugins: `profiles[].pluginConfig[]`.

use std::collections::BTreeSet;

use api::field::Error;
use scheduler_core::profile::{BalanceArgs, FitArgs, FitStrategy, NodeAffinityArgs, PluginArgs};

use super::fields::FieldReader;
use super::plugins::PluginLookup;

/// The arguments of all plugins that take some.
pub(super) fn read(profile: &mut FieldReader<'_>) -> PluginArgs {
    let mut read = PluginArgs::default();
    let (path, items) = (profile.path("pluginConfig"), profile.list("pluginConfig"));
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        let Some(mut entry) = FieldReader::of(item, &path.index(at), profile.errors()) else { continue };
        let name = entry.text("name").unwrap_or_default();
        let path = entry.path("name");
        if !seen.insert(name.clone()) {
            entry.error(Error::duplicate(&path, name.as_str()));
        }
        match name.as_str() {
            "NodeResourcesFit" => with_args(&mut entry, "NodeResourcesFitArgs", |args| read.fit = fit(args)),
            "NodeResourcesBalancedAllocation" => {
                with_args(&mut entry, "NodeResourcesBalancedAllocationArgs", |args| read.balance = balance(args));
            }
            "NodeAffinity" => with_args(&mut entry, "NodeAffinityArgs", |args| read.node_affinity = affinity(args)),
            "" => entry.error(Error::required(&path, "the plugin's name")),
            other => {
                entry.value("args");
                let detail = match PluginLookup::of(other) {
                    PluginLookup::Supported(_) => format!("plugin {other} takes no arguments"),
                    PluginLookup::Unsupported => {
                        format!("plugin {other} is not supported, so its arguments would have no effect")
                    }
                    PluginLookup::Unknown => format!("there is no plugin {other}"),
                };
                entry.error(Error::forbidden(&path, detail));
            }
        }
        entry.reject_unknown();
    }
    read
}
fn with_args(entry: &mut FieldReader<'_>, kind: &str, read: impl FnOnce(&mut FieldReader<'_>)) {
    let Some(mut args) = entry.object("args") else { return };
    for (field, wanted) in [("apiVersion", super::API_VERSION), ("kind", kind)] {
        if let Some(value) = args.text(field).filter(|value| value != wanted) {
            let path = args.path(field);
            args.error(Error::not_supported(&path, value, &[wanted]));
        }
    }
    read(&mut args);
    args.reject_unknown();
}

fn fit(args: &mut FieldReader<'_>) -> FitArgs {
    let mut read = FitArgs {
        ignored_resources: args.texts("ignoredResources").into_iter().collect(),
        ignored_resource_groups: args.texts("ignoredResourceGroups").into_iter().collect(),
        ..FitArgs::default()
    };
    let slashed = read.ignored_resource_groups.iter().find(|group| group.contains('/')).cloned();
    if let Some(group) = slashed {
        let path = args.path("ignoredResourceGroups");
        args.error(Error::invalid(&path, group, "must be the part of a resource's name before the slash"));
    }
    let Some(mut strategy) = args.object("scoringStrategy") else { return read };
    let resources = weighted_resources(&mut strategy);
    if !resources.is_empty() {
        read.resources = resources;
    }
    let line = strategy.object("requestedToCapacityRatio").map(|mut ratio| {
        let line = shape(&mut ratio);
        ratio.reject_unknown();
        line
    });
    let path = strategy.path("type");
    read.strategy = match strategy.text("type").as_deref() {
        None | Some("LeastAllocated") => FitStrategy::LeastAllocated,
        Some("MostAllocated") => FitStrategy::MostAllocated,
        Some("RequestedToCapacityRatio") => FitStrategy::RequestedToCapacityRatio(line.unwrap_or_else(|| {
            let path = strategy.path("requestedToCapacityRatio").child("shape");
            strategy.error(Error::required(&path, "at least one point"));
            Vec::new()
        })),
        Some(other) => {
            let known = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];
            strategy.error(Error::not_supported(&path, other, &known));
            FitStrategy::LeastAllocated
        }
    };
    strategy.reject_unknown();
    read
}

fn balance(args: &mut FieldReader<'_>) -> BalanceArgs {
    let resources = weighted_resources(args);
    let path = args.path("resources");
    for (at, (_, weight)) in resources.iter().enumerate().filter(|(_, (_, weight))| *weight != 1) {
        args.error(Error::invalid(&path.index(at).child("weight"), *weight, "must be 1"));
    }
    if resources.is_empty() {
        return BalanceArgs::default();
    }
    BalanceArgs { resources: resources.into_iter().map(|(name, _)| name).collect() }
}

/// `resources: [{name, weight}]`; the default weight is 1.
fn weighted_resources(args: &mut FieldReader<'_>) -> Vec<(String, i64)> {
    let (path, items) = (args.path("resources"), args.list("resources"));
    let (mut resources, mut seen) = (Vec::new(), BTreeSet::new());
    for (at, item) in items.iter().enumerate() {
        let Some(mut resource) = FieldReader::of(item, &path.index(at), args.errors()) else { continue };
        let name = resource.text("name").filter(|name| !name.is_empty());
        let weight = resource.number("weight", 0..=100).filter(|weight| *weight != 0).unwrap_or(1);
        let path = resource.path("name");
        match name {
            Some(name) if !seen.insert(name.clone()) => resource.error(Error::duplicate(&path, name)),
            Some(name) => resources.push((name, weight)),
            None => resource.error(Error::required(&path, "the resource's name")),
        }
        resource.reject_unknown();
    }
    resources
}

/// `shape: [{utilization, score}]`, with increasing utilization.
fn shape(ratio: &mut FieldReader<'_>) -> Vec<(i64, i64)> {
    let (path, items) = (ratio.path("shape"), ratio.list("shape"));
    if items.is_empty() {
        ratio.error(Error::required(&path, "at least one point"));
    }
    let mut line: Vec<(i64, i64)> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let Some(mut point) = FieldReader::of(item, &path.index(at), ratio.errors()) else { continue };
        let utilization = point.number("utilization", 0..=100).unwrap_or(0);
        let score = point.number("score", 0..=10).unwrap_or(0);
        if line.last().is_some_and(|(before, _)| *before >= utilization) {
            let path = point.path("utilization");
            point.error(Error::invalid(&path, utilization, "must be larger than that of the previous point"));
        }
        line.push((utilization, score));
        point.reject_unknown();
    }
    line
}

fn affinity(args: &mut FieldReader<'_>) -> NodeAffinityArgs {
    let path = args.path("addedAffinity");
    let Some(value) = args.value("addedAffinity") else { return NodeAffinityArgs::default() };
    match serde_json::from_value(value.clone()) {
        Ok(added) => NodeAffinityArgs { added_affinity: Some(added) },
        Err(error) => {
            args.error(Error::invalid(&path, value.clone(), format!("must be a node affinity: {error}")));
            NodeAffinityArgs::default()
        }
    }
}
