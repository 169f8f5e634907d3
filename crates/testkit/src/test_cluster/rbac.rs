//! The roles of each component from the guide: a component that needs more than the guide grants fails in tests on
//! kube.

use std::path::Path;

use controlplane::{Component, ControlLoop, control_loops};
use kube::Client;
use runtime::{is_already_exists, request};
use serde_json::{Value, json};

use super::kube_control_plane::Tenancy;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// The user of a component.
pub fn user_of(component: Component) -> &'static str {
    match component {
        Component::Controllers => "phalanx-controllers",
        Component::Scheduler => "phalanx-scheduler",
        Component::Nodes => "phalanx-nodes",
    }
}

/// Grants every component the roles of the guide, and no others.
pub async fn grant_roles(client: &Client, tenancy: Tenancy) {
    let roles = roles();
    for (user, name) in control_loops_of(tenancy).map(|it| (user_of(it.component), it.main_role())) {
        let role = roles.iter().find(|role| role["metadata"]["name"] == name);
        let role = role.unwrap_or_else(|| panic!("docs/guides/cluster.md has no ClusterRole {name}"));
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        for (path, object) in [(ROLES, role), (BINDINGS, &binding)] {
            match request::post(client, path, object).await {
                Err(error) if !is_already_exists(&error) => panic!("{path}: {error}"),
                _ => {}
            }
        }
    }
}

/// The control loops that run.
fn control_loops_of(tenancy: Tenancy) -> impl Iterator<Item = &'static ControlLoop> {
    [&control_loops::NODES, &control_loops::SCHEDULER].into_iter().chain(tenancy.controllers())
}

/// Asserts that `client` does not have an administrator's rights: then the tests would not show which roles suffice.
pub async fn assert_not_admin(client: &Client) {
    let result = request::get(client, "/api/v1/secrets").await;
    let is_refused = matches!(&result, Err(kube::Error::Api(status)) if status.code == 403);
    assert!(is_refused, "a component can read secrets: {result:?}");
}

/// The ClusterRoles of the guide.
fn roles() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/cluster.md");
    let text = std::fs::read_to_string(path).expect("docs/guides/cluster.md");
    let block = text.split("```").find(|block| block.starts_with("yaml") && block.contains("kind: ClusterRole"));
    let block = block.and_then(|block| block.strip_prefix("yaml")).expect("the guide has a block of ClusterRoles");
    block.split("\n---\n").map(|role| serde_saphyr::from_str(role).expect("a ClusterRole is valid YAML")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_a_role_for_every_control_loop_that_runs() {
        let roles = roles();
        for control_loop in control_loops_of(Tenancy::Shared) {
            let role = roles.iter().find(|role| role["metadata"]["name"] == control_loop.main_role());
            let rules = role.and_then(|role| role["rules"].as_array()).map_or(0, Vec::len);
            assert!(rules > 0, "{control_loop:?}");
        }
    }
}
