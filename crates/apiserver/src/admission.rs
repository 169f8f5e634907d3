//! What the cluster as a whole has to say about a write, after the object was read and before it is judged by itself.
//! One ordered list; every entry reads the store.

use serde::Deserialize;
use serde_json::Value;
use store::{List, Stored};

use api::gates::Gate;

use crate::object::Object;
use crate::selection::kept_field;
use crate::server::Call;
use crate::status::{Answer, Status};

/// A write as admission sees it.
pub(crate) struct Attributes<'a> {
    pub call: &'a Call<'a>,
    pub operation: Operation,
    /// The object before the write; `None` for a create.
    pub old: Option<&'a Object>,
}

/// What kind of write it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    UpdateStatus,
}

type Mutate = fn(&Attributes<'_>, &mut Object) -> Answer<()>;
type Validate = fn(&Attributes<'_>, &Object) -> Answer<()>;

/// In upstream's order.
const MUTATING: &[Mutate] = &[namespace_is_live, pod_priority, pod_group_priority];
const VALIDATING: &[Validate] = &[one_global_default];

/// Lets every entry change or refuse the object.
pub(crate) fn mutate(attributes: &Attributes<'_>, object: &mut Object) -> Answer<()> {
    MUTATING.iter().try_for_each(|admit| admit(attributes, object))
}

/// Lets every entry refuse the object.
pub(crate) fn validate(attributes: &Attributes<'_>, object: &Object) -> Answer<()> {
    VALIDATING.iter().try_for_each(|admit| admit(attributes, object))
}

/// Namespaces that the system itself lives in do not go.
pub(crate) fn delete(call: &Call<'_>, stored: &Stored) -> Answer<()> {
    let name = stored.key.name.as_str();
    if is(call, "", "namespaces") && matches!(name, "default" | "kube-public" | "kube-system") {
        return Err(Status::forbidden(call.resource, name, "this namespace may not be deleted"));
    }
    Ok(())
}

fn is(call: &Call<'_>, group: &str, plural: &str) -> bool {
    call.resource.plural == plural && call.resource.group == group
}

/// An object is made only in a namespace that is there and stays.
fn namespace_is_live(attributes: &Attributes<'_>, object: &mut Object) -> Answer<()> {
    let call = attributes.call;
    if attributes.operation != Operation::Create || !call.resource.namespaced {
        return Ok(());
    }
    let namespaces = call.home.resource("", "namespaces").expect("namespaces are served");
    let name = call.namespace();
    match call.home.store.get(&namespaces.key("", name)) {
        None => Err(Status::not_found(namespaces, name)),
        Some(namespace) if namespace.meta.deleting => {
            let why = format!("unable to create new content in namespace {name} because it is being terminated");
            Err(Status::forbidden(call.resource, object.name(), &why))
        }
        Some(_) => Ok(()),
    }
}

/// A class as far as admission reads it.
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

/// Classes that are always there.
const SYSTEM_CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The class of this name; without a name the global default (the lowest of several), or priority 0.
fn class_of(call: &Call<'_>, object: &Object) -> Answer<PriorityClass> {
    let name = object.text(&["spec", "priorityClassName"]);
    let nothing = || PriorityClass { value: 0, preemption_policy: preempts(), name: String::new() };
    if name.is_empty() {
        return Ok(global_defaults(call).into_iter().min_by_key(|class| class.value).unwrap_or_else(nothing));
    }
    if let Some((_, value)) = SYSTEM_CLASSES.iter().find(|(system, _)| *system == name) {
        return Ok(PriorityClass { value: *value, name: name.to_owned(), ..nothing() });
    }
    let classes = priority_classes(call);
    match call.home.store.get(&classes.key("", name)) {
        Some(stored) => Ok(read_class(&stored)),
        None => {
            let why = format!("no PriorityClass with name {name} was found");
            Err(Status::forbidden(call.resource, object.name(), &why))
        }
    }
}

fn priority_classes<'a>(call: &Call<'a>) -> &'a crate::resource::Resource {
    call.home.resource("scheduling.k8s.io", "priorityclasses").expect("priority classes are served")
}

