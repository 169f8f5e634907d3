//! Label selectors, as text and as the typed form of objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::ParseSelectorError;
use crate::SmallMap;
use crate::field::{Error, ErrorList, Path};
use crate::metadata::names;

/// A label selector. All requirements must match. Without requirements it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedLabelSelector {
    requirements: Vec<LabelRequirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelRequirement {
    /// The label exists with one of these values: `key=a`, `key in (a,b)`.
    In(String, Vec<String>),
    /// The label is absent or has a different value: `key!=a`, `key notin (a,b)`.
    NotIn(String, Vec<String>),
    /// The label exists: `key`.
    Exists(String),
    /// The label is absent: `!key`.
    DoesNotExist(String),
    /// The label exists and is a greater integer: `key>5`.
    GreaterThan(String, i64),
    /// The label exists and is a smaller integer: `key<5`.
    LessThan(String, i64),
}

impl ParsedLabelSelector {
    /// Parses the text format: `a=b,c in (d,e),!f`.
    pub fn parse(text: &str) -> Result<ParsedLabelSelector, ParseSelectorError> {
        let mut parser = LabelSelectorParser { tokens: lex(text), at: 0 };
        let mut requirements = Vec::new();
        while parser.peek() != "" {
            requirements.push(parser.requirement()?);
            match parser.next() {
                "," if parser.peek() == "" || matches!(parser.peek(), "," | "(" | ")") => {
                    let found = parser.peek();
                    return Err(ParseSelectorError::new(format!("found '{found}', expected: identifier after ','")));
                }
                "," | "" => {}
                found => {
                    return Err(ParseSelectorError::new(format!("found '{found}', expected: ',' or 'end of string'")));
                }
            }
        }
        Ok(ParsedLabelSelector { requirements })
    }

    /// Converts the typed form. `Err` has the message of validation.
    pub fn from_label_selector(selector: &LabelSelector) -> Result<ParsedLabelSelector, ParseSelectorError> {
        if let Some(error) = validate_label_selector(selector, &Path::default()).first() {
            return Err(ParseSelectorError::new(error.to_string()));
        }
        let exact = selector.match_labels.iter().flatten();
        let exact = exact.map(|(key, value)| LabelRequirement::In(key.clone(), vec![value.clone()]));
        let expressions = selector.match_expressions.iter().flatten().map(|requirement| {
            let (key, values) = (requirement.key.clone(), requirement.values.clone().unwrap_or_default());
            match requirement.operator.as_str() {
                "In" => LabelRequirement::In(key, values),
                "NotIn" => LabelRequirement::NotIn(key, values),
                "Exists" => LabelRequirement::Exists(key),
                _ => LabelRequirement::DoesNotExist(key),
            }
        });
        Ok(ParsedLabelSelector { requirements: exact.chain(expressions).collect() })
    }

    /// Selects objects that have all of these labels.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> ParsedLabelSelector {
        let requirements = labels.iter().map(|(key, value)| LabelRequirement::In(key.clone(), vec![value.clone()]));
        ParsedLabelSelector { requirements: requirements.collect() }
    }

    /// Whether an object with these labels matches.
    pub fn matches(&self, labels: &SmallMap<String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements. All must match.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }
}

impl LabelRequirement {
    /// Whether these labels match.
    pub fn matches(&self, labels: &SmallMap<String>) -> bool {
        let integer = |key: &String| labels.get(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            LabelRequirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            LabelRequirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            LabelRequirement::Exists(key) => labels.contains_key(key),
            LabelRequirement::DoesNotExist(key) => !labels.contains_key(key),
            LabelRequirement::GreaterThan(key, bound) => integer(key).is_some_and(|value| value > *bound),
            LabelRequirement::LessThan(key, bound) => integer(key).is_some_and(|value| value < *bound),
        }
    }
}

/// Validates a typed selector.
pub fn validate_label_selector(selector: &LabelSelector, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(labels) = &selector.match_labels {
        errors.extend(crate::metadata::validate_labels(labels, &path.child("matchLabels")));
    }
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        validate_requirement(requirement, &path.child("matchExpressions").index(index), &mut errors);
    }
    errors
}

