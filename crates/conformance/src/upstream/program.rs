//! A suite as a program: its package copied out of the Go module cache, edited, and compiled into the cache folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use supervisor::kubernetes::VERSION;

use super::edit;
use super::suite::{TestPackage, UpstreamSuite};

/// The folder of our Go files, in the repository and in the build folder.
const SEAM: &str = "upstream/seam";

/// Compiles the suite unless a program of the same sources exists, and returns its path.
pub fn compile(suite: &UpstreamSuite) -> anyhow::Result<PathBuf> {
    let module = supervisor::repository_root()?.join("tests/kube");
    let folder = supervisor::cache_folder()?.join(format!("upstream-{VERSION}"));
    let build = folder.join("build");
    let source = module_folder(&module, suite.module)?;
    let mut files = own_files(&module)?;
    for package in suite.packages {
        files.extend(
            edited_files(&source, package)
                .with_context(|| format!("suite {}, {}", suite.name, package.source_folder))?,
        );
    }
    let program = folder.join(format!("{}-{:016x}", suite.name, checksum(&files)));
    if program.is_file() {
        return Ok(program);
    }
    // Other checkouts use the same folder.
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let lock = std::fs::File::create(folder.join("lock"))?;
    lock.lock().context("waiting for another compilation")?;
    let packages = build.join("upstream");
    for package in suite.packages {
        remove_if_exists(&build.join(package.build_folder))?;
    }
    remove_if_exists(&packages.join("seam"))?;
    for (path, text) in &files {
        let path = build.join(path);
        std::fs::create_dir_all(path.parent().context("a file has a parent folder")?)?;
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    eprintln!("compiling the suite {}, which takes some minutes the first time", suite.name);
    let unfinished = program.with_extension(format!("{}.part", std::process::id()));
    let status = Command::new("nice")
        .args(["-n", "15", "go", "test", "-c", "-vet=off", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o"])
        .arg(&unfinished)
        .arg(format!("./{}", suite.packages[0].build_folder))
        .current_dir(&build)
        .status()
        .context("running `go test -c`")?;
    ensure!(status.success(), "the suite {} does not compile", suite.name);
    std::fs::rename(&unfinished, &program).with_context(|| program.display().to_string())?;
    remove_stale_programs(&folder, suite.name, &program)?;
    Ok(program)
}

/// Removes programs of the suite that were compiled from other sources, with their logs: each is 150 MB.
fn remove_stale_programs(folder: &Path, suite: &str, program: &Path) -> anyhow::Result<()> {
    let current = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let hash = name.strip_prefix(suite).and_then(|rest| rest.strip_prefix('-')).unwrap_or_default();
        let is_older = hash.len() >= 16 && hash.as_bytes()[..16].iter().all(u8::is_ascii_hexdigit);
        if is_older && !name.starts_with(&current) {
            std::fs::remove_file(folder.join(&name)).with_context(|| name)?;
        }
    }
    Ok(())
}

/// The source folder of a module that `module` requires.
pub fn module_folder(module: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let download = Command::new("go").args(["mod", "download", name]).current_dir(module).output()?;
    ensure!(download.status.success(), "go mod download {name}: {}", String::from_utf8_lossy(&download.stderr));
    let output = Command::new("go").args(["list", "-m", "-f", "{{.Dir}}", name]).current_dir(module).output()?;
    ensure!(output.status.success(), "go list -m {name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// The module cache of Go.
pub fn module_cache() -> anyhow::Result<PathBuf> {
    let output = Command::new("go").args(["env", "GOMODCACHE"]).output().context("running `go env`")?;
    ensure!(output.status.success(), "go env GOMODCACHE: {}", String::from_utf8_lossy(&output.stderr));
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Files by their path in the build folder.
type SourceFiles = Vec<(String, String)>;

/// go.mod, go.sum and the seam.
fn own_files(module: &Path) -> anyhow::Result<SourceFiles> {
    let mut names = vec!["go.mod".to_owned(), "go.sum".to_owned()];
    names.extend(go_files(&module.join(SEAM))?.into_iter().map(|name| format!("{SEAM}/{name}")));
    let read = |name: String| Ok((name.clone(), std::fs::read_to_string(module.join(&name)).with_context(|| name)?));
    names.into_iter().map(read).collect()
}

/// The files of a package with their edits. An edited or excluded file must exist.
fn edited_files(source: &Path, package: &TestPackage) -> anyhow::Result<SourceFiles> {
    let folder = source.join(package.source_folder);
    let names = go_files(&folder)?;
    for wanted in package.edited_files.iter().map(|(name, _)| name).chain(package.excluded_files) {
        ensure!(names.iter().any(|name| name == wanted), "there is no file {wanted}");
    }
    let current = names.iter().filter(|name| !package.excluded_files.contains(&name.as_str()));
    let file = |name: &String| {
        let text = std::fs::read_to_string(folder.join(name))?;
        let edits = package.edited_files.iter().find(|(file, _)| file == name).map_or(&[][..], |(_, edits)| edits);
        let text = edit::apply(&text, edits).with_context(|| name.clone())?;
        ensure_no_upstream_component(&text).with_context(|| name.clone())?;
        Ok((format!("{}/{name}", package.build_folder), text))
    };
    current.map(file).collect()
}

/// Texts that start a component of Kubernetes in the test's own process.
const COMPONENT_STARTS: &[&str] = &[
    "Scheduler.Run(",
    "Scheduler.ScheduleOne(",
    "jc.Run(",
    "podgc.Run(",
    "NewPodGCInternal(",
    "testutils.InitTestDisablePreemption",
    "schedulerutils.InitTestSchedulerForFrameworkTest",
];

/// An error if the edited source still starts a component of Kubernetes.
fn ensure_no_upstream_component(text: &str) -> anyhow::Result<()> {
    for start in COMPONENT_STARTS {
        ensure!(!text.contains(start), "`{start}` starts a component of Kubernetes, and no edit replaces it");
    }
    let seam_is_utils = text.contains(r#"testutils "phalanx.dev/tests/kube/upstream/seam""#);
    let starts = !seam_is_utils && text.contains("testutils.InitTestSchedulerWithNS");
    ensure!(!starts, "`testutils.InitTestSchedulerWithNS` starts kube-scheduler, and no edit replaces it");
    Ok(())
}

/// A copy of the program under test, removed on drop.
pub struct CopiedProgram(PathBuf);

impl CopiedProgram {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for CopiedProgram {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Copies the program under test into the cache folder.
pub fn copy_program(program: &Path) -> anyhow::Result<CopiedProgram> {
    let copy = supervisor::cache_folder()?.join(format!("upstream-{VERSION}/phalanx-{}", std::process::id()));
    std::fs::copy(program, &copy).with_context(|| copy.display().to_string())?;
    Ok(CopiedProgram(copy))
}

/// The names of the Go files of a folder, sorted.
fn go_files(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<anyhow::Result<_>>()?;
    names.retain(|name| name.ends_with(".go"));
    names.sort();
    Ok(names)
}

/// Identifies a set of sources, and is part of the program's name in the cache folder.
fn checksum(files: &SourceFiles) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    hasher.finish()
}

fn remove_if_exists(folder: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::ensure_no_upstream_component;

    #[test]
    fn a_source_that_starts_a_component_of_kubernetes_is_refused() {
        for text in ["go testCtx.Scheduler.Run(ctx)", "go cjc.Run(tCtx, 1)", "testutils.InitTestSchedulerWithNS(t, ns)"]
        {
            assert!(ensure_no_upstream_component(text).is_err(), "{text}");
        }
        let seam = "testutils \"phalanx.dev/tests/kube/upstream/seam\"\ntestutils.InitTestSchedulerWithNS(t, ns)";
        assert!(ensure_no_upstream_component(seam).is_ok());
    }
}
