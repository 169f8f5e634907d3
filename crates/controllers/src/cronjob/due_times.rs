//! Which time of the schedule is to be served now, and when to look again.

use api::Timestamp;
use api::cron::{Schedule, time_zone};
use api::views::CronJobView;
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::CronJobEvent;

/// More missed times than this are told: something is wrong with the clock, or the controller was away for long.
const MAX_MISSED: usize = 100;

/// What the schedule asks for at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DueTimes {
    /// The time that should have its Job by now.
    pub scheduled_time: Option<Timestamp>,
    /// The next time to come; none if there is none within years.
    pub next_time: Option<Timestamp>,
    /// The clocks that the schedule is read by.
    pub zone: TimeZone,
    /// What people are told.
    pub events: Vec<CronJobEvent>,
}

/// Reads the schedule at `now`. `last` is the last time that had its Job. An error ends it until the CronJob changes.
///
/// A clock that was set back finds `last` still ahead, and nothing happens until it is reached again; one that was set
/// forward finds times that were missed, and the last of them is made up for.
pub fn due_times(cron_job: &CronJobView, last: Option<Timestamp>, now: Timestamp) -> Result<DueTimes, CronJobEvent> {
    let spec = &cron_job.spec;
    let zone = schedule_time_zone(cron_job)?;
    let text = &spec.schedule;
    let schedule = Schedule::parse(text).map_err(|error| {
        CronJobEvent::warning("UnparseableSchedule", format!("unparseable schedule: {text:?} : {error}"))
    })?;
    // Counted on from the last time that was served, so that a schedule of spans keeps its beat.
    let begin = last.or(cron_job.metadata.creation_timestamp).unwrap_or(now);
    let latest = schedule.last_until(begin, now, &zone);
    let next = schedule.next_after(latest.unwrap_or(begin), &zone);
    if latest.is_none() && next.is_none() {
        return Err(CronJobEvent::warning(
            "InvalidSchedule",
            format!("invalid schedule: {text} : its time never comes"),
        ));
    }
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let too_late = deadline.and_then(|deadline| now.checked_sub(deadline).ok());
    let slot = latest.filter(|latest| too_late.is_none_or(|limit| *latest >= limit));
    let mut news = Vec::new();
    if slot.is_some() && text.contains("TZ") {
        let message = format!(
            "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        news.push(CronJobEvent::warning("UnsupportedSchedule", message));
    }
    if slot.is_some() && missed_too_many(&schedule, too_late.map_or(begin, |limit| limit.max(begin)), now, &zone) {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew".to_owned();
        news.push(CronJobEvent::warning("TooManyMissedTimes", message));
    }
    // Upstream: leaves out what is too late before it looks for the last time, and so never says this.
    if let Some(late) = latest.filter(|_| slot.is_none()) {
        let late = late.to_zoned(zone.clone()).strftime("%a, %d %b %Y %H:%M:%S %z");
        news.push(CronJobEvent::warning("MissSchedule", format!("Missed scheduled time to start a job: {late}")));
    }
    Ok(DueTimes { scheduled_time: slot, next_time: next, zone, events: news })
}

/// The next time that the schedule names after `now`; none if it names none, or cannot be read.
pub fn next_time(cron_job: &CronJobView, now: Timestamp) -> Option<Timestamp> {
    let zone = schedule_time_zone(cron_job).ok()?;
    Schedule::parse(&cron_job.spec.schedule).ok()?.next_after(now, &zone)
}

/// Whether more times than can be explained lie between. Counted, but no further than needed.
// Upstream: estimates the number from the first interval, which is wrong for schedules with gaps.
fn missed_too_many(schedule: &Schedule, after: Timestamp, now: Timestamp, zone: &TimeZone) -> bool {
    let next = |at: &Timestamp| schedule.next_after(*at, zone).filter(|next| *next <= now);
    std::iter::successors(next(&after), next).nth(MAX_MISSED).is_some()
}

/// The clocks on the wall that the schedule means.
// Upstream: those of the controller's own machine if none are named. UTC is the same on every machine.
fn schedule_time_zone(cron_job: &CronJobView) -> Result<TimeZone, CronJobEvent> {
    let Some(name) = cron_job.spec.time_zone.as_deref() else { return Ok(TimeZone::UTC) };
    let unknown =
        || CronJobEvent::warning("UnknownTimeZone", format!("invalid timeZone: {name:?}: unknown time zone {name}"));
    time_zone(name).ok_or_else(unknown)
}
