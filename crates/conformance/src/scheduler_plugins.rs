//! Compares our filters and scores with those of kube-scheduler: `cargo xtask conformance scheduler`.
//!
//! A small Go program (tests/kube/scheduler) links the plugins of kube-scheduler. Both sides get the same
//! configuration, nodes, running pods and pending pod. They must have the same filters and weights, every filter must
//! return the same verdict and reasons for every node, and every score must give the same points. Queries that once
//! gave different responses are recorded in tests/kube/scheduler/kept.jsonl with the response of kube-scheduler, and a
//! test repeats them.

mod generated_clusters; // the clusters
mod end_to_end; // the same with kube-scheduler on the real control plane

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use anyhow::{Context, ensure};
use api::field::Path;
use api::views::{NodeView, PodView, View};
use scheduler::KubeSchedulerConfiguration;
use scheduler_core::profile::Profile;
use scheduler_core::{BUILT_IN_FILTERS, BUILT_IN_SCORES, Survey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use supervisor::kubernetes;

use crate::builder::CaseGenerator;
use crate::go_program::GoProgram;

/// Options of `cargo xtask conformance scheduler`.
#[derive(clap::Args)]
pub struct Args {
    /// The seed of the clusters
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many clusters are compared
    #[arg(long, default_value_t = 2000)]
    pub cases: usize,
    /// How many clusters also run on the real control plane, to compare where kube-scheduler binds the pod
    #[arg(long, default_value_t = 0)]
    pub end_to_end: usize,
    /// Add differing cases to the recorded ones
    #[arg(long)]
    pub keep: bool,
}

/// The maximum number of reported differences.
const MAX_REPORTED: usize = 5;
const REGRESSIONS_FILE: &str = "tests/kube/scheduler/kept.jsonl";

/// The query.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PluginQuery {
    /// The plugins that are compared.
    plugins: Vec<String>,
    configuration: Value,
    nodes: Vec<Value>,
    pods: Vec<Value>,
    pod: Value,
}

/// All built-in filters and scores, and the other plugins that a profile of kube-scheduler needs.
fn all_plugins() -> Vec<String> {
    let others = ["SchedulingGates", "PrioritySort", "DefaultBinder"];
    let filters = BUILT_IN_FILTERS.iter().map(|filter| filter.id.name());
    let scores = BUILT_IN_SCORES.iter().map(|score| score.id.name());
    let names: BTreeSet<_> = others.into_iter().chain(filters).chain(scores).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// The response of one side, by node and plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PluginResponse {
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    gate: String,
    filters: BTreeSet<String>,
    weights: BTreeMap<String, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<PluginVerdict>,
    verdicts: BTreeMap<String, BTreeMap<String, PluginVerdict>>,
    scores: BTreeMap<String, BTreeMap<String, i64>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginVerdict {
    code: String,
    reasons: BTreeSet<String>,
}

/// A query with the response of kube-scheduler.
#[derive(Serialize, Deserialize)]
struct RegressionCase {
    question: PluginQuery,
    theirs: PluginResponse,
}

/// Compares, prints a report, and fails on any difference.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !kubernetes::has_go()? {
        return Ok(());
    }
    let generator = CaseGenerator::seeded(args.seed);
    let mut queries: Vec<PluginQuery> = read_regressions()?.into_iter().map(|cases| cases.question).collect();
    queries.extend((0..args.cases).map(|_| generated_clusters::random_query(&generator)));
    let responses = query_plugins(&queries)?;
    let (mut counts, mut differing, mut reported) = (ComparisonCounts::default(), Vec::new(), Vec::new());
    for (query, theirs) in queries.iter().zip(responses) {
        counts.add(&theirs, query.nodes.len());
        let differences = differences(&our_response(query)?, &theirs);
        if !differences.is_empty() {
            if reported.len() < MAX_REPORTED {
                reported.push(format!("{}\n  {}", serde_json::to_string(query)?, differences.join("\n  ")));
            }
            differing.push(RegressionCase { question: query.clone(), theirs });
        }
    }
    println!("{} clusters: {}, {} differ", queries.len(), counts.summary(), differing.len());
    if args.keep {
        append_regressions(&differing)?;
    }
    ensure!(differing.is_empty(), "the plugins of kube-scheduler differ:\n{}", reported.join("\n"));
    counts.ensure_coverage(queries.len())?;
    end_to_end::run(args.seed, args.end_to_end)
}

