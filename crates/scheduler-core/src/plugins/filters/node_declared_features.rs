//! A pod that requires features of the kubelet fits only on nodes that declare them in `status.declaredFeatures`.
//!
//! Required features are inferred from the pod's spec. The gate NodeDeclaredFeatures is locked on in 1.37.
// Upstream: the filter is applied last, so a node that also lacks resources is reported for those. Here static filters
// come first.

use types::views::{ContainerView, PodSpecView};

use super::{Filter, LoadAssumption, NO_LIMIT, PluginKind, Reason, limit_slots_each};
use crate::cluster::names::NameId;
use crate::cluster::{Cluster, NodeRef, NodeRefs};
use crate::demand::classes::Class;
use crate::demand::reads::{InferredValue, PodSpecFields, ReadSet};
use crate::queue::cluster_events::ClusterEvents;

/// A feature that a pending pod can require.
struct DeclaredFeature {
    name: &'static str,
    is_required: fn(&PodSpecView) -> bool,
}

/// All of them. Kubelets declare more features, but those matter only for updates of pods or not for pods at all. None
/// of these ends with a version of Kubernetes.
const FEATURES: [DeclaredFeature; 3] = [
    DeclaredFeature {
        name: "RestartAllContainersOnContainerExits",
        is_required: |spec| containers(spec).any(|container| container.restarts_all),
    },
    DeclaredFeature {
        name: "UserNamespacesHostNetworkSupport",
        is_required: |spec| spec.host_network && spec.host_users == Some(false),
    },
    DeclaredFeature {
        name: "VolumeBindMountOptions",
        is_required: |spec| {
            containers(spec).any(|container| container.has_bind_mount_options) || spec.ephemeral_bind_mount_options
        },
    },
];

/// Bit `n` is set if the pod requires the feature at position `n`.
const REQUIRED: InferredValue = InferredValue {
    name: "NodeDeclaredFeatures",
    infer: |spec| {
        let required = FEATURES.iter().enumerate().filter(|(_, feature)| (feature.is_required)(spec));
        required.fold(0, |bits, (at, _)| bits | 1 << at)
    },
};

fn containers(spec: &PodSpecView) -> impl Iterator<Item = &ContainerView> {
    spec.containers.iter().chain(&spec.init_containers)
}

#[derive(Debug)]
pub(super) struct NodeDeclaredFeatures {
    /// Names of [`FEATURES`].
    names: [NameId; FEATURES.len()],
}

impl NodeDeclaredFeatures {
    pub(super) fn of(cluster: &mut Cluster) -> NodeDeclaredFeatures {
        NodeDeclaredFeatures { names: FEATURES.map(|feature| cluster.names.intern(feature.name)) }
    }
}

