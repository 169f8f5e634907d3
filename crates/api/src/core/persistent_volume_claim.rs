//! PersistentVolumeClaims: defaults, fields that a client may not set, validation.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use serde_json::{Value, json};

use crate::field::{Error, ErrorList, Path};
use crate::metadata::{
    immutable, names, non_empty, to_json, validate_object_meta, validate_object_meta_update, violations,
};
use crate::quantity::Quantity;
use crate::selector::validate_label_selector;

/// The annotation that had the storage class before `spec.storageClassName`.
pub const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

const CLAIM: &str = "PersistentVolumeClaim";
const STORAGE: &str = "storage";
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", SINGLE_POD_MODE];
const SINGLE_POD_MODE: &str = "ReadWriteOncePod";
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
/// Values of `status.allocatedResourceStatuses`.
const RESIZE_STATUSES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Sets the defaults: a file system, and a claim that is not bound yet.
pub fn set_defaults(claim: &mut Value) {
    for (part, field, value) in [("spec", "volumeMode", "Filesystem"), ("status", "phase", "Pending")] {
        if let Some(part) = claim.get_mut(part).and_then(Value::as_object_mut) {
            let is_unset = part.get(field).is_none_or(|value| value.is_null() || field == "phase" && value == "");
            if is_unset {
                part.insert(field.to_owned(), value.into());
            }
        }
    }
}

/// Resets the status of a new claim, and settles where its data comes from.
pub fn prepare_create(claim: &mut Value) {
    claim["status"] = json!({"phase": "Pending"});
    prepare_data_source(&mut claim["spec"], &Value::Null);
}

/// Settles where the data of a changed claim comes from.
pub fn prepare_update(claim: &mut Value, old: &Value) {
    prepare_data_source(&mut claim["spec"], &old["spec"]);
}

/// Drops the field of the feature CSIVolumeHealth, which is off.
pub fn prepare_status_update(claim: &mut Value, old: &Value) {
    if let Some(status) = claim["status"].as_object_mut().filter(|_| old["status"]["healthStatus"].is_null()) {
        status.remove("healthStatus");
    }
}

/// `dataSource` is the old form of `dataSourceRef`. One that is set fills in the other. What only the new form allows is
/// dropped from the old one without an error.
fn prepare_data_source(spec: &mut Value, old: &Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    let is_set = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    let had_reference = is_set(old.get("dataSourceRef"));
    // The feature CrossNamespaceVolumeDataSource is off.
    if !had_reference && spec.get("dataSourceRef").is_some_and(is_in_other_namespace) {
        spec.remove("dataSourceRef");
    }
    let had_source = had_reference || is_set(old.get("dataSource"));
    let is_of_old_form = |source: &Value| {
        let group = source["apiGroup"].as_str().unwrap_or_default();
        [("", CLAIM), ("snapshot.storage.k8s.io", "VolumeSnapshot")]
            .iter()
            .any(|(known, kind)| group == *known && source["kind"] == *kind)
    };
    if !had_source && !is_set(spec.get("dataSourceRef")) && !spec.get("dataSource").is_some_and(is_of_old_form) {
        spec.remove("dataSource");
    }
    for (from, to) in [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")] {
        let source = spec.get(from).filter(|source| source.is_object() && !is_in_other_namespace(source)).cloned();
        if let Some(mut source) = source.filter(|_| !is_set(spec.get(to))) {
            source.as_object_mut().and_then(|fields| fields.remove("namespace"));
            spec.insert(to.to_owned(), source);
        }
    }
}

fn is_in_other_namespace(source: &Value) -> bool {
    source["namespace"].as_str().is_some_and(|namespace| !namespace.is_empty())
}

/// Warnings about a claim that is accepted.
pub fn warnings(claim: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if claim["metadata"]["annotations"].get(STORAGE_CLASS_ANNOTATION).is_some() {
        warnings.push(format!(
            "metadata.annotations[{STORAGE_CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute \
             instead"
        ));
    }
    for list in ["requests", "limits"] {
        let text = claim["spec"]["resources"][list][STORAGE].as_str();
        let amount = text.and_then(|text| Quantity::parse(text).ok());
        if let Some(amount) = amount.filter(|amount| amount.milli_value() % 1000 != 0) {
            warnings.push(format!(
                "spec.resources.{list}[{STORAGE}]: fractional byte value \"{amount}\" is invalid, must be an integer"
            ));
        }
    }
    warnings
}

