//! The commands that need a cluster, as their users run them: over TLS with `phalanx up`, and without a server.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use crate::text;
use crate::up::{TestDir, start_up};

/// Runs the binary in `dir`, without the user's kubeconfig.
fn phalanx(dir: &TestDir, arguments: &[&str]) -> Output {
    command(dir, arguments).output().unwrap()
}

fn command(dir: &TestDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(arguments).current_dir(dir.path("")).env("HOME", dir.path("")).env_remove("KUBECONFIG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Standard output of a command that succeeds.
fn stdout_of(dir: &TestDir, line: &str) -> String {
    let output = phalanx(dir, &line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
    text(&output.stdout)
}

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: trainer}
spec:
  parallelism: 4
  completions: 4
  scheduling: {schedulingPolicy: {gang: {}}}
  template:
    metadata: {annotations: {phalanx.dev/run-seconds: '0'}}
    spec: {restartPolicy: Never, containers: [{name: worker, image: trainer}]}
";

#[test]
fn a_job_is_applied_awaited_explained_and_deleted_without_kubectl() {
    let dir = TestDir::new("commands");
    let data_dir = dir.path(".phalanx");
    let _up = start_up(&dir, &["--data-dir", &data_dir, "--nodes", "2"]);
    std::fs::write(dir.path("job.yaml"), JOB).unwrap();
    assert_eq!(stdout_of(&dir, "apply -f job.yaml"), "job.batch/trainer created\n");
    let awaited = stdout_of(&dir, "wait job/trainer --for condition=Complete --timeout 60s");
    assert_eq!(awaited, "job.batch/trainer condition met\n");
    assert_eq!(stdout_of(&dir, "apply -f job.yaml"), "job.batch/trainer unchanged\n");
    let table = stdout_of(&dir, "get pods -o wide");
    assert!(table.starts_with("NAME ") && table.contains(" NODE ") && table.lines().count() == 5, "{table}");
    let explained = stdout_of(&dir, "explain job/trainer");
    assert!(explained.contains("done: 4 succeeded") && explained.contains("gang of 4"), "{explained}");
    let pods = stdout_of(&dir, "get pods -o name");
    let known = stdout_of(&dir, &format!("logs {}", pods.lines().next().unwrap()));
    assert!(known.contains("with exit code 0"), "{known}");
    assert_eq!(stdout_of(&dir, "delete -f job.yaml --cascade foreground"), "job.batch \"trainer\" deleted\n");
    assert_eq!(stdout_of(&dir, "get pods"), "");
    let output = phalanx(&dir, &["get", "job", "trainer"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not found"), "{}", text(&output.stderr));
}

/// A server that accepted connections and never responded blocked every command forever.
#[test]
fn a_server_that_does_not_respond_exits_1() {
    let dir = TestDir::new("commands-silent");
    std::fs::write(dir.path("job.yaml"), JOB).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The kernel accepts the connections, and no process reads from them.
    for scheme in ["http", "https"] {
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: s, user: u}}}}], \
             users: [{{name: u, user: {{token: t}}}}], clusters: [{{name: s, cluster: {{server: '{scheme}://{address}'}}}}]}}"
        );
        std::fs::write(dir.path("silent"), kubeconfig).unwrap();
        for line in [
            "get pods",
            "apply -f job.yaml",
            "delete job a",
            "wait job/a --for delete",
            "explain job/a",
            "logs a",
            "get pods -w",
        ] {
            let options = ["--kubeconfig", "silent", "--request-timeout", "200ms"];
            let output = phalanx(&dir, &line.split_whitespace().chain(options).collect::<Vec<_>>());
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{scheme} {line}: {stderr}");
            let want =
                "error: the server did not respond within 200ms; it may be overloaded: try again, or use a longer";
            assert!(stderr.starts_with(want), "{scheme} {line}: {stderr}");
        }
    }
}

