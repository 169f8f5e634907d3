//! Folders of source: a folder with many files hides the steps they belong to.

use std::collections::BTreeMap;

/// Files in one folder; more are grouped by step, in a folder with a file beside it.
const MAX_FILES: usize = 16;

/// A folder with more files, and why.
struct LargeFolder {
    path: &'static str,
    max_files: usize,
    reason: &'static str,
}

const EXCEPTIONS: &[LargeFolder] = &[LargeFolder {
    path: "crates/api/src/core/validation",
    max_files: 21,
    reason: "one file for each kind and for each part of a pod's spec",
}];

/// Folders below `crates/*/src` with too many files, tests aside, and exceptions that are no longer needed.
pub fn findings(files: &[String]) -> Vec<String> {
    check(files, EXCEPTIONS)
}

fn check(files: &[String], exceptions: &[LargeFolder]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let Some((folder, _)) = file.rsplit_once('/') else { continue };
        let parts: Vec<&str> = folder.split('/').collect();
        if let ["crates", _, "src", below @ ..] = parts.as_slice()
            && !below.contains(&"tests")
        {
            *counts.entry(folder).or_default() += 1;
        }
    }
    let mut findings = Vec::new();
    for (folder, count) in &counts {
        let exception = exceptions.iter().find(|exception| exception.path == *folder);
        let max = exception.map_or(MAX_FILES, |exception| exception.max_files);
        if *count > max {
            findings.push(format!("{folder}: {count} files, more than {max}; group them by step"));
        }
    }
    for LargeFolder { path, reason, .. } in exceptions {
        if counts.get(path).is_none_or(|count| *count <= MAX_FILES) {
            findings.push(format!(
                "{path}: at most {MAX_FILES} files; remove its exception ({reason}; tidy/folder_sizes.rs)"
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_folder_with_too_many_files_is_found_and_an_exception_must_be_needed() {
        let folder = |path: &str, count: usize| (0..count).map(|n| format!("{path}/f{n}.rs")).collect::<Vec<_>>();
        let exceptions = [LargeFolder { path: "crates/a/src/large", max_files: 20, reason: "a table" }];
        for (case, path, count, want) in [
            ("as many as allowed", "crates/a/src", 16, ""),
            ("one more", "crates/a/src", 17, "crates/a/src: 17 files, more than 16; group them by step"),
            ("tests in src", "crates/a/src/tests", 30, ""),
            ("tests beside src", "crates/a/tests/it", 30, ""),
            ("an exception", "crates/a/src/large", 20, ""),
            ("more", "crates/a/src/large", 21, "crates/a/src/large: 21 files, more than 20; group them by step"),
        ] {
            let files = [folder(path, count), folder("crates/a/src/large", 20)].concat();
            let files: Vec<String> = files.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
            assert_eq!(check(&files, &exceptions).join("\n"), want, "{case}");
        }
        let stale = check(&folder("crates/a/src/large", 16), &exceptions).join("\n");
        assert!(stale.contains("remove its exception (a table"), "{stale}");
    }
}
