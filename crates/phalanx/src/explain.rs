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
use crate::{ask, cli, client, inquire};

/// What `phalanx explain --help` teaches.
pub const HELP: &str = "\
Follows Job → PodGroup → pods and puts together what the scheduler and the controllers have said: policy,
counts, conditions, the places by domain, and the last events. Then it asks the scheduler why the pods wait,
with ways out, or why they are where they are: the server's own, or that of --scheduler. Where none answers,
it lists all nodes and pods and works that out by itself; the answer says which it was.

Examples:
  phalanx explain job/trainer
  phalanx explain podgroup trainer-4f8k2
  phalanx explain pod/trainer-0-x7k2p -n research
  phalanx explain job/trainer -o json
  phalanx explain job/trainer --scheduler http://127.0.0.1:10259    its --metrics-listen";

/// Options of `phalanx explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// A job, workload, podgroup or pod: KIND/NAME or KIND NAME
    #[arg(required = true, value_name = "KIND/NAME")]
    pub words: Vec<String>,
    /// Prints one JSON document instead of text
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// Where a scheduler answers: what `phalanx scheduler --metrics-listen` printed [default: the server's own]
    #[arg(long, value_name = "URL")]
    pub scheduler: Option<String>,
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
    let told = inquire::about(&evidence.units(), connection, &kinds, args.scheduler.as_deref()).await?;
    let explanation = Explanation::of(&evidence, told);
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
                eprintln!("note: {} are left out: {}", kind.plural, status.message);
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// An object of the server's as a view.
pub fn decode<V: View>(object: &Value) -> Result<V, Failure> {
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
            "say: Unschedulable: waiting for PodGroup default/",
            "FailedScheduling",
        ] {
            assert!(told.contains(part), "no {part:?} in:\n{told}");
        }
    }

    const WAYS_OUT: [&str; 3] = [
        "lower minCount to 64",
        "recreate job default/a with the topology key topology.kubernetes.io/zone instead of topology.kubernetes.io/rack",
        "add 1 node like node-0 to topology.kubernetes.io/rack=rack-0",
    ];

    #[tokio::test(start_paused = true)]
    async fn a_gang_that_is_too_large_finds_ways_out_in_its_condition_here_and_at_the_endpoints() {
        let home = Home::start(16).await;
        home.apply(&in_one_rack(job("a", 72))).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let client = &home.connection.client;
        let groups = ask::list(client, "/apis/scheduling.k8s.io/v1beta1/podgroups", &[], ask::JSON).await.unwrap();
        let condition = &groups["items"][0]["status"]["conditions"][0];
        let wanted = format!("8 of 8 nodes); ways out: {}, or {}", WAYS_OUT[0], WAYS_OUT[1]);
        assert!(condition["message"].as_str().unwrap().ends_with(&wanted), "{condition:#}");
        let told = run(&home, "job/a").await.unwrap();
        let lines = [
            "scheduling, as the server's scheduler sees it",
            "rack=rack-1: room for 64 pods",
            "ways out, each checked",
        ];
        for part in lines.iter().chain(&WAYS_OUT) {
            assert!(told.contains(part), "no {part:?} in:\n{told}");
        }
        let told: Value = serde_json::from_str(&run(&home, "job a -o json").await.unwrap()).unwrap();
        let refusal = &told["scheduler"]["units"][0]["refusal"];
        assert_eq!((&refusal["proven"], &refusal["nearest"]["missing"]), (&true.into(), &8.into()), "{told:#}");
        let ways = refusal["waysOut"].as_array().unwrap();
        assert_eq!(ways.iter().map(|way| way["text"].as_str().unwrap()).collect::<Vec<_>>(), WAYS_OUT);
        assert_eq!((&ways[0]["type"], &ways[0]["minCount"]), (&"LowerMinCount".into(), &64.into()));

        let root = "/apis/phalanx.dev/v1alpha1";
        let queue = ask::get(client, &format!("{root}/queue"), ask::JSON).await.unwrap();
        let unit = &queue["units"][0];
        assert_eq!((&unit["state"], &unit["position"], &unit["pods"]), (&"Waiting".into(), &1.into(), &72.into()));
        assert!(unit["reason"].as_str().unwrap().starts_with("gang of 72 does not fit"), "{queue:#}");
        let of_job = ask::get(client, &format!("{root}/explain?kind=job&name=a"), ask::JSON).await.unwrap();
        assert_eq!((&of_job["kind"], &of_job["units"][0]["state"]), (&"SchedulerExplanation".into(), &"Waits".into()));
        for (path, code) in
            [("/explain?kind=pod&name=nobody", 404), ("/explain?kind=node&name=a", 400), ("/other", 404)]
        {
            let refused = ask::get(client, &format!("{root}{path}"), ask::JSON).await.unwrap_err();
            assert!(matches!(&refused, kube::Error::Api(status) if status.code == code), "{path}: {refused}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_scheduler_the_same_is_worked_out_here() {
        let mut config = controlplane::Config::on(nodes::cluster::Cluster::default_of(16));
        config.parts.remove(&controlplane::Part::Scheduler);
        let home = Home::with(config).await;
        home.apply(&in_one_rack(job("a", 72))).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let told = run(&home, "job/a").await.unwrap();
        for part in ["scheduling, worked out here from all nodes and pods"].iter().chain(&WAYS_OUT) {
            assert!(told.contains(part), "no {part:?} in:\n{told}");
        }
        for address in ["10.0.0.1:80", "https://127.0.0.1:80"] {
            let refused = run(&home, &format!("job/a --scheduler {address}")).await.unwrap_err();
            assert_eq!(refused.code, cli::BAD_INPUT, "{address}: {refused:?}");
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
        let why = &told["scheduler"]["units"][0]["placed"];
        assert_eq!((&why["domain"]["feasible"], &why["domain"]["domains"]), (&2.into(), &2.into()), "{told:#}");
        assert!(why["keptSince"].is_string(), "it was worked out when it was decided: {told:#}");
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
