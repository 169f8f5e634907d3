//! An outside crate can write the built-in filters: these use only the public interface, and have the same verdicts and
//! reasons on generated clusters.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use phalanx_scheduler_core::profile::FilterPlugin;
use phalanx_scheduler_core::{
    Class, ClusterEvents, Filter, HostPortRef, LoadAssumption, NO_LIMIT, NodeRef, PluginKind, PodSpecFields, Profile,
    ReadSet, Reason, RequirementOperator, RequirementRef, Survey, TaintEffect, TaintRef, TermRef, TolerationOperator,
    TolerationRef,
};
use serde_json::{Value, json};
use types::Random;
use types::views::{NodeView, PodView, View};

#[derive(Debug)]
enum OwnFilter {
    Taints,
    Affinity,
    Ports,
    Resources,
}

impl Filter for OwnFilter {
    fn name(&self) -> &str {
        match self {
            OwnFilter::Taints => "TaintToleration",
            OwnFilter::Affinity => "NodeAffinity",
            OwnFilter::Ports => "NodePorts",
            OwnFilter::Resources => "NodeResourcesFit",
        }
    }

    fn kind(&self) -> PluginKind {
        match self {
            OwnFilter::Taints | OwnFilter::Affinity => PluginKind::Static,
            OwnFilter::Ports | OwnFilter::Resources => PluginKind::Counted,
        }
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(match self {
            OwnFilter::Taints => PodSpecFields::TOLERATIONS,
            OwnFilter::Affinity => PodSpecFields::REQUIRED_NODES,
            OwnFilter::Ports | OwnFilter::Resources => PodSpecFields::USAGE,
        })
    }

    fn events_to_register(&self, _: &Class) -> ClusterEvents {
        ClusterEvents::NODE_ADD
            | match self {
                OwnFilter::Taints => ClusterEvents::NODE_TAINTS,
                OwnFilter::Affinity => ClusterEvents::NODE_LABELS,
                OwnFilter::Ports => ClusterEvents::ASSIGNED_POD_DELETE,
                OwnFilter::Resources => ClusterEvents::ASSIGNED_POD_DELETE | ClusterEvents::NODE_ALLOCATABLE,
            }
    }

    fn slots(&self, class: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32 {
        let unlimited_if = |fits: bool| if fits { NO_LIMIT } else { 0 };
        match self {
            OwnFilter::Taints => unlimited_if(tolerates_all(class, node)),
            OwnFilter::Affinity => unlimited_if(is_selected(class, node)),
            OwnFilter::Ports => free_port_slots(class, node, load),
            OwnFilter::Resources => free_slots(class, node, load),
        }
    }

    fn reasons(&self, class: &Class, node: NodeRef<'_>, more: u32, report: &mut dyn FnMut(Reason)) {
        match self {
            OwnFilter::Taints => report(Reason::new("node(s) had untolerated taint(s)")),
            OwnFilter::Affinity => report(Reason::new("node(s) didn't match Pod's node affinity/selector")),
            OwnFilter::Ports => report(Reason::new("node(s) didn't have free ports for the requested pod ports")),
            OwnFilter::Resources => {
                if node.pods_allowed() - node.pods_count() <= i64::from(more) {
                    report(Reason::new("Too many pods"));
                }
                for (resource, amount) in node.fields_of(class).requests() {
                    if (node.allocatable(resource) - node.requested(resource)) / amount <= i64::from(more) {
                        node.insufficient(resource).into_iter().for_each(&mut *report);
                    }
                }
            }
        }
    }
}

fn tolerates_all(class: &Class, node: NodeRef<'_>) -> bool {
    let tolerates = |toleration: TolerationRef<'_>, taint: TaintRef<'_>| {
        toleration.effect.is_none_or(|effect| effect == taint.effect)
            && toleration.key.is_none_or(|key| key == taint.key)
            && (toleration.operator == TolerationOperator::Exists || toleration.value == taint.value)
    };
    let mut hard = node.taints().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule);
    hard.all(|taint| node.fields_of(class).tolerations().any(|toleration| tolerates(toleration, taint)))
}

fn is_selected(class: &Class, node: NodeRef<'_>) -> bool {
    let holds = |requirement: RequirementRef<'_>, value: Option<&str>| {
        let number = value.and_then(|value| value.parse::<i64>().ok());
        match requirement.operator() {
            RequirementOperator::In => value.is_some_and(|value| requirement.values().any(|one| one == value)),
            RequirementOperator::NotIn => value.is_none_or(|value| requirement.values().all(|one| one != value)),
            RequirementOperator::Exists => value.is_some(),
            RequirementOperator::DoesNotExist => value.is_none(),
            RequirementOperator::Gt(bound) => number.is_some_and(|number| number > bound),
            RequirementOperator::Lt(bound) => number.is_some_and(|number| number < bound),
            RequirementOperator::Unknown => false,
        }
    };
    let matches = |term: TermRef<'_>| {
        let has_requirements = term.labels().chain(term.names()).next().is_some();
        has_requirements
            && term.labels().all(|requirement| holds(requirement, node.label(requirement.key())))
            && term.names().all(|requirement| holds(requirement, Some(node.name())))
    };
    let fields = node.fields_of(class);
    fields.node_selector().all(|(key, value)| node.label(key) == Some(value))
        && fields.required_terms().is_none_or(|mut terms| terms.any(matches))
}

