//! Claims of devices: those of a pod, and those that a container takes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodResourceClaim, PodSpec, ResourceRequirements};

use crate::field::{Error, ErrorList, Path};
use crate::metadata::{breaches, json_of, names};

/// Judges the claims of a pod: named, once each, and each with one source.
pub fn validate(spec: &PodSpec, path: &Path) -> ErrorList {
    let mut taken = BTreeSet::new();
    let claims = spec.resource_claims.iter().flatten().enumerate();
    claims.flat_map(|(index, claim)| claim_problems(claim, &mut taken, &path.index(index))).collect()
}

fn claim_problems<'a>(claim: &'a PodResourceClaim, taken: &mut BTreeSet<&'a str>, path: &Path) -> ErrorList {
    let (name, name_path) = (claim.name.as_str(), path.child("name"));
    let mut errors = match name {
        "" => vec![Error::required(&name_path, "")],
        name if !taken.insert(name) => vec![Error::duplicate(&name_path, name)],
        name => breaches(names::dns_label, name, &name_path),
    };
    let sources = [
        ("resourceClaimName", &claim.resource_claim_name),
        ("resourceClaimTemplateName", &claim.resource_claim_template_name),
    ];
    let problem = match sources.iter().filter(|(_, source)| source.is_some()).count() {
        0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
        1 => None,
        _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
    };
    errors.extend(problem.map(|detail| Error::invalid(path, json_of(claim), detail)));
    for (field, source) in sources {
        errors.extend(source.iter().flat_map(|name| breaches(names::dns_subdomain, name, &path.child(field))));
    }
    errors
}

/// Judges the claims that a container takes: each is one of its pod's.
pub fn validate_taken(resources: &ResourceRequirements, spec: &PodSpec, path: &Path) -> ErrorList {
    let known: Vec<&str> = spec.resource_claims.iter().flatten().map(|claim| claim.name.as_str()).collect();
    let mut known: Vec<&str> = known.into_iter().filter(|name| !name.is_empty()).collect();
    known.sort_unstable();
    known.dedup();
    let mut taken: Vec<(&str, &str)> = Vec::new();
    let mut errors = ErrorList::new();
    for (index, claim) in resources.claims.iter().flatten().enumerate() {
        let path = path.child("claims").index(index);
        let (name, request) = (claim.name.as_str(), claim.request.as_deref().unwrap_or(""));
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        if !request.is_empty() {
            errors.extend(breaches(names::dns_label, request, &path.child("request")));
        }
        // The whole of a claim and one request of it overlap.
        let overlaps =
            |other: &(&str, &str)| other.0 == name && (other.1 == request || other.1.is_empty() || request.is_empty());
        if taken.iter().any(overlaps) {
            let both = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
            errors.push(Error::duplicate(&path, both));
        }
        taken.push((name, request));
        if !known.contains(&name) {
            let place = "must be one of the names in pod.spec.resourceClaims";
            let detail = if known.is_empty() {
                format!("{place} which is empty")
            } else {
                format!("{place}: {}", known.join(", "))
            };
            errors.push(Error { detail, ..Error::not_found(&path, name) });
        }
    }
    errors
}
