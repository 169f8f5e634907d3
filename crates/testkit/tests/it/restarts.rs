//! The controllers crash before or after any single one of their writes, and resume (promise 9).
//!
//! Each scenario of `scenarios` runs once without faults, which gives the number of the controllers' writes, and then
//! twice for each of these writes: once the write never arrives, once it is applied and the response never arrives.
//! Then all controllers crash and restart with empty memory. The end state must be the same.

use testkit::fault::Fault;
use testkit::on_paused_clock;

use crate::end_state::assert_equivalent;
use crate::scenario_run::{BUDGET, ScenarioRun, run_without_faults};
use crate::scenarios::{self, Scenario};

/// Runs the scenario twice for each write of the controllers: they crash before it, or after it.
fn at_every_write(scenario: Scenario) {
    let (want, writes) = run_without_faults(scenario);
    assert!(writes > 0, "the controllers write nothing");
    // The write, or its response, never arrives.
    for (when, fault) in [("before", Fault::Delay(BUDGET * 2)), ("after", Fault::DelayResponse(BUDGET * 2))] {
        for nth in 1..=writes {
            on_paused_clock(async {
                let case = format!("{}: the controllers crash {when} write {nth} of {writes}", scenario.name);
                let mut run = ScenarioRun::embedded(scenario, case).await;
                run.crash_at(fault.clone(), nth);
                run.run_to_end().await;
                run.wait_until_settled().await;
                assert_eq!(run.crashes, 1, "{}: the crash did not happen", run.case);
                assert_equivalent(&run.checked_end_state(), &want, &run.case);
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
