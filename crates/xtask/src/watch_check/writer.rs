//! One client that creates, changes and deletes pods, and knows what became of every write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::Random;
use kube::Client;
use runtime::request::{self, PatchKind};
use serde::Deserialize;
use serde_json::json;

use super::truth::{Key, Truth, Write};

/// Namespaces that are written to.
pub const NAMESPACES: [&str; 2] = ["default", "other"];
/// Values of the label `side`.
pub const SIDES: [&str; 2] = ["left", "right"];
/// Objects that a writer keeps alive, more or less.
const LIVE: usize = 40;
const RETRY: Duration = Duration::from_millis(20);

/// A writer and what it has written.
pub struct Writer {
    pub id: usize,
    pub client: Client,
    pub random: Random,
    truth: Truth,
    live: BTreeMap<Key, u64>,
    /// Deletes whose answer named no version: the next acknowledged write of this writer is an upper bound.
    open: Vec<Key>,
    begun: usize,
}

/// What the server says about an object after a write of unknown fate.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: api::Revision,
}

impl Writer {
    pub fn new(id: usize, client: Client, random: Random) -> Writer {
        Writer { id, client, random, truth: Truth::new(), live: BTreeMap::new(), open: Vec::new(), begun: 0 }
    }

    /// Writes until `done` has reached `total`; returns what was written.
    pub async fn work(mut self, done: &AtomicUsize, total: usize) -> anyhow::Result<Truth> {
        while done.load(Ordering::Relaxed) < total {
            let draw = self.random.below(10);
            if self.live.len() < LIVE || draw == 0 {
                let key = self.new_key();
                self.put(key).await?;
            } else {
                let at = self.random.below(self.live.len() as u64) as usize;
                let key = self.live.keys().nth(at).expect("drawn below the count").clone();
                if draw == 1 { self.delete(key).await? } else { self.put(key).await? }
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self.truth)
    }

    fn new_key(&mut self) -> Key {
        self.begun += 1;
        let namespace = NAMESPACES[self.random.below(2) as usize];
        (namespace.to_owned(), format!("pod-{}-{}", self.id, self.begun))
    }

    /// Creates the pod, or changes its label and an annotation.
    async fn put(&mut self, key: Key) -> anyhow::Result<()> {
        let side = SIDES[self.random.below(2) as usize];
        let before = self.live.get(&key).copied();
        let mark = self.random.next_u64().to_string();
        let metadata = json!({"labels": {"side": side}, "annotations": {"example.com/mark": mark}});
        let answer = match before {
            None => create(&self.client, &key, side).await,
            Some(_) => {
                let change = json!({"metadata": metadata});
                request::patch(&self.client, &path(&key), PatchKind::Merge, &change).await
            }
        };
        let revision = match answer {
            Ok(answer) => Some(answer.revision.0),
            Err(error) => self.fate(&key, error).await?.filter(|revision| Some(*revision) != before),
        };
        if let Some(revision) = revision {
            self.closes(revision);
            self.truth.entry(key.clone()).or_default().push(Write { side: Some(side), low: revision, high: revision });
            self.live.insert(key, revision);
        }
        Ok(())
    }

    async fn delete(&mut self, key: Key) -> anyhow::Result<()> {
        let answer = request::delete(&self.client, &path(&key), &json!({"gracePeriodSeconds": 0})).await;
        let is_gone = match answer {
            Ok(_) => true,
            Err(error) => self.fate(&key, error).await?.is_none(),
        };
        if is_gone {
            let last = self.live.remove(&key).unwrap_or_default();
            let writes = self.truth.entry(key.clone()).or_default();
            writes.push(Write { side: None, low: last + 1, high: u64::MAX });
            self.open.push(key);
        }
        Ok(())
    }

    /// A write at `revision` is acknowledged: the deletes before it came before.
    fn closes(&mut self, revision: u64) {
        for key in self.open.drain(..) {
            if let Some(write) = self.truth.get_mut(&key).and_then(|writes| writes.last_mut()) {
                write.high = revision - 1;
            }
        }
    }

    /// The version of an object whose write got no answer, once the server answers again; `None` when it is not there.
    async fn fate(&self, key: &Key, error: kube::Error) -> anyhow::Result<Option<u64>> {
        refuse_refusals(&error)?;
        loop {
            match request::get(&self.client, &path(key)).await {
                Ok(bytes) => {
                    let object: Object = serde_json::from_slice(&bytes)?;
                    return Ok(Some(object.metadata.resource_version.0));
                }
                Err(error) if runtime::is_not_found(&error) => return Ok(None),
                Err(error) => refuse_refusals(&error)?,
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Only a server that is not there, or about to go, may fail to do what it is asked.
pub fn refuse_refusals(error: &kube::Error) -> anyhow::Result<()> {
    match error {
        kube::Error::Api(status) if status.code < 500 => {
            anyhow::bail!("refused with {}: {}", status.code, status.message)
        }
        _ => Ok(()),
    }
}

fn path(key: &Key) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", key.0, key.1)
}

/// Creates one pod that nobody schedules.
pub async fn create(client: &Client, key: &Key, side: &str) -> kube::Result<runtime::WriteAnswer> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": key.1, "labels": {"side": side}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "registry.example/main:1"}]},
    });
    request::post(client, &format!("/api/v1/namespaces/{}/pods", key.0), &pod).await
}
