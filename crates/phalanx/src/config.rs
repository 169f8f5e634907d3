//! The configuration file of `phalanx run`, `phalanx up` and its parts: read with the line of every problem, printed with its defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::gates::{AutoGang, Gates};
use controllers::job::{ChildOwners, OnSuspend, PlainJobs};
use nodes::cluster::Cluster;
use scheduler::KubeSchedulerConfiguration;
use scheduler::configuration::KIND as KUBE_SCHEDULER;
use scheduler_core::{PriorityMismatch, UnsupportedTerms};
use serde_json::Value;

use crate::manifest::{self, Manifest, Problem};

/// The configuration with every setting at its default, for people to edit. It is the documentation of the file, and a
/// test holds it against [`Configuration::default`].
pub const DEFAULTS: &str = include_str!("config/defaults.yaml");

/// The least values of durations. Below them a setting is not a short wait but a fault: every request times out, no watch
/// can resume, failing pods are replaced in a busy loop, gangs are released while their pods are being bound.
const SECOND: Duration = Duration::from_secs(1);
const TENTH_OF_A_SECOND: Duration = Duration::from_millis(100);
const MILLISECOND: Duration = Duration::from_millis(1);

const API_VERSION: &str = "phalanx.dev/v1alpha1";
const KIND: &str = "Configuration";

/// What the file says, with defaults for what it does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Where to listen.
    pub listen: String,
    /// Further names and addresses in the server's certificate.
    pub names: Vec<String>,
    /// Gates and their values.
    pub feature_gates: Vec<(String, String)>,
    /// Whether a bind that would over-commit a node is refused.
    pub capacity_check: bool,
    /// Connections at once.
    pub max_connections: u64,
    /// Requests that read, at once.
    pub max_requests_in_flight: u64,
    /// Requests that write, at once.
    pub max_mutating_requests_in_flight: u64,
    /// Watches at once.
    pub max_watches: u64,
    /// How long a request may take until its answer begins.
    pub request_timeout: Duration,
    /// How long requests may take after a stop.
    pub drain_timeout: Duration,
    /// How much history is kept.
    pub max_history_mebibytes: u64,
    /// How long history is kept.
    pub max_history_age: Duration,
    /// How long Events live after their last write.
    pub event_ttl: Duration,
    /// When a Job is a gang without asking.
    pub auto_gang: AutoGang,
    /// What Jobs get that say nothing about scheduling.
    pub plain_jobs: PlainJobs,
    /// What becomes of the scheduling objects of a suspended Job.
    pub on_suspend: OnSuspend,
    /// Kinds whose Jobs are children.
    pub child_owners: Vec<String>,
    /// Whether pods that others put out of the way have failed.
    pub count_disruptions: bool,
    /// Jobs that are worked on side by side.
    pub job_workers: u64,
    /// How long pod events gather before their Job is looked at.
    pub job_sync_batch: Duration,
    /// The first wait before failed pods are replaced.
    pub pod_backoff: Duration,
    /// The longest such wait.
    pub max_pod_backoff: Duration,
    /// Pods that one step of a Job creates, deletes or releases.
    pub max_pods_per_sync: u64,
    /// Pods whose end a Job has recorded and not yet counted.
    pub max_uncounted_pods: u64,
    /// Ended pods that are kept; 0: all.
    pub terminated_pod_gc_threshold: u64,
    /// How long ended pods gather before they are counted.
    pub pod_gc_period: Duration,
    /// How long a node is missing before its pods are taken for lost.
    pub pod_gc_quarantine: Duration,
    /// Binds in flight.
    pub max_binds_in_flight: u64,
    /// The least time between two refusals that differ only in numbers.
    pub refusal_pause: Duration,
    /// How long a group may be passed over before nodes are held for it.
    pub reserve_after: Option<Duration>,
    /// How long nodes are held for one group.
    pub max_reservation: Duration,
    /// How long a gang may be half bound before it is released.
    pub release_after: Option<Duration>,
    /// How long a node may have more pods than it has room for before those bound beyond are released.
    pub overcommit_after: Option<Duration>,
    /// What becomes of pods of another priority than their group's.
    pub priority_mismatch: PriorityMismatch,
    /// What becomes of pods that demand something of their place which is not supported.
    pub unsupported_terms: UnsupportedTerms,
    /// How pods are judged, and by whom: kube-scheduler's own file.
    pub kube_scheduler: KubeSchedulerConfiguration,
    /// Number of default nodes; `None` where the file does not say.
    pub node_count: Option<u64>,
    /// A file of kind Cluster.
    pub cluster: Option<PathBuf>,
}

