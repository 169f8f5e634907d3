//! `phalanx get`: shows objects as a table, documents or names; once, or as a watch.

use std::collections::BTreeMap;
use std::io::Write;

use api::Timestamp;
use clap::{Args, ValueEnum};
use kube::Client;
use serde_json::{Value, json};

use crate::client::api_request;
use crate::client::kinds::{ObjectSelection, ServedKind, ServedKinds};
use crate::client::list_watch::{CollectionEvent, ListWatch};
use crate::client::{ConnectArgs, Connection};
use crate::command_error::CommandError;
use crate::output::table::{ObjectTable, TablePrinter, TableRow};
use crate::{cli, client};

/// Shown below the options of `phalanx get`.
pub const HELP: &str = "\
KIND is a plural, singular or short name (pods, pod, po), if necessary with the group (jobs.batch).

Examples:
  phalanx get pods                              all pods of the namespace
  phalanx get pods -A -o wide                   all namespaces, all columns
  phalanx get job trainer -o yaml               one Job as the server stores it
  phalanx get podgroups -w                      all, then every change
  phalanx get pods -l job-name=trainer -o name  names, for scripts
  phalanx get pods --field-selector spec.nodeName=node-3";

/// Options of `phalanx get`.
#[derive(Args, Debug)]
pub struct GetArgs {
    /// KIND, KIND NAME…, KIND,KIND or KIND/NAME…
    #[arg(required = true, value_name = "KIND")]
    pub words: Vec<String>,
    /// Watches: prints every change until Ctrl-C
    #[arg(short, long)]
    pub watch: bool,
    /// Output format [default: a table]
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<GetOutputFormat>,
    /// Label selector: a=b, a!=b, 'a in (b,c)', a, '!a', separated by commas
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Field selector, such as status.phase=Running,spec.nodeName!=node-1
    #[arg(long, value_name = "FIELDS")]
    pub field_selector: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// The cluster.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GetOutputFormat {
    /// A table with all columns
    Wide,
    /// YAML documents
    Yaml,
    /// One JSON document
    Json,
    /// kind/name, one per line
    Name,
}

/// `phalanx get`: returns the exit code.
pub fn command(args: &GetArgs) -> u8 {
    client::run(&args.connect, async |connection| print(&connection, args, &mut std::io::stdout().lock()).await)
}

/// Prints the selected objects.
pub async fn print(connection: &Connection, args: &GetArgs, out: &mut dyn Write) -> Result<u8, CommandError> {
    let kinds = ServedKinds::discover(&connection.client).await?;
    let selections = kinds.selections(&args.words)?;
    let request = GetRequest { connection, args };
    request.check(&selections)?;
    if args.watch {
        return request.watch(&selections[0], out).await;
    }
    let mut results = Vec::new();
    for selection in &selections {
        results.push(request.fetch(selection).await?);
    }
    match args.output {
        None | Some(GetOutputFormat::Wide) => request.print_tables(&selections, &results, out)?,
        Some(format) => print_objects(format, &selections, &mut results, out)?,
    }
    let missing: Vec<String> = results.into_iter().flat_map(|result| result.missing).collect();
    if missing.is_empty() { Ok(cli::EXIT_DONE) } else { Err(CommandError { code: cli::EXIT_FAILED, lines: missing }) }
}

/// The objects of one selection.
struct FetchResult {
    /// Lists or single objects, in the order of the requests.
    found: Vec<Value>,
    /// Error messages for names that do not exist.
    missing: Vec<String>,
}

struct GetRequest<'a> {
    connection: &'a Connection,
    args: &'a GetArgs,
}

