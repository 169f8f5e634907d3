//! CronJobs as rows.

use api::Timestamp;
use serde_json::Value;

use super::jobs::{containers, selector};
use super::{Column, NONE, Table, age, items, or, since};
use crate::object::Object;

/// Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age; wide: Containers, Images, Selector.
pub const TABLE: Table = Table {
    columns: &[
        Column::NAME,
        Column::text("Schedule", "When Jobs are made, in cron's way of writing."),
        Column::text("Timezone", "The time zone on whose clocks the schedule is read."),
        Column { kind: "boolean", ..Column::text("Suspend", "Whether no further Jobs are made.") },
        Column { kind: "integer", ..Column::text("Active", "How many of its Jobs are running.") },
        Column::text("Last Schedule", "Time since a Job was last due."),
        Column::AGE,
        Column::wide("Containers", "Names of the containers in the template."),
        Column::wide("Images", "Images of the containers in the template."),
        Column::wide("Selector", "Labels by which the Jobs find their pods."),
    ],
    cells,
};

fn cells(cron_job: &Object, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&cron_job.document()["spec"], &cron_job.document()["status"]);
    let job = &spec["jobTemplate"]["spec"];
    let suspend = match spec["suspend"].as_bool() {
        None => "<unset>",
        Some(true) => "True",
        Some(false) => "False",
    };
    let last = status["lastScheduleTime"].as_str();
    vec![
        cron_job.name().into(),
        cron_job.text(&["spec", "schedule"]).into(),
        or(cron_job.text(&["spec", "timeZone"]), NONE).into(),
        suspend.into(),
        items(&status["active"]).len().into(),
        last.map_or_else(|| NONE.to_owned(), |last| since(last, now)).into(),
        age(cron_job, now),
        containers(job, "name").into(),
        containers(job, "image").into(),
        selector(&job["selector"]).into(),
    ]
}
