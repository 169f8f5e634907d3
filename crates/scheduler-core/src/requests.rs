//! What one pod takes from its node: resources, host ports, and the stand-in amounts scores use.

use smallvec::SmallVec;
use types::SmallMap;
use types::quantity::Quantity;
use types::views::{ContainerView, PodSpecView};

use crate::cluster::{Cluster, MAX_REQUEST, ResourceId};
use crate::names::NameId;

/// A pod's demand on its node. Equal pods share one. No amount is more than [`ASKED_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Usage {
    /// Requested amounts above zero, by resource.
    pub(crate) requests: Amounts,
    /// Requests as scores count them once the pod is on a node: a container that asks for no CPU counts as 100m, for no
    /// memory as 200 MiB.
    pub(crate) scored: ScoredRequests,
    /// The same before it is on a node.
    // Upstream: requests of the pod as a whole are not looked at before, and the stand-ins are not applied after.
    pub(crate) scored_before: ScoredRequests,
    /// Ports of the node that the pod occupies.
    pub(crate) ports: Vec<HostPort>,
}

/// CPU and memory as the resource scores see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ScoredRequests {
    pub(crate) cpu_milli: i64,
    pub(crate) memory_bytes: i64,
}

/// Amounts per resource, sorted by resource, none of them zero.
pub(crate) type Amounts = SmallVec<[(ResourceId, i64); 4]>;

/// One port of the node. Two conflict when port and protocol are equal and the addresses overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostPort {
    pub(crate) port: i32,
    pub(crate) protocol: NameId,
    /// `None`: all addresses.
    pub(crate) address: Option<NameId>,
}

impl HostPort {
    pub(crate) fn conflicts_with(self, other: HostPort) -> bool {
        let addresses_overlap = self.address.is_none() || other.address.is_none() || self.address == other.address;
        self.port == other.port && self.protocol == other.protocol && addresses_overlap
    }
}

/// What a container counts with that does not ask.
const DEFAULT_REQUESTS: [(ResourceId, i64); 2] = [(ResourceId::CPU, 100), (ResourceId::MEMORY, 200 << 20)];

impl Usage {
    /// What `pod` takes. New resource names get their number in `cluster`.
    pub(crate) fn of(pod: &PodSpecView, cluster: &mut Cluster) -> Usage {
        let asked = PodRequests::of(pod, cluster);
        let mut parts = asked.total(&[]);
        // Nearly all containers ask for both, and nothing is to be assumed.
        let before = asked.scored(&if asked.names_all(&DEFAULT_REQUESTS) {
            parts.clone()
        } else {
            asked.total(&DEFAULT_REQUESTS)
        });
        let mut after = before;
        if let Some(whole) = &pod.resources {
            let whole = amounts(&whole.requests, cluster);
            let mut requests = parts.clone();
            override_with(&mut requests, &whole);
            add(&mut requests, &asked.overhead);
            let unasked = |(resource, _): &&(ResourceId, i64)| !requests.iter().any(|(asked, _)| asked == resource);
            let assumed: SmallVec<[_; 2]> = DEFAULT_REQUESTS.iter().filter(unasked).copied().collect();
            let mut scored = asked.total(if whole.is_empty() { &DEFAULT_REQUESTS } else { &assumed });
            override_with(&mut scored, &whole);
            after = asked.scored(&scored);
            override_with(&mut parts, &whole);
        }
        add(&mut parts, &asked.overhead);
        parts.retain(|(_, amount)| *amount > 0);
        parts.iter_mut().for_each(|(_, amount)| *amount = (*amount).min(MAX_REQUEST));
        Usage { scored: after, scored_before: before, requests: parts, ports: host_ports(pod, cluster) }
    }

    /// The requested amount of `resource`.
    pub(crate) fn requested(&self, resource: ResourceId) -> i64 {
        amount(&self.requests, resource)
    }
}

/// What the containers of a pod ask for, by resource numbers.
struct PodRequests {
    containers: SmallVec<[Amounts; 2]>,
    /// One after another, each with whether it is a sidecar.
    init_containers: SmallVec<[(Amounts, bool); 1]>,
    overhead: Amounts,
}

impl PodRequests {
    fn of(pod: &PodSpecView, cluster: &mut Cluster) -> PodRequests {
        let mut own = |container: &ContainerView| amounts(&container.resources.requests, cluster);
        let containers = pod.containers.iter().map(&mut own).collect();
        let steps = pod.init_containers.iter().map(|container| (own(container), is_sidecar(container))).collect();
        PodRequests { containers, init_containers: steps, overhead: amounts(&pod.overhead, cluster) }
    }

    /// Whether every container says how much it wants of all these.
    fn names_all(&self, assumed: &[(ResourceId, i64)]) -> bool {
        let mut all = self.containers.iter().chain(self.init_containers.iter().map(|(step, _)| step));
        all.all(|own| assumed.iter().all(|(resource, _)| own.iter().any(|(named, _)| named == resource)))
    }

    /// The larger of what the init steps need one after another and what the containers need together. Sidecars run
    /// through all of it. A container that does not ask for a resource of `assumed` counts with that amount.
    fn total(&self, assumed: &[(ResourceId, i64)]) -> Amounts {
        let mut together = Amounts::new();
        for container in &self.containers {
            add(&mut together, &with_defaults(container, assumed));
        }
        let mut sidecars = Amounts::new();
        let mut largest_step = Amounts::new();
        for (step, is_sidecar) in &self.init_containers {
            let mut step = with_defaults(step, assumed);
            if *is_sidecar {
                add(&mut together, &step);
                add(&mut sidecars, &step);
                step = sidecars.clone();
            } else {
                add(&mut step, &sidecars);
            }
            raise_to(&mut largest_step, &step);
        }
        raise_to(&mut together, &largest_step);
        together
    }

