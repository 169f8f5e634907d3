//! `phalanx run` with work that does not end well, or not by itself.

use crate::up::TestDir;
use crate::{phalanx, run_text, text, text_to};

/// A Job of three pods; `job` goes into its spec, `metadata` and `pod` into that of its pods.
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
fn work_that_can_never_end_is_named_at_once() {
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
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{case}: {said}");
        assert!(said.contains(want) && !said.contains("time ran out"), "{case}: {said}");
        assert!(text(&output.stdout).contains(" blocked "), "{case}: {}", text(&output.stdout));
    }
}

#[test]
fn a_workload_ref_to_nowhere_is_named_at_once() {
    let arguments = &["run", "-", "--feature-gates", "JobWorkloadRef=true"];
    let output = text_to(arguments, &job("a", "workloadRef: {name: missing}", "", ""));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let want = "job/a: cannot finish: spec.workloadRef names Workload missing, which does not exist";
    assert!(said.contains(want) && !said.contains("time ran out"), "{said}");
}

/// The Job controller waits for a Workload with that uid, and `run` waited with it until its time-out.
#[test]
fn a_workload_ref_with_another_uid_is_named_at_once() {
    let workload = "apiVersion: scheduling.k8s.io/v1beta1\nkind: Workload\nmetadata: {name: w}\n\
                    spec: {podGroupTemplates: [{name: t, schedulingPolicy: {basic: {}}}]}\n---";
    let manifest = format!("{workload}{}", job("a", "workloadRef: {name: w, uid: other}", "", ""));
    let output = text_to(&["run", "-", "--feature-gates", "JobWorkloadRef=true"], &manifest);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let want = "job/a: cannot finish: spec.workloadRef names Workload w with uid other, but its uid is ";
    assert!(said.contains(want) && !said.contains("time ran out"), "{said}");
}

#[test]
fn a_pod_that_never_ends_is_shown_where_it_runs_and_not_waited_for() {
    let pod = |name: &str, gpus: u32| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: b, resources: \
             {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]}}\n"
        )
    };
    let manifest = format!("{}---\n{}---\n{}", pod("server", 8), pod("waits", 8), job("fine", "", "", ""));
    let output = text_to(&["run", "-", "--nodes", "1"], &manifest);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(told.contains("pod/server  -       running  rack-0  node-0"), "{told}");
    assert!(said.contains("pod/server: cannot finish: restartPolicy Always: it never ends by itself"), "{said}");
    assert!(said.contains("pod/waits: cannot be placed") && said.contains("1 done, 1 running, 1 waiting"), "{said}");
}

#[test]
fn a_warning_of_the_server_is_printed_once_with_its_line() {
    let output = run_text(&job("a", "workloadRef: {name: missing}", "", ""));
    let said = text(&output.stderr);
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("warning: ")).collect();
    let [warning] = warnings[..] else { panic!("{said}") };
    assert!(warning.starts_with("warning: -:8: job/a: spec.workloadRef: "), "{said}");
}

#[test]
fn other_work_is_done_before_a_run_ends_for_what_is_blocked() {
    let manifest = job("blocked", "", "", "schedulerName: other,") + "---" + &job("fine", "", "", "");
    let output = run_text(&manifest);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("1 done, 1 blocked"), "{}", text(&output.stderr));
}

#[test]
fn a_warning_of_many_pods_is_printed_once() {
    let output = run_text(&job("a", "", "annotations: {phalanx.dev/exit-code: many}", ""));
    let said = text(&output.stderr);
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(
        warnings,
        ["warning: job/a: InvalidAnnotation: annotation phalanx.dev/exit-code: \"many\" is not a number from 0 to 255"]
    );
}

#[test]
fn a_run_without_problems_prints_no_warning() {
    let output = phalanx(&["run", "examples/competing-gangs.yaml"]);
    let said = text(&output.stderr);
    assert!(output.status.success() && !said.contains("warning: "), "{said}");
}

#[test]
fn remedies_are_told_whatever_else_ran() {
    let output = phalanx(&["run", "examples/too-large.yaml", "examples/plain-job.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("job/too-large: cannot be placed") && said.contains("lower minCount to 64"), "{said}");
}

#[test]
fn suspended_work_exits_1_and_says_how_to_resume() {
    let output = run_text(&(job("s", "suspend: true", "", "") + "---" + &job("fine", "", "", "")));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("job/s: suspended: spec.suspend is true, so no pods run; set it to false"), "{said}");
    assert!(said.contains("1 done, 1 suspended"), "{said}");
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
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        told.contains("cronjob/c  -       scheduled ") && told.contains("-01-01 03:00:00 CET (0 3 1 1 *)"),
        "{told}"
    );
    assert!(said.contains("`run` does not wait for schedules") && said.contains("error: nothing ran"), "{said}");
    let output = run_text(&format!("{}---{}", cron(false), job("fine", "", "", "")));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = run_text(&cron(true));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cronjob/c: suspended: spec.suspend is true, so no Jobs are created"), "{said}");
}

#[test]
fn manifests_without_work_print_no_empty_table() {
    let output = run_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: research}\n");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    assert!(text(&output.stderr).contains("error: nothing ran"), "{}", text(&output.stderr));
}

#[test]
fn a_group_that_only_pods_of_a_job_name_is_no_work_of_its_own() {
    let group = "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n\
                 spec: {schedulingPolicy: {gang: {minCount: 3}}}\n---";
    let output = run_text(&(group.to_owned() + &job("a", "", "", "schedulingGroup: {podGroupName: g},")));
    let told = text(&output.stdout);
    assert!(output.status.success() && told.contains("gang 3") && !told.contains("podgroup/g"), "{told}");
}

