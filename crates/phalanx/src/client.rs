//! From a kubeconfig to a client: which file, which context, which namespace.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::failure::Failure;

/// Where `phalanx up` leaves its kubeconfig unless told otherwise.
const OWN_KUBECONFIG: &str = ".phalanx/kubeconfig";

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
}

/// A cluster to talk to.
pub struct Connection {
    /// Talks to the server.
    pub client: Client,
    /// Where objects are whose namespace nobody says.
    pub namespace: String,
    /// Whether the user chose the namespace on the command line.
    pub namespace_is_chosen: bool,
}

/// Connects, does `work` on a runtime of its own, says what went wrong and returns the exit code.
pub fn run(args: &ConnectArgs, work: impl AsyncFnOnce(Connection) -> Result<u8, Failure>) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::cannot_start(format!("cannot start: {error}")).report(),
    };
    let outcome = runtime.block_on(async { work(connect(args).await?).await });
    outcome.unwrap_or_else(|failure| failure.report())
}

async fn connect(args: &ConnectArgs) -> Result<Connection, Failure> {
    let home = std::env::home_dir();
    let source = Source::find(args.kubeconfig.as_deref(), std::env::var_os("KUBECONFIG").as_deref(), home.as_deref());
    let (kubeconfig, name) = source.read()?;
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let unusable = |error: &dyn std::fmt::Display| Failure::cannot_start(format!("kubeconfig {name}: {error}"));
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| unusable(&error))?;
    // A create that timed out may have taken effect; whoever asked decides whether to ask again.
    config.default_retry = false;
    let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).map_err(|error| unusable(&error))?;
    Ok(Connection { client, namespace, namespace_is_chosen: args.namespace.is_some() })
}

/// Where the kubeconfig comes from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    /// `$KUBECONFIG`, which may name several files.
    Environment,
    Nowhere,
}

impl Source {
    fn find(chosen: Option<&Path>, environment: Option<&OsStr>, home: Option<&Path>) -> Source {
        if let Some(file) = chosen {
            return Source::File(file.to_owned());
        }
        if environment.is_some_and(|files| !files.is_empty()) {
            return Source::Environment;
        }
        let candidates = [Some(PathBuf::from(OWN_KUBECONFIG)), home.map(|home| home.join(".kube/config"))];
        candidates.into_iter().flatten().find(|file| file.is_file()).map_or(Source::Nowhere, Source::File)
    }

    fn read(&self) -> Result<(Kubeconfig, String), Failure> {
        let advice = "start a cluster with `phalanx up` or pass --kubeconfig FILE";
        match self {
            Source::File(file) => {
                let name = file.display().to_string();
                let read = Kubeconfig::read_from(file);
                Ok((
                    read.map_err(|error| Failure::cannot_start(format!("kubeconfig {name}: {error}; {advice}")))?,
                    name,
                ))
            }
            Source::Environment => {
                let name = "named by $KUBECONFIG".to_owned();
                match Kubeconfig::from_env() {
                    Ok(Some(kubeconfig)) => Ok((kubeconfig, name)),
                    Ok(None) => {
                        Err(Failure::cannot_start(format!("no file that $KUBECONFIG names is there; {advice}")))
                    }
                    Err(error) => Err(Failure::cannot_start(format!("kubeconfig {name}: {error}; {advice}"))),
                }
            }
            Source::Nowhere => Err(Failure::cannot_start(format!("no kubeconfig found; {advice}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_wins_over_the_environment_and_both_over_files() {
        let (chosen, environment) = (Path::new("mine"), OsStr::new("a:b"));
        assert_eq!(Source::find(Some(chosen), Some(environment), None), Source::File("mine".into()));
        assert_eq!(Source::find(None, Some(environment), None), Source::Environment);
        assert_eq!(Source::find(None, Some(OsStr::new("")), None), Source::Nowhere, "an empty variable says nothing");
    }

    #[test]
    fn without_a_kubeconfig_the_user_learns_how_to_get_one() {
        let failure = Source::find(None, None, Some(Path::new("/nowhere"))).read().expect_err("there is none");
        assert_eq!(failure.code, crate::cli::CANNOT_START);
        assert!(failure.lines[0].contains("phalanx up") && failure.lines[0].contains("--kubeconfig"), "{failure:?}");
        let failure = Source::File("/nowhere/at/all".into()).read().expect_err("there is none");
        assert!(failure.lines[0].contains("/nowhere/at/all"), "{failure:?}");
    }
}
