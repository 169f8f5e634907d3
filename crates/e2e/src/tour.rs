//! A scripted tour: a real kubectl against `phalanx up`, every command's output checked.

mod steps; // the commands and their expected output, as data
mod output_check; // checks of output

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use supervisor::{ScratchDir, SupervisedProcess, UpConfig, UpProcess};

use output_check::CommandOutput;

/// How long a condition may take to become true, and a command to end.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// Options of `cargo xtask tour`.
#[derive(clap::Args)]
pub struct Args {
    /// The kubectl program
    #[arg(long)]
    kubectl: PathBuf,
    /// The phalanx program
    #[arg(long)]
    phalanx: PathBuf,
    /// Print every difference, not only the first
    #[arg(long)]
    all: bool,
}

/// A command of the tour and its expected output.
#[derive(Clone, Copy)]
pub struct TourStep<'a> {
    /// What it shows.
    pub name: &'a str,
    /// The arguments of `kubectl`; leading `NAME=value` words are environment variables, single quotes keep words
    /// together.
    pub command: &'a str,
    /// When its output is checked.
    pub when: CheckTime,
    /// All of these checks must pass.
    pub checks: &'static [output_check::OutputCheck],
}

/// When a command's output is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CheckTime {
    /// Once, at its end.
    AtEnd,
    /// The command is repeated until its output is as expected.
    Eventually,
    /// The command does not end; it is stopped once its output is as expected.
    Streaming,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let kubectl = find_program(&args.kubectl)?;
    let scratch = ScratchDir::new("tour")?;
    let up = UpProcess::start(&UpConfig::new(&args.phalanx, scratch.path())?, "127.0.0.1:0")?;
    let runner = TourRunner {
        kubectl,
        kubeconfig: up.kubeconfig.canonicalize()?,
        manifests: supervisor::repository_root()?.join("tests/kube/tour"),
        scratch_dir: scratch.path().to_path_buf(),
    };
    let root = supervisor::repository_root()?;
    let documents = document_commands(&root)?;
    // Commands of README and guides run in the root of the repository and only have to succeed.
    let in_root = TourRunner { manifests: root, ..runner.clone() };
    let of_documents = documents
        .iter()
        .map(|(file, command)| (&in_root, TourStep { name: file, command, when: CheckTime::AtEnd, checks: &[] }));
    let mut differences = Vec::new();
    println!("{:<7} {:>6}  {:<58} command", "result", "s", "step");
    for (runner, step) in steps::all().map(|step| (&runner, *step)).chain(of_documents) {
        let start = Instant::now();
        let difference = runner.check_step(&step)?;
        let result = if difference.is_some() { "DIFFERS" } else { "ok" };
        let seconds = start.elapsed().as_secs_f64();
        println!("{result:<7} {seconds:>6.2}  {:<58} kubectl {}", step.name, step.command);
        differences.extend(difference);
    }
    up.stop()?;
    let shown = if args.all { differences.len() } else { 1 };
    for difference in differences.iter().take(shown) {
        println!("\n{difference}");
    }
    let steps = steps::all().count() + documents.len();
    match differences.len() {
        0 => println!("tour: {steps} steps, all as expected"),
        count => bail!("tour: {count} of {steps} steps differ"),
    }
    Ok(())
}

