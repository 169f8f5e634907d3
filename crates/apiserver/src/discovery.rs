//! Documents about the API itself: discovery, OpenAPI, and the extension API.
//!
//! In: the resources that are served. Out: documents built once at start. This file is discovery: a document for each
//! group and version, and the aggregated form that newer clients request.

mod aggregated; // one document for all groups
mod legacy; // a document for each group and version
pub(crate) mod openapi; // the API as OpenAPI documents
pub(crate) mod static_document; // documents made once, served with an ETag
pub(crate) mod extension_api; // other components of the process, below a path of their own

use std::cmp::Reverse;
use std::collections::BTreeMap;

use http::{HeaderMap, Response};

use crate::discovery::static_document::StaticDocument;
use crate::request::negotiation::{self, MediaRange};
use crate::resources::resource::Resource;
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};

/// Every discovery document.
pub(crate) struct Discovery {
    /// By path: `/api`, `/api/v1`, `/apis`, `/apis/batch`, `/apis/batch/v1`, …
    plain: BTreeMap<String, StaticDocument>,
    /// By path (`/api` and `/apis` only) and version of the form.
    aggregated: BTreeMap<(&'static str, &'static str), StaticDocument>,
}

/// A group in discovery.
pub(crate) struct ServedGroup<'a> {
    /// Empty for the core group.
    pub name: &'a str,
    /// The preferred one first.
    pub versions: Vec<ServedVersion<'a>>,
}

/// A version of a group.
pub(crate) struct ServedVersion<'a> {
    /// As in the path: `v1beta1`.
    pub name: &'a str,
    /// In order of name.
    pub resources: Vec<&'a Resource>,
}

impl ServedGroup<'_> {
    /// `batch/v1`, or `v1` in the core group.
    pub fn api_version(&self, version: &ServedVersion<'_>) -> String {
        if self.name.is_empty() { version.name.to_owned() } else { format!("{}/{}", self.name, version.name) }
    }

    /// The path of the version: `apis/batch/v1`, or `api/v1` in the core group.
    pub fn path(&self, version: &ServedVersion<'_>) -> String {
        let root = if self.name.is_empty() { "api" } else { "apis" };
        format!("{root}/{}", self.api_version(version))
    }
}

/// The groups of `resources`, in the order in which the resources name them.
pub(crate) fn groups(resources: &[Resource]) -> Vec<ServedGroup<'_>> {
    let mut groups: Vec<ServedGroup<'_>> = Vec::new();
    for resource in resources {
        let at = groups.iter().position(|group| group.name == resource.group).unwrap_or_else(|| {
            groups.push(ServedGroup { name: resource.group, versions: Vec::new() });
            groups.len() - 1
        });
        let versions = &mut groups[at].versions;
        for name in resource.served_versions() {
            match versions.iter_mut().find(|version| version.name == name) {
                Some(version) => version.resources.push(resource),
                None => versions.push(ServedVersion { name, resources: vec![resource] }),
            }
        }
    }
    for group in &mut groups {
        group.versions.sort_by_key(|version| maturity(version.name));
        for version in &mut group.versions {
            version.resources.sort_by_key(|resource| resource.plural);
        }
    }
    groups
}

/// Orders versions as the API does: stable before beta before alpha, and of each the newest first.
fn maturity(version: &str) -> (u8, Reverse<u32>, Reverse<u32>) {
    let number = |text: &str| Reverse(text.parse().unwrap_or(0));
    let rest = version.trim_start_matches('v');
    if let Some((major, minor)) = rest.split_once("beta") {
        (1, number(major), number(minor))
    } else if let Some((major, minor)) = rest.split_once("alpha") {
        (2, number(major), number(minor))
    } else {
        (0, number(rest), Reverse(0))
    }
}

impl Discovery {
    /// Builds every document.
    pub fn new(resources: &[Resource]) -> Discovery {
        let groups = groups(resources);
        let plain = legacy::documents(&groups);
        let plain =
            plain.into_iter().map(|(path, document)| (path, StaticDocument::new(&document, "application/json")));
        let (core, named): (Vec<_>, Vec<_>) = groups.iter().partition(|group| group.name.is_empty());
        let mut aggregated = BTreeMap::new();
        for (path, groups) in [("/api", core), ("/apis", named)] {
            for (version, media_type) in aggregated::FORMS {
                let document = aggregated::document(version, &groups);
                aggregated.insert((path, version), StaticDocument::new(&document, media_type));
            }
        }
        Discovery { plain: plain.collect(), aggregated }
    }

    /// The document at `path` in the form that the client prefers; 404 when there is none.
    pub fn response(&self, path: &str, headers: &HeaderMap) -> ApiResult<Response<Body>> {
        let path = path.trim_end_matches('/');
        let plain = self.plain.get(path).ok_or_else(Status::unknown_path)?;
        let ranges = negotiation::accepted_ranges(headers);
        let best = ranges.iter().filter(|range| range.is_json()).find_map(|range| match range.parameter("as") {
            None => Some(plain),
            Some(_) => self.aggregated(path, range),
        });
        best.map(|document| document.response(headers)).ok_or_else(Status::not_acceptable)
    }

    fn aggregated(&self, path: &str, range: &MediaRange<'_>) -> Option<&StaticDocument> {
        let requested = (range.parameter("g"), range.parameter("as"));
        if requested != (Some(aggregated::GROUP), Some(aggregated::KIND)) {
            return None;
        }
        let version = range.parameter("v")?;
        let found = self.aggregated.iter().find(|((known, form), _)| *known == path && *form == version);
        found.map(|(_, document)| document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_before_beta_and_alpha() {
        let mut versions = ["v1alpha3", "v2beta1", "v1", "v1beta2", "v1beta1", "v2", "v1alpha10"];
        versions.sort_by_key(|version| maturity(version));
        assert_eq!(versions, ["v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha10", "v1alpha3"]);
    }
}
