//! The controllers are killed repeatedly while a Job runs: on virtual time, and as processes (SIGKILL) on the real
//! control plane. These are the three scenarios of `restarts` with the most state to lose:
//!
//! - pods without indexes, because only the server's list distinguishes a pod whose create got no response from one
//!   that was never created;
//! - a suspended gang, because its pods must be deleted without being counted, and recreated in the same group;
//! - a resized gang, because its size is in three objects that must agree in the end.

use testkit::fault::Fault;
use testkit::{TestCluster, on_test_cluster};

use crate::end_state::assert_equivalent;
use crate::scenario_run::{BUDGET, ScenarioRun};
use crate::scenarios::{ELASTIC, PLAIN, SUSPENDED, Scenario};

/// The maximum number of kills; a scenario may end before.
const MAX_KILLS: usize = 12;
/// The minimum number of kills. A scenario with few writes ends after as many.
const MIN_KILLS: usize = 6;

/// Runs the scenario with and without kills, and compares the end states. Kills are at every first or second write,
/// alternately before and after the server applies it.
fn survives_kills(scenario: Scenario) {
    let want = on_test_cluster(async {
        let mut run =
            ScenarioRun::on(TestCluster::start(7, 2).await, scenario, format!("{} without faults", scenario.name));
        run.run_to_end().await;
        run.wait_until_settled().await;
        run.checked_end_state()
    });
    on_test_cluster(async {
        let mut run =
            ScenarioRun::on(TestCluster::start(7, 2).await, scenario, format!("{} with kills", scenario.name));
        for kill in 0..MAX_KILLS {
            let fault = if kill % 2 == 0 { Fault::DelayResponse(BUDGET * 2) } else { Fault::Delay(BUDGET * 2) };
            run.crash_at(fault, 1 + (kill as u64 / 2) % 2);
        }
        run.run_to_end().await;
        run.wait_until_settled().await;
        assert_equivalent(&run.checked_end_state(), &want, &run.case);
        assert!(run.crashes >= MIN_KILLS, "{}: only {} kills", run.case, run.crashes);
        println!("{}: equivalent after {} kills", scenario.name, run.crashes);
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
