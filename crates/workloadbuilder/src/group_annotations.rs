//! Annotations for children that create their own groups. They name the template and the parent group.
//!
//! Only controllers use them. The root controller sets them on the objects that it creates, and a controller in between
//! copies them to its children.

use std::collections::BTreeMap;

use crate::groups::BuiltGroup;

/// Names the template for the child's groups in the parent's Workload, a leaf or a composite.
pub const GROUP_TEMPLATE_ANNOTATION: &str = "scheduling.k8s.io/group-template-name";
/// Names the parent CompositePodGroup of the child's groups.
pub const PARENT_COMPOSITE_POD_GROUP_ANNOTATION: &str = "scheduling.k8s.io/parent-compositepodgroup";
/// The same key as KEP-6089 spells it. It is read too. The spelling of Kubernetes is written.
pub const DRAFT_PARENT_COMPOSITE_POD_GROUP_ANNOTATION: &str = "scheduling.k8s.io/parent-composite-podgroup";

/// Template and parent of a child's groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupAnnotations {
    /// The template. Empty means the only one of the Workload.
    pub template: String,
    /// The parent CompositePodGroup.
    pub parent: Option<String>,
}

impl GroupAnnotations {
    /// Reads the annotations of an object; `None` if its parent does not delegate groups to it.
    pub fn read<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Option<GroupAnnotations> {
        let template = annotation(GROUP_TEMPLATE_ANNOTATION)?.to_owned();
        let parent = [PARENT_COMPOSITE_POD_GROUP_ANNOTATION, DRAFT_PARENT_COMPOSITE_POD_GROUP_ANNOTATION]
            .into_iter()
            .find_map(annotation);
        Some(GroupAnnotations { template, parent: parent.filter(|name| !name.is_empty()).map(str::to_owned) })
    }

    /// The annotations for a child that creates `group` instead of its parent.
    pub fn for_group(group: &BuiltGroup) -> GroupAnnotations {
        GroupAnnotations { template: group.template().to_owned(), parent: group.parent().map(str::to_owned) }
    }

    /// Sets the annotations of a new object, or of the template of one.
    pub fn write(&self, annotations: &mut BTreeMap<String, String>) {
        annotations.insert(GROUP_TEMPLATE_ANNOTATION.to_owned(), self.template.clone());
        annotations.remove(DRAFT_PARENT_COMPOSITE_POD_GROUP_ANNOTATION);
        match &self.parent {
            Some(parent) => annotations.insert(PARENT_COMPOSITE_POD_GROUP_ANNOTATION.to_owned(), parent.clone()),
            None => annotations.remove(PARENT_COMPOSITE_POD_GROUP_ANNOTATION),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Option<GroupAnnotations> {
        GroupAnnotations::read(|key| annotations.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    // Shows: S004-54
    // Shows: S004-55
    // Shows: S004-58
    #[test]
    fn annotations_are_read_in_both_spellings() {
        let expected = |parent: Option<&str>| {
            Some(GroupAnnotations { template: "workers".to_owned(), parent: parent.map(str::to_owned) })
        };
        let template = (GROUP_TEMPLATE_ANNOTATION, "workers");
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[(PARENT_COMPOSITE_POD_GROUP_ANNOTATION, "p")]), None, "a parent alone does not delegate");
        assert_eq!(read(&[template]), expected(None));
        assert_eq!(read(&[template, ("scheduling.k8s.io/parent-compositepodgroup", "p")]), expected(Some("p")));
        assert_eq!(read(&[template, ("scheduling.k8s.io/parent-composite-podgroup", "p")]), expected(Some("p")));
        let shipped = (PARENT_COMPOSITE_POD_GROUP_ANNOTATION, "shipped");
        assert_eq!(
            read(&[template, (DRAFT_PARENT_COMPOSITE_POD_GROUP_ANNOTATION, "draft"), shipped]),
            expected(Some("shipped"))
        );
    }

    #[test]
    fn controller_in_between_passes_the_annotations_on_unchanged() {
        for parent in [None, Some("outer".to_owned())] {
            let given = GroupAnnotations { template: "workers".to_owned(), parent };
            let mut annotations =
                BTreeMap::from([(DRAFT_PARENT_COMPOSITE_POD_GROUP_ANNOTATION.to_owned(), "old".to_owned())]);
            given.write(&mut annotations);
            assert_eq!(GroupAnnotations::read(|key| annotations.get(key).map(String::as_str)), Some(given));
        }
    }
}
