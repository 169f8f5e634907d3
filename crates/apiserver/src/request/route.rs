//! Parses path and query into a route. Paths are data here: the served resources are not known yet.

use std::time::Duration;

use api::Revision;
use api::field::{Error, Path};
use http::{Method, Uri};

use crate::response::status::{ApiResult, Status};

/// A request before its resource is looked up.
#[derive(Debug)]
pub struct RequestInfo {
    /// The verb.
    pub verb: Verb,
    /// API group; empty for the core group.
    pub group: String,
    /// Version in the path.
    pub version: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Namespace in the path; `None` over all namespaces and for cluster-scoped resources.
    pub namespace: Option<String>,
    /// Name in the path.
    pub name: Option<String>,
    /// Subresource in the path, such as `status`.
    pub subresource: Option<String>,
    /// The query.
    pub options: RequestOptions,
}

/// The verbs of the Kubernetes API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read one object.
    Get,
    /// List a collection.
    List,
    /// Watch a collection.
    Watch,
    /// Create an object, or post to a subresource.
    Create,
    /// Update an object.
    Update,
    /// Change some fields of an object.
    Patch,
    /// Delete an object.
    Delete,
    /// Delete the objects of a collection.
    DeleteCollection,
}

impl Verb {
    /// The verb's name in logs, audits and RBAC rules.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }

    /// Whether requests of this verb write.
    pub fn writes(self) -> bool {
        !matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

/// The query's options, parsed but not yet checked against each other.
#[derive(Debug, Default)]
pub struct RequestOptions {
    /// Only objects that this label selector matches.
    pub label_selector: Option<String>,
    /// Only objects that this field selector matches.
    pub field_selector: Option<String>,
    /// Maximum number of objects in one response; `None` for all.
    pub limit: Option<usize>,
    /// The end of the previous page.
    pub continue_token: Option<String>,
    /// The requested version; `None` when unset.
    pub resource_version: Option<Revision>,
    /// How `resource_version` is matched.
    pub resource_version_match: Option<VersionMatch>,
    /// Whether to watch instead of list.
    pub watch: bool,
    /// How long a watch may last.
    pub timeout: Option<Duration>,
    /// Whether the watch may send bookmarks.
    pub allow_watch_bookmarks: bool,
    /// Whether a watch begins with the current objects.
    pub send_initial_events: Option<bool>,
    /// How unknown fields are treated.
    pub field_validation: FieldValidation,
    /// Whether to do everything except store the result.
    pub dry_run: bool,
    /// Name of the field manager.
    pub field_manager: Option<String>,
    /// How the dependents of a deleted object are treated.
    pub propagation_policy: Option<Propagation>,
    /// The older form of `propagation_policy`.
    pub orphan_dependents: Option<bool>,
    /// The grace period of a pod.
    pub grace_period_seconds: Option<i64>,
    /// How much of its object a row of a table contains.
    pub include_object: IncludeObject,
}

/// How a list's `resourceVersion` is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// Exactly that revision.
    Exact,
    /// That revision or a later one.
    NotOlderThan,
}

/// How much of its object a row of a table contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

/// How fields that are not in the schema are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and warn.
    #[default]
    Warn,
    /// Refuse the object.
    Strict,
}

/// How the dependents of a deleted object are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector deletes them afterwards.
    Background,
    /// They are deleted first; the object is removed after them.
    Foreground,
    /// They are kept without the owner reference.
    Orphan,
}

impl Propagation {
    /// Parses the wire form.
    pub fn parse(text: &str) -> Option<Propagation> {
        match text {
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            "Orphan" => Some(Propagation::Orphan),
            _ => None,
        }
    }
}

/// What a path refers to.
#[derive(Debug)]
pub enum Route {
    /// A resource or an object.
    Resource(Box<RequestInfo>),
    /// Something else, such as `/version`.
    NonResource,
}

/// Parses method and URI. Paths that cannot refer to a resource are [`Route::NonResource`]; bad option values are
/// refused.
pub fn parse(method: &Method, uri: &Uri) -> ApiResult<Route> {
    let segments: Vec<String> = uri.path().split('/').filter(|part| !part.is_empty()).map(percent_decode).collect();
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Ok(Route::NonResource),
    };
    let (namespace, rest) = match rest {
        // `namespaces/x/status` is a subresource of the namespace itself, not a resource named `status` inside it.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (Some((*namespace).to_owned()), inner),
        _ => (None, rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, None, None),
        [resource, name] => (*resource, Some((*name).to_owned()), None),
        [resource, name, subresource] => (*resource, Some((*name).to_owned()), Some((*subresource).to_owned())),
        _ => return Ok(Route::NonResource),
    };
    let options = RequestOptions::parse(uri.query().unwrap_or_default())?;
    let verb = verb(method, name.is_some(), &options)?;
    Ok(Route::Resource(Box::new(RequestInfo {
        verb,
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        namespace,
        name,
        subresource,
        options,
    })))
}

