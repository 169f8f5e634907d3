//! Deletion, and what becomes of what was owned.

use super::{at_end, eventually};
use crate::tour::Step;
use crate::tour::want::Want::{Has, Is, Json, Lacks, Refused, Silent, Warns};

pub const STEPS: &[Step] = &[
    // Delete, and what becomes of what was owned.
    at_end(
        "Jobs to delete",
        "create -f cascade.yaml",
        &[Is("job.batch/cascade-background created\njob.batch/cascade-foreground created")],
    ),
    eventually(
        "their pods run",
        "get pods -l 'job-name in (cascade-background,cascade-foreground)' --field-selector=status.phase=Running -o json",
        &[Json("/items/3/status/phase", "\"Running\"")],
    ),
    at_end(
        "delete, background",
        "delete job cascade-background --cascade=background",
        &[Has("job.batch \"cascade-background\" deleted")],
    ),
    eventually("its pods follow", "get pods -l job-name=cascade-background", &[Is(""), Warns("No resources found")]),
    at_end(
        "delete, foreground",
        "delete job cascade-foreground --cascade=foreground",
        &[Has("job.batch \"cascade-foreground\" deleted")],
    ),
    at_end("its pods went first", "get pods -l job-name=cascade-foreground", &[Is(""), Warns("No resources found")]),
    at_end(
        "delete by file",
        "delete -f crew.yaml",
        &[
            Has("podgroup.scheduling.k8s.io \"crew\" deleted"),
            Has("pod \"crew-0\" deleted"),
            Has("pod \"crew-1\" deleted"),
        ],
    ),
    at_end("delete without waiting", "delete pod lone --wait=false", &[Has("pod \"lone\" deleted")]),
    at_end("wait for a delete", "wait --for=delete pod/lone --timeout=60s", &[Silent]),
    at_end("delete what is not there", "delete job nobody", &[Refused("jobs.batch \"nobody\" not found")]),
    at_end("delete what is not there, content with it", "delete job nobody --ignore-not-found", &[Is(""), Silent]),
    at_end(
        "delete all of a kind",
        "delete jobs --all",
        &[Has("job.batch \"plain\" deleted"), Has("job.batch \"gang\" deleted"), Has("job.batch \"watched\" deleted")],
    ),
    eventually("and all they owned", "get pods,podgroups,workloads", &[Is(""), Warns("No resources found")]),
    at_end("a Job to orphan from", "create -f orphan.yaml", &[Is("job.batch/cascade-orphan created")]),
    eventually(
        "its pods run",
        "get pods -l job-name=cascade-orphan --field-selector=status.phase=Running -o json",
        &[Json("/items/1/status/phase", "\"Running\""), Has("\"kind\": \"Job\"")],
    ),
    at_end(
        "delete, orphan",
        "delete job cascade-orphan --cascade=orphan",
        &[Has("job.batch \"cascade-orphan\" deleted")],
    ),
    at_end("its Job is gone", "get job cascade-orphan", &[Refused("jobs.batch \"cascade-orphan\" not found")]),
    at_end(
        "its pods stay, without that owner",
        "get pods -l job-name=cascade-orphan -o json",
        &[Json("/items/1/status/phase", "\"Running\""), Lacks("\"kind\": \"Job\"")],
    ),
    at_end(
        "its group stays",
        "get podgroups,workloads -o name",
        &[Has("podgroup.scheduling.k8s.io/cascade-orphan-"), Has("workload.scheduling.k8s.io/cascade-orphan-")],
    ),
    at_end(
        "without that owner, too",
        "get workloads -o jsonpath={.items[*].metadata.ownerReferences[*].kind}",
        &[Is("")],
    ),
    at_end("the orphans go when told", "delete pods,podgroups,workloads --all", &[Has("pod \"cascade-orphan-")]),
    at_end("nothing is left", "get pods,podgroups,workloads,jobs", &[Is(""), Warns("No resources found")]),
];
