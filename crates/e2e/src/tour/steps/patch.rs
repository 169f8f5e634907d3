//! Labels, annotations, patches and edits.

use super::at_end;
use crate::tour::TourStep;
use crate::tour::output_check::OutputCheck::{Equals, FailsWith, Json, WarnsWith};

pub const STEPS: &[TourStep] = &[
    at_end("label", "label job plain team=blue", &[Equals("job.batch/plain labeled")]),
    at_end("label again", "label job plain team=blue", &[Equals("job.batch/plain not labeled")]),
    at_end("a label is not overwritten by default", "label job plain team=red", &[FailsWith("--overwrite")]),
    at_end("a label with --overwrite", "label job plain team=red --overwrite", &[Equals("job.batch/plain labeled")]),
    at_end("the label is stored", "get jobs -l team=red -o name", &[Equals("job.batch/plain")]),
    at_end("unlabel", "label job plain team-", &[Equals("job.batch/plain unlabeled")]),
    at_end("annotate", "annotate pod lone example.com/note='two words'", &[Equals("pod/lone annotated")]),
    at_end(
        "the annotation is stored",
        "get pod lone -o json",
        &[Json("/metadata/annotations/example.com~1note", "\"two words\"")],
    ),
    at_end("remove the annotation", "annotate pod lone example.com/note-", &[Equals("pod/lone annotated")]),
    at_end(
        "patch, strategic",
        r#"patch pod lone --type=strategic -p '{"metadata":{"labels":{"way":"strategic"}},"spec":{"containers":[{"name":"main","image":"registry.example/main:2"}]}}'"#,
        &[Equals("pod/lone patched")],
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
        &[Equals("job.batch/plain patched")],
    ),
    at_end(
        "patch, JSON",
        r#"patch job plain --type=json -p '[{"op":"test","path":"/metadata/labels/way","value":"merge"},{"op":"replace","path":"/metadata/labels/way","value":"json"}]'"#,
        &[Equals("job.batch/plain patched")],
    ),
    at_end("the last patch is stored", "get job plain -o jsonpath={.metadata.labels.way}", &[Equals("json")]),
    at_end(
        "a patch that changes nothing",
        r#"patch job plain --type=merge -p '{"metadata":{"labels":{"way":"json"}}}'"#,
        &[Equals("job.batch/plain patched (no change)")],
    ),
    at_end(
        "a JSON patch whose test fails",
        r#"patch job plain --type=json -p '[{"op":"test","path":"/metadata/labels/way","value":"merge"}]'"#,
        &[FailsWith("The request is invalid"), FailsWith("/metadata/labels/way")],
    ),
    at_end(
        "a patch of an immutable field",
        r#"patch job plain --type=merge -p '{"spec":{"completions":5}}'"#,
        &[FailsWith("spec.completions: Invalid value: 5: field is immutable")],
    ),
    at_end(
        "a patch of a status",
        r#"patch pod lone --subresource=status --type=merge -p '{"status":{"message":"looked after"}}'"#,
        &[Equals("pod/lone patched")],
    ),
    at_end("the status is stored", "get pod lone -o jsonpath={.status.message}", &[Equals("looked after")]),
    at_end(
        "edit",
        "KUBE_EDITOR='sed -i s/purpose:.tour/purpose:\\ edited/' edit job plain",
        &[Equals("job.batch/plain edited")],
    ),
    at_end("the edit is stored", "get job plain -o jsonpath={.metadata.labels.purpose}", &[Equals("edited")]),
    at_end("edit nothing", "KUBE_EDITOR=true edit job plain", &[WarnsWith("Edit cancelled, no changes made.")]),
    at_end("replace is validated", "replace -f plain.yaml --dry-run=server", &[FailsWith("spec.selector")]),
];