impl Default for Configuration {
    fn default() -> Configuration {
        let edge = apiserver::edge::EdgeLimits::default();
        let history = store::HistoryLimits::default();
        let job = controllers::job::Config::default();
        let pod_gc = controllers::podgc::Config::default();
        let scheduler = scheduler::Config::default();
        Configuration {
            listen: "127.0.0.1:6443".to_owned(),
            names: Vec::new(),
            feature_gates: Vec::new(),
            capacity_check: true,
            max_connections: edge.max_connections as u64,
            max_requests_in_flight: edge.max_reads as u64,
            max_mutating_requests_in_flight: edge.max_writes as u64,
            max_watches: edge.max_watches as u64,
            request_timeout: edge.request_timeout,
            drain_timeout: edge.drain_timeout,
            max_history_mebibytes: history.max_history_bytes as u64 >> 20,
            max_history_age: history.max_history_age,
            event_ttl: apiserver::EVENT_TTL,
            auto_gang: AutoGang::default(),
            plain_jobs: job.plain_jobs,
            on_suspend: job.on_suspend,
            child_owners: job.child_owners.0,
            count_disruptions: job.count_disruptions,
            job_workers: job.workers as u64,
            job_sync_batch: job.sync_batch,
            pod_backoff: job.pod_backoff.initial,
            max_pod_backoff: job.pod_backoff.max,
            max_pods_per_sync: job.max_pods_per_sync as u64,
            max_uncounted_pods: job.max_uncounted_pods as u64,
            terminated_pod_gc_threshold: pod_gc.terminated_pod_threshold as u64,
            pod_gc_period: pod_gc.batch_period,
            pod_gc_quarantine: pod_gc.quarantine,
            max_binds_in_flight: scheduler.max_binds_in_flight as u64,
            refusal_pause: scheduler.refusal_pause,
            reserve_after: scheduler.core.reserve_after,
            max_reservation: scheduler.core.max_reservation,
            release_after: scheduler.core.release_after,
            overcommit_after: scheduler.core.overcommit_after,
            priority_mismatch: scheduler.core.priority_mismatch,
            unsupported_terms: scheduler.core.unsupported_terms,
            kube_scheduler: KubeSchedulerConfiguration::default(),
            node_count: None,
            cluster: None,
        }
    }
}

impl Configuration {
    /// Reads `file`. Every problem is there, with its line.
    pub fn read(file: &Path) -> Result<Configuration, Vec<Problem>> {
        let text = manifest::read_text(file).map_err(|problem| vec![problem])?;
        let read = Configuration::parse(file, &text)?;
        let without_effect = &read.kube_scheduler.ignored_fields;
        if !without_effect.is_empty() {
            let fields = without_effect.join(", ");
            let file = file.display();
            eprintln!("warning: {file}: without effect here: {fields} (docs/guides/scheduler.md says why)");
        }
        Ok(read)
    }

