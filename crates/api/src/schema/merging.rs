//! How strategic merge patches merge into a document: the marks of its lists, found by walking along with the patch.

use super::table::{Marks, Shape, table};

/// One place in the structure of a document.
#[derive(Clone, Copy, Debug)]
pub struct Merging(Shape);

/// What a patch does to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMerge {
    /// The patch's list takes its place.
    Replace,
    /// The values of both, each once.
    Unite,
    /// Items with the same value of this field are merged, others are added.
    ByKey(&'static str),
}

impl ListMerge {
    fn of(marks: Option<&'static Marks>) -> ListMerge {
        // A strategy may say more than one thing: `merge,retainKeys`.
        let merges = |marks: &&Marks| marks.strategy.iter().any(|text| text.split(',').any(|word| word == "merge"));
        match marks.filter(merges) {
            None => ListMerge::Replace,
            Some(Marks { merge_key: None, .. }) => ListMerge::Unite,
            Some(Marks { merge_key: Some(key), .. }) => ListMerge::ByKey(key),
        }
    }
}

impl Merging {
    pub(super) fn of(shape: Option<Shape>) -> Merging {
        Merging(shape.unwrap_or(Shape::Any))
    }

    /// The place of a field or of a map's value, and what becomes of the list there, if it is one.
    pub fn field(self, name: &str) -> (Merging, ListMerge) {
        let table = table();
        match self.0 {
            Shape::Object(of) => match table.object(of).field(name) {
                Some(field) => (Merging(field.shape), ListMerge::of(field.marks.as_deref())),
                None => (Merging(Shape::Any), ListMerge::Replace),
            },
            Shape::Map(of) => (Merging(table.inner(of)), ListMerge::Replace),
            _ => (Merging(Shape::Any), ListMerge::Replace),
        }
    }

    /// The place of a list's item.
    pub fn item(self) -> Merging {
        match self.0 {
            Shape::List(of) => Merging(table().inner(of)),
            _ => Merging(Shape::Any),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ListMerge;
    use crate::schema::merging;

    #[test]
    fn lists_merge_as_they_are_marked() {
        for (group, kind, path, want) in [
            ("", "Pod", "metadata.finalizers", ListMerge::Unite),
            ("", "Pod", "metadata.ownerReferences", ListMerge::ByKey("uid")),
            ("", "Pod", "spec.containers", ListMerge::ByKey("name")),
            ("", "Pod", "spec.volumes", ListMerge::ByKey("name")),
            ("", "Pod", "spec.tolerations", ListMerge::Replace),
            ("", "Pod", "spec.nodeSelector.disk", ListMerge::Replace),
            ("", "Pod", "spec.nonsense.deeper", ListMerge::Replace),
            ("batch", "Job", "spec.template.spec.containers", ListMerge::ByKey("name")),
            ("batch", "Job", "status.conditions", ListMerge::ByKey("type")),
            ("example.com", "Gadget", "spec.containers", ListMerge::Replace),
        ] {
            let mut place = merging(group, "v1", kind);
            let mut lists = ListMerge::Replace;
            for name in path.split('.') {
                (place, lists) = place.field(name);
            }
            assert_eq!(lists, want, "{kind} {path}");
        }
        let (containers, _) = merging("", "v1", "Pod").field("spec").0.field("containers");
        assert_eq!(containers.item().field("env").1, ListMerge::ByKey("name"));
    }
}
