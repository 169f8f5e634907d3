//! Requests and limits at pod level.

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use super::claims;
use super::declared_names::DeclaredNames;
use super::resources::{
    QuantityTexts, amount_problems, huge_pages_problem, is_huge_pages, is_non_container_resource, page_size_problem,
    request_limit_problem,
};
use crate::core::pod_level_resources;
use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, to_json, violations};
use crate::quantity::Quantity;

const RESOURCES: [&str; 3] = ["cpu", "hugepages-", "memory"];

/// Validates pod-level resources, by themselves and against those of the containers.
pub fn validate(spec: &PodSpec, declared: &DeclaredNames<'_>, path: &Path) -> ErrorList {
    let Some(resources) = &spec.resources else { return ErrorList::new() };
    if spec.os.as_ref().is_some_and(|os| os.name == "windows") {
        return vec![Error::forbidden(path, "may not be set for a windows pod")];
    }
    let mut errors = ErrorList::new();
    if resources.claims.is_some() {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(Error::forbidden(&path.child("claims"), detail));
    }
    let none = QuantityTexts::new();
    let [limits, requests] = [&resources.limits, &resources.requests].map(|amounts| amounts.as_ref().unwrap_or(&none));
    errors.extend(limits.iter().flat_map(|(name, limit)| entry_problems(name, limit, &path.child("limits"))));
    for (name, request) in requests {
        errors.extend(entry_problems(name, request, &path.child("requests")));
        errors.extend(request_limit_problem(name, request, limits, path));
    }
    errors.extend(huge_pages_problem(limits, requests, path));
    errors.extend(claims::validate_container_claims(resources, declared, path));
    errors.extend(shortage_problems(spec, limits, requests, path));
    errors
}

fn entry_problems(name: &str, amount: &Text, path: &Path) -> ErrorList {
    let path = path.key(name);
    let mut errors = violations(names::qualified_name, name, &path);
    let is_bare = !name.contains('/') && !is_non_container_resource(name) && name != "ephemeral-storage";
    if errors.is_empty() && !pod_level_resources::is_pod_level_resource(name) {
        errors.push(if is_bare {
            Error::invalid(&path, name, "must be a standard resource type or fully qualified")
        } else {
            Error::not_supported(&path, name, &RESOURCES)
        });
    }
    errors.extend(amount_problems(name, amount, &path));
    errors.extend(page_size_problem(name, amount, &path));
    errors
}

/// Pod-level requests and huge pages are at least the containers' sum, limits at least each container's.
fn shortage_problems(spec: &PodSpec, limits: &QuantityTexts, requests: &QuantityTexts, path: &Path) -> ErrorList {
    let document = to_json(spec);
    let sums =
        |side| document.as_object().map(|spec| pod_level_resources::sum_containers(spec, side)).unwrap_or_default();
    let mut errors = ErrorList::new();
    for (side, whole, counts) in
        [("requests", requests, (|_| true) as fn(&str) -> bool), ("limits", limits, is_huge_pages)]
    {
        for (name, sum) in sums(side).into_iter().filter(|(name, _)| counts(name)) {
            if let Some(amount) = parse_amount(whole, &name).filter(|amount| *amount < sum) {
                let detail = format!("must be greater than or equal to aggregate container {side} of {sum}");
                errors.push(Error::invalid(&path.child(side).key(&name), amount.to_string(), detail));
            }
        }
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let Some(own) = container.resources.as_ref().and_then(|resources| resources.limits.as_ref()) else { continue };
        for name in own.keys() {
            if let (Some(own), Some(whole)) = (parse_amount(own, name), parse_amount(limits, name))
                && own > whole
            {
                let path = path.child("containers").index(index).key(name).child("limits");
                let detail = format!("must be less than or equal to pod limits of {whole}");
                errors.push(Error::invalid(&path, own.to_string(), detail));
            }
        }
    }
    errors
}

fn parse_amount(amounts: &QuantityTexts, name: &str) -> Option<Quantity> {
    Quantity::parse(&amounts.get(name)?.0).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DeclaredNames, validate};
    use crate::field::{ErrorList, Path};

    fn problems(spec: Value) -> ErrorList {
        let spec = serde_json::from_value(spec).expect("a spec");
        validate(&spec, &DeclaredNames::of(&spec, Default::default()), &Path::new("r"))
    }

    // Each row is the response of the real server.
    #[test]
    fn pod_level_resources_are_supported_and_at_least_those_of_the_containers() {
        let container = |limits: Value, requests: Value| json!({"name": "a", "resources": {"limits": limits, "requests": requests}});
        let no_container = || container(json!({}), json!({}));
        for (resources, container, want) in [
            (json!({"requests": {"cpu": "1"}}), no_container(), vec![]),
            (
                json!({"claims": []}),
                no_container(),
                vec!["claims: Forbidden: claims may not be set for Resources at pod-level"],
            ),
            (
                json!({"limits": {"x": "1", "a/b": "1", "pods": "1"}}),
                no_container(),
                vec![
                    "limits[a/b]: Unsupported value: \"a/b\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                    "limits[pods]: Unsupported value: \"pods\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                    "limits[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
                ],
            ),
            (
                json!({"requests": {"hugepages-2Mi": "1Mi"}}),
                no_container(),
                vec![
                    "requests[hugepages-2Mi]: Invalid value: \"1Mi\": 1Mi is not positive integer multiple of hugepages-2Mi",
                    "limits: Required value: Limit must be set for non overcommitable resources",
                    ": Forbidden: HugePages require cpu or memory",
                ],
            ),
            (
                json!({"requests": {"cpu": "1"}}),
                container(json!({}), json!({"cpu": "2"})),
                vec![
                    "requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2",
                ],
            ),
            (
                json!({"limits": {"cpu": "1", "hugepages-2Mi": "2Mi"}}),
                container(json!({"cpu": "2", "hugepages-2Mi": "4Mi"}), json!({})),
                vec![
                    "limits[hugepages-2Mi]: Invalid value: \"2Mi\": must be greater than or equal to aggregate container limits of 4Mi",
                    "containers[0][cpu].limits: Invalid value: \"2\": must be less than or equal to pod limits of 1",
                    "containers[0][hugepages-2Mi].limits: Invalid value: \"4Mi\": must be less than or equal to pod limits of 2Mi",
                ],
            ),
        ] {
            let spec = json!({"containers": [container], "resources": resources});
            let errors = problems(spec);
            let want: Vec<String> = want
                .iter()
                .map(|want| if want.starts_with(':') { format!("r{want}") } else { format!("r.{want}") })
                .collect();
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{resources}");
        }
        let windows = json!({"containers": [], "os": {"name": "windows"}, "resources": {"claims": []}});
        let errors = problems(windows);
        assert_eq!(errors[0].to_string(), "r: Forbidden: may not be set for a windows pod");
        assert_eq!(errors.len(), 1);
    }
}
