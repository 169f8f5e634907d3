//! `phalanx explain`: why a group or a pod waits, or why it was placed where it is.

mod explanation; // the explanation from the collected objects, as text and JSON
mod scheduler_query; // queries a scheduler about it
mod local_core; // computes the same without a scheduler

use std::io::Write;

use api::Timestamp;
use api::kinds::{self as registry, ApiResource};
use api::views::{NodeView, PodGroupView, PodView, View};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::client::api_request;
use crate::client::kinds::{ObjectSelection, ServedKind, ServedKinds};
use crate::client::{ConnectArgs, Connection};
use crate::command_error::CommandError;
use crate::explain::explanation::{Evidence, Explanation, ObservedEvent, Subject};
use crate::{cli, client};

/// The long help of `phalanx explain`.
pub const HELP: &str = "\
Follows Job → PodGroup → pods and prints policy, counts, conditions, placements by domain, and the \
last events. Then it shows why the pods wait, with remedies, or why they were placed where they are. This part comes \
from the scheduler of the server, or from that of --scheduler. If none responds, the command lists all nodes and pods \
and computes it itself. The output names the source.

Examples:
  phalanx explain job/trainer
  phalanx explain podgroup trainer-4f8k2
  phalanx explain pod/trainer-0-x7k2p -n research
  phalanx explain job/trainer -o json
  phalanx explain job/trainer --scheduler http://127.0.0.1:10259";

/// Options of `phalanx explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// A job, workload, podgroup or pod: KIND/NAME or KIND NAME
    #[arg(required = true, value_name = "KIND/NAME")]
    pub words: Vec<String>,
    /// Prints one JSON document instead of text
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<ExplainOutputFormat>,
    /// URL of a scheduler, as printed by `phalanx scheduler --metrics-listen` [default: the server's scheduler]
    #[arg(long, value_name = "URL")]
    pub scheduler: Option<String>,
    /// Which cluster.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// How an explanation is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExplainOutputFormat {
    /// One JSON document
    Json,
}

/// `phalanx explain`: returns the exit code.
pub fn command(args: &ExplainArgs) -> u8 {
    client::run(&args.connect, async |connection| explain(&connection, args, &mut std::io::stdout().lock()).await)
}

/// Collects the objects, queries the scheduler, prints the explanation.
pub async fn explain(connection: &Connection, args: &ExplainArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let kinds = ServedKinds::discover(&connection.client).await?;
    let selections = kinds.selections(&args.words)?;
    let (kind, name) = match selections.as_slice() {
        [ObjectSelection { kind, names }] if names.len() == 1 => (*kind, names[0].as_str()),
        _ => return Err(CommandError::usage("explain one object: KIND/NAME, such as job/trainer")),
    };
    let collector = EvidenceCollector { connection, kinds: &kinds };
    let evidence = collector.evidence(collector.subject(kind, name).await?).await?;
    let response =
        scheduler_query::query_scheduler(&evidence.units(), connection, &kinds, args.scheduler.as_deref()).await?;
    let explanation = Explanation::from_evidence(&evidence, response);
    match args.output {
        Some(ExplainOutputFormat::Json) => writeln!(out, "{:#}", explanation.json())?,
        None => write!(out, "{}", explanation.text(Timestamp::now()))?,
    }
    Ok(cli::EXIT_DONE)
}

struct EvidenceCollector<'a> {
    connection: &'a Connection,
    kinds: &'a ServedKinds,
}

