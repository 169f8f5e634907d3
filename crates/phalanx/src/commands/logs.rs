//! `phalanx logs`: the logs of a pod. A pod on a simulated node has none; its container states are shown instead.

use std::io::Write;

use api::kinds as registry;
use clap::Args;
use futures::AsyncReadExt;
use nodes::cluster::SIMULATED_LABEL;
use serde_json::Value;

use crate::client::api_request;
use crate::client::kinds::ServedKinds;
use crate::client::{ConnectArgs, Connection};
use crate::command_error::CommandError;
use crate::{cli, client};

/// Shown below the options of `phalanx logs`.
pub const HELP: &str = "\
Pods on simulated nodes (as in `phalanx up`) run no program and have no logs. For them the command shows when \
each container started and ended, and its exit code. On real clusters it shows the logs.

Examples:
  phalanx logs trainer-0-x7k2p
  phalanx logs web -c sidecar -f
  phalanx logs web --tail 100";

/// Options of `phalanx logs`.
#[derive(Args, Debug)]
pub struct LogsArgs {
    /// The pod: NAME or pod/NAME
    #[arg(value_name = "POD")]
    pub pod: String,
    /// The container, if the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Prints new lines as they are written
    #[arg(short, long)]
    pub follow: bool,
    /// Logs from before the last restart
    #[arg(short, long)]
    pub previous: bool,
    /// Number of lines from the end
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u32>,
    /// The cluster.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// `phalanx logs`: returns the exit code.
pub fn command(args: &LogsArgs) -> u8 {
    client::run(&args.connect, async |connection| logs(&connection, args, &mut std::io::stdout().lock()).await)
}

/// Prints the logs of the pod, or its container states on a simulated node.
pub async fn logs(connection: &Connection, args: &LogsArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let (kind, name) = args.pod.split_once('/').unwrap_or((registry::POD.singular, &args.pod));
    let kinds = ServedKinds::built_in();
    let pods = kinds.find_by_name(registry::POD.plural)?;
    if !registry::POD.has_name(kind) {
        let hint = "`phalanx get pods -l job-name=NAME` lists those of a Job";
        return Err(CommandError::usage(format!("{}: must be a pod; {hint}", args.pod)));
    }
    let path = pods.object_path(&connection.namespace, name);
    let pod = api_request::get(&connection.client, &path, api_request::JSON).await?;
    let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else {
        let hint = format!("`phalanx explain pod/{name}` shows why");
        return Err(CommandError::failed(format!("pod {name} has no node yet; {hint}")));
    };
    if is_simulated(connection, &kinds, node).await? {
        eprintln!("node {node} is simulated: its pods run no program and have no logs; container states:");
        write!(out, "{}", container_states(&pod, args.container.as_deref())?)?;
        return Ok(cli::EXIT_DONE);
    }
    let tail = args.tail.map(|lines| lines.to_string());
    let mut options: Vec<(&str, &str)> = Vec::new();
    options.extend(args.container.as_deref().map(|container| ("container", container)));
    options.extend(tail.as_deref().map(|lines| ("tailLines", lines)));
    options.extend(args.follow.then_some(("follow", "true")));
    options.extend(args.previous.then_some(("previous", "true")));
    let stream =
        api_request::stream(&connection.client, &format!("{path}/log{}", api_request::query(&options)), "*/*").await?;
    let mut stream = std::pin::pin!(stream);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => return Ok(cli::EXIT_DONE),
            Ok(count) => {
                out.write_all(&buffer[..count])?;
                out.flush()?;
            }
            Err(error) => return Err(CommandError::failed(format!("the log ended early: {error}"))),
        }
    }
}

