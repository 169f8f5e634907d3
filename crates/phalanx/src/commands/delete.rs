//! `phalanx delete`: deletes objects by name, file or label, and waits until they are gone.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use http::Method;
use runtime::is_not_found;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::api_request;
use crate::client::kinds::{ServedKind, ServedKinds};
use crate::client::{ConnectArgs, Connection};
use crate::command_error::CommandError;
use crate::commands::apply::kind_of;
use crate::manifest::{self, Manifest};
use crate::{cli, client};

/// Shown below the options of `phalanx delete`.
pub const HELP: &str = "\
Objects that the object owns (a Job owns its PodGroup and pods) are deleted too, depending on --cascade:
  background   after the object (default)
  foreground   before the object
  orphan       not at all; they stay without an owner

Examples:
  phalanx delete job trainer
  phalanx delete -f examples/training.yaml
  phalanx delete pods -l job-name=trainer --grace-period 0
  phalanx delete job/trainer --cascade foreground --timeout 5m";

/// How often the object is read while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Options of `phalanx delete`.
#[derive(Args, Debug)]
pub struct DeleteArgs {
    /// KIND NAME…, KIND/NAME…, or KIND with -l or --all
    #[arg(value_name = "KIND", required_unless_present = "files", conflicts_with = "files")]
    pub words: Vec<String>,
    /// Manifests whose objects are deleted; - is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Label selector, such as a=b,c
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with_all = ["files", "all"])]
    pub selector: Option<String>,
    /// All objects of the kind in the namespace
    #[arg(long, conflicts_with = "files")]
    pub all: bool,
    /// What happens to objects that it owns
    #[arg(long, value_name = "HOW", default_value = "background")]
    pub cascade: Cascade,
    /// Whether to wait until the objects are gone
    #[arg(
        long, value_name = "BOOL", default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true, action = ArgAction::Set
    )]
    pub wait: bool,
    /// Time limit of the wait, such as 90s or 5m
    #[arg(long, default_value = "2m", value_parser = cli::parse_duration)]
    pub timeout: Duration,
    /// Grace period of pods in seconds; 0 ends them at once [default: that of the pod]
    #[arg(long, value_name = "SECONDS")]
    pub grace_period: Option<u32>,
    /// Does not fail if an object does not exist; always so with -l and --all
    #[arg(long)]
    pub ignore_not_found: bool,
    /// The cluster.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// What happens to objects that the deleted object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cascade {
    /// Deleted after it
    Background,
    /// Deleted before it
    Foreground,
    /// Not deleted
    Orphan,
}

impl Cascade {
    fn as_query_value(self) -> &'static str {
        match self {
            Cascade::Background => "Background",
            Cascade::Foreground => "Foreground",
            Cascade::Orphan => "Orphan",
        }
    }
}

/// `phalanx delete`: returns the exit code.
pub fn command(args: &DeleteArgs) -> u8 {
    let manifests = match args.files.as_slice() {
        [] => Vec::new(),
        files => match manifest::read_all(files) {
            Ok(manifests) => manifests,
            Err(problems) => return cli::report_problems(&problems),
        },
    };
    client::run(&args.connect, async |connection| {
        delete(&connection, args, &manifests, &mut std::io::stdout().lock()).await
    })
}

/// An object to be deleted.
struct DeletionTarget<'a> {
    kind: &'a ServedKind,
    namespace: String,
    name: String,
}

/// Deletes the selected objects, prints them, and waits until they are gone.
pub async fn delete(
    connection: &Connection,
    args: &DeleteArgs,
    manifests: &[Manifest],
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let kinds = ServedKinds::discover(&connection.client).await?;
    let targets = match args.files.as_slice() {
        [] => targets_from_args(connection, &kinds, args).await?,
        _ => targets_from_manifests(connection, &kinds, manifests)?,
    };
    let mut options = json!({"propagationPolicy": args.cascade.as_query_value()});
    if let Some(seconds) = args.grace_period {
        options["gracePeriodSeconds"] = seconds.into();
    }
    // An object that is selected by label may be deleted by another client after the list, such as a pod by its Job.
    let ignore_not_found = args.ignore_not_found || args.selector.is_some() || args.all;
    let mut failure = CommandError { code: cli::EXIT_FAILED, lines: Vec::new() };
    let mut deleted = Vec::new();
    for one in &targets {
        let path = one.kind.object_path(&one.namespace, &one.name);
        match api_request::write(&connection.client, Method::DELETE, &path, api_request::JSON, &options).await {
            Ok(response) => {
                writeln!(out, "{} {:?} deleted", one.kind.display_name(), one.name)?;
                deleted.push((path, one.kind.object_display_name(&one.name), uid(&response)));
            }
            Err(error) if is_not_found(&error) && ignore_not_found => {}
            Err(kube::Error::Api(status)) => failure.lines.push(status.message),
            Err(error) => return Err(error.into()),
        }
    }
    out.flush()?;
    if args.wait {
        failure.lines.extend(wait_until_deleted(connection, &deleted, args.timeout).await?);
    }
    if failure.lines.is_empty() { Ok(cli::EXIT_DONE) } else { Err(failure) }
}

