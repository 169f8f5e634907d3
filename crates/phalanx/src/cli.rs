//! Commands and their help.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use nodes::pod_lifecycle::RunTime;

use crate::commands::{apply, compile, components, delete, get, logs, store_check, up, wait};
use crate::manifest::Problem;
use crate::output::log::LogArgs;
use crate::output::{log, print};
use crate::{config, explain, run};

/// Done.
pub const EXIT_DONE: u8 = 0;
/// A workload failed or time ran out.
pub const EXIT_FAILED: u8 = 1;
/// Bad usage or a bad manifest.
pub const EXIT_BAD_INPUT: u8 = 2;
/// Cannot start.
pub const EXIT_CANNOT_START: u8 = 3;

const ABOUT: &str = "Schedules groups of pods together, close to each other, or not at all";

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (Kubernetes API 1.37)");

const EXAMPLES: &str = "\
Try it:
  phalanx run examples/training.yaml         64 workers, all or none, one rack
  phalanx run examples/too-large.yaml        a gang that cannot fit, and why
  phalanx run examples/competing-gangs.yaml  two gangs, capacity for one
  phalanx compile -f examples/training.yaml  the Workload and PodGroup of a Job
  phalanx up                                 a control plane for kubectl

Exit codes: 0 done; 1 a workload failed or time ran out; 2 bad usage or a bad manifest; 3 cannot start.";

#[derive(Parser)]
#[command(name = "phalanx", about = ABOUT, after_help = EXAMPLES, version = VERSION)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs manifests on an in-memory cluster of simulated nodes and shows where each pod is placed
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Runs the control plane in the foreground, for kubectl and other clients
    #[command(after_help = up::HELP)]
    Up(up::UpArgs),
    /// Prints the scheduling objects of a Job, CronJob or JobSet, and why, without a server
    #[command(after_help = COMPILE_HELP)]
    Compile(CompileArgs),
    /// Creates the objects of manifests, or updates them
    #[command(after_help = apply::HELP)]
    Apply(apply::ApplyArgs),
    /// Shows objects as a table, YAML, JSON or names
    #[command(after_help = get::HELP)]
    Get(get::GetArgs),
    /// Deletes objects and waits until they are gone
    #[command(after_help = delete::HELP)]
    Delete(delete::DeleteArgs),
    /// Waits until objects have a condition or value, or are deleted
    #[command(after_help = wait::HELP)]
    Wait(wait::WaitArgs),
    /// Explains why a group or pod is pending, or why it is on its nodes
    #[command(after_help = explain::HELP)]
    Explain(explain::ExplainArgs),
    /// Shows the logs of a pod, or the state of a simulated one
    #[command(after_help = logs::HELP)]
    Logs(logs::LogsArgs),
    /// Runs the scheduler for an existing cluster
    #[command(after_help = components::SCHEDULER_HELP)]
    Scheduler(components::SchedulerArgs),
    /// Runs the Job controller, and others, for an existing cluster
    #[command(after_help = components::CONTROLLERS_HELP)]
    Controllers(components::ControllersArgs),
    /// Adds simulated nodes to an existing cluster
    #[command(after_help = components::NODES_HELP)]
    Nodes(components::NodesArgs),
    /// Prints the configuration file with all defaults and comments
    Config,
    /// Checks data directories
    #[command(subcommand)]
    Store(StoreCommand),
    /// Prints a completion script for a shell
    #[command(after_help = COMPLETION_HELP)]
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints the versions of Phalanx and of its Kubernetes API
    Version,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Verifies a data directory that no server uses; prints its revision, number of objects and hash
    Check {
        /// The data directory
        #[arg(long, value_name = "DIR", default_value = ".phalanx")]
        data_dir: PathBuf,
    },
}

const RUN_HELP: &str = "\
The command starts a control plane in memory (API server, controllers, scheduler, simulated nodes), applies \
the manifests, and ends when all of their work has ended. It stores nothing and opens no port. It ends \
early, with an explanation, if the remaining work can never be placed or run. It does not wait for the \
schedules of CronJobs.

The pods of a gang start together or not at all. A Job requests this with
  spec:
    scheduling:
      schedulingPolicy: {gang: {}}                    # all pods or none
      schedulingConstraints:
        topology: [{key: topology.kubernetes.io/rack}]  # all in one rack
A simulated node runs each pod for one second. --run-seconds changes that for all pods, and annotations on \
the pod template for single ones:
  phalanx.dev/run-seconds, phalanx.dev/start-seconds, phalanx.dev/exit-code

--config reads the same file as phalanx up. Settings of ports, limits and history have no effect here. \
Options take precedence over the file.

Results go to standard output, progress to standard error.";

const COMPILE_HELP: &str = "\
The controllers use the same code. A comment on each line names the rule behind it. Object names end in a hash \
of the Job's uid. The server assigns the uid; if the manifest has none, a uid of zeros is used.";

const COMPLETION_HELP: &str = "\
Examples:
  source <(phalanx completion bash)    in ~/.bashrc
  phalanx completion zsh > \"${fpath[1]}/_phalanx\"
  phalanx completion fish > ~/.config/fish/completions/phalanx.fish";