    /// The parts with the settings of the file, on the nodes of `cluster`.
    pub fn plane(&self, gates: Gates, cluster: Cluster) -> controlplane::Config {
        let mut plane = controlplane::Config::for_cluster(cluster);
        plane.gates = gates.with_auto_gang(self.auto_gang);
        plane.check_capacity = self.capacity_check;
        plane.job.plain_jobs = self.plain_jobs;
        plane.job.on_suspend = self.on_suspend;
        plane.job.child_owners = ChildOwners(self.child_owners.clone());
        plane.job.count_disruptions = self.count_disruptions;
        plane.job.workers = self.job_workers as usize;
        plane.job.sync_batch = self.job_sync_batch;
        plane.job.pod_backoff = runtime::Backoff { initial: self.pod_backoff, max: self.max_pod_backoff };
        plane.job.max_pods_per_sync = self.max_pods_per_sync as usize;
        plane.job.max_uncounted_pods = self.max_uncounted_pods as usize;
        plane.pod_gc.terminated_pod_threshold = self.terminated_pod_gc_threshold as i64;
        plane.pod_gc.batch_period = self.pod_gc_period;
        plane.pod_gc.quarantine = self.pod_gc_quarantine;
        plane.scheduler.max_binds_in_flight = self.max_binds_in_flight as usize;
        plane.scheduler.refusal_pause = self.refusal_pause;
        plane.scheduler.core.reserve_after = self.reserve_after;
        plane.scheduler.core.max_reservation = self.max_reservation;
        plane.scheduler.core.release_after = self.release_after;
        plane.scheduler.core.overcommit_after = self.overcommit_after;
        plane.scheduler.core.priority_mismatch = self.priority_mismatch;
        plane.scheduler.core.unsupported_terms = self.unsupported_terms;
        self.kube_scheduler.apply_to(&mut plane.scheduler);
        plane.event_ttl = self.event_ttl;
        plane
    }

    fn parse(file: &Path, text: &str) -> Result<Configuration, Vec<Problem>> {
        let documents = manifest::parse(file, text).map_err(|problem| vec![problem])?;
        let [document] = documents.as_slice() else {
            let message = format!("one document of kind {KIND} is wanted, {} are there", documents.len());
            return Err(vec![Problem { file: file.to_owned(), line: None, message }]);
        };
        let mut reader = ConfigurationReader { manifest: document, known_paths: BTreeSet::new(), problems: Vec::new() };
        if document.document["kind"] == KUBE_SCHEDULER {
            let mut configuration = Configuration::default();
            reader.kube_scheduler("", &document.document, &mut configuration.kube_scheduler);
            return if reader.problems.is_empty() { Ok(configuration) } else { Err(reader.problems) };
        }
        let configuration = reader.configuration();
        reader.refuse_unknown();
        if reader.problems.is_empty() { Ok(configuration) } else { Err(reader.problems) }
    }
}

/// Reads one field after the other and remembers which were asked for: what nobody asked for is unknown.
struct ConfigurationReader<'a> {
    manifest: &'a Manifest,
    known_paths: BTreeSet<&'static str>,
    problems: Vec<Problem>,
}

