//! `phalanx run` with work that fails or never ends.

use crate::up::TestDir;
use crate::{phalanx, run_text, text, text_to};

/// A Job of three pods; `job` is added to its spec, `metadata` and `pod` to its pod template.
fn job(name: &str, job: &str, metadata: &str, pod: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  parallelism: 3
  completions: 3
  {job}
  template:
    metadata: {{{metadata}}}
    spec: {{restartPolicy: Never, {pod} containers: [{{name: a, image: b}}]}}
"
    )
}

#[test]
fn work_that_can_never_end_is_reported_at_once() {
    let group = "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n\
                 spec: {schedulingPolicy: {gang: {minCount: 4}}}\n";
    let in_group = job("few", "", "", "schedulingGroup: {podGroupName: g},");
    for (case, manifest, want) in [
        (
            "PriorityClass",
            job("a", "", "", "priorityClassName: urgent,"),
            "job/a: cannot finish: its pods cannot be created: PriorityClass urgent does not exist",
        ),
        (
            "RuntimeClass",
            job("a", "", "", "runtimeClassName: sandbox,"),
            "job/a: cannot finish: its pods cannot be created: pod rejected: RuntimeClass \"sandbox\" not found",
        ),
        (
            "another priority than that of the class",
            job("a", "", "", "priority: 7,"),
            "job/a: cannot finish: its pods cannot be created: the integer value of priority (7) must not be provided",
        ),
        (
            "schedulerName",
            job("a", "", "", "schedulerName: other,"),
            "job/a: cannot finish: no scheduler here serves schedulerName other; served: default-scheduler",
        ),
        (
            "managedBy",
            job("a", "managedBy: example.com/other", "", ""),
            "job/a: cannot finish: spec.managedBy leaves it to the controller example.com/other",
        ),
        (
            "unknown PodGroup",
            job("a", "", "", "schedulingGroup: {podGroupName: missing},"),
            "job/a: cannot finish: its pods name PodGroup missing, which does not exist",
        ),
        (
            "unknown PodGroup of a pod",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {schedulingGroup: {podGroupName: missing}, \
             containers: [{name: a, image: b}]}\n"
                .to_owned(),
            "pod/p: cannot finish: its pods name PodGroup missing, which does not exist",
        ),
        (
            "annotation",
            job("a", "", "annotations: {phalanx.dev/run-seconds: soon}", ""),
            "job/a: cannot finish: no node can run its pods: annotation phalanx.dev/run-seconds: \"soon\" is not a number",
        ),
        (
            "scheduling gate",
            job("a", "", "", "schedulingGates: [{name: example.com/later}],"),
            "job/a: cannot finish: its pods have the scheduling gate example.com/later, which nothing here removes",
        ),
        (
            "no parallelism",
            job("a", "", "", "").replace("parallelism: 3", "parallelism: 0"),
            "job/a: cannot finish: spec.parallelism is 0, so no pods are created",
        ),
        ("PodGroup without pods", group.to_owned(), "podgroup/g: cannot finish: no pod names this PodGroup"),
        (
            "gang with too few pods",
            format!("{group}---{in_group}"),
            "job/few: cannot finish: waiting for pods: 3 of minCount 4 exist, and nothing here creates more",
        ),
    ] {
        let output = run_text(&manifest);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{case}: {stderr}");
        assert!(stderr.contains(want) && !stderr.contains("time ran out"), "{case}: {stderr}");
        assert!(text(&output.stdout).contains(" blocked "), "{case}: {}", text(&output.stdout));
    }
}

#[test]
fn a_workload_ref_to_a_missing_workload_is_reported_at_once() {
    let arguments = &["run", "-", "--feature-gates", "JobWorkloadRef=true"];
    let output = text_to(arguments, &job("a", "workloadRef: {name: missing}", "", ""));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let want = "job/a: cannot finish: spec.workloadRef names Workload missing, which does not exist";
    assert!(stderr.contains(want) && !stderr.contains("time ran out"), "{stderr}");
}