fn global_defaults(call: &Call<'_>) -> Vec<PriorityClass> {
    let query = List::all(&priority_classes(call).store_name);
    let listed = call.home.store.list(&query, &mut |stored| kept_field(&stored.meta, "globalDefault") == "true");
    listed.expect("the present is never gone").items.iter().map(|stored| read_class(stored)).collect()
}

fn read_class(stored: &Stored) -> PriorityClass {
    let class: PriorityClass = serde_json::from_slice(&stored.bytes).expect("a stored class was judged");
    PriorityClass { name: stored.key.name.clone(), ..class }
}

/// A pod's priority is that of its class, never its own word.
fn pod_priority(attributes: &Attributes<'_>, pod: &mut Object) -> Answer<()> {
    let call = attributes.call;
    if !is(call, "", "pods") || !pod.document()["spec"].is_object() {
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
    let refuse = |field: &str, given: &Value, computed: &dyn std::fmt::Display| {
        let why = format!(
            "the {field} ({}) must not be provided in pod spec; priority admission controller computed {computed} \
             from the given PriorityClass name",
            given.as_str().map_or_else(|| given.to_string(), str::to_owned)
        );
        Err(Status::forbidden(call.resource, pod.name(), &why))
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

/// A group's priority is that of its class; a given one must agree with it.
fn pod_group_priority(attributes: &Attributes<'_>, group: &mut Object) -> Answer<()> {
    let call = attributes.call;
    if attributes.operation != Operation::Create
        || !is(call, "scheduling.k8s.io", "podgroups")
        || !call.home.gates.enabled(Gate::GenericWorkload)
        || !group.document()["spec"].is_object()
    {
        return Ok(());
    }
    let class = class_of(call, group)?;
    let spec = &group.document()["spec"];
    if !spec["priority"].is_null() && spec["priority"] != class.value {
        let why = format!(
            "priority set in the pod group ({}) must match the priority computed ({}) from the given PriorityClass name",
            spec["priority"], class.value
        );
        return Err(Status::forbidden(call.resource, group.name(), &why));
    }
    let with_policy = call.home.gates.enabled(Gate::PodGroupPreemptionPolicy);
    let policy = class.preemption_policy.as_str();
    if with_policy && !spec["preemptionPolicy"].is_null() && spec["preemptionPolicy"] != policy {
        let why = format!(
            "preemption policy set in the pod group ({}) must match the preemption policy computed ({policy}) from the \
             given PriorityClass name",
            spec["preemptionPolicy"].as_str().unwrap_or_default()
        );
        return Err(Status::forbidden(call.resource, group.name(), &why));
    }
    write_class(group, &class, with_policy);
    Ok(())
}

fn write_class(object: &mut Object, class: &PriorityClass, with_policy: bool) {
    let spec = &mut object.document_mut()["spec"];
    spec["priority"] = class.value.into();
    if !class.name.is_empty() {
        spec["priorityClassName"] = class.name.as_str().into();
    }
    if with_policy {
        spec["preemptionPolicy"] = class.preemption_policy.as_str().into();
    }
}

/// At most one class is what pods without a class get.
fn one_global_default(attributes: &Attributes<'_>, object: &Object) -> Answer<()> {
    let call = attributes.call;
    if !is(call, "scheduling.k8s.io", "priorityclasses") || object.document()["globalDefault"] != true {
        return Ok(());
    }
    match global_defaults(call).into_iter().find(|class| class.name != object.name()) {
        None => Ok(()),
        Some(other) => {
            let why = format!("PriorityClass {} is already marked as default. Only one default can exist", other.name);
            Err(Status::forbidden(call.resource, object.name(), &why))
        }
    }
}
