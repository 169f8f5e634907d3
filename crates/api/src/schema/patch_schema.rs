//! How strategic merge patches merge into a document: the markers of its lists, found on a walk with the patch.

use super::table::{FieldMarkers, ValueType, table};

/// A position in the schema of a document.
#[derive(Clone, Copy, Debug)]
pub struct PatchSchema(ValueType);

/// How a patch merges into a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMerge {
    /// The patch's list replaces it.
    Replace,
    /// The union of both, without duplicates.
    Union,
    /// Items with the same value of this field are merged, others are added.
    ByKey(&'static str),
}

impl ListMerge {
    fn of(marks: Option<&'static FieldMarkers>) -> ListMerge {
        // A strategy can have several values: `merge,retainKeys`.
        let merges =
            |marks: &&FieldMarkers| marks.strategy.iter().any(|text| text.split(',').any(|word| word == "merge"));
        match marks.filter(merges) {
            None => ListMerge::Replace,
            Some(FieldMarkers { merge_key: None, .. }) => ListMerge::Union,
            Some(FieldMarkers { merge_key: Some(key), .. }) => ListMerge::ByKey(key),
        }
    }
}

impl PatchSchema {
    pub(super) fn of(shape: Option<ValueType>) -> PatchSchema {
        PatchSchema(shape.unwrap_or(ValueType::Any))
    }

    /// The position of a field or of a map's value, and how a list there is merged.
    pub fn field(self, name: &str) -> (PatchSchema, ListMerge) {
        let table = table();
        match self.0 {
            ValueType::Object(of) => match table.object(of).field(name) {
                Some(field) => (PatchSchema(field.value_type), ListMerge::of(field.markers.as_deref())),
                None => (PatchSchema(ValueType::Any), ListMerge::Replace),
            },
            ValueType::Map(of) => (PatchSchema(table.element_type(of)), ListMerge::Replace),
            _ => (PatchSchema(ValueType::Any), ListMerge::Replace),
        }
    }

    /// The position of a list's item.
    pub fn item(self) -> PatchSchema {
        match self.0 {
            ValueType::List(of) => PatchSchema(table().element_type(of)),
            _ => PatchSchema(ValueType::Any),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ListMerge;
    use crate::schema::patch_schema;

    #[test]
    fn lists_merge_according_to_their_markers() {
        for (group, kind, path, want) in [
            ("", "Pod", "metadata.finalizers", ListMerge::Union),
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
            let mut place = patch_schema(group, "v1", kind);
            let mut lists = ListMerge::Replace;
            for name in path.split('.') {
                (place, lists) = place.field(name);
            }
            assert_eq!(lists, want, "{kind} {path}");
        }
        let (containers, _) = patch_schema("", "v1", "Pod").field("spec").0.field("containers");
        assert_eq!(containers.item().field("env").1, ListMerge::ByKey("name"));
    }
}
