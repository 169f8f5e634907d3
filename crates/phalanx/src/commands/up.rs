//! `phalanx up`: the control plane in the foreground, until SIGTERM or Ctrl-C.

mod settings; // options over file over defaults

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::{Clock, Random};
use apiserver::edge::private_file;
use clap::{Args, ValueEnum};
use controlplane::up::{ServerProcess, UpError, UpSettings};
use controlplane::{Component, NodeDifferences};
use nodes::pod_lifecycle::RunTime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli;
use crate::commands::store_check;
use crate::commands::up::settings::SettingsError;
use crate::output::log::LogArgs;
use crate::wall_clock::WallClock;

/// Shown below the options.
pub const HELP: &str = "\
Examples:
  phalanx up                                        objects in .phalanx
  phalanx up --in-memory --listen 127.0.0.1:0       in memory, on a free port
  KUBECONFIG=.phalanx/kubeconfig kubectl get nodes  from another terminal

Clients need the certificate in the kubeconfig, or the token in DATA_DIR/pki/token. When the server is ready, \
it prints one line to standard output: ready https://HOST:PORT kubeconfig=PATH";

/// Options of `phalanx up`.
#[derive(Args)]
pub struct UpArgs {
    /// Directory for objects and certificates
    #[arg(long, value_name = "DIR", default_value = ".phalanx")]
    pub data_dir: PathBuf,
    /// Keeps all objects in memory; they are lost when the process ends
    #[arg(long, conflicts_with = "data_dir")]
    pub in_memory: bool,
    /// Address for clients; port 0 picks a free one [default: 127.0.0.1:6443]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// File to which the administrator's kubeconfig is written [default: DATA_DIR/kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// File of kind Cluster with the nodes (see examples/cluster.yaml)
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub cluster: Option<PathBuf>,
    /// Number of nodes; each has 96 CPUs, 1Ti memory and 8 nvidia.com/gpu; a rack has 8, a zone 64 [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: Option<u32>,
    /// Run time of pods without the annotation phalanx.dev/run-seconds: a number, or forever [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = cli::parse_run_time)]
    pub run_seconds: Option<RunTime>,
    /// Components that do not run, so that other programs can do their work
    #[arg(long, value_name = "COMPONENT,…", value_delimiter = ',')]
    pub without: Vec<OmittedComponent>,
    /// Feature gates, such as CompositePodGroup=false
    #[arg(long, value_name = "NAME=BOOL,…", value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// Configuration file; phalanx config prints one with all defaults
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// File that gets a line of JSON for every request that writes
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArgs,
}

/// A component that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OmittedComponent {
    /// The scheduler
    Scheduler,
    /// All controllers
    Controllers,
    /// Simulated nodes
    Nodes,
}

impl OmittedComponent {
    fn component(self) -> Component {
        match self {
            OmittedComponent::Scheduler => Component::Scheduler,
            OmittedComponent::Controllers => Component::Controllers,
            OmittedComponent::Nodes => Component::Nodes,
        }
    }
}

/// How often the process checks that its tasks are alive.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// `phalanx up`: returns the exit code.
pub fn command(args: &UpArgs) -> u8 {
    let settings = match settings::resolve(args) {
        Ok(settings) => settings,
        Err(SettingsError::Input(problems)) => return cli::report_problems(&problems),
        Err(SettingsError::Usage(message)) => {
            eprintln!("error: {message}");
            return cli::EXIT_BAD_INPUT;
        }
        Err(SettingsError::Start(message)) => return cannot_start(&message, None),
    };
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(up(args, settings)),
        Err(error) => cannot_start(&error.to_string(), None),
    }
}

