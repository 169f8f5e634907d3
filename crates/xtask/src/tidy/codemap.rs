//! ARCHITECTURE.md: a short glossary, and a codemap with a section for every crate and no file that does not exist.

use super::LAYERS;

/// More words than a newcomer learns in one reading.
const MAX_GLOSSARY_WORDS: usize = 40;

/// The number of words in the glossary, if there are too many.
pub fn glossary_findings(text: &str) -> Option<String> {
    let section = text.split("\n## ").find(|section| section.starts_with("Glossary\n"))?;
    // Without the heading of the table and the line below it.
    let words = section.lines().filter(|line| line.starts_with("| ")).count().saturating_sub(2);
    (words > MAX_GLOSSARY_WORDS)
        .then(|| format!("ARCHITECTURE.md: the glossary has {words} words; at most {MAX_GLOSSARY_WORDS}"))
}

/// Every crate has a section with promises and limits, and every file or folder that a section names is in its crate.
/// `files` are the paths of the repository.
pub fn findings(text: &str, files: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for name in LAYERS {
        let heading = format!("### `{name}`");
        let Some(start) = text.find(&heading) else {
            findings.push(format!("ARCHITECTURE.md: no section {heading}"));
            continue;
        };
        let rest = &text[start + heading.len()..];
        let section = rest.find("\n##").map_or(rest, |end| &rest[..end]);
        for word in ["**Promises**", "**Never**"] {
            if !section.contains(word) {
                findings.push(format!("ARCHITECTURE.md: {heading} lacks {word}"));
            }
        }
        let missing = code_spans(section).filter(|span| is_source_path(span) && !exists(name, span, files));
        findings.extend(missing.map(|path| format!("ARCHITECTURE.md: {heading} names {path}, which does not exist")));
    }
    findings
}

/// What stands between backticks, line by line.
pub fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// `x.rs`, `x/` or `x/y.rs`; a `*` stands for any letters of a name.
fn is_source_path(span: &str) -> bool {
    let is_path = span.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-*./".contains(letter));
    is_path && (span.ends_with(".rs") || (span.ends_with('/') && !span.starts_with('/')))
}

/// Whether the crate has this file or folder, in any folder of `src` or `tests`: a section names files of a folder without
/// the folder.
fn exists(name: &str, path: &str, files: &[String]) -> bool {
    let folders = [format!("crates/{name}/src/"), format!("crates/{name}/tests/")];
    let wanted: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let is_folder = path.ends_with('/');
    files.iter().filter(|file| folders.iter().any(|folder| file.starts_with(folder))).any(|file| {
        let mut parts: Vec<&str> = file.split('/').skip(2).collect();
        if is_folder {
            parts.pop();
            return parts.windows(wanted.len()).any(|window| matches(window, &wanted));
        }
        parts.len() >= wanted.len() && matches(&parts[parts.len() - wanted.len()..], &wanted)
    })
}

fn matches(parts: &[&str], wanted: &[&str]) -> bool {
    parts.iter().zip(wanted).all(|(part, wanted)| match wanted.split_once('*') {
        Some((start, end)) => part.len() >= start.len() + end.len() && part.starts_with(start) && part.ends_with(end),
        None => part == wanted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_section_names_is_in_its_crate() {
        let files = ["crates/store/src/disk/file.rs", "crates/store/tests/it/crash_a.rs", "crates/api/src/cron.rs"];
        let files = files.map(str::to_owned);
        for (path, is_there) in [
            ("disk/", true),
            ("disk/file.rs", true),
            ("file.rs", true),
            ("tests/it/crash_a.rs", true),
            ("crash_*.rs", true),
            ("cron.rs", false),
            ("disk.rs", false),
            ("file.rs/", false),
            ("memory/file.rs", false),
            ("power_*.rs", false),
        ] {
            let text = codemap(path);
            let named = findings(&text, &files);
            let want = format!("ARCHITECTURE.md: ### `store` names {path}, which does not exist");
            assert_eq!(named, if is_there { vec![] } else { vec![want] }, "{path}");
        }
    }

    #[test]
    fn other_code_is_not_a_path() {
        for span in [
            "/readyz",
            "Store::commit",
            "cargo xtask tidy",
            "/apis/phalanx.dev/v1alpha1",
            "a file.rs",
            "instructions.txt",
        ] {
            assert!(findings(&codemap(span), &[]).is_empty(), "{span}");
        }
    }

    #[test]
    fn a_crate_without_a_section_and_a_section_without_promises_are_found() {
        let text = codemap("x").replace("### `types`\n**Promises**", "### `types`\n").replace("### `api`", "### api");
        let want = ["ARCHITECTURE.md: ### `types` lacks **Promises**", "ARCHITECTURE.md: no section ### `api`"];
        assert_eq!(findings(&text, &[]), want);
    }

    #[test]
    fn a_glossary_of_more_than_forty_words_is_found() {
        let glossary = |words: usize| {
            let rows = "| gang | pods that start together |\n".repeat(words);
            format!(
                "# Architecture\n\n## Glossary\n\n| word | meaning |\n| --- | --- |\n{rows}\n## Codemap\n\n| a | b |\n"
            )
        };
        assert_eq!(glossary_findings(&glossary(40)), None);
        let want = "ARCHITECTURE.md: the glossary has 41 words; at most 40";
        assert_eq!(glossary_findings(&glossary(41)).as_deref(), Some(want));
    }

    /// A codemap of all crates in which the section of `store` names `span`.
    fn codemap(span: &str) -> String {
        let section = |name: &&str| {
            let named = if *name == "store" { span } else { "code" };
            format!("### `{name}`\n**Promises** `{named}`\n**Never**\n\n")
        };
        LAYERS.iter().map(section).collect::<String>() + "## What cuts across\n`gone.rs`\n"
    }
}
