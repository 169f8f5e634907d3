//! `phalanx scheduler`, `phalanx controllers` and `phalanx nodes`: one component each, for an existing cluster.

use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use api::gates::Gates;
use api::{Clock, Random};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use controlplane::health_listener::{self, HealthContext};
use controlplane::{Component, Config, ControlLoop, CoreMode, Health, RemoteComponents, control_loops};
use nodes::cluster::Cluster;
use nodes::pod_lifecycle::RunTime;
use runtime::election;
use scheduler::configuration::LeaderElection;
use tokio::net::TcpListener;

use crate::client::{self, ServerEndpoint};
use crate::command_error::CommandError;
use crate::commands::up::signals;
use crate::config::{Configuration, ListenAddress};
use crate::output::log::LogArgs;
use crate::wall_clock::WallClock;
use crate::{cli, gates, run};

/// Shown below the options of `phalanx scheduler`.
pub const SCHEDULER_HELP: &str = "\
Examples:
  phalanx scheduler                           all pods of default-scheduler
  phalanx scheduler --scheduler-name phalanx  pods with schedulerName: phalanx
  phalanx scheduler --kubeconfig k --metrics-listen 127.0.0.1:10259

The scheduler places pods of PodGroups together and all others one by one. No other scheduler may serve the \
same name. docs/guides/cluster.md lists the feature gates and rights that it needs. Of several processes with \
the same name, the one that holds the Lease is active. When the caches are filled, the command prints one line \
to standard output: ready URL";

/// Shown below the options of `phalanx controllers`.
pub const CONTROLLERS_HELP: &str = "\
Examples:
  phalanx controllers                                the Job controller
  phalanx controllers --controllers job,cronjob,ttl  three controllers

With a server of `phalanx up --without controllers`, list all controllers.

Two Job controllers would each create the pods of every Job: first start kube-controller-manager with \
--controllers=*,-job-controller. It keeps running its other controllers. Of several processes of this command, \
the one that holds the Lease is active. When the caches are filled, the command prints one line to standard \
output: ready URL";

/// Shown below the options of `phalanx nodes`.
pub const NODES_HELP: &str = "\
Examples:
  phalanx nodes --nodes 16                       16 simulated nodes
  phalanx nodes --cluster examples/cluster.yaml  the nodes of a file
  phalanx nodes --nodes 0                        only nodes that already exist

Nodes with the label phalanx.dev/simulated: \"true\" are simulated; other nodes are not touched. When the caches \
are filled and the nodes exist, the command prints one line to standard output: ready URL";

/// Options of every component.
#[derive(Args)]
pub struct ComponentArgs {
    /// Kubeconfig file [default: $KUBECONFIG, then .phalanx/kubeconfig, then ~/.kube/config, then the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Feature gates, the same as on the API server, such as CompositePodGroup=false
    #[arg(long, value_name = "NAME=BOOL,…", value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// Configuration file; phalanx config prints one with all defaults
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Loopback address for /livez, /readyz, /healthz and /metrics (scheduler: also /queue and /explain) over plain HTTP; port 0 picks a free one [default: none]
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_listen: Option<String>,
    #[command(flatten)]
    pub log: LogArgs,
}

/// Options of components of which only one process may be active.
#[derive(Args)]
pub struct ElectionArgs {
    /// Is active only while it holds a Lease
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set
    )]
    pub leader_elect: bool,
    /// Lease for leader election [default: kube-system/phalanx-controllers, kube-system/phalanx-scheduler or …-scheduler-NAME]
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub lease: Option<String>,
}

impl ElectionArgs {
    fn settings(&self, default_name: &str) -> Result<Option<election::ElectionSettings>, CommandError> {
        if !self.leader_elect {
            return Ok(None);
        }
        let identity = format!("{}_{}", host_name(), Random::seeded(rand::random()).uid());
        let mut settings = election::ElectionSettings::new(default_name, identity);
        if let Some(lease) = &self.lease {
            let (namespace, name) = lease
                .split_once('/')
                .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains('/'))
                .ok_or_else(|| CommandError::usage(format!("--lease {lease}: must be NAMESPACE/NAME")))?;
            (settings.namespace, settings.name) = (namespace.to_owned(), name.to_owned());
        }
        Ok(Some(settings))
    }
}

/// The name of this machine, for the holder of a Lease.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(|| "phalanx".to_owned())
}

/// Options of `phalanx scheduler`.
#[derive(Args)]
pub struct SchedulerArgs {
    #[command(flatten)]
    pub component: ComponentArgs,
    #[command(flatten)]
    pub election: ElectionArgs,
    /// Schedules pods with this spec.schedulerName [default: the name in the file, or default-scheduler]
    #[arg(long, value_name = "NAME")]
    pub scheduler_name: Option<String>,
}

