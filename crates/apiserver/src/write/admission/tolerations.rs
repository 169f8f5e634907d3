//! How long a pod without such tolerations tolerates nodes that are not ready or unreachable.

use api::kinds;
use serde_json::{Value, json};

use super::{Attributes, Operation, is_of_kind};
use crate::resources::object::ApiObject;
use crate::response::status::ApiResult;

/// The taints of such nodes.
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

/// Adds a toleration for each taint that the pod does not tolerate.
pub(super) fn add_default_tolerations(attributes: &Attributes<'_>, pod: &mut ApiObject) -> ApiResult<()> {
    if attributes.operation == Operation::UpdateSubresource || !is_of_kind(attributes.call, kinds::POD) {
        return Ok(());
    }
    let Some(spec) = pod.document_mut().get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if tolerations.is_null() {
        *tolerations = json!([]);
    }
    // Decoding reports any other type.
    let Some(tolerations) = tolerations.as_array_mut() else { return Ok(()) };
    let is_not_tolerated = |taint: &&str| {
        let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
        let covers = |toleration: &Value| {
            ["", taint].contains(&text(toleration, "key").as_str())
                && ["", "NoExecute"].contains(&text(toleration, "effect").as_str())
        };
        !tolerations.iter().any(covers)
    };
    let missing: Vec<&str> = TAINTS.into_iter().filter(is_not_tolerated).collect();
    tolerations.extend(
        missing.into_iter().map(
            |taint| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}),
        ),
    );
    Ok(())
}
