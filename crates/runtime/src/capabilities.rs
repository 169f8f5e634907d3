//! Which kinds the server has, as its discovery says: at the start, after every loss of the server, and now and then.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::Random;
use api::views::ResourceRef;
use kube::{Client, Error};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::discovery::{self, Group, Resources, Version};
use crate::failure::{is_not_found, message};
use crate::reach::Reach;

/// A server that is changed is mostly lost for a moment, which is noticed; this is for the others.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// What the server can do. Clones know the same.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// `None` until the server has been asked.
    served: watch::Receiver<Option<Served>>,
    /// Keeps open what nobody will ever change.
    _held: Option<Arc<watch::Sender<Option<Served>>>>,
}

/// The kinds that a server serves, by group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// All that anybody could ask for: the server is our own.
    Everything,
    /// These, as `group/version` and kind.
    These(BTreeSet<(String, String)>),
}

impl Served {
    /// Whether `resource` is served in the version that our own code speaks.
    pub fn has(&self, resource: &ResourceRef) -> bool {
        match self {
            Served::Everything => true,
            Served::These(kinds) => kinds.contains(&(resource.api_version(), resource.kind.to_owned())),
        }
    }
}

impl Capabilities {
    /// A server that has every kind.
    pub fn everything() -> Capabilities {
        let (held, served) = watch::channel(Some(Served::Everything));
        Capabilities { served, _held: Some(Arc::new(held)) }
    }

    /// What the server of `client` has in `groups`, and the task that must be polled for it to be known and to stay true.
    pub fn of(
        client: Client,
        groups: &'static [&'static str],
        reach: Reach,
        random: Random,
    ) -> (Capabilities, impl Future<Output = ()> + Send + 'static) {
        let (sender, served) = watch::channel(None);
        (Capabilities { served, _held: None }, keep(client, groups, reach, random, sender))
    }

    /// Returns once the server has been asked.
    pub async fn known(&mut self) {
        if self.served.wait_for(Option::is_some).await.is_err() {
            // Nobody will ever ask it; who waits for that waits.
            std::future::pending().await
        }
    }

    /// Whether the server has `resource`; one that has not been asked yet has nothing.
    pub fn serves(&self, resource: &ResourceRef) -> bool {
        self.served.borrow().as_ref().is_some_and(|served| served.has(resource))
    }

    /// Returns when the server has come to have other kinds than when this or [`Capabilities::known`] last returned.
    pub async fn changed(&mut self) {
        if self.served.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

async fn keep(
    client: Client,
    groups: &'static [&'static str],
    reach: Reach,
    random: Random,
    sender: watch::Sender<Option<Served>>,
) {
    let mut failures = 0;
    loop {
        let recoveries = reach.recoveries();
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
                    () = reach.recovered(recoveries) => {}
                    () = tokio::time::sleep(LOOK_EVERY) => {}
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

async fn discover(client: &Client, groups: &[&str]) -> Result<Served, Error> {
    let mut kinds = BTreeSet::new();
    for group in groups {
        let Some(Group { versions, .. }) = ask(client, &format!("/apis/{group}")).await? else { continue };
        for Version { group_version } in versions {
            let found: Option<Resources> = ask(client, &format!("/apis/{group_version}")).await?;
            // Subresources are listed as well, under the kind of what they take.
            let whole = found.into_iter().flat_map(|found| found.resources).filter(|found| !found.name.contains('/'));
            kinds.extend(whole.map(|found| (group_version.clone(), found.kind)));
        }
    }
    Ok(Served::These(kinds))
}

/// `None` where the server has nothing of the kind.
async fn ask<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Option<T>, Error> {
    match discovery::ask(client, path).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
