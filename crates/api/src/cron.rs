//! Schedules of CronJobs: cron's five-field format, its macros, and the next time after a given one.
//!
//! The dialect is that of the library behind Kubernetes' CronJobs (robfig/cron v3, standard parser), including what it
//! accepts by accident: `5/15` runs from 5 on, `?` is `*`, a list may have empty entries, `TZ=` may come first.

mod field; // one field: a set of numbers
mod duration; // the duration of `@every`
mod quote; // quoted text in errors

use std::sync::OnceLock;

use jiff::civil::Weekday;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, Zoned};

use field::{CronField, FieldBounds};

/// The search for a time that never comes (31 February) stops after this many years.
const MAX_YEARS_AHEAD: i16 = 5;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The zone in the schedule itself (`TZ=`). It wins over the zone argument of [`Schedule::next_after`].
    zone: Option<TimeZone>,
    rule: ScheduleRule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ScheduleRule {
    /// At wall-clock times that match.
    Calendar(Calendar),
    /// At a fixed interval after the last time, in whole seconds.
    Every(SignedDuration),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Calendar {
    minute: CronField,
    hour: CronField,
    day_of_month: CronField,
    month: CronField,
    day_of_week: CronField,
}

/// Why a text is not a schedule, with the message of the library behind Kubernetes' CronJobs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseScheduleError(String);

impl Schedule {
    /// Parses a schedule.
    pub fn parse(text: &str) -> Result<Schedule, ParseScheduleError> {
        let bad = |cause: String| Err(ParseScheduleError(cause));
        if text.is_empty() {
            return bad("empty spec string".to_owned());
        }
        let (zone, text) = match text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            None => (None, text),
            Some(rest) => {
                // Upstream: the parser panics here, and that is the user's message.
                let Some((name, rest)) = rest.split_once(' ') else {
                    return bad("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
                };
                (parse_zone(name).map_err(ParseScheduleError)?, rest.trim())
            }
        };
        let rule = if text.starts_with('@') { descriptor(text)? } else { ScheduleRule::Calendar(five_fields(text)?) };
        Ok(Schedule { zone, rule })
    }

    /// The first time after `after` that matches, in `zone` unless the schedule has a zone itself. `None` if there is
    /// none within five years.
    ///
    /// A wall-clock time that is skipped in spring does not occur that day. One that is repeated in autumn occurs
    /// twice.
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.rule {
            ScheduleRule::Every(span) => whole_seconds(after)?.checked_add(*span).ok(),
            ScheduleRule::Calendar(calendar) => calendar.next_after(after, self.zone.as_ref().unwrap_or(zone)),
        }
    }

    /// The last time after `after` and up to `until` that matches. It equals repeated calls of
    /// [`Schedule::next_after`], but needs only a few dozen steps for any number of times in between.
    pub fn last_until(&self, after: Timestamp, until: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut last = self.next_after(after, zone).filter(|first| *first <= until)?;
        if let ScheduleRule::Every(span) = &self.rule {
            let steps = (until.as_second() - last.as_second()) / span.as_secs();
            return last.checked_add(SignedDuration::from_secs(steps * span.as_secs())).ok();
        }
        // Any time after the last one leads beyond `until`, any time before it does not.
        let (mut low, mut high) = (last.as_second(), until.as_second());
        while low < high {
            let middle = low + (high - low) / 2;
            let next = Timestamp::from_second(middle).ok().and_then(|middle| self.next_after(middle, zone));
            match next.filter(|next| *next <= until) {
                Some(later) => (last, low) = (later, later.as_second()),
                None => high = middle,
            }
        }
        Some(last)
    }
}

/// The zone in a schedule; none if it means the zone argument.
fn parse_zone(name: &str) -> Result<Option<TimeZone>, String> {
    if name == "Local" {
        return Ok(None);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err(format!("provided bad location {name}: time: invalid location name"));
    }
    time_zone(name).map(Some).ok_or_else(|| format!("provided bad location {name}: unknown time zone {name}"))
}

/// The zone with this IANA name, from the database in the binary: the same on every machine. Names are case-sensitive.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    if matches!(name, "" | "UTC") {
        return Some(TimeZone::UTC);
    }
    static DATABASE: OnceLock<TimeZoneDatabase> = OnceLock::new();
    let zone = DATABASE.get_or_init(TimeZoneDatabase::bundled).get(name).ok()?;
    (zone.iana_name() == Some(name)).then_some(zone)
}

/// `time` truncated to seconds.
fn whole_seconds(time: Timestamp) -> Option<Timestamp> {
    let second = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
    Timestamp::from_second(second).ok()
}

impl Calendar {
    /// Advances in the largest steps that cannot miss a match: months, days, hours, minutes.
    fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut at = whole_seconds(after)?.to_zoned(zone.clone());
        // The minute of the wall clock: before there were time zones, offsets had seconds.
        at = at.checked_add(SignedDuration::from_secs(60 - i64::from(at.second()))).ok()?;
        let last_year = at.year().checked_add(MAX_YEARS_AHEAD)?;
        while at.year() <= last_year {
            at = if !self.month.has(at.month()) {
                at.last_of_month().ok()?.tomorrow().ok()?.start_of_day().ok()?
            } else if !self.matches_day(&at) {
                at.tomorrow().ok()?.start_of_day().ok()?
            } else if !self.hour.has(at.hour()) {
                // Elapsed time, not wall-clock time: a skipped hour never matches.
                at.checked_add(SignedDuration::from_mins(60 - i64::from(at.minute()))).ok()?
            } else if !self.minute.has(at.minute()) {
                at.checked_add(SignedDuration::from_mins(1)).ok()?
            } else {
                return Some(at.timestamp());
            };
        }
        None
    }

    /// If both days are restricted, either may match. A wildcard does not restrict.
    fn matches_day(&self, at: &Zoned) -> bool {
        let of_month = self.day_of_month.has(at.day());
        let of_week = self.day_of_week.has(at.weekday().since(Weekday::Sunday));
        if self.day_of_month.is_wildcard() || self.day_of_week.is_wildcard() {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }
}

fn five_fields(text: &str) -> Result<Calendar, ParseScheduleError> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day_of_month, month, day_of_week] = fields[..] else {
        let (count, fields) = (fields.len(), fields.join(" "));
        return Err(ParseScheduleError(format!("expected exactly 5 fields, found {count}: [{fields}]")));
    };
    let field = |text: &str, bounds: &FieldBounds| CronField::parse(text, bounds).map_err(ParseScheduleError);
    Ok(Calendar {
        minute: field(minute, &field::MINUTES)?,
        hour: field(hour, &field::HOURS)?,
        day_of_month: field(day_of_month, &field::DAYS_OF_MONTH)?,
        month: field(month, &field::MONTHS)?,
        day_of_week: field(day_of_week, &field::DAYS_OF_WEEK)?,
    })
}

fn descriptor(text: &str) -> Result<ScheduleRule, ParseScheduleError> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(span) = text.strip_prefix("@every ") else {
                return Err(ParseScheduleError(format!("unrecognized descriptor: {text}")));
            };
            let span = duration::parse(span)
                .map_err(|cause| ParseScheduleError(format!("failed to parse duration {text}: {cause}")))?;
            return Ok(ScheduleRule::Every(SignedDuration::from_secs(span.as_secs().max(1))));
        }
    };
    five_fields(fields).map(ScheduleRule::Calendar)
}

#[cfg(test)]
mod tests;
