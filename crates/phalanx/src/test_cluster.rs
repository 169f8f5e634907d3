//! An in-memory cluster for the tests of commands, on the paused clock.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use clap::Args;
use controlplane::{Config, ControlPlane};
use nodes::cluster::Cluster;

use crate::client::api_request;
use crate::client::{Connection, RequestTimeout};
use crate::command_error::CommandError;
use crate::commands::apply::{self, FieldValidation};
use crate::{manifest, run};

/// A control plane and a connection to it.
pub struct CliTestCluster {
    /// Runs until it is dropped.
    _plane: ControlPlane,
    /// The connection for commands.
    pub connection: Connection,
}

impl CliTestCluster {
    /// Starts all components, with this many nodes of 8 GPUs.
    pub async fn start(nodes: u32) -> CliTestCluster {
        CliTestCluster::with(Config::for_cluster(Cluster::default_of(nodes))).await
    }

    /// Starts the components of `config`.
    pub async fn with(config: Config) -> CliTestCluster {
        let plane = ControlPlane::start(run::in_memory_environment(), config).await.unwrap();
        let connection = Connection {
            client: plane.client(),
            request_timeout: RequestTimeout::default(),
            namespace: "default".to_owned(),
            is_namespace_explicit: false,
        };
        CliTestCluster { _plane: plane, connection }
    }

    /// `phalanx apply -f -` with `text`; returns what it prints.
    pub async fn apply(&self, text: &str) -> Result<String, CommandError> {
        let manifests = manifest::parse(Path::new("-"), text).map_err(|problem| vec![problem])?;
        let mut out = Vec::new();
        apply::apply(&self.connection, &manifests, FieldValidation::Strict, &mut out).await?;
        Ok(String::from_utf8(out).unwrap())
    }

    /// Waits until the Job has ended.
    pub async fn wait_until_ended(&self, job: &str) {
        let path = format!("/apis/batch/v1/namespaces/default/jobs/{job}");
        for _ in 0..1000 {
            let job = api_request::get(&self.connection.client, &path, api_request::JSON).await.unwrap();
            let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
            if conditions.into_iter().any(|condition| condition["type"] == "Complete" || condition["type"] == "Failed")
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("job {job} never ended");
    }
}

/// Parses the options of a command line (without the command).
pub fn parse_args<A: Args>(line: &str) -> A {
    let command = A::augment_args(clap::Command::new("test").no_binary_name(true));
    A::from_arg_matches(&command.try_get_matches_from(line.split_whitespace()).unwrap()).unwrap()
}

/// A gang of `pods`, one GPU each.
pub fn job(name: &str, pods: u32) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  parallelism: {pods}
  completions: {pods}
  scheduling: {{schedulingPolicy: {{gang: {{}}}}}}
  template:
    spec:
      restartPolicy: Never
      containers:
      - {{name: worker, image: trainer, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}
"
    )
}
