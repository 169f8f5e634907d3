//! The real Kubernetes programs, built from the Go module in tests/kube into the user's cache folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// The release; tests/kube/go.mod pins the same.
const VERSION: &str = "1.37.1";

/// A program and its package. Each stands in tests/kube/go.mod as a `tool` line, too.
const PROGRAMS: &[(&str, &str)] = &[("kubectl", "k8s.io/kubernetes/cmd/kubectl")];

/// What `cargo xtask kube` can do.
#[derive(clap::Subcommand)]
pub enum Task {
    /// Builds the real programs of Kubernetes 1.37.1 into the cache folder, where they are not there yet
    Build(Build),
}

/// Options of `cargo xtask kube build`.
#[derive(clap::Args)]
pub struct Build {
    /// Only this program (may be given several times)
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(PROGRAMS.iter().map(|(name, _)| *name)))]
    only: Vec<String>,
    /// How many packages Go compiles at once
    #[arg(long, default_value_t = 2)]
    parallel: u32,
}

pub fn run(task: &Task) -> anyhow::Result<()> {
    let Task::Build(options) = task;
    let folder = folder()?;
    for (name, package) in PROGRAMS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        let program = folder.join(name);
        if !program.is_file() {
            if !has_go() {
                return without_go();
            }
            build(package, &program, options.parallel)?;
        }
        println!("{}", program.display());
    }
    Ok(())
}

/// Where the programs lie: contract.md promises it to scripts.
pub fn folder() -> anyhow::Result<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(&std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?).join(".cache"),
    };
    Ok(cache.join("phalanx").join(format!("kube-{VERSION}")))
}

fn has_go() -> bool {
    Command::new("go").arg("version").output().is_ok_and(|output| output.status.success())
}

/// On a laptop the suites that need the programs say so and rest; CI must not rest unnoticed.
fn without_go() -> anyhow::Result<()> {
    let text = format!("Go is not installed; the real Kubernetes {VERSION} is built with it (https://go.dev/dl)");
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        bail!("{text}");
    }
    eprintln!("skipped: {text}");
    Ok(())
}

fn build(package: &str, program: &Path, parallel: u32) -> anyhow::Result<()> {
    let folder = program.parent().context("a program lies in a folder")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    // Built under another name and renamed: a build that was cut off never looks like a program.
    let unfinished = program.with_extension(format!("{}.part", std::process::id()));
    eprintln!("building {package} {VERSION}, which takes some minutes");
    let status = Command::new("nice")
        .args(["-n", "15", "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly"])
        .arg(format!("-p={parallel}"))
        .arg(format!("-ldflags={}", version_stamp()))
        .arg("-o")
        .arg(&unfinished)
        .arg(package)
        .current_dir(crate::repository_root()?.join("tests/kube"))
        .status()
        .context("running `go build`")?;
    ensure!(status.success(), "go build {package} ended with {status}");
    std::fs::rename(&unfinished, program).with_context(|| program.display().to_string())
}

/// What a release's own build stamps into the programs; without it they call themselves v0.0.0.
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
    use super::{PROGRAMS, VERSION};

    #[test]
    fn the_go_module_pins_the_same_release_and_the_same_programs() {
        let path = crate::repository_root().expect("the workspace").join("tests/kube/go.mod");
        let text = std::fs::read_to_string(path).expect("tests/kube/go.mod");
        assert!(text.contains(&format!("k8s.io/kubernetes v{VERSION} ")), "another release");
        for (name, package) in PROGRAMS {
            assert!(text.contains(package), "{name} has no tool line");
        }
    }
}
