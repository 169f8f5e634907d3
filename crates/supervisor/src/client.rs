//! Clients of the servers that are started here.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A new client with its own connection pool. It does not retry by itself.
pub(crate) async fn client(kubeconfig: &Path, read_timeout: Duration) -> anyhow::Result<Client> {
    client_of(Kubeconfig::read_from(kubeconfig)?, read_timeout).await
}

/// The same with `token`, or with no credentials, in place of the certificate.
pub(crate) async fn client_with_token(
    kubeconfig: &Path,
    token: Option<&str>,
    read_timeout: Duration,
) -> anyhow::Result<Client> {
    let mut file = Kubeconfig::read_from(kubeconfig)?;
    let user =
        file.auth_infos.first_mut().and_then(|user| user.auth_info.as_mut()).context("a kubeconfig has a user")?;
    (user.client_certificate_data, user.client_key_data) = (None, None);
    user.token = token.map(|token| token.to_owned().into());
    client_of(file, read_timeout).await
}

async fn client_of(file: Kubeconfig, read_timeout: Duration) -> anyhow::Result<Client> {
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(read_timeout);
    Ok(Client::try_from(config)?)
}