/// The Job controller waits for a Workload with that uid, and `run` waited until its timeout.
#[test]
fn a_workload_ref_with_another_uid_is_reported_at_once() {
    let workload = "apiVersion: scheduling.k8s.io/v1beta1\nkind: Workload\nmetadata: {name: w}\n\
                    spec: {podGroupTemplates: [{name: t, schedulingPolicy: {basic: {}}}]}\n---";
    let manifest = format!("{workload}{}", job("a", "workloadRef: {name: w, uid: other}", "", ""));
    let output = text_to(&["run", "-", "--feature-gates", "JobWorkloadRef=true"], &manifest);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let want = "job/a: cannot finish: spec.workloadRef names Workload w with uid other, but its uid is ";
    assert!(stderr.contains(want) && !stderr.contains("time ran out"), "{stderr}");
}

#[test]
fn a_pod_that_never_ends_is_shown_on_its_node_and_not_waited_for() {
    let pod = |name: &str, gpus: u32| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: b, resources: \
             {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]}}\n"
        )
    };
    let manifest = format!("{}---\n{}---\n{}", pod("server", 8), pod("waits", 8), job("fine", "", "", ""));
    let output = text_to(&["run", "-", "--nodes", "1"], &manifest);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stdout.contains("pod/server  -       running  rack-0  node-0"), "{stdout}");
    assert!(stderr.contains("pod/server: cannot finish: restartPolicy Always: it never ends by itself"), "{stderr}");
    assert!(
        stderr.contains("pod/waits: cannot be placed") && stderr.contains("1 done, 1 running, 1 waiting"),
        "{stderr}"
    );
}

#[test]
fn a_warning_of_the_server_is_printed_once_with_its_line() {
    let output = run_text(&job("a", "workloadRef: {name: missing}", "", ""));
    let stderr = text(&output.stderr);
    let warnings: Vec<&str> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    let [warning] = warnings[..] else { panic!("{stderr}") };
    assert!(warning.starts_with("warning: -:8: job/a: spec.workloadRef: "), "{stderr}");
}

#[test]
fn other_work_finishes_before_a_run_ends_because_of_blocked_work() {
    let manifest = job("blocked", "", "", "schedulerName: other,") + "---" + &job("fine", "", "", "");
    let output = run_text(&manifest);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("1 done, 1 blocked"), "{}", text(&output.stderr));
}

#[test]
fn a_warning_of_many_pods_is_printed_once() {
    let output = run_text(&job("a", "", "annotations: {phalanx.dev/exit-code: many}", ""));
    let stderr = text(&output.stderr);
    let warnings: Vec<&str> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(
        warnings,
        ["warning: job/a: InvalidAnnotation: annotation phalanx.dev/exit-code: \"many\" is not a number from 0 to 255"]
    );
}

#[test]
fn a_run_without_problems_prints_no_warning() {
    let output = phalanx(&["run", "examples/competing-gangs.yaml"]);
    let stderr = text(&output.stderr);
    assert!(output.status.success() && !stderr.contains("warning: "), "{stderr}");
}

#[test]
fn remedies_are_reported_when_other_work_ran() {
    let output = phalanx(&["run", "examples/too-large.yaml", "examples/plain-job.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("job/too-large: cannot be placed") && stderr.contains("lower minCount to 64"), "{stderr}");
}

#[test]
fn suspended_work_exits_1_with_a_hint() {
    let output = run_text(&(job("s", "suspend: true", "", "") + "---" + &job("fine", "", "", "")));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("job/s: suspended: spec.suspend is true, so no pods run; set it to false"), "{stderr}");
    assert!(stderr.contains("1 done, 1 suspended"), "{stderr}");
}

#[test]
fn a_cron_job_is_shown_with_its_next_time_and_not_waited_for() {
    let cron = |suspend: bool| {
        format!(
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: c}}\nspec: {{schedule: '0 3 1 1 *', suspend: {suspend}, \
             timeZone: Europe/Berlin, jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: \
             [{{name: a, image: b}}]}}}}}}}}}}\n"
        )
    };
    let output = run_text(&cron(false));
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stdout.contains("cronjob/c  -       scheduled ") && stdout.contains("-01-01 03:00:00 CET (0 3 1 1 *)"),
        "{stdout}"
    );
    assert!(stderr.contains("`run` does not wait for schedules") && stderr.contains("error: nothing ran"), "{stderr}");
    let output = run_text(&format!("{}---{}", cron(false), job("fine", "", "", "")));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = run_text(&cron(true));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cronjob/c: suspended: spec.suspend is true, so no Jobs are created"), "{stderr}");
}