#[test]
fn apply_reports_fields_that_the_server_dropped() {
    let dir = TestDir::new("commands-dropped");
    let data_dir = dir.path(".phalanx");
    let _up = start_up(&dir, &["--data-dir", &data_dir, "--nodes", "1", "--feature-gates", "WorkloadWithJob=false"]);
    std::fs::write(dir.path("job.yaml"), JOB).unwrap();
    for outcome in ["created", "unchanged"] {
        let output = phalanx(&dir, &["apply", "-f", "job.yaml"]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert_eq!(text(&output.stdout), format!("job.batch/trainer {outcome}\n"));
        let want = "warning: job.yaml:8: job/trainer: spec.scheduling: dropped by the server, so it has no effect: the feature \
                    gates WorkloadWithJob and GenericWorkload must be on there";
        assert!(stderr.contains(want), "{outcome}: {stderr}");
    }
}

#[test]
fn all_objects_are_applied_without_a_reader_of_the_output() {
    let dir = TestDir::new("commands-unread");
    let data_dir = dir.path(".phalanx");
    let _up = start_up(&dir, &["--data-dir", &data_dir, "--nodes", "1"]);
    let jobs: Vec<String> = ["a", "b", "c"].iter().map(|name| JOB.replace("trainer}", &format!("{name}}}"))).collect();
    std::fs::write(dir.path("jobs.yaml"), jobs.join("---")).unwrap();
    let mut apply = command(&dir, &["apply", "-f", "jobs.yaml"]).spawn().unwrap();
    drop(apply.stdout.take());
    assert_eq!(apply.wait().unwrap().code(), Some(0));
    assert_eq!(stdout_of(&dir, "get jobs -o name"), "job.batch/a\njob.batch/b\njob.batch/c\n");
}

#[test]
fn a_watch_ends_when_its_reader_closes_the_pipe() {
    let dir = TestDir::new("commands-watch");
    let data_dir = dir.path(".phalanx");
    let _up = start_up(&dir, &["--data-dir", &data_dir, "--nodes", "2"]);
    std::fs::write(dir.path("job.yaml"), JOB).unwrap();
    let mut watch = command(&dir, &["get", "jobs", "-w", "-o", "name"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    stdout_of(&dir, "apply -f job.yaml");
    assert_eq!(lines.next().unwrap().unwrap(), "job.batch/trainer");
    drop(lines);
    stdout_of(&dir, "wait job/trainer --for condition=Complete --timeout 60s");
    stdout_of(&dir, "delete job trainer");
    assert_eq!(watch.wait().unwrap().code(), Some(0), "a closed pipe is no failure");
}

#[test]
fn errors_without_a_cluster_have_a_hint() {
    let dir = TestDir::new("commands-alone");
    std::fs::write(dir.path("bad.yaml"), JOB.replace("completions", "completion")).unwrap();
    std::fs::write(dir.path("away"), include_str!("away.kubeconfig")).unwrap();
    for (line, code, want) in [
        ("get pods", 3, "start a cluster with `phalanx up` or pass --kubeconfig"),
        ("get pods --kubeconfig nowhere", 3, "nowhere"),
        ("get pods --kubeconfig away", 3, "cannot reach the server"),
        ("get pods --kubeconfig bad.yaml", 3, "bad.yaml"),
        ("apply -f missing.yaml", 2, "missing.yaml"),
        ("get", 2, "KIND"),
        ("wait job/a --for nothing", 2, "condition=TYPE"),
        ("delete", 2, "KIND"),
    ] {
        let output = phalanx(&dir, &line.split_whitespace().collect::<Vec<_>>());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        assert!(stderr.contains(want) && output.stdout.is_empty(), "{line}: {stderr}");
    }
}

#[test]
fn every_shell_has_a_completion_script() {
    let dir = TestDir::new("commands-completion");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout_of(&dir, &format!("completion {shell}"));
        assert!(script.contains("explain") && script.contains("phalanx"), "{shell}");
    }
}
