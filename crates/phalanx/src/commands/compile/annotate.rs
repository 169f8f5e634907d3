//! Adds notes as comments to the lines of YAML.

use std::collections::BTreeMap;

/// `text`, block-style YAML, with each note of `notes` as a comment on the line of its field. The keys of `notes` are
/// paths of fields: `spec.podGroupTemplates[0].name`.
pub fn annotate(text: &str, notes: &BTreeMap<String, String>) -> String {
    let mut cursor = YamlCursor::default();
    let mut annotated = String::new();
    for line in text.lines() {
        annotated.push_str(line);
        if let Some(note) = cursor.advance(line).and_then(|path| notes.get(&path)) {
            annotated.push_str(&format!("  # {note}"));
        }
        annotated.push('\n');
    }
    annotated
}

/// The position of a line in the document.
#[derive(Default)]
struct YamlCursor {
    /// The fields and items around the line, outermost first: depth and path.
    ancestors: Vec<(usize, String)>,
    /// How many items each list has so far, by its path.
    item_counts: BTreeMap<String, usize>,
}

impl YamlCursor {
    /// Moves to `line`; returns the path of its field.
    fn advance(&mut self, line: &str) -> Option<String> {
        let mut rest = line.trim_start();
        let mut indent = line.len() - rest.len();
        while let Some(item) = rest.strip_prefix("- ") {
            // A list may have the same indentation as its field, so an item counts as half a level deeper.
            self.pop_to_depth(2 * indent + 1);
            let list = self.path().to_owned();
            let index = self.item_counts.entry(list.clone()).or_default();
            let path = format!("{list}[{index}]");
            *index += 1;
            self.ancestors.push((2 * indent + 1, path));
            indent += 2;
            rest = item;
        }
        let (key, _) = rest.split_once(':')?;
        self.pop_to_depth(2 * indent);
        let path = if self.path().is_empty() { key.to_owned() } else { format!("{}.{key}", self.path()) };
        self.ancestors.push((2 * indent, path.clone()));
        Some(path)
    }

    fn pop_to_depth(&mut self, depth: usize) {
        while self.ancestors.last().is_some_and(|(inner, _)| *inner >= depth) {
            self.ancestors.pop();
        }
    }

    fn path(&self) -> &str {
        self.ancestors.last().map_or("", |(_, path)| path)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::annotate;

    #[test]
    fn a_note_is_at_its_field_for_both_indentations_of_lists() {
        let notes = [("a", "one"), ("b[0].c", "two"), ("b[1].d.e", "three"), ("f", "four"), ("b[1].c", "no line")];
        let notes: BTreeMap<String, String> =
            notes.iter().map(|(path, note)| ((*path).to_owned(), (*note).to_owned())).collect();
        for list in ["- c: 1\n- d:\n    e: 2\n", "  - c: 1\n  - d:\n      e: 2\n"] {
            let text = format!("a: x\nb:\n{list}f: {{}}\n");
            let want = text
                .replace("a: x", "a: x  # one")
                .replace("c: 1", "c: 1  # two")
                .replace("e: 2", "e: 2  # three")
                .replace("f: {}", "f: {}  # four");
            assert_eq!(annotate(&text, &notes), want);
        }
    }
}
