//! What a server says it serves, as far as it is read.

use kube::{Client, Error};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::request;

/// `/apis`.
#[derive(Deserialize)]
pub struct Groups {
    /// In the order in which the server tells of them.
    pub groups: Vec<Group>,
}

/// One API group, in `/apis` or at `/apis/GROUP`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Its name.
    pub name: String,
    /// All versions that are served.
    pub versions: Vec<Version>,
    /// The version to be used by who does not care.
    pub preferred_version: Version,
}

/// One version of a group.
#[derive(Clone, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// `group/version`.
    pub group_version: String,
}

/// `/api/v1` or `/apis/GROUP/VERSION`.
#[derive(Deserialize)]
pub struct Resources {
    /// Subresources too, as `pods/status`.
    pub resources: Vec<Resource>,
}

/// One resource of a version.
#[derive(Deserialize)]
pub struct Resource {
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
pub async fn ask<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Error> {
    serde_json::from_slice(&request::get(client, path).await?).map_err(Error::SerdeError)
}
