//! Project rules that no compiler checks: layering, module docs, lengths, folder sizes, banned calls, a current codemap.

mod codemap; // every crate and every file that ARCHITECTURE.md names
mod folder_sizes; // folders that show their steps at a glance
mod kind_lists; // one registry of kinds and no second list
mod test_names; // tests that documents name exist
mod type_names; // type names are nouns, each for at most two types

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;
use syn::spanned::Spanned;
use syn::visit::Visit;

use test_names::FunctionNames;
use type_names::TypeNames;

/// The crates in layer order: a crate uses only crates before its own (dev-dependencies aside).
const LAYERS: &[&str] = &[
    "workloadbuilder",
    "types",
    "api",
    "store",
    "apiserver",
    "scheduler-core",
    "runtime",
    "controllers",
    "scheduler",
    "nodes",
    "controlplane",
    "phalanx",
    "supervisor",
    "testkit",
    "bench",
    "conformance",
    "e2e",
    "xtask",
];

/// Crates that use no other crate of ours than these, whatever their layer.
const ONLY_USES: &[(&str, &[&str])] = &[
    ("workloadbuilder", &[]),
    ("types", &[]),
    ("store", &["types"]),
    ("scheduler-core", &["types"]),
    ("runtime", &["types"]),
    ("xtask", &[]),
];

/// Longer files are split by step or by kind; tests at the end do not count.
const MAX_FILE_LINES: usize = 600;
/// A function fits on a screen.
const MAX_FUNCTION_LINES: usize = 70;

/// A text that must not be in code, and the folders where it is allowed.
struct BannedText {
    text: &'static str,
    reason: &'static str,
    allowed: &'static [&'static str],
    only_in: &'static [&'static str],
}

/// The crates that drive processes and measure on the wall clock.
const TOOLS: &[&str] = &["crates/supervisor/", "crates/bench/", "crates/conformance/", "crates/e2e/", "crates/xtask/"];

const BANNED_TEXTS: &[BannedText] = &[
    BannedText {
        text: "SystemTime::now",
        reason: "the time is an argument (api::Clock)",
        allowed: &["crates/phalanx/"],
        only_in: &[],
    },
    BannedText {
        text: "Timestamp::now",
        reason: "the time is an argument (api::Clock)",
        allowed: &[
            "crates/phalanx/",
            "crates/bench/",
            "crates/conformance/",
            "crates/e2e/",
            "crates/testkit/src/test_cluster/kube_control_plane.rs",
            // A program, not a component of the library.
            "crates/scheduler/examples/",
        ],
        only_in: &[],
    },
    BannedText {
        text: "std::time::Instant",
        reason: "sleep and measure on tokio's clock",
        allowed: TOOLS,
        only_in: &[],
    },
    BannedText {
        text: "rand::random",
        reason: "randomness is an argument (api::Random)",
        allowed: &["crates/phalanx/"],
        only_in: &[],
    },
    BannedText { text: "rand::rng(", reason: "randomness is an argument (api::Random)", allowed: &[], only_in: &[] },
    BannedText {
        text: "tokio::spawn",
        reason: "control loops are futures; controlplane decides where they run",
        allowed: &["crates/controlplane/", "crates/phalanx/", "crates/bench/", "crates/e2e/"],
        only_in: &[],
    },
    BannedText {
        text: "spawn_blocking",
        reason: "the paused clock would jump while it waits",
        allowed: &[],
        only_in: &[],
    },
    BannedText {
        text: "HashMap",
        reason: "unordered maps make decisions differ between runs",
        allowed: &[],
        only_in: &["crates/scheduler-core/", "crates/controllers/", "crates/runtime/", "crates/scheduler/"],
    },
    BannedText {
        text: "HashSet",
        reason: "unordered sets make decisions differ between runs",
        allowed: &[],
        only_in: &["crates/scheduler-core/", "crates/controllers/", "crates/runtime/", "crates/scheduler/"],
    },
    BannedText { text: "todo!(", reason: "no stub that pretends", allowed: &[], only_in: &[] },
    BannedText { text: "unimplemented!(", reason: "no stub that pretends", allowed: &[], only_in: &[] },
    BannedText { text: "#[ignore", reason: "a silenced test is a defect", allowed: &[], only_in: &[] },
];

