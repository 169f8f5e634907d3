//! Which other topology key would let the unit fit, or none.

use super::{RemedyRequest, SearchContext};
use crate::cluster::names::NameId;
use crate::cluster::{Cluster, OccupiedDomains, TopologyId};
use crate::cycle::Trial;
use crate::demand::{Demand, DomainConstraint};
use crate::explain::remedies::Remedy;

/// How many other keys are tried.
const MAX_KEYS: usize = 4;

/// Words in the key of a topology label. Of any other label it is unknown whether nodes that share its value are
/// close to each other.
const TOPOLOGY_KEY_WORDS: [&str; 5] = ["topology", "region", "zone", "block", "rack"];

/// The narrowest key that is wider than the group's own and lets it fit; otherwise no key, if that helps.
pub(super) fn wider_topology_key(request: &RemedyRequest<'_>, context: &mut SearchContext<'_>) -> Option<Remedy> {
    let constraint = request.demand.constraint.as_ref()?;
    let text = |name: NameId, context: &SearchContext<'_>| context.cluster.names.text(name).to_string();
    let from = text(context.cluster.topology(constraint.topology).key(), context);
    for topology in wider_keys(constraint.topology, context.cluster) {
        let mut members = OccupiedDomains::default();
        request.members_on.iter().for_each(|node| members.add(*node, context.cluster.topology(topology)));
        let constraint = DomainConstraint::with_members(topology, members, context.cluster);
        let demand = Demand { constraint: Some(constraint), ..request.demand.clone() };
        if let Some(Trial::Fits(region)) = context.try_decide(&demand) {
            let chosen = region.chosen_domain(context.cluster)?;
            let recreate = request.root_owner.clone();
            return Some(Remedy::OtherKey { from, to: chosen.key, value: chosen.value, recreate });
        }
    }
    let demand = Demand { constraint: None, ..request.demand.clone() };
    matches!(context.try_decide(&demand)?, Trial::Fits(_))
        .then(|| Remedy::NoKey { from, recreate: request.root_owner.clone() })
}

/// Keys with fewer domains than `own`, those with the most first.
fn wider_keys(own: TopologyId, cluster: &mut Cluster) -> Vec<TopologyId> {
    let own_key = cluster.topology(own).key();
    let is_topology_key = |key: &NameId| {
        let text = cluster.names.text(*key);
        *key != own_key && TOPOLOGY_KEY_WORDS.iter().any(|word| text.contains(word))
    };
    let mut keys: Vec<_> = cluster.label_keys().into_iter().filter(is_topology_key).collect();
    keys.sort_by(|a, b| cluster.names.text(*a).cmp(cluster.names.text(*b)));
    let keys: Vec<String> = keys.into_iter().map(|key| cluster.names.text(key).to_string()).collect();
    let domains_count = |id: TopologyId, cluster: &Cluster| {
        let topology = cluster.topology(id);
        topology.domains().filter(|domain| !topology.nodes(*domain).is_empty()).count()
    };
    let limit = match domains_count(own, cluster) {
        // No node has the key: any other is worth a trial.
        0 => usize::MAX,
        count => count,
    };
    let mut wider: Vec<_> = keys.iter().map(|key| cluster.topology_of(key)).collect();
    wider.retain(|id| domains_count(*id, cluster) < limit);
    wider.sort_by_key(|id| std::cmp::Reverse(domains_count(*id, cluster)));
    wider.truncate(MAX_KEYS);
    wider
}
