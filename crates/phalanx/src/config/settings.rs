//! Every setting: its name in the file, its documentation, the values it allows and its default. The file that
//! `phalanx config` prints, the reader and the tables of docs/guides/configuration.md are made from this list.

use std::path::PathBuf;
use std::time::Duration;

use api::gates::AutoGang;
use apiserver::edge::EdgeLimits;
use controllers::job::{OnSuspend, PlainJobs};
use controllers::{job, podgc};
use nodes::pod_lifecycle::{PodDefaults, RunTime};
use scheduler::KubeSchedulerConfiguration;
use scheduler_core::{PriorityMismatch, UnsupportedTerms};
use store::HistoryLimits;

use crate::config::format::*;
use crate::config::reader::ConfigurationReader;
use crate::run::DEFAULT_NODES;

const SECOND: Duration = Duration::from_secs(1);
const TENTH_OF_A_SECOND: Duration = Duration::from_millis(100);
const MILLISECOND: Duration = Duration::from_millis(1);

/// What a setting is, without its value.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The section that it is in.
    pub section: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// The name of earlier releases.
    pub former_name: Option<&'static str>,
    /// What it means. The first sentence is short.
    pub doc: &'static [&'static str],
    /// The values it allows.
    pub values: String,
    /// The YAML text of its default; `None` if it is absent by default.
    pub default: Option<String>,
}

impl Setting {
    /// `section.name`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }
}

