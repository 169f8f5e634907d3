//! The batch group: Jobs and CronJobs.

pub mod defaults; // what is filled in when a field is left out
pub mod prepare; // what a new Job gets, and which fields of features that are off it loses
pub mod validation; // what may be written, and what may change
pub mod scheduling; // a Job as an item of the workload builder
pub mod cron_job; // CronJobs, which make Jobs at given times
pub mod workload_ref; // the first draft's link between a Job and its Workload
pub mod indexes; // `0-3,5`: sets of indexes as text