#[test]
fn manifests_without_work_print_no_empty_table() {
    let output = run_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: research}\n");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    assert!(text(&output.stderr).contains("error: nothing ran"), "{}", text(&output.stderr));
}

#[test]
fn a_group_of_pods_of_a_job_is_not_separate_work() {
    let group = "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n\
                 spec: {schedulingPolicy: {gang: {minCount: 3}}}\n---";
    let output = run_text(&(group.to_owned() + &job("a", "", "", "schedulingGroup: {podGroupName: g},")));
    let stdout = text(&output.stdout);
    assert!(output.status.success() && stdout.contains("gang 3") && !stdout.contains("podgroup/g"), "{stdout}");
}

#[test]
fn failed_work_is_reported_with_its_exit_code() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {phalanx.dev/exit-code: '7'}}\n\
               spec: {restartPolicy: Never, containers: [{name: a, image: b}]}\n";
    let output = run_text(pod);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("pod/p: failed: pod p: exit code 7"), "{}", text(&output.stderr));
    let output = run_text(&job("j", "backoffLimit: 0", "annotations: {phalanx.dev/exit-code: '9'}", ""));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("job/j: failed: BackoffLimitExceeded: ") && stderr.contains(": exit code 9)"), "{stderr}");
}

/// A gang whose pods have a constraint that the scheduler does not support ran into the timeout.
#[test]
fn a_gang_with_unsupported_constraints_is_not_waited_for() {
    let demand = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}],";
    let output = run_text(&job("a", "scheduling: {schedulingPolicy: {gang: {}}}", "", demand));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let want = "this scheduler does not support topologySpreadConstraints";
    assert!(stderr.contains(want) && !stderr.contains("time ran out"), "{stderr}");
}

/// The refusal names `scheduler.unsupportedTerms`, which could not be set for `run`.
#[test]
fn settings_of_a_file_apply_and_options_take_precedence() {
    let demand = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}],";
    let manifest = job("a", "scheduling: {schedulingPolicy: {gang: {}}}", "", demand)
        .replace("image: b", "image: b, resources: {limits: {nvidia.com/gpu: 8}}");
    let settings =
        "scheduler: {unsupportedTerms: ignore}\nnodes: {count: 1}\nserver: {featureGates: {WorkloadWithJob: false}}\n";
    let dir = TestDir::new("run-settings");
    let file = configuration(&dir, settings);
    let output = text_to(&["run", "-", "--config", &file], &manifest);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("spec.scheduling: dropped by the server"), "{stderr}");
    assert!(stdout.contains(" node-0 ") && !stdout.contains(" node-1 ") && !stdout.contains("gang"), "{stdout}");
    let options = ["--nodes", "3", "--feature-gates", "WorkloadWithJob=true"];
    let output = text_to(&[&["run", "-", "--config", &file], &options[..]].concat(), &manifest);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        stdout.contains("gang 3") && stdout.contains(" node-2 ") && !stderr.contains("dropped"),
        "{stdout}{stderr}"
    );
}

#[test]
fn run_time_and_exit_code_come_from_annotation_option_file_and_default_in_this_order() {
    let plain = job("a", "backoffLimit: 0", "", "");
    let annotated = job("a", "backoffLimit: 0", "annotations: {phalanx.dev/run-seconds: '0'}", "");
    let dir = TestDir::new("run-pod-defaults");
    let file = configuration(&dir, "nodes: {runSeconds: forever, exitCode: 7}\n");
    let forever = "job/a: cannot finish: its pods run forever (annotation phalanx.dev/run-seconds, --run-seconds or nodes.runSeconds)";
    for (case, manifest, options, code, want) in [
        ("default", &plain, &[][..], 0, "1 done"),
        ("file", &plain, &["--config", &file], 1, forever),
        ("option over file", &plain, &["--config", &file, "--run-seconds", "0"], 1, "exit code 7"),
        ("option", &plain, &["--run-seconds", "forever"], 1, forever),
        ("annotation over option and file", &annotated, &["--config", &file, "--run-seconds", "forever"], 1, "code 7"),
        ("annotation", &job("a", "", "annotations: {phalanx.dev/run-seconds: forever}", ""), &[], 1, forever),
        ("bad option", &plain, &["--run-seconds", "soon"], 2, "must be a number of seconds, or forever"),
    ] {
        let output = text_to(&[&["run", "-"], options].concat(), manifest);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{case}: {errors}");
        assert!(errors.contains(want) && !errors.contains("time ran out"), "{case}: {errors}");
    }
}

