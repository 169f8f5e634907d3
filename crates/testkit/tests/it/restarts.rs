//! The controllers end before or after any single one of their writes, and go on where they were (promise 9).
//!
//! Each story of `scenarios` is played undisturbed, which tells how many writes the controllers need for it, and then
//! twice for each of these: once the write is under way and never arrives, once it is done and the answer never comes;
//! then all controllers end and start again with nothing in memory. What is left at the end must be the same.

use testkit::fault::Fault;
use testkit::on_paused_clock;

use crate::end_state::assert_equivalent;
use crate::scenario_run::{BUDGET, ScenarioRun, run_without_faults};
use crate::scenarios::{self, Scenario};

/// Plays the story twice for each write of the controllers, who end before it or after it.
fn at_every_write(scenario: Scenario) {
    let (want, writes) = run_without_faults(scenario);
    assert!(writes > 0, "a test of nothing");
    // The write, or its answer, is under way for ever.
    for (when, fault) in [("before", Fault::Delay(BUDGET * 2)), ("after", Fault::DelayResponse(BUDGET * 2))] {
        for nth in 1..=writes {
            on_paused_clock(async {
                let case = format!("{}: the controllers end {when} write {nth} of {writes}", scenario.name);
                let mut play = ScenarioRun::embedded(scenario, case).await;
                play.crash_at(fault.clone(), nth);
                play.run_to_end().await;
                play.wait_until_settled().await;
                assert_eq!(play.crashes, 1, "{}: and it never came", play.case);
                assert_equivalent(&play.checked_end_state(), &want, &play.case);
            });
        }
    }
    println!("{}: equivalent after {} restarts, before and after each of {writes} writes", scenario.name, 2 * writes);
}

// Shows: S000-35
#[test]
fn a_plain_job_resumes_after_a_crash_at_any_write() {
    at_every_write(scenarios::PLAIN);
}

// Shows: S000-35
#[test]
fn a_gang_job_resumes_after_a_crash_at_any_write() {
    at_every_write(scenarios::GANG);
}

#[test]
fn failures_of_an_index_are_counted_exactly_after_a_crash_at_any_write() {
    at_every_write(scenarios::FAILING_INDEX);
}

#[test]
fn a_suspended_job_keeps_its_group_after_a_crash_at_any_write() {
    at_every_write(scenarios::SUSPENDED);
}

#[test]
fn an_elastic_gang_reaches_its_size_after_a_crash_at_any_write() {
    at_every_write(scenarios::ELASTIC);
}

#[test]
fn children_of_one_parent_get_one_group_each_after_a_crash_at_any_write() {
    at_every_write(scenarios::CHILDREN);
}

#[test]
fn each_scheduled_time_gets_one_job_after_a_crash_at_any_write() {
    at_every_write(scenarios::CRON);
}

#[test]
fn a_deleted_job_leaves_no_objects_after_a_crash_at_any_write() {
    at_every_write(scenarios::DELETED);
}
