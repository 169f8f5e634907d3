//! Paths in a document, and changes at them.

use serde_json::Value;

/// A path from the root of a document to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentPath(Vec<DocumentPathSegment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum DocumentPathSegment {
    Key(String),
    Index(usize),
}

/// Appended to a member's name to write it a second time; [`render`] removes it.
const DUPLICATE_SUFFIX: &str = "~again";

impl DocumentPath {
    /// The document itself.
    pub fn root() -> DocumentPath {
        DocumentPath::default()
    }

    /// A member of the object at this path.
    pub fn key(&self, name: &str) -> DocumentPath {
        self.join(DocumentPathSegment::Key(name.to_owned()))
    }

    /// The same member again, which no parsed document can have.
    pub fn duplicate_key(&self, name: &str) -> DocumentPath {
        self.join(DocumentPathSegment::Key(format!("{name}{DUPLICATE_SUFFIX}")))
    }

    /// An item of the list at this path.
    pub fn index(&self, index: usize) -> DocumentPath {
        self.join(DocumentPathSegment::Index(index))
    }

    fn join(&self, step: DocumentPathSegment) -> DocumentPath {
        let mut steps = self.0.clone();
        steps.push(step);
        DocumentPath(steps)
    }

    /// The field, for any item: `spec.podGroupTemplates[].name`.
    pub fn field(&self) -> String {
        let mut text = String::new();
        for step in &self.0 {
            match step {
                DocumentPathSegment::Key(name) if text.is_empty() => text.push_str(name),
                DocumentPathSegment::Key(name) => {
                    text.push('.');
                    text.push_str(name);
                }
                DocumentPathSegment::Index(_) => text.push_str("[]"),
            }
        }
        text
    }

    /// Sets the value at this path; `None` removes it. Missing objects on the path are created.
    pub fn set(&self, document: &mut Value, value: Option<Value>) {
        let Some((last, parents)) = self.0.split_last() else {
            *document = value.unwrap_or(Value::Null);
            return;
        };
        let mut at = document;
        for step in parents {
            at = match step {
                DocumentPathSegment::Key(name) => {
                    if !at.is_object() {
                        *at = Value::Object(Default::default());
                    }
                    &mut at[name.as_str()]
                }
                DocumentPathSegment::Index(index) => match at.get_mut(*index) {
                    Some(item) => item,
                    None => return,
                },
            };
        }
        match (last, value) {
            (DocumentPathSegment::Key(name), Some(value)) => {
                if !at.is_object() {
                    *at = Value::Object(Default::default());
                }
                at[name.as_str()] = value;
            }
            (DocumentPathSegment::Key(name), None) => {
                at.as_object_mut().map(|members| members.remove(name));
            }
            (DocumentPathSegment::Index(index), Some(value)) => {
                if let Some(item) = at.get_mut(*index) {
                    *item = value;
                }
            }
            (DocumentPathSegment::Index(index), None) => {
                if let Some(items) = at.as_array_mut().filter(|items| *index < items.len()) {
                    items.remove(*index);
                }
            }
        }
    }
}

/// The document as bytes, with duplicate members.
pub fn render(document: &Value) -> Vec<u8> {
    let text = document.to_string();
    if text.contains(DUPLICATE_SUFFIX) { text.replace(DUPLICATE_SUFFIX, "").into_bytes() } else { text.into_bytes() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::{DocumentPath, render};

    #[test]
    fn a_value_is_set_at_its_path() {
        let mut document = json!({"spec": {"items": [{"name": "a"}, {"name": "b"}]}});
        let second = DocumentPath::root().key("spec").key("items").index(1).key("name");
        assert_eq!(second.field(), "spec.items[].name");
        second.set(&mut document, Some(json!("c")));
        DocumentPath::root().key("spec").key("items").index(0).set(&mut document, None);
        DocumentPath::root().key("metadata").key("uid").set(&mut document, Some(json!("u")));
        assert_eq!(document, json!({"metadata": {"uid": "u"}, "spec": {"items": [{"name": "c"}]}}));
    }

    #[test]
    fn a_member_can_be_duplicated() {
        let mut document = json!({"a": 1});
        DocumentPath::root().duplicate_key("a").set(&mut document, Some(json!(2)));
        assert_eq!(String::from_utf8(render(&document)).unwrap(), r#"{"a":1,"a":2}"#);
    }
}
