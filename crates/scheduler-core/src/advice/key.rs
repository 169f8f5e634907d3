//! Which other topology key would do, or none.

use super::{Asked, Desk};
use crate::cluster::{Cluster, TopologyId, Whereabouts};
use crate::cycle::Trial;
use crate::names::NameId;
use crate::need::{Constraint, Need};
use crate::ways_out::WayOut;

/// How many other keys are tried.
const KEYS_MAX: usize = 4;

/// Words by which a label's key tells that it is about places. Of any other label nobody knows whether pods that share
/// its value are near each other.
const WORDS_OF_PLACES: [&str; 5] = ["topology", "region", "zone", "block", "rack"];

/// The narrowest key that is wider than the group's own and with which it fits; or else none at all, if that helps.
pub(super) fn relax(asked: &Asked<'_>, desk: &mut Desk<'_>) -> Option<WayOut> {
    let constraint = asked.need.constraint.as_ref()?;
    let text = |name: NameId, desk: &Desk<'_>| desk.cluster.names.text(name).to_string();
    let from = text(desk.cluster.topology(constraint.topology).key(), desk);
    for topology in wider(constraint.topology, desk.cluster) {
        let mut members = Whereabouts::default();
        asked.members_on.iter().for_each(|node| members.add(*node, desk.cluster.topology(topology)));
        let constraint = Constraint::with_members(topology, members, desk.cluster);
        let need = Need { constraint: Some(constraint), ..asked.need.clone() };
        if let Some(Trial::Fits(region)) = desk.try_out(&need) {
            let chosen = region.chosen(desk.cluster)?;
            let recreate = asked.origin.clone();
            return Some(WayOut::OtherKey { from, to: chosen.key, value: chosen.value, recreate });
        }
    }
    let need = Need { constraint: None, ..asked.need.clone() };
    matches!(desk.try_out(&need)?, Trial::Fits(_)).then(|| WayOut::NoKey { from, recreate: asked.origin.clone() })
}

/// Keys with fewer domains than `own`, those with the most first.
fn wider(own: TopologyId, cluster: &mut Cluster) -> Vec<TopologyId> {
    let own_key = cluster.topology(own).key();
    let is_about_places = |key: &NameId| {
        let text = cluster.names.text(*key);
        *key != own_key && WORDS_OF_PLACES.iter().any(|word| text.contains(word))
    };
    let mut keys: Vec<_> = cluster.label_keys().into_iter().filter(is_about_places).collect();
    keys.sort_by(|a, b| cluster.names.text(*a).cmp(cluster.names.text(*b)));
    let keys: Vec<String> = keys.into_iter().map(|key| cluster.names.text(key).to_string()).collect();
    let domains_count = |id: TopologyId, cluster: &Cluster| {
        let topology = cluster.topology(id);
        topology.domains().filter(|domain| !topology.nodes(*domain).is_empty()).count()
    };
    let limit = match domains_count(own, cluster) {
        // No node has the key: any other is worth a try.
        0 => usize::MAX,
        count => count,
    };
    let mut wider: Vec<_> = keys.iter().map(|key| cluster.topology_of(key)).collect();
    wider.retain(|id| domains_count(*id, cluster) < limit);
    wider.sort_by_key(|id| std::cmp::Reverse(domains_count(*id, cluster)));
    wider.truncate(KEYS_MAX);
    wider
}
