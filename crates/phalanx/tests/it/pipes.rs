//! Closed pipes: no command panics when its reader is gone.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::{phalanx, text};

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(line.split_whitespace()).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_closed_pipe_does_not_cause_a_panic() {
    for (line, code) in [
        ("help", 0),
        ("--version", 0),
        ("version", 0),
        ("config", 0),
        ("completion bash", 0),
        ("compile -f examples/training.yaml", 0),
        ("run examples/plain-job.yaml", 0),
        ("run examples/too-large.yaml -o json", 1),
        ("get pods --kubeconfig crates/phalanx/tests/it/away.kubeconfig", 3),
        ("apply -f examples/no-such-file.yaml", 2),
    ] {
        let mut child = command(line).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = text(&output.stderr);
        assert!(!stderr.contains("panicked"), "{line}: {stderr}");
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        // The message of a panic could not be read either, but the exit code would be 101.
        let mut child = command(line).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code), "{line}, both streams closed");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_result_that_cannot_be_written_is_a_failure() {
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    for line in ["config", "completion bash", "compile -f examples/training.yaml", "run examples/plain-job.yaml"] {
        let output = command(line).stdout(full()).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {stderr}");
        assert!(stderr.contains("error: cannot write the result"), "{line}: {stderr}");
    }
}

#[test]
fn both_version_commands_work() {
    let version = text(&phalanx(&["version"]).stdout);
    assert!(version.starts_with("phalanx 0.") && version.ends_with("(Kubernetes API 1.37)\n"), "{version}");
    for flag in ["--version", "-V"] {
        let output = phalanx(&[flag]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), version.clone()), "{flag}");
    }
}