/// Options of `phalanx run`.
#[derive(Args)]
pub struct RunArgs {
    /// Manifests (YAML or JSON); - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// File of kind Cluster with the nodes (see examples/cluster.yaml)
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub cluster: Option<PathBuf>,
    /// Number of nodes; each has 96 CPUs, 1Ti memory and 8 nvidia.com/gpu; a rack has 8, a zone 64 [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: Option<u32>,
    /// Run time of pods without the annotation phalanx.dev/run-seconds: a number, or forever [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = parse_run_time)]
    pub run_seconds: Option<RunTime>,
    /// Feature gates, such as CompositePodGroup=false
    #[arg(long, value_name = "NAME=BOOL,…", value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// Configuration file; phalanx config prints one with all defaults
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Time limit, such as 90s, 5m or 1h30m
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Prints one JSON document instead of the table
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<RunOutputFormat>,
    #[command(flatten)]
    pub log: LogArgs,
}

/// Options of `phalanx compile`.
#[derive(Args)]
pub struct CompileArgs {
    /// Manifest (YAML or JSON) with Jobs; - is standard input; can be repeated
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunOutputFormat {
    /// One JSON document
    Json,
}

/// A component logs when it loses and regains its server. Messages of its client would only repeat that.
const COMPONENT_LOG_FILTER: &str = "info,kube_client=off";
/// A command reports by itself why it cannot reach its server.
const COMMAND_LOG_FILTER: &str = "error,kube_client=off";

/// Parses the command line, runs the command, returns its exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let (log_args, default_filter) = match &cli.command {
        Command::Run(args) => (args.log.clone(), COMMAND_LOG_FILTER),
        Command::Up(args) => (args.log.clone(), "warn"),
        Command::Scheduler(args) => (args.component.log.clone(), COMPONENT_LOG_FILTER),
        Command::Controllers(args) => (args.component.log.clone(), COMPONENT_LOG_FILTER),
        Command::Nodes(args) => (args.component.log.clone(), COMPONENT_LOG_FILTER),
        _ => (LogArgs::default(), COMMAND_LOG_FILTER),
    };
    if let Err(message) = log::start(&log_args, default_filter) {
        eprintln!("error: {message}");
        return ExitCode::from(EXIT_BAD_INPUT);
    }
    let code = match cli.command {
        Command::Run(args) => run::command(&args),
        Command::Up(args) => up::command(&args),
        Command::Compile(args) => compile::command(&args),
        Command::Apply(args) => apply::command(&args),
        Command::Get(args) => get::command(&args),
        Command::Delete(args) => delete::command(&args),
        Command::Wait(args) => wait::command(&args),
        Command::Explain(args) => explain::command(&args),
        Command::Logs(args) => logs::command(&args),
        Command::Scheduler(args) => components::scheduler(&args),
        Command::Controllers(args) => components::controllers(&args),
        Command::Nodes(args) => components::nodes(&args),
        Command::Config => {
            print!("{}", config::default_file());
            EXIT_DONE
        }
        Command::Store(StoreCommand::Check { data_dir }) => store_check::command(&data_dir),
        Command::Completion { shell } => {
            // Into memory first: clap_complete panics when it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "phalanx", &mut script);
            print!("{}", String::from_utf8_lossy(&script));
            EXIT_DONE
        }
        Command::Version => {
            println!("phalanx {VERSION}");
            EXIT_DONE
        }
    };
    ExitCode::from(if print::result_was_lost() { code.max(EXIT_FAILED) } else { code })
}

/// Prints every problem on standard error and returns the exit code for bad input.
pub fn report_problems(problems: &[Problem]) -> u8 {
    for problem in problems {
        eprintln!("error: {problem}");
    }
    EXIT_BAD_INPUT
}

/// Parses a duration such as `1h30m`: above zero and at most ten years.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    api::clock::parse_duration_setting(text)
        .ok_or_else(|| "must be a duration such as 90s, 5m or 1h30m, at most 87600h".to_owned())
}

/// Parses the value of `--run-seconds`.
pub fn parse_run_time(text: &str) -> Result<RunTime, String> {
    RunTime::parse(text).ok_or_else(|| "must be a number of seconds, or forever".to_owned())
}

/// An error with all its causes.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Some errors repeat their cause.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Cli, CommandFactory, parse_duration};

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// The help is wrapped at the width of the terminal. A long example or a paragraph with line breaks of its own is
    /// then broken in the wrong places.
    #[test]
    fn help_texts_have_one_line_per_paragraph_and_short_examples() {
        let root = Cli::command();
        for command in std::iter::once(&root).chain(root.get_subcommands()) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            for (line, next) in text.lines().zip(text.lines().skip(1).chain([""])) {
                let name = command.get_name();
                assert!(is_prose(line) || line.chars().count() <= 80, "{name}: too long for a terminal: {line}");
                assert!(!(is_prose(line) && is_prose(next)), "{name}: a line break in a paragraph: {line}");
            }
        }
    }

    #[test]
    fn durations_are_parsed_and_invalid_ones_refused() {
        assert_eq!(parse_duration("1h30m").map(|wait| wait.as_secs()), Ok(5400));
        assert_eq!(parse_duration("90s").map(|wait| wait.as_secs()), Ok(90));
        for text in ["", "5", "0s", "-5s", "five", "100000000h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
