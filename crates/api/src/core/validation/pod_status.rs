//! Validation of a pod's status, as a kubelet or scheduler writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodExtendedResourceClaimStatus, PodSpec, PodStatus};
use serde_json::Value;

use super::out_of_range_message;
use super::pod::spec_of;
use crate::field::{Error, ErrorKind, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{self, immutable, names, to_json, violations};

const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
const MAX_USER_ID: i64 = u32::MAX as i64;
const MAX_GROUP_ID: i64 = i32::MAX as i64;
const NOT_NEGATIVE: &str = "must be a non-negative integer";

/// Validates a write to a pod's status. Of the spec it uses only the node, the claims, and the names, resources and
/// restart rules of the containers.
pub fn validate_update(new: &Pod, old: &Pod, _gates: &Gates) -> ErrorList {
    let mut errors = metadata::validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    let path = Path::new("status");
    let (spec, old_spec) = (spec_of(new), spec_of(old));
    if spec.node_name != old_spec.node_name {
        errors.push(Error::forbidden(&path.child("nodeName"), "may not be changed directly"));
    }
    let (new, old) = (new.status.clone().unwrap_or_default(), old.status.clone().unwrap_or_default());
    for (index, condition) in new.conditions.iter().flatten().enumerate() {
        let path = path.child("conditions").index(index);
        errors.extend(violations(names::qualified_name, &condition.type_, &path.child("Type")));
        errors.extend(generation_problem(condition.observed_generation, &path));
    }
    let nominated = new.nominated_node_name.as_deref().unwrap_or("");
    if new.nominated_node_name != old.nominated_node_name && !nominated.is_empty() {
        let path = path.child("nominatedNodeName");
        errors.extend(violations(names::dns_subdomain, nominated, &path));
        if old_spec.node_name.as_ref().is_some_and(|node| !node.is_empty()) {
            errors.push(Error::forbidden(&path, "may not be set on pods that are already bound to a node"));
        }
    }
    errors.extend(generation_problem(new.observed_generation, &path));
    errors.extend(transition_problems(&new, &old, &spec, &path));
    errors.extend(claim_problems(&new, &spec, &path.child("resourceClaimStatuses")));
    if let Some(claim) = &new.extended_resource_claim_status {
        errors.extend(extended_claim_problems(claim, &spec, &path.child("extendedResourceClaimStatus")));
    }
    errors.extend(immutable(&new.qos_class, &old.qos_class, &path.child("qosClass")));
    let pod_ips: Vec<&str> = new.pod_ips.iter().flatten().map(|address| address.ip.as_str()).collect();
    errors.extend(addresses_problems(&pod_ips, &to_json(&new.pod_ips), &path.child("podIPs")));
    let host_ips: Vec<&str> = new.host_ips.iter().flatten().map(|address| address.ip.as_str()).collect();
    if let Some(first) = host_ips.first().filter(|first| new.host_ip.as_deref().unwrap_or("") != **first) {
        let path = path.child("hostIPs").index(0).child("ip");
        errors.push(Error::invalid(&path, *first, "must be equal to `hostIP`"));
    }
    errors.extend(addresses_problems(&host_ips, &to_json(&new.host_ips), &path.child("hostIPs")));
    for (list, statuses, containers) in containers(&new, &spec) {
        for (index, status) in statuses.iter().enumerate() {
            errors.extend(user_problems(status, &path.child(list).index(index)));
        }
        let containers = by_name(containers.iter(), |container| &container.name);
        for (index, status) in statuses.iter().enumerate() {
            let path = path.child(list).index(index).child("allocatedResourcesStatus");
            // Nothing is known about a container that the spec does not have.
            let requested = containers.get(status.name.as_str()).map(|container| RequestedResources::of(container));
            errors.extend(health_problems(status, requested.as_ref(), &path));
        }
    }
    errors
}

fn generation_problem(generation: Option<i64>, path: &Path) -> Option<Error> {
    let generation = generation.filter(|generation| *generation < 0)?;
    Some(Error::invalid(&path.child("observedGeneration"), generation, NOT_NEGATIVE))
}

/// Statuses with their containers.
fn containers<'a>(
    status: &'a PodStatus,
    spec: &'a PodSpec,
) -> [(&'static str, &'a [ContainerStatus], &'a [Container]); 2] {
    let (main, init) = (&status.container_statuses, &status.init_container_statuses);
    [
        ("containerStatuses", main.as_deref().unwrap_or_default(), &spec.containers),
        (
            "initContainerStatuses",
            init.as_deref().unwrap_or_default(),
            spec.init_containers.as_deref().unwrap_or_default(),
        ),
    ]
}

/// Items by name. Of several with one name, the first.
fn by_name<'a, T>(items: impl Iterator<Item = T>, name: impl Fn(&T) -> &'a String) -> BTreeMap<&'a str, T> {
    let mut found = BTreeMap::new();
    for item in items {
        found.entry(name(&item).as_str()).or_insert(item);
    }
    found
}

