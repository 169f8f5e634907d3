//! Volumes: names, exactly one source, and the fields of common sources.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, HostPathVolumeSource, KeyToPath, PodSpec, ProjectedVolumeSource, Volume, VolumeProjection,
};
use serde_json::Value;

use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, non_empty, to_json, violations};
use crate::quantity::Quantity;

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const TOKEN_SECONDS_MIN: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// The sources in the order of checks. If a volume has several, all but the first are refused.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Kubernetes' name of a source in the message about several sources, if it differs.
const SOURCE_DISPLAY_NAMES: [(&str, &str); 2] = [("cephfs", "cephFS"), ("downwardAPI", "downwarAPI")];

/// Validates all volumes. Returns the names of the valid ones, which containers can mount.
pub fn validate<'a>(spec: &'a PodSpec, path: &Path, errors: &mut ErrorList) -> BTreeSet<&'a str> {
    let mut good = BTreeSet::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let (name, path) = (volume.name.as_str(), path.index(index));
        let name_path = path.child("name");
        let mut found = source_problems(volume, &path);
        found.extend(match name {
            "" => vec![Error::required(&name_path, "")],
            name if good.contains(name) => vec![Error::duplicate(&name_path, name)],
            name => violations(names::dns_label, name, &name_path),
        });
        if found.is_empty() {
            good.insert(name);
        }
        errors.extend(found);
    }
    good
}

/// A pod with a projected service account token needs a service account.
pub fn validate_tokens(spec: &PodSpec, path: &Path) -> ErrorList {
    if non_empty(&spec.service_account_name).is_some() {
        return ErrorList::new();
    }
    let mut errors = ErrorList::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let sources = volume.projected.iter().flat_map(|all| all.sources.iter().flatten()).enumerate();
        for (at, _) in sources.filter(|(_, source)| source.service_account_token.is_some()) {
            let path = path.index(index).child("projected").child("sources").index(at).child("serviceAccountToken");
            errors.push(Error::forbidden(&path, "must not be specified when serviceAccountName is not set"));
        }
    }
    errors
}

fn source_problems(volume: &Volume, path: &Path) -> ErrorList {
    let document = to_json(volume);
    let mut given = SOURCES.iter().filter(|source| document.get(**source).is_some_and(|value| !value.is_null()));
    let first = given.next().copied().unwrap_or_default();
    let mut errors = typed_source_problems(first, volume, &path.child(first));
    let more = "may not specify more than 1 volume type";
    let called = |source: &'static str| {
        SOURCE_DISPLAY_NAMES.iter().find(|(name, _)| *name == source).map_or(source, |(_, called)| called)
    };
    errors.extend(given.map(|source| Error::forbidden(&path.child(called(source)), more)));
    errors
}

fn typed_source_problems(source: &str, volume: &Volume, path: &Path) -> ErrorList {
    match source {
        "emptyDir" => {
            let limit = volume.empty_dir.as_ref().and_then(|source| source.size_limit.as_ref());
            let is_negative = limit.and_then(|limit| Quantity::parse(&limit.0).ok()).is_some_and(Quantity::is_negative);
            let detail = "SizeLimit field must be a valid resource quantity";
            is_negative.then(|| Error::forbidden(&path.child("sizeLimit"), detail)).into_iter().collect()
        }
        "hostPath" => volume.host_path.as_ref().map(|source| host_path_problems(source, path)).unwrap_or_default(),
        "secret" => {
            let Some(source) = &volume.secret else { return ErrorList::new() };
            let mut errors = required_text(non_empty(&source.secret_name), &path.child("secretName"));
            errors.extend(key_to_path_problems(source.default_mode, &source.items, path));
            errors
        }
        "configMap" => {
            let Some(source) = &volume.config_map else { return ErrorList::new() };
            let mut errors = required_text(Some(&source.name), &path.child("name"));
            errors.extend(key_to_path_problems(source.default_mode, &source.items, path));
            errors
        }
        "persistentVolumeClaim" => {
            let name = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.as_str());
            required_text(name, &path.child("claimName"))
        }
        "nfs" => {
            let Some(source) = &volume.nfs else { return ErrorList::new() };
            let mut errors = required_text(Some(&source.server), &path.child("server"));
            errors.extend(required_text(Some(&source.path), &path.child("path")));
            if !source.path.starts_with('/') {
                let detail = "must be an absolute path";
                errors.push(Error::invalid(&path.child("path"), source.path.as_str(), detail));
            }
            errors
        }
        "downwardAPI" => {
            let Some(source) = &volume.downward_api else { return ErrorList::new() };
            let mut errors: ErrorList =
                mode_problem(source.default_mode, &path.child("defaultMode")).into_iter().collect();
            errors.extend(source.items.iter().flatten().flat_map(|file| downward_api_file_problems(file, path)));
            errors
        }
        "projected" => volume.projected.as_ref().map(|source| projected_problems(source, path)).unwrap_or_default(),
        "csi" => {
            let driver = volume.csi.as_ref().map_or("", |source| source.driver.as_str());
            let path = path.child("driver");
            if driver.is_empty() { required_text(None, &path) } else { violations(names::dns_subdomain, driver, &path) }
        }
        "image" => {
            let reference = volume.image.as_ref().and_then(|source| non_empty(&source.reference));
            required_text(reference, &path.child("reference"))
        }
        "ephemeral" => {
            let template = volume.ephemeral.as_ref().and_then(|source| source.volume_claim_template.as_ref());
            required_text(template.map(|_| "given"), &path.child("volumeClaimTemplate"))
        }
        _ => ErrorList::new(),
    }
}

