//! A namespace that goes, with all that is in it.

use super::{at_end, eventually};
use crate::tour::Step;
use crate::tour::want::Want::{Has, Is, Line, Refused};

pub const STEPS: &[Step] = &[
    at_end("a namespace to delete", "create namespace passing", &[Has("namespace/passing created")]),
    at_end("a pod in it", "run inside --image=registry.example/main:1 -n passing", &[Has("pod/inside created")]),
    eventually("the pod runs", "get pod inside -n passing", &[Line("inside * Running ...")]),
    at_end("delete the namespace", "delete namespace passing --timeout=60s", &[Has("namespace \"passing\" deleted")]),
    at_end("the namespace is gone", "get namespace passing", &[Refused("namespaces \"passing\" not found")]),
    at_end("so is the pod", "get pods -n passing -o name", &[Is("")]),
    at_end(
        "some namespaces stay",
        "delete namespace default",
        &[Refused("namespaces \"default\" is forbidden: this namespace may not be deleted")],
    ),
];