impl GetRequest<'_> {
    fn check(&self, selections: &[ObjectSelection]) -> Result<(), CommandError> {
        let named = selections.iter().any(|selection| !selection.names.is_empty());
        let narrowed = self.args.selector.is_some() || self.args.field_selector.is_some();
        if named && (narrowed || self.args.all_namespaces) {
            return Err(CommandError::usage("names cannot be combined with -l, --field-selector and -A"));
        }
        let is_one = matches!(selections, [one] if one.names.len() <= 1);
        if self.args.watch && !is_one {
            return Err(CommandError::usage("-w watches one kind or one object"));
        }
        Ok(())
    }

    fn accept(&self) -> &'static str {
        match self.args.output {
            None | Some(GetOutputFormat::Wide) => api_request::TABLE,
            Some(_) => api_request::JSON,
        }
    }

    fn collection(&self, kind: &ServedKind) -> String {
        kind.collection_path(Some(self.connection.namespace.as_str()).filter(|_| !self.args.all_namespaces))
    }

    fn options(&self) -> Vec<(&str, &str)> {
        let labels = self.args.selector.as_deref().map(|labels| ("labelSelector", labels));
        let fields = self.args.field_selector.as_deref().map(|fields| ("fieldSelector", fields));
        labels.into_iter().chain(fields).collect()
    }

    async fn fetch(&self, selection: &ObjectSelection<'_>) -> Result<FetchResult, CommandError> {
        let client = &self.connection.client;
        if selection.names.is_empty() {
            let list =
                api_request::list(client, &self.collection(selection.kind), &self.options(), self.accept()).await?;
            return Ok(FetchResult { found: vec![list], missing: Vec::new() });
        }
        let mut result = FetchResult { found: Vec::new(), missing: Vec::new() };
        for name in &selection.names {
            let path = selection.kind.object_path(&self.connection.namespace, name);
            match api_request::get(client, &path, self.accept()).await {
                Ok(object) => result.found.push(object),
                Err(kube::Error::Api(status)) if status.code == 404 => result.missing.push(status.message),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(result)
    }

    fn printer(&self, kind: &ServedKind, several: bool) -> TablePrinter {
        let prefix = if several { kind.object_display_name("") } else { String::new() };
        let namespaces = self.args.all_namespaces && kind.namespaced;
        TablePrinter::new(self.args.output == Some(GetOutputFormat::Wide), namespaces, prefix)
    }

    fn print_tables(
        &self,
        selections: &[ObjectSelection],
        results: &[FetchResult],
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let several = selections.iter().any(|selection| selection.kind != selections[0].kind);
        let mut is_first = true;
        for (selection, result) in selections.iter().zip(results) {
            let tables: Vec<ObjectTable> =
                result.found.iter().map(|found| ObjectTable::read(found, Timestamp::now())).collect();
            let rows: Vec<TableRow> = tables.iter().flat_map(|table| table.rows.clone()).collect();
            let columns = tables.first().map(|table| table.columns.clone()).unwrap_or_default();
            if rows.is_empty() {
                if result.missing.is_empty() {
                    eprintln!("{}", self.no_resources_message(selection.kind));
                }
                continue;
            }
            if !is_first && several {
                writeln!(out)?;
            }
            is_first = false;
            self.printer(selection.kind, several).print(&ObjectTable { columns, rows }, out)?;
        }
        Ok(())
    }

    fn no_resources_message(&self, kind: &ServedKind) -> String {
        let matching = if self.options().is_empty() { "" } else { "matching " };
        if kind.namespaced && !self.args.all_namespaces {
            format!("no {matching}{} in namespace {}", kind.plural, self.connection.namespace)
        } else {
            format!("no {matching}{}", kind.plural)
        }
    }

    /// Prints all objects, then every change, until Ctrl-C.
    async fn watch(&self, selection: &ObjectSelection<'_>, out: &mut dyn Write) -> Result<u8, CommandError> {
        let by_name = selection.names.first().map(|name| format!("metadata.name={name}"));
        let mut options = self.options();
        options.extend(by_name.as_deref().map(|field| ("fieldSelector", field)));
        let (client, kind): (&Client, &ServedKind) = (&self.connection.client, selection.kind);
        let mut follow = ListWatch::new(client, self.collection(kind), options, self.accept());
        let mut screen = WatchPrinter {
            kind,
            format: self.args.output,
            printer: self.printer(kind, false),
            versions: BTreeMap::new(),
            is_first: true,
        };
        loop {
            let seen = follow.next().await?;
            if screen.is_first && matches!(&seen, CollectionEvent::Listed(all) if is_empty(all)) {
                match selection.names.first() {
                    Some(name) => {
                        return Err(CommandError::failed(format!("{} {name:?} not found", kind.display_name())));
                    }
                    None => eprintln!("{}", self.no_resources_message(kind)),
                }
            }
            screen.show(seen, out)?;
            screen.is_first = false;
        }
    }
}

fn is_empty(response: &Value) -> bool {
    let count = |field: &str| response[field].as_array().map_or(0, Vec::len);
    count("items") + count("rows") == 0
}

/// Remembers what a watch has printed, so that a new list does not repeat it.
struct WatchPrinter<'a> {
    kind: &'a ServedKind,
    format: Option<GetOutputFormat>,
    printer: TablePrinter,
    /// The last version printed of each object, by namespace and name.
    versions: BTreeMap<(String, String), String>,
    is_first: bool,
}

