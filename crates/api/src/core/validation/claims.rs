//! Resource claims of a pod and of its containers.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodResourceClaim, PodSpec, ResourceRequirements};

use super::declared_names::DeclaredNames;
use crate::field::{Error, ErrorList, Path};
use crate::metadata::{names, to_json, violations};

/// The maximum number of claims in the message about a claim that the pod does not have.
const MAX_LISTED_CLAIMS: usize = 32;

/// Validates the claims of a pod: a unique name and one source each.
pub fn validate(spec: &PodSpec, path: &Path) -> ErrorList {
    let mut used = BTreeSet::new();
    let claims = spec.resource_claims.iter().flatten().enumerate();
    claims.flat_map(|(index, claim)| claim_problems(claim, &mut used, &path.index(index))).collect()
}

fn claim_problems<'a>(claim: &'a PodResourceClaim, used: &mut BTreeSet<&'a str>, path: &Path) -> ErrorList {
    let (name, name_path) = (claim.name.as_str(), path.child("name"));
    let mut errors = match name {
        "" => vec![Error::required(&name_path, "")],
        name if !used.insert(name) => vec![Error::duplicate(&name_path, name)],
        name => violations(names::dns_label, name, &name_path),
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
    errors.extend(problem.map(|detail| Error::invalid(path, to_json(claim), detail)));
    for (field, source) in sources {
        errors.extend(source.iter().flat_map(|name| violations(names::dns_subdomain, name, &path.child(field))));
    }
    errors
}

/// Validates the claims of a container: each is a claim of its pod.
pub fn validate_container_claims(
    resources: &ResourceRequirements,
    declared: &DeclaredNames<'_>,
    path: &Path,
) -> ErrorList {
    // The used requests of each claim. The empty one is the whole claim.
    let mut used: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut errors = ErrorList::new();
    for (index, claim) in resources.claims.iter().flatten().enumerate() {
        let path = path.child("claims").index(index);
        let (name, request) = (claim.name.as_str(), claim.request.as_deref().unwrap_or(""));
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        if !request.is_empty() {
            errors.extend(violations(names::dns_label, request, &path.child("request")));
        }
        let requests = used.entry(name).or_default();
        // A whole claim and one request of it overlap.
        let overlaps =
            requests.contains(request) || requests.contains("") || (request.is_empty() && !requests.is_empty());
        if overlaps {
            let both = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
            errors.push(Error::duplicate(&path, both));
        }
        requests.insert(request);
        if !declared.claims.contains(name) {
            errors.push(Error { detail: unknown_detail(&declared.claims), ..Error::not_found(&path, name) });
        }
    }
    errors
}

/// The possible names of a claim. If there are very many, the first ones.
fn unknown_detail(known: &BTreeSet<&str>) -> String {
    let place = "must be one of the names in pod.spec.resourceClaims";
    if known.is_empty() {
        return format!("{place} which is empty");
    }
    let mut names: Vec<&str> = known.iter().take(MAX_LISTED_CLAIMS).copied().collect();
    if known.len() > MAX_LISTED_CLAIMS {
        names.push("...");
    }
    format!("{place}: {}", names.join(", "))
}