async fn up(args: &UpArgs, settings: UpSettings) -> u8 {
    // Before the start, so that a signal during a long start is not lost.
    let (mut terminate, mut interrupt) = match signals() {
        Ok(signals) => signals,
        Err(error) => return cannot_start(&format!("signals: {error}"), None),
    };
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    let random = Random::seeded(rand::random());
    let up = match ServerProcess::start(clock, random, settings, exit_on_disk_failure).await {
        Ok(up) => up,
        Err(error) => return report_start_error(&error),
    };
    for line in node_warnings(up.node_differences()) {
        eprintln!("{line}");
    }
    let kubeconfig = match KubeconfigFile::write(args, &up.kubeconfig()) {
        Ok(kubeconfig) => kubeconfig,
        Err(message) => {
            up.stop().await;
            return cannot_start(&message, Some("choose another file with --kubeconfig"));
        }
    };
    if let Err(error) = up.wait_until_ready().await {
        up.stop().await;
        return cannot_start(&cli::with_causes(&error), None);
    }
    if !up.address().ip().is_loopback() {
        eprintln!("{}", exposed_line(args, up.address(), &kubeconfig.path));
    }
    print_ready(&up.url(), &kubeconfig.path);
    let mut health_check = tokio::time::interval(HEALTH_CHECK_INTERVAL);
    let code = loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => break cli::EXIT_DONE,
            _ = interrupt.recv() => break cli::EXIT_DONE,
            _ = health_check.tick() => {
                if let Some(task) = up.ended_task() {
                    eprintln!("error: {task} ended unexpectedly, which is a bug in Phalanx; --log debug shows more");
                    break cli::EXIT_CANNOT_START;
                }
            }
        }
    };
    eprintln!("stopping");
    up.stop().await;
    code
}

/// SIGTERM and Ctrl-C.
pub fn signals() -> std::io::Result<(Signal, Signal)> {
    Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
}

/// After a failed write the state of the file is unknown until the next start reads it.
fn exit_on_disk_failure(error: &store::BackendError) {
    eprintln!("error: {}", cli::with_causes(error));
    eprintln!(
        "the server stops because it cannot store objects; acknowledged writes are available after the next start"
    );
    std::process::exit(cli::EXIT_CANNOT_START.into());
}

fn print_ready(url: &str, kubeconfig: &Path) {
    let mut out = std::io::stdout().lock();
    // If standard output is closed, nothing waits for this line.
    let _ = writeln!(out, "ready {url} kubeconfig={}", kubeconfig.display());
    let _ = out.flush();
}

/// The warning about a server that is not on a loopback address.
fn exposed_line(args: &UpArgs, address: SocketAddr, kubeconfig: &Path) -> String {
    let token = match args.in_memory {
        true => String::new(),
        false => format!(" and {}", args.data_dir.join("pki").join("token").display()),
    };
    format!(
        "warning: {address} can be reached from other machines. All requests except health and version need the \
         administrator's certificate or token. Keep {}{token} secret: they give all rights",
        kubeconfig.display()
    )
}

/// How many nodes a warning names.
const MAX_NAMED_NODES: usize = 3;

fn node_warnings(differences: &NodeDifferences) -> Vec<String> {
    let NodeDifferences { existing, desired, extra, changed } = differences;
    let named = |names: &[String]| {
        let first = names.iter().take(MAX_NAMED_NODES).cloned().collect::<Vec<String>>().join(", ");
        match names.len().saturating_sub(MAX_NAMED_NODES) {
            0 => first,
            more => format!("{first} and {more} more"),
        }
    };
    let mut lines = Vec::new();
    if !extra.is_empty() {
        lines.push(format!(
            "warning: the data directory has {existing} nodes, the configuration {desired}; {} stay until they are deleted \
             (phalanx delete node NAME). Or choose another directory with --data-dir",
            named(extra)
        ));
    }
    if !changed.is_empty() {
        lines.push(format!(
            "warning: existing nodes are not changed, and {} differ in capacity, labels or taints from the \
             configuration; delete them before the start, or choose another directory with --data-dir",
            named(changed)
        ));
    }
    lines
}

fn report_start_error(error: &UpError) -> u8 {
    cannot_start(&cli::with_causes(error), hint(error))
}

fn cannot_start(message: &str, hint: Option<&str>) -> u8 {
    eprintln!("error: cannot start: {message}");
    if let Some(hint) = hint {
        eprintln!("{hint}");
    }
    cli::EXIT_CANNOT_START
}

