//! Containers: names, images, ports, mounts, resources.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec, VolumeMount};

use super::declared_names::DeclaredNames;
use super::pod_spec::{SpecParent, one_of};
use super::volumes::descending_path_problems;
use super::{claims, environment, out_of_range_message, probes, resources, restart, security};
use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, non_empty, push_violations};

/// Whether mounts below a read-only mount are read-only too.
const RECURSIVE: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];
/// Whether mounts made on the node or in the container appear on the other side.
const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];

/// Validates all containers of a spec. They can refer to the `declared` names.
pub fn validate(spec: &PodSpec, of: SpecParent, declared: &DeclaredNames<'_>, path: &Path, errors: &mut ErrorList) {
    let main_path = path.child("containers");
    let init_path = path.child("initContainers");
    let init = spec.init_containers.as_deref().unwrap_or_default();
    if spec.containers.is_empty() {
        errors.push(Error::required(&main_path, ""));
    }
    // Names are unique over containers and init containers. The error is about the init container.
    let mut used = BTreeSet::new();
    for (containers, path) in [(spec.containers.as_slice(), &main_path), (init, &init_path)] {
        for (index, container) in containers.iter().enumerate() {
            let is_init = path.as_str() == init_path.as_str();
            let path = path.index(index);
            validate_name(container, &path, errors);
            if !is_init {
                validate_unique_name(container, &mut used, &path, errors);
            }
            validate_container(container, spec, declared, &path, errors);
            // A sidecar starts before the containers and runs with them.
            let runs_on = !is_init || container.restart_policy.as_deref() == Some("Always");
            let grace_seconds = spec.termination_grace_period_seconds.unwrap_or(0);
            if runs_on {
                errors.extend(probes::validate(container, grace_seconds, &path));
            }
            errors.extend(restart::validate(container, is_init, &path));
            if is_init {
                validate_unique_name(container, &mut used, &path, errors);
            }
            if !runs_on {
                errors.extend(probes::validate_absent(container, &path));
            }
        }
        validate_host_ports(containers, path, errors);
    }
    if spec.host_network == Some(true) {
        validate_host_network_ports(spec, of, &main_path, errors);
    }
}

fn validate_name(container: &Container, path: &Path, errors: &mut ErrorList) {
    let path = path.child("name");
    match container.name.as_str() {
        "" => errors.push(Error::required(&path, "")),
        name => push_violations(names::dns_label(name), name, &path, errors),
    }
}

fn validate_unique_name<'a>(
    container: &'a Container,
    used: &mut BTreeSet<&'a str>,
    path: &Path,
    errors: &mut ErrorList,
) {
    let name = container.name.as_str();
    if !used.insert(name) && !name.is_empty() {
        errors.push(Error::duplicate(&path.child("name"), name));
    }
}

fn validate_container(
    container: &Container,
    spec: &PodSpec,
    declared: &DeclaredNames<'_>,
    path: &Path,
    errors: &mut ErrorList,
) {
    match container.image.as_deref().unwrap_or("") {
        "" => errors.push(Error::required(&path.child("image"), "")),
        image if image.trim() != image => {
            let detail = "must not have leading or trailing whitespace";
            errors.push(Error::invalid(&path.child("image"), image, detail));
        }
        _ => {}
    }
    let (policy, policies) =
        (container.termination_message_policy.as_deref().unwrap_or(""), ["File", "FallbackToLogsOnError"]);
    match policy {
        "" => errors.push(Error::required(&path.child("terminationMessagePolicy"), "")),
        policy if policies.contains(&policy) => {}
        policy => errors.push(Error::not_supported(&path.child("terminationMessagePolicy"), policy, &policies)),
    }
    validate_ports(container.ports.as_deref().unwrap_or_default(), &path.child("ports"), errors);
    errors.extend(environment::validate(container, declared, path));
    validate_mounts(container, &declared.mountable, &path.child("volumeMounts"), errors);
    validate_devices(container, declared, &path.child("volumeDevices"), errors);
    let pull = ["Always", "IfNotPresent", "Never"];
    one_of(container.image_pull_policy.as_deref(), &pull, &path.child("imagePullPolicy"), errors);
    if let Some(requirements) = &container.resources {
        let path = path.child("resources");
        resources::validate(requirements, &path, errors);
        errors.extend(claims::validate_container_claims(requirements, declared, &path));
    }
    errors.extend(restart::validate_resize(container, spec.restart_policy.as_deref().unwrap_or(""), path));
    if let Some(context) = &container.security_context {
        errors.extend(security::validate_container(context, &path.child("securityContext")));
    }
}

fn validate_ports(ports: &[ContainerPort], path: &Path, errors: &mut ErrorList) {
    let mut used = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            let problems = names::port_name(name);
            if problems.is_empty() && !used.insert(name) {
                errors.push(Error::duplicate(&path.child("name"), name));
            }
            push_violations(problems, name, &path.child("name"), errors);
        }
        if port.container_port == 0 {
            errors.push(Error::required(&path.child("containerPort"), ""));
        } else {
            validate_port_number(port.container_port, &path.child("containerPort"), errors);
        }
        if let Some(number) = port.host_port.filter(|number| *number != 0) {
            validate_port_number(number, &path.child("hostPort"), errors);
        }
        one_of(port.protocol.as_deref(), &["SCTP", "TCP", "UDP"], &path.child("protocol"), errors);
    }
}

fn validate_port_number(number: i32, path: &Path, errors: &mut ErrorList) {
    if !(1..=65535).contains(&number) {
        errors.push(Error::invalid(path, number, out_of_range_message(1, 65535)));
    }
}

