//! What a plugin reads of a class and a node, with names as text. The core stores names as numbers.

use crate::cluster::names::NameId;
use crate::cluster::{Cluster, Effect, NodeRef, ResourceId};
use crate::demand::classes::{Class, Operator, Requirement, Term, TolerationOperator};
use crate::demand::requests::HostPort;
use crate::plugins::filters::Reason;
use crate::plugins::scores::AllNodes;

/// The fields of a class, from [`NodeRef::fields_of`]. Fields that no plugin of the profile declares to read are empty.
#[derive(Clone, Copy, Debug)]
pub struct ClassFields<'a> {
    class: &'a Class,
    cluster: &'a Cluster,
}

impl<'a> ClassFields<'a> {
    /// What one pod requests, by resource: thousandths of a CPU, whole units of all others. None is 0.
    pub fn requests(self) -> impl Iterator<Item = (&'a str, i64)> {
        let requests = self.class.usage.requests.iter();
        requests.map(move |(resource, amount)| (self.cluster.resource_name(*resource), *amount))
    }

    /// What scores count for one pod of CPU (thousandths) and memory (bytes): containers without a request count with a
    /// default.
    pub fn scored_requests(self) -> (i64, i64) {
        let scored = self.class.usage.scored_before;
        (scored.cpu_milli, scored.memory_bytes)
    }

    /// Ports of the node that one pod occupies.
    pub fn host_ports(self) -> impl Iterator<Item = HostPortRef<'a>> {
        self.class.usage.ports.iter().map(move |port| HostPortRef::of(*port, self.cluster))
    }

    /// Its tolerations.
    pub fn tolerations(self) -> impl Iterator<Item = TolerationRef<'a>> {
        self.class.tolerations.iter().map(move |toleration| TolerationRef {
            key: toleration.key.map(|key| text(key, self.cluster)),
            operator: toleration.operator,
            value: text(toleration.value, self.cluster),
            effect: toleration.effect,
        })
    }

    /// The labels and values of its node selector.
    pub fn node_selector(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let selector = self.class.required.selector.iter();
        selector.map(move |(key, value)| (text(*key, self.cluster), text(*value, self.cluster)))
    }

    /// The required terms of its node affinity, of which one must match; `None` without such a requirement.
    pub fn required_terms(self) -> Option<impl Iterator<Item = TermRef<'a>>> {
        let terms = self.class.required.terms.as_ref()?;
        Some(terms.iter().map(move |term| TermRef { term, cluster: self.cluster }))
    }

    /// The preferred terms of its node affinity, with their weights.
    pub fn preferred_terms(self) -> impl Iterator<Item = (i32, TermRef<'a>)> {
        self.class.preferred.iter().map(move |(weight, term)| (*weight, TermRef { term, cluster: self.cluster }))
    }

    /// The node that the pod names although it is not bound to it.
    pub fn node_name(self) -> Option<&'a str> {
        self.class.node_name.map(|name| text(name, self.cluster))
    }

    /// The full names of its images, each once per mention.
    pub fn images(self) -> impl Iterator<Item = &'a str> {
        self.class.images.iter().map(move |image| text(*image, self.cluster))
    }
}

impl<'a> NodeRef<'a> {
    /// The fields of a class.
    pub fn fields_of(self, class: &'a Class) -> ClassFields<'a> {
        ClassFields { class, cluster: self.cluster }
    }

    /// Its taints.
    pub fn taints(self) -> impl Iterator<Item = TaintRef<'a>> {
        self.info().taints.iter().map(move |taint| TaintRef {
            key: text(taint.key, self.cluster),
            value: text(taint.value, self.cluster),
            effect: taint.effect,
        })
    }

    /// The ports that its pods occupy, once per pod.
    pub fn host_ports(self) -> impl Iterator<Item = HostPortRef<'a>> {
        self.cluster.ports(self.index).iter().map(move |port| HostPortRef::of(*port, self.cluster))
    }

    /// The size of an image, by its full name, if the node has it.
    pub fn image_bytes(self, image: &str) -> Option<i64> {
        self.info().image_bytes(self.cluster.names.get(image)?)
    }

    /// What its pods use of CPU (thousandths) and memory (bytes) as scores count it.
    pub fn scored_requests(self) -> (i64, i64) {
        let scored = |resource| self.cluster.scored(resource)[self.index.at()];
        (scored(ResourceId::CPU), scored(ResourceId::MEMORY))
    }

    /// The reason that it has too little of a resource.
    pub fn insufficient(self, resource: &str) -> Option<Reason> {
        self.cluster.find_resource(resource).map(Reason::insufficient)
    }

    /// All nodes together.
    pub fn all_nodes(self) -> AllNodes<'a> {
        AllNodes(self.cluster)
    }
}

impl AllNodes<'_> {
    /// How many nodes have an image, by its full name.
    pub fn with_image(self, image: &str) -> usize {
        self.0.names.get(image).map_or(0, |image| self.0.nodes_with_image(image) as usize)
    }
}

/// A host port. Two conflict when port and protocol are equal and the addresses overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPortRef<'a> {
    /// The port.
    pub port: i32,
    /// The protocol.
    pub protocol: &'a str,
    /// The address; `None`: all addresses.
    pub address: Option<&'a str>,
}

impl<'a> HostPortRef<'a> {
    fn of(port: HostPort, cluster: &'a Cluster) -> HostPortRef<'a> {
        let address = port.address.map(|address| text(address, cluster));
        HostPortRef { port: port.port, protocol: text(port.protocol, cluster), address }
    }
}

/// A taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaintRef<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its value; may be empty.
    pub value: &'a str,
    /// Its effect.
    pub effect: Effect,
}

/// A toleration. A field that is `None` matches everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TolerationRef<'a> {
    /// Its key.
    pub key: Option<&'a str>,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// Its value; may be empty.
    pub value: &'a str,
    /// Its effect.
    pub effect: Option<Effect>,
}

/// One alternative of node affinity: all requirements must hold. A term without requirements matches nothing.
#[derive(Clone, Copy, Debug)]
pub struct TermRef<'a> {
    term: &'a Term,
    cluster: &'a Cluster,
}

impl<'a> TermRef<'a> {
    /// Requirements on labels.
    pub fn labels(self) -> impl Iterator<Item = RequirementRef<'a>> {
        self.term.labels.iter().map(move |requirement| RequirementRef { requirement, cluster: self.cluster })
    }

    /// Requirements on the name of the node.
    pub fn names(self) -> impl Iterator<Item = RequirementRef<'a>> {
        self.term.names.iter().map(move |requirement| RequirementRef { requirement, cluster: self.cluster })
    }
}

/// `key operator values`.
#[derive(Clone, Copy, Debug)]
pub struct RequirementRef<'a> {
    requirement: &'a Requirement,
    cluster: &'a Cluster,
}

impl<'a> RequirementRef<'a> {
    /// The label; the field for a requirement on the name.
    pub fn key(self) -> &'a str {
        text(self.requirement.key, self.cluster)
    }

    /// The operator.
    pub fn operator(self) -> Operator {
        self.requirement.operator
    }

    /// The values of `In` and `NotIn`.
    pub fn values(self) -> impl Iterator<Item = &'a str> {
        self.requirement.values.iter().map(move |value| text(*value, self.cluster))
    }
}

fn text(name: NameId, cluster: &Cluster) -> &str {
    cluster.names.text(name)
}
