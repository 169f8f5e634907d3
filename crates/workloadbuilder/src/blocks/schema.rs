//! The blocks' JSON schema for a CustomResourceDefinition: structural OpenAPI v3, with the rules that the API server
//! can check.
//!
//! A controller adds these to the schema of its own resource, with field names of its choice.

use serde_json::{Value, json};

use crate::rules::{MAX_CLAIMS, MAX_TOPOLOGY_CONSTRAINTS};

/// The schema of [`WorkloadPodGroupSchedulingPolicy`](super::WorkloadPodGroupSchedulingPolicy).
pub fn pod_group_scheduling_policy() -> Value {
    policy("pods", "minCount")
}

/// The schema of [`WorkloadCompositePodGroupSchedulingPolicy`](super::WorkloadCompositePodGroupSchedulingPolicy).
pub fn composite_pod_group_scheduling_policy() -> Value {
    policy("groups", "minGroupCount")
}

/// The schema of [`WorkloadPodGroupSchedulingConstraints`](super::WorkloadPodGroupSchedulingConstraints).
pub fn pod_group_scheduling_constraints() -> Value {
    constraints()
}

/// The schema of
/// [`WorkloadCompositePodGroupSchedulingConstraints`](super::WorkloadCompositePodGroupSchedulingConstraints).
pub fn composite_pod_group_scheduling_constraints() -> Value {
    constraints()
}

/// The schema of [`WorkloadPodGroupDisruptionMode`](super::WorkloadPodGroupDisruptionMode).
pub fn pod_group_disruption_mode() -> Value {
    disruption_mode("pods")
}

/// The schema of [`WorkloadCompositePodGroupDisruptionMode`](super::WorkloadCompositePodGroupDisruptionMode).
pub fn composite_pod_group_disruption_mode() -> Value {
    disruption_mode("groups")
}

/// The schema of a list of [`WorkloadPodGroupResourceClaim`](super::WorkloadPodGroupResourceClaim)s.
pub fn pod_group_resource_claims() -> Value {
    let name = |description: &str| json!({"type": "string", "maxLength": 253, "description": description});
    json!({
        "type": "array",
        "maxItems": MAX_CLAIMS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "description": "Claims that all pods of the group share.",
        "items": exactly_one_of(
            json!({
                "name": {"type": "string", "minLength": 1, "maxLength": 63, "description": "Unique in the group."},
                "resourceClaimName": name("A ResourceClaim of the namespace."),
                "resourceClaimTemplateName": name("A ResourceClaimTemplate of the namespace. The group gets a claim."),
            }),
            ["resourceClaimName", "resourceClaimTemplateName"],
            &["name"],
        ),
    })
}

fn policy(members: &str, count: &str) -> Value {
    let gang = json!({
        "type": "object",
        "description": format!("At least {count} {members} are placed together, or none."),
        "properties": {count: {
            "type": "integer", "format": "int32", "minimum": 1,
            "description": "If unset, the controller chooses it.",
        }},
    });
    let basic = json!({"type": "object", "description": format!("The {members} are placed one by one.")});
    exactly_one_of(json!({"basic": basic, "gang": gang}), ["basic", "gang"], &[])
}

fn constraints() -> Value {
    let key = json!({"type": "string", "minLength": 1, "description": "Label of nodes whose value all pods share."});
    json!({
        "type": "object",
        "properties": {"topology": {
            "type": "array",
            "maxItems": MAX_TOPOLOGY_CONSTRAINTS,
            "x-kubernetes-list-type": "atomic",
            "items": {"type": "object", "required": ["key"], "properties": {"key": key}},
        }},
    })
}

fn disruption_mode(members: &str) -> Value {
    let member = |how: &str| json!({"type": "object", "description": format!("The {members} are disrupted {how}.")});
    let members = json!({"single": member("one by one"), "all": member("only all together")});
    exactly_one_of(members, ["single", "all"], &[])
}

/// An object with exactly one of two members.
fn exactly_one_of(properties: Value, members: [&str; 2], required: &[&str]) -> Value {
    let [one, other] = members;
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "x-kubernetes-validations": [{
            "rule": format!("has(self.{one}) != has(self.{other})"),
            "message": format!("must specify exactly one of: `{one}`, `{other}`"),
        }],
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::*;
    use crate::blocks;

    /// Paths of fields of `document` that `schema` does not have.
    fn unknown(schema: &Value, document: &Value, path: &str) -> Vec<String> {
        match document {
            Value::Object(fields) => fields
                .iter()
                .flat_map(|(name, value)| match schema["properties"].get(name) {
                    Some(schema) => unknown(schema, value, &format!("{path}.{name}")),
                    None => vec![format!("{path}.{name}")],
                })
                .collect(),
            Value::Array(items) => {
                items.iter().flat_map(|item| unknown(&schema["items"], item, &format!("{path}[]"))).collect()
            }
            _ => vec![],
        }
    }

    fn assert_schema_matches_type<T: Serialize + serde::de::DeserializeOwned>(schema: &Value, full: Value) {
        assert_eq!(unknown(schema, &full, ""), Vec::<String>::new());
        let typed: T = serde_json::from_value(full.clone()).expect("a block");
        assert_eq!(serde_json::to_value(typed).expect("JSON"), full, "the type has every field of the schema");
    }

    // Shows: S004-17
    #[test]
    fn schema_has_the_fields_of_the_types() {
        let policy = |count: &str| json!({"basic": {}, "gang": {count: 1}});
        assert_schema_matches_type::<blocks::WorkloadPodGroupSchedulingPolicy>(
            &pod_group_scheduling_policy(),
            policy("minCount"),
        );
        assert_schema_matches_type::<blocks::WorkloadCompositePodGroupSchedulingPolicy>(
            &composite_pod_group_scheduling_policy(),
            policy("minGroupCount"),
        );
        let topology = json!({"topology": [{"key": "rack"}]});
        assert_schema_matches_type::<blocks::WorkloadPodGroupSchedulingConstraints>(
            &pod_group_scheduling_constraints(),
            topology.clone(),
        );
        assert_schema_matches_type::<blocks::WorkloadCompositePodGroupSchedulingConstraints>(
            &composite_pod_group_scheduling_constraints(),
            topology,
        );
        let mode = json!({"single": {}, "all": {}});
        assert_schema_matches_type::<blocks::WorkloadPodGroupDisruptionMode>(
            &pod_group_disruption_mode(),
            mode.clone(),
        );
        assert_schema_matches_type::<blocks::WorkloadCompositePodGroupDisruptionMode>(
            &composite_pod_group_disruption_mode(),
            mode,
        );
        let claim = json!({"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"});
        assert_schema_matches_type::<Vec<blocks::WorkloadPodGroupResourceClaim>>(
            &pod_group_resource_claims(),
            json!([claim]),
        );
    }
}
