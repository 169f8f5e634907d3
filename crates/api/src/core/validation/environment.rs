//! Environment variables of a container, and the sources of their values.

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, ObjectFieldSelector,
};

use super::declared_names::DeclaredNames;
use super::volumes::backstep_problem;

use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, violations};

/// The fields of a pod that a variable can refer to, in the order of the messages.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of a pod that exist but are not strings.
const NON_ENV_FIELDS: [&str; 6] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
    "spec.hostNetwork",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const MORE_THAN_ONE: &str = "may not have more than one field specified at a time";

/// Validates the variables of a container, then its `envFrom`.
pub fn validate(container: &Container, declared: &DeclaredNames<'_>, path: &Path) -> ErrorList {
    let variables = container.env.iter().flatten().enumerate();
    let sources = container.env_from.iter().flatten().enumerate();
    let (env, env_from) = (path.child("env"), path.child("envFrom"));
    variables
        .flat_map(|(index, variable)| variable_problems(variable, declared, &env.index(index)))
        .chain(sources.flat_map(|(index, source)| env_from_problems(source, &env_from, index)))
        .collect()
}

fn variable_problems(variable: &EnvVar, declared: &DeclaredNames<'_>, path: &Path) -> ErrorList {
    let mut errors = match variable.name.as_str() {
        "" => vec![Error::required(&path.child("name"), "")],
        name => violations(variable_name, name, &path.child("name")),
    };
    if let Some(source) = &variable.value_from {
        let has_value = variable.value.as_deref().is_some_and(|value| !value.is_empty());
        let path = path.child("valueFrom");
        errors.extend(source_problems(source, has_value, &path));
        errors.extend(source.file_key_ref.as_ref().and_then(|file| file_volume_problem(file, declared, &path)));
    }
    errors
}

fn source_problems(source: &EnvVarSource, has_value: bool, path: &Path) -> ErrorList {
    let mut found = Vec::new();
    if let Some(field) = &source.field_ref {
        found.push(field_problems(field, &path.child("fieldRef")));
    }
    if let Some(resource) = &source.resource_field_ref {
        let path = path.child("resourceFieldRef").child("resource");
        let name = resource.resource.as_str();
        let known = RESOURCES.contains(&name) || name.contains(".hugepages-");
        found.push(match name {
            "" => vec![Error::required(&path, "")],
            _ if known => ErrorList::new(),
            _ => vec![Error::not_supported(&path, name, &RESOURCES)],
        });
    }
    let keys = [
        ("configMapKeyRef", source.config_map_key_ref.as_ref().map(|from| (&from.name, &from.key))),
        ("secretKeyRef", source.secret_key_ref.as_ref().map(|from| (&from.name, &from.key))),
    ];
    for (field, from) in keys {
        let Some((name, key)) = from else { continue };
        let path = path.child(field);
        let mut errors = violations(names::dns_subdomain, name, &path.child("name"));
        errors.extend(key_problems(key, &path.child("key")));
        found.push(errors);
    }
    if let Some(file) = &source.file_key_ref {
        let path = path.child("fileKeyRef");
        let parts = [("key", &file.key), ("volumeName", &file.volume_name), ("path", &file.path)];
        let missing = parts.iter().filter(|(_, text)| text.is_empty());
        let mut errors: ErrorList = missing.map(|(name, _)| Error::required(&path.child(name), "")).collect();
        errors.extend(backstep_problem(&file.path, &path.child("path")));
        found.push(errors);
    }
    let count = found.len();
    let mut errors: ErrorList = found.into_iter().flatten().collect();
    let all = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
    let problem = match count {
        0 => Some(all),
        _ if has_value => Some("may not be specified when `value` is not empty"),
        1 => None,
        _ => Some(MORE_THAN_ONE),
    };
    errors.extend(problem.map(|detail| Error::invalid(path, "", detail)));
    errors
}

/// A file with variables is in an `emptyDir` volume of the pod.
fn file_volume_problem(file: &FileKeySelector, declared: &DeclaredNames<'_>, path: &Path) -> Option<Error> {
    let path = path.child("fileKeyRef").child("volumeName");
    let name = file.volume_name.as_str();
    match declared.volumes.get(name) {
        None => Some(Error::not_found(&path, name)),
        Some(volume) if volume.empty_dir.is_none() => {
            Some(Error::invalid(&path, name, "referenced volume must be of type emptyDir"))
        }
        Some(_) => None,
    }
}

fn field_problems(field: &ObjectFieldSelector, path: &Path) -> ErrorList {
    let path_of = path.child("fieldPath");
    let name = field.field_path.as_str();
    if name.is_empty() {
        return vec![Error::required(&path_of, "")];
    }
    let version = field.api_version.as_deref().unwrap_or("");
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        return vec![Error::invalid(&path_of, name, detail)];
    }
    if let Some((_, key)) = subscript(name) {
        return violations(names::qualified_name, key, path);
    }
    if FIELDS.contains(&name) {
        ErrorList::new()
    } else if NON_ENV_FIELDS.contains(&name) {
        vec![Error::not_supported(&path_of, name, &FIELDS)]
    } else {
        let detail = format!("error converting fieldPath: field label not supported: {name}");
        vec![Error::invalid(&path_of, name, detail)]
    }
}

/// The map and the key of `metadata.labels['key']`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.strip_suffix("']")?.split_once("['")?;
    matches!(map, "metadata.labels" | "metadata.annotations").then_some((map, rest))
}

fn key_problems(key: &str, path: &Path) -> ErrorList {
    if key.is_empty() { vec![Error::required(path, "")] } else { violations(config_key, key, path) }
}

fn config_key(key: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if !key.bytes().all(known) {
        let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                      or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        problems.push(detail.to_owned());
    }
    problems
}

fn variable_name(name: &str) -> Vec<String> {
    let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    let known = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    if name.bytes().all(known) { Vec::new() } else { vec![detail.to_owned()] }
}

fn env_from_problems(source: &EnvFromSource, list: &Path, index: usize) -> ErrorList {
    let path = list.index(index);
    let prefix = source.prefix.as_deref().unwrap_or("");
    let mut errors = violations(variable_name, prefix, &path.child("prefix"));
    let references = [
        ("configMapRef", source.config_map_ref.as_ref().map(|from| &from.name)),
        ("secretRef", source.secret_ref.as_ref().map(|from| &from.name)),
    ];
    let given: Vec<_> = references.iter().filter_map(|(field, name)| Some((field, (*name)?))).collect();
    for (field, name) in &given {
        let path = path.child(field).child("name");
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
        } else {
            errors.extend(violations(names::dns_subdomain, name, &path));
        }
    }
    let problem = match given.len() {
        0 => Some("must specify one of: `configMapRef` or `secretRef`"),
        1 => None,
        _ => Some(MORE_THAN_ONE),
    };
    errors.extend(problem.map(|detail| Error::invalid(list, "", detail)));
    errors
}
