//! Other forms of the kinds (older versions, another group, drafts that were never released), and their conversion to
//! and from the storage form. No other code knows them.
//!
//! | form | source | handling |
//! | --- | --- | --- |
//! | `events.k8s.io/v1` Event | Kubernetes, in addition to `v1` Event | served, both ways |
//! | `scheduling.k8s.io/v1alpha2` Workload, PodGroup | Kubernetes 1.36 | served, both ways |
//! | `scheduling.k8s.io/v1alpha1` Workload, PodGroup, also as `scheduling/v1alpha1` | drafts of KEP-5547 and KEP-5832 | served, both ways |
//! | `policy`, `constraints`, `disruption`, `level` below a Job's `scheduling` | draft of KEP-6089 | accepted |
//! | `podGroupTemplate` of a Workload | draft of KEP-5547 | accepted |
//! | `workloadRef` of pods and of the pods of a Job | drafts of KEP-5832 and KEP-5547 | accepted |
//! | `podGroupReplicaKey`, groups inside a Workload | Kubernetes 1.35 | refused, with a remedy |

mod drafts; // spellings of drafts, replaced before all other steps
mod events; // Events of the group events.k8s.io
mod v1alpha1; // the drafts' version
mod v1alpha2; // Kubernetes 1.36

use serde_json::{Map, Value};

use crate::field::{Error, ErrorList, Path};

pub use drafts::{
    normalize_cron_job_drafts, normalize_drafts, normalize_job_drafts, normalize_pod_drafts, normalize_workload_drafts,
};

/// A version of a kind that is not the storage version. Fields that the version does not have keep their current names,
/// so that a round trip loses nothing.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// The version.
    pub version: &'static str,
    /// Whether the storage version supersedes it. A write in it then gets a warning.
    pub is_deprecated: bool,
    /// Converts a document from the version to the storage version, except for `apiVersion`.
    pub to_storage: fn(&mut Value, &ConversionContext<'_>) -> Result<(), ErrorList>,
    /// Converts from the storage version. It does not fail.
    pub from_storage: fn(&mut Value),
}

/// The input of a conversion in addition to the document.
pub struct ConversionContext<'a> {
    /// The namespace of the object.
    pub namespace: &'a str,
    /// The stored object, if there is one.
    pub old: Option<&'a Value>,
    /// Returns the stored Workload of this name in the same namespace.
    pub workload: &'a dyn Fn(&str) -> Option<Value>,
}

/// `v1` of `events.k8s.io`, for Events that are stored as those of the core group.
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

/// The current group and version, if a draft names them differently: `scheduling/v1alpha1` is
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

/// The objects of a list.
fn items<'a>(object: &'a mut JsonObject, list: &str) -> impl Iterator<Item = &'a mut JsonObject> {
    object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn text<'a>(object: &'a JsonObject, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Renames a field. Both names together are refused as ambiguous.
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