#[test]
fn what_failed_says_how() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {phalanx.dev/exit-code: '7'}}\n\
               spec: {restartPolicy: Never, containers: [{name: a, image: b}]}\n";
    let output = run_text(pod);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("pod/p: failed: pod p: exit code 7"), "{}", text(&output.stderr));
    let output = run_text(&job("j", "backoffLimit: 0", "annotations: {phalanx.dev/exit-code: '9'}", ""));
    let said = text(&output.stderr);
    assert!(said.contains("job/j: failed: BackoffLimitExceeded: ") && said.contains(": exit code 9)"), "{said}");
}

/// A gang whose pods demand something that the scheduler does not look at ran into the time-out.
#[test]
fn a_gang_that_no_change_of_the_cluster_helps_is_not_waited_for() {
    let demand = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}],";
    let output = run_text(&job("a", "scheduling: {schedulingPolicy: {gang: {}}}", "", demand));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let want = "this scheduler does not support topologySpreadConstraints";
    assert!(said.contains(want) && !said.contains("time ran out"), "{said}");
}

/// The refusal advises `scheduler.unsupportedTerms`, which could not be given to `run`.
#[test]
fn settings_of_a_file_are_taken_and_options_win_over_them() {
    let demand = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}],";
    let manifest = job("a", "scheduling: {schedulingPolicy: {gang: {}}}", "", demand)
        .replace("image: b", "image: b, resources: {limits: {nvidia.com/gpu: 8}}");
    let settings =
        "scheduler: {unsupportedTerms: ignore}\nnodes: {count: 1}\nserver: {featureGates: {WorkloadWithJob: false}}\n";
    let dir = TestDir::new("run-settings");
    let file = configuration(&dir, settings);
    let output = text_to(&["run", "-", "--config", &file], &manifest);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("spec.scheduling: dropped by the server"), "{said}");
    assert!(told.contains(" node-0 ") && !told.contains(" node-1 ") && !told.contains("gang"), "{told}");
    let options = ["--nodes", "3", "--feature-gates", "WorkloadWithJob=true"];
    let output = text_to(&[&["run", "-", "--config", &file], &options[..]].concat(), &manifest);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(told.contains("gang 3") && told.contains(" node-2 ") && !said.contains("dropped"), "{told}{said}");
}

#[test]
fn run_time_and_exit_code_come_from_annotation_option_file_and_default_in_this_order() {
    let plain = job("a", "backoffLimit: 0", "", "");
    let annotated = job("a", "backoffLimit: 0", "annotations: {phalanx.dev/run-seconds: '0'}", "");
    let dir = TestDir::new("run-pod-defaults");
    let file = configuration(&dir, "nodes: {runSeconds: forever, exitCode: 7}\n");
    let forever = "job/a: cannot finish: its pods run forever (annotation phalanx.dev/run-seconds, or --run-seconds)";
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
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{file}: {said}");
        assert!(wants.iter().all(|want| said.contains(want)), "{file}: {said}");
    }
}

/// Puts a file of kind Configuration with `settings` into `dir`, and says where it is.
fn configuration(dir: &TestDir, settings: &str) -> String {
    let file = dir.path("settings.yaml");
    std::fs::write(&file, format!("apiVersion: phalanx.dev/v1alpha1\nkind: Configuration\n{settings}")).unwrap();
    file
}

/// With the gate off the Job ran as if it had not asked for a gang, and no line said so.
#[test]
fn fields_that_a_gate_drops_are_named_once_with_their_line() {
    let manifest = job("a", "scheduling: {schedulingPolicy: {gang: {}}}", "", "");
    let output = text_to(&["run", "-", "--feature-gates", "WorkloadWithJob=false"], &manifest);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("warning: ")).collect();
    let want = "warning: -:8: job/a: spec.scheduling: dropped by the server, so it has no effect: the feature gates \
                WorkloadWithJob and GenericWorkload must be on there";
    assert_eq!(warnings, [want], "{said}");
}

#[test]
fn a_disruption_budget_is_no_work_and_is_taken() {
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {minAvailable: 1, selector: \
                  {matchLabels: {a: b}}}\n---\n";
    let output = run_text(&format!("{budget}{}", job("fine", "", "", "")));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Such a Job is deleted, pods first, before `run` looks again: it was missing from the table, and its failure exited 0.
#[test]
fn a_job_that_is_deleted_as_soon_as_it_ends_counts_with_its_end() {
    let fine = job("fine", "ttlSecondsAfterFinished: 0", "", "");
    let output = run_text(&fine);
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(told.contains("job/fine") && told.contains(" done ") && told.contains(" node-0 "), "{told}");
    assert!(said.contains("1 done in"), "{said}");
    let exits = "annotations: {phalanx.dev/exit-code: '1'}";
    let bad = job("bad", "backoffLimit: 0\n  ttlSecondsAfterFinished: 0", exits, "");
    let output = text_to(&["run", "-", "-o", "json"], &format!("{bad}---{}", job("slow", "", "", "")));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("job/bad: failed: BackoffLimitExceeded: ") && said.contains("1 done, 1 failed"), "{said}");
    let report: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let states = [0, 1].map(|index| [&report["work"][index]["name"], &report["work"][index]["state"]]);
    assert_eq!(
        (&report["result"], states),
        (&"failed".into(), [[&"bad".into(), &"failed".into()], [&"slow".into(), &"done".into()]])
    );
}