/// Validates a new claim.
pub fn validate_create(claim: &PersistentVolumeClaim) -> ErrorList {
    let mut errors = validate_object_meta(&claim.metadata, true, &Path::new("metadata"));
    errors.extend(spec_problems(&spec_of(claim), false));
    errors
}

/// Validates a change of a claim.
pub fn validate_update(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> ErrorList {
    let (meta_path, path) = (Path::new("metadata"), Path::new("spec"));
    let (new_spec, old_spec) = (spec_of(new), spec_of(old));
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &meta_path);
    errors.extend(crate::metadata::prefix_problems(&new.metadata, &meta_path));
    errors.extend(spec_problems(&new_spec, has_api_group(&old_spec)));
    errors.extend(class_annotation_problem(new, old, &meta_path));
    let unchanged = without_mutable_fields(new, old);
    if unchanged != old_spec {
        // Upstream: a diff of the two specs in Go's notation follows. Ours names the fields.
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
             claims\nchanged: {}",
            changed_fields(&unchanged, &old_spec)
        );
        errors.push(Error::forbidden(&path, detail));
    }
    let (new_size, old_size) = (requested_storage(&new_spec), requested_storage(&old_spec));
    let capacity =
        status_of(old).and_then(|status| amount(status.capacity.as_ref()?.get(STORAGE)?)).unwrap_or_default();
    // A request that is too large can be reduced while the volume has not been expanded to it.
    if new_size < old_size && new_size <= capacity {
        let path = path.child("resources").child("requests").child(STORAGE);
        errors.push(Error::forbidden(&path, "field can not be less than status.capacity"));
    }
    errors.extend(immutable(&new_spec.volume_mode, &old_spec.volume_mode, &Path::new("volumeMode")));
    errors.extend(attributes_class_problem(&new_spec, old, &path.child("volumeAttributesClassName")));
    errors
}

/// Validates a write to a claim's status.
pub fn validate_status_update(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> ErrorList {
    let path = Path::new("status");
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    let Some(status) = status_of(new) else { return errors };
    let capacity = status.capacity.iter().flatten();
    errors.extend(capacity.filter_map(|(name, text)| negative_problem(text, &path.child("capacity").key(name))));
    let resize_path = path.child("allocatedResourceStatuses");
    for (name, state) in status.allocated_resource_statuses.iter().flatten() {
        errors.extend(resource_name_problems(name, &resize_path));
        if !RESIZE_STATUSES.contains(&state.as_str()) {
            // The API prints the name of the resource in the place of the value.
            errors.push(Error::not_supported(&resize_path, name.as_str(), &RESIZE_STATUSES));
        }
    }
    let allocated_path = path.child("allocatedResources");
    for (name, text) in status.allocated_resources.iter().flatten() {
        let of_name = resource_name_problems(name, &allocated_path);
        let of_amount = negative_problem(text, &allocated_path.key(name)).filter(|_| of_name.is_empty());
        errors.extend(of_name.into_iter().chain(of_amount));
    }
    errors
}

fn spec_of(claim: &PersistentVolumeClaim) -> PersistentVolumeClaimSpec {
    claim.spec.clone().unwrap_or_default()
}

fn status_of(claim: &PersistentVolumeClaim) -> Option<&PersistentVolumeClaimStatus> {
    claim.status.as_ref()
}

fn amount(text: &QuantityText) -> Option<Quantity> {
    Quantity::parse(&text.0).ok()
}

/// The requested size; zero without one.
fn requested_storage(spec: &PersistentVolumeClaimSpec) -> Quantity {
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    requests.and_then(|requests| amount(requests.get(STORAGE)?)).unwrap_or_default()
}

fn spec_problems(spec: &PersistentVolumeClaimSpec, has_known_api_group: bool) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = ErrorList::new();
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    if modes.is_empty() {
        errors.push(Error::required(&path.child("accessModes"), "at least 1 access mode is required"));
    }
    errors.extend(spec.selector.iter().flat_map(|selector| validate_label_selector(selector, &path.child("selector"))));
    errors.extend(access_mode_problems(modes, &path.child("accessModes")));
    errors.extend(storage_problem(spec, &path.child("resources").key(STORAGE)));
    errors.extend(class_name_problems(&spec.storage_class_name, &path.child("storageClassName")));
    let volume_mode = spec.volume_mode.as_deref();
    if let Some(mode) = volume_mode.filter(|mode| !VOLUME_MODES.contains(mode)) {
        errors.push(Error::not_supported(&path.child("volumeMode"), mode, &VOLUME_MODES));
    }
    errors.extend(data_source_problems(spec, has_known_api_group, &path));
    errors.extend(class_name_problems(&spec.volume_attributes_class_name, &path.child("volumeAttributesClassName")));
    errors
}

