//! Compares our parser of schedules with the library of Kubernetes' CronJobs: `cargo xtask conformance cron`.
//!
//! A small Go program (tests/kube/cron) calls the library, in the version that Kubernetes requires. Both sides return
//! the next five times. They must accept and refuse the same texts with the same messages, and return the same times.

mod generated_schedules; // the schedules

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use api::Timestamp;
use api::cron::{Schedule, time_zone};
use serde::{Deserialize, Serialize};
use supervisor::kubernetes;

use crate::builder::CaseGenerator;
use crate::go_program::GoProgram;

/// Options of `cargo xtask conformance cron`.
#[derive(clap::Args)]
pub struct Args {
    /// The seed of schedules, zones and times
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many schedules are compared
    #[arg(long, default_value_t = 20_000)]
    pub cases: usize,
}

/// How many times are compared for each schedule, unless there are fewer.
const TIMES: usize = 5;
const MONTH: Duration = Duration::from_secs(31 * 86_400);
/// The maximum number of reported differences.
const MAX_REPORTED: usize = 20;

/// The query: the times after `after` of `schedule` in `zone`.
#[derive(Clone, Debug, Serialize)]
struct ScheduleQuery {
    schedule: String,
    zone: &'static str,
    after: Timestamp,
}

impl ScheduleQuery {
    /// The zone in the schedule, or else the given one.
    fn effective_zone(&self) -> &str {
        let named = self.schedule.strip_prefix("TZ=").or_else(|| self.schedule.strip_prefix("CRON_TZ="));
        named.and_then(|rest| rest.split_once(' ')).map_or(self.zone, |(zone, _)| zone)
    }
}

/// The response of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ScheduleResponse {
    /// The next times; the last is `None` if there are no more within years.
    next: Vec<Option<Timestamp>>,
    /// Why the text is not a schedule.
    error: String,
    /// Whether the call never returned.
    hangs: bool,
}

/// Compares, prints a report, and fails on any difference that is not expected.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !kubernetes::has_go()? {
        return Ok(());
    }
    let generator = CaseGenerator::seeded(args.seed);
    let queries: Vec<ScheduleQuery> = (0..args.cases).map(|_| generated_schedules::random_query(&generator)).collect();
    let responses = query_library(&queries)?;
    let (mut refused, mut times, mut expected, mut differences) = (0, 0, [0; EXPECTED_DIFFERENCES.len()], Vec::new());
    for (query, theirs) in queries.iter().zip(&responses) {
        refused += usize::from(!theirs.error.is_empty());
        times += theirs.next.iter().flatten().count();
        let ours = our_response(query)?;
        if ours == *theirs {
            continue;
        }
        match EXPECTED_DIFFERENCES.iter().position(|row| (row.covers)(query, &ours, theirs)) {
            Some(row) => expected[row] += 1,
            None => differences.push(format!("{query:?}\n  theirs: {theirs:?}\n  ours:   {ours:?}")),
        }
    }
    println!(
        "{} schedules: {refused} refused, {times} times of the others compared, {} differ",
        queries.len(),
        differences.len()
    );
    for (row, count) in EXPECTED_DIFFERENCES.iter().zip(expected) {
        println!("  expected: {}: {count}", row.id);
    }
    ensure!(refused * 20 >= queries.len(), "hardly any schedule was refused: the generator is useless");
    ensure!(times >= queries.len(), "hardly any schedule was accepted: the generator is useless");
    let reported: Vec<String> = differences.iter().take(MAX_REPORTED).cloned().collect();
    ensure!(differences.is_empty(), "the library of CronJobs differs:\n{}", reported.join("\n"));
    Ok(())
}

/// Our response.
fn our_response(query: &ScheduleQuery) -> anyhow::Result<ScheduleResponse> {
    let schedule = match Schedule::parse(&query.schedule) {
        Ok(schedule) => schedule,
        Err(error) => return Ok(ScheduleResponse { error: error.to_string(), ..ScheduleResponse::default() }),
    };
    let zone = time_zone(query.zone).with_context(|| format!("unknown zone {:?}", query.zone))?;
    let (mut next, mut at) = (Vec::new(), query.after);
    while next.len() < TIMES {
        let found = schedule.next_after(at, &zone);
        next.push(found);
        let Some(found) = found else { break };
        at = found;
    }
    Ok(ScheduleResponse { next, ..ScheduleResponse::default() })
}

/// All responses of the library, in order. Its program ends at a query that does not return, and is started again for
/// the rest.
fn query_library(queries: &[ScheduleQuery]) -> anyhow::Result<Vec<ScheduleResponse>> {
    // Not the zones of this machine, so that the results are the same everywhere.
    let zones = Path::new(&go_root()?).join("lib/time/zoneinfo.zip");
    let library = GoProgram::build("./cron", "cron")?.env("ZONEINFO", zones);
    let mut responses: Vec<ScheduleResponse> = Vec::new();
    while responses.len() < queries.len() {
        let before = responses.len();
        responses.extend(library.query::<_, ScheduleResponse>(&queries[before..])?);
        ensure!(responses.len() > before, "the library returns nothing");
    }
    Ok(responses)
}

