//! The documents for users: the guides have every command, setting and feature gate, and the change log has the version.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{phalanx, text};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README and guides in one text.
fn guides() -> String {
    let mut files: Vec<PathBuf> = vec![root().join("README.md")];
    files.extend(std::fs::read_dir(root().join("docs/guides")).unwrap().map(|entry| entry.unwrap().path()));
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// The commands that the help lists.
fn commands() -> Vec<String> {
    let help = text(&phalanx(&["--help"]).stdout);
    let (_, list) = help.split_once("Commands:\n").unwrap();
    // Descriptions may continue on the next line, with more indentation.
    let lines = list.lines().take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

// Shows: S000-70
// Shows: S000-72
// Shows: S000-84
#[test]
fn the_guide_to_jobs_has_every_setting_label_annotation_and_condition() {
    let guide = std::fs::read_to_string(root().join("docs/guides/jobs.md")).unwrap();
    for word in [
        "controllers.autoGang",
        "controllers.plainJobs",
        "controllers.onSuspend",
        "controllers.childOwners",
        "controllers.countDisruptions",
        "WorkloadWithJob",
        "JobWorkloadRef",
        "delete and recreate",
        controllers::job::settings::GROUPS_LABEL,
        controllers::job::job_params::MANAGED_BY_ANNOTATION,
        controllers::job::scheduling::Fallback::CONDITION,
        controllers::job::scheduling::Fallback::BLOCKED_CONDITION,
        controllers::job::status::group_condition::GROUP_SCHEDULED,
        api::views::PodGroupView::AFTER_MIN_COUNT_ANNOTATION,
        api::views::PodGroupView::EXPECTED_COUNT_ANNOTATION,
    ] {
        assert!(guide.contains(word), "docs/guides/jobs.md does not mention {word}");
    }
    for moment in ["the Job has no pod", "`parallelism` or `minCount` changes", "| suspend |", "on resume"] {
        assert!(guide.contains(moment), "docs/guides/jobs.md does not cover: {moment}");
    }
}

#[test]
fn the_guide_to_kubectl_lists_every_kind() {
    let guide = std::fs::read_to_string(root().join("docs/guides/kubectl.md")).unwrap();
    let (_, list) = guide.split_once("The server has these kinds: ").unwrap();
    let listed = list.lines().next().unwrap().split(" (").next().unwrap().split(", ");
    let served = api::kinds::ALL.iter().map(|resource| resource.kind);
    assert_eq!(listed.collect::<BTreeSet<_>>(), served.collect::<BTreeSet<_>>());
}

// Shows: S000-02
#[test]
fn every_command_and_feature_is_documented_and_the_change_log_has_the_version() {
    let (guides, commands) = (guides(), commands());
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        assert!(guides.contains(&format!("phalanx {command}")), "no guide has `phalanx {command}`");
    }
    for gate in api::gates::Gate::ALL {
        assert!(guides.contains(gate.name()), "no guide has the feature gate {}", gate.name());
    }
    let log = std::fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let version = concat!("\n## [", env!("CARGO_PKG_VERSION"), "] - ");
    let (before, entries) =
        log.split_once(version).expect("CHANGELOG.md has a heading for the version of this program");
    assert!(before.contains("\n## [Unreleased]\n"), "CHANGELOG.md: no heading Unreleased above {version}");
    let (_, entries) = entries.split_once('\n').expect("the heading ends with its line");
    assert!(
        entries.trim_start().starts_with("### ") && entries.contains("\n- "),
        "CHANGELOG.md: no entry below {version}"
    );
}

#[test]
fn no_document_has_kubectl_watch_several_kinds_at_once() {
    // kubectl refuses it: "you may only specify a single resource type".
    for line in guides().lines().filter(|line| line.contains("kubectl get")) {
        for command in line.split("kubectl get").skip(1) {
            let words: Vec<&str> = command.split(['`', '&', '#']).next().unwrap().split_whitespace().collect();
            let watches = words.iter().any(|word| matches!(*word, "-w" | "--watch" | "--watch-only"));
            assert!(!watches || !words.iter().any(|word| word.contains(',')), "{line}");
        }
    }
}
