//! Sends manifests to a server: `run` creates their objects, `apply` creates or updates them. All problems are reported
//! with their lines.

mod three_way_merge; // the patch, from last applied, live and new object
mod dropped; // fields of a manifest that the server dropped

use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use api::conversion::{current_api_version, normalize_drafts};
use api::gates::Gates;
use clap::{Args, ValueEnum};
use http::Method;
use kube::core::Status;
use kube::{Client, Error};
use runtime::{is_already_exists, is_conflict, is_not_found};
use serde_json::Value;

use crate::client::api_request;
use crate::client::kinds::{ServedKind, ServedKinds};
use crate::client::{ConnectArgs, Connection};
use crate::command_error::CommandError;
use crate::manifest::{self, Manifest, Problem};
use crate::{cli, client};

/// Shown below the options of `phalanx apply`.
pub const HELP: &str = "\
Missing objects are created, existing ones are updated to match the files. Fields that a file no longer has are \
removed, fields of other clients stay. The last applied form is in the same annotation that kubectl uses, so \
both commands can be used on the same objects.

All files are checked before the first write. Problems are listed with file, line and field.

Examples:
  phalanx apply -f examples/training.yaml
  phalanx apply -f queue.yaml -f jobs/ns.yaml -n research
  generate-jobs | phalanx apply -f -";

/// Attempts for an object that other clients write at the same time.
const MAX_ATTEMPTS: usize = 5;

/// Options of `phalanx apply`.
#[derive(Args, Debug)]
pub struct ApplyArgs {
    /// Manifests (YAML or JSON); - is standard input
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// How unknown fields are treated
    #[arg(long, value_name = "HOW", default_value = "strict")]
    pub validate: FieldValidation,
    /// The cluster.
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// How unknown fields are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FieldValidation {
    /// The manifest is refused
    Strict,
    /// The server drops them with a warning
    Warn,
    /// The server drops them
    Ignore,
}

impl FieldValidation {
    fn as_query_value(self) -> &'static str {
        match self {
            FieldValidation::Strict => "Strict",
            FieldValidation::Warn => "Warn",
            FieldValidation::Ignore => "Ignore",
        }
    }
}

/// `phalanx apply`: returns the exit code.
pub fn command(args: &ApplyArgs) -> u8 {
    let manifests = match manifest::read_all(&args.files) {
        Ok(manifests) => manifests,
        Err(problems) => return cli::report_problems(&problems),
    };
    client::run(&args.connect, async |connection| {
        apply(&connection, &manifests, args.validate, &mut std::io::stdout().lock()).await
    })
}