fn go_root() -> anyhow::Result<String> {
    let folder = supervisor::repository_root()?.join("tests/kube");
    let output = Command::new("go").args(["env", "GOROOT"]).current_dir(folder).output().context("running `go env`")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A difference that does not count.
struct ExpectedCronDifference {
    /// A short name.
    id: &'static str,
    /// Why ours differs.
    reason: &'static str,
    /// Whether it covers this difference: query, our response, theirs.
    covers: fn(&ScheduleQuery, &ScheduleResponse, &ScheduleResponse) -> bool,
}

const EXPECTED_DIFFERENCES: [ExpectedCronDifference; 3] = [
    ExpectedCronDifference {
        id: "days without midnight",
        reason: "When clocks are turned forward at midnight, the library searches for that midnight forever (and so \
                 does the controller), omits the day, or returns a time of that day as one of the day before. We \
                 skip only the missing hour.",
        covers: |query, ours, theirs| has_clock_change(query, ours, theirs, skips_midnight),
    },
    ExpectedCronDifference {
        id: "clocks turned by other than an hour",
        reason: "When clocks are turned by half an hour, the library continues in whole hours and misses times in \
                 the first half of the following hours. When they are turned back by two hours, it omits some of the \
                 repeated times.",
        covers: |query, ours, theirs| {
            has_clock_change(query, ours, theirs, |change| ![0, 3600].contains(&(change.after - change.before).abs()))
        },
    },
    ExpectedCronDifference {
        id: "clocks that differ by seconds",
        reason: "Before there were time zones, the clocks of two places differed by seconds. The library rounds to \
                 minutes of UTC there, and sometimes misses a minute.",
        covers: |query, _, _| {
            let zone = time_zone(query.effective_zone());
            zone.is_some_and(|zone| zone.to_offset(query.after).seconds() % 60 != 0)
        },
    },
];

/// A clock change: the local times just before and after it, in seconds.
struct ClockChange {
    before: i64,
    after: i64,
}

/// Whether there is such a clock change up to the last time of either side. The library begins with the month.
fn has_clock_change(
    query: &ScheduleQuery,
    ours: &ScheduleResponse,
    theirs: &ScheduleResponse,
    how: fn(&ClockChange) -> bool,
) -> bool {
    let last = ours.next.iter().chain(&theirs.next).flatten().max().copied().unwrap_or(query.after);
    let Some(zone) = time_zone(query.effective_zone()) else { return false };
    let Ok(begin) = query.after.checked_sub(MONTH) else { return false };
    let mut offset = zone.to_offset(begin);
    zone.following(begin).take_while(|change| change.timestamp() <= last).any(|change| {
        let shown = |offset: i32| change.timestamp().as_second() + i64::from(offset);
        let clock_change = ClockChange { before: shown(offset.seconds()), after: shown(change.offset().seconds()) };
        offset = change.offset();
        how(&clock_change)
    })
}

/// Whether the clock change skips a midnight.
fn skips_midnight(change: &ClockChange) -> bool {
    let midnight = change.after - change.after.rem_euclid(86_400);
    (change.before..change.after).contains(&midnight)
}

/// The expected differences as Markdown for docs/conformance.md.
pub fn render() -> anyhow::Result<String> {
    let mut text = "\n## Expected differences from the schedules of Kubernetes 1.37.1\n\n".to_owned();
    text.push_str("`cargo xtask conformance cron` finds these differences and does not count them.\n\n");
    text.push_str("| difference | reason |\n| --- | --- |\n");
    for row in &EXPECTED_DIFFERENCES {
        writeln!(text, "| {} | {} |", row.id, row.reason)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{EXPECTED_DIFFERENCES, ScheduleQuery, ScheduleResponse, our_response};

    fn query(schedule: &str, zone: &'static str, after: &str) -> ScheduleQuery {
        ScheduleQuery { schedule: schedule.to_owned(), zone, after: after.parse().unwrap() }
    }

    #[test]
    fn a_response_ends_with_the_last_time() {
        let never = our_response(&query("0 0 31 2 *", "UTC", "2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(never, ScheduleResponse { next: vec![None], ..ScheduleResponse::default() });
        assert_eq!(our_response(&query("* * * * *", "UTC", "2026-01-01T00:00:00Z")).unwrap().next.len(), 5);
        assert!(!our_response(&query("* *", "UTC", "2026-01-01T00:00:00Z")).unwrap().error.is_empty());
    }

    #[test]
    fn only_skipped_midnights_and_unusual_clock_changes_excuse_a_difference() {
        let (march, april) = ("2026-03-15T00:00:00Z", "2026-04-20T00:00:00Z");
        for (schedule, zone, after, want) in [
            ("0 17 1 * *", "Australia/Lord_Howe", march, vec![1]),
            ("0 17 1 * *", "Australia/Sydney", march, vec![]),
            ("0 17 1 * *", "Asia/Beirut", march, vec![0]),
            ("0 17 20 3 *", "Europe/Berlin", march, vec![]),
            ("TZ=Africa/Cairo 0 17 1 * *", "UTC", april, vec![0]),
            ("0 17 1 * *", "UTC", march, vec![]),
            ("0 17 1 * *", "Antarctica/Troll", march, vec![1]),
            ("0 17 1 * *", "Asia/Kolkata", "1800-03-15T00:00:00Z", vec![2]),
        ] {
            let query = query(schedule, zone, after);
            let ours = our_response(&query).unwrap();
            let covers = |row: &usize| (EXPECTED_DIFFERENCES[*row].covers)(&query, &ours, &ScheduleResponse::default());
            assert_eq!((0..EXPECTED_DIFFERENCES.len()).filter(covers).collect::<Vec<_>>(), want, "{schedule} {zone}");
        }
    }
}