async fn targets_from_args<'a>(
    connection: &Connection,
    kinds: &'a ServedKinds,
    args: &DeleteArgs,
) -> Result<Vec<DeletionTarget<'a>>, CommandError> {
    let mut targets = Vec::new();
    for selection in kinds.selections(&args.words)? {
        let by_label = args.selector.is_some() || args.all;
        if by_label != selection.names.is_empty() {
            return Err(CommandError::usage("give either NAME, a label selector with -l, or --all"));
        }
        let mut names = selection.names;
        if by_label {
            let labels = args.selector.as_deref().map(|labels| ("labelSelector", labels));
            let options: Vec<(&str, &str)> = labels.into_iter().collect();
            let path = selection.kind.collection_path(Some(&connection.namespace));
            let list = api_request::list(&connection.client, &path, &options, api_request::JSON).await?;
            let items = list["items"].as_array().into_iter().flatten();
            names = items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect();
            if names.is_empty() {
                eprintln!("no matching {} in namespace {}", selection.kind.plural, connection.namespace);
            }
        }
        let (kind, namespace) = (selection.kind, &connection.namespace);
        targets.extend(names.into_iter().map(|name| DeletionTarget { kind, namespace: namespace.clone(), name }));
    }
    Ok(targets)
}

fn targets_from_manifests<'a>(
    connection: &Connection,
    kinds: &'a ServedKinds,
    manifests: &[Manifest],
) -> Result<Vec<DeletionTarget<'a>>, CommandError> {
    let (mut targets, mut problems) = (Vec::new(), Vec::new());
    for manifest in manifests {
        let metadata = &manifest.document["metadata"];
        match (kind_of(kinds, manifest), metadata["name"].as_str()) {
            (Ok(kind), Some(name)) => targets.push(DeletionTarget {
                kind,
                namespace: metadata["namespace"].as_str().unwrap_or(&connection.namespace).to_owned(),
                name: name.to_owned(),
            }),
            (Ok(_), None) => problems.push(manifest.problem("metadata", "metadata.name: Required value")),
            (Err(problem), _) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(targets) } else { Err(problems.into()) }
}

/// The uid of the deleted object, from the object or the `Status` in the response; empty if neither has it.
fn uid(response: &Value) -> String {
    let places = [&response["metadata"]["uid"], &response["details"]["uid"]];
    places.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
}

/// Waits until every object is gone or replaced; returns a line for each that still exists at the deadline.
async fn wait_until_deleted(
    connection: &Connection,
    deleted: &[(String, String, String)],
    timeout: Duration,
) -> Result<Vec<String>, CommandError> {
    let deadline = Instant::now() + timeout;
    let mut lines = Vec::new();
    for (path, title, uid) in deleted {
        loop {
            let object = match api_request::get(&connection.client, path, api_request::JSON).await {
                Ok(object) => object,
                Err(error) if is_not_found(&error) => break,
                Err(error) => return Err(error.into()),
            };
            let found = object["metadata"]["uid"].as_str().unwrap_or_default();
            if !uid.is_empty() && found != uid {
                break;
            }
            if Instant::now() >= deadline {
                lines.push(format!("{title} still exists after {} s: {}", timeout.as_secs(), pending_reason(&object)));
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    Ok(lines)
}

fn pending_reason(object: &Value) -> String {
    let finalizers = object["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = finalizers.iter().filter_map(Value::as_str).collect();
    if names.is_empty() {
        "its grace period is not over (use a longer --timeout, or --grace-period 0)".to_owned()
    } else {
        format!("it has finalizers: {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_cluster::{CliTestCluster, job, parse_args};

    async fn run(cluster: &CliTestCluster, line: &str) -> Result<String, CommandError> {
        let mut out = Vec::new();
        delete(&cluster.connection, &parse_args(line), &[], &mut out).await?;
        Ok(String::from_utf8(out).unwrap())
    }

    async fn pods(cluster: &CliTestCluster) -> usize {
        let list = api_request::list(&cluster.connection.client, "/api/v1/pods", &[], api_request::JSON).await.unwrap();
        list["items"].as_array().map_or(0, Vec::len)
    }

    #[tokio::test(start_paused = true)]
    async fn pods_of_a_deleted_job_are_deleted_unless_they_are_orphaned() {
        let cluster = CliTestCluster::start(1).await;
        cluster.apply(&format!("{}---\n{}", job("a", 2), job("b", 3))).await.unwrap();
        cluster.wait_until_ended("a").await;
        cluster.wait_until_ended("b").await;
        assert_eq!(run(&cluster, "job a --cascade foreground").await.unwrap(), "job.batch \"a\" deleted\n");
        assert_eq!(pods(&cluster).await, 3, "only those of b are left");
        assert_eq!(run(&cluster, "job/b --cascade orphan").await.unwrap(), "job.batch \"b\" deleted\n");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(pods(&cluster).await, 3, "orphans stay");
        let output = run(&cluster, "pods -l job-name=b --grace-period 0").await.unwrap();
        assert_eq!((output.lines().count(), pods(&cluster).await), (3, 0), "{output}");
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_still_exist_at_the_deadline_are_listed_with_their_finalizers() {
        let cluster = CliTestCluster::start(1).await;
        let with_finalizer = job("a", 1).replace("{name: a}", "{name: a, finalizers: [example.com/hold]}");
        cluster.apply(&with_finalizer).await.unwrap();
        let failure = run(&cluster, "job a --timeout 5s").await.unwrap_err();
        assert_eq!(failure.code, cli::EXIT_FAILED);
        assert!(
            failure.lines[0].contains("still exists") && failure.lines[0].contains("example.com/hold"),
            "{failure:?}"
        );
        assert!(run(&cluster, "job a --wait=false").await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_delete_needs_a_selection_and_fails_for_objects_that_do_not_exist() {
        let cluster = CliTestCluster::start(1).await;
        for (line, code) in [
            ("jobs", cli::EXIT_BAD_INPUT),
            ("job a --all", cli::EXIT_BAD_INPUT),
            ("job a", cli::EXIT_FAILED),
            ("cats a", cli::EXIT_BAD_INPUT),
        ] {
            assert_eq!(run(&cluster, line).await.unwrap_err().code, code, "{line}");
        }
        assert_eq!(run(&cluster, "job a --ignore-not-found").await.unwrap(), "");
    }
}
