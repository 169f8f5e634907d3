//! Every command of README, CONTRIBUTING and the guides, run in the order of its document in a scratch directory.
//!
//! kubectl commands are run by the tour (`cargo xtask tour`), which reads them from the same documents.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use supervisor::guides::{GuideCommand, guide_commands, guide_files};
use supervisor::{SupervisedProcess, UpProcess};

use crate::text;
use crate::up::{TIMEOUT, TestDir, exit_code, start_up};

/// Commands that this test does not run, with the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo test --workspace", "runs this test; the step `tests` of .ci/run"),
    ("cargo run -p workloadbuilder --features schema --example training_resource", "compiles; run by .ci/readme-run"),
    ("cargo xtask kube build --only kubectl", "needs Go and minutes; the step `the programs of Kubernetes` of .ci/run"),
    (".ci/kubectl-tour", "needs the release build; the step `kubectl` of .ci/run"),
    ("cargo xtask tour --kubectl kubectl --phalanx target/release/phalanx", "run by .ci/kubectl-tour"),
];

/// What runs before the first command of a document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Background {
    /// Nothing: the document starts its own server, or needs none.
    Nothing,
    /// A server without components, with its kubeconfig in `~/.kube/config`.
    Server,
    /// `phalanx up` in the scratch directory.
    Cluster,
}

