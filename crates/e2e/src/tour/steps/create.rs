//! Creation from files, by imperative commands and by apply, and the validation of fields.

use super::at_end;
use crate::tour::TourStep;
use crate::tour::output_check::OutputCheck::{
    Columns, Contains, Equals, FailsWith, Json, Line, NoStderr, NotContains, WarnsWith,
};

pub const STEPS: &[TourStep] = &[
    // Create.
    at_end("create, dry run", "create -f pod.yaml --dry-run=server", &[Equals("pod/lone created (server dry run)")]),
    at_end("the dry run stored nothing", "get pod lone", &[FailsWith("pods \"lone\" not found")]),
    at_end("create", "create -f pod.yaml", &[Equals("pod/lone created"), NoStderr]),
    at_end(
        "create twice",
        "create -f pod.yaml",
        &[FailsWith("(AlreadyExists)"), FailsWith("pods \"lone\" already exists")],
    ),
    at_end(
        "create several kinds from one file",
        "create -f others.yaml",
        &[Equals("namespace/tour created\npriorityclass.scheduling.k8s.io/urgent created\njob.batch/worded created")],
    ),
    at_end(
        "run a pod",
        "run worded --restart=Never -n tour --image=registry.example/main:1",
        &[Equals("pod/worded created")],
    ),
    // kubectl sends objects that it builds itself as protobuf.
    at_end(
        "create a namespace, dry run",
        "create namespace by-words --dry-run=server",
        &[Equals("namespace/by-words created (server dry run)"), NoStderr],
    ),
    at_end("create a namespace", "create namespace by-words", &[Equals("namespace/by-words created"), NoStderr]),
    at_end(
        "create a namespace twice",
        "create namespace by-words",
        &[FailsWith("(AlreadyExists)"), FailsWith("namespaces \"by-words\" already exists")],
    ),
    at_end(
        "create a Job by command",
        "create job by-words -n by-words --image=registry.example/main:1 -- sleep 1",
        &[Equals("job.batch/by-words created"), NoStderr],
    ),
    at_end(
        "the Job is as if created from a file",
        "get job by-words -n by-words -o json",
        &[
            Json("/spec/parallelism", "1"),
            Json("/spec/template/spec/restartPolicy", "\"Never\""),
            Json(
                "/spec/template/spec/containers",
                r#"[{
                    "name": "by-words", "image": "registry.example/main:1", "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", "1"], "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"
                }]"#,
            ),
            NotContains("hostNetwork"),
            NotContains("null"),
        ],
    ),
    at_end(
        "the Job by command completes",
        "wait --for=condition=complete job/by-words -n by-words --timeout=60s",
        &[Equals("job.batch/by-words condition met")],
    ),
    at_end(
        "create a priority class",
        "create priorityclass by-words --value=-5 --preemption-policy=Never --description='two words'",
        &[Equals("priorityclass.scheduling.k8s.io/by-words created"), NoStderr],
    ),
    at_end(
        "the class has the values of the command",
        "get pc by-words -o json",
        &[Json("/value", "-5"), Json("/preemptionPolicy", "\"Never\""), Json("/description", "\"two words\"")],
    ),
    at_end(
        "an invalid priority class is refused",
        "create priorityclass too-high --value=2000000000",
        &[FailsWith("maximum allowed value of a user defined priority is 1000000000")],
    ),
    at_end(
        "priority classes",
        "get pc",
        &[Columns("NAME VALUE GLOBAL-DEFAULT AGE PREEMPTIONPOLICY"), Line("urgent 1000 false * PreemptLowerPriority")],
    ),
    at_end(
        "create a group and its pods from one file",
        "create -f crew.yaml",
        &[Equals("podgroup.scheduling.k8s.io/crew created\npod/crew-0 created\npod/crew-1 created")],
    ),
    // Unknown and duplicate fields.
    at_end(
        "an unknown field is refused and named",
        "create -f unknown-field.yaml",
        &[FailsWith("strict decoding error: unknown field \"spec.paralelism\"")],
    ),
    at_end(
        "an unknown field is refused by apply, too",
        "apply -f unknown-field.yaml",
        &[FailsWith("unknown field \"spec.paralelism\"")],
    ),
    at_end("the refused Job does not exist", "get job misspelt", &[FailsWith("not found")]),
    at_end(
        "an unknown field with --validate=warn",
        "create -f unknown-field.yaml --validate=warn",
        &[Equals("job.batch/misspelt created"), WarnsWith("Warning: unknown field \"spec.paralelism\"")],
    ),
    at_end(
        "the unknown field was dropped",
        "get job misspelt -o json",
        &[NotContains("paralelism"), Json("/spec/parallelism", "1")],
    ),
    at_end("delete it again", "delete job misspelt", &[Contains("job.batch \"misspelt\" deleted")]),
    at_end(
        "an unknown field with --validate=ignore",
        "create -f unknown-field.yaml --validate=ignore",
        &[Equals("job.batch/misspelt created"), NoStderr],
    ),
    at_end(
        "a duplicate field is refused and named",
        "create -f duplicate-field.json --raw /apis/batch/v1/namespaces/default/jobs?fieldValidation=Strict",
        &[FailsWith("duplicate field \"spec.parallelism\"")],
    ),
    at_end(
        "a duplicate field with fieldValidation=Warn",
        "create -f duplicate-field.json --raw /apis/batch/v1/namespaces/default/jobs?fieldValidation=Warn",
        &[Json("/spec/parallelism", "2"), WarnsWith("duplicate field \"spec.parallelism\"")],
    ),
    at_end(
        "delete by selector",
        "delete jobs -l batch.kubernetes.io/job-name=twice",
        &[Contains("job.batch \"twice\" deleted"), NotContains("misspelt")],
    ),
    at_end("delete by kind and name", "delete job/misspelt", &[Contains("job.batch \"misspelt\" deleted")]),
    // Apply.
    at_end("apply", "apply -f plain.yaml", &[Equals("job.batch/plain created"), NoStderr]),
    at_end("apply again changes nothing", "apply -f plain.yaml", &[Equals("job.batch/plain unchanged")]),
    at_end("apply a change", "apply -f plain-changed.yaml", &[Equals("job.batch/plain configured")]),
    at_end(
        "only the changed fields differ",
        "get job plain -o json",
        &[
            Json("/spec/backoffLimit", "3"),
            Json("/metadata/labels/stage", "\"second\""),
            Json("/metadata/labels/purpose", "\"tour\""),
            Json("/metadata/annotations/example.com~1note", "\"changed\""),
            Json("/spec/template/spec/containers/0/env", r#"[{"name": "STAGE", "value": "first"}]"#),
        ],
    ),
    at_end("apply it once more", "apply -f plain-changed.yaml", &[Equals("job.batch/plain unchanged")]),
    at_end(
        "apply the first version: fields are removed",
        "apply -f plain.yaml",
        &[Equals("job.batch/plain configured")],
    ),
    at_end("the label is removed", "get job plain -o json", &[Json("/metadata/labels", "{\"purpose\": \"tour\"}")]),
    at_end("apply, dry run", "apply -f plain.yaml --dry-run=server -o json", &[Json("/metadata/name", "\"plain\"")]),
    at_end("apply a gang", "apply -f gang.yaml", &[Equals("job.batch/gang created"), NoStderr]),
];
