//! The manifests of KEP-6089, as `phalanx compile` prints their objects.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use insta::assert_snapshot;

use super::compile_all;
use crate::manifest::{self, Manifest};

fn read(text: &str) -> Vec<Manifest> {
    manifest::parse(Path::new("test.yaml"), text).unwrap()
}

fn compile_text(text: &str) -> String {
    match compile_all(&read(text)) {
        Ok((text, _)) => text,
        Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
    }
}

/// The spec of the Workload, the first document.
fn workload_of(text: &str) -> String {
    let text = compile_text(text);
    let workload = text.split("---\n").next().unwrap();
    workload.split_once("spec:\n").unwrap().1.to_owned()
}

fn seed(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/seeds").join(format!("{name}.yaml"));
    std::fs::read_to_string(path).unwrap()
}

// Shows: S004-11
#[test]
fn a_gang_job_of_the_proposal_compiles() {
    assert_snapshot!(compile_text(&seed("004-job-gang")));
}

// Shows: S004-09
// Shows: S004-25
#[test]
fn a_job_of_the_proposal_that_asks_for_nothing_compiles_to_basic() {
    assert_snapshot!(compile_text(&seed("004-job-plain")));
}

// Shows: S004-15
// Shows: S004-48
// Shows: S004-50
#[test]
fn a_job_set_of_the_proposal_compiles_with_its_blocks_in_the_job_templates() {
    assert_snapshot!(compile_text(&seed("004-jobset-nested")));
}

// Shows: S004-49
#[test]
fn a_job_set_of_the_proposal_compiles_to_the_same_with_its_blocks_at_the_root() {
    // The two differ in names and hashes, and in the paths in the notes.
    let strip = |text: String, name: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split("  # ").next().unwrap_or_default());
        lines.filter(|line| !line.contains(name)).map(str::to_owned).collect()
    };
    let nested = strip(compile_text(&seed("004-jobset-nested")), "nested");
    let targeted = strip(compile_text(&seed("004-jobset-targeted")), "targeted");
    assert_eq!(nested, targeted);
    assert!(nested.iter().any(|line| line.contains("topology.kubernetes.io/rack")));
}

