//! The controllers are killed again and again while a Job is under way: on virtual time, and as processes (SIGKILL) on the
//! real control plane. Of the stories of `restarts` these are the three that have most to lose:
//!
//! - pods without indexes, because nothing but the server's own list tells a pod whose creation was never answered from
//!   one that was never made;
//! - a gang that rests, because its pods must go without being counted, and come back into the same group;
//! - a gang that grows and shrinks, because its size stands in three objects that must agree in the end.

use testkit::fault::Fault;
use testkit::{TestCluster, on_test_cluster};

use crate::end_state::assert_equivalent;
use crate::scenario_run::{BUDGET, ScenarioRun};
use crate::scenarios::{ELASTIC, PLAIN, SUSPENDED, Scenario};

/// How often the controllers are killed at most; a story may be over before.
const MAX_KILLS: usize = 12;
/// The least of it that shows something. A story with few writes is over after so many.
const MIN_KILLS: usize = 6;

/// Plays the story with and without kills, and compares what is left. Kills come at every first or second write, by
/// turns before the server does it and after.
fn survives_kills(scenario: Scenario) {
    let want = on_test_cluster(async {
        let mut play =
            ScenarioRun::on(TestCluster::start(7, 2).await, scenario, format!("{}, undisturbed", scenario.name));
        play.run_to_end().await;
        play.wait_until_settled().await;
        play.checked_end_state()
    });
    on_test_cluster(async {
        let mut play =
            ScenarioRun::on(TestCluster::start(7, 2).await, scenario, format!("{} under kills", scenario.name));
        for kill in 0..MAX_KILLS {
            let fault = if kill % 2 == 0 { Fault::DelayResponse(BUDGET * 2) } else { Fault::Delay(BUDGET * 2) };
            play.crash_at(fault, 1 + (kill as u64 / 2) % 2);
        }
        play.run_to_end().await;
        play.wait_until_settled().await;
        assert_equivalent(&play.checked_end_state(), &want, &play.case);
        assert!(play.crashes >= MIN_KILLS, "{}: only {} kills", play.case, play.crashes);
        println!("{}: equivalent after {} kills", scenario.name, play.crashes);
    });
}

#[test]
fn a_plain_job_survives_kills_of_its_controllers() {
    survives_kills(PLAIN);
}

#[test]
fn a_suspended_gang_survives_kills_of_its_controllers() {
    survives_kills(SUSPENDED);
}

#[test]
fn an_elastic_gang_survives_kills_of_its_controllers() {
    survives_kills(ELASTIC);
}