/// An absolute path, so that the steps may run in a folder of their own; a bare name is looked up in PATH.
fn find_program(program: &Path) -> anyhow::Result<PathBuf> {
    if program.components().count() > 1 {
        return program.canonicalize().with_context(|| program.display().to_string());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.with_context(|| format!("no {} in PATH", program.display()))
}

/// The kubectl commands of README and guides, without the word `kubectl`, each with its document.
fn document_commands(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let commands = supervisor::guides::guide_commands(root)?.into_iter();
    let commands =
        commands.filter_map(|command| Some((command.file, command.text.strip_prefix("kubectl ")?.to_owned())));
    let commands: Vec<(String, String)> = commands.collect();
    anyhow::ensure!(!commands.is_empty(), "neither README nor guides have a kubectl command");
    Ok(commands)
}

/// Runs steps.
#[derive(Clone)]
struct TourRunner {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    manifests: PathBuf,
    scratch_dir: PathBuf,
}

impl TourRunner {
    /// Runs one step; returns how it differs from the expected output.
    fn check_step(&self, step: &TourStep) -> anyhow::Result<Option<String>> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let output = self.run_command(step, Instant::now() + TIMEOUT)?;
            let Some(difference) = output_check::difference(step.checks, &output) else { return Ok(None) };
            if step.when != CheckTime::Eventually || Instant::now() > deadline {
                let CommandOutput { stdout: out, stderr: err, .. } = output;
                let TourStep { name, command, .. } = step;
                return Ok(Some(format!(
                    "{name}: kubectl {command}\n  {difference}\n--- standard output\n{out}\n--- standard error\n{err}"
                )));
            }
            std::thread::sleep(POLL);
        }
    }

    fn run_command(&self, step: &TourStep, deadline: Instant) -> anyhow::Result<CommandOutput> {
        let mut words = words(step.command);
        let arguments = words.split_off(words.iter().take_while(|word| is_assignment(word)).count());
        let mut command = Command::new(&self.kubectl);
        command
            .args(arguments)
            .envs(words.iter().filter_map(|word| word.split_once('=')))
            // Without the caller's own clusters and caches.
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.scratch_dir)
            .env("KUBECACHEDIR", self.scratch_dir.join("cache"))
            .current_dir(&self.manifests);
        let mut process = SupervisedProcess::spawn("kubectl", command, &self.scratch_dir)?;
        let output = |process: &SupervisedProcess, success| -> anyhow::Result<CommandOutput> {
            Ok(CommandOutput { success, stdout: process.stdout()?, stderr: process.stderr()? })
        };
        if step.when == CheckTime::Streaming {
            while process.is_running()? && Instant::now() < deadline {
                let so_far = output(&process, None)?;
                if output_check::difference(step.checks, &so_far).is_none() {
                    process.kill()?;
                    return Ok(so_far);
                }
                std::thread::sleep(POLL);
            }
        }
        let Some(status) = process.wait(deadline)? else {
            let mut stopped = output(&process, Some(false))?;
            stopped.stderr.push_str(&format!("(stopped after {} s)", TIMEOUT.as_secs()));
            return Ok(stopped);
        };
        output(&process, Some(status.success()))
    }
}

/// Whether a word before the arguments sets an environment variable.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

/// Splits a command like a shell, with single quotes only.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in command.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            c => words.last_mut().expect("there is always one word").push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::steps;
    use super::{document_commands, is_assignment, words};

    #[test]
    fn the_kubectl_commands_of_readme_and_guides_are_part_of_the_tour() {
        let commands = document_commands(&supervisor::repository_root().unwrap()).unwrap();
        for (file, command) in [
            ("README.md", "apply -f examples/training.yaml"),
            ("docs/guides/kubectl.md", "uncordon node-0"),
            ("docs/guides/explain.md", "get --raw /apis/phalanx.dev/v1alpha1/queue"),
        ] {
            assert!(commands.contains(&(file.to_owned(), command.to_owned())), "{file}: {command}");
        }
    }

    #[test]
    fn a_command_splits_as_in_a_shell() {
        let command = "KUBE_EDITOR='sed -i s/a/b/' patch job plain -p '{\"a\": 1}'";
        assert_eq!(words(command), ["KUBE_EDITOR=sed -i s/a/b/", "patch", "job", "plain", "-p", "{\"a\": 1}"]);
        assert!(is_assignment(&words(command)[0]));
        assert!(!is_assignment("--type=merge"));
    }

    #[test]
    fn every_step_has_a_unique_name_and_checks_output() {
        let names: std::collections::BTreeSet<&str> = steps::all().map(|step| step.name).collect();
        assert_eq!(names.len(), steps::all().count());
        for step in steps::all() {
            assert!(!step.checks.is_empty(), "{}", step.name);
        }
    }
}
