//! From a kubeconfig to a client: which file, which context, which namespace.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::command_error::CommandError;
use crate::{cli, deadline};

/// Where `phalanx up` leaves its kubeconfig unless told otherwise.
const LOCAL_KUBECONFIG: &str = ".phalanx/kubeconfig";

/// Options of every command that talks to a cluster.
#[derive(Args, Debug, Default)]
pub struct ConnectArgs {
    /// Kubeconfig file [default: $KUBECONFIG, then .phalanx/kubeconfig, then ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
    /// Namespace [default: that of the context, else default]
    #[arg(short, long, value_name = "NAME", help_heading = "Cluster")]
    pub namespace: Option<String>,
    /// How long the server has to answer each request; 0 waits for ever. Watches and logs have to begin in this time
    #[arg(long, value_name = "DURATION", help_heading = "Cluster", default_value = "15s", value_parser = request_timeout)]
    pub request_timeout: RequestTimeout,
}

/// How long the server has to answer one request; `None` is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimeout(pub Option<Duration>);

/// Reads a length of time, or `0` as kubectl does.
fn request_timeout(text: &str) -> Result<RequestTimeout, String> {
    match text {
        "0" | "0s" => Ok(RequestTimeout(None)),
        text => cli::parse_duration(text).map(|deadline| RequestTimeout(Some(deadline))),
    }
}

/// A cluster to talk to.
pub struct Connection {
    /// Talks to the server.
    pub client: Client,
    /// How long a server has to answer one request; `client` keeps to it.
    pub request_timeout: RequestTimeout,
    /// Where objects are whose namespace nobody says.
    pub namespace: String,
    /// Whether the user chose the namespace on the command line.
    pub is_namespace_explicit: bool,
}

/// Connects, does `work` on a runtime of its own, says what went wrong and returns the exit code.
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

/// A server for a part that works on it for a long time.
pub struct ServerEndpoint {
    /// Talks to the server.
    pub client: Client,
    /// Where it is, for people.
    pub url: String,
}

/// The server of a kubeconfig or, where there is none and this is a pod of a cluster, that cluster's. Nothing is asked
/// of it yet.
pub async fn server_of_component(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<ServerEndpoint, CommandError> {
    let source = KubeconfigSource::from_process(kubeconfig);
    let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let (mut config, name) = match source {
        KubeconfigSource::Missing if is_pod => {
            let name = "the account of this pod".to_owned();
            let config = Config::incluster().map_err(|error| {
                CommandError::cannot_start(format!(
                    "{name}: {error}; give the pod a service account, or pass --kubeconfig"
                ))
            })?;
            (config, name)
        }
        source => load_config(&source, context).await?,
    };
    // Parts try again by themselves, and know what they may send twice.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = runtime::reconnecting(move || Client::try_from(config.clone()));
    Ok(ServerEndpoint { client: client.map_err(|error| kubeconfig_error(&name, &error))?, url })
}

/// A server that does not even accept a connection is tried again after this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a kubeconfig says, and what to call it.
async fn load_config(source: &KubeconfigSource, context: Option<&str>) -> Result<(Config, String), CommandError> {
    let (kubeconfig, name) = source.read()?;
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| kubeconfig_error(&name, &error))?;
    // A create that timed out may have taken effect; whoever asked decides whether to ask again.
    config.default_retry = false;
    Ok((config, name))
}

fn build_client(config: Config, name: &str) -> Result<Client, CommandError> {
    Client::try_from(config).map_err(|error| kubeconfig_error(name, &error))
}

fn kubeconfig_error(name: &str, error: &dyn std::fmt::Display) -> CommandError {
    CommandError::cannot_start(format!("kubeconfig {name}: {error}; mend it or pass another with --kubeconfig FILE"))
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
    /// Where it comes from in this process.
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
        let advice = "start a cluster with `phalanx up` or pass --kubeconfig FILE";
        match self {
            KubeconfigSource::File(file) => {
                let name = file.display().to_string();
                let read = Kubeconfig::read_from(file);
                Ok((
                    read.map_err(|error| CommandError::cannot_start(format!("kubeconfig {name}: {error}; {advice}")))?,
                    name,
                ))
            }
            KubeconfigSource::Environment => {
                let name = "named by $KUBECONFIG".to_owned();
                match Kubeconfig::from_env() {
                    Ok(Some(kubeconfig)) => Ok((kubeconfig, name)),
                    Ok(None) => {
                        Err(CommandError::cannot_start(format!("no file that $KUBECONFIG names is there; {advice}")))
                    }
                    Err(error) => Err(CommandError::cannot_start(format!("kubeconfig {name}: {error}; {advice}"))),
                }
            }
            KubeconfigSource::Missing => Err(CommandError::cannot_start(format!("no kubeconfig found; {advice}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_wins_over_the_environment_and_both_over_files() {
        let (chosen, environment) = (Path::new("mine"), OsStr::new("a:b"));
        assert_eq!(
            KubeconfigSource::find(Some(chosen), Some(environment), None),
            KubeconfigSource::File("mine".into())
        );
        assert_eq!(KubeconfigSource::find(None, Some(environment), None), KubeconfigSource::Environment);
        assert_eq!(
            KubeconfigSource::find(None, Some(OsStr::new("")), None),
            KubeconfigSource::Missing,
            "an empty variable says nothing"
        );
    }

    #[test]
    fn requests_have_15_seconds_unless_told_otherwise() {
        let given = |line: &str| crate::test_cluster::parse_args::<ConnectArgs>(line).request_timeout.0;
        assert_eq!(given(""), Some(runtime::request::DEADLINE));
        assert_eq!(given("--request-timeout 2m"), Some(Duration::from_secs(120)));
        assert_eq!([given("--request-timeout 0"), given("--request-timeout 0s")], [None, None]);
        assert!(request_timeout("-1s").is_err() && request_timeout("soon").is_err());
    }

    #[test]
    fn without_a_kubeconfig_the_user_learns_how_to_get_one() {
        let failure =
            KubeconfigSource::find(None, None, Some(Path::new("/nowhere"))).read().expect_err("there is none");
        assert_eq!(failure.code, crate::cli::EXIT_CANNOT_START);
        assert!(failure.lines[0].contains("phalanx up") && failure.lines[0].contains("--kubeconfig"), "{failure:?}");
        let failure = KubeconfigSource::File("/nowhere/at/all".into()).read().expect_err("there is none");
        assert!(failure.lines[0].contains("/nowhere/at/all"), "{failure:?}");
    }
}