/// Defines a section: the struct, its defaults, its reader and the description of its settings. The doc comment of a
/// setting is its documentation for users.
macro_rules! section {
    (
        $(#[$attribute:meta])*
        $section:literal $struct:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty {
                    name: $name:literal,
                    $(formerly: $former:literal,)?
                    format: $format:expr,
                    default: $default:expr,
                }
            )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $struct {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl Default for $struct {
            fn default() -> $struct {
                $struct { $($field: $default,)+ }
            }
        }

        impl $struct {
            /// Reads the section; settings that the file leaves out have their defaults.
            pub fn read(reader: &mut ConfigurationReader) -> $struct {
                $struct { $($field: reader.setting(concat!($section, ".", $name), &$format, $default),)+ }
            }

            /// The settings of the section, in the order of the file.
            pub fn settings() -> Vec<Setting> {
                vec![$(Setting {
                    section: $section,
                    name: $name,
                    former_name: [$($former,)?].first().copied(),
                    doc: &[$($doc,)+],
                    values: $format.values(),
                    default: $format.yaml(&$default),
                },)+]
            }
        }
    };
}

section! {
    /// The API server and its store.
    "server" ServerSettings {
        /// HOST:PORT where clients connect.
        /// Port 0 picks a free one. Clients always need TLS and a certificate or token. An address that is not a
        /// loopback address can be reached from other machines.
        listen: String {
            name: "listen",
            format: ListenAddress,
            default: "127.0.0.1:6443".to_owned(),
        }
        /// Additional host names and addresses in the server's certificate.
        /// Other machines reach the server under these names.
        cert_sans: Vec<String> {
            name: "certSANs",
            formerly: "names",
            format: TextList,
            default: Vec::new(),
        }
        /// Feature gates that differ from their defaults, such as {CompositePodGroup: false}.
        /// AllAlpha and AllBeta set all gates of a stage that are not named. Names of earlier releases are accepted.
        feature_gates: Vec<(String, String)> {
            name: "featureGates",
            format: GateMap,
            default: Vec::new(),
        }
        /// Whether a bind is refused if the node has less free capacity than the pod requests.
        /// The check covers every client that binds.
        capacity_check: bool {
            name: "capacityCheck",
            format: Flag,
            default: true,
        }
        /// Concurrent connections of authenticated clients.
        /// 256 more are for clients that have not authenticated yet; the oldest of these is closed for a new one.
        max_connections: u64 {
            name: "maxConnections",
            formerly: "connectionsMax",
            format: Number(1..=1_000_000),
            default: EdgeLimits::default().max_connections as u64,
        }
        /// Concurrent requests that read, except watches.
        /// Requests beyond this limit, and beyond the next two, get 429 and are to be retried after a second.
        max_requests_in_flight: u64 {
            name: "maxRequestsInFlight",
            formerly: "requestsInFlightMax",
            format: Number(1..=1_000_000),
            default: EdgeLimits::default().max_reads as u64,
        }
        /// Concurrent requests that write.
        max_mutating_requests_in_flight: u64 {
            name: "maxMutatingRequestsInFlight",
            formerly: "mutatingRequestsInFlightMax",
            format: Number(1..=1_000_000),
            default: EdgeLimits::default().max_writes as u64,
        }
        /// Concurrent watches.
        max_watches: u64 {
            name: "maxWatches",
            formerly: "watchesMax",
            format: Number(1..=1_000_000),
            default: EdgeLimits::default().max_watches as u64,
        }
        /// Time until the response to a request starts.
        /// The response to a watch starts at once and has no time limit.
        request_timeout: Duration {
            name: "requestTimeout",
            format: AtLeast(SECOND),
            default: EdgeLimits::default().request_timeout,
        }
        /// Time that requests in flight have after SIGTERM or Ctrl-C.
        drain_timeout: Duration {
            name: "drainTimeout",
            format: AtLeast(TENTH_OF_A_SECOND),
            default: EdgeLimits::default().drain_timeout,
        }
        /// Size of the history from which watches resume and lists continue.
        /// The history is limited by its size or its age, whichever is reached first.
        max_history_mebibytes: u64 {
            name: "maxHistoryMebibytes",
            formerly: "historyMebibytes",
            format: Number(1..=65_536),
            default: HistoryLimits::default().max_history_bytes as u64 >> 20,
        }
        /// Age of the history.
        max_history_age: Duration {
            name: "maxHistoryAge",
            formerly: "historyAge",
            format: AtLeast(SECOND),
            default: HistoryLimits::default().max_history_age,
        }
        /// Time after its last write when an Event is deleted.
        /// A new value applies to Events that are written from then on.
        event_ttl: Duration {
            name: "eventTTL",
            formerly: "eventTtl",
            format: AtLeast(SECOND),
            default: apiserver::EVENT_TTL,
        }
    }
}

section! {
    /// The Job controller and the other controllers.
    "controllers" ControllerSettings {
        /// When a Job without spec.scheduling is a gang.
        /// explicit: never; it gets a Basic group. indexed: if it is Indexed, has parallelism > 1 and completions equal
        /// to parallelism. Then its parallelism cannot be changed (no elastic Indexed Jobs), and Jobs that are not gangs
        /// get no group.
        auto_gang: AutoGang {
            name: "autoGang",
            format: Choice(&["explicit", "indexed"], AutoGang::parse),
            default: AutoGang::default(),
        }
        /// What a Job without spec.scheduling gets.
        /// basic: a Workload and a PodGroup with the Basic policy. none: nothing. The label phalanx.dev/groups (enabled
        /// or disabled) of a Namespace or a Job takes precedence.
        plain_jobs: PlainJobs {
            name: "plainJobs",
            format: Choice(&["basic", "none"], PlainJobs::parse),
            default: job::Config::default().plain_jobs,
        }
        /// What happens to the Workload and PodGroup of a suspended Job.
        /// keep: they stay, and the resumed Job uses them again. delete: they are deleted after the Job's last pod has
        /// ended, and are created again when it resumes.
        on_suspend: OnSuspend {
            name: "onSuspend",
            format: Choice(&["keep", "delete"], OnSuspend::parse),
            default: job::Config::default().on_suspend,
        }
        /// Kinds of owners that create the scheduling objects of their Jobs.
        /// "*" means every kind. With an empty list each Job gets its own objects. Jobs of a CronJob always do.
        child_owners: Vec<String> {
            name: "childOwners",
            format: TextList,
            default: job::Config::default().child_owners.0,
        }
        /// Whether disrupted pods count as failures, and so toward the limits of their Job.
        /// A disrupted pod has the condition DisruptionTarget: it was preempted or drained, or its node was lost. A pod
        /// that the kubelet ended (reason TerminationByKubelet) always counts. Rules of podFailurePolicy that match such
        /// a pod take precedence.
        count_disruptions: bool {
            name: "countDisruptions",
            format: Flag,
            default: job::Config::default().count_disruptions,
        }
        /// Jobs that are reconciled concurrently.
        concurrent_job_syncs: u64 {
            name: "concurrentJobSyncs",
            formerly: "jobWorkers",
            format: Number(1..=1000),
            default: job::Config::default().concurrent_syncs as u64,
        }
        /// Time over which changes of pods are batched before their Job is reconciled.
        job_sync_batch_period: Duration {
            name: "jobSyncBatchPeriod",
            formerly: "jobSyncBatch",
            format: AtLeast(MILLISECOND),
            default: job::Config::default().sync_batch_period,
        }
        /// Delay before the first failed pod of a Job is replaced.
        /// It doubles with every further failure.
        pod_backoff: Duration {
            name: "podBackoff",
            format: AtLeast(TENTH_OF_A_SECOND),
            default: job::Config::default().pod_backoff.initial,
        }
        /// Longest delay before a failed pod is replaced.
        max_pod_backoff: Duration {
            name: "maxPodBackoff",
            formerly: "podBackoffMax",
            format: AtLeast(TENTH_OF_A_SECOND),
            default: job::Config::default().pod_backoff.max,
        }
        /// Pods of one Job that are created, deleted or released before its status is written.
        max_pods_per_sync: u64 {
            name: "maxPodsPerSync",
            format: Number(1..=10_000),
            default: job::Config::default().max_pods_per_sync as u64,
        }
        /// Ended pods of one Job in status.uncountedTerminatedPods.
        max_uncounted_pods: u64 {
            name: "maxUncountedPods",
            format: Number(1..=10_000),
            default: job::Config::default().max_uncounted_pods as u64,
        }
        /// Ended pods that are kept in the cluster; 0 keeps all.
        /// Beyond this number evicted pods and the oldest pods are deleted.
        terminated_pod_gc_threshold: u64 {
            name: "terminatedPodGCThreshold",
            format: Number(0..=1_000_000_000),
            default: podgc::Config::default().terminated_pod_threshold as u64,
        }
        /// Time between two comparisons of ended pods with terminatedPodGCThreshold.
        pod_gc_period: Duration {
            name: "podGCPeriod",
            format: AtLeast(TENTH_OF_A_SECOND),
            default: podgc::Config::default().gc_period,
        }
        /// Time for which a node must be missing before its pods are marked Failed and deleted.
        pod_gc_quarantine: Duration {
            name: "podGCQuarantine",
            format: AtLeast(TENTH_OF_A_SECOND),
            default: podgc::Config::default().quarantine,
        }
    }
}

section! {
    /// The scheduler.
    "scheduler" SchedulerSettings {
        /// Concurrent binds.
        max_binds_in_flight: u64 {
            name: "maxBindsInFlight",
            formerly: "bindsInFlight",
            format: Number(1..=10_000),
            default: scheduler::Config::default().max_binds_in_flight as u64,
        }
        /// Shortest time between two refusals of one group that differ only in numbers.
        refusal_pause: Duration {
            name: "refusalPause",
            format: AtLeast(TENTH_OF_A_SECOND),
            default: scheduler::Config::default().refusal_pause,
        }
        /// How long a group or pod that does not fit may be overtaken by later units before room is reserved for it.
        /// Capacity that becomes free there stays free for it. never: no reservations.
        reserve_after: Option<Duration> {
            name: "reserveAfter",
            formerly: "holdAfter",
            format: AtLeastOrNever(SECOND),
            default: scheduler_core::Config::default().reserve_after,
        }
        /// Longest reservation for one group or pod.
        /// A reservation ends after a minute in which no capacity becomes free. There is a pause after each one.
        max_reservation: Duration {
            name: "maxReservation",
            formerly: "holdFor",
            format: AtLeast(SECOND),
            default: scheduler_core::Config::default().max_reservation,
        }
        /// Share of the cluster that reservations may keep idle in the long run.
        /// The share of an hour is available at the start, and at most that of four hours is saved. A reservation may
        /// exceed what is left; the next one begins when that is earned again. 0: no reservations.
        reservation_share: f64 {
            name: "reservationShare",
            format: Share,
            default: scheduler_core::Config::default().reservation_share,
        }
        /// How long a gang may have fewer than minCount pods bound before these are deleted.
        /// This happens when the scheduler crashes between two binds and the other pods do not fit. The pods get the
        /// condition DisruptionTarget, and the gang starts again as a whole. Only gangs that have not had minCount pods
        /// since they started are affected, and only if our Job controller creates their pods again. never: the pods
        /// stay.
        release_after: Option<Duration> {
            name: "releaseAfter",
            format: AtLeastOrNever(SECOND),
            default: scheduler_core::Config::default().release_after,
        }
        /// How long a node may be over-committed before the pods that were bound last are deleted.
        /// This happens when the server does not check binds and two schedulers use the same capacity. The pods get the
        /// condition DisruptionTarget. never: they stay.
        overcommit_after: Option<Duration> {
            name: "overcommitAfter",
            format: AtLeastOrNever(SECOND),
            default: scheduler_core::Config::default().overcommit_after,
        }
        /// How a pod is treated whose priority differs from its group's.
        /// member: it belongs to the group and has the group's priority. refused: this pod waits, the group does not.
        priority_mismatch: PriorityMismatch {
            name: "priorityMismatch",
            formerly: "otherPriority",
            format: Choice(&["member", "refused"], PriorityMismatch::parse),
            default: scheduler_core::Config::default().priority_mismatch,
        }
        /// How a pod is treated that has placement constraints which the scheduler does not support.
        /// These are required inter-pod affinity and anti-affinity, topology spread with DoNotSchedule, volume claims
        /// and resource claims. wait: the pod is not bound, and neither is its gang. ignore: it is placed as if it had no
        /// such constraints, with a Warning.
        unsupported_terms: UnsupportedTerms {
            name: "unsupportedTerms",
            format: Choice(&["wait", "ignore"], UnsupportedTerms::parse),
            default: scheduler_core::Config::default().unsupported_terms,
        }
        /// Whether the pods of an Indexed Job get their nodes in the order of their completion index.
        /// It holds for the pods that one decision places, such as a gang: consecutive indexes share a node, and the
        /// nodes of one rack have consecutive indexes.
        index_order: bool {
            name: "indexOrder",
            format: Flag,
            default: scheduler_core::Config::default().index_order,
        }
        /// Profiles and plugins, in kube-scheduler's own format (docs/guides/scheduler.md).
        /// --config also accepts a file that consists of a KubeSchedulerConfiguration alone.
        configuration: KubeSchedulerConfiguration {
            name: "configuration",
            format: KubeScheduler,
            default: KubeSchedulerConfiguration::default(),
        }
    }
}

section! {
    /// The simulated nodes.
    "nodes" NodeSettings {
        /// Number of simulated nodes.
        /// Each has 96 CPUs, 1Ti of memory, 110 pods and 8 nvidia.com/gpu. A rack has 8 nodes, a zone 64.
        count: Option<u64> {
            name: "count",
            format: NumberOr { number: Number(1..=100_000), absent: DEFAULT_NODES.into() },
            default: None,
        }
        /// A file of kind Cluster with the nodes, instead of count.
        cluster: Option<PathBuf> {
            name: "cluster",
            format: FilePath,
            default: None,
        }
        /// How long the containers of a pod run.
        /// The pod's annotation phalanx.dev/run-seconds and the option --run-seconds take precedence. Pods with
        /// restartPolicy Always run forever unless they have the annotation.
        run_seconds: RunTime {
            name: "runSeconds",
            format: SecondsOrForever,
            default: PodDefaults::default().run_time,
        }
        /// Exit code of the containers of a pod.
        /// The pod's annotation phalanx.dev/exit-code takes precedence.
        exit_code: u64 {
            name: "exitCode",
            format: Number(0..=255),
            default: PodDefaults::default().exit_code.into(),
        }
    }
}
