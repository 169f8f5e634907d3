//! Reads manifests: parses YAML or JSON files into documents with the line of each field.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// Larger files are refused.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// One document of a file.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The file, as the user wrote it.
    pub file: PathBuf,
    /// The document.
    pub document: Value,
    /// The line of each field, by its path (`spec.template.spec.containers[0].name`); the root is the empty path.
    lines: BTreeMap<String, u64>,
}

/// A problem in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as the user wrote it.
    pub file: PathBuf,
    /// The line, if known.
    pub line: Option<u64>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl Manifest {
    /// A document that is not from a file.
    pub fn from_document(document: Value) -> Manifest {
        Manifest { file: PathBuf::new(), document, lines: BTreeMap::new() }
    }

    /// `apiVersion` and `kind`, or what is wrong with them.
    pub fn api_version_and_kind(&self) -> Result<(&str, &str), Problem> {
        if !self.document.is_object() {
            return Err(self.problem("", "must be a mapping with apiVersion, kind and metadata"));
        }
        let text = |field: &str| match self.document.get(field) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.as_str()),
            Some(_) => Err(self.problem(field, &format!("{field}: must be a string"))),
            None => Err(self.problem("", &format!("{field}: Required value"))),
        };
        Ok((text("apiVersion")?, text("kind")?))
    }

    /// `kind/name`, for people.
    pub fn title(&self) -> String {
        let kind = self.document["kind"].as_str().unwrap_or("object").to_lowercase();
        let metadata = &self.document["metadata"];
        let name = metadata["name"].as_str().or_else(|| metadata["generateName"].as_str()).unwrap_or("(no name)");
        format!("{kind}/{name}")
    }

    /// A problem with the field at `path`, with the line of that field or of the nearest one above it. In a map, it is the
    /// line of the entry in the message.
    pub fn problem(&self, path: &str, message: &str) -> Problem {
        let path = self.invalid_entry_path(self.template_metadata_path(with_keys_as_fields(path)), message);
        let mut at = path.as_str();
        let line = loop {
            if let Some(line) = self.lines.get(at) {
                break Some(*line);
            }
            match at.rfind(['.', '[']) {
                Some(end) => at = &at[..end],
                None if at.is_empty() => break None,
                None => at = "",
            }
        };
        Problem { file: self.file.clone(), line, message: format!("{}: {message}", self.title()) }
    }
}

impl Manifest {
    /// The path of labels and annotations of a pod template, whose errors leave `metadata` out: `spec.template.labels`.
    fn template_metadata_path(&self, path: String) -> String {
        match path.rsplit_once('.') {
            Some((above, last @ ("labels" | "annotations"))) if !self.lines.contains_key(&path) => {
                format!("{above}.metadata.{last}")
            }
            _ => path,
        }
    }

    /// Errors about a key or a value of a map have the path of the map, and the key or the value as `Invalid value`.
    fn invalid_entry_path(&self, path: String, message: &str) -> String {
        let map = self.value_at(&path).and_then(Value::as_object);
        let (Some(map), Some((_, rest))) = (map, message.split_once("Invalid value: ")) else { return path };
        let Some(Ok(invalid)) = serde_json::Deserializer::from_str(rest).into_iter::<Value>().next() else {
            return path;
        };
        let has_value = || map.iter().find(|(_, value)| **value == invalid).map(|(key, _)| key.as_str());
        match invalid.as_str().filter(|key| map.contains_key(*key)).or_else(has_value) {
            Some(key) => format!("{path}.{key}"),
            None => path,
        }
    }

    fn value_at(&self, path: &str) -> Option<&Value> {
        let mut steps = path.split(['.', '[']).filter(|step| !step.is_empty());
        steps.try_fold(&self.document, |value, step| match step.strip_suffix(']') {
            Some(index) => value.get(index.parse::<usize>().ok()?),
            None => value.get(step),
        })
    }
}

