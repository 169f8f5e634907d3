//! The seeds of the fuzz targets, checked as the fuzzer does. Every crash that was ever found is among them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::fuzz::{FuzzOutcome, FuzzTarget, TARGETS};

/// The seeds are part of every checkout; larger inputs can be minimized (`cargo fuzz tmin`).
const MAX_SEED_BYTES: u64 = 300 << 10;

pub fn seeds(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

/// Replays the seeds of a target. A name states the expected outcome: `accepted-…` or `refused-…`. Other seeds only
/// have to pass all checks.
fn replay(name: &str) {
    let (_, check): &(&str, FuzzTarget) = TARGETS.iter().find(|(target, _)| *target == name).unwrap();
    for file in seeds(name) {
        let shown = file.file_name().unwrap().to_string_lossy().into_owned();
        eprintln!("{name}/{shown}");
        let outcome = check(&fs::read(&file).unwrap());
        let want = match shown.split('-').next() {
            Some("accepted") => FuzzOutcome::Accepted,
            Some("refused") => FuzzOutcome::Refused,
            _ => outcome,
        };
        assert_eq!(outcome, want, "fuzz/seeds/{name}/{shown}");
    }
}

#[test]
fn accepted_bodies_can_be_written_back() {
    replay("body");
}

#[test]
fn patches_produce_a_valid_object_or_change_nothing() {
    replay("patch");
}

#[test]
fn accepted_selectors_select_exactly_what_they_match() {
    replay("selector");
}

#[test]
fn continue_tokens_return_the_rest_of_the_list_or_are_refused() {
    replay("continue_token");
}

#[test]
fn damage_in_store_files_is_reported_and_never_served() {
    replay("store_file");
}

#[test]
fn every_target_has_small_seeds_and_every_seed_has_a_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let folders: BTreeSet<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(folders, TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect());
    let bytes: u64 = TARGETS.iter().flat_map(|(name, _)| seeds(name)).map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes <= MAX_SEED_BYTES, "{bytes} bytes of seeds");
}
