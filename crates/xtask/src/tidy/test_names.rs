//! Tests that documents name: a test that was renamed or removed proves nothing any more.

use std::collections::BTreeSet;

use syn::visit::Visit;

use super::codemap::code_spans;

/// The documents that name tests. Guides name metrics, which look the same.
const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/guides/extending.md", "docs/decisions/"];

/// Names of fewer words may be fields, files or settings.
const MIN_WORDS: usize = 4;

/// The functions of the workspace, by name.
#[derive(Default)]
pub struct FunctionNames {
    names: BTreeSet<String>,
}

impl FunctionNames {
    /// Collects the functions of one file.
    pub fn read(&mut self, parsed: &syn::File) {
        self.visit_file(parsed);
    }

    /// Names of tests between backticks that are no function.
    pub fn findings(&self, file: &str, text: &str) -> Vec<String> {
        if !DOCUMENTS.iter().any(|document| file.starts_with(document)) {
            return Vec::new();
        }
        let is_part = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        let mut findings = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let words = code_spans(line).flat_map(|span| span.split(|letter| !is_part(letter)));
            let tests = words.filter(|word| word.split('_').filter(|part| !part.is_empty()).count() >= MIN_WORDS);
            let missing = tests.filter(|name| !self.names.contains(*name));
            findings.extend(missing.map(|name| format!("{file}:{}: no test is named {name}", number + 1)));
        }
        findings
    }
}

impl<'ast> Visit<'ast> for FunctionNames {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.names.insert(signature.ident.to_string());
    }

    // Tests in `proptest!` and similar macros are tokens for the parser.
    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        let text = invocation.tokens.to_string();
        let mut words =
            text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|w| !w.is_empty());
        while let Some(word) = words.next() {
            if word == "fn" {
                self.names.extend(words.next().map(str::to_owned));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_test_that_a_document_names_exists() {
        let code = "mod tests { #[test] fn a_gang_of_four_waits() {} } proptest! { #[test] fn any_gang_of_four_fits(n in 0..1) {} }";
        let mut names = FunctionNames::default();
        names.read(&syn::parse_file(code).unwrap());
        for (text, count) in [
            ("`a_gang_of_four_waits` and `any_gang_of_four_fits`", 0),
            ("`cargo test -p x tests::a_gang_of_four_waits`", 0),
            ("`a_gang_of_five_waits`", 1),
            ("`cargo test -p x a_gang_of_five_waits`", 1),
            ("a_gang_of_five_waits without backticks, `min_count`, `MAX_LINES_OF_A_FILE`", 0),
        ] {
            assert_eq!(names.findings("docs/decisions/0001-a.md", text).len(), count, "{text}");
        }
        assert!(names.findings("docs/guides/cluster.md", "`job_controller_job_syncs_total`").is_empty());
    }
}