impl WatchPrinter<'_> {
    fn show(&mut self, event: CollectionEvent, out: &mut dyn Write) -> Result<(), CommandError> {
        let (response, is_gone) = match event {
            CollectionEvent::Listed(response) | CollectionEvent::Changed(response) => (response, false),
            CollectionEvent::Deleted(response) => (response, true),
        };
        let mut table = ObjectTable::read(&response, Timestamp::now());
        let mut is_new: Vec<bool> = Vec::new();
        for row in &table.rows {
            let key = (row.namespace.clone(), row.name.clone());
            let before = if is_gone {
                self.versions.remove(&key)
            } else {
                self.versions.insert(key, row.resource_version.clone())
            };
            is_new.push(is_gone || row.resource_version.is_empty() || before.as_ref() != Some(&row.resource_version));
        }
        let Some(format) = self.format.filter(|format| *format != GetOutputFormat::Wide) else {
            let mut is_new = is_new.into_iter();
            table.rows.retain(|_| is_new.next().unwrap_or(true));
            if table.rows.is_empty() {
                return Ok(());
            }
            return Ok(self.printer.print(&table, out)?);
        };
        let objects = objects_of(self.kind, vec![response]);
        for (object, _) in objects.into_iter().zip(is_new).filter(|(_, is_new)| *is_new) {
            if format == GetOutputFormat::Yaml && !std::mem::take(&mut self.is_first) {
                writeln!(out, "---")?;
            }
            print_object(format, self.kind, &object, out)?;
        }
        Ok(out.flush()?)
    }
}

fn print_objects(
    format: GetOutputFormat,
    selections: &[ObjectSelection],
    results: &mut [FetchResult],
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let is_single = matches!(selections, [one] if one.names.len() == 1);
    let mut all = Vec::new();
    for (selection, result) in selections.iter().zip(results) {
        let objects = objects_of(selection.kind, std::mem::take(&mut result.found));
        if format == GetOutputFormat::Name || is_single {
            for object in &objects {
                print_object(format, selection.kind, object, out)?;
            }
        } else {
            all.extend(objects);
        }
    }
    if format != GetOutputFormat::Name && !is_single {
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": all});
        print_document(format, &list, out)?;
    }
    Ok(out.flush()?)
}