/// Runs all checks over the repository and lists every finding.
pub fn run() -> anyhow::Result<()> {
    let root = crate::repository_root()?;
    let mut findings = check_layering(&root)?;
    let (mut types, mut functions) = (TypeNames::default(), FunctionNames::default());
    let kind_names = kind_lists::kind_names(&fs::read_to_string(root.join(kind_lists::REGISTRY))?);
    let files = tracked_files(&root)?;
    for file in &files {
        if file.extension().is_some_and(|extension| extension == "rs") {
            findings.extend(check_rust_file(&root, file, &mut types, &mut functions)?);
            let text = fs::read_to_string(root.join(file))?;
            findings.extend(kind_lists::findings(&file.to_string_lossy(), code_before_tests(&text), &kind_names));
        }
        if file.extension().is_some_and(|extension| extension == "md") {
            findings.extend(dead_links(&root, file)?);
        }
    }
    findings.extend(types.findings());
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(root.join(file))?;
        findings.extend(functions.findings(&file.to_string_lossy(), &text));
    }
    let files: Vec<String> = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    findings.extend(folder_sizes::findings(&files));
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    findings.extend(codemap::findings(&architecture, &files));
    findings.extend(codemap::glossary_findings(&architecture));
    if findings.is_empty() {
        println!("tidy: no findings");
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    bail!("tidy: {} findings", findings.len())
}

/// The files that git tracks or would add.
pub fn tracked_files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git ls-files")?;
    let text = String::from_utf8(listed.stdout)?;
    Ok(text.lines().map(PathBuf::from).filter(|file| root.join(file).is_file()).collect())
}

/// A crate depends only on crates before its own in [`LAYERS`].
fn check_layering(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata prints JSON")?;
    let rank: BTreeMap<&str, usize> = LAYERS.iter().enumerate().map(|(rank, name)| (*name, rank)).collect();
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = crate_folder(&package["name"]);
        let Some(own) = rank.get(name) else {
            findings.push(format!("crates/{name}: not in the list of crates (xtask tidy, LAYERS)"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let dependencies = dependencies.filter(|dependency| dependency["kind"].as_str() != Some("dev"));
        for used in dependencies.map(|dependency| crate_folder(&dependency["name"])) {
            if rank.get(used).is_some_and(|other| other >= own) {
                findings.push(format!("crates/{name}/Cargo.toml: uses {used}, which is in a later layer"));
            } else if rank.contains_key(used) && !may_use(name, used) {
                findings.push(format!("crates/{name}/Cargo.toml: uses {used} (xtask tidy, ONLY_USES)"));
            }
        }
    }
    Ok(findings)
}

fn may_use(name: &str, used: &str) -> bool {
    ONLY_USES.iter().find(|(owner, _)| *owner == name).is_none_or(|(_, allowed)| allowed.contains(&used))
}

/// The folder of a package below `crates`: packages are named `phalanx-…`, folders are not.
fn crate_folder(package: &Value) -> &str {
    let name = package.as_str().unwrap_or_default();
    name.strip_prefix("phalanx-").unwrap_or(name)
}

fn check_rust_file(
    root: &Path,
    file: &Path,
    types: &mut TypeNames,
    functions: &mut FunctionNames,
) -> anyhow::Result<Vec<String>> {
    let shown = file.to_string_lossy().into_owned();
    let text = fs::read_to_string(root.join(file)).with_context(|| shown.clone())?;
    let is_test = shown.contains("/tests/");
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(format!("{shown}:1: a file begins with a module comment (//!)"));
    }
    let code = code_before_tests(&text);
    let lines = code.lines().count();
    if lines > MAX_FILE_LINES && !is_test {
        findings.push(format!("{shown}: {lines} lines before its tests, more than {MAX_FILE_LINES}"));
    }
    if shown != "crates/xtask/src/tidy.rs" {
        findings.extend(banned_calls(&shown, if is_test { "" } else { code }));
    }
    let parsed = syn::parse_file(&text).with_context(|| format!("{shown} does not parse"))?;
    types.read(&shown, &parsed);
    functions.read(&parsed);
    let mut lengths = FunctionLengths { file: &shown, findings: Vec::new() };
    lengths.visit_file(&parsed);
    findings.extend(lengths.findings);
    Ok(findings)
}

/// The part of a file before its test module.
fn code_before_tests(text: &str) -> &str {
    text.find("\n#[cfg(test)]").map_or(text, |at| &text[..at])
}

fn banned_calls(file: &str, code: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for ban in BANNED_TEXTS {
        let applies = ban.only_in.is_empty() || ban.only_in.iter().any(|folder| file.starts_with(folder));
        if !applies || ban.allowed.iter().any(|folder| file.starts_with(folder)) {
            continue;
        }
        for (number, line) in code.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            // FxHashMap has no random seed; it is for look-ups.
            if !is_comment && line.replace("FxHash", "").contains(ban.text) {
                findings.push(format!("{file}:{}: {} ({})", number + 1, ban.text, ban.reason));
            }
        }
    }
    findings
}

