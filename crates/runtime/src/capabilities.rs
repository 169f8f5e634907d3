//! The kinds that the server serves, from discovery: read at the start, after every loss of the server, and
//! periodically.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Error};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use types::Random;
use types::kinds::ApiResource;

use crate::backoff::Backoff;
use crate::discovery::{self, ApiGroup, ApiResourceList, GroupVersion};
use crate::failure::{is_not_found, message};
use crate::reachability::Reachability;

/// A server that is upgraded is mostly unreachable for a moment, which is noticed. This is for the other cases.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// The kinds of the server. Clones share the state.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// `None` until discovery was read.
    served_kinds: watch::Receiver<Option<ServedKinds>>,
    /// Keeps the channel of a constant value open.
    _sender: Option<Arc<watch::Sender<Option<ServedKinds>>>>,
}

/// The kinds that a server serves, by group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedKinds {
    /// Every kind: the server is our own.
    Everything,
    /// These, as `group/version` and kind.
    Listed(BTreeSet<(String, String)>),
}

impl ServedKinds {
    /// Whether `resource` is served in the version that our code uses.
    pub fn has(&self, resource: &ApiResource) -> bool {
        match self {
            ServedKinds::Everything => true,
            ServedKinds::Listed(kinds) => kinds.contains(&(resource.api_version(), resource.kind.to_owned())),
        }
    }
}

impl Capabilities {
    /// A server that has every kind.
    pub fn everything() -> Capabilities {
        let (known, served) = watch::channel(Some(ServedKinds::Everything));
        Capabilities { served_kinds: served, _sender: Some(Arc::new(known)) }
    }

    /// The kinds that the server of `client` has in `groups`, and the task that keeps them up to date. The task must be
    /// polled.
    pub fn of(
        client: Client,
        groups: &'static [&'static str],
        reachability: Reachability,
        random: Random,
    ) -> (Capabilities, impl Future<Output = ()> + Send + 'static) {
        let (sender, served) = watch::channel(None);
        (Capabilities { served_kinds: served, _sender: None }, poll(client, groups, reachability, random, sender))
    }

    /// Returns once discovery was read.
    pub async fn wait_until_known(&mut self) {
        if self.served_kinds.wait_for(Option::is_some).await.is_err() {
            // The value never changes, so this waits forever.
            std::future::pending().await
        }
    }

    /// Whether the server serves `resource`; false until discovery was read.
    pub fn serves(&self, resource: &ApiResource) -> bool {
        self.served_kinds.borrow().as_ref().is_some_and(|served| served.has(resource))
    }

    /// Returns when the served kinds have changed since this or [`Capabilities::wait_until_known`] last returned.
    pub async fn wait_for_change(&mut self) {
        if self.served_kinds.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

async fn poll(
    client: Client,
    groups: &'static [&'static str],
    reachability: Reachability,
    random: Random,
    sender: watch::Sender<Option<ServedKinds>>,
) {
    let mut failures = 0;
    loop {
        let recoveries = reachability.recoveries();
        match discover(&client, groups).await {
            Ok(served) => {
                failures = 0;
                sender.send_if_modified(|known| {
                    let is_news = known.as_ref() != Some(&served);
                    *known = Some(served);
                    is_news
                });
                tokio::select! {
                    biased;
                    () = reachability.wait_for_recovery(recoveries) => {}
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                }
            }
            Err(error) => {
                failures += 1;
                tracing::debug!("discovery failed: {}", message(&error));
                tokio::time::sleep(BACKOFF.jittered(failures, &random)).await;
            }
        }
    }
}

async fn discover(client: &Client, groups: &[&str]) -> Result<ServedKinds, Error> {
    let mut kinds = BTreeSet::new();
    for group in groups {
        let Some(ApiGroup { versions, .. }) = get_optional(client, &format!("/apis/{group}")).await? else { continue };
        for GroupVersion { group_version } in versions {
            let found: Option<ApiResourceList> = get_optional(client, &format!("/apis/{group_version}")).await?;
            // Subresources are listed as well, with the kind of their body.
            let whole = found.into_iter().flat_map(|found| found.resources).filter(|found| !found.name.contains('/'));
            kinds.extend(whole.map(|found| (group_version.clone(), found.kind)));
        }
    }
    Ok(ServedKinds::Listed(kinds))
}

/// `None` if the document does not exist.
async fn get_optional<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Option<T>, Error> {
    match discovery::get_document(client, path).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