/// Replaces keys of maps, which validation writes as `requests[memory]`, by fields: `requests.memory`.
fn with_keys_as_fields(path: &str) -> String {
    let (mut fields, mut rest) = (String::new(), path);
    while let Some((head, tail)) = rest.split_once('[') {
        let (key, after) = tail.split_once(']').unwrap_or((tail, ""));
        let is_index = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
        fields.push_str(head);
        fields.push_str(&if is_index { format!("[{key}]") } else { format!(".{key}") });
        rest = after;
    }
    fields + rest
}

/// Reads every document of every file; `-` is standard input. Returns all documents, or all problems.
pub fn read_all(files: &[PathBuf]) -> Result<Vec<Manifest>, Vec<Problem>> {
    let (mut manifests, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        match read_text(file).and_then(|text| parse(file, &text)) {
            Ok(found) => manifests.extend(found),
            Err(problem) => problems.push(problem),
        }
    }
    if manifests.is_empty() && problems.is_empty() {
        let file = files.first().cloned().unwrap_or_default();
        problems.push(Problem { file, line: None, message: "no objects in the file".to_owned() });
    }
    if problems.is_empty() { Ok(manifests) } else { Err(problems) }
}

/// The text of `file`, or why it cannot be read.
pub fn read_text(file: &Path) -> Result<String, Problem> {
    let problem = |message: String| Problem { file: file.to_owned(), line: None, message };
    let limit = MAX_FILE_BYTES + 1;
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(limit).read_to_string(&mut text))
    };
    match read {
        Ok(_) if text.len() as u64 > MAX_FILE_BYTES => {
            Err(problem(format!("larger than {} MiB; split it", MAX_FILE_BYTES >> 20)))
        }
        Ok(_) => Ok(text),
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            Err(problem("is a directory; pass the files in it".to_owned()))
        }
        Err(error) => Err(problem(error.to_string())),
    }
}

/// The documents in `text`; lists (`kind: List`) are expanded.
pub fn parse(file: &Path, text: &str) -> Result<Vec<Manifest>, Problem> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let documents: Vec<Spanned<YamlNode>> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| Problem {
            file: file.to_owned(),
            line: error.location().map(|location| location.line()),
            message: parse_error_text(error.without_snippet()),
        })?;
    let mut manifests = Vec::new();
    for document in documents {
        let mut lines = BTreeMap::new();
        let value = to_json(document, String::new(), &mut lines);
        if value.is_null() {
            continue;
        }
        let manifest = Manifest { file: file.to_owned(), document: value, lines };
        manifests.extend(expand_list(manifest));
    }
    Ok(manifests)
}

/// The message of a parse error, with a hint if the file is too large.
fn parse_error_text(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::budget::BudgetBreach;
    match error {
        serde_saphyr::Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "more than 1024 documents in one file: split it and pass each part with -f, or use one document of `kind: List`"
                .to_owned()
        }
        serde_saphyr::Error::Budget { breach: BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. }, .. } => {
            "too large for one file: split it and pass each part with -f".to_owned()
        }
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("duplicate key {key}: remove one of the two")
        }
        error => error.to_string(),
    }
}

fn expand_list(manifest: Manifest) -> Vec<Manifest> {
    if manifest.document["kind"] != "List" {
        return vec![manifest];
    }
    let items = manifest.document["items"].as_array().cloned().unwrap_or_default();
    let lines_of = |index: usize| {
        let prefix = format!("items[{index}]");
        let below = manifest.lines.iter().filter_map(|(path, line)| {
            path.strip_prefix(&prefix).map(|rest| (rest.trim_start_matches('.').to_owned(), *line))
        });
        below.collect()
    };
    let file = manifest.file.clone();
    let documents = items.into_iter().enumerate();
    documents.map(|(index, document)| Manifest { file: file.clone(), document, lines: lines_of(index) }).collect()
}

/// A YAML node whose children have positions.
#[derive(Debug)]
enum YamlNode {
    Scalar(Value),
    List(Vec<Spanned<YamlNode>>),
    Map(Vec<(Spanned<String>, Spanned<YamlNode>)>),
}