fn access_mode_problems(modes: &[String], path: &Path) -> ErrorList {
    let is_known = |mode: &&String| ACCESS_MODES.contains(&mode.as_str());
    let unknown = modes.iter().filter(|mode| !is_known(mode));
    let unknown = unknown.map(|mode| Error::not_supported(path, mode.as_str(), &ACCESS_MODES));
    let (single, other): (Vec<&String>, Vec<&String>) =
        modes.iter().filter(is_known).partition(|mode| *mode == SINGLE_POD_MODE);
    let contradiction = (!single.is_empty() && !other.is_empty())
        .then(|| Error::forbidden(path, "may not use ReadWriteOncePod with other access modes"));
    unknown.chain(contradiction).collect()
}

/// A claim requests a positive size.
fn storage_problem(spec: &PersistentVolumeClaimSpec, path: &Path) -> Option<Error> {
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let Some(text) = requests.and_then(|requests| requests.get(STORAGE)) else {
        return Some(Error::required(path, ""));
    };
    let size = amount(text).unwrap_or_default();
    (size <= Quantity::default()).then(|| Error::invalid(path, size.to_string(), "must be greater than zero"))
}

fn class_name_problems(name: &Option<String>, path: &Path) -> ErrorList {
    non_empty(name).map(|name| violations(names::dns_subdomain, name, path)).unwrap_or_default()
}

/// A reference to the source of the data, in the old or the new form.
struct DataSource<'a> {
    api_group: &'a Option<String>,
    kind: &'a str,
    name: &'a str,
}

impl DataSource<'_> {
    fn problems(&self, has_known_api_group: bool, path: &Path) -> ErrorList {
        let empty = [("name", self.name), ("kind", self.kind)].into_iter().filter(|(_, value)| value.is_empty());
        let mut errors: ErrorList = empty.map(|(field, _)| Error::required(&path.child(field), "")).collect();
        match non_empty(self.api_group) {
            None if self.kind != CLAIM => {
                let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                errors.push(Error::invalid(path, self.kind, detail));
            }
            Some(group) if !has_known_api_group => {
                errors.extend(violations(names::dns_subdomain, group, &path.child("apiGroup")));
            }
            _ => {}
        }
        errors
    }
}

/// The source and its reference are each valid, and the same unless the reference is to another namespace.
fn data_source_problems(spec: &PersistentVolumeClaimSpec, has_known_api_group: bool, path: &Path) -> ErrorList {
    let source = spec.data_source.as_ref();
    let source = source.map(|of| DataSource { api_group: &of.api_group, kind: &of.kind, name: &of.name });
    let reference = spec.data_source_ref.as_ref();
    let namespace = reference.and_then(|of| non_empty(&of.namespace));
    let reference = reference.map(|of| DataSource { api_group: &of.api_group, kind: &of.kind, name: &of.name });
    let mut errors = ErrorList::new();
    for (field, source) in [("dataSource", &source), ("dataSourceRef", &reference)] {
        errors.extend(source.iter().flat_map(|source| source.problems(has_known_api_group, &path.child(field))));
    }
    let namespace_path = path.child("dataSourceRef").child("namespace");
    errors.extend(namespace.into_iter().flat_map(|name| violations(names::dns_label, name, &namespace_path)));
    let is_same = |one: &DataSource<'_>, other: &DataSource<'_>| {
        (one.api_group, one.kind, one.name) == (other.api_group, other.kind, other.name)
    };
    let contradiction = match (&source, &reference) {
        (Some(_), Some(_)) if namespace.is_some() => {
            Some("may not be specified when dataSourceRef.namespace is specified")
        }
        (Some(source), Some(reference)) if !is_same(source, reference) => Some("must match dataSourceRef"),
        _ => None,
    };
    // The API prints an empty object in the place of the value.
    errors.extend(contradiction.map(|detail| Error::invalid(path, json!({}), detail)));
    errors
}

