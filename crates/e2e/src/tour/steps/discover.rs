//! Versions, health, resources, nodes and the documentation of fields.

use super::at_end;
use crate::tour::TourStep;
use crate::tour::output_check::OutputCheck::{Columns, Contains, Equals, FailsWith, Json, Line, NoStderr, WarnsWith};

pub const STEPS: &[TourStep] = &[
    at_end(
        "version names both sides",
        "version",
        &[Contains("Client Version: v1."), Contains("Server Version: v1.37")],
    ),
    at_end("version as JSON", "version -o json", &[Json("/serverVersion/minor", "\"37\"")]),
    at_end("ready", "get --raw /readyz", &[Equals("ok")]),
    at_end("live", "get --raw /livez", &[Equals("ok")]),
    at_end("healthy", "get --raw /healthz", &[Equals("ok")]),
    at_end("ready, with its checks", "get --raw /readyz?verbose", &[Contains("[+]"), Contains("check passed")]),
    at_end("metrics", "get --raw /metrics", &[Contains("# TYPE ")]),
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
            Line("leases coordination.k8s.io/v1 true Lease"),
            Line("poddisruptionbudgets pdb policy/v1 true PodDisruptionBudget"),
            Line("podgroups scheduling.k8s.io/v1beta1 true PodGroup"),
            Line("workloads scheduling.k8s.io/v1beta1 true Workload"),
            Line("priorityclasses pc scheduling.k8s.io/v1 false PriorityClass"),
            NoStderr,
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
        &[
            Contains("\"apis/batch/v1\""),
            Contains("\"api/v1\""),
            Contains("/openapi/v3/apis/scheduling.k8s.io/v1beta1?hash="),
        ],
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
        "describe a node",
        "describe node node-0",
        &[
            Line("Name: node-0"),
            Line("nvidia.com/gpu: 8"),
            Line("Ready True ..."),
            Contains("topology.kubernetes.io/rack="),
            Contains("Allocated resources:"),
            Contains("Non-terminated Pods:"),
        ],
    ),
    at_end(
        "namespaces",
        "get ns",
        &[Columns("NAME STATUS AGE"), Line("default Active *"), Line("kube-system Active *")],
    ),
    at_end("an empty list", "get jobs", &[Equals(""), WarnsWith("No resources found in default namespace.")]),
    at_end("a kind that is not served", "get deployments", &[FailsWith("the server doesn't have a resource type")]),
    at_end("get a missing object", "get job missing", &[FailsWith("jobs.batch \"missing\" not found")]),
    // Explain.
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
        &[Line("FIELD: parallelism <integer>"), Contains("DESCRIPTION:")],
    ),
    at_end(
        "explain a field that Phalanx adds",
        "explain job.spec.scheduling",
        &[Contains("schedulingPolicy"), Contains("schedulingConstraints"), Contains("disruptionMode")],
    ),
    at_end(
        "explain all fields",
        "explain podgroup --recursive",
        &[Line("GROUP: scheduling.k8s.io"), Line("VERSION: v1beta1"), Line("minCount <integer> ...")],
    ),
    at_end(
        "explain another version",
        "explain workload.spec --api-version=scheduling.k8s.io/v1alpha3",
        &[Line("VERSION: v1alpha3"), Contains("podGroupTemplates")],
    ),
    at_end(
        "explain refuses an unknown field",
        "explain job.spec.nothing",
        &[FailsWith("field \"nothing\" does not exist")],
    ),
];
