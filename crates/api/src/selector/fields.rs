//! Field selectors: `metadata.name=x,status.phase!=Running`.

use super::ParseSelectorError;

/// A parsed field selector. The resource, not this type, knows which fields exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field's path: `metadata.name`.
    pub field: String,
    /// How the field's value is compared.
    pub operator: FieldOperator,
    /// The value it is compared with.
    pub value: String,
}

/// How a field compares with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOperator {
    /// `=` and `==`.
    Equals,
    /// `!=`.
    NotEquals,
}

impl FieldRequirement {
    /// Whether a field with this value matches.
    pub fn matches(&self, value: &str) -> bool {
        (self.value == value) == (self.operator == FieldOperator::Equals)
    }
}

impl FieldSelector {
    /// Parses the text format. In values `\\`, `\,` and `\=` are escapes for the second character.
    pub fn parse(text: &str) -> Result<FieldSelector, ParseSelectorError> {
        let mut requirements = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let bad = || ParseSelectorError::new(format!("invalid selector: '{text}'; can't understand '{term}'"));
            let (field, operator, value) = split_operator(term).ok_or_else(bad)?;
            let value = unescape(value).ok_or_else(bad)?;
            requirements.push(FieldRequirement { field: field.to_owned(), operator, value });
        }
        Ok(FieldSelector { requirements })
    }

    /// The same requirements with renamed fields. `Err` has the first field without a new name.
    pub fn with_renamed_fields(
        mut self,
        name_of: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<FieldSelector, String> {
        for FieldRequirement { field, .. } in &mut self.requirements {
            match name_of(field) {
                Some(name) => name.clone_into(field),
                None => return Err(std::mem::take(field)),
            }
        }
        Ok(self)
    }

    /// The requirements. An object must match all of them.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object matches. `value_of` returns the value of a field, empty if the object does not have it.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> &'a str) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(value_of(&requirement.field)))
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_operator(term: &str) -> Option<(&str, FieldOperator, &str)> {
    let at = term.find(['=', '!'])?;
    let (field, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, FieldOperator::NotEquals, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field, FieldOperator::Equals, value))
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                _ => return None,
            },
            ',' | '=' => return None,
            other => plain.push(other),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::{FieldOperator::*, FieldSelector};

    #[test]
    fn terms_are_parsed_with_escapes() {
        for (text, want) in [
            ("", vec![]),
            ("metadata.name=x", vec![("metadata.name", Equals, "x")]),
            ("a==x,b!=y", vec![("a", Equals, "x"), ("b", NotEquals, "y")]),
            ("a=", vec![("a", Equals, "")]),
            (",a=1,", vec![("a", Equals, "1")]),
            (r"a=x\,y\=z\\", vec![("a", Equals, r"x,y=z\")]),
        ] {
            let fields = FieldSelector::parse(text).expect(text);
            let got: Vec<_> =
                fields.requirements().iter().map(|r| (r.field.as_str(), r.operator, r.value.as_str())).collect();
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn invalid_terms_are_refused() {
        for (text, want) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("a=1,b", "invalid selector: 'a=1,b'; can't understand 'b'"),
            ("a=b=c", "invalid selector: 'a=b=c'; can't understand 'a=b=c'"),
            (r"a=\n", r"invalid selector: 'a=\n'; can't understand 'a=\n'"),
            ("a!b", "invalid selector: 'a!b'; can't understand 'a!b'"),
        ] {
            assert_eq!(FieldSelector::parse(text).expect_err(text).to_string(), want, "{text}");
        }
    }

    #[test]
    fn all_terms_must_match() {
        let fields = FieldSelector::parse("a=1,b!=2").expect("a valid selector");
        assert!(fields.matches(|field| if field == "a" { "1" } else { "" }));
        assert!(!fields.matches(|field| if field == "a" { "1" } else { "2" }));
        assert!(!fields.matches(|_| "3"));
    }
}
