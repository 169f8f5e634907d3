//! `phalanx wait`: waits until a condition holds, a field has a value, or an object is gone.

use std::fmt;
use std::io::Write;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::client::api_request;
use crate::client::kinds::{ServedKind, ServedKinds};
use crate::client::list_watch::{CollectionEvent, ListWatch};
use crate::client::{ConnectArgs, Connection};
use crate::command_error::CommandError;
use crate::output::json_path::{JsonPath, value_text};
use crate::{cli, client};

/// Shown below the options of `phalanx wait`.
pub const HELP: &str = "\
When the timeout expires, the command prints the current state and exits with 1.

Examples:
  phalanx wait job/trainer --for condition=Complete --timeout 10m
  phalanx wait podgroup --all --for condition=PodGroupInitiallyScheduled
  phalanx wait pod -l job-name=trainer --for jsonpath='{.status.phase}'=Running
  phalanx wait job/trainer --for condition=Suspended=False
  phalanx wait pod/web --for delete";

/// Time for the first read of an object, also after the deadline.
const FIRST_GET_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of `phalanx wait`.
#[derive(Args, Debug)]
pub struct WaitArgs {
    /// KIND/NAME…, KIND NAME…, or KIND with -l or --all
    #[arg(required = true, value_name = "KIND/NAME")]
    pub words: Vec<String>,
    /// condition=TYPE[=STATUS], jsonpath='{.path}'[=VALUE], create or delete
    #[arg(long = "for", value_name = "GOAL", required = true)]
    pub goal: Goal,
    /// Time limit, such as 30s or 10m
    #[arg(long, default_value = "30s", value_parser = cli::parse_duration)]
    pub timeout: Duration,
    /// Label selector, such as a=b,c
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "all")]
    pub selector: Option<String>,
    /// All objects of the kind in the namespace
    #[arg(long)]
    pub all: bool,
    /// The cluster.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// What to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A condition has this status.
    Condition { kind: String, status: String },
    /// A field has this value; `None`: any value.
    Field { path: JsonPath, wanted: Option<String>, text: String },
    /// The object exists.
    Create,
    /// The object does not exist.
    Delete,
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Goal, String> {
        match text.split_once('=') {
            None if text.eq_ignore_ascii_case("delete") => Ok(Goal::Delete),
            None if text.eq_ignore_ascii_case("create") => Ok(Goal::Create),
            Some(("condition", rest)) => {
                let (kind, status) = rest.split_once('=').unwrap_or((rest, "True"));
                if kind.is_empty() || status.is_empty() {
                    return Err("must be like condition=Complete or condition=Suspended=False".to_owned());
                }
                Ok(Goal::Condition { kind: kind.to_owned(), status: status.to_owned() })
            }
            Some(("jsonpath", rest)) => {
                // The path may contain `==`; its closing brace is its end.
                let end = rest.rfind('}').map_or_else(|| rest.find('=').unwrap_or(rest.len()), |brace| brace + 1);
                let path = JsonPath::parse(&rest[..end])?;
                let wanted = match &rest[end..] {
                    "" => None,
                    value => Some(value.strip_prefix('=').ok_or("the path must be followed by =VALUE")?.to_owned()),
                };
                Ok(Goal::Field { path, wanted, text: rest[..end].to_owned() })
            }
            _ => Err("must be condition=TYPE[=STATUS], jsonpath='{.path}'[=VALUE], create or delete".to_owned()),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::Condition { kind, status } => write!(f, "condition {kind}={status}"),
            Goal::Field { text, wanted: Some(value), .. } => write!(f, "{text} = {value}"),
            Goal::Field { text, wanted: None, .. } => write!(f, "a value at {text}"),
            Goal::Create => f.write_str("its creation"),
            Goal::Delete => f.write_str("its deletion"),
        }
    }
}

impl Goal {
    /// Whether it is reached; `None` is an object that does not exist.
    fn is_met(&self, object: Option<&Value>) -> bool {
        match (self, object) {
            (Goal::Delete, object) => object.is_none(),
            (_, None) => false,
            (Goal::Create, Some(_)) => true,
            (Goal::Condition { kind, status }, Some(object)) => {
                let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
                conditions(object).any(|condition| {
                    // A condition with an `observedGeneration` is not valid for a later generation.
                    let observed = condition["observedGeneration"].as_i64().unwrap_or(generation);
                    let is = |field: &str, text: &str| {
                        condition[field].as_str().is_some_and(|found| found.eq_ignore_ascii_case(text))
                    };
                    is("type", kind) && is("status", status) && observed >= generation
                })
            }
            (Goal::Field { path, wanted, .. }, Some(object)) => {
                let found = path.find(object);
                match wanted {
                    Some(wanted) => !found.is_empty() && found.into_iter().all(|value| value_text(value) == *wanted),
                    None => !found.is_empty(),
                }
            }
        }
    }