impl EvidenceCollector<'_> {
    async fn subject(&self, kind: &ServedKind, name: &str) -> Result<Subject, CommandError> {
        let path = kind.object_path(&self.connection.namespace, name);
        let object = api_request::get(&self.connection.client, &path, api_request::JSON).await?;
        match kind.kind.as_str() {
            "Job" => Ok(Subject::Job(Box::new(decode(&object)?))),
            "Workload" => Ok(Subject::Workload(decode(&object)?)),
            "PodGroup" => Ok(Subject::Group(decode(&object)?)),
            "Pod" => Ok(Subject::Pod(Box::new(decode(&object)?))),
            _ => Err(CommandError::usage(format!(
                "{}: only jobs, workloads, podgroups and pods can be explained; `phalanx get {} {name} -o yaml` prints the object",
                kind.object_display_name(name),
                kind.plural
            ))),
        }
    }

    /// All objects of the namespace that may concern the subject, without those that the user may not list or the server
    /// does not serve.
    async fn evidence(&self, subject: Subject) -> Result<Evidence, CommandError> {
        let events = self.items(registry::EVENT, api_request::JSON).await?;
        Ok(Evidence {
            subject,
            groups: self.views::<PodGroupView>(api_request::JSON).await?,
            pods: self.views::<PodView>(api_request::JSON).await?,
            nodes: self.views::<NodeView>(api_request::METADATA).await?,
            events: events.iter().map(ObservedEvent::from_object).collect(),
        })
    }

    async fn views<V: View>(&self, accept: &str) -> Result<Vec<V>, CommandError> {
        self.items(V::RESOURCE, accept).await?.iter().map(decode).collect()
    }

    async fn items(&self, resource: &ApiResource, accept: &str) -> Result<Vec<Value>, CommandError> {
        let Ok(kind) = self.kinds.find_by_name(&resource.qualified_plural()) else { return Ok(Vec::new()) };
        let path = kind.collection_path(Some(&self.connection.namespace));
        match api_request::list(&self.connection.client, &path, &[], accept).await {
            Ok(mut list) => Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default()),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                eprintln!("note: {} are omitted: {}", kind.plural, status.message);
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Decodes an object of the server as a view.
pub fn decode<V: View>(object: &Value) -> Result<V, CommandError> {
    let unreadable = |error| CommandError::failed(format!("the server's {} cannot be read: {error}", V::RESOURCE.kind));
    V::decode(object.to_string().as_bytes()).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_cluster::{CliTestCluster, job, parse_args};
    use std::time::Duration;

    async fn run(cluster: &CliTestCluster, line: &str) -> Result<String, CommandError> {
        let mut out = Vec::new();
        explain(&cluster.connection, &parse_args(line), &mut out).await?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn in_one_rack(job: String) -> String {
        let topology = "schedulingConstraints: {topology: [{key: topology.kubernetes.io/rack}]}";
        job.replace("{gang: {}}", &format!("{{gang: {{}}}}, {topology}"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_pending_job_is_printed_with_group_counts_and_reason() {
        let cluster = CliTestCluster::start(16).await;
        cluster.apply(&in_one_rack(job("a", 72))).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let output = run(&cluster, "job/a").await.unwrap();
        for part in [
            "job.batch/a in namespace default\nwaits: ",
            "gang of 72, all in one topology.kubernetes.io/rack",
            "72 pods: 0 placed",
            "PodGroupInitiallyScheduled=False for ",
            "8 more needed",
            "72 pods, such as a-",
            ": Unschedulable: waiting for PodGroup default/",
            "FailedScheduling",
        ] {
            assert!(output.contains(part), "no {part:?} in:\n{output}");
        }
    }

    const REMEDIES: [&str; 3] = [
        "lower minCount to 64",
        "recreate job default/a with the topology key topology.kubernetes.io/zone instead of topology.kubernetes.io/rack",
        "add 1 node like node-0 to topology.kubernetes.io/rack=rack-0",
    ];

    #[tokio::test(start_paused = true)]
    async fn remedies_are_in_the_condition_in_the_output_and_in_the_query_api() {
        let cluster = CliTestCluster::start(16).await;
        cluster.apply(&in_one_rack(job("a", 72))).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let client = &cluster.connection.client;
        let groups = api_request::list(client, "/apis/scheduling.k8s.io/v1beta1/podgroups", &[], api_request::JSON)
            .await
            .unwrap();
        let condition = &groups["items"][0]["status"]["conditions"][0];
        let wanted = format!("8 of 8 nodes); remedies: {}, or {}", REMEDIES[0], REMEDIES[1]);
        assert!(condition["message"].as_str().unwrap().ends_with(&wanted), "{condition:#}");
        let output = run(&cluster, "job/a").await.unwrap();
        let lines =
            ["scheduling, as the server's scheduler sees it", "rack=rack-1: 64 pods fit", "remedies, each tried"];
        for part in lines.iter().chain(&REMEDIES) {
            assert!(output.contains(part), "no {part:?} in:\n{output}");
        }
        let output: Value = serde_json::from_str(&run(&cluster, "job a -o json").await.unwrap()).unwrap();
        let refusal = &output["scheduler"]["units"][0]["refusal"];
        assert_eq!((&refusal["proven"], &refusal["nearest"]["missing"]), (&true.into(), &8.into()), "{output:#}");
        let remedies = refusal["remedies"].as_array().unwrap();
        assert_eq!(remedies.iter().map(|remedy| remedy["text"].as_str().unwrap()).collect::<Vec<_>>(), REMEDIES);
        assert_eq!((&remedies[0]["type"], &remedies[0]["minCount"]), (&"LowerMinCount".into(), &64.into()));

        let root = "/apis/phalanx.dev/v1alpha1";
        let queue = api_request::get(client, &format!("{root}/queue"), api_request::JSON).await.unwrap();
        let unit = &queue["units"][0];
        assert_eq!((&unit["state"], &unit["position"], &unit["pods"]), (&"Waiting".into(), &1.into(), &72.into()));
        assert!(unit["message"].as_str().unwrap().starts_with("gang of 72 does not fit"), "{queue:#}");
        let of_job =
            api_request::get(client, &format!("{root}/explain?kind=job&name=a"), api_request::JSON).await.unwrap();
        assert_eq!(
            (&of_job["kind"], &of_job["units"][0]["state"]),
            (&"SchedulerExplanation".into(), &"Waiting".into())
        );
        for (path, code) in
            [("/explain?kind=pod&name=unknown", 404), ("/explain?kind=node&name=a", 400), ("/other", 404)]
        {
            let refused = api_request::get(client, &format!("{root}{path}"), api_request::JSON).await.unwrap_err();
            assert!(matches!(&refused, kube::Error::Api(status) if status.code == code), "{path}: {refused}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_scheduler_the_command_computes_the_explanation() {
        let mut config = controlplane::Config::for_cluster(nodes::cluster::Cluster::default_of(16));
        config.components.remove(&controlplane::Component::Scheduler);
        let cluster = CliTestCluster::with(config).await;
        cluster.apply(&in_one_rack(job("a", 72))).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let output = run(&cluster, "job/a").await.unwrap();
        for part in ["scheduling, computed by this command from all nodes and pods"].iter().chain(&REMEDIES) {
            assert!(output.contains(part), "no {part:?} in:\n{output}");
        }
        for address in ["10.0.0.1:80", "https://127.0.0.1:80"] {
            let refused = run(&cluster, &format!("job/a --scheduler {address}")).await.unwrap_err();
            assert_eq!(refused.code, cli::EXIT_BAD_INPUT, "{address}: {refused:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_placed_job_is_printed_with_its_domain() {
        let cluster = CliTestCluster::start(16).await;
        let long = in_one_rack(job("a", 64))
            .replace("template:", "template:\n    metadata: {annotations: {phalanx.dev/run-seconds: '600'}}");
        cluster.apply(&long).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let output: Value = serde_json::from_str(&run(&cluster, "job a -o json").await.unwrap()).unwrap();
        let group = &output["groups"][0];
        assert_eq!(output["kind"], "Explanation");
        assert_eq!((&group["minCount"], &group["pods"]["running"]), (&64.into(), &64.into()), "{output:#}");
        let domain = &group["domains"][0];
        assert_eq!((&domain["nodes"], &domain["pods"]), (&8.into(), &64.into()), "{output:#}");
        assert!(output["summary"].as_str().unwrap().starts_with("placed on 8 nodes in topology.kubernetes.io/rack="));
        let placement = &output["scheduler"]["units"][0]["placement"];
        assert_eq!(
            (&placement["domain"]["feasible"], &placement["domain"]["domains"]),
            (&2.into(), &2.into()),
            "{output:#}"
        );
        assert!(placement["recordedAt"].is_string(), "the report was stored after the decision: {output:#}");
        let pods =
            api_request::list(&cluster.connection.client, "/api/v1/namespaces/default/pods", &[], api_request::JSON)
                .await
                .unwrap();
        let pod =
            run(&cluster, &format!("pod/{}", pods["items"][0]["metadata"]["name"].as_str().unwrap())).await.unwrap();
        assert!(pod.contains("Running on node node-") && pod.contains("gang of 64"), "{pod}");
        let groups = api_request::list(
            &cluster.connection.client,
            "/apis/scheduling.k8s.io/v1beta1/podgroups",
            &[],
            api_request::JSON,
        );
        let group = groups.await.unwrap()["items"][0].clone();
        let name = group["metadata"]["name"].as_str().unwrap();
        assert!(run(&cluster, &format!("podgroup {name}")).await.unwrap().contains("\nplaced on 8 nodes"));
        let workload = group["spec"]["workloadRef"]["workloadName"].as_str().unwrap();
        assert!(
            run(&cluster, &format!("workload/{workload}")).await.unwrap().contains("64 pods: 64 placed, 64 running")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn other_kinds_and_unknown_objects_are_errors() {
        let cluster = CliTestCluster::start(1).await;
        for (line, code) in [
            ("node/node-0", cli::EXIT_BAD_INPUT),
            ("jobs", cli::EXIT_BAD_INPUT),
            ("job/a job/b", cli::EXIT_BAD_INPUT),
            ("job/unknown", cli::EXIT_FAILED),
        ] {
            assert_eq!(run(&cluster, line).await.unwrap_err().code, code, "{line}");
        }
    }
}