impl Filter for NodeDeclaredFeatures {
    fn name(&self) -> &str {
        "NodeDeclaredFeatures"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Static
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::NONE).with_inferred(REQUIRED)
    }

    fn events_to_register(&self, class: &Class) -> ClusterEvents {
        match class.inferred(REQUIRED.name) {
            0 => ClusterEvents::NONE,
            _ => ClusterEvents::NODE_ADD | ClusterEvents::NODE_DECLARED_FEATURES,
        }
    }

    fn slots(&self, class: &Class, node: NodeRef<'_>, _: LoadAssumption) -> u32 {
        let required = class.inferred(REQUIRED.name);
        let mut names = self.names.iter().enumerate().filter(|(at, _)| required & (1 << at) != 0);
        if names.all(|(_, name)| node.info().declares(*name)) { NO_LIMIT } else { 0 }
    }

    fn limit_slots(&self, class: &Class, nodes: NodeRefs<'_>, load: LoadAssumption, slots: &mut [u32]) {
        if class.inferred(REQUIRED.name) != 0 {
            limit_slots_each(self, class, nodes, load, slots);
        }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, report: &mut dyn FnMut(Reason)) {
        report(Reason::DECLARED_FEATURES);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use serde_json::{Value, json};
    use types::Timestamp;
    use types::views::{NodeView, PodView, View};

    use super::{FEATURES, REQUIRED};
    use crate::{ClusterChange, Config, Core, DecisionAction};

    fn pod(mut spec: Value) -> PodView {
        spec["schedulerName"] = json!("default-scheduler");
        let metadata = json!({"name": "p", "namespace": "ns", "uid": "p"});
        PodView::decode(json!({"metadata": metadata, "spec": spec}).to_string().as_bytes()).unwrap()
    }

    fn node(name: &str, features: &[&str]) -> Arc<NodeView> {
        let status = json!({"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}, "declaredFeatures": features});
        let document = json!({"metadata": {"name": name}, "status": status});
        Arc::new(NodeView::decode(document.to_string().as_bytes()).unwrap())
    }

    fn restart_rules(action: &str) -> Value {
        json!([{"name": "c", "restartPolicyRules": [{"action": "Restart"}, {"action": action}]}])
    }

    fn mounts(options: Value) -> Value {
        json!([{"name": "c", "volumeMounts": [{"name": "v"}, {"name": "w", "bindMountOptions": options}]}])
    }

    #[test]
    fn required_features_are_inferred_from_the_spec() {
        let plain = || json!([{"name": "c"}]);
        let [restart, users, mount] = FEATURES.map(|feature| feature.name);
        for (case, spec, want) in [
            ("plain", json!({"containers": plain()}), vec![]),
            ("only one restarts", json!({"containers": restart_rules("Restart")}), vec![]),
            ("all restart", json!({"containers": restart_rules("RestartAllContainers")}), vec![restart]),
            ("of an init container", json!({"initContainers": restart_rules("RestartAllContainers")}), vec![restart]),
            ("no user namespace", json!({"hostNetwork": true, "hostUsers": true}), vec![]),
            ("by default neither", json!({"hostNetwork": true}), vec![]),
            ("no host network", json!({"hostUsers": false}), vec![]),
            ("both", json!({"hostNetwork": true, "hostUsers": false}), vec![users]),
            ("no options", json!({"containers": mounts(json!([]))}), vec![]),
            ("options", json!({"containers": mounts(json!(["noexec"]))}), vec![mount]),
            ("of an init container", json!({"initContainers": mounts(json!(["noexec"]))}), vec![mount]),
            ("of an ephemeral container", json!({"ephemeralContainers": mounts(json!(["noexec"]))}), vec![mount]),
            (
                "two",
                json!({"hostNetwork": true, "hostUsers": false, "containers": mounts(json!(["noexec"]))}),
                vec![users, mount],
            ),
        ] {
            let bits = (REQUIRED.infer)(&pod(spec).spec);
            let names =
                FEATURES.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, feature)| feature.name);
            assert_eq!(names.collect::<Vec<_>>(), want, "{case}");
        }
    }

    #[test]
    fn a_pod_waits_until_a_node_declares_its_features() {
        let mut core = Core::new(Config::default());
        let [restart, users, mount] = FEATURES.map(|feature| feature.name);
        let mut nodes = [node("plain", &[]), node("other", &[mount])];
        for node in &nodes {
            core.observe(ClusterChange::Node { old: None, new: Some(Arc::clone(node)) });
        }
        let pending = Arc::new(pod(json!({"containers": restart_rules("RestartAllContainers")})));
        core.observe(ClusterChange::Pod { old: None, new: Some(pending) });
        let decide = |core: &mut Core| core.next(Timestamp::UNIX_EPOCH).map(|decision| decision.action);
        let DecisionAction::Wait(refusal) = decide(&mut core).unwrap() else { panic!("no node declares the feature") };
        assert!(refusal.message().contains("2 node(s) didn't match Pod's required features"), "{}", refusal.message());
        assert!(decide(&mut core).is_none());
        for (features, is_bound) in [(vec![users, "Other"], false), (vec![mount, restart], true)] {
            let new = node("plain", &features);
            let old = std::mem::replace(&mut nodes[0], Arc::clone(&new));
            core.observe(ClusterChange::Node { old: Some(old), new: Some(new) });
            let bound = matches!(decide(&mut core), Some(DecisionAction::Bind(placed)) if placed[0].node == "plain");
            assert_eq!(bound, is_bound, "{features:?}");
        }
    }
}