    /// How far `object` is from it, for people.
    fn state(&self, object: Option<&Value>) -> String {
        let Some(object) = object else { return "it does not exist".to_owned() };
        match self {
            Goal::Condition { .. } => {
                let texts: Vec<String> = conditions(object).map(condition_text).collect();
                let phase = object["status"]["phase"].as_str().map(|phase| format!("phase {phase}"));
                let all: Vec<String> = phase.into_iter().chain(texts).collect();
                if all.is_empty() { "it has no conditions yet".to_owned() } else { format!("now {}", all.join(", ")) }
            }
            Goal::Field { path, .. } => {
                let found: Vec<String> = path.find(object).into_iter().map(value_text).collect();
                if found.is_empty() { "no value yet".to_owned() } else { format!("now {}", found.join(" ")) }
            }
            Goal::Create | Goal::Delete => match object["metadata"]["deletionTimestamp"].as_str() {
                Some(since) => format!("being deleted since {since}"),
                None => "it exists and is not being deleted".to_owned(),
            },
        }
    }
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object["status"]["conditions"].as_array().into_iter().flatten()
}

fn condition_text(condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let state = format!("{}={}", text("type"), text("status"));
    match (text("reason"), text("message")) {
        ("", "") => state,
        (reason, "") => format!("{state} ({reason})"),
        ("", message) => format!("{state} ({message})"),
        (reason, message) => format!("{state} ({reason}: {message})"),
    }
}

/// `phalanx wait`: returns the exit code.
pub fn command(args: &WaitArgs) -> u8 {
    client::run(&args.connect, async |connection| wait(&connection, args, &mut std::io::stdout().lock()).await)
}

/// Waits for all selected objects, with one deadline.
pub async fn wait(connection: &Connection, args: &WaitArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let deadline = Instant::now() + args.timeout;
    let kinds = ServedKinds::discover(&connection.client).await?;
    let mut failure = CommandError { code: cli::EXIT_FAILED, lines: Vec::new() };
    for selection in kinds.selections(&args.words)? {
        let by_label = args.selector.is_some() || args.all;
        if by_label != selection.names.is_empty() {
            return Err(CommandError::usage("give either NAME, a label selector with -l, or --all"));
        }
        let names = if by_label { list_names(connection, selection.kind, args).await? } else { selection.names };
        for name in names {
            match wait_for_object(connection, selection.kind, &name, args, deadline).await {
                Ok(()) => {
                    writeln!(out, "{} {}", selection.kind.object_display_name(&name), met(&args.goal))?;
                    out.flush()?;
                }
                Err(one) if one.code == cli::EXIT_FAILED => failure.lines.extend(one.lines),
                Err(other) => return Err(other),
            }
        }
    }
    if failure.lines.is_empty() { Ok(cli::EXIT_DONE) } else { Err(failure) }
}

fn met(goal: &Goal) -> &'static str {
    match goal {
        Goal::Delete => "deleted",
        Goal::Create => "created",
        _ => "condition met",
    }
}

async fn list_names(connection: &Connection, kind: &ServedKind, args: &WaitArgs) -> Result<Vec<String>, CommandError> {
    let labels = args.selector.as_deref().map(|labels| ("labelSelector", labels));
    let options: Vec<(&str, &str)> = labels.into_iter().collect();
    let path = kind.collection_path(Some(&connection.namespace));
    let list = api_request::list(&connection.client, &path, &options, api_request::JSON).await?;
    let items = list["items"].as_array().into_iter().flatten();
    let names: Vec<String> = items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect();
    if names.is_empty() && args.goal != Goal::Delete {
        let namespace = &connection.namespace;
        return Err(CommandError::failed(format!("no matching {} in namespace {namespace}", kind.plural)));
    }
    Ok(names)
}

