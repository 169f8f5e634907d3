//! CronJobs as rows.

use api::Timestamp;
use serde_json::Value;

use super::jobs::{containers, selector};
use super::{NONE, PrinterColumn, PrinterTable, age, items, non_empty_or, since};
use crate::resources::object::ApiObject;

/// Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age; wide: Containers, Images, Selector.
pub const TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::NAME,
        PrinterColumn::text("Schedule", "The schedule of the Jobs, in cron format."),
        PrinterColumn::text("Timezone", "The time zone of the schedule."),
        PrinterColumn { kind: "boolean", ..PrinterColumn::text("Suspend", "Whether no more Jobs are created.") },
        PrinterColumn { kind: "integer", ..PrinterColumn::text("Active", "How many of its Jobs are running.") },
        PrinterColumn::text("Last Schedule", "Time since a Job was last scheduled."),
        PrinterColumn::AGE,
        PrinterColumn::wide("Containers", "Names of the containers in the template."),
        PrinterColumn::wide("Images", "Images of the containers in the template."),
        PrinterColumn::wide("Selector", "Label selector of the Jobs' pods."),
    ],
    cells,
};

fn cells(cron_job: &ApiObject, now: Timestamp) -> Vec<Value> {
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
        non_empty_or(cron_job.text(&["spec", "timeZone"]), NONE).into(),
        suspend.into(),
        items(&status["active"]).len().into(),
        last.map_or_else(|| NONE.to_owned(), |last| since(last, now)).into(),
        age(cron_job, now),
        containers(job, "name").into(),
        containers(job, "image").into(),
        selector(&job["selector"]).into(),
    ]
}