/// How much was compared.
#[derive(Default)]
struct ComparisonCounts {
    pairs: usize,
    refused: BTreeMap<String, usize>,
    scored: BTreeMap<String, usize>,
}

impl ComparisonCounts {
    fn add(&mut self, theirs: &PluginResponse, nodes: usize) {
        self.pairs += nodes;
        for filter in theirs.verdicts.values().flat_map(BTreeMap::keys) {
            *self.refused.entry(filter.clone()).or_default() += 1;
        }
        for (score, _) in theirs.scores.values().flatten().filter(|(_, points)| **points != 0) {
            *self.scored.entry(score.clone()).or_default() += 1;
        }
    }

    fn summary(&self) -> String {
        let list = |counts: &BTreeMap<String, usize>| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        format!("{} nodes; refused by {}; points from {}", self.pairs, list(&self.refused), list(&self.scored))
    }

    /// An error if the generated clusters hardly use a plugin: its comparison would prove nothing.
    fn ensure_coverage(&self, queries: usize) -> anyhow::Result<()> {
        let enough = |counts: &BTreeMap<String, usize>, name: &str| counts.get(name).is_some_and(|n| n * 20 >= queries);
        let (filters, weights) = names(&Profile::default());
        for filter in &filters {
            ensure!(enough(&self.refused, filter), "{filter} hardly refused anything: the generator is useless");
        }
        for score in weights.keys() {
            ensure!(enough(&self.scored, score), "{score} hardly gave points: the generator is useless");
        }
        Ok(())
    }
}

/// Our response.
fn our_response(query: &PluginQuery) -> anyhow::Result<PluginResponse> {
    let configuration = match KubeSchedulerConfiguration::read(&query.configuration, &Path::default()) {
        Ok(configuration) => configuration,
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Ok(PluginResponse { error: errors.join("; "), ..PluginResponse::default() });
        }
    };
    let pod = PodView::decode(&serde_json::to_vec(&query.pod)?)?;
    let nodes = query.nodes.iter().map(|node| Ok(NodeView::decode(&serde_json::to_vec(node)?)?));
    let nodes: Vec<NodeView> = nodes.collect::<anyhow::Result<_>>()?;
    let pods = query.pods.iter().map(|pod| Ok(PodView::decode(&serde_json::to_vec(pod)?)?));
    let pods: Vec<PodView> = pods.collect::<anyhow::Result<_>>()?;
    let mut profiles = configuration.profiles.iter();
    let profile = profiles.find(|profile| pod.spec.scheduler_name == profile.scheduler_name);
    let mut profile = profile.context("the configuration has the pod's profile")?.clone();
    let is_compared = |name: &str| query.plugins.iter().any(|plugin| plugin == name);
    profile.filters.retain(|filter| is_compared(filter.name()));
    profile.scores.retain(|(score, _)| is_compared(score.name()));
    let survey = Survey::of(&profile, &nodes, &pods, &pod);
    let feasible = survey.nodes.iter().filter(|node| node.slots > 0);
    let highest = feasible.map(|node| node.total).max();
    let chosen = survey.nodes.iter().find(|node| Some(&node.node) == survey.best.as_ref()).map(|node| node.total);
    ensure!(chosen == highest, "{:?} is chosen, and the best have {highest:?}", survey.best);
    Ok(response_from_survey(&profile, &survey))
}