fn required_text(text: Option<&str>, path: &Path) -> ErrorList {
    if text.is_none_or(str::is_empty) { vec![Error::required(path, "")] } else { ErrorList::new() }
}

fn host_path_problems(source: &HostPathVolumeSource, path: &Path) -> ErrorList {
    let mut errors = required_text(Some(&source.path), &path.child("path"));
    errors.extend(backstep_problem(&source.path, &path.child("path")));
    let kind = source.type_.as_deref().unwrap_or("");
    if !HOST_PATH_TYPES.contains(&kind) {
        errors.push(Error::not_supported(&path.child("type"), kind, &HOST_PATH_TYPES));
    }
    errors
}

pub(super) fn backstep_problem(place: &str, path: &Path) -> Option<Error> {
    place.split('/').any(|part| part == "..").then(|| Error::invalid(path, place, "must not contain '..'"))
}

/// Validates the path of a file in the volume.
fn non_reserved_path_problems(place: &str, path: &Path) -> ErrorList {
    if place.is_empty() {
        return vec![Error::required(path, "")];
    }
    // `../a` is a step back, `..a` is not. Both are refused, with one error each.
    let begins = place.starts_with("..") && !place.starts_with("../");
    let begins = begins.then(|| Error::invalid(path, place, "must not start with '..'"));
    descending_path_problems(place, path).into_iter().chain(begins).collect()
}

/// Validates a relative path without `..`.
pub(super) fn descending_path_problems(place: &str, path: &Path) -> ErrorList {
    let absolute = place.starts_with('/').then(|| Error::invalid(path, place, "must be a relative path"));
    absolute.into_iter().chain(backstep_problem(place, path)).collect()
}

