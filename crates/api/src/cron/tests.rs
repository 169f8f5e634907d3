//! Accepted and refused schedules, and next times. The two tables were printed by the library behind Kubernetes'
//! CronJobs (robfig/cron v3.0.1) for random schedules, zones and times.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::{Schedule, time_zone};

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

#[track_caller]
fn assert_next_times(schedule: &str, zone: &str, after: &str, wants: &[&str]) {
    let (schedule, zone) = (Schedule::parse(schedule).expect("a schedule"), time_zone(zone).expect("a zone"));
    let mut at = time(after);
    for want in wants {
        at = schedule.next_after(at, &zone).expect("a next time");
        assert_eq!(at.to_string(), *want);
    }
}

#[test]
fn next_times_equal_those_of_robfig_cron() {
    let mut count = 0;
    for line in include_str!("known_next.tsv").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [schedule, zone, after, want] = columns[..] else { panic!("{line}") };
        let schedule = Schedule::parse(schedule).expect(line);
        let next = schedule.next_after(time(after), &time_zone(zone).expect(line));
        assert_eq!(next.map_or_else(|| "-".to_owned(), |next| next.to_string()), want, "{line}");
        count += 1;
    }
    assert!(count >= 400);
}

#[test]
fn invalid_schedules_have_the_messages_of_robfig_cron() {
    for line in include_str!("known_refusals.tsv").lines() {
        let (schedule, want) = line.split_once('\t').expect(line);
        assert_eq!(Schedule::parse(schedule).expect_err(line).to_string(), want, "{schedule}");
    }
}

#[test]
fn macros_equal_their_fields() {
    for (name, fields) in [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 JAN *"),
        ("@monthly", "0 0 1 * ?"),
        ("@weekly", "0 0 * * sun"),
        ("@daily", "0 0 */1 * *"),
        ("@midnight", "0 0 * * 0-6"),
        ("@hourly", "0 0/1 * * *"),
    ] {
        let (short, long) = (Schedule::parse(name).expect(name), Schedule::parse(fields).expect(fields));
        for after in ["2026-01-01T00:00:00Z", "2026-06-15T12:34:56Z"] {
            let next = |schedule: &Schedule| schedule.next_after(time(after), &TimeZone::UTC);
            assert_eq!(next(&short), next(&long), "{name} after {after}");
        }
    }
}

#[test]
fn every_adds_whole_seconds_to_the_given_time() {
    assert_next_times(
        "@every 1h30m",
        "UTC",
        "2026-01-01T00:00:10.5Z",
        &["2026-01-01T01:30:10Z", "2026-01-01T03:00:10Z"],
    );
    assert_next_times("@every 1500ms", "UTC", "2026-01-01T00:00:00Z", &["2026-01-01T00:00:01Z"]);
    assert_next_times("@every -5m", "UTC", "2026-01-01T00:00:00Z", &["2026-01-01T00:00:01Z"]);
}