fn response_from_survey(profile: &Profile, survey: &Survey) -> PluginResponse {
    let (filters, weights) = names(profile);
    let mut response = PluginResponse { filters, weights, ..PluginResponse::default() };
    if !survey.admitted {
        "gated".clone_into(&mut response.gate);
    }
    for node in &survey.nodes {
        for objection in &node.objections {
            let code = if objection.even_when_empty { "UnschedulableAndUnresolvable" } else { "Unschedulable" };
            let verdict = PluginVerdict { code: code.to_owned(), reasons: objection.reasons.iter().cloned().collect() };
            response.verdicts.entry(node.node.clone()).or_default().insert(objection.filter.clone(), verdict);
        }
        if node.slots > 0 {
            let mut scores: BTreeMap<_, _> = node.scores.iter().cloned().collect();
            scores.insert("total".to_owned(), node.total);
            response.scores.insert(node.node.clone(), scores);
        }
    }
    response
}

/// The filters of a profile, and its scores with their weights.
fn names(profile: &Profile) -> (BTreeSet<String>, BTreeMap<String, i64>) {
    let filters = profile.filters.iter().map(|filter| filter.name().to_owned()).collect();
    let scores = profile.scores.iter().map(|(score, weight)| (score.name().to_owned(), *weight)).collect();
    (filters, scores)
}

/// Where the two differ, as text.
fn differences(ours: &PluginResponse, theirs: &PluginResponse) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: String, ours: String, theirs: String| {
        if ours != theirs {
            found.push(format!("{what}: ours {ours}, theirs {theirs}"));
        }
    };
    compare("error".to_owned(), ours.error.clone(), theirs.error.clone());
    compare("filters".to_owned(), format!("{:?}", ours.filters), format!("{:?}", theirs.filters));
    compare("weights".to_owned(), format!("{:?}", ours.weights), format!("{:?}", theirs.weights));
    compare("gated".to_owned(), (!ours.gate.is_empty()).to_string(), (!theirs.gate.is_empty()).to_string());
    if theirs.rejected.is_some() {
        // Upstream: terms that exclude each other are refused once for all nodes. Here each node is refused
        // individually.
        compare("feasible".to_owned(), format!("{:?}", ours.scores.keys()), "[]".to_owned());
        return found;
    }
    let nodes: BTreeSet<_> = ours.verdicts.keys().chain(theirs.verdicts.keys()).collect();
    for node in nodes {
        let verdicts =
            |response: &PluginResponse| format!("{:?}", response.verdicts.get(node).cloned().unwrap_or_default());
        compare(format!("verdicts on {node}"), verdicts(ours), verdicts(theirs));
    }
    compare("feasible".to_owned(), format!("{:?}", ours.scores.keys()), format!("{:?}", theirs.scores.keys()));
    for (node, theirs) in &theirs.scores {
        let Some(ours) = ours.scores.get(node) else { continue };
        // A plugin without a score gives 0.
        let names: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            let points = |scores: &BTreeMap<String, i64>| scores.get(name).copied().unwrap_or(0).to_string();
            compare(format!("{name} on {node}"), points(ours), points(theirs));
        }
    }
    found
}

fn read_regressions() -> anyhow::Result<Vec<RegressionCase>> {
    let file = supervisor::repository_root()?.join(REGRESSIONS_FILE);
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    text.lines().map(|line| serde_json::from_str(line).with_context(|| file.display().to_string())).collect()
}

fn append_regressions(differing: &[RegressionCase]) -> anyhow::Result<()> {
    let file = supervisor::repository_root()?.join(REGRESSIONS_FILE);
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file)?;
    differing.iter().try_for_each(|cases| Ok(writeln!(file, "{}", serde_json::to_string(cases)?)?))
}

/// All responses of the real plugins, in order.
fn query_plugins(queries: &[PluginQuery]) -> anyhow::Result<Vec<PluginResponse>> {
    eprintln!("building the real plugins, which takes some minutes the first time");
    let responses: Vec<PluginResponse> = GoProgram::build("./scheduler", "scheduler-plugins")?.query(queries)?;
    ensure!(responses.len() == queries.len(), "{} responses to {} queries", responses.len(), queries.len());
    Ok(responses)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{differences, our_response, read_regressions};

    #[test]
    fn recorded_queries_have_the_same_response() {
        let cases = read_regressions().unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let found = differences(&our_response(&case.question).unwrap(), &case.theirs);
            assert_eq!(found, Vec::<String>::new(), "{}", serde_json::to_string(&case.question).unwrap());
        }
    }
}
