//! `phalanx up`: the control plane in the foreground until it is told to stop.

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

use crate::log::LogArgs;
use crate::up::settings::SettingsError;
use crate::wall_clock::WallClock;
use crate::{cli, store_check};

/// Shown below the options.
pub const HELP: &str = "\
Examples:
  phalanx up                                            objects in .phalanx, https://127.0.0.1:6443
  phalanx up --in-memory --listen 127.0.0.1:0           nothing is kept; a free port
  KUBECONFIG=.phalanx/kubeconfig kubectl get nodes      from another terminal

Clients need the certificate in the kubeconfig, or the token in DATA_DIR/pki/token. Once it serves, one line
goes to standard output: ready https://HOST:PORT kubeconfig=PATH";

/// Options of `phalanx up`.
#[derive(Args)]
pub struct UpArgs {
    /// Where objects and certificates are kept
    #[arg(long, value_name = "DIR", default_value = ".phalanx")]
    pub data_dir: PathBuf,
    /// Keeps nothing: all ends with the process
    #[arg(long, conflicts_with = "data_dir")]
    pub in_memory: bool,
    /// Where clients connect; port 0 picks a free one [default: 127.0.0.1:6443]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Where the administrator's kubeconfig is written [default: DATA_DIR/kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The cluster's nodes, from a file of kind Cluster (see examples/cluster.yaml)
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub cluster: Option<PathBuf>,
    /// Number of nodes: 96 cpu, 1Ti memory, 8 nvidia.com/gpu each, racks of 8, zones of 64 [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: Option<u32>,
    /// How long pods run that have no annotation for it: a number, or forever [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = cli::parse_run_time)]
    pub run_seconds: Option<RunTime>,
    /// Parts that are left out, so that others can do their work
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    pub without: Vec<OmittedComponent>,
    /// Features to switch on or off, such as CompositePodGroup=false
    #[arg(long, value_name = "NAME=BOOL,…", value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// Everything else; phalanx config prints it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Gets a line of JSON for every request that writes
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    #[command(flatten)]
    pub log: LogArgs,
}

/// A part that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OmittedComponent {
    /// The scheduler
    Scheduler,
    /// Jobs, garbage, protected PodGroups, deleted namespaces
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

/// How often the process looks whether all of its parts are alive.
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
    // From here on, so that a signal during a long start is not lost.
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
    let mut look = tokio::time::interval(HEALTH_CHECK_INTERVAL);
    let code = loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => break cli::EXIT_DONE,
            _ = interrupt.recv() => break cli::EXIT_DONE,
            _ = look.tick() => {
                if let Some(part) = up.ended_task() {
                    eprintln!("error: {part} ended by itself, which is a defect of Phalanx; --log debug says more");
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

/// A disk that failed once cannot be trusted with what comes next, and what it holds only the next start can tell.
fn exit_on_disk_failure(error: &store::BackendError) {
    eprintln!("error: {}", cli::with_causes(error));
    eprintln!("nothing more can be kept, so the server ends; writes it has confirmed are there at the next start");
    std::process::exit(cli::EXIT_CANNOT_START.into());
}

fn print_ready(url: &str, kubeconfig: &Path) {
    let mut out = std::io::stdout().lock();
    // Whoever closed our output does not want to know.
    let _ = writeln!(out, "ready {url} kubeconfig={}", kubeconfig.display());
    let _ = out.flush();
}

/// What a server that listens beyond this machine means.
fn exposed_line(args: &UpArgs, address: SocketAddr, kubeconfig: &Path) -> String {
    let token = match args.in_memory {
        true => String::new(),
        false => format!(" and {}", args.data_dir.join("pki").join("token").display()),
    };
    format!(
        "warning: {address} can be reached from other machines. TLS is on, and all but health and version needs the \
         administrator's certificate or token; {}{token} give all rights, so keep them to yourself",
        kubeconfig.display()
    )
}

/// How many nodes a warning names.
const MAX_NAMED_NODES: usize = 3;

fn node_warnings(differences: &NodeDifferences) -> Vec<String> {
    let NodeDifferences { existing, desired: asked, extra, changed } = differences;
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
            "warning: the data directory has {existing} nodes and {asked} are asked for; {} stay until they are deleted \
             (phalanx delete node NAME), or choose another directory with --data-dir",
            named(extra)
        ));
    }
    if !changed.is_empty() {
        lines.push(format!(
            "warning: nodes that exist are kept as they are, and {} differ in capacity, labels or taints from what is \
             asked for; delete them before the start, or choose another directory with --data-dir",
            named(changed)
        ));
    }
    lines
}

fn report_start_error(error: &UpError) -> u8 {
    cannot_start(&cli::with_causes(error), hint(error))
}

fn cannot_start(message: &str, advice: Option<&str>) -> u8 {
    eprintln!("error: cannot start: {message}");
    if let Some(advice) = advice {
        eprintln!("{advice}");
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
        UpError::Read(_) => Some("phalanx store check says what is damaged"),
        UpError::Start(error) if error.is_disk_full() => {
            Some("free some space where the data directory is, or choose another one with --data-dir")
        }
        _ => None,
    }
}

/// The administrator's kubeconfig, as a file.
struct KubeconfigFile {
    path: PathBuf,
    /// A directory that goes with the process.
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
        // One that says the same is left alone: a full disk then stops no start.
        let is_there = || matches!(private_file::read(&path), Ok(Some(found)) if found == text);
        let written =
            written.and_then(|()| if is_there() { Ok(()) } else { private_file::write(&path, text.as_bytes()) });
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
            // A temporary directory that cannot be removed harms nobody; its credentials ended with the process.
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

    /// A disk without room.
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
            panic!("nothing is kept where there is no room")
        }
    }

    #[test]
    fn a_first_start_on_a_full_disk_exits_3_and_says_what_to_do() {
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
        let text = "namespaces default cannot be made: the data directory is full: 0 MiB free, 0 MiB are kept in reserve; \
                    delete objects or free space";
        assert_eq!(cli::with_causes(&error), text);
        assert_eq!(hint(&error).unwrap().split(',').next().unwrap(), "free some space where the data directory is");
    }
}