/// A terminated container that is not restarted stays terminated.
fn transition_problems(new: &PodStatus, old: &PodStatus, spec: &PodSpec, path: &Path) -> ErrorList {
    let all = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let rules = |container: &'_ Container| container.restart_policy_rules.clone().unwrap_or_default();
    if all().any(|container| rules(container).iter().any(|rule| rule.action == "RestartAllContainers")) {
        return ErrorList::new();
    }
    let mut errors = ErrorList::new();
    for ((list, now, containers), (_, before, _)) in
        self::containers(new, spec).into_iter().zip(self::containers(old, spec))
    {
        let now_at = by_name(now.iter().enumerate(), |(_, status)| &status.name);
        let containers = by_name(containers.iter(), |container| &container.name);
        for old in before {
            let Some(exit_code) = old.state.as_ref().and_then(|state| Some(state.terminated.as_ref()?.exit_code))
            else {
                continue;
            };
            let Some((index, now)) = now_at.get(old.name.as_str()) else { continue };
            let ended = now.state.as_ref().is_some_and(|state| state.terminated.is_some());
            let container = containers.get(old.name.as_str());
            if !ended && !container.is_some_and(|container| will_restart(container, spec, exit_code)) {
                let path = path.child(list).index(*index).child("state");
                errors.push(Error::forbidden(&path, "may not be transitioned to non-terminated state"));
            }
        }
    }
    errors
}

fn will_restart(container: &Container, spec: &PodSpec, exit_code: i32) -> bool {
    let rules = container.restart_policy_rules.iter().flatten();
    let matches_exit_code = |rule: &&k8s_openapi::api::core::v1::ContainerRestartRule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let is_in = codes.values.iter().flatten().any(|code| *code == exit_code);
            is_in == (codes.operator == "In")
        })
    };
    if rules.clone().any(|rule| rule.action == "Restart" && matches_exit_code(&rule)) {
        return true;
    }
    match container.restart_policy.as_deref().or(spec.restart_policy.as_deref()) {
        Some("Always") => true,
        Some("OnFailure") => exit_code != 0,
        _ => false,
    }
}

fn claim_problems(status: &PodStatus, spec: &PodSpec, path: &Path) -> ErrorList {
    let claims: BTreeSet<&str> = spec.resource_claims.iter().flatten().map(|claim| claim.name.as_str()).collect();
    let mut errors = ErrorList::new();
    for (index, claim) in status.resource_claim_statuses.iter().flatten().enumerate() {
        let path = path.index(index);
        if !claims.contains(claim.name.as_str()) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(Error::invalid(&path.child("name"), claim.name.as_str(), detail));
        }
        let made = claim.resource_claim_name.iter();
        errors.extend(made.flat_map(|name| violations(names::dns_subdomain, name, &path.child("resourceClaimName"))));
    }
    errors
}

