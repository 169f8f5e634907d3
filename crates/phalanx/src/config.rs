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
        let Configuration { server, controllers, scheduler, nodes } = self;
        let mut plane = controlplane::Config { gates, ..controlplane::Config::for_cluster(cluster) };
        server.apply_to(&mut plane);
        controllers.apply_to(&mut plane);
        scheduler.apply_to(&mut plane.scheduler);
        nodes.apply_to(&mut plane.nodes);
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

// The patterns below have no `..`: a setting that is read and never applied does not compile.

impl ServerSettings {
    fn apply_to(&self, plane: &mut controlplane::Config) {
        let ServerSettings {
            capacity_check,
            event_ttl,
            // `up` applies these, and each command resolves the gates.
            listen: _,
            cert_sans: _,
            feature_gates: _,
            // `limits` has these.
            max_connections: _,
            max_requests_in_flight: _,
            max_mutating_requests_in_flight: _,
            max_watches: _,
            request_timeout: _,
            drain_timeout: _,
            max_history_mebibytes: _,
            max_history_age: _,
        } = self;
        plane.check_capacity = *capacity_check;
        plane.event_ttl = *event_ttl;
    }

    /// The limits at the network edge, and how much history the store has.
    pub fn limits(&self) -> (EdgeLimits, HistoryLimits) {
        let ServerSettings {
            max_connections,
            max_requests_in_flight,
            max_mutating_requests_in_flight,
            max_watches,
            request_timeout,
            drain_timeout,
            max_history_mebibytes,
            max_history_age,
            // No limits.
            listen: _,
            cert_sans: _,
            feature_gates: _,
            capacity_check: _,
            event_ttl: _,
        } = self;
        let edge = EdgeLimits {
            max_connections: *max_connections as usize,
            max_reads: *max_requests_in_flight as usize,
            max_writes: *max_mutating_requests_in_flight as usize,
            max_watches: *max_watches as usize,
            request_timeout: *request_timeout,
            drain_timeout: *drain_timeout,
            ..EdgeLimits::default()
        };
        let history = HistoryLimits {
            max_history_bytes: (max_history_mebibytes << 20) as usize,
            max_history_age: *max_history_age,
        };
        (edge, history)
    }
}

impl ControllerSettings {
    fn apply_to(&self, plane: &mut controlplane::Config) {
        let ControllerSettings {
            auto_gang,
            plain_jobs,
            on_suspend,
            child_owners,
            count_disruptions,
            concurrent_job_syncs,
            job_sync_batch_period,
            pod_backoff,
            max_pod_backoff,
            max_pods_per_sync,
            max_uncounted_pods,
            terminated_pod_gc_threshold,
            pod_gc_period,
            pod_gc_quarantine,
        } = self;
        plane.gates = plane.gates.with_auto_gang(*auto_gang);
        plane.job.plain_jobs = *plain_jobs;
        plane.job.on_suspend = *on_suspend;
        plane.job.child_owners = ChildOwners(child_owners.clone());
        plane.job.count_disruptions = *count_disruptions;
        plane.job.concurrent_syncs = *concurrent_job_syncs as usize;
        plane.job.sync_batch_period = *job_sync_batch_period;
        plane.job.pod_backoff = runtime::Backoff { initial: *pod_backoff, max: *max_pod_backoff };
        plane.job.max_pods_per_sync = *max_pods_per_sync as usize;
        plane.job.max_uncounted_pods = *max_uncounted_pods as usize;
        plane.pod_gc.terminated_pod_threshold = *terminated_pod_gc_threshold as i64;
        plane.pod_gc.gc_period = *pod_gc_period;
        plane.pod_gc.quarantine = *pod_gc_quarantine;
    }
}

impl SchedulerSettings {
    fn apply_to(&self, config: &mut scheduler::Config) {
        let SchedulerSettings {
            max_binds_in_flight,
            refusal_pause,
            reserve_after,
            max_reservation,
            reservation_share,
            release_after,
            overcommit_after,
            priority_mismatch,
            unsupported_terms,
            index_order,
            configuration,
        } = self;
        config.max_binds_in_flight = *max_binds_in_flight as usize;
        config.refusal_pause = *refusal_pause;
        config.core.reserve_after = *reserve_after;
        config.core.max_reservation = *max_reservation;
        config.core.reservation_share = *reservation_share;
        config.core.release_after = *release_after;
        config.core.overcommit_after = *overcommit_after;
        config.core.priority_mismatch = *priority_mismatch;
        config.core.unsupported_terms = *unsupported_terms;
        config.core.index_order = *index_order;
        configuration.apply_to(config);
    }
}

impl NodeSettings {
    fn apply_to(&self, config: &mut nodes::Config) {
        // The cluster is resolved before, together with the options.
        let NodeSettings { run_seconds, exit_code, count: _, cluster: _ } = self;
        let exit_code = u8::try_from(*exit_code).expect("the reader limits it to 255");
        config.pod_defaults = PodDefaults { run_time: *run_seconds, exit_code };
    }
}