struct FunctionLengths<'a> {
    file: &'a str,
    findings: Vec<String>,
}

impl FunctionLengths<'_> {
    fn check(&mut self, name: &syn::Ident, attributes: &[syn::Attribute], body: &syn::Block) {
        let is_test = attributes.iter().any(|a| a.path().segments.last().is_some_and(|s| s.ident == "test"));
        let (start, end) = (name.span().start().line, body.span().end().line);
        let lines = end + 1 - start;
        if lines > MAX_FUNCTION_LINES && !is_test {
            self.findings
                .push(format!("{}:{start}: fn {name} has {lines} lines, more than {MAX_FUNCTION_LINES}", self.file));
        }
    }
}

impl<'ast> Visit<'ast> for FunctionLengths<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.check(&function.sig.ident, &function.attrs, &function.block);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.check(&function.sig.ident, &function.attrs, &function.block);
        syn::visit::visit_impl_item_fn(self, function);
    }
}

/// Links to files of this repository must have a target.
fn dead_links(root: &Path, file: &Path) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(root.join(file))?;
    let folder = root.join(file).parent().map(Path::to_path_buf).unwrap_or_default();
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for piece in line.split("](").skip(1) {
            let target = piece.split(')').next().unwrap_or_default().split('#').next().unwrap_or_default();
            let is_local = !target.is_empty() && !target.contains("://") && !target.contains(' ');
            if is_local && !folder.join(target).exists() {
                findings.push(format!("{}:{}: dead link {target}", file.display(), number + 1));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::{banned_calls, code_before_tests, may_use};

    #[test]
    fn crates_without_rules_use_types_only() {
        assert!(may_use("store", "types") && may_use("apiserver", "api"));
        assert!(!may_use("store", "api") && !may_use("runtime", "store") && !may_use("xtask", "types"));
    }

    #[test]
    fn a_wall_clock_in_a_core_is_found_and_in_the_binary_is_not() {
        let code = "fn now() -> SystemTime { SystemTime::now() }";
        assert_eq!(banned_calls("crates/store/src/a.rs", code).len(), 1);
        assert!(banned_calls("crates/phalanx/src/main.rs", code).is_empty());
    }

    #[test]
    fn unordered_maps_are_found_in_the_core_but_fx_maps_are_not() {
        assert_eq!(banned_calls("crates/scheduler-core/src/a.rs", "let m = HashMap::new();").len(), 1);
        assert!(banned_calls("crates/scheduler-core/src/a.rs", "let m = FxHashMap::default();").is_empty());
    }

    #[test]
    fn tests_at_the_end_of_a_file_do_not_count() {
        assert_eq!(code_before_tests("fn a() {}\n#[cfg(test)]\nmod tests {}"), "fn a() {}");
    }
}
