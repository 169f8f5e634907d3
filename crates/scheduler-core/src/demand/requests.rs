//! What one pod uses of its node: resources, host ports, and the default amounts that scores assume.

use smallvec::SmallVec;
use types::SmallMap;
use types::quantity::Quantity;
use types::views::{ContainerView, PodSpecView, PodView};

use crate::cluster::names::NameId;
use crate::cluster::{Cluster, MAX_REQUEST, PodCounts, ResourceId};

/// A pod's usage of its node. Equal pods share one. No amount is more than [`MAX_REQUEST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Usage {
    /// Requested amounts above zero, by resource.
    pub(crate) requests: Amounts,
    /// Requests as scores count them once the pod is on a node: a container without a CPU request counts as 100m,
    /// without a memory request as 200 MiB.
    pub(crate) scored: ScoredRequests,
    /// The same before it is on a node.
    // Upstream: pod-level requests are ignored before the pod is on a node, and the defaults are not applied after.
    pub(crate) scored_before: ScoredRequests,
    /// Ports of the node that the pod occupies.
    pub(crate) ports: Vec<HostPort>,
    /// What it counts in the counters of plugins.
    pub(crate) counts: PodCounts,
}

/// CPU and memory as the resource scores count them.
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

/// What a container without a request counts with.
const DEFAULT_REQUESTS: [(ResourceId, i64); 2] = [(ResourceId::CPU, 100), (ResourceId::MEMORY, 200 << 20)];

impl Usage {
    /// The usage of `pod`. New resource names get their id in `cluster`.
    pub(crate) fn of(view: &PodView, cluster: &mut Cluster) -> Usage {
        let pod = &view.spec;
        let requested = PodRequests::of(pod, cluster);
        let mut requests_sum = requested.total(&[]);
        // Nearly all containers request both, and no default applies.
        let before = requested.scored(&if requested.names_all(&DEFAULT_REQUESTS) {
            requests_sum.clone()
        } else {
            requested.total(&DEFAULT_REQUESTS)
        });
        let mut after = before;
        if let Some(pod_level) = &pod.resources {
            let pod_level = amounts(&pod_level.requests, cluster);
            let mut requests = requests_sum.clone();
            override_with(&mut requests, &pod_level);
            add(&mut requests, &requested.overhead);
            let is_unset = |(resource, _): &&(ResourceId, i64)| !requests.iter().any(|(set, _)| set == resource);
            let defaults: SmallVec<[_; 2]> = DEFAULT_REQUESTS.iter().filter(is_unset).copied().collect();
            let mut scored = requested.total(if pod_level.is_empty() { &DEFAULT_REQUESTS } else { &defaults });
            override_with(&mut scored, &pod_level);
            after = requested.scored(&scored);
            override_with(&mut requests_sum, &pod_level);
        }
        add(&mut requests_sum, &requested.overhead);
        requests_sum.retain(|(_, amount)| *amount > 0);
        requests_sum.iter_mut().for_each(|(_, amount)| *amount = (*amount).min(MAX_REQUEST));
        let (ports, counts) = (host_ports(pod, cluster), cluster.counts_of(view));
        Usage { scored: after, scored_before: before, requests: requests_sum, ports, counts }
    }

    /// Only what plugins count.
    pub(crate) fn only_counts(&self) -> Usage {
        Usage { counts: self.counts.clone(), ..Usage::default() }
    }

    /// The requested amount of `resource`.
    pub(crate) fn requested(&self, resource: ResourceId) -> i64 {
        amount(&self.requests, resource)
    }
}

/// The requests of a pod's containers, by resource id.
struct PodRequests {
    containers: SmallVec<[Amounts; 2]>,
    /// They run one after another; the flag marks sidecars.
    init_containers: SmallVec<[(Amounts, bool); 1]>,
    overhead: Amounts,
}

impl PodRequests {
    fn of(pod: &PodSpecView, cluster: &mut Cluster) -> PodRequests {
        let mut own = |container: &ContainerView| amounts(&container.resources.requests, cluster);
        let containers = pod.containers.iter().map(&mut own).collect();
        let init_containers =
            pod.init_containers.iter().map(|container| (own(container), is_sidecar(container))).collect();
        PodRequests { containers, init_containers, overhead: amounts(&pod.overhead, cluster) }
    }

    /// Whether every container requests all these resources.
    fn names_all(&self, defaults: &[(ResourceId, i64)]) -> bool {
        let mut all = self.containers.iter().chain(self.init_containers.iter().map(|(step, _)| step));
        all.all(|own| defaults.iter().all(|(resource, _)| own.iter().any(|(other, _)| other == resource)))
    }

    /// The larger of what the init containers need one after another and what the containers need together. Sidecars
    /// run during all of it. A container without a request for a resource of `defaults` counts with that amount.
    fn total(&self, defaults: &[(ResourceId, i64)]) -> Amounts {
        let mut together = Amounts::new();
        for container in &self.containers {
            add(&mut together, &with_defaults(container, defaults));
        }
        let mut sidecars = Amounts::new();
        let mut largest_step = Amounts::new();
        for (step, is_sidecar) in &self.init_containers {
            let mut step = with_defaults(step, defaults);
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
    container.is_restarted_always
}

fn with_defaults(own: &Amounts, defaults: &[(ResourceId, i64)]) -> Amounts {
    let mut all = own.clone();
    for (resource, amount) in defaults {
        if !own.iter().any(|(other, _)| other == resource) {
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
    amounts.iter().find(|(other, _)| *other == resource).map_or(0, |(_, amount)| *amount)
}

fn entry(amounts: &mut Amounts, resource: ResourceId) -> &mut i64 {
    let at = amounts.binary_search_by_key(&resource, |(other, _)| *other).unwrap_or_else(|at| {
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

/// Pod-level requests replace the sums of the containers.
fn override_with(sum: &mut Amounts, pod_level: &Amounts) {
    for (resource, amount) in pod_level {
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
        Usage::of(&pod, &mut Cluster::default())
    }

    fn cpu(amount: &str) -> serde_json::Value {
        json!({"requests": {"cpu": amount}})
    }

    #[test]
    fn init_containers_count_one_at_a_time_and_sidecars_throughout() {
        let usage = usage(json!({
            "containers": [{"resources": cpu("1")}, {"resources": cpu("2")}],
            "initContainers": [
                {"resources": cpu("500m"), "restartPolicy": "Always"},
                {"resources": cpu("4")},
            ],
            "overhead": {"cpu": "100m"},
        }));
        // The second init container runs beside the sidecar: 4 + 0.5, more than 1 + 2 + 0.5 of the main containers.
        assert_eq!(usage.requested(ResourceId::CPU), 4600);
    }

    #[test]
    fn pod_level_requests_replace_those_of_the_containers() {
        let usage = usage(json!({"containers": [{"resources": cpu("1")}], "resources": cpu("3")}));
        assert_eq!(usage.requested(ResourceId::CPU), 3000);
    }

    #[test]
    fn scores_assume_amounts_for_containers_without_requests() {
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
            Usage::of(&pod, &mut cluster).ports[0]
        };
        let (all, a, b) = (one("0.0.0.0"), one("10.0.0.1"), one("10.0.0.2"));
        assert!(all.conflicts_with(a) && a.conflicts_with(all) && a.conflicts_with(a));
        assert!(!a.conflicts_with(b));
    }
}
