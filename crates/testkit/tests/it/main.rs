//! The whole control plane on virtual time: server, store, controllers, scheduler and nodes.
#![allow(clippy::unwrap_used)]

mod walk; // one gang Job from submission to the end; read this first
mod gangs; // all or nothing
mod pod_groups; // PodGroups created by a user: what they wait for, in which order they are placed
mod wake_ups; // on both test clusters: changes of nodes and pods that let a waiting gang start
mod neighbours; // on both test clusters: what the scheduler leaves to autoscalers, volumes and other schedulers
mod two_schedulers; // two schedulers bind to the same capacity
mod own_scheduler; // a scheduler with a custom filter
mod gang_life; // gangs that lose pods, scheduler crashes, many gangs that wait for each other
mod gang_runs; // groups that are used again, and groups whose pods are created in batches
mod bare; // servers without groups
mod partial; // servers that drop scheduling fields
mod jobs; // counting, failing, deleting, restarting
mod job_counts; // on both test clusters: numbers of pods and completion
mod job_failures; // on both test clusters: limits, policies, backoff and deadlines
mod job_indexes; // on both test clusters: backoff limits per index and success policies
mod job_suspend; // on both test clusters: suspension and mutable templates
mod job_owners; // on both test clusters: managedBy, adoption and release
mod job_groups; // on both test clusters: the groups of Jobs
mod job_objects; // on both test clusters: Workloads and PodGroups of Jobs, also those of users
mod job_leftovers; // on both test clusters: deletion of finished Jobs, pods and groups
mod job_writes; // the number of requests that Jobs cause
mod cron_jobs; // CronJobs
mod cron_jobs_shared; // CronJobs on both test clusters
mod schedules; // CronJobs whose clock or schedule changes
mod evictions; // evictions and disruption budgets
mod leftovers; // TTL and pod garbage collection
mod lost_binds; // binds without a response, on both test clusters
mod component_health; // /readyz and /livez of a component while its server does not respond
mod metrics; // the metrics of the controllers
mod cleanup; // deletion of namespaces and groups
mod garbage; // the garbage collector
mod groups; // groups as independent objects
mod objects; // the scheduling objects of Jobs: which Jobs get them, whose are used, suspension
mod owners; // Jobs whose Workload belongs to an ancestor
mod compiled; // the controller creates what the library compiles
mod composites; // CompositePodGroups
mod gates; // gates and settings that change while objects exist
mod faults; // Jobs and gangs with faults between the components and the server
mod scenarios; // what users do with Jobs, step by step
mod end_state; // the end state of a run, and the invariants at every write
mod scenario_run; // a scenario with faults
mod restarts; // the controllers crash before or after any of their writes
mod kills; // repeated kills of the controllers, on both test clusters
mod watches; // faulty watches
mod fault_layer; // the effect of each fault
mod fuzz_seeds; // the seeds of the fuzz targets, replayed
mod fuzz_mutations; // mutated seeds, the same for the same seed