/// Validates the claim that was created for extended resources.
fn extended_claim_problems(claim: &PodExtendedResourceClaimStatus, spec: &PodSpec, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mappings = &claim.request_mappings;
    if mappings.is_empty() {
        let detail = "at least one request mapping is required";
        errors.push(Error::required(&path.child("requestMappings"), detail));
    }
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let known: BTreeSet<&str> = containers.map(|container| container.name.as_str()).collect();
    for (index, mapping) in mappings.iter().enumerate() {
        let container = mapping.container_name.as_str();
        if !known.contains(container) {
            let path = path.child("requestMappings").index(index).child("containerName");
            let detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
            errors.push(Error::invalid(&path, container, detail));
        }
        errors.extend(violations(names::dns_label, &mapping.request_name, &path.child("requestName")));
    }
    let name_path = path.child("resourceClaimName");
    match claim.resource_claim_name.as_str() {
        "" => errors.push(Error::required(&name_path, "")),
        name => errors.extend(violations(names::dns_subdomain, name, &name_path)),
    }
    errors
}

fn user_problems(status: &ContainerStatus, path: &Path) -> ErrorList {
    let Some(user) = status.user.as_ref().and_then(|user| user.linux.as_ref()) else { return ErrorList::new() };
    let path = path.child("user").child("linux");
    let outside = |id: i64, max: i64, path: Path| {
        (!(0..=max).contains(&id)).then(|| Error::invalid(&path, id, out_of_range_message(0, max)))
    };
    let more = user.supplemental_groups.iter().flatten().enumerate();
    let more = more.map(|(index, id)| outside(*id, MAX_GROUP_ID, path.child("supplementalGroups").index(index)));
    let own = [outside(user.uid, MAX_USER_ID, path.child("uid")), outside(user.gid, MAX_GROUP_ID, path.child("gid"))];
    own.into_iter().chain(more).flatten().collect()
}

/// The resources that a container requests, as its status names them.
struct RequestedResources<'a> {
    /// `claim`, or `claim/request`.
    claims: BTreeSet<String>,
    resources: BTreeSet<&'a str>,
}

impl<'a> RequestedResources<'a> {
    fn of(container: &'a Container) -> RequestedResources<'a> {
        let resources = container.resources.iter();
        let claims = resources.clone().flat_map(|resources| resources.claims.iter().flatten());
        let claims = claims.map(|claim| match claim.request.as_deref().unwrap_or("") {
            "" => claim.name.clone(),
            request => format!("{}/{request}", claim.name),
        });
        let names = resources.flat_map(|resources| resources.requests.iter().flatten()).map(|(name, _)| name.as_str());
        RequestedResources { claims: claims.collect(), resources: names.collect() }
    }

    /// Validates the name of a resource in a status.
    fn problem(&self, name: &str, path: &Path) -> Option<Error> {
        let (is_requested, detail) = match name.strip_prefix("claim:") {
            Some(claim) => (
                self.claims.contains(claim),
                "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when \
                 container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty",
            ),
            None => (self.resources.contains(name), "must match one of the container's resource requests"),
        };
        (!is_requested).then(|| Error::invalid(path, name, detail))
    }
}

/// Validates the health of a container's devices: each is of a requested resource.
fn health_problems(status: &ContainerStatus, requested: Option<&RequestedResources<'_>>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (index, resource) in status.allocated_resources_status.iter().flatten().enumerate() {
        let path = path.index(index);
        errors.extend(requested.and_then(|requested| requested.problem(&resource.name, &path.child("name"))));
        let mut used = BTreeSet::new();
        for (index, device) in resource.resources.iter().flatten().enumerate() {
            let path = path.child("resources").index(index);
            if !used.insert(device.resource_id.as_str()) {
                errors.push(Error::duplicate(&path.child("resourceID"), device.resource_id.as_str()));
            }
            let health = device.health.as_deref().unwrap_or("");
            if !HEALTH.contains(&health) {
                errors.push(Error::not_supported(&path.child("health"), health, &HEALTH));
            }
        }
    }
    errors
}

