//! Control loops request only what they declare. The ClusterRoles of the guide are generated from the declarations.

use apiserver::request::Verb;
use controlplane::control_loops;

use super::observed_request::ObservedRequest;

/// Why a request is outside of what its control loop declares; `None` if it is within, or of another user.
pub(super) fn undeclared(request: &ObservedRequest) -> Option<String> {
    let control_loop = control_loops::ALL.iter().copied().find(|control_loop| control_loop.user == request.user)?;
    let (group, plural) = request.resource.split_once('/').unwrap_or(("", &request.resource));
    let separator = if request.subresource.is_empty() { "" } else { "/" };
    let resource = format!("{plural}{separator}{}", request.subresource);
    // Jobs have owners of any kind. Only the administrator of a cluster knows which (role phalanx-owners).
    let is_owner = *control_loop == control_loops::JOB && request.verb == Verb::Get && request.subresource.is_empty();
    if is_owner || control_loop.declares(request.verb, group, &resource) {
        return None;
    }
    let name = control_loop.name;
    Some(format!("{name} does not declare {:?} of {resource} in group {group:?} (control_loops.rs)", request.verb))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::{Method, Uri};

    use super::*;

    #[test]
    fn requests_outside_of_the_declared_rights_are_reported() {
        let reason = |user: &str, method: Method, uri: &'static str| {
            let request = ObservedRequest::read(user, &method, &Uri::from_static(uri), b"").unwrap();
            undeclared(&request)
        };
        let scheduler = control_loops::SCHEDULER.user;
        assert_eq!(reason(scheduler, Method::POST, "/api/v1/namespaces/a/pods/b/binding"), None);
        assert_eq!(reason("system:admin", Method::DELETE, "/api/v1/nodes/a"), None);
        let want = r#"scheduler does not declare Delete of nodes in group "" (control_loops.rs)"#;
        assert_eq!(reason(scheduler, Method::DELETE, "/api/v1/nodes/a").as_deref(), Some(want));
        let job = control_loops::JOB.user;
        assert_eq!(reason(job, Method::GET, "/apis/example.com/v1/namespaces/a/trainers/b"), None);
        assert!(reason(job, Method::GET, "/api/v1/namespaces/a/secrets").is_some());
    }
}
