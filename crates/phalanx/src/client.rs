//! Finds the kubeconfig, context and namespace, and makes a client.

pub mod deadline; // how long a request may take
pub mod kinds; // the kinds of a server, by any of their names
pub mod api_request; // single requests
pub mod list_watch; // a collection and its changes

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cli;
use crate::command_error::CommandError;

/// Where `phalanx up` writes its kubeconfig by default.
const LOCAL_KUBECONFIG: &str = ".phalanx/kubeconfig";

/// Options of every command that connects to a cluster.
#[derive(Args, Debug, Default)]
pub struct ConnectArgs {
    /// Kubeconfig file [default: $KUBECONFIG, then .phalanx/kubeconfig, then ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
    /// Namespace [default: that of the context, else default]
    #[arg(short, long, value_name = "NAME", help_heading = "Cluster")]
    pub namespace: Option<String>,
    /// Time limit of each request; 0 means none. Watches and logs must start within this time
    #[arg(long, value_name = "DURATION", help_heading = "Cluster", default_value = "15s", value_parser = request_timeout)]
    pub request_timeout: RequestTimeout,
}

/// The time limit of one request; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimeout(pub Option<Duration>);

/// Parses a duration, or `0` as kubectl does.
fn request_timeout(text: &str) -> Result<RequestTimeout, String> {
    match text {
        "0" | "0s" => Ok(RequestTimeout(None)),
        text => cli::parse_duration(text).map(|deadline| RequestTimeout(Some(deadline))),
    }
}

/// A connection to a cluster.
pub struct Connection {
    /// The client.
    pub client: Client,
    /// The time limit of one request, which `client` enforces.
    pub request_timeout: RequestTimeout,
    /// The namespace of objects that have none.
    pub namespace: String,
    /// Whether the user chose the namespace on the command line.
    pub is_namespace_explicit: bool,
}

/// Connects, runs `work` on a new runtime, prints errors and returns the exit code.
pub fn run(args: &ConnectArgs, work: impl AsyncFnOnce(Connection) -> Result<u8, CommandError>) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return CommandError::cannot_start(format!("cannot start: {error}")).report(),
    };
    let outcome = runtime.block_on(async { work(connect(args).await?).await });
    outcome.unwrap_or_else(|failure| failure.report())
}

async fn connect(args: &ConnectArgs) -> Result<Connection, CommandError> {
    let (config, name) =
        load_config(&KubeconfigSource::from_process(args.kubeconfig.as_deref()), args.context.as_deref()).await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let request_timeout = args.request_timeout;
    let client = deadline::with_deadline(build_client(config, &name)?, request_timeout.0);
    Ok(Connection { client, request_timeout, namespace, is_namespace_explicit: args.namespace.is_some() })
}

/// The server of a component.
pub struct ServerEndpoint {
    /// The client.
    pub client: Client,
    /// Its address, for messages.
    pub url: String,
}

/// The server of a kubeconfig or, without one and in a pod, the server of the pod's cluster. No request is sent yet.
pub async fn server_of_component(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<ServerEndpoint, CommandError> {
    let source = KubeconfigSource::from_process(kubeconfig);
    let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let (mut config, name) = match source {
        KubeconfigSource::Missing if is_pod => {
            let name = "the service account of this pod".to_owned();
            let config = Config::incluster().map_err(|error| {
                CommandError::cannot_start(format!(
                    "{name}: {error}; give the pod a service account, or pass --kubeconfig"
                ))
            })?;
            (config, name)
        }
        source => load_config(&source, context).await?,
    };
    // Components retry by themselves, and know which requests can be repeated.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = runtime::reconnecting(move || Client::try_from(config.clone()));
    Ok(ServerEndpoint { client: client.map_err(|error| kubeconfig_error(&name, &error))?, url })
}

/// How long a connection attempt may take before the next one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The configuration from a kubeconfig, and a name for messages.
async fn load_config(source: &KubeconfigSource, context: Option<&str>) -> Result<(Config, String), CommandError> {
    let (kubeconfig, name) = source.read()?;
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| kubeconfig_error(&name, &error))?;
    // A create that timed out may have taken effect, so only the caller can decide to retry.
    config.default_retry = false;
    Ok((config, name))
}

fn build_client(config: Config, name: &str) -> Result<Client, CommandError> {
    Client::try_from(config).map_err(|error| kubeconfig_error(name, &error))
}