fn verb(method: &Method, named: bool, options: &RequestOptions) -> ApiResult<Verb> {
    Ok(match (method.as_str(), named) {
        ("GET" | "HEAD", false) if options.watch => Verb::Watch,
        ("GET" | "HEAD", false) => Verb::List,
        ("GET" | "HEAD", true) => Verb::Get,
        ("POST", _) => Verb::Create,
        ("PUT", true) => Verb::Update,
        ("PATCH", true) => Verb::Patch,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        _ => return Err(Status::method_not_allowed()),
    })
}

impl RequestOptions {
    fn parse(query: &str) -> ApiResult<RequestOptions> {
        let mut options = RequestOptions::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            options.set(&form_decode(name), form_decode(value))?;
        }
        options.check_list_options()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: String) -> ApiResult<()> {
        if value.is_empty() && name != "watch" {
            return Ok(());
        }
        match name {
            "labelSelector" => self.label_selector = Some(value),
            "fieldSelector" => self.field_selector = Some(value),
            "limit" => self.limit = Some(number(name, &value)?).filter(|&limit| limit > 0).map(|limit| limit as usize),
            "continue" => self.continue_token = Some(value),
            "resourceVersion" => {
                let revision =
                    Revision::parse(&value).ok_or_else(|| bad_value(name, &value, "must be a decimal number"));
                self.resource_version = Some(revision?);
            }
            "resourceVersionMatch" => self.resource_version_match = Some(version_match(&value)?),
            "watch" => self.watch = boolean(name, &value)?,
            "timeoutSeconds" => {
                let seconds = number(name, &value)?;
                self.timeout = u64::try_from(seconds).ok().filter(|&seconds| seconds > 0).map(Duration::from_secs);
            }
            "allowWatchBookmarks" => self.allow_watch_bookmarks = boolean(name, &value)?,
            "sendInitialEvents" => self.send_initial_events = Some(boolean(name, &value)?),
            "fieldValidation" => self.field_validation = field_validation(&value)?,
            "dryRun" if value == "All" => self.dry_run = true,
            "dryRun" => {
                let error = Error::not_supported(&Path::new("dryRun"), value, &["All"]);
                return Err(Status::invalid_named("WriteOptions.meta.k8s.io", "", &vec![error]));
            }
            "fieldManager" => self.field_manager = Some(value),
            "propagationPolicy" => {
                let supported = "must be one of Background, Foreground, Orphan";
                let policy = Propagation::parse(&value).ok_or_else(|| bad_value(name, &value, supported))?;
                self.propagation_policy = Some(policy);
            }
            "orphanDependents" => self.orphan_dependents = Some(boolean(name, &value)?),
            "gracePeriodSeconds" => self.grace_period_seconds = Some(number(name, &value)?),
            "includeObject" => self.include_object = include_object(&value)?,
            // Other parameters (`pretty`, `force`, …) are read elsewhere. The API ignores unknown ones.
            _ => {}
        }
        Ok(())
    }

    /// Checks options that exclude each other, for lists and watches.
    fn check_list_options(&self) -> ApiResult<()> {
        let path = Path::new("resourceVersionMatch");
        let forbid = |detail: &str| {
            let errors = vec![Error::forbidden(&path, detail)];
            Err(Status::invalid_named("ListOptions.meta.k8s.io", "", &errors))
        };
        if let Some(_initial) = self.send_initial_events {
            if !self.watch {
                let errors =
                    vec![Error::forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list")];
                return Err(Status::invalid_named("ListOptions.meta.k8s.io", "", &errors));
            }
            if self.resource_version_match != Some(VersionMatch::NotOlderThan) {
                return forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            return Ok(());
        }
        match self.resource_version_match {
            None => Ok(()),
            Some(_) if self.watch => {
                forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            }
            Some(_) if self.continue_token.is_some() => {
                forbid("resourceVersionMatch is forbidden when continue is provided")
            }
            Some(_) if self.resource_version.is_none() => {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided")
            }
            Some(VersionMatch::Exact) if self.resource_version == Some(Revision::ZERO) => {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
            }
            Some(_) => Ok(()),
        }
    }
}

fn version_match(value: &str) -> ApiResult<VersionMatch> {
    match value {
        "Exact" => Ok(VersionMatch::Exact),
        "NotOlderThan" => Ok(VersionMatch::NotOlderThan),
        _ => {
            let path = Path::new("resourceVersionMatch");
            let errors = vec![Error::not_supported(&path, value, &["Exact", "NotOlderThan", ""])];
            Err(Status::invalid_named("ListOptions.meta.k8s.io", "", &errors))
        }
    }
}

fn include_object(value: &str) -> ApiResult<IncludeObject> {
    match value {
        "None" => Ok(IncludeObject::None),
        "Metadata" => Ok(IncludeObject::Metadata),
        "Object" => Ok(IncludeObject::Object),
        _ => Err(bad_value("includeObject", value, "must be one of None, Metadata, Object")),
    }
}

fn field_validation(value: &str) -> ApiResult<FieldValidation> {
    match value {
        "Ignore" => Ok(FieldValidation::Ignore),
        "Warn" => Ok(FieldValidation::Warn),
        "Strict" => Ok(FieldValidation::Strict),
        _ => {
            let error = Error::not_supported(&Path::new("fieldValidation"), value, &["Ignore", "Strict", "Warn"]);
            Err(Status::invalid_named("CreateOptions.meta.k8s.io", "", &vec![error]))
        }
    }
}

fn number(name: &str, value: &str) -> ApiResult<i64> {
    value.parse().map_err(|_| bad_value(name, value, "must be a whole number"))
}

/// The API reads everything but `false` and `0` as true, an empty value included.
fn boolean(_name: &str, value: &str) -> ApiResult<bool> {
    Ok(!matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
}

fn bad_value(name: &str, value: &str, cause: &str) -> Status {
    Status::bad_request(format!("{name}: Invalid value: {value:?}: {cause}"))
}

/// `%41` → `A`, and in queries `+` → space. Bytes that are not UTF-8 become the replacement character.
fn form_decode(text: &str) -> String {
    percent_decode(&text.replace('+', " "))
}

fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|&byte| (byte as char).to_digit(16));
        match (bytes[at], hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn info(method: &str, uri: &str) -> RequestInfo {
        match parse(&method.parse().unwrap(), &uri.parse().unwrap()).unwrap() {
            Route::Resource(info) => *info,
            Route::NonResource => panic!("{uri} does not refer to a resource"),
        }
    }

    fn refusal(uri: &str) -> String {
        let status = parse(&Method::GET, &uri.parse().unwrap()).unwrap_err();
        String::from_utf8(status.to_json()).unwrap()
    }

    #[test]
    fn paths_contain_group_namespace_object_and_subresource() {
        for (method, uri, want) in [
            ("GET", "/api/v1/pods", "List /v1 pods None None None"),
            ("GET", "/api/v1/pods?watch=1", "Watch /v1 pods None None None"),
            ("POST", "/apis/batch/v1/namespaces/a/jobs", "Create batch/v1 jobs Some(\"a\") None None"),
            ("PUT", "/api/v1/namespaces/a/pods/p/status", "Update /v1 pods Some(\"a\") Some(\"p\") Some(\"status\")"),
            ("GET", "/api/v1/namespaces/a", "Get /v1 namespaces None Some(\"a\") None"),
            ("PATCH", "/api/v1/namespaces/a/status", "Patch /v1 namespaces None Some(\"a\") Some(\"status\")"),
            ("DELETE", "/api/v1/namespaces/a/pods", "DeleteCollection /v1 pods Some(\"a\") None None"),
            ("GET", "/api/v1/nodes/a%2Fb", "Get /v1 nodes None Some(\"a/b\") None"),
        ] {
            let i = info(method, uri);
            let text = format!(
                "{:?} {}/{} {} {:?} {:?} {:?}",
                i.verb, i.group, i.version, i.resource, i.namespace, i.name, i.subresource
            );
            assert_eq!(text, want, "{method} {uri}");
        }
    }

    #[test]
    fn options_are_decoded() {
        let options = info("GET", "/api/v1/pods?labelSelector=a%3Db%2Cc+in+%28d%29&limit=5&resourceVersion=7").options;
        assert_eq!(options.label_selector.as_deref(), Some("a=b,c in (d)"));
        assert_eq!((options.limit, options.resource_version), (Some(5), Some(Revision(7))));
        assert_eq!(options.field_validation, FieldValidation::Warn);
    }

    #[test]
    fn bad_options_are_refused_with_their_name() {
        for (query, want) in [
            ("limit=x", "limit: Invalid value"),
            ("resourceVersion=x", "must be a decimal number"),
            ("resourceVersionMatch=Exact", "forbidden unless resourceVersion is provided"),
            ("resourceVersionMatch=Exact&resourceVersion=0", "is forbidden for resourceVersion"),
            ("resourceVersionMatch=Never&resourceVersion=1", "Unsupported value"),
            ("watch=1&sendInitialEvents=true", "requires setting resourceVersionMatch"),
            ("fieldValidation=x", "Unsupported value"),
            ("propagationPolicy=x", "propagationPolicy"),
        ] {
            let text = refusal(&format!("/api/v1/pods?{query}"));
            assert!(text.contains(want), "{query}: {text}");
        }
    }

    #[test]
    fn broken_percent_signs_do_not_panic() {
        assert_eq!(percent_decode("%"), "%");
        assert_eq!(percent_decode("a%4"), "a%4");
        assert_eq!(percent_decode("%zz%41"), "%zzA");
    }
}