/// Whether the node is simulated. A node that does not exist or that the user may not read counts as real.
async fn is_simulated(connection: &Connection, kinds: &ServedKinds, node: &str) -> Result<bool, CommandError> {
    match api_request::get(
        &connection.client,
        &kinds.find_by_name(registry::NODE.plural)?.object_path("", node),
        api_request::JSON,
    )
    .await
    {
        Ok(node) => Ok(node["metadata"]["labels"].get(SIMULATED_LABEL).is_some()),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The container states in the pod's status, one line each.
fn container_states(pod: &Value, container: Option<&str>) -> Result<String, CommandError> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.into_iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let chosen = statuses.filter(|status| container.is_none_or(|name| status["name"] == name));
    let mut lines: Vec<String> = chosen.map(line).collect();
    if let (true, Some(name)) = (lines.is_empty(), container) {
        return Err(CommandError::failed(format!("the pod has no status of a container {name}")));
    }
    let phase = pod["status"]["phase"].as_str().unwrap_or("Pending");
    let detail = [&pod["status"]["reason"], &pod["status"]["message"]].into_iter().filter_map(Value::as_str);
    let detail: Vec<&str> = detail.filter(|text| !text.is_empty()).collect();
    lines.push(match detail.as_slice() {
        [] => format!("pod: {phase}"),
        detail => format!("pod: {phase} ({})", detail.join(": ")),
    });
    Ok(lines.join("\n") + "\n")
}

fn line(status: &Value) -> String {
    let name = status["name"].as_str().unwrap_or("container");
    let state = &status["state"];
    let at = |time: &Value| time.as_str().unwrap_or("an unknown time").to_owned();
    let history = if state["terminated"].is_object() {
        let ended = &state["terminated"];
        let code = ended["exitCode"].as_i64().unwrap_or(0);
        format!("started {}, ended {} with exit code {code}", at(&ended["startedAt"]), at(&ended["finishedAt"]))
    } else if state["running"].is_object() {
        format!("started {}, running", at(&state["running"]["startedAt"]))
    } else {
        let reason = state["waiting"]["reason"].as_str().unwrap_or("not started");
        format!("waiting: {reason}")
    };
    match status["restartCount"].as_i64().unwrap_or(0) {
        0 => format!("{name}: {history}"),
        restarts => format!("{name}: {history}, {restarts} restarts"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_cluster::{CliTestCluster, job, parse_args};
    use serde_json::json;

    #[tokio::test(start_paused = true)]
    async fn container_states_are_shown_for_a_pod_on_a_simulated_node() {
        let cluster = CliTestCluster::start(1).await;
        cluster.apply(&job("a", 1)).await.unwrap();
        cluster.wait_until_ended("a").await;
        let pods =
            api_request::list(&cluster.connection.client, "/api/v1/namespaces/default/pods", &[], api_request::JSON)
                .await
                .unwrap();
        let name = pods["items"][0]["metadata"]["name"].as_str().unwrap();
        let mut out = Vec::new();
        logs(&cluster.connection, &parse_args(name), &mut out).await.unwrap();
        let output = String::from_utf8(out).unwrap();
        assert!(
            output.starts_with("worker: started 2") && output.contains("with exit code 0\npod: Succeeded"),
            "{output}"
        );
        let refused = logs(&cluster.connection, &parse_args("job/a"), &mut Vec::new()).await.unwrap_err();
        assert_eq!(refused.code, cli::EXIT_BAD_INPUT);
        let refused = logs(&cluster.connection, &parse_args("missing"), &mut Vec::new()).await.unwrap_err();
        assert_eq!(refused.code, cli::EXIT_FAILED);
    }

    #[test]
    fn every_container_has_a_line_with_its_state() {
        let pod = json!({"status": {"phase": "Running", "containerStatuses": [
            {"name": "a", "state": {"terminated": {"startedAt": "S", "finishedAt": "F", "exitCode": 3}}},
            {"name": "b", "restartCount": 2, "state": {"running": {"startedAt": "S"}}},
            {"name": "c", "state": {"waiting": {"reason": "PodInitializing"}}},
        ]}});
        let want = "\
a: started S, ended F with exit code 3
b: started S, running, 2 restarts
c: waiting: PodInitializing
pod: Running
";
        assert_eq!(container_states(&pod, None).unwrap(), want);
        assert_eq!(container_states(&pod, Some("b")).unwrap(), "b: started S, running, 2 restarts\npod: Running\n");
        assert!(container_states(&pod, Some("d")).is_err());
    }
}
