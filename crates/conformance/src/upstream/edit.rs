//! Edits of Go source: the lines of a suite that start the component under test call our seam instead.
//!
//! Every edit states how often it must apply. A suite whose source has changed is then an error, and never silently
//! tests the component of Kubernetes.

use anyhow::{Context, ensure};

/// One edit of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Replaces the body of the top-level function of this name.
    ReplaceBody(&'static str, &'static str),
    /// Removes the top-level function of this name.
    RemoveFunction(&'static str),
    /// Replaces a text, this many times.
    ReplaceText(&'static str, &'static str, usize),
    /// Imports the package.
    AddImport(&'static str),
}

/// Applies `edits` to `source` in their order.
pub fn apply(source: &str, edits: &[Edit]) -> anyhow::Result<String> {
    let mut text = source.to_owned();
    for edit in edits {
        text = match edit {
            Edit::ReplaceBody(name, lines) => {
                let function = function(&text, name)?;
                format!("{}\n{lines}\n{}", &text[..function.body_start], &text[function.body_end..])
            }
            Edit::RemoveFunction(name) => {
                let function = function(&text, name)?;
                format!("{}{}", &text[..function.start], &text[function.end..])
            }
            Edit::ReplaceText(from, to, times) => {
                let found = text.matches(from).count();
                ensure!(found == *times, "`{from}` occurs {found} times, expected {times}");
                text.replace(from, to)
            }
            Edit::AddImport(path) => {
                let (head, tail) = text.split_once("import (\n").context("no block of imports")?;
                format!("{head}import (\n\t\"{path}\"\n{tail}")
            }
        };
    }
    Ok(text)
}

/// The position of a top-level function, in bytes.
struct FunctionSpan {
    start: usize,
    /// After the opening brace of the body.
    body_start: usize,
    /// At the closing brace.
    body_end: usize,
    end: usize,
}

/// Finds the function. gofmt writes its name after `func ` at the start of a line, ` {` at the end of its last line of
/// parameters, and the closing brace alone at the start of a line.
fn function(text: &str, name: &str) -> anyhow::Result<FunctionSpan> {
    let opening = format!("\nfunc {name}(");
    let found = text.matches(&opening).count();
    ensure!(found == 1, "func {name} occurs {found} times, expected once");
    let start = text.find(&opening).context("it was counted")? + 1;
    let body_start = start + text[start..].find("{\n").with_context(|| format!("func {name} has no body"))? + 1;
    let body_end =
        body_start + text[body_start..].find("\n}\n").with_context(|| format!("func {name} has no end"))? + 1;
    Ok(FunctionSpan { start, body_start, body_end, end: body_end + 2 })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SOURCE: &str = "package p\n\nimport (\n\t\"os\"\n)\n\nfunc a(x int) error {\n\tif x {\n\t}\n\treturn nil\n}\n\nfunc b() {\n\ta(1)\n\ta(2)\n}\n";

    #[test]
    fn bodies_texts_imports_and_whole_functions_are_edited() {
        let edited = apply(SOURCE, &[Edit::ReplaceBody("a", "\treturn seam.A(x)"), Edit::AddImport("seam")]).unwrap();
        assert!(edited.contains("func a(x int) error {\n\treturn seam.A(x)\n}\n\nfunc b"), "{edited}");
        assert!(edited.contains("import (\n\t\"seam\"\n\t\"os\"\n)"), "{edited}");
        let edited = apply(SOURCE, &[Edit::RemoveFunction("a"), Edit::ReplaceText("a(", "c(", 2)]).unwrap();
        assert_eq!(edited, "package p\n\nimport (\n\t\"os\"\n)\n\n\nfunc b() {\n\tc(1)\n\tc(2)\n}\n");
    }

    #[test]
    fn an_edit_that_applies_more_or_less_often_than_expected_is_an_error() {
        for (edit, want) in [
            (Edit::ReplaceText("a(", "c(", 1), "`a(` occurs 3 times, expected 1"),
            (Edit::ReplaceText("gone", "", 1), "`gone` occurs 0 times, expected 1"),
            (Edit::ReplaceBody("gone", ""), "func gone occurs 0 times, expected once"),
            (Edit::RemoveFunction("gone"), "func gone occurs 0 times, expected once"),
        ] {
            assert_eq!(apply(SOURCE, &[edit]).unwrap_err().to_string(), want);
        }
    }
}
