//! The binary as its users run it: exit codes, streams, bad input.
#![allow(clippy::unwrap_used)]

mod commands; // commands that need a cluster
mod up; // the server as a process
mod components; // components as processes
mod documents; // guides and change log
mod guide_commands; // every command of README and guides
mod run; // work that fails or never ends
mod pipes; // closed pipes
mod log; // format of the log, and secrets

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn phalanx(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_phalanx")).args(arguments).current_dir(root).output().unwrap()
}

/// Runs `phalanx run -` with `manifest` on standard input.
fn run_text(manifest: &str) -> Output {
    text_to(&["run", "-"], manifest)
}

/// Runs `phalanx ARGUMENTS…` with `manifest` on standard input.
fn text_to(arguments: &[&str], manifest: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_phalanx"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), manifest.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_gang_that_cannot_fit_exits_1_with_the_nearest_domain() {
    let output = phalanx(&["run", "examples/too-large.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    for part in ["64 of 72", "topology.kubernetes.io/rack=rack-", "nvidia.com/gpu", "8 more needed"] {
        assert!(stderr.contains(part), "no {part:?} in: {stderr}");
    }
    assert!(text(&output.stdout).contains("not placed"));
}

#[test]
fn the_report_is_one_json_document_with_every_pod() {
    let output = phalanx(&["run", "examples/plain-job.yaml", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["result"], "done");
    assert_eq!(report["work"][0]["podsSucceeded"], 9);
    let pods = report["work"][0]["pods"].as_array().unwrap();
    assert!(pods.len() == 9 && pods.iter().all(|pod| pod["node"].is_string()), "{report}");
}

#[test]
fn a_job_that_fails_exits_1_with_its_reason() {
    let manifest = "
apiVersion: batch/v1
kind: Job
metadata: {name: bad}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {phalanx.dev/exit-code: '3', phalanx.dev/run-seconds: '0'}}
    spec: {restartPolicy: Never, containers: [{name: a, image: b}]}
";
    let output = run_text(manifest);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("BackoffLimitExceeded"));
}

#[test]
fn bad_manifests_exit_2_with_every_error_at_its_line() {
    let manifest = "
apiVersion: batch/v1
kind: Job
metadata: {name: first}
spec:
  paralelism: 3
  completions: four
  template:
    spec:
      containers:
      - name: a
        imag: x
---
apiVersion: batch/v1
kind: Job
metadata: {name: second}
spec:
  parallelism: 2
  scheduling:
    schedulingPolicy: {gang: {minCount: 4}}
  template:
    spec: {restartPolicy: Always, containers: [{name: A_B, image: x}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: third}
";
    let output = run_text(manifest);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let stderr = text(&output.stderr);
    for part in [
        "-:6: job/first: spec.paralelism: unknown field",
        "-:7: job/first: spec.completions: expected integer",
        "-:12: job/first: spec.template.spec.containers[0].imag: unknown field",
        "-:20: job/second: spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 4: must not be greater than parallelism (2)",
        "-:22: job/second: spec.template.spec.containers[0].name: Invalid value: \"A_B\"",
        "-:22: job/second: spec.template.spec.restartPolicy: Required value",
        "-:25: deployment/third: kind Deployment of apps/v1 is not served",
    ] {
        assert!(stderr.contains(part), "no {part:?} in:\n{stderr}");
    }
}

#[test]
fn a_label_that_is_refused_has_the_line_of_its_key() {
    let manifest = "
apiVersion: batch/v1
kind: Job
metadata:
  name: a
  labels:
    fine: yes-it-is
    not a key: x
spec:
  template:
    metadata:
      labels:
        fine: x
        value: not a value
    spec:
      restartPolicy: Never
      nodeSelector:
        fine: x
        no key either: z
      containers: [{name: a, image: b}]
";
    let output = run_text(manifest);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for part in [
        "-:8: job/a: metadata.labels: Invalid value: \"not a key\"",
        "-:14: job/a: spec.template.labels: Invalid value: \"not a value\"",
        "-:19: job/a: spec.template.spec.nodeSelector: Invalid value: \"no key either\"",
    ] {
        assert!(stderr.contains(part), "no {part:?} in:\n{stderr}");
    }
}

#[test]
fn invalid_input_is_refused_without_a_panic() {
    let deep = format!("a: {}", "[".repeat(100_000));
    for (case, input) in [
        ("malformed", "kind: Job\nmetadata: [a\n"),
        ("a text", "just a text"),
        ("a list", "[1, 2]"),
        ("nothing", ""),
        ("deeply nested", deep.as_str()),
        ("a hostile namespace", "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: 'a b/../c'}\n"),
        ("twice the same key", "kind: Job\nkind: Job\n"),
        ("metadata of the wrong type", "apiVersion: v1\nkind: Pod\nmetadata: 7\n"),
    ] {
        let output = run_text(input);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{case}: {stderr}");
        assert!(stderr.starts_with("error: -:") && !stderr.contains("panicked"), "{case}: {stderr}");
    }
}

#[test]
fn bad_usage_exits_2() {
    for arguments in [&["run"][..], &["run", "--nodes", "0", "x"], &["run", "--timeout", "x", "y"], &["fly"]] {
        assert_eq!(phalanx(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn compile_prints_the_objects_of_the_controller() {
    let output = phalanx(&["compile", "-f", "examples/training.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    let printed = text(&output.stdout);
    for part in ["kind: Workload", "kind: PodGroup", "minCount: 64", "key: topology.kubernetes.io/rack", "all: {}"] {
        assert!(printed.contains(part), "no {part:?} in:\n{printed}");
    }
}