/// Creates or updates the objects of `manifests`, and prints the outcome for each.
pub async fn apply(
    connection: &Connection,
    manifests: &[Manifest],
    validate: FieldValidation,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let kinds = ServedKinds::discover(&connection.client).await?;
    let intents = intents(connection, &kinds, manifests, validate)?;
    let (mut problems, mut code) = (Vec::new(), cli::EXIT_DONE);
    for intent in &intents {
        let mut warnings = Vec::new();
        let result = intent.execute(&connection.client, validate, &mut warnings).await;
        for problem in locate_warnings(intent.manifest, &warnings) {
            eprintln!("warning: {problem}");
        }
        match result {
            Ok(ApplyResult { outcome, object: response }) => {
                let dropped = response.iter().flat_map(|response| dropped_fields(intent.manifest, response, &warnings));
                dropped.for_each(|problem| eprintln!("warning: {problem}"));
                match writeln!(out, "{} {outcome}", intent.kind.object_display_name(&intent.name)) {
                    // The remaining objects are applied even if the reader of the output is gone.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                    written => written?,
                }
            }
            Err(Error::Api(status)) => {
                code = code.max(if matches!(status.code, 400 | 422) { cli::EXIT_BAD_INPUT } else { cli::EXIT_FAILED });
                problems.extend(problems_of(intent.manifest, &status));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if problems.is_empty() { Ok(code) } else { Err(CommandError { code, ..CommandError::from(problems) }) }
}

/// One object to be applied.
struct ApplyIntent<'a> {
    manifest: &'a Manifest,
    kind: &'a ServedKind,
    namespace: String,
    name: String,
}

/// The objects to apply, or every problem that can be found without the server.
fn intents<'a>(
    connection: &Connection,
    kinds: &'a ServedKinds,
    manifests: &'a [Manifest],
    validate: FieldValidation,
) -> Result<Vec<ApplyIntent<'a>>, Vec<Problem>> {
    let (mut intents, mut problems) = (Vec::new(), Vec::new());
    for manifest in manifests {
        if validate == FieldValidation::Strict {
            problems.extend(schema_problems(manifest));
        }
        match intent(connection, kinds, manifest) {
            Ok(intent) => intents.push(intent),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(intents) } else { Err(problems) }
}

fn intent<'a>(
    connection: &Connection,
    kinds: &'a ServedKinds,
    manifest: &'a Manifest,
) -> Result<ApplyIntent<'a>, Problem> {
    let kind = kind_of(kinds, manifest)?;
    let metadata = &manifest.document["metadata"];
    let Some(name) = metadata["name"].as_str().filter(|name| !name.is_empty()) else {
        let message =
            "metadata.name: Required value: an object is applied by its name (`phalanx run` accepts generateName)";
        return Err(manifest.problem("metadata", message));
    };
    let own = metadata["namespace"].as_str().filter(|namespace| !namespace.is_empty());
    if kind.namespaced && connection.is_namespace_explicit && own.is_some_and(|own| own != connection.namespace) {
        let message = format!("metadata.namespace: differs from {}, which was given with -n", connection.namespace);
        return Err(manifest.problem("metadata.namespace", &message));
    }
    Ok(ApplyIntent {
        manifest,
        kind,
        namespace: own.unwrap_or(&connection.namespace).to_owned(),
        name: name.to_owned(),
    })
}

impl ApplyIntent<'_> {
    /// Creates or updates the object. `warnings` gets those of the last write.
    async fn execute(
        &self,
        client: &Client,
        validate: FieldValidation,
        warnings: &mut Vec<String>,
    ) -> Result<ApplyResult, Error> {
        let options =
            api_request::query(&[("fieldValidation", validate.as_query_value()), ("fieldManager", "phalanx")]);
        let collection = format!("{}{options}", self.kind.collection_path(Some(&self.namespace)));
        let object = self.kind.object_path(&self.namespace, &self.name);
        let wanted = three_way_merge::with_last_applied(
            &self.manifest.document,
            self.kind.namespaced.then_some(&*self.namespace),
        );
        let merging = api::schema::patch_schema(&self.kind.group, &self.kind.version, &self.kind.kind);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let is_last = attempts == MAX_ATTEMPTS;
            let current = match api_request::get(client, &object, api_request::JSON).await {
                Ok(current) => current,
                Err(error) if is_not_found(&error) => {
                    let create =
                        api_request::write_with_warnings(client, Method::POST, &collection, api_request::JSON, &wanted);
                    let (response, found) = create.await;
                    *warnings = found;
                    match response {
                        // Another client created it in the meantime; it is updated instead.
                        Err(error) if is_already_exists(&error) && !is_last => continue,
                        response => return response.map(|response| ApplyResult::of("created", response)),
                    }
                }
                Err(error) => return Err(error),
            };
            let original = three_way_merge::last_applied(&current);
            let Some(mut patch) = three_way_merge::patch(original.as_ref(), &wanted, &current, merging) else {
                return Ok(ApplyResult { outcome: "unchanged", object: None });
            };
            // The lists in the patch are computed from this version and are wrong for any other.
            patch["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
            let path = format!("{object}{options}");
            let (response, found) =
                api_request::write_with_warnings(client, Method::PATCH, &path, api_request::MERGE_PATCH, &patch).await;
            *warnings = found;
            match response {
                Err(error) if is_conflict(&error) && !is_last => {}
                response => {
                    let response = response?;
                    let is_same = without_server_fields(response.clone()) == without_server_fields(current);
                    return Ok(ApplyResult::of(if is_same { "unchanged" } else { "configured" }, response));
                }
            }
        }
    }
}

