//! One registry of kinds: no other file has a list of them, by plural, by kind or by constant.

use std::collections::{BTreeMap, BTreeSet};

/// The registry of kinds.
pub const REGISTRY: &str = "crates/types/src/kinds.rs";

/// This many different kinds, named within [`WINDOW_LINES`] lines, are a list of kinds. Three occur where code works with
/// a Job, its pods and its group.
const MIN_KINDS: usize = 4;
const WINDOW_LINES: usize = 12;

/// Files that may have such literals, and why they are not a second list of kinds.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/api/src/conversion/drafts.rs", "the kinds that have drafts, each with its function"),
    (
        "crates/controlplane/src/control_loops.rs",
        "the rights of each control loop, which tests compare with its requests",
    ),
    ("crates/phalanx/src/explain.rs", "the few kinds that an explanation reads"),
    ("crates/types/src/interned_str.rs", "strings that many objects repeat, names of kinds among them"),
];

/// The names under which code refers to a kind, with the kind: `pods` and `Pod` as string literals, `kinds::POD` as code.
pub type KindNames = BTreeMap<String, String>;

/// The names in the source of the registry. Each constant is `pub const NAME`, followed by the literals of
/// `ApiResource::new(GROUP, "Kind", "plural", "singular")`.
pub fn kind_names(registry: &str) -> KindNames {
    let mut names = KindNames::new();
    for constant in registry.split("pub const ").skip(1) {
        let Some(call) = constant.split("ApiResource::new(").nth(1) else { continue };
        let Some(name) = constant.split(':').next() else { continue };
        let is_kind = |literal: &&str| literal.starts_with(|letter: char| letter.is_ascii_uppercase());
        let mut literals = literals(call.split(')').next().unwrap_or_default()).skip_while(|literal| !is_kind(literal));
        if let (Some(kind), Some(plural)) = (literals.next(), literals.next()) {
            names.extend([plural, kind, &format!("kinds::{name}")].map(|name| (name.to_owned(), kind.to_owned())));
        }
    }
    names
}

/// Where `code` of `file` begins a list of kinds.
pub fn findings(file: &str, code: &str, names: &KindNames) -> Option<String> {
    let is_test = file.contains("/tests/") || file.ends_with("/tests.rs");
    if is_test || file == REGISTRY || EXCEPTIONS.iter().any(|(path, _)| *path == file) {
        return None;
    }
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found: Vec<(usize, &str)> =
        lines.flat_map(|(number, line)| kinds_of(line, names).map(move |kind| (number, kind))).collect();
    let in_window = |start: usize| {
        let window = found.iter().filter(move |(line, _)| (start..start + WINDOW_LINES).contains(line));
        window.map(|(_, kind)| *kind).collect::<BTreeSet<&str>>()
    };
    let (line, kinds) = found.iter().map(|(line, _)| (*line, in_window(*line))).find(|(_, s)| s.len() >= MIN_KINDS)?;
    let kinds: Vec<&str> = kinds.into_iter().collect();
    Some(format!("{file}:{}: a second list of kinds ({}); use the registry, {REGISTRY}", line + 1, kinds.join(", ")))
}

/// The kinds that a line names.
fn kinds_of<'a>(line: &'a str, names: &'a KindNames) -> impl Iterator<Item = &'a str> {
    let constants = line.split("kinds::").skip(1).map(|rest| {
        let end = rest.find(|letter: char| letter != '_' && !letter.is_ascii_uppercase()).unwrap_or(rest.len());
        format!("kinds::{}", &rest[..end])
    });
    let literals = literals(line).map(|literal| resource_name(literal).to_owned());
    constants.chain(literals).filter_map(|name| names.get(&name)).map(String::as_str)
}

/// The string literals of a line.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

/// `jobs` of `jobs`, `jobs.batch` and `batch/jobs`.
fn resource_name(literal: &str) -> &str {
    let last = literal.rsplit('/').next().unwrap_or_default();
    last.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{KindNames, findings, kind_names};

    const REGISTRY: &str = "pub const POD: &R = &R { a: 1, ..ApiResource::new(\"\", \"Pod\", \"pods\", \"pod\") };\n\
        pub const NODE: &R = ApiResource::new(\"\", \"Node\", \"nodes\", \"node\");\n\
        pub const JOB: &R = ApiResource::new(\"batch\", \"Job\", \"jobs\", \"job\");\n\
        pub const CRON_JOB: &R = ApiResource::new(BATCH, \"CronJob\", \"cronjobs\", \"cronjob\");\n";

    fn known() -> KindNames {
        kind_names(REGISTRY)
    }

    #[test]
    fn the_names_come_from_the_registry() {
        let names: Vec<String> = known().into_keys().collect();
        let constants = ["kinds::CRON_JOB", "kinds::JOB", "kinds::NODE", "kinds::POD"];
        let kinds = ["CronJob", "Job", "Node", "Pod"];
        let plurals = ["nodes", "pods"];
        assert_eq!(names, [&kinds[..], &["cronjobs", "jobs"], &constants, &plurals].concat());
    }

    #[test]
    fn a_planted_second_list_of_kinds_is_found() {
        for code in [
            "const KINDS: [&str; 4] = [\"pods\", \"nodes\", \"jobs\", \"cronjobs\"];",
            "fn f() {\n    a(\"pods\");\n    a(\"nodes\");\n    a(\"batch/jobs\");\n    a(\"cronjobs.batch\");\n}",
            "match kind {\n    \"Pod\" | \"Node\" => 1,\n    \"Job\" => 2,\n    \"CronJob\" => 3,\n}",
            "const KINDS: &[&R] = &[kinds::POD, kinds::NODE, kinds::JOB, kinds::CRON_JOB];",
        ] {
            let finding = findings("crates/store/src/a.rs", code, &known()).unwrap_or_default();
            assert!(finding.contains("a second list of kinds (CronJob, Job, Node, Pod)"), "{code}: {finding}");
        }
    }

    #[test]
    fn few_or_distant_names_comments_and_tests_are_not_a_list() {
        let apart = ["\"pods\"", "kinds::NODE", "\"Job\"", "\"cronjobs\""].join(&"\n".repeat(10));
        for code in [
            "f(\"pods\", \"Pod\", kinds::POD, \"jobs\", \"nodes\", \"pods\")",
            "// \"pods\" \"nodes\" \"jobs\" \"cronjobs\"",
            &apart,
        ] {
            assert_eq!(findings("crates/store/src/a.rs", code, &known()), None, "{code}");
        }
        let list = "[\"pods\", \"nodes\", \"jobs\", \"cronjobs\"]";
        assert_eq!(findings("crates/store/tests/a.rs", list, &known()), None);
    }
}
