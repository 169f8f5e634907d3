//! The steps of the tour, in order: later ones use what earlier ones made.

use super::want::Want::{self, Columns, Has, Is, Json, Lacks, Line, Refused, Silent, Warns};
use super::{Step, When};

const fn at_end(name: &'static str, command: &'static str, wants: &'static [Want]) -> Step {
    Step { name, command, when: When::AtEnd, wants }
}

const fn eventually(name: &'static str, command: &'static str, wants: &'static [Want]) -> Step {
    Step { name, command, when: When::Eventually, wants }
}

const fn streaming(name: &'static str, command: &'static str, wants: &'static [Want]) -> Step {
    Step { name, command, when: When::Streaming, wants }
}

pub const STEPS: &[Step] = &[
    // What is there.
    at_end("version names both sides", "version", &[Has("Client Version: v1."), Has("Server Version: v1.37")]),
    at_end("version as JSON", "version -o json", &[Json("/serverVersion/minor", "\"37\"")]),
    at_end("ready", "get --raw /readyz", &[Is("ok")]),
    at_end("live", "get --raw /livez", &[Is("ok")]),
    at_end("healthy", "get --raw /healthz", &[Is("ok")]),
    at_end("ready, with its checks", "get --raw /readyz?verbose", &[Has("[+]"), Has("check passed")]),
    at_end("metrics", "get --raw /metrics", &[Has("# TYPE ")]),
    at_end(
        "groups and versions",
        "api-versions",
        &[
            Line("v1"),
            Line("batch/v1"),
            Line("scheduling.k8s.io/v1"),
            Line("scheduling.k8s.io/v1beta1"),
            Line("scheduling.k8s.io/v1alpha3"),
        ],
    ),
    at_end(
        "resources",
        "api-resources",
        &[
            Columns("NAME SHORTNAMES APIVERSION NAMESPACED KIND"),
            Line("events ev v1 true Event"),
            Line("namespaces ns v1 false Namespace"),
            Line("nodes no v1 false Node"),
            Line("pods po v1 true Pod"),
            Line("jobs batch/v1 true Job"),
            Line("podgroups scheduling.k8s.io/v1beta1 true PodGroup"),
            Line("workloads scheduling.k8s.io/v1beta1 true Workload"),
            Line("priorityclasses pc scheduling.k8s.io/v1 false PriorityClass"),
            Silent,
        ],
    ),
    at_end(
        "resources with verbs and categories",
        "api-resources --api-group=batch -o wide",
        &[
            Columns("NAME SHORTNAMES APIVERSION NAMESPACED KIND VERBS CATEGORIES"),
            Line("jobs batch/v1 true Job create,delete,deletecollection,get,list,patch,update,watch all"),
        ],
    ),
    at_end("legacy discovery of groups", "get --raw /apis", &[Json("/kind", "\"APIGroupList\"")]),
    at_end("legacy discovery of core", "get --raw /api", &[Json("/versions", "[\"v1\"]")]),
    at_end("legacy discovery of a version", "get --raw /apis/batch/v1", &[Json("/kind", "\"APIResourceList\"")]),
    at_end(
        "OpenAPI v3 paths",
        "get --raw /openapi/v3",
        &[Has("\"apis/batch/v1\""), Has("\"api/v1\""), Has("/openapi/v3/apis/scheduling.k8s.io/v1beta1?hash=")],
    ),
    at_end(
        "nodes",
        "get nodes",
        &[Columns("NAME STATUS ROLES AGE VERSION"), Line("node-0 Ready <none> * *"), Line("node-15 Ready <none> * *")],
    ),
    at_end(
        "nodes, wide",
        "get nodes -o wide",
        &[
            Columns("NAME STATUS ROLES AGE VERSION INTERNAL-IP EXTERNAL-IP OS-IMAGE KERNEL-VERSION CONTAINER-RUNTIME"),
            Line("node-0 Ready <none> ..."),
        ],
    ),
    at_end(
        "a node's story",
        "describe node node-0",
        &[
            Line("Name: node-0"),
            Line("nvidia.com/gpu: 8"),
            Line("Ready True ..."),
            Has("topology.kubernetes.io/rack="),
            Has("Allocated resources:"),
            Has("Non-terminated Pods:"),
        ],
    ),
    at_end(
        "namespaces",
        "get ns",
        &[Columns("NAME STATUS AGE"), Line("default Active *"), Line("kube-system Active *")],
    ),
    at_end("nothing there yet", "get jobs", &[Is(""), Warns("No resources found in default namespace.")]),
    at_end("a kind that is not served", "get deployments", &[Refused("the server doesn't have a resource type")]),
    at_end("an object that is not there", "get job nobody", &[Refused("jobs.batch \"nobody\" not found")]),
    // Words about fields.
    at_end(
        "explain a kind",
        "explain job",
        &[
            Line("GROUP: batch"),
            Line("KIND: Job"),
            Line("VERSION: v1"),
            Line("spec <JobSpec>"),
            Line("status <JobStatus>"),
        ],
    ),
    at_end(
        "explain a field",
        "explain job.spec.parallelism",
        &[Line("FIELD: parallelism <integer>"), Has("DESCRIPTION:")],
    ),
    at_end(
        "explain what is ours to explain",
        "explain job.spec.scheduling",
        &[Has("schedulingPolicy"), Has("schedulingConstraints"), Has("disruptionMode")],
    ),
    at_end(
        "explain all fields",
        "explain podgroup --recursive",
        &[Line("GROUP: scheduling.k8s.io"), Line("VERSION: v1beta1"), Line("minCount <integer> ...")],
    ),
    at_end(
        "explain another version",
        "explain workload.spec --api-version=scheduling.k8s.io/v1alpha3",
        &[Line("VERSION: v1alpha3"), Has("podGroupTemplates")],
    ),
    at_end(
        "explain refuses what is not there",
        "explain job.spec.nothing",
        &[Refused("field \"nothing\" does not exist")],
    ),
    // Create.
    at_end("create on trial", "create -f pod.yaml --dry-run=server", &[Is("pod/lone created (server dry run)")]),
    at_end("the trial left nothing", "get pod lone", &[Refused("pods \"lone\" not found")]),
    at_end("create", "create -f pod.yaml", &[Is("pod/lone created"), Silent]),
    at_end(
        "create twice",
        "create -f pod.yaml",
        &[Refused("(AlreadyExists)"), Refused("pods \"lone\" already exists")],
    ),
    at_end(
        "create several kinds from one file",
        "create -f others.yaml",
        &[Is("namespace/tour created\npriorityclass.scheduling.k8s.io/urgent created\njob.batch/worded created")],
    ),
    at_end(
        "run a pod by words",
        "run worded --restart=Never -n tour --image=registry.example/main:1",
        &[Is("pod/worded created")],
    ),
    // Upstream takes protobuf as well, which kubectl sends for the few objects that it makes by itself.
    at_end(
        "protobuf is refused by name",
        "create namespace by-words",
        &[Refused("application/vnd.kubernetes.protobuf"), Refused("application/json")],
    ),
    at_end(
        "what kubectl makes by itself goes by a file",
        "create job by-words --image=registry.example/main:1 --dry-run=client -o yaml",
        &[Line("kind: Job"), Line("name: by-words")],
    ),
    at_end(
        "priority classes",
        "get pc",
        &[Columns("NAME VALUE GLOBAL-DEFAULT AGE PREEMPTIONPOLICY"), Line("urgent 1000 false * PreemptLowerPriority")],
    ),
    at_end(
        "create a group and its pods from one file",
        "create -f crew.yaml",
        &[Is("podgroup.scheduling.k8s.io/crew created\npod/crew-0 created\npod/crew-1 created")],
    ),
    // Fields that are not there, or are there twice.
    at_end(
        "an unknown field is refused by name",
        "create -f unknown-field.yaml",
        &[Refused("strict decoding error: unknown field \"spec.paralelism\"")],
    ),
    at_end(
        "an unknown field is refused by apply, too",
        "apply -f unknown-field.yaml",
        &[Refused("unknown field \"spec.paralelism\"")],
    ),
    at_end("and nothing came of it", "get job misspelt", &[Refused("not found")]),
    at_end(
        "an unknown field is a warning when asked",
        "create -f unknown-field.yaml --validate=warn",
        &[Is("job.batch/misspelt created"), Warns("Warning: unknown field \"spec.paralelism\"")],
    ),
    at_end(
        "the unknown field was dropped",
        "get job misspelt -o json",
        &[Lacks("paralelism"), Json("/spec/parallelism", "1")],
    ),
    at_end("delete it again", "delete job misspelt", &[Has("job.batch \"misspelt\" deleted")]),
    at_end(
        "an unknown field is nothing when asked",
        "create -f unknown-field.yaml --validate=ignore",
        &[Is("job.batch/misspelt created"), Silent],
    ),
    at_end(
        "a duplicate field is refused by name",
        "create -f duplicate-field.json --raw /apis/batch/v1/namespaces/default/jobs?fieldValidation=Strict",
        &[Refused("duplicate field \"spec.parallelism\"")],
    ),
    at_end(
        "a duplicate field is a warning when asked",
        "create -f duplicate-field.json --raw /apis/batch/v1/namespaces/default/jobs?fieldValidation=Warn",
        &[Json("/spec/parallelism", "2"), Warns("duplicate field \"spec.parallelism\"")],
    ),
    at_end(
        "delete by selector",
        "delete jobs -l batch.kubernetes.io/job-name=twice",
        &[Has("job.batch \"twice\" deleted"), Lacks("misspelt")],
    ),
    at_end("delete by kind and name", "delete job/misspelt", &[Has("job.batch \"misspelt\" deleted")]),
    // Apply.
    at_end("apply", "apply -f plain.yaml", &[Is("job.batch/plain created"), Silent]),
    at_end("apply again changes nothing", "apply -f plain.yaml", &[Is("job.batch/plain unchanged")]),
    at_end("apply a change", "apply -f plain-changed.yaml", &[Is("job.batch/plain configured")]),
    at_end(
        "the change is there, and only it",
        "get job plain -o json",
        &[
            Json("/spec/backoffLimit", "3"),
            Json("/metadata/labels/stage", "\"second\""),
            Json("/metadata/labels/purpose", "\"tour\""),
            Json("/metadata/annotations/example.com~1note", "\"changed\""),
            Json("/spec/template/spec/containers/0/env", r#"[{"name": "STAGE", "value": "first"}]"#),
        ],
    ),
    at_end("apply it once more", "apply -f plain-changed.yaml", &[Is("job.batch/plain unchanged")]),
    at_end("apply what was: removed fields go", "apply -f plain.yaml", &[Is("job.batch/plain configured")]),
    at_end("the label went", "get job plain -o json", &[Json("/metadata/labels", "{\"purpose\": \"tour\"}")]),
    at_end("apply on trial", "apply -f plain.yaml --dry-run=server -o json", &[Json("/metadata/name", "\"plain\"")]),
    at_end("apply a gang", "apply -f gang.yaml", &[Is("job.batch/gang created"), Silent]),
    // Wait, and look.
    at_end(
        "wait for a Job",
        "wait --for=condition=complete job/plain --timeout=60s",
        &[Is("job.batch/plain condition met")],
    ),
    at_end(
        "wait for a gang",
        "wait --for=condition=complete job/gang --timeout=60s",
        &[Is("job.batch/gang condition met")],
    ),
    at_end(
        "wait for a pod's phase",
        "wait --for=jsonpath={.status.phase}=Running pod/lone",
        &[Is("pod/lone condition met")],
    ),
    at_end(
        "wait says when time is up",
        "wait --for=condition=complete pod/lone --timeout=1s",
        &[Refused("timed out waiting for the condition")],
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
        &[Line("job.batch/plain Complete ..."), Lacks("pod/lone")],
    ),
    at_end("the short form of all", "get all -n tour", &[Line("pod/worded ..."), Line("job.batch/worded ...")]),
    at_end(
        "all namespaces",
        "get jobs -A",
        &[Columns("NAMESPACE NAME STATUS COMPLETIONS DURATION AGE"), Line("tour worded ...")],
    ),
    at_end("names alone", "get job gang plain -o name", &[Is("job.batch/gang\njob.batch/plain")]),
    at_end(
        "labels as columns",
        "get job plain -L purpose --show-labels",
        &[
            Columns("NAME STATUS COMPLETIONS DURATION AGE PURPOSE LABELS"),
            Line("plain Complete 2/2 * * tour purpose=tour"),
        ],
    ),
    at_end(
        "own columns",
        "get job plain -o custom-columns=NAME:.metadata.name,DONE:.status.succeeded",
        &[Is("NAME    DONE\nplain   2")],
    ),
    at_end(
        "a label selector",
        "get jobs -l 'purpose in (tour),!stage' -o name",
        &[Is("job.batch/gang\njob.batch/plain")],
    ),
    at_end("a field selector", "get pods --field-selector metadata.name=lone -o name", &[Is("pod/lone")]),
    at_end(
        "a field selector on phase",
        "get pods --field-selector status.phase=Running -l app=lone -o name",
        &[Is("pod/lone")],
    ),
    at_end("small pages", "get nodes --chunk-size=3 -o name", &[Line("node/node-0"), Line("node/node-15")]),
    at_end("a sorted list", "get jobs --sort-by=.status.succeeded -o name", &[Is("job.batch/plain\njob.batch/gang")]),
    at_end(
        "as YAML",
        "get job gang -o yaml",
        &[
            Line("apiVersion: batch/v1"),
            Line("kind: Job"),
            Line("completionMode: Indexed"),
            Line("completedIndexes: 0-3"),
            Line("succeeded: 4"),
            Has("  scheduling:\n"),
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
    // Tell the story.
    at_end(
        "a Job's story",
        "describe job plain",
        &[
            Line("Name: plain"),
            Line("Parallelism: 2"),
            Line("Completions: 2"),
            Has("0 Active (0 Ready) / 2 Succeeded / 0 Failed"),
            Line("Image: registry.example/main:1"),
            Line("Normal SuccessfulCreate ..."),
            Line("Normal Completed ..."),
        ],
    ),
    at_end(
        "a pod's story",
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
        "a pod group's story",
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
        &[Line("* Normal Completed job/gang ..."), Lacks("job/plain")],
    ),
    at_end("events by their own command", "events --for job/plain", &[Has("Job/plain"), Has("SuccessfulCreate")]),
    // Watch.
    at_end("something to watch", "create -f watched.yaml", &[Is("job.batch/watched created")]),
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
    streaming("watch objects", "get job watched --watch-only=false -w -o json", &[Has("\"kind\": \"Job\"")]),
    // Change.
    at_end("label", "label job plain team=blue", &[Is("job.batch/plain labeled")]),
    at_end("label again", "label job plain team=blue", &[Is("job.batch/plain not labeled")]),
    at_end("a label is not overwritten by accident", "label job plain team=red", &[Refused("--overwrite")]),
    at_end(
        "a label is overwritten when asked",
        "label job plain team=red --overwrite",
        &[Is("job.batch/plain labeled")],
    ),
    at_end("the label is there", "get jobs -l team=red -o name", &[Is("job.batch/plain")]),
    at_end("unlabel", "label job plain team-", &[Is("job.batch/plain unlabeled")]),
    at_end("annotate", "annotate pod lone example.com/note='two words'", &[Is("pod/lone annotated")]),
    at_end(
        "the annotation is there",
        "get pod lone -o json",
        &[Json("/metadata/annotations/example.com~1note", "\"two words\"")],
    ),
    at_end("annotate no more", "annotate pod lone example.com/note-", &[Is("pod/lone annotated")]),
    at_end(
        "patch, strategic",
        r#"patch pod lone --type=strategic -p '{"metadata":{"labels":{"way":"strategic"}},"spec":{"containers":[{"name":"main","image":"registry.example/main:2"}]}}'"#,
        &[Is("pod/lone patched")],
    ),
    at_end(
        "the strategic patch merged the container by name",
        "get pod lone -o json",
        &[
            Json("/spec/containers/0/image", "\"registry.example/main:2\""),
            Json("/spec/containers/0/ports/0/containerPort", "80"),
            Json("/metadata/labels", r#"{"app": "lone", "way": "strategic"}"#),
        ],
    ),
    at_end(
        "patch, merge",
        r#"patch job plain --type=merge -p '{"metadata":{"labels":{"way":"merge"}}}'"#,
        &[Is("job.batch/plain patched")],
    ),
    at_end(
        "patch, JSON",
        r#"patch job plain --type=json -p '[{"op":"test","path":"/metadata/labels/way","value":"merge"},{"op":"replace","path":"/metadata/labels/way","value":"json"}]'"#,
        &[Is("job.batch/plain patched")],
    ),
    at_end("the last patch counts", "get job plain -o jsonpath={.metadata.labels.way}", &[Is("json")]),
    at_end(
        "a patch that changes nothing",
        r#"patch job plain --type=merge -p '{"metadata":{"labels":{"way":"json"}}}'"#,
        &[Is("job.batch/plain patched (no change)")],
    ),
    at_end(
        "a JSON patch whose test fails",
        r#"patch job plain --type=json -p '[{"op":"test","path":"/metadata/labels/way","value":"merge"}]'"#,
        &[Refused("The request is invalid"), Refused("/metadata/labels/way")],
    ),
    at_end(
        "a patch of what must not change",
        r#"patch job plain --type=merge -p '{"spec":{"completions":5}}'"#,
        &[Refused("spec.completions: Invalid value: 5: field is immutable")],
    ),
    at_end(
        "a patch of a status",
        r#"patch pod lone --subresource=status --type=merge -p '{"status":{"message":"looked after"}}'"#,
        &[Is("pod/lone patched")],
    ),
    at_end("the status has it", "get pod lone -o jsonpath={.status.message}", &[Is("looked after")]),
    at_end(
        "edit",
        "KUBE_EDITOR='sed -i s/purpose:.tour/purpose:\\ edited/' edit job plain",
        &[Is("job.batch/plain edited")],
    ),
    at_end("the edit is there", "get job plain -o jsonpath={.metadata.labels.purpose}", &[Is("edited")]),
    at_end("edit nothing", "KUBE_EDITOR=true edit job plain", &[Warns("Edit cancelled, no changes made.")]),
    at_end("replace", "replace -f plain.yaml --dry-run=server", &[Refused("spec.selector")]),
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
