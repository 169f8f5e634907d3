//! Which kinds the server has, as its discovery says: at the start, after every loss of the server, and now and then.

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

/// A server that is changed is mostly lost for a moment, which is noticed; this is for the others.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// What the server can do. Clones know the same.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// `None` until the server has been asked.
    served_kinds: watch::Receiver<Option<ServedKinds>>,
    /// Keeps open what nobody will ever change.
    _sender: Option<Arc<watch::Sender<Option<ServedKinds>>>>,
}

/// The kinds that a server serves, by group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedKinds {
    /// All that anybody could ask for: the server is our own.
    Everything,
    /// These, as `group/version` and kind.
    Listed(BTreeSet<(String, String)>),
}

impl ServedKinds {
    /// Whether `resource` is served in the version that our own code speaks.
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
        let (held, served) = watch::channel(Some(ServedKinds::Everything));
        Capabilities { served_kinds: served, _sender: Some(Arc::new(held)) }
    }

    /// What the server of `client` has in `groups`, and the task that must be polled for it to be known and to stay true.
    pub fn of(
        client: Client,
        groups: &'static [&'static str],
        reachability: Reachability,
        random: Random,
    ) -> (Capabilities, impl Future<Output = ()> + Send + 'static) {
        let (sender, served) = watch::channel(None);
        (Capabilities { served_kinds: served, _sender: None }, poll(client, groups, reachability, random, sender))
    }

    /// Returns once the server has been asked.
    pub async fn wait_until_known(&mut self) {
        if self.served_kinds.wait_for(Option::is_some).await.is_err() {
            // Nobody will ever ask it; who waits for that waits.
            std::future::pending().await
        }
    }

    /// Whether the server has `resource`; one that has not been asked yet has nothing.
    pub fn serves(&self, resource: &ApiResource) -> bool {
        self.served_kinds.borrow().as_ref().is_some_and(|served| served.has(resource))
    }

    /// Returns when the server serves other kinds than when this or [`Capabilities::wait_until_known`] last returned.
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
                sender.send_if_modified(|held| {
                    let is_news = held.as_ref() != Some(&served);
                    *held = Some(served);
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
            // Subresources are listed as well, under the kind of what they take.
            let whole = found.into_iter().flat_map(|found| found.resources).filter(|found| !found.name.contains('/'));
            kinds.extend(whole.map(|found| (group_version.clone(), found.kind)));
        }
    }
    Ok(ServedKinds::Listed(kinds))
}

/// `None` where the server has nothing of the kind.
async fn get_optional<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Option<T>, Error> {
    match discovery::get_document(client, path).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
