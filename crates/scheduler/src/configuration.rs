//! Reads `KubeSchedulerConfiguration` (`kubescheduler.config.k8s.io/v1`), kube-scheduler's file.
//!
//! A field that this scheduler does not support is an error that names it: a profile that silently lacks a filter would
//! place pods where they must not be.

mod args; // arguments of plugins
mod fields; // reads field by field, and rejects unknown ones
mod plugins; // which plugins a profile has, and their weights

use std::collections::BTreeSet;
use std::time::Duration;

use api::field::{Error, ErrorList, Path};
use scheduler_core::Profile;
use serde_json::Value;

use self::fields::FieldReader;

/// `apiVersion` of the file.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// `kind` of the file.
pub const KIND: &str = "KubeSchedulerConfiguration";

/// The file, with kube-scheduler's defaults for absent fields.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeSchedulerConfiguration {
    /// One per `schedulerName`; never empty.
    pub profiles: Vec<Profile>,
    /// Backoff after the first failed attempt.
    pub pod_initial_backoff: Duration,
    /// Maximum backoff.
    pub pod_max_backoff: Duration,
    /// Leader election.
    pub leader_election: LeaderElection,
    /// Connection to the API server.
    pub client_connection: ClientConnection,
    /// Fields of the file that have no effect here, by path.
    pub ignored_fields: Vec<String>,
}

/// Fields without effect: all nodes are always considered, one thread decides, binds have their own limit, and profiling is
/// not built in.
const IGNORED_FIELDS: [&str; 7] = [
    "percentageOfNodesToScore",
    "parallelism",
    "clientConnection.qps",
    "clientConnection.burst",
    "enableProfiling",
    "enableContentionProfiling",
    "delayCacheUntilActive",
];

/// `leaderElection`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether it is on.
    pub leader_elect: bool,
    /// Namespace of the Lease, if given.
    pub resource_namespace: Option<String>,
    /// Name of the Lease, if given.
    pub resource_name: Option<String>,
    /// How long other candidates wait after the last renewal.
    pub lease_duration: Duration,
    /// How long the holder tries to renew before it stops.
    pub renew_deadline: Duration,
    /// The time between two attempts.
    pub retry_period: Duration,
}

/// `clientConnection`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    /// A kubeconfig file; empty: the default location.
    pub kubeconfig: String,
    /// kube-scheduler's limit of requests per second; without effect here.
    pub qps: f64,
    /// kube-scheduler's limit of a burst; without effect here.
    pub burst: i64,
}