fn mode_problem(mode: Option<i32>, path: &Path) -> Option<Error> {
    let mode = mode.filter(|mode| !(0..=0o777).contains(mode))?;
    Some(Error::invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive"))
}

fn key_to_path_problems(default_mode: Option<i32>, items: &Option<Vec<KeyToPath>>, path: &Path) -> ErrorList {
    let mut errors: ErrorList = mode_problem(default_mode, &path.child("defaultMode")).into_iter().collect();
    for (index, item) in items.iter().flatten().enumerate() {
        let path = path.child("items").index(index);
        errors.extend(required_text(Some(&item.key), &path.child("key")));
        errors.extend(non_reserved_path_problems(&item.path, &path.child("path")));
        errors.extend(mode_problem(item.mode, &path.child("mode")));
    }
    errors
}

/// Validates a downward API file. As in Kubernetes, the error has no index of the list.
fn downward_api_file_problems(file: &DownwardAPIVolumeFile, path: &Path) -> ErrorList {
    let mut errors = non_reserved_path_problems(&file.path, &path.child("path"));
    match (&file.field_ref, &file.resource_field_ref) {
        (Some(_), Some(_)) => {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(Error::invalid(path, "resource", detail));
        }
        (Some(field), None) => {
            errors.extend(required_text(Some(&field.field_path), &path.child("fieldRef").child("fieldPath")));
        }
        (None, Some(resource)) => {
            let container = non_empty(&resource.container_name);
            errors.extend(required_text(container, &path.child("resourceFieldRef").child("containerName")));
        }
        (None, None) => errors.push(Error::required(path, "one of fieldRef and resourceFieldRef is required")),
    }
    errors.extend(mode_problem(file.mode, &path.child("mode")));
    errors
}

fn projected_problems(all: &ProjectedVolumeSource, path: &Path) -> ErrorList {
    let mut errors: ErrorList = mode_problem(all.default_mode, &path.child("defaultMode")).into_iter().collect();
    let sources = all.sources.iter().flatten().enumerate();
    errors.extend(
        sources.flat_map(|(index, source)| projection_problems(source, &path.child("sources").index(index), path)),
    );
    errors
}

/// `whole` is the path of the volume, for errors about the path of a token.
fn projection_problems(source: &VolumeProjection, path: &Path, whole: &Path) -> ErrorList {
    let given =
        to_json(source).as_object().map_or(0, |fields| fields.values().filter(|value| **value != Value::Null).count());
    if given > 1 {
        return vec![Error::forbidden(path, "may not specify more than 1 volume type per source")];
    }
    let mut errors = ErrorList::new();
    if let Some(secret) = &source.secret {
        let path = path.child("secret");
        errors.extend(required_text(Some(&secret.name), &path.child("name")));
        errors.extend(key_to_path_problems(None, &secret.items, &path));
    }
    if let Some(map) = &source.config_map {
        let path = path.child("configMap");
        errors.extend(required_text(Some(&map.name), &path.child("name")));
        errors.extend(key_to_path_problems(None, &map.items, &path));
    }
    if let Some(downward_api) = &source.downward_api {
        errors.extend(
            downward_api
                .items
                .iter()
                .flatten()
                .flat_map(|file| downward_api_file_problems(file, &path.child("downwardAPI"))),
        );
    }
    if let Some(token) = &source.service_account_token {
        let seconds = token.expiration_seconds.unwrap_or(TOKEN_SECONDS_MIN);
        let detail = match seconds {
            seconds if seconds < TOKEN_SECONDS_MIN => Some("may not specify a duration less than 10 minutes"),
            seconds if seconds > MAX_TOKEN_SECONDS => Some("may not specify a duration larger than 2^32 seconds"),
            _ => None,
        };
        let path = path.child("serviceAccountToken").child("expirationSeconds");
        errors.extend(detail.map(|detail| Error::invalid(&path, seconds, detail)));
        errors.extend(non_reserved_path_problems(&token.path, &whole.child("path")));
    }
    errors
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::{validate, validate_tokens};
    use crate::field::{ErrorList, Path};

    fn render(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(|error| format!("{} {}", error.path, error.kind.text())).collect()
    }

    #[test]
    fn each_source_is_validated() {
        let file = |path: &str| json!({"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": path}]}});
        let downward_api = |item: Value| json!({"name": "v", "downwardAPI": {"items": [item]}});
        for (volume, want) in [
            (json!({"name": "", "emptyDir": {}}), vec!["name Required value"]),
            (json!({"name": "A", "emptyDir": {}}), vec!["name Invalid value"]),
            (json!({"name": "v", "emptyDir": {}, "configMap": {}}), vec!["configMap Forbidden"]),
            (json!({"name": "v", "hostPath": {"path": "/"}, "downwardAPI": {}}), vec!["downwarAPI Forbidden"]),
            (json!({"name": "v", "emptyDir": {"sizeLimit": "-1"}}), vec!["emptyDir.sizeLimit Forbidden"]),
            (
                json!({"name": "v", "configMap": {"defaultMode": 512}}),
                vec!["configMap.name Required value", "configMap.defaultMode Invalid value"],
            ),
            (json!({"name": "v", "secret": {}}), vec!["secret.secretName Required value"]),
            (
                json!({"name": "v", "persistentVolumeClaim": {"claimName": ""}}),
                vec!["persistentVolumeClaim.claimName Required value"],
            ),
            (
                json!({"name": "v", "hostPath": {"path": "/a/../b", "type": "x"}}),
                vec!["hostPath.path Invalid value", "hostPath.type Unsupported value"],
            ),
            (json!({"name": "v", "nfs": {"server": "s", "path": "b"}}), vec!["nfs.path Invalid value"]),
            (json!({"name": "v", "csi": {"driver": "-"}}), vec!["csi.driver Invalid value"]),
            (json!({"name": "v", "ephemeral": {}}), vec!["ephemeral.volumeClaimTemplate Required value"]),
            (json!({"name": "v", "image": {}}), vec!["image.reference Required value"]),
            (file("a/b"), vec![]),
            (file("/a"), vec!["configMap.items[0].path Invalid value"]),
            (file("..a"), vec!["configMap.items[0].path Invalid value"]),
            (file(".."), vec!["configMap.items[0].path Invalid value", "configMap.items[0].path Invalid value"]),
            (downward_api(json!({"path": "a"})), vec!["downwardAPI Required value"]),
            (
                downward_api(json!({"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}})),
                vec!["downwardAPI.resourceFieldRef.containerName Required value"],
            ),
            (
                json!({"name": "v", "projected": {"sources": [{"secret": {}}, {"secret": {}, "configMap": {}},
                    {"serviceAccountToken": {"path": "/t", "expirationSeconds": 1}}]}}),
                vec![
                    "projected.sources[0].secret.name Required value",
                    "projected.sources[1] Forbidden",
                    "projected.sources[2].serviceAccountToken.expirationSeconds Invalid value",
                    "projected.path Invalid value",
                ],
            ),
        ] {
            let spec = serde_json::from_value(json!({"containers": [], "volumes": [volume]})).expect("a spec");
            let mut errors = ErrorList::new();
            let good = validate(&spec, &Path::new("v"), &mut errors);
            let want: Vec<String> = want.iter().map(|want| format!("v[0].{want}")).collect();
            assert_eq!(render(&errors), want, "{volume}");
            assert_eq!(good, if want.is_empty() { BTreeSet::from(["v"]) } else { BTreeSet::new() }, "{volume}");
        }
    }

    #[test]
    fn token_needs_a_service_account() {
        let volume = json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}});
        for (account, want) in [("", vec!["v[0].projected.sources[0].serviceAccountToken Forbidden"]), ("a", vec![])] {
            let spec = json!({"containers": [], "volumes": [volume], "serviceAccountName": account});
            let spec = serde_json::from_value(spec).expect("a spec");
            assert_eq!(render(&validate_tokens(&spec, &Path::new("v"))), want);
        }
    }
}
