//! Host names and DNS of a pod.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostAlias, PodDNSConfig, PodSpec};

use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, non_empty, to_json, violations};

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_BYTES: usize = 2048;
const MAX_HOST_NAME_BYTES: usize = 64;

/// Validates the DNS policy and configuration.
pub fn validate_dns(spec: &PodSpec, path: &Path) -> ErrorList {
    let path = path.child("dnsConfig");
    let on_its_own = spec.dns_policy.as_deref() == Some("None");
    let Some(config) = &spec.dns_config else {
        let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
        return on_its_own.then(|| Error::required(&path, detail)).into_iter().collect();
    };
    let mut errors = ErrorList::new();
    if on_its_own && config.nameservers.iter().flatten().next().is_none() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(Error::required(&path.child("nameservers"), detail));
    }
    errors.extend(config_problems(config, &path));
    errors
}

fn config_problems(config: &PodDNSConfig, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let servers = config.nameservers.as_deref().unwrap_or_default();
    let servers_path = path.child("nameservers");
    if servers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.push(Error::invalid(&servers_path, to_json(&servers), detail));
    }
    let servers = servers.iter().enumerate();
    errors.extend(servers.flat_map(|(index, server)| violations(ip_address, server, &servers_path.index(index))));
    errors.extend(search_problems(config.searches.as_deref().unwrap_or_default(), &path.child("searches")));
    for (index, option) in config.options.iter().flatten().enumerate() {
        if non_empty(&option.name).is_none() {
            errors.push(Error::required(&path.child("options").index(index), "must not be empty"));
        }
    }
    errors
}

fn search_problems(searches: &[String], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if searches.len() > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        errors.push(Error::invalid(path, to_json(&searches), detail));
    }
    if searches.join(" ").len() > MAX_SEARCH_BYTES {
        let detail =
            format!("must not have more than {MAX_SEARCH_BYTES} characters (including spaces) in the search list");
        errors.push(Error::invalid(path, to_json(&searches), detail));
    }
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| *search != ".") {
        // A dot at the end marks a fully qualified name.
        let name = search.strip_suffix('.').unwrap_or(search);
        errors.extend(violations(names::dns_subdomain_with_underscores, name, &path.index(index)));
    }
    errors
}

/// Validates the host name that the containers have instead of the pod's.
pub fn validate_host_name_override(spec: &PodSpec, path: &Path) -> ErrorList {
    let path = path.child("hostnameOverride");
    let Some(name) = spec.hostname_override.as_deref() else { return ErrorList::new() };
    let mut errors = ErrorList::new();
    if spec.set_hostname_as_fqdn == Some(true) {
        errors.push(Error::forbidden(&path, "may not be specified when setHostnameAsFQDN is true"));
    }
    if spec.host_network == Some(true) {
        errors.push(Error::forbidden(&path, "may not be specified when hostNetwork is true"));
    }
    if name.len() > MAX_HOST_NAME_BYTES {
        errors.push(Error::too_long(&path, MAX_HOST_NAME_BYTES));
    }
    errors.extend(violations(names::dns_subdomain, name, &path));
    errors
}

/// Validates host name and subdomain.
pub fn validate_host_name(spec: &PodSpec, path: &Path) -> ErrorList {
    let names = [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)];
    let set = names.into_iter().filter_map(|(field, name)| Some((field, non_empty(name)?)));
    set.flat_map(|(field, name)| violations(names::dns_label, name, &path.child(field))).collect()
}

/// Validates the additional entries of `/etc/hosts`.
pub fn validate_host_aliases(spec: &PodSpec, path: &Path) -> ErrorList {
    let aliases = spec.host_aliases.iter().flatten().enumerate();
    aliases.flat_map(|(index, alias)| alias_problems(alias, &path.child("hostAliases").index(index))).collect()
}

fn alias_problems(alias: &HostAlias, path: &Path) -> ErrorList {
    let hosts = alias.hostnames.iter().flatten().enumerate();
    let path_of = path.child("hostnames");
    let problems = hosts.flat_map(|(index, host)| violations(names::dns_subdomain, host, &path_of.index(index)));
    violations(ip_address, &alias.ip, &path.child("ip")).into_iter().chain(problems).collect()
}

/// Validates the operating system.
pub fn validate_os(spec: &PodSpec, path: &Path) -> Option<Error> {
    let path = path.child("os");
    match spec.os.as_ref()?.name.as_str() {
        "" => Some(Error::required(&path.child("name"), "")),
        "linux" | "windows" => None,
        other => Some(Error::not_supported(&path, other, &["linux", "windows"])),
    }
}

fn ip_address(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
        }
        Ok(_) => return Vec::new(),
        Err(_) => {}
    }
    let parts: Vec<&str> = text.split('.').collect();
    let leads = |part: &&str| part.len() > 1 && part.starts_with('0');
    let decimal = parts.iter().all(|part| part.parse::<u16>().is_ok_and(|number| number < 256));
    let detail = if parts.len() == 4 && decimal && parts.iter().any(leads) {
        "must not have leading 0s"
    } else {
        "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    };
    vec![detail.to_owned()]
}
