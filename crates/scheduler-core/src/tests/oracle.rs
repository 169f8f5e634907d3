//! An oracle for the whole core: after random changes, every waiting unit is decided from scratch by exhaustive search.
//!
//! A history has every kind of change that the core must notice: pods of several sizes, topology, gates, quorum edits,
//! labels, taints and allocatable resources, lost nodes, reservations, failed and unknown binds, pods that other
//! schedulers bind or nominate, failovers, and several runs of a group. Whenever the core has nothing more to decide, no unit that fits waits, no
//! gang is half bound for longer than allowed, and no node is over-committed.

mod change; // the changes of a history
mod model; // the state that they lead to, and what follows from it
mod run; // a core and the model beside it, compared
mod apply; // what each change does to both

use std::cell::Cell;
use std::time::Duration;

use proptest::test_runner::{TestCaseError, TestError, TestRunner};

use self::change::{Change, changes};
use self::run::OracleRun;
use super::property_config::{cases_factor, quiet_property_config};
use crate::Config;

/// Searches of clusters this small end. A recount would hide a missed wake-up.
fn config() -> Config {
    Config { recount_after: Duration::from_secs(1 << 30), reserve_after: None, ..Config::default() }
}

fn with_reservations() -> Config {
    let pause = Duration::from_secs(30);
    Config { reserve_after: Some(pause), max_reservation: 2 * pause, ..config() }
}

/// Runs generated histories, and prints the number of changes, which `cargo xtask long` records.
fn check(config: &Config, cases: u32) {
    let changes_count = Cell::new(0);
    let result = TestRunner::new(quiet_property_config(cases)).run(&changes(), |changes| {
        changes_count.set(changes_count.get() + changes.len());
        check_history(OracleRun::new(config.clone()), &changes);
        Ok::<(), TestCaseError>(())
    });
    match result {
        Ok(()) => {}
        // Once more, with what happened.
        Err(TestError::Fail(_, changes)) => check_history(OracleRun::printing(config.clone()), &changes),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
    if cases_factor().is_some() {
        println!("cases: {}", changes_count.get());
    }
}

fn check_history(mut run: OracleRun, changes: &[Change]) {
    changes.iter().for_each(|change| run.apply(change));
    run.apply(&Change::Decide { seconds: 60, outcomes: 0 });
}

#[test]
fn nothing_that_fits_waits_after_any_changes() {
    check(&config(), 100);
}

#[test]
fn nothing_that_fits_waits_between_reservations() {
    check(&with_reservations(), 60);
}
