//! Deletion of a namespace with all its objects.

use super::{at_end, eventually};
use crate::tour::TourStep;
use crate::tour::output_check::OutputCheck::{Contains, Equals, FailsWith, Line};

pub const STEPS: &[TourStep] = &[
    at_end("a namespace to delete", "create namespace passing", &[Contains("namespace/passing created")]),
    at_end("a pod in it", "run inside --image=registry.example/main:1 -n passing", &[Contains("pod/inside created")]),
    eventually("the pod runs", "get pod inside -n passing", &[Line("inside * Running ...")]),
    at_end(
        "delete the namespace",
        "delete namespace passing --timeout=60s",
        &[Contains("namespace \"passing\" deleted")],
    ),
    at_end("the namespace is gone", "get namespace passing", &[FailsWith("namespaces \"passing\" not found")]),
    at_end("the pod is gone", "get pods -n passing -o name", &[Equals("")]),
    at_end(
        "the default namespace cannot be deleted",
        "delete namespace default",
        &[FailsWith("namespaces \"default\" is forbidden: this namespace may not be deleted")],
    ),
];