impl Default for LeaderElection {
    fn default() -> LeaderElection {
        LeaderElection {
            leader_elect: true,
            resource_namespace: None,
            resource_name: None,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Default for ClientConnection {
    fn default() -> ClientConnection {
        ClientConnection { kubeconfig: String::new(), qps: 50.0, burst: 100 }
    }
}

impl Default for KubeSchedulerConfiguration {
    fn default() -> KubeSchedulerConfiguration {
        KubeSchedulerConfiguration {
            profiles: vec![Profile::default()],
            pod_initial_backoff: Duration::from_secs(1),
            pod_max_backoff: Duration::from_secs(10),
            leader_election: LeaderElection::default(),
            client_connection: ClientConnection::default(),
            ignored_fields: Vec::new(),
        }
    }
}

impl KubeSchedulerConfiguration {
    /// Reads the document at `path` of its file (the root for a separate file). Returns all errors.
    pub fn read(document: &Value, path: &Path) -> Result<KubeSchedulerConfiguration, ErrorList> {
        let mut errors = ErrorList::new();
        let read = FieldReader::of(document, path, &mut errors).map(|mut fields| {
            let read = configuration(&mut fields);
            fields.reject_unknown();
            KubeSchedulerConfiguration { ignored_fields: ignored_fields(document), ..read }
        });
        match read {
            Some(read) if errors.is_empty() => Ok(read),
            _ => Err(errors),
        }
    }

    /// Applies the settings of the scheduler to its configuration.
    pub fn apply_to(&self, config: &mut crate::Config) {
        config.core.profiles = self.profiles.clone();
        config.core.initial_backoff = self.pod_initial_backoff;
        config.core.max_backoff = self.pod_max_backoff;
    }
}

fn configuration(fields: &mut FieldReader<'_>) -> KubeSchedulerConfiguration {
    fields.require_value("apiVersion", API_VERSION);
    fields.require_value("kind", KIND);
    let defaults = KubeSchedulerConfiguration::default();
    // Read only to validate them: see `IGNORED_FIELDS`.
    fields.number("percentageOfNodesToScore", 0..=100);
    fields.number("parallelism", 1..=i64::MAX);
    for flag in ["enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"] {
        fields.flag(flag);
    }
    let longest = api::clock::MAX_DURATION_SETTING.as_secs().cast_signed();
    let initial = seconds(fields.number("podInitialBackoffSeconds", 1..=longest), defaults.pod_initial_backoff);
    let max = seconds(fields.number("podMaxBackoffSeconds", 0..=longest), defaults.pod_max_backoff);
    if max < initial && !max.is_zero() {
        let path = fields.path("podMaxBackoffSeconds");
        fields.error(Error::invalid(&path, max.as_secs(), "must not be less than podInitialBackoffSeconds"));
    }
    if !fields.list("extenders").is_empty() {
        let path = fields.path("extenders");
        let message = "extenders are not supported; write a filter in Rust instead (docs/guides/scheduler.md), or let \
                       kube-scheduler place the pods that need one under another schedulerName";
        fields.error(Error::forbidden(&path, message));
    }
    KubeSchedulerConfiguration {
        profiles: profiles(fields),
        pod_initial_backoff: initial,
        pod_max_backoff: max,
        leader_election: leader_election(fields),
        client_connection: client_connection(fields),
        ignored_fields: Vec::new(),
    }
}

/// The paths of all fields without effect that a document has.
fn ignored_fields(document: &Value) -> Vec<String> {
    let has = |path: &&str| {
        let found = path.split('.').try_fold(document, |value, field| value.get(field));
        found.is_some_and(|value| !value.is_null())
    };
    let profiles = document.get("profiles").and_then(Value::as_array).into_iter().flatten().enumerate();
    let of_profiles = profiles.filter(|(_, profile)| !profile["percentageOfNodesToScore"].is_null());
    let of_profiles = of_profiles.map(|(at, _)| format!("profiles[{at}].percentageOfNodesToScore"));
    IGNORED_FIELDS.into_iter().filter(has).map(str::to_owned).chain(of_profiles).collect()
}

fn seconds(value: Option<i64>, default: Duration) -> Duration {
    value.and_then(|seconds| u64::try_from(seconds).ok()).map_or(default, Duration::from_secs)
}

fn profiles(fields: &mut FieldReader<'_>) -> Vec<Profile> {
    let items = fields.list("profiles");
    if items.is_empty() {
        return vec![Profile::default()];
    }
    let (path, is_single) = (fields.path("profiles"), items.len() == 1);
    let (mut profiles, mut names) = (Vec::new(), BTreeSet::new());
    for (at, item) in items.iter().enumerate() {
        let path = path.index(at);
        let Some(mut profile) = FieldReader::of(item, &path, fields.errors()) else { continue };
        let name = profile.text("schedulerName").filter(|name| !name.is_empty());
        if name.is_none() && !is_single {
            let path = profile.path("schedulerName");
            profile.error(Error::required(&path, "required with several profiles"));
        }
        let name = name.unwrap_or_else(|| "default-scheduler".to_owned());
        if !names.insert(name.clone()) {
            let path = profile.path("schedulerName");
            profile.error(Error::duplicate(&path, name.as_str()));
        }
        profile.number("percentageOfNodesToScore", 0..=100);
        let args = args::read(&mut profile);
        profiles.push(plugins::profile(&mut profile, name, args));
        profile.reject_unknown();
    }
    profiles
}

/// Minimum duration of a Lease, which has it in whole seconds.
const MIN_LEASE: Duration = Duration::from_secs(1);
/// Minimum time between two attempts to renew it: each is one or two requests.
const MIN_RETRY: Duration = Duration::from_millis(100);

fn leader_election(fields: &mut FieldReader<'_>) -> LeaderElection {
    let defaults = LeaderElection::default();
    let Some(mut fields) = fields.object("leaderElection") else { return defaults };
    if let Some(lock) = fields.text("resourceLock").filter(|lock| lock != "leases") {
        let path = fields.path("resourceLock");
        fields.error(Error::not_supported(&path, lock, &["leases"]));
    }
    let read = LeaderElection {
        leader_elect: fields.flag("leaderElect").unwrap_or(defaults.leader_elect),
        resource_namespace: fields.text("resourceNamespace"),
        resource_name: fields.text("resourceName"),
        lease_duration: fields.duration("leaseDuration", MIN_LEASE).unwrap_or(defaults.lease_duration),
        renew_deadline: fields.duration("renewDeadline", MIN_RETRY).unwrap_or(defaults.renew_deadline),
        retry_period: fields.duration("retryPeriod", MIN_RETRY).unwrap_or(defaults.retry_period),
    };
    // A Lease has its duration in whole seconds: other processes wait no longer than that.
    let in_lease = Duration::from_secs(read.lease_duration.as_secs());
    for (is_valid, message) in [
        (read.renew_deadline < in_lease, "must be less than leaseDuration, which counts in whole seconds"),
        (read.renew_deadline > read.retry_period, "must be greater than retryPeriod"),
    ] {
        if read.leader_elect && !is_valid {
            let path = fields.path("renewDeadline");
            fields.error(Error::invalid(&path, format!("{:?}", read.renew_deadline), message));
        }
    }
    fields.reject_unknown();
    read
}

fn client_connection(fields: &mut FieldReader<'_>) -> ClientConnection {
    let defaults = ClientConnection::default();
    let Some(mut fields) = fields.object("clientConnection") else { return defaults };
    // Content types are not configurable here.
    for text in ["acceptContentTypes", "contentType"] {
        fields.text(text);
    }
    let read = ClientConnection {
        kubeconfig: fields.text("kubeconfig").unwrap_or(defaults.kubeconfig),
        qps: fields.decimal("qps").unwrap_or(defaults.qps),
        burst: fields.number("burst", 0..=i64::from(i32::MAX)).unwrap_or(defaults.burst),
    };
    fields.reject_unknown();
    read
}

#[cfg(test)]
mod tests;