/// The objects in `responses`, each with kind and apiVersion, without managed fields.
fn objects_of(kind: &ServedKind, responses: Vec<Value>) -> Vec<Value> {
    let mut objects = Vec::new();
    for mut response in responses {
        match response.get_mut("items").and_then(Value::as_array_mut) {
            Some(items) => objects.append(items),
            None => objects.push(response),
        }
    }
    for object in objects.iter_mut().filter_map(Value::as_object_mut) {
        // The items of a list have no kind and apiVersion.
        if !object.contains_key("kind") {
            object.insert("kind".to_owned(), kind.kind.clone().into());
            object.insert("apiVersion".to_owned(), kind.api_version().into());
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    objects
}

fn print_object(
    format: GetOutputFormat,
    kind: &ServedKind,
    object: &Value,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    match format {
        GetOutputFormat::Name => {
            Ok(writeln!(out, "{}", kind.object_display_name(object["metadata"]["name"].as_str().unwrap_or_default()))?)
        }
        _ => print_document(format, object, out),
    }
}

fn print_document(format: GetOutputFormat, document: &Value, out: &mut dyn Write) -> Result<(), CommandError> {
    if format == GetOutputFormat::Json {
        return Ok(writeln!(out, "{document:#}")?);
    }
    let text = serde_saphyr::to_string(document)
        .map_err(|error| CommandError::failed(format!("cannot be printed as YAML: {error}; try -o json")))?;
    Ok(write!(out, "{text}")?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test_cluster::{CliTestCluster, job, parse_args};
    use std::time::Duration;

    async fn get(cluster: &CliTestCluster, line: &str) -> Result<String, CommandError> {
        let mut out = Vec::new();
        print(&cluster.connection, &parse_args(line), &mut out).await?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn objects_are_printed_as_table_documents_and_names() {
        let cluster = CliTestCluster::start(2).await;
        cluster.apply(&job("a", 2)).await.unwrap();
        let table = get(&cluster, "jobs").await.unwrap();
        assert!(table.starts_with("NAME") && table.contains("\na "), "{table}");
        assert_eq!(get(&cluster, "job,ns -o name").await.unwrap().lines().next(), Some("job.batch/a"));
        assert_eq!(get(&cluster, "no/node-0 no/node-1 -o name").await.unwrap(), "node/node-0\nnode/node-1\n");
        let document: Value = serde_json::from_str(&get(&cluster, "job a -o json").await.unwrap()).unwrap();
        assert_eq!((&document["kind"], &document["apiVersion"]), (&json!("Job"), &json!("batch/v1")));
        assert!(!get(&cluster, "job a -o yaml").await.unwrap().contains("items:"), "one object is not a list");
        let list: Value = serde_json::from_str(&get(&cluster, "jobs -A -o json").await.unwrap()).unwrap();
        assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("List"), &json!("Job")));
        let yaml = get(&cluster, "job a -o yaml").await.unwrap();
        let again = crate::manifest::parse("a".as_ref(), &yaml).unwrap();
        assert_eq!(again[0].document["metadata"]["uid"], document["metadata"]["uid"], "{yaml}");
    }

    #[tokio::test(start_paused = true)]
    async fn selectors_filter_and_missing_names_fail() {
        let cluster = CliTestCluster::start(1).await;
        cluster.apply(&format!("{}---\n{}", job("a", 1), job("b", 1))).await.unwrap();
        cluster.wait_until_ended("a").await;
        cluster.wait_until_ended("b").await;
        let pods = get(&cluster, "pods -l job-name=b -o name").await.unwrap();
        assert!(pods.lines().count() == 1 && pods.starts_with("pod/b-"), "{pods}");
        assert_eq!(get(&cluster, "pods --field-selector status.phase=Running -o name").await.unwrap(), "");
        let failure = get(&cluster, "jobs a missing").await.unwrap_err();
        assert_eq!((failure.code, failure.lines.len()), (cli::EXIT_FAILED, 1), "{failure:?}");
        assert!(failure.lines[0].contains("missing"), "{failure:?}");
        for line in ["job a -A", "job a -l x=y", "jobs,pods -w", "cats"] {
            assert_eq!(get(&cluster, line).await.unwrap_err().code, cli::EXIT_BAD_INPUT, "{line}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_prints_all_objects_and_then_every_change() {
        let cluster = CliTestCluster::start(1).await;
        cluster.apply(&job("before", 1)).await.unwrap();
        cluster.wait_until_ended("before").await;
        let (mut out, args) = (Vec::new(), parse_args("jobs -w -o name"));
        let watch = tokio::time::timeout(Duration::from_secs(30), print(&cluster.connection, &args, &mut out));
        let (ended, _) = futures::join!(watch, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cluster.apply(&job("during", 1)).await.unwrap();
        });
        assert!(ended.is_err(), "a watch does not end by itself");
        let text = String::from_utf8(out).unwrap();
        let count = |name: &str| text.lines().filter(|line| *line == name).count();
        assert_eq!(count("job.batch/before"), 1, "{text}");
        assert!(count("job.batch/during") >= 2, "created, then changed: {text}");
    }
}