impl ConfigurationReader<'_> {
    fn configuration(&mut self) -> Configuration {
        self.require_value("apiVersion", API_VERSION);
        self.require_value("kind", KIND);
        let mut read = Configuration::default();
        self.text("server.listen", &mut read.listen);
        self.texts("server.names", &mut read.names);
        self.settings("server.featureGates", &mut read.feature_gates);
        self.flag("server.capacityCheck", &mut read.capacity_check);
        self.number("server.connectionsMax", 1..=1_000_000, &mut read.max_connections);
        self.number("server.requestsInFlightMax", 1..=1_000_000, &mut read.max_requests_in_flight);
        self.number("server.mutatingRequestsInFlightMax", 1..=1_000_000, &mut read.max_mutating_requests_in_flight);
        self.number("server.watchesMax", 1..=1_000_000, &mut read.max_watches);
        self.duration("server.requestTimeout", SECOND, &mut read.request_timeout);
        self.duration("server.drainTimeout", TENTH_OF_A_SECOND, &mut read.drain_timeout);
        self.number("server.historyMebibytes", 1..=65_536, &mut read.max_history_mebibytes);
        self.duration("server.historyAge", SECOND, &mut read.max_history_age);
        self.duration("server.eventTtl", SECOND, &mut read.event_ttl);
        self.choice("controllers.autoGang", AutoGang::parse, "explicit or indexed", &mut read.auto_gang);
        self.choice("controllers.plainJobs", PlainJobs::parse, "basic or none", &mut read.plain_jobs);
        self.choice("controllers.onSuspend", OnSuspend::parse, "keep or delete", &mut read.on_suspend);
        self.texts("controllers.childOwners", &mut read.child_owners);
        self.flag("controllers.countDisruptions", &mut read.count_disruptions);
        self.number("controllers.jobWorkers", 1..=1000, &mut read.job_workers);
        self.duration("controllers.jobSyncBatch", MILLISECOND, &mut read.job_sync_batch);
        self.duration("controllers.podBackoff", TENTH_OF_A_SECOND, &mut read.pod_backoff);
        self.duration("controllers.podBackoffMax", TENTH_OF_A_SECOND, &mut read.max_pod_backoff);
        self.number("controllers.maxPodsPerSync", 1..=10_000, &mut read.max_pods_per_sync);
        self.number("controllers.maxUncountedPods", 1..=10_000, &mut read.max_uncounted_pods);
        let threshold = &mut read.terminated_pod_gc_threshold;
        self.number("controllers.terminatedPodGCThreshold", 0..=1_000_000_000, threshold);
        self.duration("controllers.podGCPeriod", TENTH_OF_A_SECOND, &mut read.pod_gc_period);
        self.duration("controllers.podGCQuarantine", TENTH_OF_A_SECOND, &mut read.pod_gc_quarantine);
        self.number("scheduler.bindsInFlight", 1..=10_000, &mut read.max_binds_in_flight);
        self.duration("scheduler.refusalPause", TENTH_OF_A_SECOND, &mut read.refusal_pause);
        self.duration_or_never("scheduler.holdAfter", SECOND, &mut read.reserve_after);
        self.duration("scheduler.holdFor", SECOND, &mut read.max_reservation);
        self.duration_or_never("scheduler.releaseAfter", SECOND, &mut read.release_after);
        self.duration_or_never("scheduler.overcommitAfter", SECOND, &mut read.overcommit_after);
        let other_priority = &mut read.priority_mismatch;
        self.choice("scheduler.otherPriority", PriorityMismatch::parse, "member or refused", other_priority);
        let unsupported = &mut read.unsupported_terms;
        self.choice("scheduler.unsupportedTerms", UnsupportedTerms::parse, "wait or ignore", unsupported);
        if let Some(document) = self.value("scheduler.configuration").cloned() {
            self.kube_scheduler("scheduler.configuration", &document, &mut read.kube_scheduler);
        }
        let (mut count, mut cluster) = (0, String::new());
        self.number("nodes.count", 1..=100_000, &mut count);
        self.text("nodes.cluster", &mut cluster);
        read.node_count = Some(count).filter(|&count| count > 0);
        read.cluster = Some(cluster).filter(|cluster| !cluster.is_empty()).map(PathBuf::from);
        if read.node_count.is_some() && read.cluster.is_some() {
            self.problem("nodes.cluster", "cannot be given together with nodes.count");
        }
        if read.pod_backoff > read.max_pod_backoff {
            self.problem("controllers.podBackoff", "must not be longer than controllers.podBackoffMax");
        }
        read
    }

    /// The value at `path`; `None` where there is none, or nothing in it.
    fn value(&mut self, path: &'static str) -> Option<&Value> {
        self.known_paths.insert(path);
        let found = path.split('.').try_fold(&self.manifest.document, |value, field| value.get(field));
        found.filter(|value| !value.is_null())
    }

    fn require_value(&mut self, path: &'static str, wanted: &str) {
        if self.value(path).and_then(Value::as_str) != Some(wanted) {
            self.problem(path, &format!("must be {wanted}"));
        }
    }

    fn text(&mut self, path: &'static str, into: &mut String) {
        match self.value(path) {
            None => {}
            Some(Value::String(text)) if !text.is_empty() => *into = text.clone(),
            Some(_) => self.problem(path, "must be a text"),
        }
    }

    fn texts(&mut self, path: &'static str, into: &mut Vec<String>) {
        let Some(value) = self.value(path) else { return };
        let texts = value.as_array().and_then(|items| {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
        });
        match texts {
            Some(texts) => *into = texts,
            None => self.problem(path, "must be a list of texts"),
        }
    }

    /// Names with true or false.
    fn settings(&mut self, path: &'static str, into: &mut Vec<(String, String)>) {
        let Some(value) = self.value(path) else { return };
        let settings = value.as_object().and_then(|map| {
            let pair = |(name, on): (&String, &Value)| Some((name.clone(), on.as_bool()?.to_string()));
            map.iter().map(pair).collect::<Option<Vec<_>>>()
        });
        match settings {
            Some(settings) => *into = settings,
            None => self.problem(path, "must be a mapping of names to true or false"),
        }
    }

    fn flag(&mut self, path: &'static str, into: &mut bool) {
        let Some(value) = self.value(path) else { return };
        match value.as_bool() {
            Some(value) => *into = value,
            None => self.problem(path, "must be true or false"),
        }
    }

    /// One of a few words.
    fn choice<T>(&mut self, path: &'static str, parse: fn(&str) -> Option<T>, words: &str, into: &mut T) {
        let Some(value) = self.value(path) else { return };
        match value.as_str().and_then(parse) {
            Some(value) => *into = value,
            None => self.problem(path, &format!("must be {words}")),
        }
    }

    fn number(&mut self, path: &'static str, range: std::ops::RangeInclusive<u64>, into: &mut u64) {
        let Some(value) = self.value(path) else { return };
        match value.as_u64().filter(|number| range.contains(number)) {
            Some(number) => *into = number,
            None => self.problem(path, &format!("must be a number from {} to {}", range.start(), range.end())),
        }
    }

    fn duration(&mut self, path: &'static str, least: Duration, into: &mut Duration) {
        if let Some(duration) = self.duration_in_range(path, least, "") {
            *into = duration;
        }
    }

    fn duration_or_never(&mut self, path: &'static str, least: Duration, into: &mut Option<Duration>) {
        if self.value(path).and_then(Value::as_str) == Some("never") {
            *into = None;
        } else if let Some(duration) = self.duration_in_range(path, least, ", or never") {
            *into = Some(duration);
        }
    }

    /// The duration at `path`; `None` where there is none or it is a problem. `or` is what else may be written.
    fn duration_in_range(&mut self, path: &'static str, least: Duration, or: &str) -> Option<Duration> {
        let value = self.value(path)?.clone();
        let duration = value.as_str().and_then(|text| api::clock::parse_duration_setting_at_least(least, text));
        if duration.is_none() {
            let range = format!("must be a duration from {least:?} to 87600h{or}, such as 90s or 5m");
            self.problem(path, &format!("Invalid value: {value}: {range}"));
        }
        duration
    }

    /// A KubeSchedulerConfiguration, which has rules of its own.
    fn kube_scheduler(&mut self, path: &str, document: &Value, into: &mut KubeSchedulerConfiguration) {
        match KubeSchedulerConfiguration::read(document, &api::field::Path::new(path)) {
            Ok(read) => *into = read,
            Err(errors) => errors.iter().for_each(|error| self.problem(error.path.as_str(), &error.message())),
        }
    }

    fn problem(&mut self, path: &str, message: &str) {
        let Problem { file, line, .. } = self.manifest.problem(path, "");
        self.problems.push(Problem { file, line, message: format!("{path}: {message}") });
    }

    fn refuse_unknown(&mut self) {
        let mut unknown = BTreeMap::new();
        self.collect_unknown(&self.manifest.document, "", &mut unknown);
        for (path, message) in unknown {
            self.problem(&path, &message);
        }
    }

    fn collect_unknown(&self, value: &Value, path: &str, unknown: &mut BTreeMap<String, String>) {
        let Some(fields) = value.as_object() else {
            if !value.is_null() {
                unknown.insert(path.to_owned(), "must be a mapping".to_owned());
            }
            return;
        };
        for (field, value) in fields {
            let below = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
            let inside = format!("{below}.");
            if self.known_paths.contains(below.as_str()) {
                continue;
            }
            if self.known_paths.iter().any(|asked| asked.starts_with(&inside)) {
                self.collect_unknown(value, &below, unknown);
            } else {
                let known = self.known_paths.iter().filter_map(|asked| asked.strip_prefix(path)).map(first_field);
                let known: BTreeSet<&str> = known.collect();
                let known: Vec<&str> = known.into_iter().collect();
                unknown.insert(below, format!("unknown field; known here are {}", known.join(", ")));
            }
        }
    }
}

