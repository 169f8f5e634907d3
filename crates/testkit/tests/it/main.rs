//! The whole control plane on virtual time: server, store, controllers, scheduler and nodes.
#![allow(clippy::unwrap_used)]

mod walk; // one gang Job from submission to the end; read this first
mod gangs; // all or nothing
mod pod_groups; // groups that somebody makes by hand: what they wait for, who is next
mod two_schedulers; // two schedulers give away the same room
mod own_scheduler; // a scheduler with a filter of one's own
mod gang_life; // gangs that lose pods, gangs whose scheduler dies, many gangs that wait for each other
mod gang_runs; // groups that are used again, and groups whose pods come in batches
mod bare; // where there are no groups
mod partial; // where the server drops what a Job asks for
mod jobs; // counting, failing, deleting, restarting
mod job_counts; // on both homes: how many pods there are, and when it is over
mod job_failures; // on both homes: limits, policies, waits and deadlines
mod job_indexes; // on both homes: indexes that fail or succeed by themselves
mod job_suspend; // on both homes: no pods, no time, a template that may change
mod job_owners; // on both homes: whose Jobs and pods they are
mod job_groups; // on both homes: the groups of Jobs
mod job_objects; // on both homes: Workloads and PodGroups of Jobs, whoever made them
mod job_leftovers; // on both homes: Jobs, pods and groups whose time is over
mod job_writes; // what Jobs cost the server
mod cron_jobs; // Jobs at given times
mod cron_jobs_shared; // the same on both homes
mod schedules; // CronJobs whose clock or schedule is changed under them
mod evictions; // pods that are asked to go
mod leftovers; // Jobs and pods whose time is over
mod lost_binds; // binds without an answer, on both homes
mod component_health; // what a part says of itself while its server does not answer
mod metrics; // what the controllers count
mod cleanup; // namespaces and groups that go
mod garbage; // what has lost its owners
mod groups; // groups as objects of their own
mod objects; // the objects of Jobs: who gets them, whose are used, what suspension leaves
mod owners; // Jobs whose Workload is that of an owner further up
mod compiled; // what the library compiles is what is made
mod composites; // groups of groups
mod gates; // features and settings, switched while objects live
mod faults; // the same while things go wrong between the parts and the server
mod scenarios; // what users do with Jobs, step by step
mod end_state; // what a run leaves behind, and what must hold on the way there
mod scenario_run; // a scenario, played while things go wrong
mod restarts; // the controllers end before or after any of their writes
mod kills; // the same again and again, on both homes
mod watches; // the parts hear badly
mod fault_layer; // what each fault does
mod fuzz_seeds; // what fuzzing has found, replayed
