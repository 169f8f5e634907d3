//! The core's placements of mixed gangs, compared with those of an exact solver and with planted ones.

mod case; // a gang and its nodes in plain numbers, and the core's decision
mod exact; // the exact solver
mod generate; // generated cases

use std::fmt;

use types::Random;

use self::case::{SolverCase, Verdict};
use super::property_config::{cases_count, cases_seed};
use crate::Config;

/// Search steps of a decision that has time: 200 times the default.
const IDLE_STEPS: usize = 1_000_000;

/// What the core did with cases of one kind.
#[derive(Debug, Default)]
struct SearchRecord {
    cases: u32,
    /// Cases with a placement.
    fits: u32,
    /// Of those, how many were refused at default effort, and with more steps.
    missed: u32,
    missed_idle: u32,
    /// Refusals that were not proven at default effort, although there is no placement.
    unproven: u32,
}

impl SearchRecord {
    /// The core decides a case. What it places is checked, and what it proves.
    fn decide(&mut self, case: &SolverCase, fits: bool) {
        self.cases += 1;
        self.fits += u32::from(fits);
        match case.decide(Config::default().max_search_steps) {
            Verdict::Placed(placed) => {
                case.check_placement(&placed);
                assert!(fits, "the exact solver found no placement\n{case}");
            }
            Verdict::Refused { proven: true } => assert!(!fits, "refused as proven\n{case}"),
            Verdict::Refused { proven: false } if fits => {
                self.missed += 1;
                self.missed_idle += u32::from(!matches!(case.decide(IDLE_STEPS), Verdict::Placed(_)));
            }
            Verdict::Refused { proven: false } => self.unproven += 1,
        }
    }
}

impl fmt::Display for SearchRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SearchRecord { cases, fits, missed, missed_idle, unproven } = self;
        write!(f, "{cases} cases: {fits} fit, {missed} missed, {missed_idle} with more steps, {unproven} unproven")
    }
}

#[test]
fn placements_that_exist_are_found_and_what_is_proven_does_not_exist() {
    let random = Random::seeded(cases_seed());
    let mut record = SearchRecord::default();
    for _ in 0..cases_count(500) {
        let case = generate::small_case(&random);
        record.decide(&case, exact::fits(&case));
    }
    println!("exact solver, {record}");
    assert!(record.missed * 1000 <= record.fits, "{record}");
    assert_eq!(record.missed_idle, 0, "{record}");
}

// Pods were placed in two simple orders, and then node by node with most pods of the largest class first. That missed
// one planted placement in 25.
#[test]
fn planted_placements_on_up_to_64_nodes_are_found() {
    let random = Random::seeded(cases_seed());
    let mut all = SearchRecord::default();
    for fill_percent in [100, 95, 90, 80, 70] {
        let mut record = SearchRecord::default();
        for _ in 0..cases_count(40) {
            record.decide(&generate::planted_case(&random, fill_percent), true);
        }
        println!("planted at {fill_percent} %, {record}");
        all = SearchRecord {
            cases: all.cases + record.cases,
            fits: all.fits + record.fits,
            missed: all.missed + record.missed,
            missed_idle: all.missed_idle + record.missed_idle,
            unproven: 0,
        };
    }
    assert!(all.missed * 200 <= all.fits, "{all}");
}

// The comparison would show a search that misses placements, and one that claims a proof.
#[test]
fn the_exact_solver_finds_what_the_simple_orders_miss() {
    let random = Random::seeded(cases_seed());
    let missed = (0..200)
        .map(|_| generate::small_case(&random))
        .filter(|case| exact::fits(case) && matches!(case.decide(0), Verdict::Refused { proven: false }));
    assert!(missed.count() > 0);
}