/// There is at most one address per family. `value` is the list in the object.
fn addresses_problems(all: &[&str], value: &Value, path: &Path) -> ErrorList {
    let read: Vec<Option<IpAddr>> = all.iter().map(|address| address.parse().ok()).collect();
    let mut errors = ErrorList::new();
    for (index, _) in read.iter().enumerate().filter(|(_, address)| address.is_none()) {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(Error::invalid(&path.index(index), all[index], detail));
    }
    if all.len() < 2 {
        return errors;
    }
    let bad = read.iter().position(Option::is_none);
    if let Some(index) = bad {
        let detail = format!("failed to check for dual stack with error:invalid IP[{index}]: {}", all[index]);
        errors.push(Error { kind: ErrorKind::Internal, path: path.clone(), value: None, detail });
    }
    let families = read.iter().flatten().map(IpAddr::is_ipv4).collect::<BTreeSet<bool>>();
    if bad.is_some() || families.len() < all.len() {
        errors.push(Error::invalid(path, value.clone(), "may specify no more than one IP for each IP family"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::validate_update;
    use crate::core::defaults::set_pod_defaults;
    use crate::gates::Gates;

    fn pod(spec: Value, status: Value) -> Pod {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, "status": status});
        if pod["spec"]["containers"].is_null() {
            pod["spec"]["containers"] = json!([{"name": "main", "image": "x"}]);
        }
        set_pod_defaults(&mut pod, &Gates::default());
        serde_json::from_value(pod).expect("a pod")
    }

    fn problems(spec: &Value, new: Value, old: Value) -> Vec<String> {
        let errors = validate_update(&pod(spec.clone(), new), &pod(spec.clone(), old), &Gates::default());
        errors.iter().map(|error| format!("{} {}", error.path, error.kind.text())).collect()
    }

    #[test]
    fn pod_has_one_address_per_family_and_its_own_claims() {
        let addresses = |all: &[&str]| json!({"podIPs": all.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>()});
        for (status, want) in [
            (addresses(&["10.0.0.1", "1::2"]), vec![]),
            (addresses(&["x"]), vec!["status.podIPs[0] Invalid value"]),
            (addresses(&["10.0.0.1", "10.0.0.2"]), vec!["status.podIPs Invalid value"]),
            (
                addresses(&["10.0.0.1", "x"]),
                vec!["status.podIPs[1] Invalid value", "status.podIPs Internal error", "status.podIPs Invalid value"],
            ),
            (json!({"resourceClaimStatuses": [{"name": "a"}]}), vec![]),
            (
                json!({"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "_"}]}),
                vec![
                    "status.resourceClaimStatuses[0].name Invalid value",
                    "status.resourceClaimStatuses[0].resourceClaimName Invalid value",
                ],
            ),
        ] {
            let spec = json!({"resourceClaims": [{"name": "a", "resourceClaimName": "x"}]});
            assert_eq!(problems(&spec, status, json!({})), want);
        }
    }

    fn terminated_status(name: &str, state: Value) -> Value {
        json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
    }

    #[test]
    fn terminated_container_that_is_not_restarted_stays_terminated() {
        let rule = |action: &str| json!([{"action": action, "exitCodes": {"operator": "In", "values": [3]}}]);
        let main = |more: Value| {
            let mut container = json!({"name": "main", "image": "x"});
            more.as_object().expect("fields").iter().for_each(|(field, value)| container[field] = value.clone());
            container
        };
        for (policy, container, exit_code, may_start) in [
            ("Always", main(json!({})), 0, true),
            ("OnFailure", main(json!({})), 0, false),
            ("OnFailure", main(json!({})), 1, true),
            ("Never", main(json!({})), 1, false),
            ("Never", main(json!({"restartPolicy": "OnFailure"})), 1, true),
            ("Always", main(json!({"restartPolicy": "Never"})), 1, false),
            ("Never", main(json!({"restartPolicy": "Never", "restartPolicyRules": rule("Restart")})), 3, true),
            ("Never", main(json!({"restartPolicy": "Never", "restartPolicyRules": rule("Restart")})), 4, false),
            (
                "Never",
                main(json!({"restartPolicy": "Never", "restartPolicyRules": rule("RestartAllContainers")})),
                4,
                true,
            ),
        ] {
            let spec = json!({"restartPolicy": policy, "containers": [container]});
            let old = json!({"containerStatuses": [terminated_status("main", json!({"terminated": {"exitCode": exit_code}}))]});
            let new = json!({"containerStatuses": [terminated_status("main", json!({"running": {}}))]});
            let want = if may_start { vec![] } else { vec!["status.containerStatuses[0].state Forbidden"] };
            assert_eq!(problems(&spec, new, old.clone()), want, "{policy} {container} {exit_code}");
            assert_eq!(problems(&spec, old.clone(), old), Vec::<String>::new());
        }
    }

    #[test]
    fn devices_and_users_of_a_container_are_validated() {
        let spec = json!({
            "resourceClaims": [{"name": "c", "resourceClaimName": "x"}],
            "containers": [{"name": "main", "image": "x", "resources": {
                "limits": {"a.com/x": "1"}, "claims": [{"name": "c", "request": "r"}]}}],
        });
        let status = |field: &str, value: Value| {
            let mut status = terminated_status("main", json!({}));
            status[field] = value;
            json!({"containerStatuses": [status]})
        };
        let device = |name: &str, health: &str| {
            let device = json!({"resourceID": "0", "health": health});
            status("allocatedResourcesStatus", json!([{"name": name, "resources": [device, device]}]))
        };
        let at = "status.containerStatuses[0]";
        let twice = format!("{at}.allocatedResourcesStatus[0].resources[1].resourceID Duplicate value");
        for (new, want) in [
            (device("a.com/x", "Healthy"), vec![twice.clone()]),
            (device("claim:c/r", "Unknown"), vec![twice.clone()]),
            (
                device("claim:c", "Unhealthy"),
                vec![format!("{at}.allocatedResourcesStatus[0].name Invalid value"), twice.clone()],
            ),
            (
                device("cpu", ""),
                vec![
                    format!("{at}.allocatedResourcesStatus[0].name Invalid value"),
                    format!("{at}.allocatedResourcesStatus[0].resources[0].health Unsupported value"),
                    twice,
                    format!("{at}.allocatedResourcesStatus[0].resources[1].health Unsupported value"),
                ],
            ),
            (
                status("user", json!({"linux": {"uid": 4_294_967_296_i64, "gid": -1, "supplementalGroups": [0, -1]}})),
                vec![
                    format!("{at}.user.linux.uid Invalid value"),
                    format!("{at}.user.linux.gid Invalid value"),
                    format!("{at}.user.linux.supplementalGroups[1] Invalid value"),
                ],
            ),
        ] {
            assert_eq!(problems(&spec, new, json!({})), want);
        }
    }

    #[test]
    fn node_conditions_and_generations_of_a_status_are_validated() {
        for (new, want) in [
            (json!({"hostIP": "1::1", "hostIPs": [{"ip": "1::1"}, {"ip": "10.0.0.1"}]}), vec![]),
            (
                json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}),
                vec!["status.hostIPs[0].ip Invalid value"],
            ),
            (json!({"observedGeneration": -1}), vec!["status.observedGeneration Invalid value"]),
            (json!({"conditions": [{"type": "a b", "status": "x"}]}), vec!["status.conditions[0].Type Invalid value"]),
            (
                json!({"extendedResourceClaimStatus": {"requestMappings": [], "resourceClaimName": ""}}),
                vec![
                    "status.extendedResourceClaimStatus.requestMappings Required value",
                    "status.extendedResourceClaimStatus.resourceClaimName Required value",
                ],
            ),
        ] {
            assert_eq!(problems(&json!({}), new.clone(), json!({})), want, "{new}");
        }
    }
}
