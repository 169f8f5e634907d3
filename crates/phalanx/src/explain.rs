//! `phalanx explain`: why a group or a pod waits, or why it is where it is, from what the cluster says about it.

use std::io::Write;

use api::Timestamp;
use api::views::{NodeView, PodGroupView, PodView, View};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::client::{ConnectArgs, Connection};
use crate::explanation::{Event, Evidence, Explanation, Subject};
use crate::failure::Failure;
use crate::kinds::{Kind, Kinds, Selection};
use crate::{ask, cli, client};

/// What `phalanx explain --help` teaches.
pub const HELP: &str = "\
Follows Job → PodGroup → pods and puts together what the scheduler and the controllers have said: policy,
counts, conditions, the places by domain, and the last events.

Examples:
  phalanx explain job/trainer
  phalanx explain podgroup trainer-4f8k2
  phalanx explain pod/trainer-0-x7k2p -n research
  phalanx explain job/trainer -o json";

/// Options of `phalanx explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// A job, workload, podgroup or pod: KIND/NAME or KIND NAME
    #[arg(required = true, value_name = "KIND/NAME")]
    pub words: Vec<String>,
    /// Prints one JSON document instead of text
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// Which cluster.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// How an explanation is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON document
    Json,
}

/// `phalanx explain`: returns the exit code.
pub fn command(args: &ExplainArgs) -> u8 {
    client::run(&args.connect, async |connection| explain(&connection, args, &mut std::io::stdout().lock()).await)
}

/// Gathers the evidence, weighs it, prints the explanation.
pub async fn explain(connection: &Connection, args: &ExplainArgs, out: &mut dyn Write) -> Result<u8, Failure> {
    let kinds = Kinds::discover(&connection.client).await?;
    let selections = kinds.selections(&args.words)?;
    let (kind, name) = match selections.as_slice() {
        [Selection { kind, names }] if names.len() == 1 => (*kind, names[0].as_str()),
        _ => return Err(Failure::usage("explain one object: KIND/NAME, such as job/trainer")),
    };
    let gather = Gather { connection, kinds: &kinds };
    let evidence = gather.evidence(gather.subject(kind, name).await?).await?;
    let explanation = Explanation::of(&evidence);
    match args.output {
        Some(Format::Json) => writeln!(out, "{:#}", explanation.json())?,
        None => write!(out, "{}", explanation.text(Timestamp::now()))?,
    }
    Ok(cli::DONE)
}

struct Gather<'a> {
    connection: &'a Connection,
    kinds: &'a Kinds,
}

