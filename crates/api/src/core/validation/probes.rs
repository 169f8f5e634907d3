//! Probes and lifecycle hooks of containers.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, LifecycleHandler, Probe, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{NEGATIVE, out_of_range_message};
use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, violations};

const TOO_MANY_HANDLERS: &str = "may not specify more than 1 handler type";
const NOT_IN_INIT: &str = "may not be set for init containers without restartPolicy=Always";

/// Validates hooks and probes of a container that runs as long as its pod.
pub fn validate(container: &Container, grace_seconds: i64, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(lifecycle) = &container.lifecycle {
        let path = path.child("lifecycle");
        for (name, handler) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
            let problems = handler.iter().flat_map(|handler| hook_problems(handler, grace_seconds, &path.child(name)));
            errors.extend(problems);
        }
    }
    for (name, probe) in probes(container) {
        errors.extend(probe.iter().flat_map(|probe| probe_problems(probe, name, &path.child(name))));
    }
    errors
}

/// An init container that is not a sidecar has neither hooks nor probes.
pub fn validate_absent(container: &Container, path: &Path) -> ErrorList {
    let lifecycle = ("lifecycle", container.lifecycle.is_some());
    let given = [lifecycle].into_iter().chain(probes(container).map(|(name, probe)| (name, probe.is_some())));
    given.filter(|(_, given)| *given).map(|(name, _)| Error::forbidden(&path.child(name), NOT_IN_INIT)).collect()
}

fn probes(container: &Container) -> [(&'static str, &Option<Probe>); 3] {
    [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ]
}

fn probe_problems(probe: &Probe, name: &str, path: &Path) -> ErrorList {
    let handlers = [
        probe.exec.as_ref().map(|exec| ("exec", exec_problems(exec, &path.child("exec")))),
        probe.http_get.as_ref().map(|get| ("httpGet", http_problems(get, &path.child("httpGet")))),
        probe.tcp_socket.as_ref().map(|tcp| ("tcpSocket", tcp_problems(tcp, &path.child("tcpSocket")))),
        probe.grpc.as_ref().map(|grpc| ("grpc", grpc_problems(grpc, &path.child("grpc")))),
    ];
    let mut errors = one_handler(handlers, path);
    for (name, count) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        let negative = count.filter(|count| *count < 0);
        errors.extend(negative.map(|count| Error::invalid(&path.child(name), count, NEGATIVE)));
    }
    let grace_path = path.child("terminationGracePeriodSeconds");
    let grace = probe.termination_grace_period_seconds;
    if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
        errors.push(Error::invalid(&grace_path, seconds, "must be greater than 0"));
    }
    if name == "readinessProbe" {
        // A failed readiness probe stops nothing.
        errors.extend(grace.map(|seconds| Error::invalid(&grace_path, seconds, "must not be set for readinessProbes")));
    } else if let Some(threshold) = probe.success_threshold.filter(|threshold| *threshold != 1) {
        errors.push(Error::invalid(&path.child("successThreshold"), threshold, "must be 1"));
    }
    errors
}

fn hook_problems(handler: &LifecycleHandler, grace_seconds: i64, path: &Path) -> ErrorList {
    let handlers = [
        handler.exec.as_ref().map(|exec| ("exec", exec_problems(exec, &path.child("exec")))),
        handler.http_get.as_ref().map(|get| ("httpGet", http_problems(get, &path.child("httpGet")))),
        handler.tcp_socket.as_ref().map(|tcp| ("tcpSocket", tcp_problems(tcp, &path.child("tcpSocket")))),
        handler.sleep.as_ref().map(|sleep| ("sleep", sleep_problems(sleep, grace_seconds, &path.child("sleep")))),
    ];
    one_handler(handlers, path)
}

/// The problems of the first handler. The others are too many.
fn one_handler(handlers: [Option<(&str, ErrorList)>; 4], path: &Path) -> ErrorList {
    let mut handlers = handlers.into_iter().flatten();
    let Some((_, mut errors)) = handlers.next() else {
        return vec![Error::required(path, "must specify a handler type")];
    };
    errors.extend(handlers.map(|(name, _)| Error::forbidden(&path.child(name), TOO_MANY_HANDLERS)));
    errors
}

fn exec_problems(exec: &ExecAction, path: &Path) -> ErrorList {
    let has_command = exec.command.iter().flatten().next().is_some();
    (!has_command).then(|| Error::required(&path.child("command"), "")).into_iter().collect()
}

fn http_problems(get: &HTTPGetAction, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if get.path.as_deref().unwrap_or("").is_empty() {
        errors.push(Error::required(&path.child("path"), ""));
    }
    errors.extend(port_problems(&get.port, &path.child("port")));
    let (scheme, schemes) = (get.scheme.as_deref().unwrap_or(""), ["HTTP", "HTTPS"]);
    if !schemes.contains(&scheme) {
        errors.push(Error::not_supported(&path.child("scheme"), scheme, &schemes));
    }
    let headers = get.http_headers.iter().flatten();
    errors.extend(headers.flat_map(|header| violations(header_name, &header.name, &path.child("httpHeaders"))));
    errors
}

fn header_name(name: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used \
                  for validation is '[-A-Za-z0-9]+')";
    if !name.is_empty() && name.bytes().all(known) { Vec::new() } else { vec![detail.to_owned()] }
}

fn tcp_problems(tcp: &TCPSocketAction, path: &Path) -> ErrorList {
    port_problems(&tcp.port, &path.child("port"))
}

fn grpc_problems(grpc: &GRPCAction, path: &Path) -> ErrorList {
    port_problems(&IntOrString::Int(grpc.port), &path.child("port"))
}

fn sleep_problems(sleep: &SleepAction, grace_seconds: i64, path: &Path) -> ErrorList {
    let fits = (0..=grace_seconds).contains(&sleep.seconds);
    let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})");
    (!fits).then(|| Error::invalid(path, sleep.seconds, detail)).into_iter().collect()
}

fn port_problems(port: &IntOrString, path: &Path) -> ErrorList {
    match port {
        IntOrString::Int(1..=65535) => ErrorList::new(),
        IntOrString::Int(number) => vec![Error::invalid(path, *number, out_of_range_message(1, 65535))],
        IntOrString::String(name) => violations(names::port_name, name, path),
    }
}
