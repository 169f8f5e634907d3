//! One registry of kinds: no other file has a list of plural resource names.

use std::collections::BTreeSet;

/// The registry of kinds.
pub const REGISTRY: &str = "crates/types/src/kinds.rs";

/// This many different plurals, as string literals within [`WINDOW_LINES`] lines, are a list of kinds. Three occur where
/// code works with a Job, its pods and its group.
const MIN_PLURALS: usize = 4;
const WINDOW_LINES: usize = 12;

/// Files that may have such literals, and why they are not a second list of kinds.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "crates/controlplane/src/control_loops.rs",
        "the rights of each control loop, which tests compare with its requests",
    ),
    ("crates/phalanx/src/explain.rs", "the few kinds that an explanation reads"),
];

/// The plurals in the source of the registry: what follows the kind in each `ApiResource::new`.
pub fn plurals(registry: &str) -> BTreeSet<String> {
    let calls = registry.split("ApiResource::new(").skip(1).map(|call| call.split(')').next().unwrap_or_default());
    let is_kind = |literal: &&str| literal.starts_with(|letter: char| letter.is_ascii_uppercase());
    calls.filter_map(|call| literals(call).skip_while(|literal| !is_kind(literal)).nth(1)).map(str::to_owned).collect()
}

/// Where `code` of `file` begins a list of kinds.
pub fn findings(file: &str, code: &str, plurals: &BTreeSet<String>) -> Option<String> {
    let is_exempt = file == REGISTRY || file.contains("/tests/") || EXCEPTIONS.iter().any(|(path, _)| *path == file);
    if is_exempt {
        return None;
    }
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let names: Vec<(usize, &str)> =
        lines.flat_map(|(number, line)| literals(line).map(move |literal| (number, resource_name(literal)))).collect();
    let names: Vec<(usize, &str)> = names.into_iter().filter(|(_, name)| plurals.contains(*name)).collect();
    let in_window = |start: usize| {
        let window = names.iter().filter(move |(line, _)| (start..start + WINDOW_LINES).contains(line));
        window.map(|(_, name)| *name).collect::<BTreeSet<&str>>()
    };
    let (line, found) =
        names.iter().map(|(line, _)| (*line, in_window(*line))).find(|(_, s)| s.len() >= MIN_PLURALS)?;
    let found: Vec<&str> = found.into_iter().collect();
    Some(format!("{file}:{}: a second list of kinds ({}); use the registry, {REGISTRY}", line + 1, found.join(", ")))
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
    use std::collections::BTreeSet;

    use super::{findings, plurals};

    const REGISTRY: &str = "const POD: R = ApiResource::new(\"\", \"Pod\", \"pods\", \"pod\");\n\
        const NODE: R = ApiResource::new(\"\", \"Node\", \"nodes\", \"node\");\n\
        const JOB: R = ApiResource::new(\"batch\", \"Job\", \"jobs\", \"job\");\n\
        const CRON_JOB: R = ApiResource::new(BATCH, \"CronJob\", \"cronjobs\", \"cronjob\");\n";

    fn known() -> BTreeSet<String> {
        plurals(REGISTRY)
    }

    #[test]
    fn the_plurals_come_from_the_registry() {
        assert_eq!(known().into_iter().collect::<Vec<_>>(), ["cronjobs", "jobs", "nodes", "pods"]);
    }

    #[test]
    fn a_planted_second_list_of_kinds_is_found() {
        for code in [
            "const KINDS: [&str; 4] = [\"pods\", \"nodes\", \"jobs\", \"cronjobs\"];",
            "fn f() {\n    a(\"pods\");\n    a(\"nodes\");\n    a(\"batch/jobs\");\n    a(\"cronjobs.batch\");\n}",
        ] {
            let finding = findings("crates/store/src/a.rs", code, &known()).unwrap_or_default();
            assert!(finding.contains("a second list of kinds (cronjobs, jobs, nodes, pods)"), "{code}: {finding}");
        }
    }

    #[test]
    fn few_or_distant_names_comments_and_tests_are_not_a_list() {
        let apart = ["\"pods\"", "\"nodes\"", "\"jobs\"", "\"cronjobs\""].join(&"\n".repeat(10));
        for code in
            ["f(\"pods\", \"jobs\", \"nodes\", \"pods\")", "// \"pods\" \"nodes\" \"jobs\" \"cronjobs\"", &apart]
        {
            assert_eq!(findings("crates/store/src/a.rs", code, &known()), None, "{code}");
        }
        let list = "[\"pods\", \"nodes\", \"jobs\", \"cronjobs\"]";
        assert_eq!(findings("crates/store/tests/a.rs", list, &known()), None);
    }
}
