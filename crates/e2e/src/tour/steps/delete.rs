//! Deletion, cascading to dependents or orphaning them.

use super::{at_end, eventually};
use crate::tour::TourStep;
use crate::tour::output_check::OutputCheck::{Contains, Equals, FailsWith, Json, NoStderr, NotContains, WarnsWith};

pub const STEPS: &[TourStep] = &[
    at_end(
        "Jobs to delete",
        "create -f cascade.yaml",
        &[Equals("job.batch/cascade-background created\njob.batch/cascade-foreground created")],
    ),
    eventually(
        "their pods run",
        "get pods -l 'job-name in (cascade-background,cascade-foreground)' --field-selector=status.phase=Running -o json",
        &[Json("/items/3/status/phase", "\"Running\"")],
    ),
    at_end(
        "delete, background",
        "delete job cascade-background --cascade=background",
        &[Contains("job.batch \"cascade-background\" deleted")],
    ),
    eventually(
        "its pods are deleted later",
        "get pods -l job-name=cascade-background",
        &[Equals(""), WarnsWith("No resources found")],
    ),
    at_end(
        "delete, foreground",
        "delete job cascade-foreground --cascade=foreground",
        &[Contains("job.batch \"cascade-foreground\" deleted")],
    ),
    at_end(
        "its pods were deleted first",
        "get pods -l job-name=cascade-foreground",
        &[Equals(""), WarnsWith("No resources found")],
    ),
    at_end(
        "delete by file",
        "delete -f crew.yaml",
        &[
            Contains("podgroup.scheduling.k8s.io \"crew\" deleted"),
            Contains("pod \"crew-0\" deleted"),
            Contains("pod \"crew-1\" deleted"),
        ],
    ),
    at_end("delete without waiting", "delete pod lone --wait=false", &[Contains("pod \"lone\" deleted")]),
    at_end("wait for a delete", "wait --for=delete pod/lone --timeout=60s", &[NoStderr]),
    at_end("delete a missing object", "delete job missing", &[FailsWith("jobs.batch \"missing\" not found")]),
    at_end("delete and ignore not found", "delete job missing --ignore-not-found", &[Equals(""), NoStderr]),
    at_end(
        "delete all of a kind",
        "delete jobs --all",
        &[
            Contains("job.batch \"plain\" deleted"),
            Contains("job.batch \"gang\" deleted"),
            Contains("job.batch \"watched\" deleted"),
        ],
    ),
    eventually(
        "their dependents are deleted",
        "get pods,podgroups,workloads",
        &[Equals(""), WarnsWith("No resources found")],
    ),
    at_end(
        "a Job whose dependents are orphaned",
        "create -f orphan.yaml",
        &[Equals("job.batch/cascade-orphan created")],
    ),
    eventually(
        "its pods run",
        "get pods -l job-name=cascade-orphan --field-selector=status.phase=Running -o json",
        &[Json("/items/1/status/phase", "\"Running\""), Contains("\"kind\": \"Job\"")],
    ),
    at_end(
        "delete, orphan",
        "delete job cascade-orphan --cascade=orphan",
        &[Contains("job.batch \"cascade-orphan\" deleted")],
    ),
    at_end("its Job is gone", "get job cascade-orphan", &[FailsWith("jobs.batch \"cascade-orphan\" not found")]),
    at_end(
        "its pods remain, without that owner",
        "get pods -l job-name=cascade-orphan -o json",
        &[Json("/items/1/status/phase", "\"Running\""), NotContains("\"kind\": \"Job\"")],
    ),
    at_end(
        "its group and its Workload remain",
        "get podgroups,workloads -o name",
        &[
            Contains("podgroup.scheduling.k8s.io/cascade-orphan-"),
            Contains("workload.scheduling.k8s.io/cascade-orphan-"),
        ],
    ),
    at_end(
        "its Workload has no owner",
        "get workloads -o jsonpath={.items[*].metadata.ownerReferences[*].kind}",
        &[Equals("")],
    ),
    at_end("delete the orphans", "delete pods,podgroups,workloads --all", &[Contains("pod \"cascade-orphan-")]),
    at_end("nothing is left", "get pods,podgroups,workloads,jobs", &[Equals(""), WarnsWith("No resources found")]),
];
