//! Requests and limits of a container, and resources of a node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use super::NEGATIVE;
use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, violations};
use crate::quantity::Quantity;

pub(super) type QuantityTexts = BTreeMap<String, Text>;
type NameViolation = fn(&str) -> bool;
type AmountViolation = fn(&str, Quantity) -> bool;

/// When a resource name is invalid for containers, and the message.
const NAME_RULES: [(NameViolation, &str); 3] = [
    (
        |name| has_prefix(name) && !is_native(name) && !is_extended(name),
        "doesn't follow extended resource name standard",
    ),
    (
        |name| {
            is_unsupported_native(name) && !is_non_container_resource(name) && names::qualified_name(name).is_empty()
        },
        "must be a standard resource type or fully qualified",
    ),
    (is_unsupported_native, "must be a standard resource for containers"),
];

/// When a number is not a valid amount of a resource, and the message.
const AMOUNT_RULES: [(AmountViolation, &str); 2] = [
    (|_, amount| amount.is_negative(), NEGATIVE),
    (|name, amount| (name == "pods" || is_extended(name)) && !amount.is_whole(), "must be an integer"),
];

/// Names without a prefix that are not for containers, mostly those of quotas.
const NON_CONTAINER_RESOURCES: [&str; 10] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Validates a container's requests and limits.
pub fn validate(requirements: &ResourceRequirements, path: &Path, errors: &mut ErrorList) {
    let none = QuantityTexts::new();
    let [limits, requests] =
        [&requirements.limits, &requirements.requests].map(|amounts| amounts.as_ref().unwrap_or(&none));
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    errors.extend(limits.iter().flat_map(|(name, limit)| entry_problems(name, limit, &limits_path)));
    errors.extend(requests.iter().flat_map(|(name, request)| {
        entry_problems(name, request, &requests_path)
            .into_iter()
            .chain(request_limit_problem(name, request, limits, path))
    }));
    errors.extend(huge_pages_problem(limits, requests, path));
}

/// Validates the overhead of a pod. Its errors are those of limits.
pub fn validate_overhead(overhead: &QuantityTexts, path: &Path, errors: &mut ErrorList) {
    let path = path.child("limits");
    errors.extend(overhead.iter().flat_map(|(name, amount)| entry_problems(name, amount, &path)));
}

/// Validates an amount of the resource called `name`.
pub fn amount_problems(name: &str, amount: &Text, path: &Path) -> ErrorList {
    match Quantity::parse(&amount.0) {
        Err(bad) => vec![Error::invalid(path, amount.0.as_str(), bad.to_string())],
        Ok(amount) => {
            let violated = AMOUNT_RULES.iter().filter(|(breaks, _)| breaks(name, amount));
            violated.map(|(_, detail)| Error::invalid(path, amount.to_string(), *detail)).collect()
        }
    }
}

/// Whether it is an extended resource, such as `nvidia.com/gpu`.
pub fn is_extended(name: &str) -> bool {
    // A quota has it as `requests.<name>`, which must be a valid name too.
    let in_quotas = format!("requests.{name}");
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&in_quotas).is_empty()
}

fn entry_problems(name: &str, amount: &Text, path: &Path) -> ErrorList {
    let path = path.key(name);
    let violated = NAME_RULES.iter().filter(|(breaks, _)| breaks(name));
    let mut errors = violations(names::qualified_name, name, &path);
    errors.extend(violated.map(|(_, detail)| Error::invalid(&path, name, *detail)));
    errors.extend(amount_problems(name, amount, &path));
    errors.extend(page_size_problem(name, amount, &path));
    errors
}

/// Huge pages are whole pages. The name has their size.
pub(super) fn page_size_problem(name: &str, amount: &Text, path: &Path) -> Option<Error> {
    let size = Quantity::parse(name.strip_prefix("hugepages-")?).unwrap_or_default();
    let amount = Quantity::parse(&amount.0).ok().filter(|amount| !amount.is_negative())?;
    let detail = format!("{amount} is not positive integer multiple of {name}");
    (!amount.is_multiple_of(size)).then(|| Error::invalid(path, amount.to_string(), detail))
}

/// A request is at most the limit, and equals it for resources that cannot be overcommitted. Invalid numbers are
/// ignored here: they have their own error.
pub(super) fn request_limit_problem(name: &str, request: &Text, limits: &QuantityTexts, path: &Path) -> Option<Error> {
    let request = Quantity::parse(&request.0).ok()?;
    let may_be_less = may_overcommit(name);
    let Some(limit) = limits.get(name) else {
        let detail = "Limit must be set for non overcommitable resources";
        return (!may_be_less).then(|| Error::required(&path.child("limits"), detail));
    };
    let limit = Quantity::parse(&limit.0).ok()?;
    let relation = if may_be_less { "less than or equal" } else { "equal" };
    (request > limit || request < limit && !may_be_less).then(|| {
        let detail = format!("must be {relation} to {name} limit of {limit}");
        Error::invalid(&path.child("requests"), request.to_string(), detail)
    })
}

/// Huge pages need CPU or memory in addition.
pub(super) fn huge_pages_problem(limits: &QuantityTexts, requests: &QuantityTexts, path: &Path) -> Option<Error> {
    let any = |is: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|name| is(name));
    (any(is_huge_pages) && !any(|name| matches!(name, "cpu" | "memory")))
        .then(|| Error::forbidden(path, "HugePages require cpu or memory"))
}

fn has_prefix(name: &str) -> bool {
    name.contains('/')
}

fn is_native(name: &str) -> bool {
    !has_prefix(name) || name.contains("kubernetes.io/")
}

pub(super) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether the limit may exceed the request.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Whether a name without a prefix is not a resource of containers.
fn is_unsupported_native(name: &str) -> bool {
    !has_prefix(name) && !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_pages(name)
}

pub(super) fn is_non_container_resource(name: &str) -> bool {
    NON_CONTAINER_RESOURCES.contains(&name) || ["requests.", "limits."].iter().any(|start| name.starts_with(start))
}