impl Gather<'_> {
    async fn subject(&self, kind: &Kind, name: &str) -> Result<Subject, Failure> {
        let path = kind.object(&self.connection.namespace, name);
        let object = ask::get(&self.connection.client, &path, ask::JSON).await?;
        match kind.kind.as_str() {
            "Job" => Ok(Subject::Job(Box::new(decode(&object)?))),
            "Workload" => Ok(Subject::Workload(decode(&object)?)),
            "PodGroup" => Ok(Subject::Group(decode(&object)?)),
            "Pod" => Ok(Subject::Pod(Box::new(decode(&object)?))),
            _ => Err(Failure::usage(format!(
                "{}: there is an explanation for jobs, workloads, podgroups and pods; `phalanx get {} {name} -o yaml` shows all of it",
                kind.title(name),
                kind.plural
            ))),
        }
    }

    /// All that could bear on the subject. What the user may not see, or the server does not have, is left out.
    async fn evidence(&self, subject: Subject) -> Result<Evidence, Failure> {
        let events = self.items("events", ask::JSON).await?;
        Ok(Evidence {
            subject,
            groups: self.views::<PodGroupView>("podgroups.scheduling.k8s.io", ask::JSON).await?,
            pods: self.views::<PodView>("pods", ask::JSON).await?,
            nodes: self.views::<NodeView>("nodes", ask::METADATA).await?,
            events: events.iter().map(Event::read).collect(),
        })
    }

    async fn views<V: View>(&self, kind: &str, accept: &str) -> Result<Vec<V>, Failure> {
        self.items(kind, accept).await?.iter().map(decode).collect()
    }

    async fn items(&self, kind: &str, accept: &str) -> Result<Vec<Value>, Failure> {
        let Ok(kind) = self.kinds.called(kind) else { return Ok(Vec::new()) };
        let path = kind.collection(Some(&self.connection.namespace));
        match ask::list(&self.connection.client, &path, &[], accept).await {
            Ok(mut list) => Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default()),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                anstream::eprintln!("note: {} are left out: {}", kind.plural, status.message);
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn decode<V: View>(object: &Value) -> Result<V, Failure> {
    let unreadable = |error| Failure::failed(format!("the server's {} cannot be read: {error}", V::RESOURCE.kind));
    V::decode(object.to_string().as_bytes()).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::home::{Home, job, parsed};
    use std::time::Duration;

    async fn run(home: &Home, line: &str) -> Result<String, Failure> {
        let mut out = Vec::new();
        explain(&home.connection, &parsed(line), &mut out).await?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn in_one_rack(job: String) -> String {
        let topology = "schedulingConstraints: {topology: [{key: topology.kubernetes.io/rack}]}";
        job.replace("{gang: {}}", &format!("{{gang: {{}}}}, {topology}"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_waits_shows_its_group_its_counts_and_the_reason() {
        let home = Home::start(16).await;
        home.apply(&in_one_rack(job("a", 72))).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let told = run(&home, "job/a").await.unwrap();
        for part in [
            "job.batch/a in namespace default\nwaits: ",
            "gang of 72, all in one topology.kubernetes.io/rack",
            "72 pods: 0 placed",
            "PodGroupInitiallyScheduled=False for ",
            "8 more needed",
            "72 pods, such as a-",
            "0/16 nodes are available",
            "FailedScheduling",
        ] {
            assert!(told.contains(part), "no {part:?} in:\n{told}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_is_placed_shows_where() {
        let home = Home::start(16).await;
        let long = in_one_rack(job("a", 64))
            .replace("template:", "template:\n    metadata: {annotations: {phalanx.dev/run-seconds: '600'}}");
        home.apply(&long).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let told: Value = serde_json::from_str(&run(&home, "job a -o json").await.unwrap()).unwrap();
        let part = &told["parts"][0];
        assert_eq!(told["kind"], "Explanation");
        assert_eq!((&part["minCount"], &part["pods"]["running"]), (&64.into(), &64.into()), "{told:#}");
        let place = &part["places"][0];
        assert_eq!((&place["nodes"], &place["pods"]), (&8.into(), &64.into()), "{told:#}");
        assert!(told["answer"].as_str().unwrap().starts_with("placed on 8 nodes in topology.kubernetes.io/rack="));
        let pods = ask::list(&home.connection.client, "/api/v1/namespaces/default/pods", &[], ask::JSON).await.unwrap();
        let pod = run(&home, &format!("pod/{}", pods["items"][0]["metadata"]["name"].as_str().unwrap())).await.unwrap();
        assert!(pod.contains("Running on node node-") && pod.contains("gang of 64"), "{pod}");
        let groups = ask::list(&home.connection.client, "/apis/scheduling.k8s.io/v1beta1/podgroups", &[], ask::JSON);
        let group = groups.await.unwrap()["items"][0].clone();
        let name = group["metadata"]["name"].as_str().unwrap();
        assert!(run(&home, &format!("podgroup {name}")).await.unwrap().contains("\nplaced on 8 nodes"));
        let workload = group["spec"]["workloadRef"]["workloadName"].as_str().unwrap();
        assert!(run(&home, &format!("workload/{workload}")).await.unwrap().contains("64 pods: 64 placed, 64 running"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_no_explanation_is_refused_with_advice() {
        let home = Home::start(1).await;
        for (line, code) in [
            ("node/node-0", cli::BAD_INPUT),
            ("jobs", cli::BAD_INPUT),
            ("job/a job/b", cli::BAD_INPUT),
            ("job/nobody", cli::FAILED),
        ] {
            assert_eq!(run(&home, line).await.unwrap_err().code, code, "{line}");
        }
    }
}
