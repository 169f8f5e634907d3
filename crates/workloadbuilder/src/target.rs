//! What the server supports: the API version, and whether groups can have groups.
//!
//! A controller chooses a target by discovery and builds the same tree for every target.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// API version and layout of the built objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildTarget {
    /// The version of Workloads and PodGroups.
    pub version: SchedulingVersion,
    /// Whether groups can have groups.
    pub layout: GroupLayout,
}

impl BuildTarget {
    /// The layout, or [`GroupLayout::Flat`] if the version has no composites.
    pub fn supported_layout(self) -> GroupLayout {
        if self.version.has_composites() { self.layout } else { GroupLayout::Flat }
    }
}

/// A version of `scheduling.k8s.io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulingVersion {
    /// Kubernetes 1.37.
    #[default]
    V1beta1,
    /// Kubernetes 1.37. The only version with CompositePodGroup objects, which are always written in it.
    V1alpha3,
    /// Kubernetes 1.36. It has no composites, and the `minCount` of a gang is immutable.
    V1alpha2,
}

/// Whether groups can have groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupLayout {
    /// A tree becomes a tree of templates.
    #[default]
    Nested,
    /// Only the leaves of the tree, in one list, for servers without CompositePodGroup. A composite that sets a field
    /// of its own is refused, because the server would not apply it.
    Flat,
}

impl SchedulingVersion {
    /// Group and version, as in `apiVersion` of an object.
    pub fn api_version(self) -> &'static str {
        match self {
            SchedulingVersion::V1beta1 => "scheduling.k8s.io/v1beta1",
            SchedulingVersion::V1alpha3 => "scheduling.k8s.io/v1alpha3",
            SchedulingVersion::V1alpha2 => "scheduling.k8s.io/v1alpha2",
        }
    }

    /// Whether a Workload of this version can have composite templates.
    pub fn has_composites(self) -> bool {
        self != SchedulingVersion::V1alpha2
    }

    /// A built Workload, PodGroup or CompositePodGroup as a document of this version; `None` if the version does not
    /// have the kind.
    ///
    /// The document can be decoded to the type of its version:
    ///
    /// ```
    /// use k8s_openapi::api::scheduling::{v1alpha3, v1beta1};
    /// use workloadbuilder::target::SchedulingVersion;
    ///
    /// let built = v1beta1::Workload::default();
    /// let document = SchedulingVersion::V1alpha3.to_document(&built).expect("v1alpha3 has Workloads");
    /// let typed: v1alpha3::Workload = serde_json::from_value(document)?;
    /// # assert_eq!(typed, v1alpha3::Workload::default());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn to_document(self, object: &impl Serialize) -> Option<Value> {
        let mut document = serde_json::to_value(object).expect("an API type serializes to JSON");
        if document["kind"] == "CompositePodGroup" {
            return self.has_composites().then_some(document);
        }
        document["apiVersion"] = self.api_version().into();
        if self == SchedulingVersion::V1alpha2 {
            to_v1alpha2(document.get_mut("spec").and_then(Value::as_object_mut)?);
        }
        Some(document)
    }
}

/// Converts a spec to the fields of 1.36.
fn to_v1alpha2(spec: &mut Map<String, Value>) {
    for template in spec.get_mut("podGroupTemplates").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(template) = template.as_object_mut() {
            group_to_v1alpha2(template);
        }
    }
    if let Some(reference) = spec.remove("workloadRef") {
        let (workload, template) = (&reference["workloadName"], &reference["templateName"]);
        let workload = json!({"workloadName": workload, "podGroupTemplateName": template});
        spec.insert("podGroupTemplateRef".to_owned(), json!({ "workload": workload }));
    }
    spec.remove("parentCompositePodGroupName");
    group_to_v1alpha2(spec);
}

fn group_to_v1alpha2(group: &mut Map<String, Value>) {
    group.remove("preemptionPolicy");
    if let Some(mode) = group.get_mut("disruptionMode") {
        *mode = if mode.get("all").is_some() { "PodGroup".into() } else { "Pod".into() };
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::scheduling::v1alpha3::CompositePodGroup;
    use k8s_openapi::api::scheduling::v1beta1::{PodGroup, Workload};
    use serde_json::{Value, json};

    use super::SchedulingVersion;

    fn workload(template: Value) -> Workload {
        let spec = json!({"controllerRef": {"kind": "Job", "name": "a"}, "podGroupTemplates": [template]});
        let document =
            json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {}, "spec": spec});
        serde_json::from_value(document).expect("a Workload")
    }

    // Shows: S004-39
    #[test]
    fn objects_have_the_fields_of_each_version() {
        let template = json!({"name": "t", "schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}});
        let built = workload(template.clone());
        for version in [SchedulingVersion::V1beta1, SchedulingVersion::V1alpha3] {
            let written = version.to_document(&built).expect("a Workload");
            assert_eq!(written["apiVersion"], version.api_version());
            assert_eq!(written["spec"]["podGroupTemplates"][0], template);
        }
        let written = SchedulingVersion::V1alpha2.to_document(&built).expect("a Workload");
        assert_eq!(written["apiVersion"], "scheduling.k8s.io/v1alpha2");
        assert_eq!(written["spec"]["podGroupTemplates"][0]["disruptionMode"], "PodGroup");

        let mut group = PodGroup::default();
        group.spec.workload_ref = serde_json::from_value(json!({"workloadName": "w", "templateName": "t"})).ok();
        let written = SchedulingVersion::V1alpha2.to_document(&group).expect("a PodGroup");
        let reference = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
        assert_eq!(written["spec"]["podGroupTemplateRef"], reference);
        assert_eq!(written["spec"].get("workloadRef"), None);
    }

    #[test]
    fn composites_are_written_in_the_only_version_that_has_them() {
        let composite = CompositePodGroup::default();
        for version in [SchedulingVersion::V1beta1, SchedulingVersion::V1alpha3] {
            let written = version.to_document(&composite).expect("a composite");
            assert_eq!(written["apiVersion"], "scheduling.k8s.io/v1alpha3");
        }
        assert_eq!(SchedulingVersion::V1alpha2.to_document(&composite), None);
    }
}
