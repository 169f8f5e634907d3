//! Containers: names, images, ports, mounts, resources.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

use super::pod_spec::{SpecOf, one_of};
use super::{between, resources};
use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, push_all};

/// Judges all containers of a spec.
pub fn validate(spec: &PodSpec, of: SpecOf, path: &Path, errors: &mut ErrorList) {
    let volumes: BTreeSet<&str> = spec.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    let main_path = path.child("containers");
    let init_path = path.child("initContainers");
    let init = spec.init_containers.as_deref().unwrap_or_default();
    if spec.containers.is_empty() {
        errors.push(Error::required(&main_path, ""));
    }
    // Init containers share the names of the others, and are told so where they repeat one.
    let mut taken = BTreeSet::new();
    for (containers, path) in [(spec.containers.as_slice(), &main_path), (init, &init_path)] {
        for (index, container) in containers.iter().enumerate() {
            let path = path.index(index);
            validate_name(container, &mut taken, &path, errors);
            validate_container(container, &volumes, &path, errors);
        }
        validate_host_ports(containers, path, errors);
    }
    if spec.host_network == Some(true) {
        validate_host_network_ports(spec, of, &main_path, errors);
    }
}

fn validate_name<'a>(container: &'a Container, taken: &mut BTreeSet<&'a str>, path: &Path, errors: &mut ErrorList) {
    let path = path.child("name");
    let name = container.name.as_str();
    if name.is_empty() {
        errors.push(Error::required(&path, ""));
        return;
    }
    push_all(names::dns_label(name), name, &path, errors);
    if !taken.insert(name) {
        errors.push(Error::duplicate(&path, name));
    }
}

fn validate_container(container: &Container, volumes: &BTreeSet<&str>, path: &Path, errors: &mut ErrorList) {
    match container.image.as_deref().unwrap_or("") {
        "" => errors.push(Error::required(&path.child("image"), "")),
        image if image.trim() != image => {
            let detail = "must not have leading or trailing whitespace";
            errors.push(Error::invalid(&path.child("image"), image, detail));
        }
        _ => {}
    }
    validate_ports(container.ports.as_deref().unwrap_or_default(), &path.child("ports"), errors);
    for (index, variable) in container.env.iter().flatten().enumerate() {
        if variable.name.is_empty() {
            errors.push(Error::required(&path.child("env").index(index).child("name"), ""));
        }
    }
    validate_mounts(container, volumes, &path.child("volumeMounts"), errors);
    let pull = ["Always", "IfNotPresent", "Never"];
    one_of(container.image_pull_policy.as_deref(), &pull, &path.child("imagePullPolicy"), errors);
    if let Some(requirements) = &container.resources {
        resources::validate(requirements, &path.child("resources"), errors);
    }
}

fn validate_ports(ports: &[ContainerPort], path: &Path, errors: &mut ErrorList) {
    let mut taken = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            let problems = names::port_name(name);
            if problems.is_empty() && !taken.insert(name) {
                errors.push(Error::duplicate(&path.child("name"), name));
            }
            push_all(problems, name, &path.child("name"), errors);
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
        errors.push(Error::invalid(path, number, between(1, 65535)));
    }
}

/// Two ports of one pod cannot take the same port of the node.
fn validate_host_ports(containers: &[Container], path: &Path, errors: &mut ErrorList) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (port_index, port) in container.ports.iter().flatten().enumerate() {
            let Some(number) = port.host_port.filter(|number| *number != 0) else { continue };
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let text = format!("{protocol}/{}/{number}", port.host_ip.as_deref().unwrap_or(""));
            let path = path.index(index).child("ports").index(port_index).child("hostPort");
            if taken.contains(&text) {
                errors.push(Error::duplicate(&path, text));
            } else {
                taken.insert(text);
            }
        }
    }
}

/// On the node's own network a port of the container is a port of the node.
fn validate_host_network_ports(spec: &PodSpec, of: SpecOf, path: &Path, errors: &mut ErrorList) {
    for (index, container) in spec.containers.iter().enumerate() {
        for (port_index, port) in container.ports.iter().flatten().enumerate() {
            let host_port = port.host_port.unwrap_or(0);
            let left_open = of == SpecOf::Template && host_port == 0;
            if host_port != port.container_port && !left_open {
                let path = path.index(index).child("ports").index(port_index).child("hostPort");
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(Error::invalid(&path, host_port, detail));
            }
        }
    }
}

fn validate_mounts(container: &Container, volumes: &BTreeSet<&str>, path: &Path, errors: &mut ErrorList) {
    let mut taken = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = path.index(index);
        if mount.name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        } else if !volumes.contains(mount.name.as_str()) {
            errors.push(Error::not_found(&path.child("name"), mount.name.as_str()));
        }
        if mount.mount_path.is_empty() {
            errors.push(Error::required(&path.child("mountPath"), ""));
        }
        if !taken.insert(mount.mount_path.as_str()) {
            errors.push(Error::invalid(&path.child("mountPath"), mount.mount_path.as_str(), "must be unique"));
        }
    }
}