/// Options of `phalanx controllers`.
#[derive(Args)]
pub struct ControllersArgs {
    #[command(flatten)]
    pub component: ComponentArgs,
    #[command(flatten)]
    pub election: ElectionArgs,
    /// Controllers to run; kube-controller-manager runs the others
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "job", value_parser = controller_names())]
    pub controllers: Vec<&'static ControlLoop>,
}

/// Options of `phalanx nodes`.
#[derive(Args)]
pub struct NodesArgs {
    #[command(flatten)]
    pub component: ComponentArgs,
    /// File of kind Cluster with the nodes (see examples/cluster.yaml)
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub cluster: Option<PathBuf>,
    /// Number of nodes; each has 96 CPUs, 1Ti memory and 8 nvidia.com/gpu; a rack has 8, a zone 64 [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub nodes: Option<u32>,
    /// Run time of pods without the annotation phalanx.dev/run-seconds: a number, or forever [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = cli::parse_run_time)]
    pub run_seconds: Option<RunTime>,
}

/// The names of the controllers on the command line.
fn controller_names() -> impl TypedValueParser<Value = &'static ControlLoop> {
    let names =
        control_loops::controllers().map(|controller| PossibleValue::new(controller.name).help(controller.about));
    let known = "the parser accepts only names of controllers";
    PossibleValuesParser::new(names).map(move |name| control_loops::controller(&name).expect(known))
}

/// `phalanx scheduler`: returns the exit code.
pub fn scheduler(args: &SchedulerArgs) -> u8 {
    run_component(&args.component, |file, gates| {
        let mut config = Config { components: [Component::Scheduler].into(), ..file.plane(gates, Cluster::default()) };
        config.scheduler.core_mode = CoreMode::OnThread;
        let profiles = &mut config.scheduler.core.profiles;
        match (&args.scheduler_name, profiles.as_mut_slice()) {
            (Some(name), [only]) => only.scheduler_name.clone_from(name),
            (Some(_), several) => {
                let count = several.len();
                return Err(CommandError::usage(format!(
                    "--scheduler-name: cannot be used with a file of {count} profiles, which have their own names"
                )));
            }
            (None, _) => {}
        }
        let lease = match profiles.first().map_or("default-scheduler", |first| first.scheduler_name.as_str()) {
            "default-scheduler" => "phalanx-scheduler".to_owned(),
            name => format!("phalanx-scheduler-{name}"),
        };
        config.election = args.election.settings(&lease)?.and_then(|settings| {
            let election = &file.scheduler.configuration.leader_election;
            election.leader_elect.then(|| with_leader_election(election, settings, args.election.lease.is_some()))
        });
        Ok(config)
    })
}

/// The election of kube-scheduler's file; a Lease on the command line takes precedence.
fn with_leader_election(
    leader_election: &LeaderElection,
    mut settings: election::ElectionSettings,
    lease_given: bool,
) -> election::ElectionSettings {
    if !lease_given {
        settings.namespace = leader_election.resource_namespace.clone().unwrap_or(settings.namespace);
        settings.name = leader_election.resource_name.clone().unwrap_or(settings.name);
    }
    (settings.lease_duration, settings.renew_deadline, settings.retry_period) =
        (leader_election.lease_duration, leader_election.renew_deadline, leader_election.retry_period);
    settings
}

/// `phalanx controllers`: returns the exit code.
pub fn controllers(args: &ControllersArgs) -> u8 {
    run_component(&args.component, |file, gates| {
        let mut config =
            Config { components: [Component::Controllers].into(), ..file.plane(gates, Cluster::default()) };
        config.job.own_gc = args.controllers.contains(&&control_loops::GC);
        config.controllers.clone_from(&args.controllers);
        config.election = args.election.settings("phalanx-controllers")?;
        Ok(config)
    })
}

/// `phalanx nodes`: returns the exit code.
pub fn nodes(args: &NodesArgs) -> u8 {
    run_component(&args.component, |file, gates| {
        let cluster = match (&args.cluster, args.nodes, &file.nodes.cluster) {
            (Some(path), _, _) | (None, None, Some(path)) => run::cluster_from(path)?,
            (None, Some(0), _) => Cluster::default(),
            (None, Some(count), _) => Cluster::default_of(count),
            (None, None, None) => {
                let count = file.nodes.count.and_then(|count| u32::try_from(count).ok());
                Cluster::default_of(count.unwrap_or(run::DEFAULT_NODES))
            }
        };
        let mut config = Config { components: [Component::Nodes].into(), ..file.plane(gates, cluster) };
        if let Some(run_time) = args.run_seconds {
            config.nodes.pod_defaults.run_time = run_time;
        }
        Ok(config)
    })
}

