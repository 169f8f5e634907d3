//! Priority: pods and groups have the priority of their class, or the default without a class.

use std::fmt::Display;

use api::gates::Gate;
use api::kinds::{self, ApiResource};
use api::scheduling::validation::priority_class::SYSTEM_CLASSES;
use serde::Deserialize;
use serde_json::Value;
use store::{ListQuery, StoredObject};

use super::{Attributes, Operation, is_of_kind};
use crate::read::selection::stored_field;
use crate::resources::object::ApiObject;
use crate::resources::resource::Resource;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;

/// The fields of a class that admission reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PriorityClass {
    #[serde(default)]
    value: i32,
    #[serde(default = "preempts")]
    preemption_policy: String,
    #[serde(skip)]
    name: String,
}

const PREEMPTS: &str = "PreemptLowerPriority";

fn preempts() -> String {
    PREEMPTS.to_owned()
}

/// The kinds of groups that have a priority, each with its name in messages.
const GROUP_KINDS: [(&ApiResource, &str); 2] =
    [(kinds::POD_GROUP, "pod group"), (kinds::COMPOSITE_POD_GROUP, "composite pod group")];

/// The class of this name. Without a name: the global default (the lowest of several), or priority 0.
fn class_of(call: &Call<'_>, object: &ApiObject) -> ApiResult<PriorityClass> {
    let name = object.text(&["spec", "priorityClassName"]);
    let no_class = || PriorityClass { value: 0, preemption_policy: preempts(), name: String::new() };
    if name.is_empty() {
        return Ok(global_defaults(call).into_iter().min_by_key(|class| class.value).unwrap_or_else(no_class));
    }
    if let Some(stored) = call.state.store.get(&priority_classes(call).key("", name)) {
        return Ok(read_class(&stored));
    }
    let cause = format!("no PriorityClass with name {name} was found");
    Err(Status::forbidden(call.resource, object.name(), &cause))
}

fn priority_classes<'a>(call: &Call<'a>) -> &'a Resource {
    call.state.resource_of(kinds::PRIORITY_CLASS).expect("priority classes are served")
}

fn global_defaults(call: &Call<'_>) -> Vec<PriorityClass> {
    let query = ListQuery::all(&priority_classes(call).store_name);
    let page = call.state.store.list(&query, &mut |stored| stored_field(&stored.meta, "globalDefault") == "true");
    page.expect("the current revision is never compacted").items.iter().map(|stored| read_class(stored)).collect()
}

fn read_class(stored: &StoredObject) -> PriorityClass {
    let class: PriorityClass = serde_json::from_slice(&stored.bytes()).expect("a stored class is valid");
    PriorityClass { name: stored.key.name.clone(), ..class }
}

/// Sets a pod's priority from its class. A pod cannot choose its own.
pub(super) fn admit_pod(attributes: &Attributes<'_>, pod: &mut ApiObject) -> ApiResult<()> {
    let call = attributes.call;
    if !is_of_kind(call, kinds::POD) || !pod.document()["spec"].is_object() {
        return Ok(());
    }
    match (attributes.operation, attributes.old) {
        (Operation::Create, _) => {}
        (Operation::Update, Some(old)) => {
            for field in ["priority", "preemptionPolicy"] {
                if pod.document()["spec"][field].is_null() && !old.document()["spec"][field].is_null() {
                    pod.document_mut()["spec"][field] = old.document()["spec"][field].clone();
                }
            }
            return Ok(());
        }
        _ => return Ok(()),
    }
    let class = class_of(call, pod)?;
    let refuse = |field: &str, given: &Value, computed: &dyn Display| {
        let cause = not_provided(field, given, "pod", computed);
        Err(Status::forbidden(call.resource, pod.name(), &cause))
    };
    let spec = &pod.document()["spec"];
    if !spec["priority"].is_null() && spec["priority"] != class.value {
        return refuse("integer value of priority", &spec["priority"], &class.value);
    }
    let policy = class.preemption_policy.as_str();
    if !spec["preemptionPolicy"].is_null() && spec["preemptionPolicy"] != policy {
        return refuse("string value of PreemptionPolicy", &spec["preemptionPolicy"], &policy);
    }
    write_class(pod, &class, true);
    Ok(())
}

/// Sets a group's priority from its class. A given priority must be equal to it.
pub(super) fn admit_group(attributes: &Attributes<'_>, group: &mut ApiObject) -> ApiResult<()> {
    let call = attributes.call;
    let known = GROUP_KINDS.into_iter().find(|(kind, _)| is_of_kind(call, kind));
    let Some((resource, kind)) = known.filter(|_| attributes.operation == Operation::Create) else {
        return Ok(());
    };
    let gates = &call.state.gates;
    if !resource.is_served(gates) || !group.document()["spec"].is_object() {
        return Ok(());
    }
    let class = class_of(call, group)?;
    let spec = &group.document()["spec"];
    if !spec["priority"].is_null() && spec["priority"] != class.value {
        let cause = format!(
            "priority set in the {kind} ({}) must match the priority computed ({}) based on the priority class set in \
             the spec",
            spec["priority"], class.value
        );
        return Err(Status::forbidden(call.resource, group.name(), &cause));
    }
    let with_policy = gates.enabled(Gate::PodGroupPreemptionPolicy);
    let (given, policy) = (&spec["preemptionPolicy"], class.preemption_policy.as_str());
    if with_policy && !given.is_null() && given != policy {
        let cause = not_provided("string value of PreemptionPolicy", given, kind, &policy);
        return Err(Status::forbidden(call.resource, group.name(), &cause));
    }
    write_class(group, &class, with_policy);
    Ok(())
}

/// The message about a field that only the class determines.
fn not_provided(field: &str, given: &Value, kind: &str, computed: &dyn Display) -> String {
    let given = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
    format!(
        "the {field} ({given}) must not be provided in {kind} spec; priority admission controller computed {computed} \
         from the given PriorityClass name"
    )
}

fn write_class(object: &mut ApiObject, class: &PriorityClass, with_policy: bool) {
    let spec = &mut object.document_mut()["spec"];
    spec["priority"] = class.value.into();
    if !class.name.is_empty() {
        spec["priorityClassName"] = class.name.as_str().into();
    }
    if with_policy {
        spec["preemptionPolicy"] = class.preemption_policy.as_str().into();
    }
}

/// Refuses the delete of a system class.
pub(super) fn validate_delete(call: &Call<'_>, stored: &StoredObject) -> ApiResult<()> {
    let name = stored.key.name.as_str();
    if is_of_kind(call, kinds::PRIORITY_CLASS) && SYSTEM_CLASSES.iter().any(|(system, _)| *system == name) {
        return Err(Status::forbidden(call.resource, name, "this is a system priority class and cannot be deleted"));
    }
    Ok(())
}

/// Refuses a second global default.
pub(super) fn validate_single_global_default(attributes: &Attributes<'_>, object: &ApiObject) -> ApiResult<()> {
    let call = attributes.call;
    if !is_of_kind(call, kinds::PRIORITY_CLASS) || object.document()["globalDefault"] != true {
        return Ok(());
    }
    match global_defaults(call).into_iter().find(|class| class.name != object.name()) {
        None => Ok(()),
        Some(other) => {
            let cause =
                format!("PriorityClass {} is already marked as default. Only one default can exist", other.name);
            Err(Status::forbidden(call.resource, object.name(), &cause))
        }
    }
}
