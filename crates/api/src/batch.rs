//! The batch group: Jobs and CronJobs.

pub mod defaults; // values of fields that are not set
pub mod prepare; // selector of a new Job; drops fields of features that are off
pub mod validation; // rules for creation and update
pub mod scheduling; // a Job as an item of the workload builder
pub mod cron_job; // CronJobs, which create Jobs at scheduled times
pub mod workload_ref; // the first draft's link from a Job to its Workload
pub mod indexes; // sets of indexes as text: `0-3,5`