fn kubeconfig_error(name: &str, error: &dyn std::fmt::Display) -> CommandError {
    CommandError::cannot_start(format!(
        "kubeconfig {name}: {error}; fix it, or pass another one with --kubeconfig FILE"
    ))
}

/// Where the kubeconfig comes from.
#[derive(Debug, PartialEq, Eq)]
enum KubeconfigSource {
    File(PathBuf),
    /// `$KUBECONFIG`, which may name several files.
    Environment,
    Missing,
}

impl KubeconfigSource {
    /// The source for this process.
    fn from_process(chosen: Option<&Path>) -> KubeconfigSource {
        KubeconfigSource::find(chosen, std::env::var_os("KUBECONFIG").as_deref(), std::env::home_dir().as_deref())
    }

    fn find(chosen: Option<&Path>, environment: Option<&OsStr>, home: Option<&Path>) -> KubeconfigSource {
        if let Some(file) = chosen {
            return KubeconfigSource::File(file.to_owned());
        }
        if environment.is_some_and(|files| !files.is_empty()) {
            return KubeconfigSource::Environment;
        }
        let candidates = [Some(PathBuf::from(LOCAL_KUBECONFIG)), home.map(|home| home.join(".kube/config"))];
        candidates
            .into_iter()
            .flatten()
            .find(|file| file.is_file())
            .map_or(KubeconfigSource::Missing, KubeconfigSource::File)
    }

    fn read(&self) -> Result<(Kubeconfig, String), CommandError> {
        let hint = "start a cluster with `phalanx up` or pass --kubeconfig FILE";
        match self {
            KubeconfigSource::File(file) => {
                let name = file.display().to_string();
                let read = Kubeconfig::read_from(file);
                Ok((
                    read.map_err(|error| CommandError::cannot_start(format!("kubeconfig {name}: {error}; {hint}")))?,
                    name,
                ))
            }
            KubeconfigSource::Environment => {
                let name = "of $KUBECONFIG".to_owned();
                match Kubeconfig::from_env() {
                    Ok(Some(kubeconfig)) => Ok((kubeconfig, name)),
                    Ok(None) => Err(CommandError::cannot_start(format!("no file of $KUBECONFIG exists; {hint}"))),
                    Err(error) => Err(CommandError::cannot_start(format!("kubeconfig {name}: {error}; {hint}"))),
                }
            }
            KubeconfigSource::Missing => Err(CommandError::cannot_start(format!("no kubeconfig found; {hint}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_takes_precedence_over_the_environment_and_both_over_files() {
        let (chosen, environment) = (Path::new("mine"), OsStr::new("a:b"));
        assert_eq!(
            KubeconfigSource::find(Some(chosen), Some(environment), None),
            KubeconfigSource::File("mine".into())
        );
        assert_eq!(KubeconfigSource::find(None, Some(environment), None), KubeconfigSource::Environment);
        assert_eq!(
            KubeconfigSource::find(None, Some(OsStr::new("")), None),
            KubeconfigSource::Missing,
            "an empty variable is ignored"
        );
    }

    #[test]
    fn requests_have_15_seconds_by_default() {
        let given = |line: &str| crate::test_cluster::parse_args::<ConnectArgs>(line).request_timeout.0;
        assert_eq!(given(""), Some(runtime::request::DEADLINE));
        assert_eq!(given("--request-timeout 2m"), Some(Duration::from_secs(120)));
        assert_eq!([given("--request-timeout 0"), given("--request-timeout 0s")], [None, None]);
        assert!(request_timeout("-1s").is_err() && request_timeout("soon").is_err());
    }

    #[test]
    fn an_error_about_a_missing_kubeconfig_has_a_hint() {
        let failure =
            KubeconfigSource::find(None, None, Some(Path::new("/nowhere"))).read().expect_err("there is none");
        assert_eq!(failure.code, crate::cli::EXIT_CANNOT_START);
        assert!(failure.lines[0].contains("phalanx up") && failure.lines[0].contains("--kubeconfig"), "{failure:?}");
        let failure = KubeconfigSource::File("/nowhere/at/all".into()).read().expect_err("there is none");
        assert!(failure.lines[0].contains("/nowhere/at/all"), "{failure:?}");
    }
}
