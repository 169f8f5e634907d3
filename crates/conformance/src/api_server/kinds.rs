//! The kinds that are compared: those of the registry, each with a file in tests/kube/corpus.

use std::ops::Deref;
use std::path::Path;

use anyhow::ensure;
use api::kinds::{self, ApiResource};

use super::corpus;

/// A kind in one version.
#[derive(Clone, Copy, Debug)]
pub struct ComparedKind {
    pub resource: &'static ApiResource,
    pub version: &'static str,
    /// Its share of the cases, relative to the others.
    pub weight: usize,
    /// How many of 100 cases must get the same verdict.
    pub min_same_verdict_percent: f64,
    /// Whether one case can change the response to another, so that they are sent one after another.
    pub sequential: bool,
}

impl Deref for ComparedKind {
    type Target = ApiResource;

    fn deref(&self) -> &ApiResource {
        self.resource
    }
}

/// Kinds without a corpus, and why.
const NOT_COMPARED: &[(&ApiResource, &str)] = &[
    (kinds::NAMESPACE, "a deleted one stays until its controller finalizes it, and the comparison runs no controller"),
    (kinds::NODE, "no objects are written yet; most of its fields are reports of a kubelet"),
    (kinds::POD_DISRUPTION_BUDGET, "no objects are written yet"),
];

/// Every kind with a corpus, in each version that has the stored form, in the order of the registry. They are sent and
/// reported in this order. A kind without a corpus must be in [`NOT_COMPARED`].
pub fn read(root: &Path) -> anyhow::Result<Vec<ComparedKind>> {
    let mut compared = Vec::new();
    for resource in kinds::ALL {
        let is_excluded = NOT_COMPARED.iter().any(|(excluded, _)| excluded == resource);
        let Some(file) = corpus::open(root, resource)? else {
            ensure!(is_excluded, "{}: no file in {}, and no reason in NOT_COMPARED", resource.kind, corpus::FOLDER);
            continue;
        };
        ensure!(!is_excluded, "{}: has a file in {}, and a reason in NOT_COMPARED", resource.kind, corpus::FOLDER);
        let versions = if resource.is_stored_elsewhere() { resource.converted_versions } else { resource.versions };
        compared.extend(versions.iter().map(|version| ComparedKind {
            resource,
            version,
            weight: file.weight,
            min_same_verdict_percent: file.min_same_verdict_percent,
            sequential: file.sequential,
        }));
    }
    check_files(root)?;
    Ok(compared)
}

/// Every file of the corpus belongs to a kind, except the rows of tables.
fn check_files(root: &Path) -> anyhow::Result<()> {
    for file in std::fs::read_dir(root.join(corpus::FOLDER))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        let is_of_kind = |resource: &&ApiResource| name == format!("{}.yaml", resource.unique_name());
        let is_known = name == "rows.yaml" || kinds::ALL.iter().any(is_of_kind);
        ensure!(is_known, "{}/{name}: no kind of the registry has this name", corpus::FOLDER);
    }
    Ok(())
}

/// The namespace of all objects.
pub const NAMESPACE: &str = "conformance";

impl ComparedKind {
    /// The value of `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// As in reports: `PodGroup v1beta1`; with the group if the core group has the same kind.
    pub fn title(&self) -> String {
        let is_core_kind = kinds::by_kind(self.kind).is_some_and(|resource| resource.group.is_empty());
        let version = if is_core_kind { self.api_version() } else { self.version.to_owned() };
        format!("{} {version}", self.kind)
    }

    /// The path of the API version; the response lists its resources.
    pub fn root(&self) -> String {
        if self.group.is_empty() { format!("/api/{}", self.version) } else { format!("/apis/{}", self.api_version()) }
    }

    /// The path of the collection.
    pub fn path(&self) -> String {
        let scope = if self.namespaced { format!("/namespaces/{NAMESPACE}") } else { String::new() };
        format!("{}{scope}/{}", self.root(), self.plural)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_compared_in_each_stored_version_or_has_a_reason() {
        let root = supervisor::repository_root().expect("the tests run in the repository");
        let compared = read(&root).expect("every file of the corpus can be read");
        let titles: Vec<String> = compared.iter().map(ComparedKind::title).collect();
        for title in ["Pod v1", "Event v1", "Event events.k8s.io/v1", "Workload v1beta1", "Workload v1alpha3"] {
            assert_eq!(titles.iter().filter(|known| *known == title).count(), 1, "{title}: {titles:?}");
        }
        assert!(!titles.iter().any(|title| title.contains("v1alpha2")), "converted versions are left out: {titles:?}");
        for resource in kinds::ALL {
            let is_compared = compared.iter().any(|kind| kind.resource == *resource);
            let is_excluded = NOT_COMPARED.iter().any(|(excluded, _)| excluded == resource);
            assert!(is_compared != is_excluded, "{}", resource.kind);
        }
        for kind in &compared {
            let objects = corpus::read(&root, kind).expect("the objects have the fields of their kind");
            assert!(kind.weight > 0 && !objects.is_empty(), "{}", kind.title());
        }
    }
}
