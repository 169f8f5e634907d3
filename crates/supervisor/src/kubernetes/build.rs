//! The programs of Kubernetes, built from the Go module in tests/kube into the user's cache folder.

use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use super::VERSION;

/// A program and its package. Each has a `tool` line in tests/kube/go.mod.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
];

/// How many packages Go compiles at a time by default.
pub const PARALLEL: u32 = 2;

/// Without a terminal, progress is printed this often.
const PROGRESS_SECONDS: u64 = 30;

/// Builds those of `names` that are missing. `false` after a message if Go is not installed.
pub fn ensure_built(names: &[&str], parallel: u32) -> anyhow::Result<bool> {
    let folder = folder()?;
    for (name, package) in PROGRAMS.iter().filter(|(name, _)| names.contains(name)) {
        let program = folder.join(name);
        if program.is_file() {
            continue;
        }
        if !has_go()? {
            return Ok(false);
        }
        build(package, &program, parallel)?;
    }
    Ok(true)
}

/// The folder of the programs, which contract.md promises to scripts.
pub fn folder() -> anyhow::Result<PathBuf> {
    Ok(crate::cache_folder()?.join(format!("kube-{VERSION}")))
}

/// Whether Go is installed. Without it the suites that need the programs print a message and are skipped. In CI they
/// must not be skipped.
pub fn has_go() -> anyhow::Result<bool> {
    if Command::new("go").arg("version").output().is_ok_and(|output| output.status.success()) {
        return Ok(true);
    }
    let text = format!("Go is not installed; the real Kubernetes {VERSION} is built with it (https://go.dev/dl)");
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        bail!("{text}");
    }
    eprintln!("skipped: {text}");
    Ok(false)
}

fn build(package: &str, program: &Path, parallel: u32) -> anyhow::Result<()> {
    let folder = program.parent().context("a program has a parent folder")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    // Built under another name and renamed, so that an interrupted build is never used.
    let unfinished = program.with_extension(format!("{}.part", std::process::id()));
    eprintln!("building {package} {VERSION}, which takes some minutes");
    let mut child = Command::new("nice")
        .args(["-n", "15", "go", "build", "-v", "-trimpath", "-buildvcs=false", "-mod=readonly"])
        .arg(format!("-p={parallel}"))
        .arg(format!("-ldflags={}", version_stamp()))
        .arg("-o")
        .arg(&unfinished)
        .arg(package)
        .current_dir(crate::repository_root()?.join("tests/kube"))
        .stderr(Stdio::piped())
        .spawn()
        .context("running `go build`")?;
    let stderr = child.stderr.take().context("its standard error is piped")?;
    let errors = report_progress(package, BufReader::new(stderr))?;
    let status = child.wait()?;
    ensure!(status.success(), "go build {package} ended with {status}: {errors}");
    std::fs::rename(&unfinished, program).with_context(|| program.display().to_string())
}

/// Prints the progress of the build; returns the lines that are not progress.
fn report_progress(package: &str, lines: impl BufRead) -> anyhow::Result<String> {
    let (start, on_terminal) = (Instant::now(), std::io::stderr().is_terminal());
    let (mut packages, mut told_at, mut errors) = (0, 0, String::new());
    for line in lines.lines() {
        let line = line?;
        // `-v` prints the bare path of each package as it is compiled.
        if line.starts_with("go: downloading ") || !line.contains([' ', ':']) {
            packages += 1;
        } else {
            errors.push_str(&line);
            errors.push('\n');
        }
        let seconds = start.elapsed().as_secs();
        if on_terminal {
            eprint!("\r{package}: {packages} packages, {seconds} s ");
        } else if seconds >= told_at + PROGRESS_SECONDS {
            told_at = seconds;
            eprintln!("{package}: {packages} packages, {seconds} s");
        }
    }
    eprintln!("{}{package}: {packages} packages, {} s", if on_terminal { "\r" } else { "" }, start.elapsed().as_secs());
    Ok(errors)
}

/// The version values that a release build sets; without them the programs report v0.0.0.
fn version_stamp() -> String {
    let (major_minor, _) = VERSION.rsplit_once('.').expect("a version has three parts");
    let (major, minor) = major_minor.split_once('.').expect("a version has three parts");
    let mut flags = String::from("-s -w");
    for module in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (key, value) in [
            ("gitVersion", format!("v{VERSION}")),
            ("gitMajor", major.to_owned()),
            ("gitMinor", minor.to_owned()),
            ("gitTreeState", "clean".to_owned()),
        ] {
            flags.push_str(&format!(" -X {module}.{key}={value}"));
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{PROGRAMS, VERSION, report_progress};

    #[test]
    fn the_go_module_pins_the_same_release_and_the_same_programs() {
        let path = crate::repository_root().unwrap().join("tests/kube/go.mod");
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.lines().any(|line| line.trim() == format!("k8s.io/kubernetes v{VERSION}")), "another release");
        for (name, package) in PROGRAMS {
            assert!(text.contains(&format!("\t{package}\n")), "{name} has no tool line");
        }
    }

    #[test]
    fn errors_of_go_are_returned_and_progress_is_not() {
        let stderr = "k8s.io/api/core/v1\ngo: downloading x v1\n# k8s.io/x\nx.go:3:1: syntax error\n";
        assert_eq!(report_progress("p", stderr.as_bytes()).unwrap(), "# k8s.io/x\nx.go:3:1: syntax error\n");
    }
}