#[test]
fn skipped_hour_does_not_match_and_repeated_hour_matches_twice() {
    let zone = "America/New_York";
    assert_next_times("30 2 * * *", zone, "2026-03-07T08:00:00Z", &["2026-03-09T06:30:00Z"]);
    assert_next_times("30 1 * * *", zone, "2026-10-31T12:00:00Z", &["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]);
}

// Upstream: robfig/cron loops forever here, because it looks for a midnight that does not exist.
#[test]
fn day_without_midnight_is_handled() {
    let zone = "Asia/Beirut";
    assert_next_times("0 0 * * *", zone, "2026-03-28T12:00:00Z", &["2026-03-29T21:00:00Z"]);
    assert_next_times("30 12 29 3 *", zone, "2026-03-28T12:00:00Z", &["2026-03-29T09:30:00Z"]);
}

// Upstream: where clocks change by half an hour, robfig/cron misses the first half of the following hours.
#[test]
fn half_hour_clock_changes_miss_no_match() {
    assert_next_times("* 17 * * *", "Australia/Lord_Howe", "2026-04-04T15:12:55Z", &["2026-04-05T06:30:00Z"]);
}

// Upstream: robfig/cron rounds to minutes of UTC, and sometimes misses a minute or an hour.
#[test]
fn minutes_are_those_of_the_wall_clock_for_offsets_with_seconds() {
    assert_next_times(
        "@hourly",
        "America/Nuuk",
        "1916-05-12T21:12:02Z",
        &["1916-05-12T21:26:56Z", "1916-05-12T22:26:56Z"],
    );
    assert_next_times(
        "* * * * *",
        "America/New_York",
        "1800-01-01T00:00:03Z",
        &["1800-01-01T00:01:02Z", "1800-01-01T00:02:02Z"],
    );
}

#[test]
fn zone_in_the_schedule_is_in_the_database_or_local() {
    assert_next_times("TZ=Local 0 9 * * *", "Asia/Tokyo", "2026-01-01T12:00:00Z", &["2026-01-02T00:00:00Z"]);
    for (name, cause) in [("Mars/Base", "unknown time zone Mars/Base"), ("../x", "time: invalid location name")] {
        let refused = Schedule::parse(&format!("TZ={name} * * * * *")).expect_err(name).to_string();
        assert_eq!(refused, format!("provided bad location {name}: {cause}"));
    }
}

#[test]
fn zone_in_the_schedule_wins() {
    assert_next_times(
        "CRON_TZ=Asia/Tokyo 0 9 * * *",
        "America/New_York",
        "2026-01-01T12:00:00Z",
        &["2026-01-02T00:00:00Z"],
    );
    assert_next_times("TZ=UTC @daily", "Asia/Tokyo", "2026-01-01T12:00:00Z", &["2026-01-02T00:00:00Z"]);
}

#[test]
fn days_of_month_and_week_are_both_required_only_if_one_is_a_wildcard() {
    // The 13th or a Friday.
    assert_next_times("0 0 13 * 5", "UTC", "2026-01-01T00:00:00Z", &["2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"]);
    assert_next_times("0 0 13 * *", "UTC", "2026-01-01T00:00:00Z", &["2026-01-13T00:00:00Z"]);
    let never = Schedule::parse("0 0 31 2 *").expect("a schedule");
    assert_eq!(never.next_after(time("2026-01-01T00:00:00Z"), &TimeZone::UTC), None);
}

#[test]
fn zone_names_are_case_sensitive() {
    assert!(time_zone("Europe/Berlin").is_some() && time_zone("UTC").is_some() && time_zone("Etc/UTC").is_some());
    assert!(time_zone("europe/berlin").is_none() && time_zone("Mars/Olympus").is_none());
}

proptest! {
    #[test]
    fn parser_does_not_panic(text in "[-*/?,@ 0-9a-zA-Z=:.]{0,40}") {
        if let Ok(schedule) = Schedule::parse(&text) {
            let after = time("2026-01-01T00:00:00Z");
            if let Some(next) = schedule.next_after(after, &TimeZone::UTC) {
                prop_assert!(next > after);
            }
        }
    }
}

#[test]
fn last_time_equals_repeated_next_times() {
    for (schedule, zone, after, until) in [
        ("* * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T03:04:05Z"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-20T00:00:00Z", "2026-03-29T12:00:00Z"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-20T00:00:00Z", "2026-10-25T01:30:00Z"),
        ("*/7 3 1 1 *", "America/New_York", "2020-01-01T00:00:00Z", "2026-11-01T00:00:00Z"),
        ("0 0 29 2 *", "Asia/Tokyo", "2020-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("@every 90s", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T01:00:01Z"),
        ("0 * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
    ] {
        let (rule, zone) = (Schedule::parse(schedule).expect("a schedule"), time_zone(zone).expect("a zone"));
        let (mut at, until) = (time(after), time(until));
        while let Some(next) = rule.next_after(at, &zone).filter(|next| *next <= until) {
            at = next;
        }
        assert_eq!(rule.last_until(time(after), until, &zone), Some(at), "{schedule}");
        let next = rule.next_after(at, &zone).expect("a next time");
        assert_eq!(rule.last_until(at, next - std::time::Duration::from_secs(1), &zone), None, "{schedule}");
    }
}
