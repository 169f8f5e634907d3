//! Waiting, lists, descriptions, events and watches.

use super::{at_end, streaming};
use crate::tour::TourStep;
use crate::tour::output_check::OutputCheck::{Columns, Contains, Equals, FailsWith, Json, Line, NotContains};

pub const STEPS: &[TourStep] = &[
    // Wait and get.
    at_end(
        "wait for a Job",
        "wait --for=condition=complete job/plain --timeout=60s",
        &[Equals("job.batch/plain condition met")],
    ),
    at_end(
        "wait for a gang",
        "wait --for=condition=complete job/gang --timeout=60s",
        &[Equals("job.batch/gang condition met")],
    ),
    at_end(
        "wait for a pod's phase",
        "wait --for=jsonpath={.status.phase}=Running pod/lone",
        &[Equals("pod/lone condition met")],
    ),
    at_end(
        "wait times out",
        "wait --for=condition=complete pod/lone --timeout=1s",
        &[FailsWith("timed out waiting for the condition")],
    ),
    at_end(
        "Jobs in a table",
        "get jobs",
        &[
            Columns("NAME STATUS COMPLETIONS DURATION AGE"),
            Line("gang Complete 4/4 * *"),
            Line("plain Complete 2/2 * *"),
        ],
    ),
    at_end(
        "Jobs, wide",
        "get jobs -o wide",
        &[
            Columns("NAME STATUS COMPLETIONS DURATION AGE CONTAINERS IMAGES SELECTOR"),
            Line("gang Complete 4/4 * * worker registry.example/main:1 *"),
        ],
    ),
    at_end(
        "pods in a table",
        "get pods",
        &[Columns("NAME READY STATUS RESTARTS AGE"), Line("lone 1/1 Running 0 *"), Line("* 0/1 Completed 0 *")],
    ),
    at_end(
        "pods, wide",
        "get pods -o wide",
        &[
            Columns("NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"),
            Line("lone 1/1 Running 0 * * * <none> <none>"),
        ],
    ),
    at_end(
        "pod groups in a table",
        "get podgroups",
        &[
            Columns("NAME POLICY WORKLOAD STATUS AGE"),
            Line("crew Gang <none> Scheduled *"),
            Line("* Gang * Scheduled *"),
            Line("* Basic * Scheduled *"),
        ],
    ),
    at_end("workloads in a table", "get workloads", &[Columns("NAME AGE")]),
    at_end(
        "several kinds at once",
        "get jobs,pods -l purpose=tour",
        &[Line("job.batch/plain Complete ..."), NotContains("pod/lone")],
    ),
    at_end("the category all", "get all -n tour", &[Line("pod/worded ..."), Line("job.batch/worded ...")]),
    at_end(
        "all namespaces",
        "get jobs -A",
        &[Columns("NAMESPACE NAME STATUS COMPLETIONS DURATION AGE"), Line("tour worded ...")],
    ),
    at_end("names only", "get job gang plain -o name", &[Equals("job.batch/gang\njob.batch/plain")]),
    at_end(
        "labels as columns",
        "get job plain -L purpose --show-labels",
        &[
            Columns("NAME STATUS COMPLETIONS DURATION AGE PURPOSE LABELS"),
            Line("plain Complete 2/2 * * tour purpose=tour"),
        ],
    ),
    at_end(
        "custom columns",
        "get job plain -o custom-columns=NAME:.metadata.name,DONE:.status.succeeded",
        &[Equals("NAME    DONE\nplain   2")],
    ),
    at_end(
        "a label selector",
        "get jobs -l 'purpose in (tour),!stage' -o name",
        &[Equals("job.batch/gang\njob.batch/plain")],
    ),
    at_end("a field selector", "get pods --field-selector metadata.name=lone -o name", &[Equals("pod/lone")]),
    at_end(
        "a field selector on phase",
        "get pods --field-selector status.phase=Running -l app=lone -o name",
        &[Equals("pod/lone")],
    ),
    at_end("small pages", "get nodes --chunk-size=3 -o name", &[Line("node/node-0"), Line("node/node-15")]),
    at_end(
        "a sorted list",
        "get jobs --sort-by=.status.succeeded -o name",
        &[Equals("job.batch/plain\njob.batch/gang")],
    ),
    at_end(
        "as YAML",
        "get job gang -o yaml",
        &[
            Line("apiVersion: batch/v1"),
            Line("kind: Job"),
            Line("completionMode: Indexed"),
            Line("completedIndexes: 0-3"),
            Line("succeeded: 4"),
            Contains("  scheduling:\n"),
        ],
    ),
    at_end(
        "as JSON",
        "get job gang -o json",
        &[Json("/status/succeeded", "4"), Json("/spec/completions", "4"), Json("/status/completedIndexes", "\"0-3\"")],
    ),
    at_end("a list as JSON", "get jobs -o json", &[Json("/kind", "\"List\""), Json("/items/0/kind", "\"Job\"")]),
    at_end(
        "another version of the same object",
        "get podgroups.v1alpha3.scheduling.k8s.io crew -o json",
        &[Json("/apiVersion", "\"scheduling.k8s.io/v1alpha3\""), Json("/spec/schedulingPolicy/gang/minCount", "2")],
    ),
    // Describe.
    at_end(
        "describe a Job",
        "describe job plain",
        &[
            Line("Name: plain"),
            Line("Parallelism: 2"),
            Line("Completions: 2"),
            Contains("0 Active (0 Ready) / 2 Succeeded / 0 Failed"),
            Line("Image: registry.example/main:1"),
            Line("Normal SuccessfulCreate ..."),
            Line("Normal Completed ..."),
        ],
    ),
    at_end(
        "describe a pod",
        "describe pod lone",
        &[
            Line("Name: lone"),
            Line("Status: Running"),
            Line("Node: *"),
            Line("PodScheduled True"),
            Line("Ready True"),
            Line("QoS Class: Burstable"),
            Line("Normal Scheduled ..."),
        ],
    ),
    at_end(
        "describe a pod group",
        "describe podgroup crew",
        &[
            Line("Name: crew"),
            Line("Kind: PodGroup"),
            Line("API Version: scheduling.k8s.io/v1beta1"),
            Line("Min Count: 2"),
            Line("Type: PodGroupInitiallyScheduled"),
        ],
    ),
    at_end(
        "events in a table",
        "get events",
        &[
            Columns("LAST SEEN TYPE REASON OBJECT MESSAGE"),
            Line("* Normal SuccessfulCreate job/plain Created pod: ..."),
            Line("* Normal Scheduled pod/lone ..."),
        ],
    ),
    at_end(
        "events of one object",
        "get events --field-selector involvedObject.kind=Job,involvedObject.name=gang",
        &[Line("* Normal Completed job/gang ..."), NotContains("job/plain")],
    ),
    at_end(
        "events by kubectl events",
        "events --for job/plain",
        &[Contains("Job/plain"), Contains("SuccessfulCreate")],
    ),
    // Watch.
    at_end("a Job to watch", "create -f watched.yaml", &[Equals("job.batch/watched created")]),
    streaming(
        "watch a Job run and end",
        "get job watched -w",
        &[
            Columns("NAME STATUS COMPLETIONS DURATION AGE"),
            Line("watched Running 0/1 * *"),
            Line("watched Complete 1/1 * *"),
        ],
    ),
    streaming(
        "watch a list, with the kinds of events",
        "get jobs --watch --output-watch-events",
        &[Columns("EVENT NAME STATUS COMPLETIONS DURATION AGE"), Line("ADDED plain Complete 2/2 * *")],
    ),
    streaming("watch objects", "get job watched --watch-only=false -w -o json", &[Contains("\"kind\": \"Job\"")]),
];
