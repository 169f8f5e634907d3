//! One client: submits Jobs, changes and deletes its own, until the server is killed.

use api::Random;
use kube::Client;
use runtime::request::{self, PatchKind};
use serde_json::{Value, json};

use super::ledger::ClientLedger;

/// The annotation that clients count up.
pub const TOUCH_ANNOTATION: &str = "example.com/touched";

/// A client and its ledger.
pub struct Submitter {
    /// The prefix of its Jobs' names.
    pub id: usize,
    /// The acknowledged writes.
    pub ledger: ClientLedger,
    /// The random source of its actions.
    pub random: Random,
    /// The number of Jobs so far.
    pub jobs_started: usize,
}

impl Submitter {
    /// Works until the server stops responding. `budget` limits the new Jobs. A refusal is an error: no request of this
    /// client may be refused.
    pub async fn submit_until_down(&mut self, client: &Client, budget: usize) -> anyhow::Result<()> {
        let mut budget = budget;
        loop {
            let missing = self.ledger.missing().next().map(str::to_owned);
            let deletable = self.ledger.deletable().next().map(str::to_owned);
            let draw = self.random.below(8);
            let response = match (missing, deletable) {
                (Some(name), _) => self.create(client, &name).await,
                (None, Some(name)) if draw < 3 => self.delete(client, &name).await,
                _ if budget > 0 && draw < 6 => {
                    budget -= 1;
                    let name = format!("client-{}-{}", self.id, self.jobs_started);
                    self.jobs_started += 1;
                    self.create(client, &name).await
                }
                _ => self.touch(client).await,
            };
            match response {
                Ok(()) => {}
                Err(kube::Error::Api(status)) if status.code < 500 => anyhow::bail!("refused: {}", status.message),
                // The server is down; the result of the write is unknown.
                Err(_) => return Ok(()),
            }
        }
    }

    async fn create(&mut self, client: &Client, name: &str) -> kube::Result<()> {
        self.ledger.begin_create(name);
        let response = request::post(client, JOBS, &job(name, &self.random)).await?;
        self.ledger.ack_create(name, &response.uid, response.revision.0);
        Ok(())
    }

    async fn touch(&mut self, client: &Client) -> kube::Result<()> {
        let live: Vec<&str> = self.ledger.live().collect();
        if live.is_empty() {
            tokio::task::yield_now().await;
            return Ok(());
        }
        let name = live[self.random.below(live.len() as u64) as usize].to_owned();
        let value = self.ledger.begin_touch(&name);
        let patch = json!({"metadata": {"annotations": {TOUCH_ANNOTATION: value.to_string()}}});
        let response = request::patch(client, &format!("{JOBS}/{name}"), PatchKind::Merge, &patch).await?;
        self.ledger.ack_touch(&name, value, response.revision.0);
        Ok(())
    }

    async fn delete(&mut self, client: &Client, name: &str) -> kube::Result<()> {
        self.ledger.begin_delete(name);
        let options = json!({"propagationPolicy": "Background"});
        request::delete(client, &format!("{JOBS}/{name}"), &options).await?;
        self.ledger.ack_delete(name);
        Ok(())
    }
}

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// A small Job: one to four pods, some Indexed, some gangs, which run for an instant or a second.
fn job(name: &str, random: &Random) -> Value {
    let pods = 1 + random.below(4);
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "annotations": {TOUCH_ANNOTATION: "0"}},
        "spec": {
            "parallelism": pods, "completions": pods, "backoffLimit": 0,
            "template": {
                "metadata": {"annotations": {"phalanx.dev/run-seconds": random.below(2).to_string()}},
                "spec": {"restartPolicy": "Never", "containers": [{
                    "name": "main", "image": "registry.example/main:1",
                    "resources": {"requests": {"cpu": "10m"}},
                }]},
            },
        },
    });
    if random.below(2) == 0 {
        job["spec"]["completionMode"] = "Indexed".into();
    }
    if random.below(3) == 0 {
        job["spec"]["scheduling"] = json!({"schedulingPolicy": {"gang": {}}});
    }
    job
}