    fn scored(&self, containers: &Amounts) -> ScoredRequests {
        let sum = |resource| amount(containers, resource).saturating_add(amount(&self.overhead, resource));
        let of = |resource| sum(resource).clamp(0, MAX_REQUEST);
        ScoredRequests { cpu_milli: of(ResourceId::CPU), memory_bytes: of(ResourceId::MEMORY) }
    }
}

fn is_sidecar(container: &ContainerView) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn with_defaults(own: &Amounts, assumed: &[(ResourceId, i64)]) -> Amounts {
    let mut all = own.clone();
    for (resource, amount) in assumed {
        if !own.iter().any(|(named, _)| named == resource) {
            *entry(&mut all, *resource) = *amount;
        }
    }
    all
}

fn amounts(quantities: &SmallMap<Quantity>, cluster: &mut Cluster) -> Amounts {
    let mut amounts = Amounts::new();
    for (name, quantity) in quantities {
        let resource = cluster.resource(name);
        *entry(&mut amounts, resource) = resource.amount(*quantity);
    }
    amounts
}

fn host_ports(pod: &PodSpecView, cluster: &mut Cluster) -> Vec<HostPort> {
    let sidecars = pod.init_containers.iter().filter(|container| is_sidecar(container));
    let mut ports = Vec::new();
    for port in pod.containers.iter().chain(sidecars).flat_map(|container| &container.ports) {
        if port.host_port > 0 {
            let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
            let address = Some(port.host_ip.as_str()).filter(|ip| !matches!(*ip, "" | "0.0.0.0"));
            ports.push(HostPort {
                port: port.host_port,
                protocol: cluster.names.intern(protocol),
                address: address.map(|ip| cluster.names.intern(ip)),
            });
        }
    }
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn amount(amounts: &Amounts, resource: ResourceId) -> i64 {
    amounts.iter().find(|(named, _)| *named == resource).map_or(0, |(_, amount)| *amount)
}

fn entry(amounts: &mut Amounts, resource: ResourceId) -> &mut i64 {
    let at = amounts.binary_search_by_key(&resource, |(named, _)| *named).unwrap_or_else(|at| {
        amounts.insert(at, (resource, 0));
        at
    });
    &mut amounts[at].1
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        let total = entry(sum, *resource);
        *total = total.saturating_add(*amount);
    }
}

/// Requests of the pod as a whole stand in place of the sums of its containers.
fn override_with(sum: &mut Amounts, whole: &Amounts) {
    for (resource, amount) in whole {
        *entry(sum, *resource) = *amount;
    }
}

fn raise_to(floor: &mut Amounts, other: &Amounts) {
    for (resource, amount) in other {
        let value = entry(floor, *resource);
        *value = (*value).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;
    use types::views::{PodView, View};

    use super::Usage;
    use crate::cluster::{Cluster, ResourceId};

    fn usage(spec: serde_json::Value) -> Usage {
        let pod = PodView::decode(json!({"metadata": {"name": "p"}, "spec": spec}).to_string().as_bytes()).unwrap();
        Usage::of(&pod.spec, &mut Cluster::default())
    }

    fn cpu(amount: &str) -> serde_json::Value {
        json!({"requests": {"cpu": amount}})
    }

    #[test]
    fn init_steps_count_one_at_a_time_and_sidecars_throughout() {
        let usage = usage(json!({
            "containers": [{"resources": cpu("1")}, {"resources": cpu("2")}],
            "initContainers": [
                {"resources": cpu("500m"), "restartPolicy": "Always"},
                {"resources": cpu("4")},
            ],
            "overhead": {"cpu": "100m"},
        }));
        // The second init step runs beside the sidecar: 4 + 0.5, more than 1 + 2 + 0.5 of the main part.
        assert_eq!(usage.requested(ResourceId::CPU), 4600);
    }

    #[test]
    fn requests_of_the_whole_pod_replace_those_of_its_containers() {
        let usage = usage(json!({"containers": [{"resources": cpu("1")}], "resources": cpu("3")}));
        assert_eq!(usage.requested(ResourceId::CPU), 3000);
    }

    #[test]
    fn scores_assume_amounts_for_containers_that_ask_for_nothing() {
        let usage = usage(json!({"containers": [{}, {"resources": cpu("1")}]}));
        assert_eq!(usage.requested(ResourceId::MEMORY), 0);
        assert_eq!((usage.scored.cpu_milli, usage.scored.memory_bytes), (1100, 400 << 20));
    }

    #[test]
    fn ports_conflict_when_addresses_overlap() {
        let port = |ip: &str| json!({"containers": [{"ports": [{"hostPort": 80, "hostIP": ip}]}]});
        let mut cluster = Cluster::default();
        let mut one = |ip| {
            let pod = PodView::decode(json!({"spec": port(ip)}).to_string().as_bytes()).unwrap();
            Usage::of(&pod.spec, &mut cluster).ports[0]
        };
        let (all, a, b) = (one("0.0.0.0"), one("10.0.0.1"), one("10.0.0.2"));
        assert!(all.conflicts_with(a) && a.conflicts_with(all) && a.conflicts_with(a));
        assert!(!a.conflicts_with(b));
    }
}
