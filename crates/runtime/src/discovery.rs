//! What a server says it serves, as far as it is read.

use kube::{Client, Error};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use types::views::ObjectKey;

use crate::failure::is_not_found;
use crate::request;

/// `/apis`.
#[derive(Deserialize)]
pub struct ApiGroupList {
    /// In the order in which the server tells of them.
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
    /// The version to be used by who does not care.
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
    /// Kind of what it takes and gives.
    pub kind: String,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// What can be done.
    #[serde(default)]
    pub verbs: Vec<String>,
}

/// Reads a document of discovery at `path`.
pub async fn get_document<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Error> {
    serde_json::from_slice(&request::get(client, path).await?).map_err(Error::SerdeError)
}

/// Where the object of this kind and name is, which somebody has written down; `None` where the server has no such kind,
/// or where no object can be called so.
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
    // Subresources are listed as well, under the kind of what they take.
    let whole = found.resources.into_iter().find(|found| found.kind == kind && !found.name.contains('/'));
    Ok(whole.map(|ApiResource { name: plural, namespaced, .. }| {
        let within = if namespaced { format!("/namespaces/{}", key.namespace) } else { String::new() };
        format!("{root}{within}/{plural}/{}", key.name)
    }))
}

/// Whether `text` is one segment of a path as it stands. What a user wrote must not lead to another request than is meant.
pub fn is_path_segment(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    !matches!(text, "" | "." | "..") && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::is_path_segment;

    #[test]
    fn what_would_lead_elsewhere_is_no_segment() {
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