// Shows: S004-13
#[test]
fn draft_spellings_in_a_job_set_are_converted_with_a_warning() {
    let (_, warnings) = compile_all(&read(&seed("004-jobset-targeted"))).unwrap();
    assert_snapshot!(warnings.join("\n"), @r"
    spec.scheduling.policy: a name from a draft of the API; use schedulingPolicy
    spec.scheduling.replicatedJobPolicies[0].constraints: a name from a draft of the API; use schedulingConstraints
    spec.scheduling.replicatedJobPolicies[0].schedulingConstraints.topology[0].level: a name from a draft of the API; use key
    ");
}

#[test]
fn a_gang_of_gangs_has_notes_about_its_sizes() {
    let text = "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: ml, uid: 0b5e}
spec:
  scheduling: {disruptionMode: {all: {}}}
  replicatedJobs:
  - name: driver
    template: {spec: {template: {spec: {priorityClassName: high, containers: [{name: main}]}}}}
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 4
        scheduling: {schedulingPolicy: {gang: {}}}
        template: {spec: {containers: [{name: main}]}}
";
    assert_snapshot!(workload_of(text), @r"
    compositePodGroupTemplates:
    - disruptionMode:  # from spec.scheduling.disruptionMode
        all: {}
      name: train-cpgt-0  # the whole JobSet
      podGroupTemplates:
      - name: driver  # for spec.replicatedJobs[0]
        priorityClassName: high  # from the pods: a group has the priority of its pods
        schedulingPolicy:  # the default of a JobSet
          basic: {}
      - name: workers  # for spec.replicatedJobs[1]
        priorityClassName: high  # one class for all groups of a Workload
        schedulingPolicy:  # from spec.replicatedJobs[1].template.spec.scheduling.schedulingPolicy
          gang:
            minCount: 8  # not set, so replicas times parallelism, at least 1
      priorityClassName: high  # one class for all groups of a Workload
      schedulingPolicy:  # the default of a JobSet
        gang:
          minGroupCount: 2  # not set, so the number of replicatedJobs
    controllerRef:  # the object that the Workload describes
      apiGroup: jobset.x-k8s.io
      kind: JobSet
      name: train
    ");
}

#[test]
fn a_cron_job_compiles_to_the_objects_of_one_of_its_jobs() {
    let text = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: default}
spec:
  schedule: '@daily'
  jobTemplate:
    spec:
      parallelism: 2
      scheduling: {schedulingPolicy: {gang: {minCount: 1}}}
      template: {spec: {restartPolicy: Never, containers: [{name: main, image: a}]}}
";
    assert_snapshot!(workload_of(text), @r"
    controllerRef:  # the object that the Workload describes
      apiGroup: batch
      kind: Job
      name: nightly-0
    podGroupTemplates:
    - name: nightly-0-pgt-0  # the whole Job
      schedulingPolicy:  # from spec.jobTemplate.spec.scheduling.schedulingPolicy
        gang:
          minCount: 1
    ");
}

#[test]
fn errors_of_compile_have_their_line() {
    let both = "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  scheduling:
    replicatedJobPolicies:
    - targetReplicatedJob: workers
  replicatedJobs:
  - name: workers
    template:
      spec:
        scheduling: {}
        template: {spec: {containers: []}}
";
    let alone = |spec: &str| {
        let text =
            format!("{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {{name: a}}, spec: {spec}}}");
        compile_text(&text)
    };
    for (text, want) in [
        (
            compile_text(both),
            "test.yaml:13: jobset/train: spec.replicatedJobs[0].template.spec.scheduling: Forbidden: \
             spec.scheduling.replicatedJobPolicies[0] is about the same pods: use only one of the two\n",
        ),
        (
            alone("{scheduling: {policy: {}, schedulingPolicy: {}}}"),
            "test.yaml:1: jobset/a: spec.scheduling.policy: Forbidden: may not be set together with schedulingPolicy, of \
             which it is an older spelling\n",
        ),
        (alone("{}"), "test.yaml:1: jobset/a: spec.replicatedJobs: Required value: a JobSet has at least one Job\n"),
        (
            compile_text("{apiVersion: jobset.x-k8s.io/v1, kind: JobSet, metadata: {name: a}}"),
            "test.yaml:1: jobset/a: apiVersion: compile supports JobSets of jobset.x-k8s.io/v1alpha2\n",
        ),
        (
            compile_text("{apiVersion: v1, kind: Namespace, metadata: {name: a}}"),
            "test.yaml:1: namespace/a: no Job, CronJob or JobSet to compile\n",
        ),
    ] {
        assert_eq!(text, want);
    }
    let unknown = alone("{scheduling: {gangs: {}}, replicatedJobs: []}");
    assert_eq!(unknown, "test.yaml:1: jobset/a: spec.scheduling.gangs: Forbidden: unknown field\n");
}

// All of them got the reason that their pod template names a PodGroup, and missing namespaces were errors.
#[test]
fn a_job_without_objects_has_a_reason_and_its_namespace_need_not_exist() {
    let note = |metadata: &str, pod: &str| {
        let text = format!(
            "{{apiVersion: batch/v1, kind: Job, metadata: {{name: a, namespace: ml, {metadata}}}, spec: {{template: {{spec: \
             {{restartPolicy: Never, {pod} containers: [{{name: main, image: x}}]}}}}}}}}"
        );
        let text = compile_text(&text);
        text.trim_end().strip_prefix("# job/a: no objects; ").unwrap_or(&text).to_owned()
    };
    let owner = "ownerReferences: [{apiVersion: x.io/v1, kind: Training, name: t, uid: u, controller: true}]";
    let delegated = format!("{owner}, annotations: {{scheduling.k8s.io/group-template-name: workers}}");
    assert_eq!(note(owner, ""), "Training t controls it and manages its PodGroup");
    assert_eq!(
        note(&delegated, ""),
        "Training t controls it, and its PodGroup is created from template workers of the Workload of Training t or of one \
         of its owners"
    );
    assert_eq!(note("labels: {phalanx.dev/groups: disabled}", ""), "its label phalanx.dev/groups is disabled");
    let names = "schedulingGroup: {podGroupName: g},";
    assert_eq!(note("", names), "its pod template names a PodGroup");
    assert!(note("", "").starts_with("# job/a, as if the server had given it uid"), "{}", note("", ""));
    let with_namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: ml}}\n---\n{apiVersion: batch/v1, kind: Job, \
                          metadata: {name: a, namespace: ml}, spec: {template: {spec: {restartPolicy: Never, containers: \
                          [{name: main, image: x}]}}}}";
    assert!(compile_text(with_namespace).starts_with("# job/a, as if"), "{}", compile_text(with_namespace));
}

#[test]
fn errors_of_a_job_set_have_their_line() {
    let text = "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: ml}
spec:
  scheduling:
    schedulingPolicy:
      gang: {minCount: 2}
  replicatedJobs:
  - name: workers
    template: {spec: {template: {spec: {containers: []}}}}
";
    assert_eq!(
        compile_text(text),
        "test.yaml:8: jobset/train: spec.scheduling.schedulingPolicy.gang.minCount: Forbidden: unknown field: the gang of \
         a JobSet counts replicatedJobs, in minGroupCount\n"
    );
    let text = text.replace("{minCount: 2}", "{minGroupCount: 2}");
    assert_eq!(
        compile_text(&text),
        "test.yaml:8: jobset/train: spec.scheduling.schedulingPolicy.gang.minGroupCount: Invalid value: 2: must not be \
         greater than the number of replicatedJobs (1)\n"
    );
}
