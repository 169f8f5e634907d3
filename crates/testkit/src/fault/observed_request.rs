//! The attributes of a request that rules match.

use apiserver::request::{self, Route, Verb};
use http::{Method, Uri};
use serde::Deserialize;

/// A request as rules see it. Strings are empty where the request has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedRequest {
    /// The user.
    pub user: String,
    /// The verb.
    pub verb: Verb,
    /// `pods`, `batch/jobs`, …: the store's name, without the version.
    pub resource: String,
    /// `status`, `binding`, ….
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The object's name. A create has it in its body, unless the server generates it.
    pub name: String,
}

impl ObservedRequest {
    /// Parses a request; `None` for one without a resource, such as `/version`.
    pub fn read(user: &str, method: &Method, uri: &Uri, body: &[u8]) -> Option<ObservedRequest> {
        let Ok(Route::Resource(info)) = request::parse(method, uri) else { return None };
        let resource = if info.group.is_empty() { info.resource } else { format!("{}/{}", info.group, info.resource) };
        let name = info.name.unwrap_or_else(|| match info.verb {
            Verb::Create => NamespacedName::of(body).name,
            _ => String::new(),
        });
        Some(ObservedRequest {
            user: user.to_owned(),
            verb: info.verb,
            resource,
            subresource: info.subresource.unwrap_or_default(),
            namespace: info.namespace.unwrap_or_default(),
            name,
        })
    }

    /// The same watch with namespace and name of an event's object.
    pub(super) fn for_event_object(&self, object: NamespacedName) -> ObservedRequest {
        ObservedRequest { namespace: object.namespace, name: object.name, ..self.clone() }
    }
}

/// Namespace and name of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NamespacedName {
    namespace: String,
    name: String,
}

impl NamespacedName {
    /// Those of a JSON object; empty for any other input.
    fn of(object: &[u8]) -> NamespacedName {
        serde_json::from_slice::<NamedObject>(object).unwrap_or_default().metadata
    }
}

/// Any object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NamedObject {
    pub(super) metadata: NamespacedName,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_request_is_parsed_into_verb_resource_and_object() {
        for (method, uri, body, want) in [
            ("GET", "/api/v1/pods?watch=1&resourceVersion=7", "", "Watch pods  /"),
            ("GET", "/api/v1/namespaces/ns/pods", "", "List pods  ns/"),
            ("GET", "/api/v1/nodes/a", "", "Get nodes  /a"),
            ("POST", "/api/v1/namespaces/ns/pods", r#"{"metadata":{"name":"p"}}"#, "Create pods  ns/p"),
            ("POST", "/api/v1/namespaces/ns/pods", r#"{"metadata":{"generateName":"p-"}}"#, "Create pods  ns/"),
            ("POST", "/api/v1/namespaces/ns/pods", "\0k8s", "Create pods  ns/"),
            ("POST", "/api/v1/namespaces/ns/pods/p/binding", "{}", "Create pods binding ns/p"),
            ("PATCH", "/apis/batch/v1/namespaces/ns/jobs/j/status", "{}", "Patch batch/jobs status ns/j"),
            ("PUT", "/api/v1/namespaces/ns", "{}", "Update namespaces  /ns"),
            (
                "DELETE",
                "/apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/g",
                "",
                "Delete scheduling.k8s.io/podgroups  ns/g",
            ),
        ] {
            let observed =
                ObservedRequest::read("u", &method.parse().unwrap(), &uri.parse().unwrap(), body.as_bytes()).unwrap();
            let ObservedRequest { verb, resource, subresource, namespace, name, .. } = observed;
            assert_eq!(format!("{verb:?} {resource} {subresource} {namespace}/{name}"), want, "{method} {uri}");
        }
        assert_eq!(ObservedRequest::read("u", &Method::GET, &Uri::from_static("/version"), b""), None);
    }
}
