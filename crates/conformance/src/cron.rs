//! Our reading of schedules, held against the library behind Kubernetes' CronJobs: `cargo xtask conformance cron`.
//!
//! The library is asked through a small Go program (tests/kube/cron) that depends on the version which Kubernetes
//! requires. Both are asked for the next five times; they must take and refuse the same texts, in the same words, and
//! name the same times.

mod generated_schedules; // what is asked

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
    /// What chooses schedules, zones and times
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many questions are asked
    #[arg(long, default_value_t = 20_000)]
    pub cases: usize,
}

/// How many times are compared for each question, unless there are fewer.
const TIMES: usize = 5;
const MONTH: Duration = Duration::from_secs(31 * 86_400);
/// So many differences are told in full.
const MAX_REPORTED: usize = 20;

/// What is asked: the times after `after` that `schedule` names on the clocks of `zone`.
#[derive(Clone, Debug, Serialize)]
struct ScheduleQuery {
    schedule: String,
    zone: &'static str,
    after: Timestamp,
}

impl ScheduleQuery {
    /// The zone that the schedule names itself, or else the given one.
    fn effective_zone(&self) -> &str {
        let named = self.schedule.strip_prefix("TZ=").or_else(|| self.schedule.strip_prefix("CRON_TZ="));
        named.and_then(|rest| rest.split_once(' ')).map_or(self.zone, |(zone, _)| zone)
    }
}

/// What one side says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ScheduleResponse {
    /// The next times; the last is none where there are no more within years.
    next: Vec<Option<Timestamp>>,
    /// Why the text is no schedule.
    error: String,
    /// It never returned.
    hangs: bool,
}

/// Compares, tells, and fails where there is a difference that is not wanted.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !kubernetes::has_go()? {
        return Ok(());
    }
    let draw = CaseGenerator::seeded(args.seed);
    let questions: Vec<ScheduleQuery> = (0..args.cases).map(|_| generated_schedules::random_query(&draw)).collect();
    let answers = query_library(&questions)?;
    let (mut refused, mut times, mut wanted, mut differences) = (0, 0, [0; EXPECTED_DIFFERENCES.len()], Vec::new());
    for (question, theirs) in questions.iter().zip(&answers) {
        refused += usize::from(!theirs.error.is_empty());
        times += theirs.next.iter().flatten().count();
        let ours = our_response(question)?;
        if ours == *theirs {
            continue;
        }
        match EXPECTED_DIFFERENCES.iter().position(|row| (row.covers)(question, &ours, theirs)) {
            Some(row) => wanted[row] += 1,
            None => differences.push(format!("{question:?}\n  theirs: {theirs:?}\n  ours:   {ours:?}")),
        }
    }
    println!(
        "{} schedules: {refused} refused, {times} times of the others compared, {} differ",
        questions.len(),
        differences.len()
    );
    for (row, count) in EXPECTED_DIFFERENCES.iter().zip(wanted) {
        println!("  wanted: {}: {count}", row.id);
    }
    ensure!(refused * 20 >= questions.len(), "hardly any schedule was refused: the generator shows nothing");
    ensure!(times >= questions.len(), "hardly any schedule was taken: the generator shows nothing");
    let told: Vec<String> = differences.iter().take(MAX_REPORTED).cloned().collect();
    ensure!(differences.is_empty(), "the library behind CronJobs says otherwise:\n{}", told.join("\n"));
    Ok(())
}

/// What we say.
fn our_response(question: &ScheduleQuery) -> anyhow::Result<ScheduleResponse> {
    let schedule = match Schedule::parse(&question.schedule) {
        Ok(schedule) => schedule,
        Err(error) => return Ok(ScheduleResponse { error: error.to_string(), ..ScheduleResponse::default() }),
    };
    let zone = time_zone(question.zone).with_context(|| format!("we know no zone {:?}", question.zone))?;
    let (mut next, mut at) = (Vec::new(), question.after);
    while next.len() < TIMES {
        let found = schedule.next_after(at, &zone);
        next.push(found);
        let Some(found) = found else { break };
        at = found;
    }
    Ok(ScheduleResponse { next, ..ScheduleResponse::default() })
}

/// All answers of the library, in order. Its program ends at a question from which it does not return, so it is asked the
/// rest anew.
fn query_library(questions: &[ScheduleQuery]) -> anyhow::Result<Vec<ScheduleResponse>> {
    // Not the machine's zones: the same answers everywhere.
    let zones = Path::new(&go_root()?).join("lib/time/zoneinfo.zip");
    let library = GoProgram::build("./cron", "cron")?.env("ZONEINFO", zones);
    let mut answers: Vec<ScheduleResponse> = Vec::new();
    while answers.len() < questions.len() {
        let before = answers.len();
        answers.extend(library.query::<_, ScheduleResponse>(&questions[before..])?);
        ensure!(answers.len() > before, "the library answers nothing");
    }
    Ok(answers)
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
    /// Why we do otherwise.
    reason: &'static str,
    /// Whether this is one: question, our answer, theirs.
    covers: fn(&ScheduleQuery, &ScheduleResponse, &ScheduleResponse) -> bool,
}