/// Whether the claim has a group whose name is not validated again.
fn has_api_group(spec: &PersistentVolumeClaimSpec) -> bool {
    spec.data_source.as_ref().is_some_and(|source| source.api_group.is_some())
        || spec.data_source_ref.as_ref().is_some_and(|source| source.api_group.is_some())
}

fn class_annotation(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(STORAGE_CLASS_ANNOTATION).map(String::as_str)
}

/// Whether the class moves from its annotation to its field.
fn replaces_class_annotation(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> bool {
    let class = class_annotation(old);
    let has_field = |claim: &PersistentVolumeClaim| spec_of(claim).storage_class_name.is_some();
    class.is_some()
        && !has_field(old)
        && spec_of(new).storage_class_name.as_deref() == class
        && class_annotation(new).is_none_or(|annotation| Some(annotation) == class)
}

fn class_annotation_problem(
    new: &PersistentVolumeClaim,
    old: &PersistentVolumeClaim,
    meta_path: &Path,
) -> Option<Error> {
    if replaces_class_annotation(new, old) {
        return None;
    }
    let [new, old] = [new, old].map(|claim| class_annotation(claim).unwrap_or_default());
    immutable(&new, &old, &meta_path.child("annotations").child(STORAGE_CLASS_ANNOTATION))
}

/// The new spec, with the old values of fields that may change.
fn without_mutable_fields(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> PersistentVolumeClaimSpec {
    let (mut spec, old_spec) = (spec_of(new), spec_of(old));
    // A claim is bound once.
    if non_empty(&old_spec.volume_name).is_none() {
        spec.volume_name.clone_from(&old_spec.volume_name);
    }
    // A class that is not set can be set once, to that of the annotation if there is one.
    let is_class_allowed = class_annotation(old).is_none_or(|class| spec.storage_class_name.as_deref() == Some(class));
    if old_spec.storage_class_name.is_none() && is_class_allowed {
        spec.storage_class_name = None;
    }
    if status_of(new).is_some_and(|status| status.phase.as_deref() == Some("Bound")) {
        spec.volume_attributes_class_name.clone_from(&old_spec.volume_attributes_class_name);
        let requests = spec.resources.as_mut().and_then(|resources| resources.requests.as_mut());
        let old_requests = old_spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        if let (Some(requests), Some(old)) = (requests, old_requests.and_then(|requests| requests.get(STORAGE))) {
            requests.insert(STORAGE.to_owned(), old.clone());
        }
    }
    spec
}

/// The fields of the spec that differ.
fn changed_fields(new: &PersistentVolumeClaimSpec, old: &PersistentVolumeClaimSpec) -> String {
    let (new, old) = (to_json(new), to_json(old));
    let mut fields: Vec<&String> =
        [&new, &old].iter().filter_map(|spec| spec.as_object()).flat_map(|spec| spec.keys()).collect();
    fields.sort_unstable();
    fields.dedup();
    let changed = fields.into_iter().filter(|field| new.get(field) != old.get(field));
    changed.map(|field| format!("spec.{field}")).collect::<Vec<_>>().join(", ")
}

/// Once attributes have been applied to the volume, a claim names their class.
fn attributes_class_problem(
    new: &PersistentVolumeClaimSpec,
    old: &PersistentVolumeClaim,
    path: &Path,
) -> Option<Error> {
    status_of(old)?.current_volume_attributes_class_name.as_ref()?;
    let class = new.volume_attributes_class_name.as_deref();
    let value = match class {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return None,
    };
    let detail = format!("update to {value} is forbidden when status.currentVolumeAttributesClassName is not nil");
    (class != spec_of(old).volume_attributes_class_name.as_deref()).then(|| Error::forbidden(path, detail))
}

fn negative_problem(text: &QuantityText, path: &Path) -> Option<Error> {
    let value = amount(text)?.value();
    (value < 0).then(|| Error::invalid(path, value, "must be a valid resource quantity"))
}

/// A resource of a claim is its storage, or that of another vendor.
fn resource_name_problems(name: &str, path: &Path) -> ErrorList {
    let errors = violations(names::qualified_name, name, path);
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    if errors.is_empty() && is_native && name != STORAGE {
        return vec![Error::not_supported(path, name, &[STORAGE])];
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(spec: Value) -> PersistentVolumeClaim {
        let metadata = json!({"name": "data", "namespace": "training"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a claim")
    }

    fn with_status(mut claim: PersistentVolumeClaim, status: Value) -> PersistentVolumeClaim {
        claim.status = Some(serde_json::from_value(status).expect("a status"));
        claim
    }

    /// A valid spec with these changes.
    fn spec(changes: Value) -> Value {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
            "storageClassName": "fast", "volumeMode": "Filesystem"});
        for (field, value) in changes.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        spec
    }

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(|error| error.to_string().replace('\n', "; ")).collect()
    }

    #[test]
    fn claim_has_modes_size_and_valid_names() {
        for (case, changes, want) in [
            ("valid", json!({}), ""),
            ("no class", json!({"storageClassName": ""}), ""),
            (
                "no mode",
                json!({"accessModes": []}),
                "spec.accessModes: Required value: at least 1 access mode is required",
            ),
            (
                "unknown mode",
                json!({"accessModes": ["Write"]}),
                "spec.accessModes: Unsupported value: \"Write\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \
                 \"ReadWriteOnce\", \"ReadWriteOncePod\"",
            ),
            (
                "one pod and more",
                json!({"accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]}),
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            ),
            ("no size", json!({"resources": {}}), "spec.resources[storage]: Required value"),
            (
                "no positive size",
                json!({"resources": {"requests": {"storage": "0"}}}),
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            ),
            (
                "unknown volume mode",
                json!({"volumeMode": "Tape"}),
                "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
            ),
            (
                "source of another group without the group",
                json!({"dataSource": {"kind": "Image", "name": "a"}}),
                "spec.dataSource: Invalid value: \"Image\": must be 'PersistentVolumeClaim' when referencing the default \
                 apiGroup",
            ),
            (
                "two sources",
                json!({"dataSource": {"kind": CLAIM, "name": "a"}, "dataSourceRef": {"kind": CLAIM, "name": "b"}}),
                "spec: Invalid value: {}: must match dataSourceRef",
            ),
        ] {
            assert_eq!(texts(&validate_create(&claim(spec(changes)))).join("; "), want, "{case}");
        }
        let errors = validate_create(&claim(spec(json!({"storageClassName": "Fast!"}))));
        assert!(errors[0].detail.starts_with("a lowercase RFC 1123 subdomain"), "{errors:?}");
    }

    #[test]
    fn only_the_size_and_attributes_of_a_bound_claim_change() {
        let immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and \
                         volumeAttributesClassName for bound claims; changed: spec.";
        let size = |size: &str| json!({"resources": {"requests": {"storage": size}}});
        let bound = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
        let pending = json!({"phase": "Pending"});
        for (case, status, changes, want) in [
            ("a pending claim grows", &pending, size("3Gi"), format!("{immutable}resources")),
            ("a bound claim grows", &bound, size("3Gi"), String::new()),
            ("a failed expansion is taken back", &bound, size("1500Mi"), String::new()),
            (
                "a bound claim shrinks",
                &bound,
                size("1Gi"),
                "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity".to_owned(),
            ),
            ("attributes of a pending claim", &pending, json!({"volumeAttributesClassName": "gold"}), {
                format!("{immutable}volumeAttributesClassName")
            }),
            ("attributes of a bound claim", &bound, json!({"volumeAttributesClassName": "gold"}), String::new()),
            ("the volume is bound", &pending, json!({"volumeName": "pv-1"}), String::new()),
            ("another class", &pending, json!({"storageClassName": "slow"}), format!("{immutable}storageClassName")),
            ("another volume mode", &bound, json!({"volumeMode": "Block"}), {
                format!("{immutable}volumeMode; volumeMode: Invalid value: \"Block\": field is immutable")
            }),
        ] {
            let [old, new] = [json!({}), changes].map(|changes| with_status(claim(spec(changes)), status.clone()));
            assert_eq!(texts(&validate_update(&new, &old)).join("; "), want, "{case}");
        }
    }

    #[test]
    fn storage_class_can_be_set_later_and_moves_from_its_annotation() {
        let annotated = |class: Option<&str>, annotation: Option<&str>| {
            let mut claim = claim(spec(json!({"storageClassName": class})));
            let annotations = annotation.map(|class| [(STORAGE_CLASS_ANNOTATION.to_owned(), class.to_owned())].into());
            claim.metadata.annotations = annotations;
            claim
        };
        for (case, old, new, errors) in [
            ("set later", (None, None), (Some("fast"), None), 0),
            ("removed", (Some("fast"), None), (None, None), 1),
            ("moved", (None, Some("fast")), (Some("fast"), None), 0),
            ("annotation changed", (None, Some("fast")), (None, Some("slow")), 1),
            ("another class than the annotation's", (None, Some("fast")), (Some("slow"), Some("fast")), 1),
        ] {
            let found = validate_update(&annotated(new.0, new.1), &annotated(old.0, old.1));
            assert_eq!(found.len(), errors, "{case}: {:?}", texts(&found));
        }
    }

    #[test]
    fn status_has_amounts_and_known_resources() {
        let old = claim(spec(json!({})));
        for (status, want) in [
            (json!({"capacity": {"storage": "1Gi"}, "allocatedResources": {"example.com/blocks": "5"}}), ""),
            (
                json!({"capacity": {"x": "-1"}}),
                "status.capacity[x]: Invalid value: -1: must be a valid resource quantity",
            ),
            (
                json!({"allocatedResources": {"cpu": "1"}}),
                "status.allocatedResources: Unsupported value: \"cpu\": supported values: \"storage\"",
            ),
            (
                json!({"allocatedResourceStatuses": {"storage": "Growing"}}),
                "status.allocatedResourceStatuses: Unsupported value: \"storage\": supported values: \
                 \"ControllerResizeInProgress\", \"ControllerResizeInfeasible\", \"NodeResizeInProgress\", \
                 \"NodeResizeInfeasible\", \"NodeResizePending\"",
            ),
        ] {
            let new = with_status(old.clone(), status.clone());
            assert_eq!(texts(&validate_status_update(&new, &old)).join("; "), want, "{status}");
        }
    }

    #[test]
    fn both_forms_of_a_data_source_are_kept_equal() {
        let prepare = |source: Value| {
            let mut claim = json!({"spec": source});
            prepare_create(&mut claim);
            [claim["spec"]["dataSource"].take(), claim["spec"]["dataSourceRef"].take()]
        };
        let other = json!({"apiGroup": null, "kind": CLAIM, "name": "other"});
        let image = json!({"apiGroup": "example.com", "kind": "Image", "name": "a"});
        let remote = json!({"kind": CLAIM, "name": "other", "namespace": "elsewhere"});
        assert_eq!(prepare(json!({"dataSource": other})), [other.clone(), other.clone()]);
        assert_eq!(prepare(json!({"dataSourceRef": image})), [image.clone(), image.clone()]);
        assert_eq!(prepare(json!({"dataSource": image})), [Value::Null, Value::Null]);
        assert_eq!(prepare(json!({"dataSourceRef": remote})), [Value::Null, Value::Null]);
    }

    #[test]
    fn old_annotation_and_fractions_of_a_byte_are_warned_about() {
        let claim = json!({"metadata": {"annotations": {STORAGE_CLASS_ANNOTATION: "slow"}},
            "spec": {"resources": {"requests": {"storage": "1500m"}, "limits": {"storage": "2"}}}});
        let warnings = warnings(&claim);
        assert!(
            warnings[0].ends_with("deprecated since v1.8; use \"storageClassName\" attribute instead"),
            "{warnings:?}"
        );
        let fraction =
            "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer";
        assert_eq!(warnings[1..], [fraction]);
    }
}