/// The document below `node`, which is at `path`. The line of a field is that of its key, the line of an item that of its
/// value.
fn to_json(node: Spanned<YamlNode>, path: String, lines: &mut BTreeMap<String, u64>) -> Value {
    lines.entry(path.clone()).or_insert(node.referenced.line());
    match node.value {
        YamlNode::Scalar(value) => value,
        YamlNode::List(items) => {
            let items = items.into_iter().enumerate();
            Value::Array(items.map(|(index, item)| to_json(item, format!("{path}[{index}]"), lines)).collect())
        }
        YamlNode::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let line = key.referenced.line();
                let key = key.value;
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                lines.insert(below.clone(), line);
                map.insert(key, to_json(value, below, lines));
            }
            Value::Object(map)
        }
    }
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<YamlNode, D::Error> {
        deserializer.deserialize_any(YamlNodeVisitor)
    }
}

struct YamlNodeVisitor;

impl<'de> Visitor<'de> for YamlNodeVisitor {
    type Value = YamlNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<YamlNode, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("not a finite number"))?;
        Ok(YamlNode::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(Value::String(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlNode, D::Error> {
        YamlNode::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<YamlNode, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(YamlNode::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<YamlNode, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(YamlNode::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::{Problem, parse};

    fn problem_of(text: &str) -> String {
        parse(Path::new("a.yaml"), text).unwrap_err().to_string()
    }

    #[test]
    fn fields_have_their_line() {
        let text = "kind: Job\nmetadata:\n  name: a\nspec:\n  list:\n  - x: 1\n  - x: 2\n---\nkind: Pod\n";
        let manifests = parse(Path::new("a.yaml"), text).unwrap();
        assert_eq!(manifests.len(), 2);
        let line = |path: &str| manifests[0].problem(path, "m").line;
        assert_eq!(line("metadata.name"), Some(3));
        assert_eq!(line("spec.list[1].x"), Some(7));
        assert_eq!(line("spec.list[1].x.deeper"), Some(7), "a missing field has the line of its parent");
        assert_eq!(manifests[1].problem("", "m").line, Some(9));
    }

    #[test]
    fn a_field_has_the_line_of_its_key() {
        let text = "kind: Job\nspec:\n  templat:\n    # what follows\n    spec:\n      list:\n      -\n        x: 1\n      - y:\n          z: 2\nother: >\n  text\n";
        let manifests = parse(Path::new("a.yaml"), text).unwrap();
        let line = |path: &str| manifests[0].problem(path, "m").line;
        for (path, want) in [
            ("", 1),
            ("spec", 2),
            ("spec.templat", 3),
            ("spec.templat.spec", 5),
            ("spec.templat.spec.list", 6),
            ("spec.templat.spec.list[0]", 8),
            ("spec.templat.spec.list[1]", 9),
            ("spec.templat.spec.list[1].y", 9),
            ("spec.templat.spec.list[1].y.z", 10),
            ("other", 11),
        ] {
            assert_eq!(line(path), Some(want), "{path}");
        }
    }

    #[test]
    fn an_entry_of_a_map_has_the_line_of_its_key() {
        let text = "spec:\n  list:\n  - limits:\n      cpu: 1\n      nvidia.com/gpu: x\n";
        let manifests = parse(Path::new("a.yaml"), text).unwrap();
        let line = |path: &str| manifests[0].problem(path, "m").line;
        for (path, want) in [
            ("spec.list[0].limits[cpu]", 4),
            ("spec.list[0].limits[nvidia.com/gpu]", 5),
            ("spec.list[0].limits[none.here]", 3),
            ("spec.list[0].limits[unclosed", 3),
        ] {
            assert_eq!(line(path), Some(want), "{path}");
        }
    }

    /// Errors about labels have the path of the whole map, and their line was that of `labels`.
    #[test]
    fn an_error_about_a_key_or_a_value_of_a_map_has_its_line() {
        let text = "metadata:\n  labels:\n    fine: x\n    a.b/c d: y\n    e: f g\nspec:\n  template:\n    metadata:\n      \
                    labels:\n        fine: x\n        7: h i\n";
        let manifests = parse(Path::new("a.yaml"), text).unwrap();
        let line = |path: &str, message: &str| manifests[0].problem(path, &format!("{path}: {message}")).line;
        for (path, message, want) in [
            ("metadata.labels", r#"Invalid value: "a.b/c d": name part must consist of"#, 4),
            ("metadata.labels", r#"Invalid value: "f g": a valid label must be"#, 5),
            ("metadata.labels", r#"Invalid value: "elsewhere": a valid label must be"#, 2),
            ("metadata.labels", "Required value", 2),
            ("spec.template.labels", r#"Invalid value: "7": must"#, 11),
            ("spec.template.labels", r#"Invalid value: "h i": must"#, 11),
            ("spec.template.annotations", "Too long: may not be more than 262144 bytes", 8),
        ] {
            assert_eq!(line(path, message), Some(want), "{path}: {message}");
        }
    }

    #[test]
    fn keys_in_any_yaml_form_and_aliases_are_read() {
        let text = "a: &x\n  b: 1\nc: *x\n\"d\": 2\n'e':\n  - 3\n? f\n: 4\n7: g\n<<: {h: 5}\n";
        let manifests = parse(Path::new("a.yaml"), text).unwrap();
        let document = &manifests[0].document;
        assert_eq!(document.to_string(), r#"{"7":"g","a":{"b":1},"c":{"b":1},"d":2,"e":[3],"f":4,"h":5}"#);
        for (path, want) in [("a", 1), ("a.b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 7), ("7", 9)] {
            assert_eq!(manifests[0].problem(path, "m").line, Some(want), "{path}");
        }
    }

    #[test]
    fn problems_read_file_line_object_message() {
        let manifests = parse(Path::new("a.yaml"), "kind: Job\nmetadata: {name: x}\n").unwrap();
        let problem: Problem = manifests[0].problem("metadata.name", "metadata.name: taken");
        assert_eq!(problem.to_string(), "a.yaml:2: job/x: metadata.name: taken");
    }

    #[test]
    fn malformed_yaml_names_the_line() {
        assert!(problem_of("kind: Job\nmetadata: [a\n").starts_with("a.yaml:"), "{}", problem_of("a: [b\n"));
        assert_eq!(problem_of("a: 1\na: 2\n"), "a.yaml:2: duplicate key a: remove one of the two");
    }

    #[test]
    fn a_document_that_is_no_mapping_is_refused_as_such() {
        for text in ["- kind: Job\n", "kind\n", "7\n"] {
            let manifests = parse(Path::new("a.yaml"), text).unwrap();
            let problem = manifests[0].api_version_and_kind().unwrap_err().to_string();
            assert!(problem.starts_with("a.yaml:1:") && problem.contains("must be a mapping"), "{problem}");
        }
    }

    #[test]
    fn a_file_with_too_many_documents_is_refused_with_a_hint() {
        let documents = |count: usize| "kind: Job\n".to_owned() + &"---\nkind: Job\n".repeat(count - 1);
        assert_eq!(parse(Path::new("a.yaml"), &documents(1024)).map(|found| found.len()).unwrap(), 1024);
        let message = problem_of(&documents(1025));
        assert!(
            message.starts_with("a.yaml:") && message.contains("more than 1024 documents in one file: split it"),
            "{message}"
        );
        let large = problem_of(&format!("a: [{}]\n", "1,".repeat(300_000)));
        assert!(large.contains("too large for one file: split it"), "{large}");
    }

    #[test]
    fn yaml_scalars_have_the_types_of_kubernetes() {
        let manifests = parse(Path::new("a"), "a: yes\nb: 0644\nc: \"1\"\nd: 1.5\ne: ~\nf: on\n").unwrap();
        let document = &manifests[0].document;
        assert_eq!(document.to_string(), r#"{"a":true,"b":420,"c":"1","d":1.5,"e":null,"f":true}"#);
    }

    #[test]
    fn a_list_is_expanded_and_keeps_its_lines() {
        let text = "kind: List\napiVersion: v1\nitems:\n- kind: Pod\n  metadata: {name: a}\n- kind: Pod\n";
        let manifests = parse(Path::new("a"), text).unwrap();
        assert_eq!(manifests.len(), 2);
        assert_eq!(manifests[0].problem("metadata.name", "").line, Some(5));
        assert_eq!(manifests[1].problem("", "").line, Some(6));
    }
}
