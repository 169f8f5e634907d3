//! The subset of kubectl's JSON paths for one object: fields, indexes, `[*]` and equality filters.

use serde_json::Value;

/// A path into a document, such as `{.status.conditions[?(@.type=="Complete")].status}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Vec<PathSegment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathSegment {
    Field(String),
    /// Negative indexes count from the end.
    Index(i64),
    Wildcard,
    /// Items in which the path has this value.
    Filter(JsonPath, String),
}

impl JsonPath {
    /// Parses a path, with or without braces.
    pub fn parse(text: &str) -> Result<JsonPath, String> {
        let inner = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'));
        let inner = inner.ok_or_else(|| format!("{text}: the brace is not closed"))?;
        let inner = inner.trim().trim_start_matches('$');
        let mut segments = Vec::new();
        let mut rest = inner;
        while !rest.is_empty() {
            let (segment, after) = parse_segment(rest).ok_or_else(|| {
                format!("{text}: cannot parse {rest:?}; supported are .field, [0], [*], ['a.b'] and [?(@.a==\"b\")]")
            })?;
            segments.push(segment);
            rest = after;
        }
        if segments.is_empty() { Err("the path is empty".to_owned()) } else { Ok(JsonPath(segments)) }
    }

    /// Every value at the path in `document`.
    pub fn find<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![document];
        for segment in &self.0 {
            found = found.into_iter().flat_map(|value| segment.select(value)).collect();
        }
        found
    }
}

impl PathSegment {
    fn select<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            PathSegment::Field(name) => value.get(name).into_iter().collect(),
            PathSegment::Index(index) => {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let at = if *index < 0 { *index + list.len() as i64 } else { *index };
                usize::try_from(at).ok().and_then(|at| list.get(at)).into_iter().collect()
            }
            PathSegment::Wildcard => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                _ => Vec::new(),
            },
            PathSegment::Filter(path, wanted) => {
                let items = value.as_array().into_iter().flatten();
                items.filter(|item| path.find(item).into_iter().any(|value| value_text(value) == *wanted)).collect()
            }
        }
    }
}

/// Strings without quotes, other values as JSON.
pub fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// One segment and the rest of the text.
fn parse_segment(text: &str) -> Option<(PathSegment, &str)> {
    if let Some(filter) = text.strip_prefix("[?(") {
        let end = filter.find(")]")?;
        return Some((condition(&filter[..end])?, &filter[end + 2..]));
    }
    if let Some(inside) = text.strip_prefix('[') {
        if let Some(quote) = inside.chars().next().filter(|first| matches!(first, '\'' | '"')) {
            let end = inside[1..].find(quote)? + 1;
            return Some((PathSegment::Field(inside[1..end].to_owned()), inside[end + 1..].strip_prefix(']')?));
        }
        let end = inside.find(']')?;
        let segment = if &inside[..end] == "*" {
            PathSegment::Wildcard
        } else {
            PathSegment::Index(inside[..end].trim().parse().ok()?)
        };
        return Some((segment, &inside[end + 1..]));
    }
    let name = text.strip_prefix('.')?;
    let mut field = String::new();
    let mut characters = name.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '.' | '[' => return (!field.is_empty()).then_some((named(field), &name[at..])),
            '\\' => field.push(characters.next()?.1),
            '{' | '}' | '(' | ')' | ' ' | '=' => return None,
            _ => field.push(character),
        }
    }
    (!field.is_empty()).then_some((named(field), ""))
}

fn named(field: String) -> PathSegment {
    if field == "*" { PathSegment::Wildcard } else { PathSegment::Field(field) }
}

/// `@.type=="Complete"`.
fn condition(text: &str) -> Option<PathSegment> {
    let (path, wanted) = text.split_once("==")?;
    let path = JsonPath::parse(path.trim().strip_prefix('@')?).ok()?;
    let wanted = wanted.trim();
    let quoted = |quote: char| wanted.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let wanted = quoted('"').or_else(|| quoted('\'')).unwrap_or(wanted);
    Some(PathSegment::Filter(path, wanted.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_select_values() {
        let document = json!({
            "status": {"phase": "Running", "ready": 3, "conditions": [
                {"type": "Ready", "status": "False"}, {"type": "Complete", "status": "True"},
            ]},
            "metadata": {"labels": {"a.b/c": "x"}},
        });
        for (path, want) in [
            ("{.status.phase}", "Running"),
            (".status.ready", "3"),
            ("{$.status.phase}", "Running"),
            ("{.status.conditions[0].type}", "Ready"),
            ("{.status.conditions[-1].type}", "Complete"),
            ("{.status.conditions[5].type}", ""),
            ("{.status.conditions[*].status}", "False True"),
            (r#"{.status.conditions[?(@.type=="Complete")].status}"#, "True"),
            ("{.status.conditions[?(@.type=='Failed')].status}", ""),
            (r"{.metadata.labels.a\.b/c}", "x"),
            ("{.metadata.labels['a.b/c']}", "x"),
            ("{.nothing.there}", ""),
        ] {
            let found: Vec<String> =
                JsonPath::parse(path).unwrap().find(&document).into_iter().map(value_text).collect();
            assert_eq!(found.join(" "), want, "{path}");
        }
    }

    #[test]
    fn invalid_paths_are_refused_without_a_panic() {
        for text in
            ["", "{}", "{.a", "a", "{.a[}", "{.a[x]}", "{..a}", "{.a[?(@.b)]}", "{.a['b}", "{.a.}", "{.a\\}", "[']"]
        {
            assert!(JsonPath::parse(text).is_err(), "{text}: {:?}", JsonPath::parse(text));
        }
    }
}
