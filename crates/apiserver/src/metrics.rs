//! The server's metrics, and `/metrics`. Names are upstream's where upstream has the metric.

use std::sync::Arc;
use std::time::Duration;

use api::gates::{Gate, Gates};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use store::{ListQuery, Store};

use crate::request::Verb;
use crate::resources::resource::Resource;
use crate::response::body::Body;

/// Upstream's buckets of request durations, in seconds.
const DURATION_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// Appends the metrics of other components to a response at `/metrics`, in the same format and without the end mark.
pub type ExtraMetrics = Arc<dyn Fn(&mut String) + Send + Sync>;

/// The server's metrics. Clones share the counters.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<MetricsInner>);

struct MetricsInner {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<VerbLabels, Histogram>,
    long_running: Family<VerbLabels, Gauge>,
    objects: Family<ObjectCountLabels, Gauge>,
    revision: Gauge,
    resident_memory: Gauge,
}

// Labels are `'static`, so that counting a request allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    resource: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ObjectCountLabels {
    group: &'static str,
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FeatureLabels {
    name: &'static str,
    stage: &'static str,
}

impl Metrics {
    /// All metrics at zero.
    pub fn new(gates: &Gates) -> Metrics {
        let mut registry = Registry::default();
        let requests = Family::default();
        // The library appends `_total` to counters and the unit to names.
        registry.register("apiserver_request", "Requests, by verb, resource and code", requests.clone());
        let durations = Family::new_with_constructor(duration_histogram as fn() -> Histogram);
        registry.register_with_unit(
            "apiserver_request_duration",
            "Time until the response started, without watches",
            Unit::Seconds,
            durations.clone(),
        );
        let long_running = Family::default();
        registry.register("apiserver_longrunning_requests", "Open watches", long_running.clone());
        let objects = Family::default();
        registry.register("apiserver_resource_objects", "Stored objects", objects.clone());
        let (revision, resident_memory) = (Gauge::default(), Gauge::default());
        registry.register("phalanx_store_revision", "The revision of the last write", revision.clone());
        registry.register_with_unit(
            "process_resident_memory",
            "Resident memory of the process",
            Unit::Bytes,
            resident_memory.clone(),
        );
        let features = Family::<FeatureLabels, Gauge>::default();
        for gate in Gate::ALL {
            let feature = FeatureLabels { name: gate.name(), stage: gate.stage() };
            features.get_or_create(&feature).set(gates.enabled(gate).into());
        }
        registry.register("kubernetes_feature_enabled", "Whether a feature gate is enabled", features);
        Metrics(Arc::new(MetricsInner {
            registry,
            requests,
            durations,
            long_running,
            objects,
            revision,
            resident_memory,
        }))
    }

    /// Counts a response. `resource` is `None` when the path has no served resource.
    pub fn record_request(&self, verb: Verb, resource: Option<&Resource>, code: StatusCode, took: Duration) {
        let (verb_label, resource) = (verb_label(verb), resource.map_or("", |resource| resource.plural));
        let labels = RequestLabels { verb: verb_label, resource, code: code.as_u16() };
        self.0.requests.get_or_create(&labels).inc();
        if verb != Verb::Watch {
            let kind = VerbLabels { verb: verb_label, resource };
            self.0.durations.get_or_create(&kind).observe(took.as_secs_f64());
        }
    }

    /// Counts a watch as open until the guard is dropped.
    pub fn track_watch(&self, resource: &Resource) -> WatchGuard {
        let gauge = self.0.long_running.get_or_create_owned(&VerbLabels { verb: "WATCH", resource: resource.plural });
        gauge.inc();
        WatchGuard(gauge)
    }

    /// The response at `/metrics`.
    pub fn response(&self, store: &Store, resources: &[Resource], extra: Option<&ExtraMetrics>) -> Response<Body> {
        for resource in resources.iter().filter(|resource| !resource.is_stored_elsewhere()) {
            let labels = ObjectCountLabels { group: resource.group, resource: resource.plural };
            self.0.objects.get_or_create(&labels).set(count_objects(store, resource));
        }
        self.0.revision.set(store.revision().to_string().parse().unwrap_or(i64::MAX));
        self.0.resident_memory.set(resident_memory_bytes().unwrap_or_default());
        let mut text = String::new();
        text::encode_registry(&mut text, &self.0.registry).expect("writing to a string never fails");
        if let Some(extra) = extra {
            extra(&mut text);
        }
        text::encode_eof(&mut text).expect("writing to a string never fails");
        let mut response = Response::new(Body::whole(Bytes::from(text)));
        let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

/// An open watch.
pub(crate) struct WatchGuard(Gauge);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn duration_histogram() -> Histogram {
    Histogram::new(DURATION_BUCKETS)
}

/// The number of objects of a kind, counted at each scrape instead of at each write.
fn count_objects(store: &Store, resource: &Resource) -> i64 {
    let mut count = 0;
    let listed = store.list(&ListQuery::all(&resource.store_name), &mut |_| {
        count += 1;
        false
    });
    listed.expect("the current revision is never compacted");
    count
}

/// `None` where the system does not report it.
fn resident_memory_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok().map(|kib| kib * 1024)
}

fn verb_label(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch => "PATCH",
        Verb::Delete => "DELETE",
        Verb::DeleteCollection => "DELETECOLLECTION",
    }
}