fn first_field(path: &str) -> &str {
    path.trim_start_matches('.').split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Result<Configuration, Vec<String>> {
        let read = Configuration::parse(Path::new("c.yaml"), text);
        read.map_err(|problems| problems.iter().map(Problem::to_string).collect())
    }

    const HEAD: &str = "apiVersion: phalanx.dev/v1alpha1\nkind: Configuration\n";

    #[test]
    fn what_is_printed_is_the_defaults_and_names_every_setting() {
        let printed = parse(DEFAULTS).unwrap();
        // A count in the file is a wish, none is the default: that is the one place where they differ.
        assert_eq!(printed, Configuration { node_count: Some(16), ..Configuration::default() });
        let documents = manifest::parse(Path::new("c"), DEFAULTS).unwrap();
        let mut reader =
            ConfigurationReader { manifest: &documents[0], known_paths: BTreeSet::new(), problems: Vec::new() };
        reader.configuration();
        let asked = reader.known_paths.clone();
        let unsaid: Vec<&str> = asked.into_iter().filter(|path| reader.value(path).is_none()).collect();
        assert_eq!(unsaid, ["nodes.cluster"], "it excludes nodes.count, and stands in a comment");
    }

    #[test]
    fn a_file_changes_what_it_names() {
        let text = format!(
            "{HEAD}server:\n  names: [gpu.example]\n  featureGates: {{CompositePodGroup: false}}\nscheduler:\n  refusalPause: 1m\n"
        );
        let read = parse(&text).unwrap();
        assert_eq!(read.names, ["gpu.example"]);
        assert_eq!(read.feature_gates, [("CompositePodGroup".to_owned(), "false".to_owned())]);
        assert_eq!(read.refusal_pause, Duration::from_secs(60));
        assert_eq!(read.listen, Configuration::default().listen);
        let text = "scheduler:\n  holdAfter: never\n  releaseAfter: 20s\n  overcommitAfter: never\n  otherPriority: refused\n  unsupportedTerms: ignore\n";
        let read = parse(&format!("{HEAD}{text}")).unwrap();
        assert_eq!((read.reserve_after, read.release_after), (None, Some(Duration::from_secs(20))));
        assert_eq!(read.overcommit_after, None);
        assert_eq!(read.priority_mismatch, PriorityMismatch::Refused);
        assert_eq!(read.unsupported_terms, UnsupportedTerms::Ignore);
        assert_eq!(parse(&format!("{HEAD}server:\n")), Ok(Configuration::default()), "an empty section says nothing");
    }

    #[test]
    fn absurd_durations_are_refused_for_every_setting() {
        let documents = manifest::parse(Path::new("c"), DEFAULTS).unwrap();
        let is_duration =
            |value: &Value| value.as_str().is_some_and(|text| api::clock::parse_duration_setting(text).is_some());
        let mut settings = Vec::new();
        for section in ["server", "controllers", "scheduler"] {
            let fields = documents[0].document[section].as_object().unwrap();
            settings.extend(fields.iter().filter(|(_, value)| is_duration(value)).map(|(name, _)| (section, name)));
        }
        assert!(settings.len() >= 12, "{settings:?}");
        for (section, name) in settings {
            let least = match name.as_str() {
                "jobSyncBatch" => "1ms",
                "drainTimeout" | "podBackoff" | "podBackoffMax" | "podGCPeriod" | "podGCQuarantine"
                | "refusalPause" => "100ms",
                _ => "1s",
            };
            let or_never = if ["holdAfter", "releaseAfter", "overcommitAfter"].contains(&name.as_str()) {
                ", or never"
            } else {
                ""
            };
            let range = format!("must be a duration from {least} to 87600h{or_never}, such as 90s or 5m");
            for text in ["100000000h", "87601h", "99999999999999999999h", "-1s", "0s", "soon", "1ns", "999us"] {
                let problems = parse(&format!("{HEAD}{section}:\n  {name}: {text}\n")).unwrap_err();
                let want = format!("c.yaml:4: {section}.{name}: Invalid value: \"{text}\": {range}");
                assert_eq!(problems, [want], "{text}");
            }
            for text in [least, "87600h"] {
                let read = parse(&format!("{HEAD}{section}:\n  {name}: {text}\n"));
                assert!(read.is_ok() || name.starts_with("podBackoff"), "{name}: {text}: {read:?}");
            }
        }
    }

    #[test]
    fn every_problem_has_its_line() {
        let text = format!(
            "{HEAD}server:\n  lisen: x\n  names: 7\ncontrollers:\n  autoGong: indexed\n  jobWorkers: 0\nnodes: 3\nmore: 1\n"
        );
        let problems = parse(&text).unwrap_err();
        for (start, part) in [
            ("c.yaml:4: server.lisen: unknown field", "listen"),
            ("c.yaml:5: server.names: must be a list of texts", ""),
            (
                "c.yaml:7: controllers.autoGong: unknown field",
                "autoGang, childOwners, countDisruptions, jobSyncBatch, jobWorkers",
            ),
            ("c.yaml:8: controllers.jobWorkers: must be a number from 1 to 1000", ""),
            ("c.yaml:9: nodes: must be a mapping", ""),
            ("c.yaml:10: more: unknown field", "scheduler"),
        ] {
            let found = problems.iter().any(|problem| problem.starts_with(start) && problem.contains(part));
            assert!(found, "no {start:?} in {problems:#?}");
        }
        assert_eq!(problems.len(), 6, "{problems:#?}");
    }

    #[test]
    fn the_file_of_kube_scheduler_is_taken_whole_and_in_a_section() {
        let body = "profiles:\n- schedulerName: packing\n  plugins: {score: {disabled: [{name: ImageLocality}]}}\n";
        let whole = format!("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{body}");
        let section: String = whole.lines().map(|line| format!("    {line}\n")).collect();
        let in_section = parse(&format!("{HEAD}scheduler:\n  configuration:\n{section}")).unwrap();
        assert_eq!(parse(&whole).unwrap(), in_section);
        let plane = in_section.plane(Gates::default(), Cluster::default());
        assert_eq!(plane.scheduler.core.profiles[0].scheduler_name, "packing");
        let problems = parse(&whole.replace("ImageLocality", "Mine").replace("packing", "[]")).unwrap_err();
        let want = ["c.yaml:4: profiles[0].schedulerName: Invalid value: []: must be a text"];
        assert!(problems.len() == 2 && problems[0] == want[0], "{problems:#?}");
        let problems =
            parse(&format!("{HEAD}scheduler:\n  configuration:\n{section}    extenders: [{{}}]\n")).unwrap_err();
        assert!(problems[0].starts_with("c.yaml:10: scheduler.configuration.extenders: Forbidden: "), "{problems:#?}");
    }

    // Shows: S000-28
    #[test]
    fn gangs_by_themselves_and_the_check_of_binds_are_settings() {
        assert!(DEFAULTS.contains("elastic Indexed"), "what the setting costs stands beside it");
        let text = "server:\n  capacityCheck: false\ncontrollers:\n  autoGang: indexed\n";
        let read = parse(&format!("{HEAD}{text}")).unwrap();
        assert_eq!((read.auto_gang, read.capacity_check), (AutoGang::Indexed, false));
        let text = "server:\n  capacityCheck: 1\ncontrollers:\n  autoGang: always\n";
        let problems = parse(&format!("{HEAD}{text}")).unwrap_err();
        let want = [
            "c.yaml:4: server.capacityCheck: must be true or false",
            "c.yaml:6: controllers.autoGang: must be explicit or indexed",
        ];
        assert_eq!(problems, want);
    }

    #[test]
    fn who_gets_scheduling_objects_is_a_setting() {
        let text = "controllers:\n  plainJobs: none\n  onSuspend: delete\n  childOwners: [JobSet]\n";
        let read = parse(&format!("{HEAD}{text}")).unwrap();
        let job = read.plane(Gates::default(), Cluster::default()).job;
        assert_eq!((job.plain_jobs, job.on_suspend), (PlainJobs::None, OnSuspend::Delete));
        assert_eq!(job.child_owners, ChildOwners(vec!["JobSet".to_owned()]));
        let text = "controllers:\n  plainJobs: gang\n  onSuspend: always\n  childOwners: JobSet\n";
        let problems = parse(&format!("{HEAD}{text}")).unwrap_err();
        let want = [
            "c.yaml:4: controllers.plainJobs: must be basic or none",
            "c.yaml:5: controllers.onSuspend: must be keep or delete",
            "c.yaml:6: controllers.childOwners: must be a list of texts",
        ];
        assert_eq!(problems, want);
    }

    #[test]
    fn whether_disruptions_count_as_failures_is_a_setting() {
        let read =
            |text: &str| parse(&format!("{HEAD}{text}")).map(|read| read.plane(Gates::default(), Cluster::default()));
        assert!(!read("").unwrap().job.count_disruptions);
        assert!(read("controllers:\n  countDisruptions: true\n").unwrap().job.count_disruptions);
        let problems = read("controllers:\n  countDisruptions: maybe\n").err().unwrap();
        assert_eq!(problems, ["c.yaml:4: controllers.countDisruptions: must be true or false"]);
    }

    #[test]
    fn limits_of_one_sync_and_the_pod_collector_are_settings() {
        let text = "controllers:\n  maxPodsPerSync: 10\n  maxUncountedPods: 20\n  terminatedPodGCThreshold: 0\n  \
                    podGCPeriod: 500ms\n  podGCQuarantine: 1s\n";
        let plane = parse(&format!("{HEAD}{text}")).unwrap().plane(Gates::default(), Cluster::default());
        assert_eq!((plane.job.max_pods_per_sync, plane.job.max_uncounted_pods), (10, 20));
        let collector = plane.pod_gc;
        assert_eq!(
            (collector.terminated_pod_threshold, collector.batch_period.as_millis(), collector.quarantine.as_secs()),
            (0, 500, 1)
        );
        let text = "controllers:\n  maxPodsPerSync: 0\n  maxUncountedPods: 10001\n  terminatedPodGCThreshold: -1\n";
        let problems = parse(&format!("{HEAD}{text}")).unwrap_err();
        let want = [
            "c.yaml:4: controllers.maxPodsPerSync: must be a number from 1 to 10000",
            "c.yaml:5: controllers.maxUncountedPods: must be a number from 1 to 10000",
            "c.yaml:6: controllers.terminatedPodGCThreshold: must be a number from 0 to 1000000000",
        ];
        assert_eq!(problems, want);
    }

    #[test]
    fn another_kind_is_refused() {
        let problems = parse("apiVersion: phalanx.dev/v1alpha1\nkind: Cluster\n").unwrap_err();
        assert_eq!(problems, ["c.yaml:2: kind: must be Configuration"]);
        assert!(parse("").is_err() && parse("[]").is_err() && parse(&format!("{HEAD}---\n{HEAD}")).is_err());
    }
}
