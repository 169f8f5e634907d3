//! The ClusterRoles of the control loops as a manifest, and which controller needs which. The guide has both, and
//! `cargo xtask rbac` writes them there.

use std::collections::BTreeMap;
use std::fmt::Write;

use apiserver::request::Verb;

use crate::control_loops;

/// Verbs in the order of the manifest, with their names in RBAC.
const VERBS: [(Verb, &str); 8] = [
    (Verb::Get, "get"),
    (Verb::List, "list"),
    (Verb::Watch, "watch"),
    (Verb::Create, "create"),
    (Verb::Update, "update"),
    (Verb::Patch, "patch"),
    (Verb::Delete, "delete"),
    (Verb::DeleteCollection, "deletecollection"),
];

/// The verbs of each resource of a role, by group and resource; each list in the order of [`VERBS`].
type ResourceVerbs = BTreeMap<(&'static str, String), Vec<&'static str>>;

/// All ClusterRoles, one YAML document each, in the order of the control loops.
pub fn cluster_roles() -> String {
    let mut roles: Vec<(&'static str, ResourceVerbs)> = Vec::new();
    for (role, right) in control_loops::ALL.iter().flat_map(|control_loop| control_loop.rights()) {
        let position = roles.iter().position(|(name, _)| *name == role).unwrap_or_else(|| {
            roles.push((role, BTreeMap::new()));
            roles.len() - 1
        });
        let known = roles[position].1.entry((right.target.group(), right.target.resource())).or_default();
        let merged = VERBS.iter().filter(|(verb, name)| right.verbs.contains(verb) || known.contains(name));
        *known = merged.map(|(_, name)| *name).collect();
    }
    let documents = roles.iter().map(|(name, resources)| cluster_role(name, resources));
    documents.collect::<Vec<String>>().join("---\n")
}

/// How to run all controllers, and what each of them does and needs, as Markdown.
pub fn controllers_table() -> String {
    let names: Vec<&str> = control_loops::controllers().map(|controller| controller.name).collect();
    let mut text = format!(
        "`--controllers {}` runs all of them.\n\n| controller | what it does | roles |\n| --- | --- | --- |\n",
        names.join(",")
    );
    for controller in control_loops::controllers() {
        let roles: Vec<String> = controller.roles.iter().map(|role| format!("`{}`", role.name)).collect();
        let row = writeln!(text, "| `{}` | {} | {} |", controller.name, controller.about, roles.join(", "));
        row.expect("a string accepts every write");
    }
    text
}

/// One rule per group and list of verbs, with all resources that share them.
fn cluster_role(name: &str, resources: &ResourceVerbs) -> String {
    let mut rules: Vec<(&str, &[&str], Vec<&str>)> = Vec::new();
    for ((group, resource), verbs) in resources {
        match rules.iter_mut().find(|(of, same, _)| of == group && same == verbs) {
            Some((_, _, shared)) => shared.push(resource),
            None => rules.push((group, verbs, vec![resource])),
        }
    }
    let mut text =
        format!("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {name}}}\nrules:\n");
    let quoted = |text: &str| if text.is_empty() || text == "*" { format!("{text:?}") } else { text.to_owned() };
    for (group, verbs, resources) in rules {
        let resources: Vec<String> = resources.into_iter().map(quoted).collect();
        let (group, resources, verbs) = (quoted(group), resources.join(", "), verbs.join(", "));
        let rule = writeln!(text, "- {{apiGroups: [{group}], resources: [{resources}], verbs: [{verbs}]}}");
        rule.expect("a string accepts every write");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_the_rights_of_its_control_loop() {
        let text = cluster_roles();
        let role = text.split("---\n").find(|role| role.contains("phalanx-cronjobs")).unwrap_or_default();
        let want = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: phalanx-cronjobs}
rules:
- {apiGroups: [\"\"], resources: [events], verbs: [create, patch]}
- {apiGroups: [batch], resources: [cronjobs], verbs: [list, watch]}
- {apiGroups: [batch], resources: [cronjobs/finalizers], verbs: [update]}
- {apiGroups: [batch], resources: [cronjobs/status], verbs: [patch]}
- {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch, create, delete]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
";
        assert_eq!(role, want);
    }

    #[test]
    fn the_table_has_every_controller_with_its_roles() {
        let table = controllers_table();
        for controller in control_loops::controllers() {
            let row = table.lines().find(|line| line.starts_with(&format!("| `{}` |", controller.name)));
            assert!(row.is_some_and(|row| row.contains(controller.main_role())), "{table}");
        }
        assert!(!table.contains("scheduler"), "{table}");
    }
}