/// Waits for one object.
async fn wait_for_object(
    connection: &Connection,
    kind: &ServedKind,
    name: &str,
    args: &WaitArgs,
    deadline: Instant,
) -> Result<(), CommandError> {
    let by_name = format!("metadata.name={name}");
    let options = vec![("fieldSelector", by_name.as_str())];
    let path = kind.collection_path(Some(&connection.namespace));
    let mut list_watch = ListWatch::new(&connection.client, path, options, api_request::JSON);
    let mut object: Option<Value> = None;
    let may_be_absent = matches!(args.goal, Goal::Create | Goal::Delete);
    // Every object is read once, even if an earlier one used up the time.
    let mut next_deadline = deadline.max(Instant::now() + FIRST_GET_TIMEOUT);
    loop {
        let Ok(event) = timeout_at(next_deadline, list_watch.next()).await else {
            return Err(CommandError::failed(format!(
                "{}: time ran out after {} s waiting for {}: {}",
                kind.object_display_name(name),
                args.timeout.as_secs(),
                args.goal,
                args.goal.state(object.as_ref())
            )));
        };
        next_deadline = deadline;
        let existed = object.is_some();
        object = match event? {
            CollectionEvent::Listed(mut list) => list["items"].as_array_mut().and_then(Vec::pop),
            CollectionEvent::Changed(object) => Some(object),
            CollectionEvent::Deleted(_) => None,
        };
        if args.goal.is_met(object.as_ref()) {
            return Ok(());
        }
        if object.is_none() && !may_be_absent {
            let title = kind.object_display_name(name);
            return Err(CommandError::failed(match existed {
                true => format!("{title} was deleted while waiting for {}", args.goal),
                false => format!("{title} not found in namespace {}", connection.namespace),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_cluster::{CliTestCluster, job, parse_args};
    use serde_json::json;

    async fn run(cluster: &CliTestCluster, line: &str) -> Result<String, CommandError> {
        let mut out = Vec::new();
        wait(&cluster.connection, &parse_args(line), &mut out).await?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn goals_are_parsed_and_checked() {
        let object = json!({
            "metadata": {"generation": 2},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Old", "status": "True", "observedGeneration": 1},
                {"type": "Suspended", "status": "False"},
            ]},
        });
        for (goal, want) in [
            ("condition=Ready", true),
            ("condition=ready=true", true),
            ("condition=Old", false),
            ("condition=Suspended", false),
            ("condition=Suspended=False", true),
            ("condition=Other", false),
            ("jsonpath={.status.phase}=Running", true),
            ("jsonpath={.status.phase}=Failed", false),
            ("jsonpath={.status.phase}", true),
            ("jsonpath={.status.other}", false),
            ("jsonpath=.status.phase=Running", true),
            ("jsonpath={.status.conditions[?(@.type==\"Ready\")].status}=True", true),
            ("create", true),
            ("delete", false),
        ] {
            assert_eq!(goal.parse::<Goal>().unwrap().is_met(Some(&object)), want, "{goal}");
        }
        assert!("delete".parse::<Goal>().unwrap().is_met(None));
        for text in
            ["", "condition", "condition=", "condition=A=", "jsonpath=", "jsonpath={.a", "ready", "jsonpath={.a}x"]
        {
            assert!(text.parse::<Goal>().is_err(), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_the_condition_holds() {
        let cluster = CliTestCluster::start(1).await;
        cluster.apply(&format!("{}---\n{}", job("a", 2), job("b", 2))).await.unwrap();
        let output = run(&cluster, "job a b --for condition=Complete --timeout 60s").await.unwrap();
        assert_eq!(output, "job.batch/a condition met\njob.batch/b condition met\n");
        let output = run(&cluster, "pods --all --for jsonpath={.status.phase}=Succeeded").await.unwrap();
        assert_eq!(output.lines().count(), 4, "{output}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_state_is_reported_when_the_timeout_expires() {
        let cluster = CliTestCluster::start(1).await;
        cluster.apply(&job("a", 9)).await.unwrap();
        let failure = run(&cluster, "podgroups --all --for condition=PodGroupInitiallyScheduled --timeout 5s").await;
        // The group may not exist yet.
        assert_eq!(failure.unwrap_err().code, cli::EXIT_FAILED);
        let failure = run(&cluster, "job/a --for jsonpath={.status.active}=0 --timeout 5s").await.unwrap_err();
        assert_eq!(failure.lines, ["job.batch/a: time ran out after 5 s waiting for {.status.active} = 0: now 9"]);
        let failure =
            run(&cluster, "podgroups --all --for condition=PodGroupInitiallyScheduled --timeout 5s").await.unwrap_err();
        assert!(failure.lines[0].contains("PodGroupInitiallyScheduled=False (Unschedulable: "), "{failure:?}");
        let output =
            run(&cluster, "job/a node/node-0 --for jsonpath={.metadata.name}=node-0 --timeout 1s").await.unwrap_err();
        assert_eq!(output.lines.len(), 1, "the node is read although the time is over: {output:?}");
        assert_eq!(run(&cluster, "job/missing --for condition=Complete").await.unwrap_err().code, cli::EXIT_FAILED);
        assert_eq!(run(&cluster, "job/missing --for delete").await.unwrap(), "job.batch/missing deleted\n");
    }
}
