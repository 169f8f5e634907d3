//! The configuration file of `phalanx up`, `run`, `scheduler`, `controllers` and `nodes`.

mod settings; // every setting, once; read this first
mod format; // how one value is read and written
mod reader; // reads the sections, gathers problems with their lines
mod print; // the file that `phalanx config` prints
#[cfg(test)]
mod guide; // the tables of the guide
#[cfg(test)]
mod tests;

use std::path::Path;

use api::gates::Gates;
use apiserver::edge::EdgeLimits;
use controllers::job::ChildOwners;
use nodes::cluster::Cluster;
use nodes::pod_lifecycle::PodDefaults;
use scheduler::configuration::KIND as KUBE_SCHEDULER;
use store::HistoryLimits;

use crate::config::format::KubeScheduler;
use crate::config::reader::ConfigurationReader;
use crate::config::settings::{ControllerSettings, NodeSettings, SchedulerSettings, ServerSettings, Setting};
use crate::manifest::{self, Problem};

pub use format::ListenAddress;
pub use print::default_file;

/// The fields above the sections.
const HEADER: [(&str, &str); 2] = [("apiVersion", "phalanx.dev/v1alpha1"), ("kind", "Configuration")];

/// The settings of a file, with defaults for those it leaves out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// The API server and its store.
    pub server: ServerSettings,
    /// The controllers.
    pub controllers: ControllerSettings,
    /// The scheduler.
    pub scheduler: SchedulerSettings,
    /// The simulated nodes.
    pub nodes: NodeSettings,
}

/// All settings, in the order of the file.
fn settings() -> Vec<Setting> {
    let sections = [
        ServerSettings::settings(),
        ControllerSettings::settings(),
        SchedulerSettings::settings(),
        NodeSettings::settings(),
    ];
    sections.concat()
}

impl Configuration {
    /// Reads `file`, or returns the defaults without one. The error has every problem with its line.
    pub fn read_or_default(file: Option<&Path>) -> Result<Configuration, Vec<Problem>> {
        let Some(file) = file else { return Ok(Configuration::default()) };
        let text = manifest::read_text(file).map_err(|problem| vec![problem])?;
        let (configuration, warnings) = Configuration::parse(file, &text)?;
        for warning in warnings {
            eprintln!("warning: {warning}");
        }
        Ok(configuration)
    }

    /// The settings, and warnings about fields without effect.
    fn parse(file: &Path, text: &str) -> Result<(Configuration, Vec<Problem>), Vec<Problem>> {
        let documents = manifest::parse(file, text).map_err(|problem| vec![problem])?;
        let [document] = documents.as_slice() else {
            let message = format!("must have one document of kind Configuration, has {}", documents.len());
            return Err(vec![Problem { file: file.to_owned(), line: None, message }]);
        };
        let mut reader = ConfigurationReader::new(document);
        let is_of_scheduler = document.document["kind"] == KUBE_SCHEDULER;
        let configuration = if is_of_scheduler {
            let mut configuration = Configuration::default();
            if let Some(parsed) = reader.parse("", &document.document, &KubeScheduler) {
                configuration.scheduler.configuration = parsed;
            }
            configuration
        } else {
            read_sections(&mut reader)
        };
        if !reader.problems.is_empty() {
            return Err(reader.problems);
        }
        let above = if is_of_scheduler { "" } else { "scheduler.configuration." };
        let ignored = configuration.scheduler.configuration.ignored_fields.iter();
        let warning = |field| reader.problem_at(&format!("{above}{field}"), "ignored (see docs/guides/scheduler.md)");
        let warnings = ignored.map(warning).collect();
        Ok((configuration, warnings))
    }

    /// The control plane with these settings, on the nodes of `cluster`.
    pub fn plane(&self, gates: Gates, cluster: Cluster) -> controlplane::Config {
        let mut plane = controlplane::Config::for_cluster(cluster);
        plane.gates = gates.with_auto_gang(self.controllers.auto_gang);
        plane.check_capacity = self.server.capacity_check;
        plane.event_ttl = self.server.event_ttl;
        self.controllers.apply_to(&mut plane);
        self.scheduler.apply_to(&mut plane.scheduler);
        let exit_code = u8::try_from(self.nodes.exit_code).expect("the reader limits it to 255");
        plane.nodes.pod_defaults = PodDefaults { run_time: self.nodes.run_seconds, exit_code };
        plane
    }
}

fn read_sections(reader: &mut ConfigurationReader) -> Configuration {
    reader.require(&HEADER);
    let configuration = Configuration {
        server: ServerSettings::read(reader),
        controllers: ControllerSettings::read(reader),
        scheduler: SchedulerSettings::read(reader),
        nodes: NodeSettings::read(reader),
    };
    if configuration.nodes.count.is_some() && configuration.nodes.cluster.is_some() {
        reader.problem("nodes.cluster", "cannot be given together with nodes.count");
    }
    if configuration.controllers.pod_backoff > configuration.controllers.max_pod_backoff {
        reader.problem("controllers.podBackoff", "must not be longer than controllers.maxPodBackoff");
    }
    reader.refuse_unknown(&HEADER, &settings());
    configuration
}

impl ServerSettings {
    /// The limits at the network edge.
    pub fn edge_limits(&self) -> EdgeLimits {
        EdgeLimits {
            max_connections: self.max_connections as usize,
            max_reads: self.max_requests_in_flight as usize,
            max_writes: self.max_mutating_requests_in_flight as usize,
            max_watches: self.max_watches as usize,
            request_timeout: self.request_timeout,
            drain_timeout: self.drain_timeout,
            ..EdgeLimits::default()
        }
    }

    /// How much history the store has.
    pub fn history_limits(&self) -> HistoryLimits {
        HistoryLimits {
            max_history_bytes: (self.max_history_mebibytes << 20) as usize,
            max_history_age: self.max_history_age,
        }
    }
}

impl ControllerSettings {
    fn apply_to(&self, plane: &mut controlplane::Config) {
        plane.job.plain_jobs = self.plain_jobs;
        plane.job.on_suspend = self.on_suspend;
        plane.job.child_owners = ChildOwners(self.child_owners.clone());
        plane.job.count_disruptions = self.count_disruptions;
        plane.job.workers = self.concurrent_job_syncs as usize;
        plane.job.sync_batch = self.job_sync_batch_period;
        plane.job.pod_backoff = runtime::Backoff { initial: self.pod_backoff, max: self.max_pod_backoff };
        plane.job.max_pods_per_sync = self.max_pods_per_sync as usize;
        plane.job.max_uncounted_pods = self.max_uncounted_pods as usize;
        plane.pod_gc.terminated_pod_threshold = self.terminated_pod_gc_threshold as i64;
        plane.pod_gc.batch_period = self.pod_gc_period;
        plane.pod_gc.quarantine = self.pod_gc_quarantine;
    }
}

impl SchedulerSettings {
    fn apply_to(&self, config: &mut scheduler::Config) {
        config.max_binds_in_flight = self.max_binds_in_flight as usize;
        config.refusal_pause = self.refusal_pause;
        config.core.reserve_after = self.reserve_after;
        config.core.max_reservation = self.max_reservation;
        config.core.release_after = self.release_after;
        config.core.overcommit_after = self.overcommit_after;
        config.core.priority_mismatch = self.priority_mismatch;
        config.core.unsupported_terms = self.unsupported_terms;
        self.configuration.apply_to(config);
    }
}
