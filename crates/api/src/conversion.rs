//! Other forms of the kinds (older versions, another group, drafts that were never shipped): how they become the form in
//! which objects are kept, and back. Nothing else in the program knows them.
//!
//! | form | where it comes from | what is done |
//! | --- | --- | --- |
//! | `events.k8s.io/v1` Event | Kubernetes, beside `v1` Event | served, both ways |
//! | `scheduling.k8s.io/v1alpha2` Workload, PodGroup | Kubernetes 1.36 | served, both ways |
//! | `scheduling.k8s.io/v1alpha1` Workload, PodGroup, also as `scheduling/v1alpha1` | drafts of KEP-5547 and KEP-5832 | served, both ways |
//! | `policy`, `constraints`, `disruption`, `level` below a Job's `scheduling` | draft of KEP-6089 | taken in |
//! | `podGroupTemplate` of a Workload | draft of KEP-5547 | taken in |
//! | `workloadRef` of pods and of the pods of a Job | drafts of KEP-5832 and KEP-5547 | taken in |
//! | `podGroupReplicaKey`, groups inside a Workload | Kubernetes 1.35 | refused, with advice |

mod drafts; // spellings of drafts, before anything else looks at a document
mod events; // Events of the group events.k8s.io
mod v1alpha1; // the drafts' version
mod v1alpha2; // Kubernetes 1.36

use serde_json::{Map, Value};

use crate::field::{Error, ErrorList, Path};

pub use drafts::{
    normalize_cron_job_drafts, normalize_drafts, normalize_job_drafts, normalize_pod_drafts, normalize_workload_drafts,
};

/// One version of a kind that is not the one in which it is kept. Fields that it does not have keep their present names
/// in it, so that reading and writing it loses nothing.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// The version.
    pub version: &'static str,
    /// Whether it is superseded by the storage version, so that a write in it is answered with a warning.
    pub is_deprecated: bool,
    /// Makes a document in the version into one in the storage version; `apiVersion` aside.
    pub to_storage: fn(&mut Value, &ConversionContext<'_>) -> Result<(), ErrorList>,
    /// The other way round. What was inward once is always outward.
    pub from_storage: fn(&mut Value),
}

/// What a conversion may look at besides the document.
pub struct ConversionContext<'a> {
    /// The namespace that the object lives in.
    pub namespace: &'a str,
    /// The object as it is kept so far, when there is one.
    pub old: Option<&'a Value>,
    /// The Workload of this name in the same namespace, as it is kept.
    pub workload: &'a dyn Fn(&str) -> Option<Value>,
}

/// `v1` of `events.k8s.io`, for Events that are kept as those of the core group.
pub const EVENT_CONVERSIONS: &[Conversion] = &[Conversion {
    version: "v1",
    is_deprecated: false,
    to_storage: events::to_storage,
    from_storage: events::from_storage,
}];

/// Older versions of PodGroup.
pub const POD_GROUP_CONVERSIONS: &[Conversion] = &[
    Conversion {
        version: "v1alpha2",
        is_deprecated: true,
        to_storage: v1alpha2::pod_group_to_storage,
        from_storage: v1alpha2::pod_group_from_storage,
    },
    Conversion {
        version: "v1alpha1",
        is_deprecated: true,
        to_storage: v1alpha1::pod_group_to_storage,
        from_storage: v1alpha1::pod_group_from_storage,
    },
];

/// Older versions of Workload.
pub const WORKLOAD_CONVERSIONS: &[Conversion] = &[
    Conversion {
        version: "v1alpha2",
        is_deprecated: true,
        to_storage: v1alpha2::workload_to_storage,
        from_storage: v1alpha2::workload_from_storage,
    },
    Conversion {
        version: "v1alpha1",
        is_deprecated: true,
        to_storage: v1alpha1::workload_to_storage,
        from_storage: v1alpha1::workload_from_storage,
    },
];

/// The group under its present name, where a draft calls it otherwise: `scheduling/v1alpha1` is
/// `scheduling.k8s.io/v1alpha1`.
pub fn current_api_version(api_version: &str) -> Option<String> {
    api_version.strip_prefix("scheduling/").map(|version| format!("scheduling.k8s.io/{version}"))
}

type JsonObject = Map<String, Value>;

fn child<'a>(object: &'a mut JsonObject, name: &str) -> Option<&'a mut JsonObject> {
    object.get_mut(name).and_then(Value::as_object_mut)
}

fn spec_of(doc: &mut Value) -> Option<&mut JsonObject> {
    doc.get_mut("spec").and_then(Value::as_object_mut)
}

/// The objects in a list.
fn items<'a>(object: &'a mut JsonObject, list: &str) -> impl Iterator<Item = &'a mut JsonObject> {
    object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn text<'a>(object: &'a JsonObject, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Gives a field another name. Where both names are there, nobody knows which one is meant.
fn rename(object: &mut JsonObject, path: &Path, from: &str, to: &str) -> Result<bool, Error> {
    let Some(value) = object.remove(from) else { return Ok(false) };
    if object.get(to).is_some_and(|value| !value.is_null()) {
        let detail = format!("may not be set together with {to}, of which it is an older spelling");
        return Err(Error::forbidden(&path.child(from), detail));
    }
    object.insert(to.to_owned(), value);
    Ok(true)
}

#[cfg(test)]
mod tests;