fn hint(error: &UpError) -> Option<&'static str> {
    match error {
        UpError::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            Some("stop the program that listens there, or choose another port with --listen (port 0 picks a free one)")
        }
        UpError::Listen { .. } => Some("choose an address of this machine with --listen"),
        UpError::Directory { .. } => Some("choose another directory with --data-dir, or use --in-memory"),
        UpError::Open(error) => store_check::hint(error),
        UpError::Read(_) => Some("phalanx store check reports what is damaged"),
        UpError::Start(error) if error.is_disk_full() => {
            Some("free some space on the disk of the data directory, or choose another directory with --data-dir")
        }
        _ => None,
    }
}

/// The file with the administrator's kubeconfig.
struct KubeconfigFile {
    path: PathBuf,
    /// A directory that is removed when the process ends.
    temp_dir: Option<PathBuf>,
}

impl KubeconfigFile {
    fn write(args: &UpArgs, text: &str) -> Result<KubeconfigFile, String> {
        let private = (args.in_memory && args.kubeconfig.is_none()).then(|| {
            std::env::temp_dir().join(format!("phalanx-{}-{:016x}", std::process::id(), rand::random::<u64>()))
        });
        let path = match (&args.kubeconfig, &private) {
            (Some(path), _) => path.clone(),
            (None, Some(directory)) => directory.join("kubeconfig"),
            (None, None) => args.data_dir.join("kubeconfig"),
        };
        let path = std::path::absolute(&path).unwrap_or(path);
        let written = match &private {
            Some(directory) => private_file::make_dir(directory),
            None => Ok(()),
        };
        // An equal file is not written again, so that a full disk does not prevent the start.
        let is_current = || matches!(private_file::read(&path), Ok(Some(found)) if found == text);
        let written =
            written.and_then(|()| if is_current() { Ok(()) } else { private_file::write(&path, text.as_bytes()) });
        let kubeconfig = KubeconfigFile { path, temp_dir: private };
        match written {
            Ok(()) => Ok(kubeconfig),
            Err(error) => Err(format!("{}: {error}", kubeconfig.path.display())),
        }
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if let Some(directory) = &self.temp_dir {
            // A directory that cannot be removed does no harm: its credentials are invalid now.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use controlplane::StartError;
    use store::{Backend, BackendError, Committer, FreeSpace, HistoryLimits, LogRecord, Store, StoreKey, StoredObject};

    use super::*;

    /// A disk without free space.
    struct FullDisk;

    impl Backend for FullDisk {
        fn scan(
            &mut self,
            _: &mut dyn FnMut(LogRecord) -> Option<Arc<StoredObject>>,
        ) -> Result<api::Revision, BackendError> {
            Ok(api::Revision::ZERO)
        }

        fn free_space(&mut self) -> Result<FreeSpace, BackendError> {
            Ok(FreeSpace { free_bytes: 0, reserve_bytes: 1 })
        }

        fn commit(
            &mut self,
            _: &[LogRecord],
            _: &dyn Fn(&StoreKey, api::Revision) -> bool,
        ) -> Result<(), BackendError> {
            panic!("a full disk gets no writes")
        }
    }

    #[test]
    fn a_first_start_on_a_full_disk_exits_3_with_a_hint() {
        let store = Store::open(Box::new(FullDisk), HistoryLimits::default()).unwrap();
        let server = controlplane::ApiServer::new(apiserver::Config {
            committer: Committer::in_place(store.clone()),
            store,
            clock: Arc::new(WallClock),
            random: Random::seeded(1),
            gates: api::gates::Gates::default(),
        });
        let error = UpError::Start(StartError::Server(server.err().unwrap()));
        assert_eq!(report_start_error(&error), 3);
        let text = "namespaces default cannot be created: the data directory is full: 0 MiB free, 0 MiB are reserved; \
                    delete objects or free space";
        assert_eq!(cli::with_causes(&error), text);
        assert_eq!(
            hint(&error).unwrap().split(',').next().unwrap(),
            "free some space on the disk of the data directory"
        );
    }
}