const EXPECTED_DIFFERENCES: [ExpectedCronDifference; 3] = [
    ExpectedCronDifference {
        id: "days without midnight",
        reason: "Where clocks are turned forward at midnight the library loses its way: it looks for that midnight for ever \
                 (and the controller with it), leaves the day out, or takes a time of it for one of the day before. We pass \
                 over the hour that is not there, and over nothing else.",
        covers: |question, ours, theirs| has_clock_change(question, ours, theirs, skips_midnight),
    },
    ExpectedCronDifference {
        id: "clocks turned by other than an hour",
        reason: "Where clocks are turned by half an hour the library goes on in whole hours, and misses times in the first \
                 half of those that follow; where they are turned back by two hours it leaves out some of what comes twice.",
        covers: |question, ours, theirs| {
            has_clock_change(question, ours, theirs, |turn| ![0, 3600].contains(&(turn.after - turn.before).abs()))
        },
    },
    ExpectedCronDifference {
        id: "clocks that differ by seconds",
        reason: "Before there were time zones, clocks differed by seconds from place to place. The library rounds to minutes \
                 of UTC there, and misses a minute now and then.",
        covers: |question, _, _| {
            let zone = time_zone(question.effective_zone());
            zone.is_some_and(|zone| zone.to_offset(question.after).seconds() % 60 != 0)
        },
    },
];

/// Clocks that are turned: what they show just before and from then on, in seconds.
struct ClockChange {
    before: i64,
    after: i64,
}

/// Whether clocks are turned in such a way up to the last time that either side names. The library begins with the month.
fn has_clock_change(
    question: &ScheduleQuery,
    ours: &ScheduleResponse,
    theirs: &ScheduleResponse,
    how: fn(&ClockChange) -> bool,
) -> bool {
    let last = ours.next.iter().chain(&theirs.next).flatten().max().copied().unwrap_or(question.after);
    let Some(zone) = time_zone(question.effective_zone()) else { return false };
    let Ok(begin) = question.after.checked_sub(MONTH) else { return false };
    let mut offset = zone.to_offset(begin);
    zone.following(begin).take_while(|turn| turn.timestamp() <= last).any(|turn| {
        let shown = |offset: i32| turn.timestamp().as_second() + i64::from(offset);
        let turned = ClockChange { before: shown(offset.seconds()), after: shown(turn.offset().seconds()) };
        offset = turn.offset();
        how(&turned)
    })
}

/// Whether the clocks never show a midnight.
fn skips_midnight(turn: &ClockChange) -> bool {
    let midnight = turn.after - turn.after.rem_euclid(86_400);
    (turn.before..turn.after).contains(&midnight)
}

/// The wanted differences for people, as docs/conformance.md has them.
pub fn render() -> anyhow::Result<String> {
    let mut text = "\n## Wanted differences from the schedules of Kubernetes 1.37.1\n\n".to_owned();
    text.push_str("`cargo xtask conformance cron` finds them, and leaves them out of its count.\n\n");
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

    fn question(schedule: &str, zone: &'static str, after: &str) -> ScheduleQuery {
        ScheduleQuery { schedule: schedule.to_owned(), zone, after: after.parse().unwrap() }
    }

    #[test]
    fn an_answer_ends_with_the_last_time_there_is() {
        let never = our_response(&question("0 0 31 2 *", "UTC", "2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(never, ScheduleResponse { next: vec![None], ..ScheduleResponse::default() });
        assert_eq!(our_response(&question("* * * * *", "UTC", "2026-01-01T00:00:00Z")).unwrap().next.len(), 5);
        assert!(!our_response(&question("* *", "UTC", "2026-01-01T00:00:00Z")).unwrap().error.is_empty());
    }

    #[test]
    fn only_clocks_that_lose_a_midnight_or_are_turned_oddly_excuse_a_difference() {
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
            let asked = question(schedule, zone, after);
            let ours = our_response(&asked).unwrap();
            let covers = |row: &usize| (EXPECTED_DIFFERENCES[*row].covers)(&asked, &ours, &ScheduleResponse::default());
            assert_eq!((0..EXPECTED_DIFFERENCES.len()).filter(covers).collect::<Vec<_>>(), want, "{schedule} {zone}");
        }
    }
}