/// Host ports are unique in a pod.
fn validate_host_ports(containers: &[Container], path: &Path, errors: &mut ErrorList) {
    let mut used = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (port_index, port) in container.ports.iter().flatten().enumerate() {
            let Some(number) = port.host_port.filter(|number| *number != 0) else { continue };
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let text = format!("{protocol}/{}/{number}", port.host_ip.as_deref().unwrap_or(""));
            let path = path.index(index).child("ports").index(port_index).child("hostPort");
            if used.contains(&text) {
                errors.push(Error::duplicate(&path, text));
            } else {
                used.insert(text);
            }
        }
    }
}

/// On the host network a container port must equal its host port.
fn validate_host_network_ports(spec: &PodSpec, of: SpecParent, path: &Path, errors: &mut ErrorList) {
    for (index, container) in spec.containers.iter().enumerate() {
        for (port_index, port) in container.ports.iter().flatten().enumerate() {
            let host_port = port.host_port.unwrap_or(0);
            let left_open = of == SpecParent::Template && host_port == 0;
            if host_port != port.container_port && !left_open {
                let path = path.index(index).child("ports").index(port_index).child("hostPort");
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(Error::invalid(&path, host_port, detail));
            }
        }
    }
}

fn validate_mounts(container: &Container, volumes: &BTreeSet<&str>, list: &Path, errors: &mut ErrorList) {
    let mut used = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = list.index(index);
        if mount.name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        if !volumes.contains(mount.name.as_str()) {
            errors.push(Error::not_found(&path.child("name"), mount.name.as_str()));
        }
        if mount.mount_path.is_empty() {
            errors.push(Error::required(&path.child("mountPath"), ""));
        }
        if !used.insert(mount.mount_path.as_str()) {
            errors.push(Error::invalid(&path.child("mountPath"), mount.mount_path.as_str(), "must be unique"));
        }
        errors.extend(sub_path_problems(mount, list, &path));
        errors.extend(propagation_problem(mount, container, &list.child("mountPropagation")));
        errors.extend(recursion_problems(mount, &list.child("recursiveReadOnly")));
    }
}

/// Validates the path in the volume. Most of these errors have the path of the list.
fn sub_path_problems(mount: &VolumeMount, list: &Path, path: &Path) -> ErrorList {
    let (plain, expanded) = (non_empty(&mount.sub_path), non_empty(&mount.sub_path_expr));
    let mut errors: ErrorList =
        plain.iter().flat_map(|sub_path| descending_path_problems(sub_path, &list.child("subPath"))).collect();
    if let Some(sub_path) = expanded {
        if plain.is_some() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(Error::invalid(&path.child("subPathExpr"), sub_path, detail));
        }
        errors.extend(descending_path_problems(sub_path, &list.child("subPathExpr")));
    }
    errors
}

fn propagation_problem(mount: &VolumeMount, container: &Container, path: &Path) -> Option<Error> {
    let propagation = mount.mount_propagation.as_deref()?;
    let privileged = container.security_context.as_ref().and_then(|context| context.privileged) == Some(true);
    if !PROPAGATIONS.contains(&propagation) {
        Some(Error::not_supported(path, propagation, &PROPAGATIONS))
    } else if propagation == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        Some(Error::forbidden(path, detail))
    } else {
        None
    }
}

fn recursion_problems(mount: &VolumeMount, path: &Path) -> ErrorList {
    let Some(recursive) = mount.recursive_read_only.as_deref() else { return ErrorList::new() };
    if !RECURSIVE.contains(&recursive) {
        return vec![Error::not_supported(path, recursive, &RECURSIVE)];
    }
    let writable = mount.read_only != Some(true);
    let propagates = mount.mount_propagation.as_deref().is_some_and(|how| how != "None");
    let only = |broken: bool, when: &str| {
        let broken = broken && recursive != "Disabled";
        broken.then(|| Error::forbidden(path, format!("may only be specified when {when}")))
    };
    only(writable, "readOnly is true")
        .into_iter()
        .chain(only(propagates, "mountPropagation is None or not specified"))
        .collect()
}

/// Validates raw block devices: volumes that can be one, unique names and paths, and not mounted too.
fn validate_devices(container: &Container, declared: &DeclaredNames<'_>, path: &Path, errors: &mut ErrorList) {
    let mut used = BTreeSet::new();
    let mounted: BTreeSet<&str> = container.volume_mounts.iter().flatten().map(|mount| mount.name.as_str()).collect();
    for (index, device) in container.volume_devices.iter().flatten().enumerate() {
        let path = path.index(index);
        let (name_path, path_field) = (path.child("name"), path.child("devicePath"));
        let (name, device_path) = (device.name.as_str(), device.device_path.as_str());
        if name.is_empty() {
            errors.push(Error::required(&name_path, ""));
        }
        if !used.insert(("name", name)) {
            errors.push(Error::invalid(&name_path, name, "must be unique"));
        }
        match declared.volumes.get(name) {
            None => errors.push(Error::not_found(&name_path, name)),
            Some(volume) if volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none() => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(Error::invalid(&name_path, name, detail));
            }
            Some(_) => {}
        }
        if device_path.is_empty() {
            errors.push(Error::required(&path_field, ""));
        } else if !used.insert(("path", device_path)) {
            errors.push(Error::invalid(&path_field, device_path, "must be unique"));
        } else if device_path.split('/').any(|part| part == "..") {
            errors.push(Error::invalid(&path_field, device_path, "can not contain backsteps ('..')"));
        }
        if mounted.contains(name) {
            errors.push(Error::invalid(&name_path, name, "must not already exist in volumeMounts"));
        }
    }
}