#[test]
fn a_bad_configuration_file_exits_2_with_every_problem_and_runs_nothing() {
    let dir = TestDir::new("run-bad-settings");
    let file = configuration(&dir, "scheduler:\n  unsupportedTerms: maybe\n  lisen: x\n");
    for (file, wants) in [
        (file.as_str(), ["4: scheduler.unsupportedTerms: must be wait or ignore", "5: scheduler.lisen: unknown field"]),
        ("missing.yaml", ["error: missing.yaml: ", "No such file"]),
        ("examples/training.yaml", ["apiVersion: must be phalanx.dev/v1alpha1", "kind: must be Configuration"]),
    ] {
        let output = phalanx(&["run", "examples/training.yaml", "--config", file]);
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{file}: {stderr}");
        assert!(wants.iter().all(|want| stderr.contains(want)), "{file}: {stderr}");
    }
}

/// Writes a file of kind Configuration with `settings` to `dir`, and returns its path.
fn configuration(dir: &TestDir, settings: &str) -> String {
    let file = dir.path("settings.yaml");
    std::fs::write(&file, format!("apiVersion: phalanx.dev/v1alpha1\nkind: Configuration\n{settings}")).unwrap();
    file
}

/// With the gate off the Job ran without its gang, and no message reported it.
#[test]
fn fields_dropped_because_of_a_gate_are_reported_once_with_their_line() {
    let manifest = job("a", "scheduling: {schedulingPolicy: {gang: {}}}", "", "");
    let output = text_to(&["run", "-", "--feature-gates", "WorkloadWithJob=false"], &manifest);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let warnings: Vec<&str> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    let want = "warning: -:8: job/a: spec.scheduling: dropped by the server, so it has no effect: the feature gates \
                WorkloadWithJob and GenericWorkload must be on there";
    assert_eq!(warnings, [want], "{stderr}");
}

#[test]
fn a_disruption_budget_is_accepted_and_is_not_work() {
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {minAvailable: 1, selector: \
                  {matchLabels: {a: b}}}\n---\n";
    let output = run_text(&format!("{budget}{}", job("fine", "", "", "")));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Such a Job is deleted, pods first, before the next survey. It was missing from the table, and its failure exited 0.
#[test]
fn a_job_that_is_deleted_when_it_ends_is_counted() {
    let fine = job("fine", "ttlSecondsAfterFinished: 0", "", "");
    let output = run_text(&fine);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stdout.contains("job/fine") && stdout.contains(" done ") && stdout.contains(" node-0 "), "{stdout}");
    assert!(stderr.contains("1 done in"), "{stderr}");
    let exits = "annotations: {phalanx.dev/exit-code: '1'}";
    let bad = job("bad", "backoffLimit: 0\n  ttlSecondsAfterFinished: 0", exits, "");
    let output = text_to(&["run", "-", "-o", "json"], &format!("{bad}---{}", job("slow", "", "", "")));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("job/bad: failed: BackoffLimitExceeded: ") && stderr.contains("1 done, 1 failed"),
        "{stderr}"
    );
    let report: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let states = [0, 1].map(|index| [&report["work"][index]["name"], &report["work"][index]["state"]]);
    assert_eq!(
        (&report["result"], states),
        (&"failed".into(), [[&"bad".into(), &"failed".into()], [&"slow".into(), &"done".into()]])
    );
}

#[test]
fn the_table_lists_consecutive_indexes_on_each_node() {
    let gang = "completionMode: Indexed, scheduling: {schedulingPolicy: {gang: {}}},";
    let requests = "resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}";
    let manifest = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: ranks}}\nspec: {{{gang} parallelism: 16, completions: 16, \
         template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: b, {requests}}}]}}}}}}\n"
    );
    let output = run_text(&manifest);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("index")).collect();
    assert_eq!(rows.len(), 2, "{table}");
    assert!(rows[0].contains("index 0-7") && rows[1].contains("index 8-15"), "{table}");
}
