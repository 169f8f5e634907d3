//! How long a pod tolerates nodes that are not ready or unreachable, unless it says so itself.

use serde_json::{Value, json};

use super::{Attributes, Operation, is_resource};
use crate::resources::object::ApiObject;
use crate::response::status::ApiResult;

/// The taints that such nodes get.
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

/// Adds a toleration for each taint that the pod does not mention.
pub(super) fn add_default_tolerations(attributes: &Attributes<'_>, pod: &mut ApiObject) -> ApiResult<()> {
    if attributes.operation == Operation::UpdateSubresource || !is_resource(attributes.call, "", "pods") {
        return Ok(());
    }
    let Some(spec) = pod.document_mut().get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    let held = spec.entry("tolerations").or_insert_with(|| json!([]));
    if held.is_null() {
        *held = json!([]);
    }
    // Decoding reports any other type.
    let Some(held) = held.as_array_mut() else { return Ok(()) };
    let says_nothing = |taint: &&str| {
        let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
        let covers = |toleration: &Value| {
            ["", taint].contains(&text(toleration, "key").as_str())
                && ["", "NoExecute"].contains(&text(toleration, "effect").as_str())
        };
        !held.iter().any(covers)
    };
    let missing: Vec<&str> = TAINTS.into_iter().filter(says_nothing).collect();
    held.extend(
        missing.into_iter().map(
            |taint| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}),
        ),
    );
    Ok(())
}