fn free_port_slots(class: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32 {
    let conflict = |one: HostPortRef<'_>, other: HostPortRef<'_>| {
        let overlap = one.address.is_none() || other.address.is_none() || one.address == other.address;
        (one.port, one.protocol) == (other.port, other.protocol) && overlap
    };
    let wanted = || node.fields_of(class).host_ports();
    let is_free = |port| load == LoadAssumption::Empty || !node.host_ports().any(|used| conflict(port, used));
    if wanted().next().is_none() { NO_LIMIT } else { u32::from(wanted().all(is_free)) }
}

fn free_slots(class: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32 {
    let used = |amount: i64| if load == LoadAssumption::Now { amount } else { 0 };
    let mut slots = node.pods_allowed() - used(node.pods_count());
    for (resource, amount) in node.fields_of(class).requests() {
        slots = slots.min((node.allocatable(resource) - used(node.requested(resource))).max(0) / amount);
    }
    u32::try_from(slots.max(0)).unwrap()
}

struct Generator(Random);

impl Generator {
    fn one_of<'a>(&self, values: &[&'a str]) -> &'a str {
        values[self.0.below(values.len() as u64) as usize]
    }

    fn node(&self, name: &str) -> NodeView {
        let taints: Vec<Value> = (0..self.0.below(3))
            .map(|_| {
                let effect = self.one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
                json!({"key": self.one_of(&["dedicated", "gpu"]), "value": self.one_of(&["", "a"]), "effect": effect})
            })
            .collect();
        let document = json!({
            "metadata": {"name": name, "labels": {"zone": self.one_of(&["a", "b"]), "size": self.one_of(&["1", "5"])}},
            "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": self.one_of(&["1", "4"]), "memory": "8Gi", "pods": self.one_of(&["1", "5"])}},
        });
        NodeView::decode(document.to_string().as_bytes()).unwrap()
    }

    fn pod(&self, name: &str, node: &str) -> PodView {
        let requirement = json!({
            "key": self.one_of(&["zone", "size", "disk"]),
            "operator": self.one_of(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
            "values": [self.one_of(&["a", "3"])],
        });
        let by_name = json!({"key": "metadata.name", "operator": "In", "values": ["node-1"]});
        let term = match self.0.below(4) {
            0 => json!({}),
            1 => json!({"matchFields": [by_name]}),
            _ => json!({"matchExpressions": [requirement]}),
        };
        let tolerations: Vec<Value> = (0..self.0.below(3))
            .map(|_| json!({"key": self.one_of(&["dedicated", "gpu"]), "operator": self.one_of(&["Equal", "Exists"])}))
            .collect();
        let ports = [json!([]), json!([{"hostPort": 80}]), json!([{"hostPort": 80, "hostIP": "10.0.0.1"}])];
        let affinity = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        }});
        let document = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {
                "schedulerName": "default-scheduler", "nodeName": node, "tolerations": tolerations,
                "nodeSelector": if self.0.below(2) == 0 { json!({"zone": "a"}) } else { json!({}) },
                "affinity": if self.0.below(2) == 0 { affinity } else { json!({}) },
                "containers": [{
                    "name": "main", "ports": ports[self.0.below(3) as usize],
                    "resources": {"requests": {"cpu": self.one_of(&["500m", "1"]), "memory": "1Gi"}},
                }],
            },
        });
        PodView::decode(document.to_string().as_bytes()).unwrap()
    }
}

#[test]
fn filters_of_an_outside_crate_have_the_verdicts_of_the_built_in_ones() {
    let mut refusals = 0;
    for own in [OwnFilter::Taints, OwnFilter::Affinity, OwnFilter::Ports, OwnFilter::Resources] {
        let own: Arc<dyn Filter> = Arc::new(own);
        let only = |filters: Vec<FilterPlugin>| Profile { filters, scores: Vec::new(), ..Profile::default() };
        let built_in = Profile::default().filters.into_iter().filter(|filter| filter.name() == own.name());
        let built_in = only(built_in.collect());
        let own_profile = only(vec![FilterPlugin::Custom(Arc::clone(&own))]);
        let generator = Generator(Random::seeded(7));
        for case in 0..200 {
            let nodes: Vec<NodeView> = (0..4).map(|at| generator.node(&format!("node-{at}"))).collect();
            let running: Vec<PodView> =
                (0..6).map(|at| generator.pod(&format!("r{at}"), &format!("node-{}", at % 4))).collect();
            let pod = generator.pod("pod", "");
            let verdict = Survey::of(&own_profile, &nodes, &running, &pod);
            assert_eq!(verdict, Survey::of(&built_in, &nodes, &running, &pod), "{} in case {case}", own.name());
            refusals += verdict.nodes.iter().filter(|node| !node.objections.is_empty()).count();
        }
    }
    assert!(refusals > 500, "{refusals}");
}
