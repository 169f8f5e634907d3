//! The annotations by which a parent tells a child that makes its own groups where they belong.
//!
//! They are the controllers' business, not the user's: the root writes them on what it creates, and a controller in
//! between hands them down unchanged.

use std::collections::BTreeMap;

use crate::groups::BuiltGroup;

/// Names the template of the parent's Workload, leaf or composite, that the child's groups are made from.
pub const GROUP_TEMPLATE_ANNOTATION: &str = "scheduling.k8s.io/group-template-name";
/// Names the CompositePodGroup under which the child's groups hang.
pub const PARENT_COMPOSITE_POD_GROUP_ANNOTATION: &str = "scheduling.k8s.io/parent-compositepodgroup";
/// The same as KEP-6089 spells it. Kubernetes ships the other; both are read, one is written.
pub const DRAFT_PARENT_COMPOSITE_POD_GROUP_ANNOTATION: &str = "scheduling.k8s.io/parent-composite-podgroup";

/// Where the groups of a child belong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupAnnotations {
    /// The template; empty means the only one there is.
    pub template: String,
    /// The CompositePodGroup above.
    pub parent: Option<String>,
}

impl GroupAnnotations {
    /// What an object's annotations say; `None` where its parent asks it for no groups.
    pub fn read<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Option<GroupAnnotations> {
        let template = annotation(GROUP_TEMPLATE_ANNOTATION)?.to_owned();
        let parent = [PARENT_COMPOSITE_POD_GROUP_ANNOTATION, DRAFT_PARENT_COMPOSITE_POD_GROUP_ANNOTATION]
            .into_iter()
            .find_map(annotation);
        Some(GroupAnnotations { template, parent: parent.filter(|name| !name.is_empty()).map(str::to_owned) })
    }

    /// For a child that makes `group` itself, in the place where a parent would have made it.
    pub fn for_group(group: &BuiltGroup) -> GroupAnnotations {
        GroupAnnotations { template: group.template().to_owned(), parent: group.parent().map(str::to_owned) }
    }

    /// Writes the links on an object that is about to be created, or on the template it is created from.
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
    fn links_are_read_in_both_spellings() {
        let links = |parent: Option<&str>| {
            Some(GroupAnnotations { template: "workers".to_owned(), parent: parent.map(str::to_owned) })
        };
        let template = (GROUP_TEMPLATE_ANNOTATION, "workers");
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[(PARENT_COMPOSITE_POD_GROUP_ANNOTATION, "p")]), None, "a parent alone asks for nothing");
        assert_eq!(read(&[template]), links(None));
        assert_eq!(read(&[template, ("scheduling.k8s.io/parent-compositepodgroup", "p")]), links(Some("p")));
        assert_eq!(read(&[template, ("scheduling.k8s.io/parent-composite-podgroup", "p")]), links(Some("p")));
        let shipped = (PARENT_COMPOSITE_POD_GROUP_ANNOTATION, "shipped");
        assert_eq!(
            read(&[template, (DRAFT_PARENT_COMPOSITE_POD_GROUP_ANNOTATION, "draft"), shipped]),
            links(Some("shipped"))
        );
    }

    #[test]
    fn what_a_controller_in_between_hands_down_is_what_it_was_given() {
        for parent in [None, Some("outer".to_owned())] {
            let given = GroupAnnotations { template: "workers".to_owned(), parent };
            let mut annotations =
                BTreeMap::from([(DRAFT_PARENT_COMPOSITE_POD_GROUP_ANNOTATION.to_owned(), "old".to_owned())]);
            given.write(&mut annotations);
            assert_eq!(GroupAnnotations::read(|key| annotations.get(key).map(String::as_str)), Some(given));
        }
    }
}
