//! A day of a cluster of GPUs on virtual time: how long units wait, and what reservations keep idle.
//!
//! Small pods take what comes free, so large gangs starve without reservations. Hopeless gangs fit into an empty
//! cluster, but one pod in each rack never ends. The same day runs with and without reservations.

mod simulation; // the core, with virtual time around it
mod trace; // the units of a day

use std::fmt;
use std::time::Duration;

use scheduler_core::Config;
use serde_json::{Value, json};

use simulation::DaySimulation;
use trace::{DayTrace, UnitKind};

/// Simulates the day with and without reservations, prints both, and returns a JSON object for each.
pub fn run(seed: u64) -> Vec<Value> {
    let default = Config { remedies_interval: None, ..Config::default() };
    let without = Config { reserve_after: None, ..default.clone() };
    let runs = [("on", default), ("off", without)];
    println!("reservations  units        started   waiting     p50 s     p95 s     max s");
    let mut lines = Vec::new();
    for (reservations, config) in runs {
        let summary = DaySimulation::run(&DayTrace::generate(seed), config);
        print!("{}", DayRows { reservations, summary: &summary });
        lines.push(summary.to_json(seed, reservations));
    }
    lines
}

/// What happened on a day.
struct DaySummary {
    kinds: Vec<(UnitKind, WaitTimes)>,
    /// From the first to the last event.
    seconds: f64,
    /// The mean share of the GPUs that pods used until the last arrival.
    used_share: f64,
    /// The mean share of the cluster that reservations kept idle.
    reserved_idle_share: f64,
}

/// How long the units of one kind waited.
#[derive(Default)]
struct WaitTimes {
    /// In ascending order, in seconds.
    started: Vec<f64>,
    /// Units that did not start.
    waiting: usize,
}

impl WaitTimes {
    fn add(&mut self, wait: Option<Duration>) {
        match wait {
            Some(wait) => self.started.push(wait.as_secs_f64()),
            None => self.waiting += 1,
        }
    }

    /// The smallest wait that at least `percent` of the started units did not exceed.
    fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.started.len() * percent).div_ceil(100).max(1);
        self.started.get(rank - 1).copied().unwrap_or(f64::NAN)
    }
}

impl DaySummary {
    fn to_json(&self, seed: u64, reservations: &str) -> Value {
        let kinds = self.kinds.iter().map(|(kind, waits)| {
            let [p50, p95, max] = [50, 95, 100].map(|percent| waits.percentile(percent));
            json!({
                "kind": kind.name(), "started": waits.started.len(), "waiting": waits.waiting,
                "wait_s_p50": p50, "wait_s_p95": p95, "wait_s_max": max,
            })
        });
        json!({
            "case": "day", "system": "core", "nodes": trace::NODES, "seed": seed, "reservations": reservations,
            "seconds": self.seconds, "used_share": self.used_share,
            "reserved_idle_share": self.reserved_idle_share, "units": kinds.collect::<Vec<_>>(),
        })
    }
}

/// The lines of one run.
struct DayRows<'a> {
    reservations: &'a str,
    summary: &'a DaySummary,
}

impl fmt::Display for DayRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DayRows { reservations, summary } = self;
        for (kind, waits) in &summary.kinds {
            let [p50, p95, max] = [50, 95, 100].map(|percent| waits.percentile(percent));
            let (started, waiting) = (waits.started.len(), waits.waiting);
            let name = kind.name();
            writeln!(f, "{reservations:<13} {name:<11} {started:>8} {waiting:>9} {p50:>9.1} {p95:>9.1} {max:>9.1}")?;
        }
        let [used, reserved] = [summary.used_share, summary.reserved_idle_share].map(|share| share * 100.0);
        writeln!(f, "{reservations:<13} {used:.1} % of the GPUs used, {reserved:.2} % kept idle by reservations")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_smallest_wait_that_so_many_units_do_not_exceed() {
        let mut waits = WaitTimes::default();
        (1..=20).for_each(|seconds| waits.add(Some(Duration::from_secs(seconds))));
        waits.add(None);
        assert_eq!([50, 95, 100].map(|percent| waits.percentile(percent)), [10.0, 19.0, 20.0]);
        assert_eq!(waits.waiting, 1);
        assert!(WaitTimes::default().percentile(95).is_nan());
    }
}
