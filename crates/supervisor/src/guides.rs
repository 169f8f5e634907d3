//! The commands of the documents for users, as a reader types them.
//!
//! A command is a line of a fence marked `sh`, a line that starts with `$ ` in a fence marked `text`, or a cell of a table
//! column named `example`.

use std::path::Path;

use anyhow::Context;

/// A command of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuideCommand {
    /// The document, from the root of the repository.
    pub file: String,
    /// Its line there, from 1.
    pub line: usize,
    /// The command without its comment.
    pub text: String,
}

/// The documents with commands for users, from the root of the repository: README, CONTRIBUTING, then the guides.
pub fn guide_files(root: &Path) -> anyhow::Result<Vec<String>> {
    let folder = root.join("docs/guides");
    let mut guides = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        guides.extend(name.ends_with(".md").then(|| format!("docs/guides/{name}")));
    }
    guides.sort();
    Ok(["README.md".to_owned(), "CONTRIBUTING.md".to_owned()].into_iter().chain(guides).collect())
}

/// The commands of all these documents, in order.
pub fn guide_commands(root: &Path) -> anyhow::Result<Vec<GuideCommand>> {
    let mut commands = Vec::new();
    for file in guide_files(root)? {
        let text = std::fs::read_to_string(root.join(&file)).with_context(|| file.clone())?;
        commands.extend(commands_of(&file, &text));
    }
    Ok(commands)
}

/// The commands of one document.
pub fn commands_of(file: &str, text: &str) -> Vec<GuideCommand> {
    let mut commands = Vec::new();
    let mut fence: Option<&str> = None;
    let mut example_column = None;
    for (index, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language.trim()) };
            continue;
        }
        let is_row = fence.is_none() && line.starts_with('|');
        let cells: Vec<&str> = if is_row { line.split('|').map(str::trim).collect() } else { Vec::new() };
        let found: Vec<&str> = match fence {
            Some("sh") => line.split(" && ").map(without_comment).collect(),
            Some("text") => line.strip_prefix("$ ").map(without_comment).into_iter().collect(),
            Some(_) => Vec::new(),
            None if !is_row => {
                example_column = None;
                Vec::new()
            }
            None => match example_column {
                Some(column) => cells.get(column).copied().and_then(code_span).into_iter().collect(),
                None => {
                    example_column = cells.iter().position(|cell| *cell == "example");
                    Vec::new()
                }
            },
        };
        let found = found.into_iter().filter(|text| !text.is_empty());
        commands.extend(found.map(|text| GuideCommand {
            file: file.to_owned(),
            line: index + 1,
            text: text.to_owned(),
        }));
    }
    commands
}

fn without_comment(line: &str) -> &str {
    let line = line.split_once(" #").map_or(line, |(command, _)| command).trim();
    if line.starts_with('#') { "" } else { line }
}

/// The content of a cell that is one code span.
fn code_span(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

#[cfg(test)]
mod tests {
    use super::commands_of;

    #[test]
    fn commands_are_found_in_fences_and_example_columns() {
        let text = "\
`phalanx up`
```sh
phalanx up           # now
# a comment
kubectl apply -f a && kubectl get b   # then
```
```
phalanx no
```
```text
$ phalanx explain job/a
waits
```
| command | example |
| --- | --- |
| `up` | `phalanx up --nodes 2` |

| command | what it does |
| --- | --- |
| `up` | `phalanx no` |
";
        let found: Vec<(usize, String)> = commands_of("a.md", text).into_iter().map(|c| (c.line, c.text)).collect();
        let found: Vec<(usize, &str)> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        let wanted = [
            (3, "phalanx up"),
            (5, "kubectl apply -f a"),
            (5, "kubectl get b"),
            (11, "phalanx explain job/a"),
            (16, "phalanx up --nodes 2"),
        ];
        assert_eq!(found, wanted);
    }
}