/// How often the process checks that its tasks are alive.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Runs one component until a signal. `config` makes its settings from file and gates.
fn run_component(
    args: &ComponentArgs,
    config: impl FnOnce(&Configuration, Gates) -> Result<Config, CommandError>,
) -> u8 {
    let outcome = settings(args, config).and_then(|config| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| CommandError::cannot_start(format!("cannot start: {error}")))?;
        runtime.block_on(run_until_signal(args, config))
    });
    outcome.unwrap_or_else(|failure| failure.report())
}

fn settings(
    args: &ComponentArgs,
    config: impl FnOnce(&Configuration, Gates) -> Result<Config, CommandError>,
) -> Result<Config, CommandError> {
    let file = Configuration::read_or_default(args.config.as_deref())?;
    let gates = gates::resolve(&args.feature_gates, &file.server.feature_gates).map_err(CommandError::usage)?;
    config(&file, gates)
}

async fn run_until_signal(args: &ComponentArgs, config: Config) -> Result<u8, CommandError> {
    // Before the start, so that a signal while the server is unreachable is not lost.
    let (mut terminate, mut interrupt) =
        signals().map_err(|error| CommandError::cannot_start(format!("cannot start: signals: {error}")))?;
    let listener = listen(args.metrics_listen.as_deref()).await?;
    let ServerEndpoint { client, url } =
        client::server_of_component(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let health = Health::default();
    let (gates, metrics, queries) = (config.gates, config.metrics.clone(), config.queries.clone());
    let context = HealthContext { health: health.clone(), gates, metrics, queries };
    health.fail("caches", "the caches are not filled yet");
    let metrics_address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let serving = async move {
        match listener {
            Some(listener) => health_listener::serve(listener, context).await,
            None => std::future::pending().await,
        }
    };
    let starting = async move {
        let clock: Arc<dyn Clock> = Arc::new(WallClock);
        let random = Random::seeded(rand::random());
        tracing::info!("connecting to {url}");
        let components = RemoteComponents::start(clock, random, client, health, config).await;
        print_ready(&url, metrics_address.map(|address| format!(" metrics=http://{address}")));
        components
    };
    let mut stopped = pin!(async move {
        tokio::select! { biased; _ = terminate.recv() => {}, _ = interrupt.recv() => {}, () = serving => {} }
        eprintln!("stopping");
    });
    let mut components = tokio::select! {
        biased;
        () = &mut stopped => return Ok(cli::EXIT_DONE),
        components = starting => components,
    };
    let outcome = tokio::select! {
        biased;
        () = &mut stopped => Ok(cli::EXIT_DONE),
        failure = supervise(&mut components) => Err(failure),
    };
    // Interrupted work resumes at the next start: all state is in the API.
    components.stop().await;
    outcome
}

/// Follows the election and checks the tasks; returns the error that ends the process.
async fn supervise(components: &mut RemoteComponents) -> CommandError {
    loop {
        tokio::select! {
            biased;
            () = components.follow_election() => {}
            () = tokio::time::sleep(HEALTH_CHECK_INTERVAL) => {}
        }
        if let Some(task) = components.check_health() {
            return CommandError::failed(format!(
                "{task} ended unexpectedly, which is a bug in Phalanx; --log debug shows more"
            ));
        }
    }
}

async fn listen(address: Option<&str>) -> Result<Option<TcpListener>, CommandError> {
    let Some(address) = address else { return Ok(None) };
    // Without a host, only this machine can connect.
    let full = if address.starts_with(':') { format!("127.0.0.1{address}") } else { address.to_owned() };
    let hint = "choose a free HOST:PORT of this machine, such as 127.0.0.1:0";
    let cannot =
        |error: std::io::Error| CommandError::cannot_start(format!("--metrics-listen {address}: {error}; {hint}"));
    if let Some(problem) = ListenAddress::syntax_error(&full) {
        return Err(CommandError::usage(format!("--metrics-listen {address}: {problem}")));
    }
    let listener = TcpListener::bind(&full).await.map_err(cannot)?;
    // The listener has no authentication.
    if !listener.local_addr().map_err(cannot)?.ip().is_loopback() {
        let cause = "must be a loopback address such as 127.0.0.1:10259, because it has no authentication; use a \
                     proxy with authentication for other machines";
        return Err(CommandError::usage(format!("--metrics-listen {address}: {cause}")));
    }
    Ok(Some(listener))
}

fn print_ready(url: &str, metrics: Option<String>) {
    let mut out = std::io::stdout().lock();
    // If standard output is closed, nothing waits for this line.
    let _ = writeln!(out, "ready {url}{}", metrics.unwrap_or_default());
    let _ = out.flush();
}
