//! Medians of all rounds, and how the systems compare within this run.

use std::fmt::Write;

use super::schedulers::DecisionHistogram;
use super::{SchedulingRow, SchedulingSystem};
use crate::scheduling_cases::SchedulingCase;

/// One line for each case and system; empty if there is nothing to compare.
pub fn text(rows: &[SchedulingRow]) -> String {
    let mut cases: Vec<&SchedulingCase> = Vec::new();
    for row in rows {
        if !cases.contains(&&row.case) {
            cases.push(&row.case);
        }
    }
    let mut text = format!(
        "\n{:<14} {:<17} {:>7} {:>14} {:>17} {:>10} {:>16}\n",
        "case", "system", "rounds", "median pods/s", "x kube-scheduler", "% of bare", "decide x faster"
    );
    for case in cases {
        for system in SchedulingSystem::ALL {
            if let Some(line) = line(rows, case, system) {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

fn line(rows: &[SchedulingRow], case: &SchedulingCase, system: SchedulingSystem) -> Option<String> {
    let of = |system: SchedulingSystem| -> Vec<&SchedulingRow> {
        rows.iter().filter(|row| row.case == *case && row.system == system).collect()
    };
    let speed = |system: SchedulingSystem| median(of(system).into_iter().map(SchedulingRow::pods_per_second).collect());
    let mean_ms = |system: SchedulingSystem| {
        median(of(system).iter().filter_map(|row| row.decisions.as_ref()).map(DecisionHistogram::mean_ms).collect())
    };
    let ours = speed(system)?;
    let other = system != SchedulingSystem::KubeScheduler;
    let speedup =
        speed(SchedulingSystem::KubeScheduler).filter(|_| other).map(|theirs| format!("{:.1}", ours / theirs));
    // Only systems on the same server can be compared with the limit of that server.
    let bare = speed(SchedulingSystem::Bare)
        .filter(|_| other && system.uses_kube_apiserver() && system != SchedulingSystem::Bare);
    let share = bare.map(|bare| format!("{:.0}", ours / bare * 100.0));
    let faster = mean_ms(SchedulingSystem::KubeScheduler).filter(|_| other).zip(mean_ms(system));
    let faster = faster.map(|(theirs, ours)| format!("{:.0}", theirs / ours));
    let (case, system, rounds) = (case.to_string(), system.name(), of(system).len());
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let (speedup, share, faster) = (dash(speedup), dash(share), dash(faster));
    Some(format!("{case:<14} {system:<17} {rounds:>7} {ours:>14.0} {speedup:>17} {share:>10} {faster:>16}"))
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_compared_within_a_case_and_on_the_same_server() {
        let case: SchedulingCase = "gang-10x10".parse().expect("a case");
        let row = |system: SchedulingSystem, seconds: f64| SchedulingRow {
            system,
            case: case.clone(),
            seconds,
            ready_seconds: None,
            create_seconds: 1.0,
            decisions: None,
            rss_mb: None,
            window: None,
        };
        let rows = [
            row(SchedulingSystem::Bare, 1.0),
            row(SchedulingSystem::KubeScheduler, 10.0),
            row(SchedulingSystem::Phalanx, 1.25),
            row(SchedulingSystem::Phalanx, 100.0),
            row(SchedulingSystem::Phalanx, 1.0),
            row(SchedulingSystem::PhalanxEmbedded, 0.5),
        ];
        let text = text(&rows);
        let words = |system: &str| {
            let line = text.lines().find(|line| line.split_whitespace().nth(1) == Some(system)).expect(system);
            line.split_whitespace().skip(2).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("phalanx"), "3 80 8.0 80 -");
        assert_eq!(words("phalanx-embedded"), "1 200 20.0 - -");
        assert_eq!(words("kube-scheduler"), "1 10 - - -");
        assert_eq!(words("bare"), "1 100 10.0 - -");
    }
}
