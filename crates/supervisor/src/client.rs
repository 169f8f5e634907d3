//! Clients of the servers that are started here.

use std::path::Path;
use std::time::Duration;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A new client with its own connection pool. It does not retry by itself.
pub(crate) async fn client(kubeconfig: &Path, read_timeout: Duration) -> anyhow::Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(read_timeout);
    Ok(Client::try_from(config)?)
}
