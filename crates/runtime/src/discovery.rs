//! Discovery documents of a server, with the fields that are used here.

use kube::{Client, Error};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use types::views::ObjectKey;

use crate::failure::is_not_found;
use crate::request;

/// `/apis`.
#[derive(Deserialize)]
pub struct ApiGroupList {
    /// In the order of the server.
    pub groups: Vec<ApiGroup>,
}

/// One API group, in `/apis` or at `/apis/GROUP`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiGroup {
    /// Its name.
    pub name: String,
    /// All versions that are served.
    pub versions: Vec<GroupVersion>,
    /// The preferred version.
    pub preferred_version: GroupVersion,
}

/// One version of a group.
#[derive(Clone, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersion {
    /// `group/version`.
    pub group_version: String,
}

/// `/api/v1` or `/apis/GROUP/VERSION`.
#[derive(Deserialize)]
pub struct ApiResourceList {
    /// Subresources too, as `pods/status`.
    pub resources: Vec<ApiResource>,
}

/// One resource of a version.
#[derive(Deserialize)]
pub struct ApiResource {
    /// Plural, as in the path.
    pub name: String,
    /// Kind of its objects or of the body of a subresource.
    pub kind: String,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// The supported verbs.
    #[serde(default)]
    pub verbs: Vec<String>,
}

/// Reads a discovery document at `path`.
pub async fn get_document<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Error> {
    serde_json::from_slice(&request::get(client, path).await?).map_err(Error::SerdeError)
}

/// The path of the object of this kind and name, from a reference that a user wrote. `None` if the server does not
/// serve the kind, or if the name is not valid in a path.
pub async fn object_path(
    client: &Client,
    api_version: &str,
    kind: &str,
    key: &ObjectKey,
) -> Result<Option<String>, Error> {
    let parts = api_version.split('/').chain([key.name.as_str()]);
    if api_version.split('/').count() > 2 || !parts.into_iter().all(is_path_segment) {
        return Ok(None);
    }
    let root = if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") };
    let found: ApiResourceList = match get_document(client, &root).await {
        Err(error) if is_not_found(&error) => return Ok(None),
        found => found?,
    };
    // Subresources are listed as well, with the kind of their body.
    let whole = found.resources.into_iter().find(|found| found.kind == kind && !found.name.contains('/'));
    Ok(whole.map(|ApiResource { name: plural, namespaced, .. }| {
        let within = if namespaced { format!("/namespaces/{}", key.namespace) } else { String::new() };
        format!("{root}{within}/{plural}/{}", key.name)
    }))
}

/// Whether `text` is a single path segment. A value that a user wrote must not change the path of the request.
pub fn is_path_segment(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    !matches!(text, "" | "." | "..") && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::is_path_segment;

    #[test]
    fn values_that_change_the_path_are_not_segments() {
        for (text, want) in [
            ("trainer", true),
            ("batch", true),
            ("system:node.a_1", true),
            ("", false),
            ("..", false),
            ("a/../secrets", false),
            ("a?watch=true", false),
            ("a%2Fb", false),
            ("a#b", false),
            ("a b", false),
        ] {
            assert_eq!(is_path_segment(text), want, "{text:?}");
        }
    }
}
