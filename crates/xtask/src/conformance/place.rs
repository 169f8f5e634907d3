//! Where something stands in a document, and how it is changed there.

use serde_json::Value;

/// A way from the root of a document to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// Stands behind a member's name when it is written a second time; [`render`] takes it off.
const AGAIN: &str = "~again";

impl Place {
    /// The document itself.
    pub fn root() -> Place {
        Place::default()
    }

    /// A member of the object that stands here.
    pub fn key(&self, name: &str) -> Place {
        self.and(Step::Key(name.to_owned()))
    }

    /// The same member once more, as no parsed document can have it.
    pub fn key_again(&self, name: &str) -> Place {
        self.and(Step::Key(format!("{name}{AGAIN}")))
    }

    /// An item of the list that stands here.
    pub fn index(&self, index: usize) -> Place {
        self.and(Step::Index(index))
    }

    fn and(&self, step: Step) -> Place {
        let mut steps = self.0.clone();
        steps.push(step);
        Place(steps)
    }

    /// The field, whichever item it is in: `spec.podGroupTemplates[].name`.
    pub fn field(&self) -> String {
        let mut text = String::new();
        for step in &self.0 {
            match step {
                Step::Key(name) if text.is_empty() => text.push_str(name),
                Step::Key(name) => {
                    text.push('.');
                    text.push_str(name);
                }
                Step::Index(_) => text.push_str("[]"),
            }
        }
        text
    }

    /// Puts `value` here; `None` takes away what is there. What the way leads through is made where it is missing.
    pub fn put(&self, document: &mut Value, value: Option<Value>) {
        let Some((last, way)) = self.0.split_last() else {
            *document = value.unwrap_or(Value::Null);
            return;
        };
        let mut at = document;
        for step in way {
            at = match step {
                Step::Key(name) => {
                    if !at.is_object() {
                        *at = Value::Object(Default::default());
                    }
                    &mut at[name.as_str()]
                }
                Step::Index(index) => match at.get_mut(*index) {
                    Some(item) => item,
                    None => return,
                },
            };
        }
        match (last, value) {
            (Step::Key(name), Some(value)) => {
                if !at.is_object() {
                    *at = Value::Object(Default::default());
                }
                at[name.as_str()] = value;
            }
            (Step::Key(name), None) => {
                at.as_object_mut().map(|members| members.remove(name));
            }
            (Step::Index(index), Some(value)) => {
                if let Some(item) = at.get_mut(*index) {
                    *item = value;
                }
            }
            (Step::Index(index), None) => {
                if let Some(items) = at.as_array_mut().filter(|items| *index < items.len()) {
                    items.remove(*index);
                }
            }
        }
    }
}

/// The document as bytes, with the members that stand there twice.
pub fn render(document: &Value) -> Vec<u8> {
    let text = document.to_string();
    if text.contains(AGAIN) { text.replace(AGAIN, "").into_bytes() } else { text.into_bytes() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::{Place, render};

    #[test]
    fn a_value_is_put_where_the_place_says() {
        let mut document = json!({"spec": {"items": [{"name": "a"}, {"name": "b"}]}});
        let second = Place::root().key("spec").key("items").index(1).key("name");
        assert_eq!(second.field(), "spec.items[].name");
        second.put(&mut document, Some(json!("c")));
        Place::root().key("spec").key("items").index(0).put(&mut document, None);
        Place::root().key("metadata").key("uid").put(&mut document, Some(json!("u")));
        assert_eq!(document, json!({"metadata": {"uid": "u"}, "spec": {"items": [{"name": "c"}]}}));
    }

    #[test]
    fn a_member_can_stand_there_twice() {
        let mut document = json!({"a": 1});
        Place::root().key_again("a").put(&mut document, Some(json!(2)));
        assert_eq!(String::from_utf8(render(&document)).unwrap(), r#"{"a":1,"a":2}"#);
    }
}
