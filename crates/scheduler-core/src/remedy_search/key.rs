//! Which other topology key would do, or none.

use super::{RemedyRequest, SearchContext};
use crate::cluster::{Cluster, OccupiedDomains, TopologyId};
use crate::cycle::Trial;
use crate::demand::{Demand, DomainConstraint};
use crate::names::NameId;
use crate::remedies::Remedy;

/// How many other keys are tried.
const MAX_KEYS: usize = 4;

/// Words by which a label's key tells that it is about places. Of any other label nobody knows whether pods that share
/// its value are near each other.
const TOPOLOGY_KEY_WORDS: [&str; 5] = ["topology", "region", "zone", "block", "rack"];

/// The narrowest key that is wider than the group's own and with which it fits; or else none at all, if that helps.
pub(super) fn wider_topology_key(asked: &RemedyRequest<'_>, desk: &mut SearchContext<'_>) -> Option<Remedy> {
    let constraint = asked.demand.constraint.as_ref()?;
    let text = |name: NameId, desk: &SearchContext<'_>| desk.cluster.names.text(name).to_string();
    let from = text(desk.cluster.topology(constraint.topology).key(), desk);
    for topology in wider_keys(constraint.topology, desk.cluster) {
        let mut members = OccupiedDomains::default();
        asked.members_on.iter().for_each(|node| members.add(*node, desk.cluster.topology(topology)));
        let constraint = DomainConstraint::with_members(topology, members, desk.cluster);
        let need = Demand { constraint: Some(constraint), ..asked.demand.clone() };
        if let Some(Trial::Fits(region)) = desk.try_decide(&need) {
            let chosen = region.chosen_domain(desk.cluster)?;
            let recreate = asked.root_owner.clone();
            return Some(Remedy::OtherKey { from, to: chosen.key, value: chosen.value, recreate });
        }
    }
    let need = Demand { constraint: None, ..asked.demand.clone() };
    matches!(desk.try_decide(&need)?, Trial::Fits(_))
        .then(|| Remedy::NoKey { from, recreate: asked.root_owner.clone() })
}

/// Keys with fewer domains than `own`, those with the most first.
fn wider_keys(own: TopologyId, cluster: &mut Cluster) -> Vec<TopologyId> {
    let own_key = cluster.topology(own).key();
    let is_about_places = |key: &NameId| {
        let text = cluster.names.text(*key);
        *key != own_key && TOPOLOGY_KEY_WORDS.iter().any(|word| text.contains(word))
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
    wider.truncate(MAX_KEYS);
    wider
}