/// The result of an [`ApplyIntent`].
struct ApplyResult {
    /// `created`, `configured` or `unchanged`.
    outcome: &'static str,
    /// The object in the response, if there was a write.
    object: Option<Value>,
}

impl ApplyResult {
    fn of(outcome: &'static str, response: Value) -> ApplyResult {
        ApplyResult { outcome, object: Some(response) }
    }
}

/// Warnings of the server, at the line of the field that they start with, else of the object.
fn locate_warnings(manifest: &Manifest, warnings: &[String]) -> Vec<Problem> {
    let field = |warning: &str| {
        let (field, _) = warning.split_once(": ")?;
        field.starts_with(|first: char| first.is_ascii_lowercase()).then(|| field.to_owned())
    };
    let problem = |warning: &String| manifest.problem(&field(warning).unwrap_or_default(), warning);
    warnings.iter().map(problem).collect()
}

/// `object` without the fields that the server writes, to compare two versions. The patch alone does not show whether
/// something changes: the server stores `1000m` as `1`.
fn without_server_fields(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    object
}

/// Creates the objects of all manifests; returns them as stored, or all problems. `warn` gets the server's warnings and
/// the fields that it dropped.
pub async fn create_all(
    client: &Client,
    manifests: &[Manifest],
    mut warn: impl FnMut(Problem),
) -> Result<Vec<Value>, Vec<Problem>> {
    let kinds = ServedKinds::built_in();
    let (mut created, mut problems) = (Vec::new(), Vec::new());
    for manifest in manifests {
        let mut warnings = Vec::new();
        let response = create(client, &kinds, manifest, &mut warnings).await;
        locate_warnings(manifest, &warnings).into_iter().for_each(&mut warn);
        match response {
            Ok(object) => {
                dropped_fields(manifest, &object, &warnings).into_iter().for_each(&mut warn);
                created.push(object);
            }
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(created) } else { Err(problems) }
}

async fn create(
    client: &Client,
    kinds: &ServedKinds,
    manifest: &Manifest,
    warnings: &mut Vec<String>,
) -> Result<Value, Vec<Problem>> {
    let kind = kind_of(kinds, manifest).map_err(|problem| vec![problem])?;
    let problems = schema_problems(manifest);
    if !problems.is_empty() {
        return Err(problems);
    }
    let namespace = manifest.document["metadata"]["namespace"].as_str().unwrap_or("default");
    let path = format!("{}?fieldValidation=Strict", kind.collection_path(Some(namespace)));
    let (response, found) =
        api_request::write_with_warnings(client, Method::POST, &path, api_request::JSON, &manifest.document).await;
    *warnings = found;
    response.map_err(|error| match error {
        Error::Api(status) => problems_of(manifest, &status),
        other => vec![manifest.problem("", &other.to_string())],
    })
}

/// The kind of a manifest, as the server serves it.
pub fn kind_of<'a>(kinds: &'a ServedKinds, manifest: &Manifest) -> Result<&'a ServedKind, Problem> {
    let (api_version, kind) = manifest.api_version_and_kind()?;
    if kind == "Cluster" && api_version.starts_with("phalanx.dev/") {
        return Err(manifest.problem("kind", "kind Cluster describes nodes: pass the file with --cluster"));
    }
    kinds.find_by_kind(api_version, kind).map_err(|(field, message)| manifest.problem(field, &message))
}

/// Unknown fields and wrong types, each at its line. A server reports them too, but all in one message. Spellings of
/// drafts are left to the server.
fn schema_problems(manifest: &Manifest) -> Vec<Problem> {
    let Ok((api_version, kind)) = manifest.api_version_and_kind() else { return Vec::new() };
    let present = current_api_version(api_version);
    let api_version = present.as_deref().unwrap_or(api_version);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let Some(mut document) = normalized_document(manifest) else { return Vec::new() };
    let findings = api::schema::check(group, version, kind, &mut document);
    let unknown = findings.unknown.iter().map(|path| manifest.problem(path, &format!("{path}: unknown field")));
    let types = findings.type_errors.iter().map(|error| manifest.problem(&error.path, &error.to_string()));
    unknown.chain(types).collect()
}

