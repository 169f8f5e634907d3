//! The kinds that a server serves, found by any of their names.

use api::conversion::current_api_version;
use api::kinds as registry;
use futures::future::join_all;
use kube::{Client, Error};
use runtime::is_not_found;
use serde_json::Value;

use crate::client::api_request::{self, items, text};
use crate::command_error::CommandError;

/// Aggregated discovery if the server has it, else the older form.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Longer lists of names are omitted from errors.
const MAX_NAMES_SHOWN: usize = 30;

/// A kind in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// API group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// As in `kind: Pod`.
    pub kind: String,
    /// As in the path.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Whether objects are in a namespace.
    pub namespaced: bool,
}

impl ServedKind {
    /// `v1` or `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The collection's path in `namespace`; `None` means all namespaces. Ignored for cluster-scoped kinds.
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => {
                format!("{root}/{}/namespaces/{}/{}", self.version, api_request::escape(namespace), self.plural)
            }
            None => format!("{root}/{}/{}", self.version, self.plural),
        }
    }

    /// The path of one object.
    pub fn object_path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.collection_path(Some(namespace)), api_request::escape(name))
    }

    /// `job.batch`, `pod`.
    pub fn display_name(&self) -> String {
        let kind = self.kind.to_lowercase();
        if self.group.is_empty() { kind } else { format!("{kind}.{}", self.group) }
    }

    /// `job.batch/trainer`.
    pub fn object_display_name(&self, name: &str) -> String {
        format!("{}/{name}", self.display_name())
    }

    /// Whether `name` is one of its names: plural, singular, short name or kind, with or without its group
    /// (`jobs.batch`) and version (`jobs.v1.batch`).
    fn matches_name(&self, name: &str) -> bool {
        let (word, rest) = name.split_once('.').unwrap_or((name, ""));
        let plain = [&self.plural, &self.singular, &self.kind];
        let mut words = plain.into_iter().chain(&self.short_names);
        let place = rest.is_empty() || rest == self.group || rest == format!("{}.{}", self.version, self.group);
        place && words.any(|known| known.eq_ignore_ascii_case(word))
    }
}

/// The kinds of one server, in its own order: the first of a name is the preferred one.
#[derive(Debug)]
pub struct ServedKinds(Vec<ServedKind>);

/// Objects selected on the command line: a kind, and optional names.
#[derive(Debug)]
pub struct ObjectSelection<'a> {
    /// The kind.
    pub kind: &'a ServedKind,
    /// Names; none for all of the kind.
    pub names: Vec<String>,
}

impl ServedKinds {
    /// Discovers the kinds of the server. Without discovery, it is assumed to serve the kinds of Phalanx.
    pub async fn discover(client: &Client) -> Result<ServedKinds, Error> {
        let core = match api_request::get(client, "/api", DISCOVERY).await {
            Err(error) if is_not_found(&error) => return Ok(ServedKinds::built_in()),
            response => response?,
        };
        let groups = api_request::get(client, "/apis", DISCOVERY).await?;
        let mut kinds = Vec::new();
        for (response, root) in [(core, "/api"), (groups, "/apis")] {
            match response["kind"].as_str() {
                Some("APIGroupDiscoveryList") => kinds.extend(from_aggregated(&response)),
                _ => kinds.extend(discover_legacy(client, root, &response).await?),
            }
        }
        Ok(ServedKinds(kinds))
    }

    /// The kinds that Phalanx serves.
    pub fn built_in() -> ServedKinds {
        let served = registry::ALL.iter().flat_map(|resource| {
            resource.served_versions().map(|version| ServedKind {
                group: resource.group.to_owned(),
                version: version.to_owned(),
                kind: resource.kind.to_owned(),
                plural: resource.plural.to_owned(),
                singular: resource.singular.to_owned(),
                short_names: resource.short_names.iter().map(|name| (*name).to_owned()).collect(),
                namespaced: resource.namespaced,
            })
        });
        ServedKinds(served.collect())
    }

    /// The kind with this name.
    pub fn find_by_name(&self, name: &str) -> Result<&ServedKind, CommandError> {
        self.0.iter().find(|kind| kind.matches_name(name)).ok_or_else(|| {
            let known = self.names();
            let hint =
                if known.len() > MAX_NAMES_SHOWN { String::new() } else { format!("; it has {}", known.join(", ")) };
            CommandError::usage(format!("the server has no kind {name:?}{hint}"))
        })
    }