fn validate_requirement(requirement: &LabelSelectorRequirement, path: &Path, errors: &mut ErrorList) {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(Error::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&path.child("values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        operator => errors.push(Error::invalid(&path.child("operator"), operator, "not a valid selector operator")),
    }
    let key = requirement.key.as_str();
    crate::metadata::push_violations(names::qualified_name(key), key, &path.child("key"), errors);
    for (index, value) in values.iter().enumerate() {
        crate::metadata::push_violations(names::label_value(value), value, &path.child("values").index(index), errors);
    }
}

/// Splits the text into operators and words. Blanks only separate.
fn lex(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '(' | ')' | ',' | '>' | '<' => 1,
            '!' | '=' if rest[1..].starts_with('=') => 2,
            '!' | '=' => 1,
            _ => rest.find(|c: char| c.is_whitespace() || "()!,=<>".contains(c)).unwrap_or(rest.len()),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

fn is_value_token(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(['(', ')', ',', '!', '=', '<', '>'])
}

/// Reads tokens in order. The end is the empty token.
struct LabelSelectorParser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> LabelSelectorParser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or("")
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<LabelRequirement, ParseSelectorError> {
        let absent = self.peek() == "!";
        if absent {
            self.next();
        }
        let key = self.next();
        if !is_value_token(key) {
            return Err(parse_error(format!("found '{key}', expected: identifier")));
        }
        validate_token("key", key, names::qualified_name)?;
        if absent {
            return Ok(LabelRequirement::DoesNotExist(key.to_owned()));
        }
        if matches!(self.peek(), "" | ",") {
            return Ok(LabelRequirement::Exists(key.to_owned()));
        }
        let key = key.to_owned();
        Ok(match self.next() {
            "=" | "==" => LabelRequirement::In(key, vec![self.value()?]),
            "!=" => LabelRequirement::NotIn(key, vec![self.value()?]),
            "in" => LabelRequirement::In(key, self.values()?),
            "notin" => LabelRequirement::NotIn(key, self.values()?),
            ">" => LabelRequirement::GreaterThan(key, self.integer()?),
            "<" => LabelRequirement::LessThan(key, self.integer()?),
            found => {
                return Err(parse_error(format!("found '{found}', expected: in, notin, =, ==, !=, >, <")));
            }
        })
    }

    /// One value. Nothing before a comma or the end is the empty value.
    fn value(&mut self) -> Result<String, ParseSelectorError> {
        match self.peek() {
            "" | "," => Ok(String::new()),
            word if is_value_token(word) => {
                self.next();
                validate_token("values", word, names::label_value)?;
                Ok(word.to_owned())
            }
            found => Err(parse_error(format!("found '{found}', expected: identifier"))),
        }
    }

    /// `(a,b)`. Nothing between two commas is the empty value.
    fn values(&mut self) -> Result<Vec<String>, ParseSelectorError> {
        match self.next() {
            "(" => {}
            found => return Err(parse_error(format!("found '{found}', expected: '('"))),
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                ")" => String::new(),
                _ => self.value()?,
            };
            values.push(value);
            match self.next() {
                "," => {}
                ")" => break,
                found => return Err(parse_error(format!("found '{found}', expected: ',' or ')'"))),
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }

    fn integer(&mut self) -> Result<i64, ParseSelectorError> {
        let word = self.next();
        word.parse().map_err(|_| parse_error("for 'Gt', 'Lt' operators, the value must be an integer"))
    }
}

fn parse_error(detail: impl std::fmt::Display) -> ParseSelectorError {
    ParseSelectorError::new(format!("unable to parse requirement: {detail}"))
}

fn validate_token(field: &str, text: &str, rule: names::NameRule) -> Result<(), ParseSelectorError> {
    match rule(text).into_iter().next() {
        None => Ok(()),
        Some(problem) => Err(parse_error(Error::invalid(&Path::new(field), text, problem))),
    }
}

#[cfg(test)]
mod tests {

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use serde_json::json;

    use super::{ParsedLabelSelector, validate_label_selector};
    use crate::SmallMap;
    use crate::field::Path;

    fn labels(pairs: &[(&str, &str)]) -> SmallMap<String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn selectors_match_as_in_kubernetes() {
        let object = labels(&[("app", "web"), ("tier", ""), ("size", "5"), ("example.com/x", "y")]);
        for (text, want) in [
            ("", true),
            ("  ", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web", true),
            ("app=db", false),
            ("app!=db", true),
            ("app!=web", false),
            ("none!=x", true),
            ("app in (web, db)", true),
            ("app in (db)", false),
            ("none in (db)", false),
            ("app notin (db)", true),
            ("none notin (db)", true),
            ("app notin (web,db)", false),
            ("app", true),
            ("none", false),
            ("!app", false),
            ("! none", true),
            ("tier=", true),
            ("tier=,app=web", true),
            ("app=", false),
            ("tier in (,a)", true),
            ("tier in ()", true),
            ("size>4", true),
            ("size > 5", false),
            ("size<6", true),
            ("app>4", false),
            ("example.com/x=y", true),
            ("app=web,!none,size in (4,5)", true),
            ("app=web,none", false),
            ("in in (in)", false),
        ] {
            assert_eq!(ParsedLabelSelector::parse(text).expect(text).matches(&object), want, "{text}");
        }
    }

    #[test]
    fn invalid_selectors_are_refused() {
        for (text, want) in [
            ("app=web,", "found '', expected: identifier after ','"),
            (",app", "unable to parse requirement: found ',', expected: identifier"),
            ("app web", "unable to parse requirement: found 'web', expected: in, notin, =, ==, !=, >, <"),
            ("app in web", "unable to parse requirement: found 'web', expected: '('"),
            ("app in (web", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("app=web db", "found 'db', expected: ',' or 'end of string'"),
            ("size>x", "unable to parse requirement: for 'Gt', 'Lt' operators, the value must be an integer"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ] {
            assert_eq!(ParsedLabelSelector::parse(text).expect_err(text).to_string(), want, "{text}");
        }
        for text in ["a/b/c=d", "-a=b", "a=-b", "a in (-b)"] {
            assert!(ParsedLabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn typed_form_matches_the_same() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["a"]},
                {"key": "app", "operator": "Exists"},
                {"key": "x", "operator": "DoesNotExist"},
                {"key": "app", "operator": "In", "values": ["db", "web"]},
            ],
        }))
        .expect("a valid selector");
        let typed = ParsedLabelSelector::from_label_selector(&selector).expect("a valid selector");
        assert!(typed.matches(&labels(&[("app", "web")])));
        assert!(!typed.matches(&labels(&[("app", "web"), ("tier", "a")])));
        assert!(!typed.matches(&labels(&[("app", "web"), ("x", "")])));
        assert!(!typed.matches(&labels(&[])));
        assert!(ParsedLabelSelector::from_label_selector(&LabelSelector::default()).expect("empty").is_empty());
    }

    #[test]
    fn errors_in_a_typed_selector_name_its_fields() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "a", "operator": "Near"},
            ],
        }))
        .expect("a selector");
        let errors: Vec<String> =
            validate_label_selector(&selector, &Path::new("spec.selector")).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "spec.selector.matchExpressions[2].operator: Invalid value: \"Near\": not a valid selector operator",
            ]
        );
        assert!(ParsedLabelSelector::from_label_selector(&selector).is_err());
    }
}