/// The document in current spellings; `None` if a draft's spelling cannot be converted.
fn normalized_document(manifest: &Manifest) -> Option<Value> {
    let (api_version, kind) = manifest.api_version_and_kind().ok()?;
    let present = current_api_version(api_version);
    let group = present.as_deref().unwrap_or(api_version).split_once('/').map_or("", |(group, _)| group);
    let mut document = manifest.document.clone();
    normalize_drafts(group, kind, &mut document, &Gates::default()).ok()?;
    Some(document)
}

/// The fields of the manifest that are not in `response`, the stored object, and that have no warning.
fn dropped_fields(manifest: &Manifest, response: &Value, warnings: &[String]) -> Vec<Problem> {
    normalized_document(manifest).map_or(Vec::new(), |wanted| dropped::fields(manifest, &wanted, response, warnings))
}

/// One problem for each cause in the status; the message if there are none.
fn problems_of(manifest: &Manifest, status: &Status) -> Vec<Problem> {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let with_field: Vec<Problem> = causes
        .iter()
        .filter(|cause| !cause.field.is_empty())
        .map(|cause| manifest.problem(&cause.field, &format!("{}: {}", cause.field, cause.message)))
        .collect();
    if !with_field.is_empty() {
        return with_field;
    }
    // A write of an object that does not exist can only lack its namespace.
    let kind = status.details.as_ref().map(|details| details.kind.as_str());
    if status.code == 404 && kind == Some("namespaces") {
        let message = format!(
            "metadata.namespace: {}; create it first, or add it to the manifests before this object",
            status.message
        );
        return vec![manifest.problem("metadata.namespace", &message)];
    }
    vec![manifest.problem("", &status.message)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use crate::client::api_request;
    use crate::commands::apply::create_all;
    use crate::commands::apply::three_way_merge::LAST_APPLIED;
    use crate::test_cluster::{CliTestCluster, job};
    use crate::{cli, manifest};
    use serde_json::Value;

    async fn read(cluster: &CliTestCluster, name: &str) -> Value {
        let path = format!("/apis/batch/v1/namespaces/default/jobs/{name}");
        api_request::get(&cluster.connection.client, &path, api_request::JSON).await.unwrap()
    }

    // Shows: S001-07
    // Shows: S004-11
    #[tokio::test(start_paused = true)]
    async fn the_manifests_of_the_proposals_can_be_applied_again_and_again() {
        let cluster = CliTestCluster::start(1).await;
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo-workload}\n";
        cluster.apply(namespace).await.unwrap();
        for (text, name) in [
            (include_str!("../../../../examples/seeds/001-workload.yaml"), "workload.scheduling.k8s.io/w-job-2"),
            (include_str!("../../../../examples/seeds/001-job-2.yaml"), "job.batch/job-2"),
            (
                include_str!("../../../../examples/seeds/002-podgroup-topology.yaml"),
                "podgroup.scheduling.k8s.io/example-podgroup",
            ),
            (include_str!("../../../../examples/seeds/004-job-gang.yaml"), "job.batch/train"),
        ] {
            assert_eq!(cluster.apply(text).await.unwrap(), format!("{name} created\n"));
            assert_eq!(cluster.apply(text).await.unwrap(), format!("{name} unchanged\n"));
        }
        let train = read(&cluster, "train").await;
        assert_eq!(train["spec"]["scheduling"]["schedulingPolicy"], serde_json::json!({"gang": {}}));
    }

    #[tokio::test(start_paused = true)]
    async fn an_apply_creates_and_the_same_apply_changes_nothing() {
        let cluster = CliTestCluster::start(1).await;
        assert_eq!(cluster.apply(&job("a", 2)).await.unwrap(), "job.batch/a created\n");
        cluster.wait_until_ended("a").await;
        let before = read(&cluster, "a").await["metadata"]["resourceVersion"].clone();
        assert_eq!(cluster.apply(&job("a", 2)).await.unwrap(), "job.batch/a unchanged\n");
        assert_eq!(read(&cluster, "a").await["metadata"]["resourceVersion"], before);
    }

    #[tokio::test(start_paused = true)]
    async fn fields_of_the_file_are_added_and_removed_and_others_stay() {
        let cluster = CliTestCluster::start(1).await;
        let labelled = |labels: &str| {
            let from = "metadata: {name: a}";
            job("a", 1).replace(from, &format!("metadata: {{name: a, labels: {{{labels}}}}}"))
        };
        cluster.apply(&labelled("x: one, y: two")).await.unwrap();
        let theirs = serde_json::json!({"metadata": {"labels": {"theirs": "stays"}}});
        let path = "/apis/batch/v1/namespaces/default/jobs/a";
        api_request::write(&cluster.connection.client, http::Method::PATCH, path, api_request::MERGE_PATCH, &theirs)
            .await
            .unwrap();
        assert_eq!(cluster.apply(&labelled("x: three")).await.unwrap(), "job.batch/a configured\n");
        let object = read(&cluster, "a").await;
        assert_eq!(object["metadata"]["labels"].to_string(), r#"{"theirs":"stays","x":"three"}"#);
        let copy = object["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
        assert!(copy.contains(r#""labels":{"x":"three"}"#) && copy.ends_with("}\n"), "{copy}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_bad_manifest_prevents_all_writes() {
        let cluster = CliTestCluster::start(1).await;
        let bad = job("b", 1).replace("completions", "completion") + "---\napiVersion: v1\nkind: Pod\nmetadata: {}\n";
        let failure = cluster.apply(&format!("{}---\n{bad}", job("a", 1))).await.unwrap_err();
        assert_eq!(failure.code, cli::EXIT_BAD_INPUT);
        let errors = failure.lines.join("\n");
        for part in ["-:21: job/b: spec.completion: unknown field", "pod/(no name): metadata.name: Required value"] {
            assert!(errors.contains(part), "no {part:?} in:\n{errors}");
        }
        let jobs =
            api_request::list(&cluster.connection.client, "/apis/batch/v1/jobs", &[], api_request::JSON).await.unwrap();
        assert_eq!(jobs["items"].as_array().map(Vec::len), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_namespace_is_reported_with_what_to_do() {
        let cluster = CliTestCluster::start(1).await;
        let elsewhere = job("a", 1).replace("metadata: {name: a}", "metadata:\n  name: a\n  namespace: team");
        let failure = cluster.apply(&elsewhere).await.unwrap_err();
        let want = "-:6: job/a: metadata.namespace: namespaces \"team\" not found; create it first, or add it to the manifests before this object";
        assert_eq!(failure.lines, [want]);
    }

    /// The warnings of a refused manifest were printed without its file.
    #[tokio::test(start_paused = true)]
    async fn warnings_of_a_refused_manifest_have_its_file_and_line() {
        let cluster = CliTestCluster::start(1).await;
        let text = "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: a, namespace: team}\n\
                    spec: {schedulingPolicy: {basic: {}}}\n";
        let manifests = manifest::parse(Path::new("group.yaml"), text).unwrap();
        let mut warnings = Vec::new();
        let result =
            create_all(&cluster.connection.client, &manifests, |warning| warnings.push(warning.to_string())).await;
        assert!(result.is_err());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("group.yaml:1: podgroup/a: scheduling.k8s.io/v1alpha2"), "{warnings:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn errors_of_the_server_have_their_line() {
        let cluster = CliTestCluster::start(1).await;
        let failure = cluster.apply(&job("a", 2).replace("gang: {}", "gang: {minCount: 4}")).await.unwrap_err();
        assert_eq!(failure.code, cli::EXIT_BAD_INPUT);
        assert!(failure.lines[0].starts_with("-:8: job/a: spec.scheduling"), "{failure:?}");
    }
}
