//! The scheduled time that is due, and the next one.

use api::Timestamp;
use api::cron::{Schedule, time_zone};
use api::views::CronJobView;
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::CronJobEvent;

/// More missed times than this are reported: the clock is wrong, or the controller was down for a long time.
const MAX_MISSED: usize = 100;

/// The state of the schedule at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DueTimes {
    /// The time that is due; it may have its Job already.
    pub scheduled_time: Option<Timestamp>,
    /// The next time; none if there is none within years.
    pub next_time: Option<Timestamp>,
    /// The time zone of the schedule.
    pub zone: TimeZone,
    /// Events to record.
    pub events: Vec<CronJobEvent>,
}

/// Evaluates the schedule at `now`. `last` is the last time that got its Job. An error lasts until the CronJob changes.
///
/// If the clock was set back, `last` is in the future, and nothing is due until it is reached again. If it was set
/// forward, times were missed, and the last of them is due.
pub fn due_times(cron_job: &CronJobView, last: Option<Timestamp>, now: Timestamp) -> Result<DueTimes, CronJobEvent> {
    let spec = &cron_job.spec;
    let zone = schedule_time_zone(cron_job)?;
    let text = &spec.schedule;
    let schedule = Schedule::parse(text).map_err(|error| {
        CronJobEvent::warning("UnparseableSchedule", format!("unparseable schedule: {text:?} : {error}"))
    })?;
    // Counted from the last time that got its Job, so that an `@every` schedule keeps its phase.
    let begin = last.or(cron_job.metadata.creation_timestamp).unwrap_or(now);
    let latest = schedule.last_until(begin, now, &zone);
    let next = schedule.next_after(latest.unwrap_or(begin), &zone);
    if latest.is_none() && next.is_none() {
        return Err(CronJobEvent::warning(
            "InvalidSchedule",
            format!("invalid schedule: {text} : it has no next time"),
        ));
    }
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let too_late = deadline.and_then(|deadline| now.checked_sub(deadline).ok());
    let due = latest.filter(|latest| too_late.is_none_or(|limit| *latest >= limit));
    let mut events = Vec::new();
    if due.is_some() && text.contains("TZ") {
        let message = format!(
            "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        events.push(CronJobEvent::warning("UnsupportedSchedule", message));
    }
    if due.is_some() && missed_too_many(&schedule, too_late.map_or(begin, |limit| limit.max(begin)), now, &zone) {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew".to_owned();
        events.push(CronJobEvent::warning("TooManyMissedTimes", message));
    }
    // Upstream: drops times past the deadline before it looks for the last one, and so never records this.
    if let Some(late) = latest.filter(|_| due.is_none()) {
        let late = late.to_zoned(zone.clone()).strftime("%a, %d %b %Y %H:%M:%S %z");
        events.push(CronJobEvent::warning("MissSchedule", format!("Missed scheduled time to start a job: {late}")));
    }
    Ok(DueTimes { scheduled_time: due, next_time: next, zone, events })
}

/// The next scheduled time after `now`; none if there is none, or the schedule cannot be parsed.
pub fn next_time(cron_job: &CronJobView, now: Timestamp) -> Option<Timestamp> {
    let zone = schedule_time_zone(cron_job).ok()?;
    Schedule::parse(&cron_job.spec.schedule).ok()?.next_after(now, &zone)
}

/// Whether more than [`MAX_MISSED`] times are after `after` and up to `now`. Counts no further than that.
// Upstream: estimates the number from the first interval, which is wrong for schedules with gaps.
fn missed_too_many(schedule: &Schedule, after: Timestamp, now: Timestamp, zone: &TimeZone) -> bool {
    let next = |at: &Timestamp| schedule.next_after(*at, zone).filter(|next| *next <= now);
    std::iter::successors(next(&after), next).nth(MAX_MISSED).is_some()
}

/// The time zone of the schedule.
// Upstream: without `timeZone`, that of the controller's own machine. UTC is the same on every machine.
fn schedule_time_zone(cron_job: &CronJobView) -> Result<TimeZone, CronJobEvent> {
    let Some(name) = cron_job.spec.time_zone.as_deref() else { return Ok(TimeZone::UTC) };
    let unknown =
        || CronJobEvent::warning("UnknownTimeZone", format!("invalid timeZone: {name:?}: unknown time zone {name}"));
    time_zone(name).ok_or_else(unknown)
}