/// The documents with commands.
const DOCUMENTS: &[(&str, Background)] = &[
    ("README.md", Background::Nothing),
    ("docs/guides/cluster.md", Background::Server),
    ("docs/guides/commands.md", Background::Nothing),
    ("docs/guides/configuration.md", Background::Nothing),
    ("docs/guides/controllers.md", Background::Nothing),
    ("docs/guides/cronjobs.md", Background::Cluster),
    ("docs/guides/explain.md", Background::Nothing),
    ("docs/guides/kubectl.md", Background::Nothing),
    ("docs/guides/scheduler.md", Background::Server),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn every_command_of_every_guide_runs() {
    let commands = guide_commands(&root()).unwrap();
    let files: BTreeSet<&str> = commands.iter().map(|command| command.file.as_str()).collect();
    assert_eq!(files, DOCUMENTS.iter().map(|(file, _)| *file).collect(), "DOCUMENTS has every document with commands");
    for (listed, _) in NOT_RUN {
        assert!(commands.iter().any(|command| command.text == *listed), "no document has the command {listed:?}");
    }
    std::thread::scope(|scope| {
        for (file, background) in DOCUMENTS {
            let commands = commands.iter().filter(|command| command.file == *file);
            let is_here = |command: &&GuideCommand| {
                !command.text.starts_with("kubectl ") && NOT_RUN.iter().all(|(listed, _)| command.text != *listed)
            };
            let commands: Vec<&GuideCommand> = commands.filter(is_here).collect();
            scope.spawn(move || match *file {
                "docs/guides/explain.md" => commands.into_iter().for_each(check_shown_explanation),
                _ => Reader::new(file, *background, "").run_all(&commands),
            });
        }
    });
}

/// The options that the text of a document gives a command, as in `phalanx up --without controllers`, exist.
#[test]
fn the_options_in_the_text_of_a_guide_exist() {
    let mut checked = 0;
    for file in guide_files(&root()).unwrap() {
        let document = std::fs::read_to_string(root().join(&file)).unwrap();
        let spans = document.split('`').skip(1).step_by(2).filter_map(|span| span.strip_prefix("phalanx "));
        for span in spans.filter(|span| span.contains(" --")) {
            let words: Vec<&str> = span.split_whitespace().collect();
            let command: Vec<&str> = words.iter().copied().take_while(|word| !word.starts_with('-')).collect();
            let command = &command[..if command[0] == "store" { 2 } else { 1 }];
            let help = text(&crate::phalanx(&[command, &["--help"]].concat()).stdout);
            for option in words.iter().filter(|word| word.starts_with("--")) {
                let option = option.split('=').next().unwrap();
                assert!(help.contains(option), "{file}: `phalanx {span}`: no option {option} in:\n{help}");
                checked += 1;
            }
        }
    }
    assert!(checked > 5, "{checked}");
}

/// A user who follows one document.
struct Reader {
    document: String,
    variables: Vec<(String, String)>,
    /// Runs to the end.
    background: Option<UpProcess>,
    /// The `phalanx up` of the document, with its command.
    up: Option<(SupervisedProcess, String)>,
    /// The last field, so that the processes are gone when it is removed.
    dir: TestDir,
}

impl Reader {
    fn new(file: &str, background: Background, suffix: &str) -> Reader {
        let name: String = file.chars().filter(char::is_ascii_alphanumeric).collect();
        let dir = TestDir::new(&format!("guide-{name}{suffix}"));
        let document = std::fs::read_to_string(root().join(file)).unwrap();
        copy_folder(&root().join("examples"), Path::new(&dir.path("examples")));
        std::fs::create_dir_all(dir.path("bin")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_phalanx"), dir.path("bin/phalanx")).unwrap();
        let server = match background {
            Background::Nothing => None,
            Background::Cluster => Some(start_up(&dir, &["--data-dir", &dir.path(".phalanx")])),
            Background::Server => {
                let none = ["--without", "scheduler,controllers,nodes"];
                let server = start_up(&dir, &["--data-dir", &dir.path("server"), none[0], none[1]]);
                std::fs::create_dir_all(dir.path(".kube")).unwrap();
                std::fs::copy(&server.kubeconfig, dir.path(".kube/config")).unwrap();
                Some(server)
            }
        };
        Reader { document, variables: Vec::new(), background: server, up: None, dir }
    }

    fn run_all(mut self, commands: &[&GuideCommand]) {
        for command in commands {
            let start = Instant::now();
            self.run(command);
            println!("{:>6.2} s  {}:{}: {}", start.elapsed().as_secs_f64(), command.file, command.line, command.text);
        }
        self.stop_up();
    }

    fn run(&mut self, command: &GuideCommand) {
        let line = command.text.replace("cargo run --release -- ", "phalanx ");
        let words: Vec<&str> = line.split_whitespace().collect();
        self.write_named_files(&line, command.line);
        match words[..] {
            ["export", assignment] => {
                let (name, value) = assignment.split_once('=').unwrap();
                self.variables.push((name.to_owned(), value.replace("$PWD", &self.dir.path(""))));
            }
            ["phalanx", "up", ..] => {
                self.stop_up();
                self.start_up(line);
            }
            ["phalanx", "scheduler" | "controllers" | "nodes", ..] => {
                let mut process = self.start_until_ready(words[1], &line.replace("127.0.0.1:10259", "127.0.0.1:0"));
                assert_eq!(exit_code(&mut process), Some(0), "{line}");
            }
            // Only one process can use the data directory.
            ["phalanx", "store", "check", ..] => {
                let up = self.stop_up();
                self.succeed(&line);
                up.into_iter().for_each(|line| self.start_up(line));
            }
            ["phalanx", "apply" | "get" | "delete" | "wait" | "explain" | "logs", ..] if self.background.is_none() => {
                self.run_with_trainer(&line);
            }
            _ => drop(self.succeed(&line)),
        }
    }

    /// Writes the YAML above a command to the file that the command names and that does not exist.
    fn write_named_files(&self, line: &str, line_number: usize) {
        let names = line.split_whitespace().filter(|word| word.ends_with(".yaml") && !line.contains('>'));
        for name in names.filter(|name| !Path::new(&self.dir.path(name)).exists()) {
            let before: Vec<&str> = self.document.lines().take(line_number).collect();
            let before = before.join("\n");
            let (_, yaml) = before.rsplit_once("```yaml\n").unwrap_or_else(|| panic!("{line}: no {name}"));
            std::fs::write(self.dir.path(name), yaml.split("\n```").next().unwrap()).unwrap();
        }
    }

    /// Runs a command of commands.md on the Job of examples/training.yaml. Its pods run until they are deleted, except
    /// where the command waits for the end.
    fn run_with_trainer(&self, line: &str) {
        let manifest = std::fs::read_to_string(root().join("examples/training.yaml")).unwrap();
        let run_seconds = if line.contains("condition=Complete") { "1" } else { "forever" };
        let manifest = manifest.replace("run-seconds: \"3\"", &format!("run-seconds: \"{run_seconds}\""));
        assert!(manifest.contains(run_seconds), "{manifest}");
        std::fs::write(self.dir.path("examples/training.yaml"), manifest).unwrap();
        if !line.starts_with("phalanx apply") {
            self.succeed("phalanx apply -f examples/training.yaml");
            self.wait_for_pods(64);
        }
        let name_of = |kind: &str| {
            let names = self.succeed(&format!("phalanx get {kind} -o name"));
            names.lines().next().and_then(|name| name.split_once('/')).unwrap().1.to_owned()
        };
        // Generated names differ from those of the document.
        let line = line.replace("trainer-4f8k2", &name_of_if(line, "trainer-4f8k2", || name_of("podgroups")));
        let line = line.replace("trainer-0-x7k2p", &name_of_if(&line, "trainer-0-x7k2p", || name_of("pods")));
        if line.split_whitespace().any(|word| word == "-w") {
            let mut child = self.start(&line);
            wait_for_line(&mut child, &line);
            child.kill().unwrap();
            child.wait().unwrap();
        } else if line.contains("--for delete") {
            let waiting = self.start(&line);
            self.succeed("phalanx delete job trainer");
            succeeded(&line, &waiting.wait_with_output().unwrap());
        } else {
            if line.starts_with("phalanx logs ") {
                self.succeed("phalanx wait pod -l job-name=trainer --for jsonpath='{.status.phase}'=Running");
            }
            self.succeed(&line);
        }
        self.output("phalanx delete -f examples/training.yaml --cascade foreground");
        self.wait_for_pods(0);
    }

    fn wait_for_pods(&self, count: usize) {
        self.wait_until("phalanx get pods -o name", |printed| printed.lines().count() == count);
    }

    /// Repeats a command until its standard output is as wanted.
    fn wait_until(&self, line: &str, is_wanted: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let printed = self.succeed(line);
            if is_wanted(&printed) {
                return;
            }
            assert!(Instant::now() < deadline, "{line}: {printed}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn start_up(&mut self, line: String) {
        let up = self.start_until_ready("document-up", &format!("{line} --listen 127.0.0.1:0"));
        assert!(up.ready_line().unwrap().starts_with("https://127.0.0.1:"), "{line}");
        self.up = Some((up, line));
    }

    /// Starts a command that keeps running.
    fn start_until_ready(&self, name: &str, line: &str) -> SupervisedProcess {
        let command = self.shell(&format!("exec {line}"));
        let mut process = SupervisedProcess::spawn(name, command, Path::new(&self.dir.path("output"))).unwrap();
        process.wait_until_ready(TIMEOUT).unwrap_or_else(|error| panic!("{line}: {error}"));
        process
    }

    /// Stops the document's server and returns its command.
    fn stop_up(&mut self) -> Option<String> {
        let (mut up, line) = self.up.take()?;
        assert_eq!(exit_code(&mut up), Some(0), "{line}");
        Some(line)
    }

    /// Standard output of a command that succeeds.
    fn succeed(&self, line: &str) -> String {
        succeeded(line, &self.output(line))
    }

    fn output(&self, line: &str) -> Output {
        self.shell(line).output().unwrap()
    }

    fn start(&self, line: &str) -> Child {
        self.shell(&format!("exec {line}")).spawn().unwrap()
    }

    fn shell(&self, line: &str) -> Command {
        let path = format!("{}:{}", self.dir.path("bin"), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["-c", line]).current_dir(self.dir.path("")).env("PATH", path).env("HOME", self.dir.path(""));
        command.env_remove("KUBECONFIG").envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn name_of_if(line: &str, placeholder: &str, name: impl FnOnce() -> String) -> String {
    if line.contains(placeholder) { name() } else { String::new() }
}

/// Standard output, if the command succeeded.
fn succeeded(line: &str, output: &Output) -> String {
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{line}: {}\n{printed}\n{}", output.status, text(&output.stderr));
    printed
}

/// Waits until a process prints its first line.
fn wait_for_line(child: &mut Child, command: &str) {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if line.is_empty() {
        child.kill().unwrap();
        let mut stderr = String::new();
        std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut stderr).unwrap();
        panic!("{command}: {line:?}\n{stderr}");
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A gang in one rack whose pods run until they are deleted: its name, pods, GPUs per pod and rack (`None`: any).
fn rack_gang(name: &str, pods: u32, gpus: u32, rack: Option<&str>) -> String {
    let selector = rack.map_or(String::new(), |rack| format!("topology.kubernetes.io/rack: {rack}"));
    format!(
        "---
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  parallelism: {pods}
  completions: {pods}
  scheduling:
    schedulingPolicy: {{gang: {{}}}}
    schedulingConstraints: {{topology: [{{key: topology.kubernetes.io/rack}}]}}
  template:
    metadata: {{annotations: {{phalanx.dev/run-seconds: forever}}}}
    spec:
      restartPolicy: Never
      nodeSelector: {{{selector}}}
      containers: [{{name: main, image: main, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]
"
    )
}

/// Runs an `explain` of explain.md on a cluster as the guide describes it. Its output has the lines that the guide shows.
fn check_shown_explanation(command: &GuideCommand) {
    let (before, job) = match command.text.as_str() {
        "phalanx explain job/finetune" => {
            let full = rack_gang("full", 64, 1, Some("rack-1"));
            let others = rack_gang("others", 16, 1, Some("rack-0"));
            let evaluate = rack_gang("evaluate", 20, 2, Some("rack-0"));
            ([full, others, evaluate].concat(), rack_gang("finetune", 32, 1, None))
        }
        "phalanx explain job/preprocess" => (String::new(), rack_gang("preprocess", 16, 1, None)),
        other => panic!("{}:{}: no cluster for {other:?}", command.file, command.line),
    };
    let reader = Reader::new(&command.file, Background::Cluster, &command.line.to_string());
    for manifest in [before, job].iter().filter(|manifest| !manifest.is_empty()) {
        std::fs::write(reader.dir.path("jobs.yaml"), manifest).unwrap();
        reader.succeed("phalanx apply -f jobs.yaml");
        let jobs = manifest.matches("kind: Job").count();
        reader.wait_until("phalanx get podgroups -o name", |printed| printed.lines().count() >= jobs);
        if !manifest.contains("name: finetune") {
            reader.succeed("phalanx wait podgroups --all --for condition=PodGroupInitiallyScheduled");
        }
    }
    let shown = reader.document.lines().skip(command.line).take_while(|line| *line != "```");
    // A generated name differs each time, and the first line of such a block stands for what precedes.
    let shown: Vec<&str> = shown.filter(|line| *line != "…" && !line.contains("podgroup default/")).collect();
    assert!(shown.len() > 4, "{shown:?}");
    reader.wait_until(&command.text, |printed| shown.iter().all(|line| printed.lines().any(|other| other == *line)));
}