    /// The kind of an object with this `apiVersion` and `kind`; `Err` has the field that the server does not know. Group
    /// names of drafts are mapped to the current ones; the server warns about them.
    pub fn find_by_kind(&self, api_version: &str, kind: &str) -> Result<&ServedKind, (&'static str, String)> {
        let present = current_api_version(api_version);
        let api_version = present.as_deref().unwrap_or(api_version);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let alike = || self.0.iter().filter(|known| known.kind == kind && known.group == group);
        if let Some(found) = alike().find(|known| known.version == version) {
            return Ok(found);
        }
        let versions: Vec<&str> = alike().map(|known| known.version.as_str()).collect();
        if versions.is_empty() {
            let served = self.names();
            let hint =
                if served.len() > MAX_NAMES_SHOWN { "".into() } else { format!("; served are {}", served.join(", ")) };
            return Err(("kind", format!("kind {kind} of {api_version} is not served{hint}")));
        }
        let served = versions.join(", ");
        Err(("apiVersion", format!("version {version} of {kind} is not served; served are {served}")))
    }

    /// Parses `pods`, `pods a b`, `pods,jobs`, `pod/a job/b`.
    pub fn selections(&self, words: &[String]) -> Result<Vec<ObjectSelection<'_>>, CommandError> {
        let [first, names @ ..] = words else {
            return Err(CommandError::usage("missing kind, such as `pods`, `job trainer` or `job/trainer`"));
        };
        if words.iter().any(|word| word.contains('/')) {
            let one = |word: &String| match word.split_once('/') {
                Some((kind, name)) if !name.is_empty() && !name.contains('/') => {
                    Ok(ObjectSelection { kind: self.find_by_name(kind)?, names: vec![name.to_owned()] })
                }
                _ => Err(CommandError::usage(format!("{word}: use KIND/NAME for all arguments or for none"))),
            };
            return words.iter().map(one).collect();
        }
        let kinds: Vec<&str> = first.split(',').filter(|kind| !kind.is_empty()).collect();
        let one = |kind: &&str| Ok(ObjectSelection { kind: self.find_by_name(kind)?, names: names.to_vec() });
        kinds.iter().map(one).collect()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for kind in &self.0 {
            let name =
                if kind.group.is_empty() { kind.plural.clone() } else { format!("{}.{}", kind.plural, kind.group) };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

fn from_aggregated(response: &Value) -> Vec<ServedKind> {
    let mut kinds = Vec::new();
    for group in items(&response["items"]) {
        for version in items(&group["versions"]) {
            for resource in items(&version["resources"]) {
                kinds.push(ServedKind {
                    group: text(&group["metadata"]["name"]),
                    version: text(&version["version"]),
                    kind: text(&resource["responseKind"]["kind"]),
                    plural: text(&resource["resource"]),
                    singular: text(&resource["singularResource"]),
                    short_names: items(&resource["shortNames"]).map(text).collect(),
                    namespaced: resource["scope"] == "Namespaced",
                });
            }
        }
    }
    kinds
}

/// The older form: a list of groups and versions, and one request for each of them.
async fn discover_legacy(client: &Client, root: &str, response: &Value) -> Result<Vec<ServedKind>, Error> {
    let places: Vec<(String, String)> = if root == "/api" {
        items(&response["versions"]).map(|version| (String::new(), text(version))).collect()
    } else {
        let versions = |group: &Value| {
            let name = text(&group["name"]);
            let versions: Vec<String> = items(&group["versions"]).map(|version| text(&version["version"])).collect();
            versions.into_iter().map(move |version| (name.clone(), version))
        };
        items(&response["groups"]).flat_map(versions).collect()
    };
    let paths = places.iter().map(|(group, version)| match group.as_str() {
        "" => format!("{root}/{version}"),
        group => format!("{root}/{group}/{version}"),
    });
    let responses =
        join_all(paths.map(|path| async move { api_request::get(client, &path, api_request::JSON).await })).await;
    let mut kinds = Vec::new();
    for ((group, version), response) in places.iter().zip(responses) {
        match response {
            Ok(response) => kinds.extend(from_resource_list(group, version, &response)),
            // An extension server that is down must not make all other kinds unusable.
            Err(Error::Api(status)) if !group.is_empty() => {
                eprintln!("warning: {group}/{version} cannot be listed: {}", status.message);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(kinds)
}

fn from_resource_list(group: &str, version: &str, response: &Value) -> Vec<ServedKind> {
    let kind = |resource: &Value| {
        let kind = text(&resource["kind"]);
        let singular = Some(text(&resource["singularName"])).filter(|name| !name.is_empty());
        ServedKind {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: text(&resource["name"]),
            singular: singular.unwrap_or_else(|| kind.to_lowercase()),
            short_names: items(&resource["shortNames"]).map(text).collect(),
            namespaced: resource["namespaced"] == true,
            kind,
        }
    };
    items(&response["resources"]).map(kind).filter(|kind| !kind.plural.contains('/')).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn selected(words: &[&str]) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let kinds = ServedKinds::built_in();
        let selections = kinds.selections(&words).map_err(|failure| failure.lines.join("; "))?;
        let text = |selection: &ObjectSelection| {
            format!("{} {:?}", selection.kind.collection_path(Some("n")), selection.names)
        };
        Ok(selections.iter().map(text).collect::<Vec<_>>().join(" + "))
    }

    #[test]
    fn kinds_are_found_by_all_their_names() {
        for name in ["pods", "pod", "po", "Pod", "PODS", "pods.v1."] {
            assert_eq!(selected(&[name]).unwrap(), "/api/v1/namespaces/n/pods []", "{name}");
        }
        for name in ["jobs", "job", "jobs.batch", "job.v1.batch"] {
            assert_eq!(selected(&[name]).unwrap(), "/apis/batch/v1/namespaces/n/jobs []", "{name}");
        }
        assert_eq!(selected(&["pc", "high"]).unwrap(), "/apis/scheduling.k8s.io/v1/priorityclasses [\"high\"]");
        let alpha = selected(&["podgroups.v1alpha3.scheduling.k8s.io"]).unwrap();
        assert!(alpha.contains("/v1alpha3/"), "{alpha}");
    }

    #[test]
    fn names_follow_the_kind_or_a_slash() {
        assert_eq!(selected(&["po", "a", "b"]).unwrap(), "/api/v1/namespaces/n/pods [\"a\", \"b\"]");
        assert_eq!(selected(&["pods,ns"]).unwrap(), "/api/v1/namespaces/n/pods [] + /api/v1/namespaces []");
        assert_eq!(
            selected(&["po/a", "ns/b"]).unwrap(),
            "/api/v1/namespaces/n/pods [\"a\"] + /api/v1/namespaces [\"b\"]"
        );
        for (words, want) in [
            (&["po/a", "b"][..], "KIND/NAME"),
            (&["po/"], "KIND/NAME"),
            (&["cats"], "no kind \"cats\"; it has namespaces, nodes, pods"),
            (&["jobs.apps"], "no kind"),
            (&[], "missing kind"),
        ] {
            let refusal = selected(words).unwrap_err();
            assert!(refusal.contains(want), "{words:?}: {refusal}");
        }
    }

    #[test]
    fn both_forms_of_discovery_give_the_same_kinds() {
        let aggregated = json!({"items": [{"metadata": {"name": "batch"}, "versions": [{"version": "v1", "resources": [{
            "resource": "jobs", "responseKind": {"group": "batch", "version": "v1", "kind": "Job"}, "scope": "Namespaced",
            "singularResource": "job", "shortNames": ["j"],
        }]}]}]});
        let legacy = json!({"resources": [
            {"name": "jobs", "singularName": "", "namespaced": true, "kind": "Job", "shortNames": ["j"]},
            {"name": "jobs/status", "singularName": "", "namespaced": true, "kind": "Job"},
        ]});
        let kinds = from_aggregated(&aggregated);
        assert_eq!(kinds, from_resource_list("batch", "v1", &legacy));
        assert_eq!((kinds.len(), kinds[0].object_display_name("x")), (1, "job.batch/x".to_owned()));
    }

    // Shows: S001-07
    #[test]
    fn an_error_about_a_kind_that_is_not_served_lists_the_served_ones() {
        let kinds = ServedKinds::built_in();
        assert_eq!(kinds.find_by_kind("batch/v1", "Job").unwrap().plural, "jobs");
        assert_eq!(
            kinds.find_by_kind("scheduling/v1alpha1", "Workload").unwrap().api_version(),
            "scheduling.k8s.io/v1alpha1"
        );
        let (field, message) = kinds.find_by_kind("batch/v2", "Job").unwrap_err();
        assert_eq!((field, message.as_str()), ("apiVersion", "version v2 of Job is not served; served are v1"));
        let (field, message) = kinds.find_by_kind("apps/v1", "Deployment").unwrap_err();
        assert!(field == "kind" && message.starts_with("kind Deployment of apps/v1 is not served; served are "));
    }
}
