//! One client that creates, changes and deletes pods, and records the result of every write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::Random;
use kube::Client;
use runtime::request::{self, PatchKind};
use serde::Deserialize;
use serde_json::json;

use super::write_history::{PodKey, WriteHistory, WriteRecord};

/// The namespaces of the pods.
pub const NAMESPACES: [&str; 2] = ["default", "other"];
/// Values of the label `side`.
pub const SIDES: [&str; 2] = ["left", "right"];
/// Approximate number of live objects of a writer.
const LIVE: usize = 40;
const RETRY: Duration = Duration::from_millis(20);

/// A writer and its writes.
pub struct PodWriter {
    pub id: usize,
    pub client: Client,
    pub random: Random,
    history: WriteHistory,
    live: BTreeMap<PodKey, u64>,
    /// Deletes whose response had no revision: the next acknowledged write of this writer is an upper bound.
    open_deletes: Vec<PodKey>,
    pods_started: usize,
}

/// The state of an object after a write with an unknown result.
#[derive(Deserialize)]
struct WrittenPod {
    metadata: WrittenMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMetadata {
    resource_version: api::Revision,
}

impl PodWriter {
    pub fn new(id: usize, client: Client, random: Random) -> PodWriter {
        PodWriter {
            id,
            client,
            random,
            history: WriteHistory::new(),
            live: BTreeMap::new(),
            open_deletes: Vec::new(),
            pods_started: 0,
        }
    }

    /// Writes until `done` has reached `total`; returns the writes.
    pub async fn work(mut self, done: &AtomicUsize, total: usize) -> anyhow::Result<WriteHistory> {
        while done.load(Ordering::Relaxed) < total {
            let draw = self.random.below(10);
            if self.live.len() < LIVE || draw == 0 {
                let key = self.new_key();
                self.put(key).await?;
            } else {
                let at = self.random.below(self.live.len() as u64) as usize;
                let key = self.live.keys().nth(at).expect("the index is below the count").clone();
                if draw == 1 { self.delete(key).await? } else { self.put(key).await? }
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self.history)
    }

    fn new_key(&mut self) -> PodKey {
        self.pods_started += 1;
        let namespace = NAMESPACES[self.random.below(2) as usize];
        (namespace.to_owned(), format!("pod-{}-{}", self.id, self.pods_started))
    }

    /// Creates the pod, or changes its label and an annotation.
    async fn put(&mut self, key: PodKey) -> anyhow::Result<()> {
        let side = SIDES[self.random.below(2) as usize];
        let before = self.live.get(&key).copied();
        let mark = self.random.next_u64().to_string();
        let metadata = json!({"labels": {"side": side}, "annotations": {"example.com/mark": mark}});
        let response = match before {
            None => create(&self.client, &key, side).await,
            Some(_) => {
                let change = json!({"metadata": metadata});
                request::patch(&self.client, &path(&key), PatchKind::Merge, &change).await
            }
        };
        let revision = match response {
            Ok(response) => Some(response.revision.0),
            Err(error) => self.resolve_write(&key, error).await?.filter(|revision| Some(*revision) != before),
        };
        if let Some(revision) = revision {
            self.bound_open_deletes(revision);
            self.history.entry(key.clone()).or_default().push(WriteRecord {
                side: Some(side),
                min_revision: revision,
                max_revision: revision,
            });
            self.live.insert(key, revision);
        }
        Ok(())
    }

    async fn delete(&mut self, key: PodKey) -> anyhow::Result<()> {
        let response = request::delete(&self.client, &path(&key), &json!({"gracePeriodSeconds": 0})).await;
        let is_gone = match response {
            Ok(_) => true,
            Err(error) => self.resolve_write(&key, error).await?.is_none(),
        };
        if is_gone {
            let last = self.live.remove(&key).unwrap_or_default();
            let writes = self.history.entry(key.clone()).or_default();
            writes.push(WriteRecord { side: None, min_revision: last + 1, max_revision: u64::MAX });
            self.open_deletes.push(key);
        }
        Ok(())
    }

    /// A write at `revision` is acknowledged: the deletes before it have lower revisions.
    fn bound_open_deletes(&mut self, revision: u64) {
        for key in self.open_deletes.drain(..) {
            if let Some(write) = self.history.get_mut(&key).and_then(|writes| writes.last_mut()) {
                write.max_revision = revision - 1;
            }
        }
    }

    /// The revision of an object whose write got no response, once the server responds again; `None` if it does not
    /// exist.
    async fn resolve_write(&self, key: &PodKey, error: kube::Error) -> anyhow::Result<Option<u64>> {
        ensure_unavailable(&error)?;
        loop {
            match request::get(&self.client, &path(key)).await {
                Ok(bytes) => {
                    let object: WrittenPod = serde_json::from_slice(&bytes)?;
                    return Ok(Some(object.metadata.resource_version.0));
                }
                Err(error) if runtime::is_not_found(&error) => return Ok(None),
                Err(error) => ensure_unavailable(&error)?,
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// A request may fail only while the server is unavailable or stopping.
pub fn ensure_unavailable(error: &kube::Error) -> anyhow::Result<()> {
    match error {
        kube::Error::Api(status) if status.code < 500 => {
            anyhow::bail!("refused with {}: {}", status.code, status.message)
        }
        _ => Ok(()),
    }
}

fn path(key: &PodKey) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", key.0, key.1)
}

/// Creates one pod that no scheduler places.
pub async fn create(client: &Client, key: &PodKey, side: &str) -> kube::Result<runtime::WriteResponse> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": key.1, "labels": {"side": side}},
        "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "registry.example/main:1"}]},
    });
    request::post(client, &format!("/api/v1/namespaces/{}/pods", key.0), &pod).await
}
