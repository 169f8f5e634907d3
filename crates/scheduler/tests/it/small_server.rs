//! A fake server with pods, nodes and PodGroups that applies every change to the caches at once, or after a delay.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::views::{NodeView, ObjectKey, PodGroupView, PodView, View};
use api::{Random, Revision, Timestamp};
use http::{Request, Response};
use http_body_util::Full;
use kube::Client;
use kube::client::Body;
use phalanx_scheduler::{BindMonitor, Config, Metrics, SchedulerContext, SchedulerHandle, run};
use runtime::informer::CacheEvent;
use runtime::{Cache, Recorder, TokioClock};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Instant;

#[derive(Clone)]
pub struct SmallServer {
    pub pods: Cache<PodView>,
    pub nodes: Cache<NodeView>,
    pub pod_groups: Cache<PodGroupView>,
    state: Arc<Mutex<FakeServerState>>,
    /// Delays changes on their way to the caches; `None`: no delay.
    lag: Option<UnboundedSender<DelayedCacheUpdate>>,
}

/// A change that is not in the caches yet.
type DelayedCacheUpdate = (Instant, Box<dyn FnOnce() + Send>);

#[derive(Default)]
struct FakeServerState {
    objects: BTreeMap<String, Value>,
    revision: u64,
    log: Vec<String>,
    events: Vec<String>,
    reporters: Vec<String>,
    refuse_binds_of: BTreeSet<String>,
    binding_now: usize,
    max_binding: usize,
}

type FakeResponse = Response<Full<bytes::Bytes>>;

impl SmallServer {
    pub fn new() -> SmallServer {
        let server = SmallServer {
            pods: Cache::new(&[PodView::BY_GROUP]),
            nodes: Cache::new(&[]),
            pod_groups: Cache::new(&[]),
            state: Arc::default(),
            lag: None,
        };
        server.pods.replace(Vec::new(), &BTreeSet::new(), Revision(0));
        server.nodes.replace(Vec::new(), &BTreeSet::new(), Revision(0));
        server.pod_groups.replace(Vec::new(), &BTreeSet::new(), Revision(0));
        server
    }

    /// A server whose changes reach the caches after `delay`.
    pub fn lagging(delay: Duration) -> SmallServer {
        let (sender, mut receiver) = unbounded_channel::<DelayedCacheUpdate>();
        tokio::spawn(async move {
            while let Some((at, apply)) = receiver.recv().await {
                tokio::time::sleep_until(at + delay).await;
                apply();
            }
        });
        SmallServer { lag: Some(sender), ..SmallServer::new() }
    }

    pub fn client(&self) -> Client {
        let server = self.clone();
        let respond = move |request| server.clone().respond(request);
        Client::new(tower::service_fn(respond), "default")
    }

    pub fn node(&self, name: &str, cpu: u32) {
        let resources = json!({"cpu": cpu.to_string(), "pods": "110"});
        let metadata = json!({"name": name, "uid": format!("uid-{name}")});
        self.put(
            "nodes",
            name,
            json!({"metadata": metadata, "status": {"allocatable": resources, "capacity": resources}}),
        );
    }

    pub fn gang(&self, name: &str, min_count: u32) {
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": min_count}}});
        self.put("podgroups", name, json!({"metadata": metadata(name), "spec": spec}));
    }

    pub fn basic(&self, name: &str) {
        let spec = json!({"schedulingPolicy": {"basic": {}}});
        self.put("podgroups", name, json!({"metadata": metadata(name), "spec": spec}));
    }

    /// A gang that the Job `owner` manages, of this priority.
    pub fn gang_of(&self, name: &str, min_count: u32, owner: &str, priority: i32) {
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": min_count}}, "priority": priority});
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": true});
        let mut metadata = metadata(name);
        metadata["ownerReferences"] = json!([owner]);
        self.put("podgroups", name, json!({"metadata": metadata, "spec": spec}));
    }

    /// A pod of the group `group` that the Job `owner` manages.
    pub fn pod_of(&self, name: &str, group: &str, owner: &str) {
        self.bound_pod_of(name, group, owner, "");
    }

    /// The same with a node.
    pub fn bound_pod_of(&self, name: &str, group: &str, owner: &str, node: &str) {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": true});
        let mut metadata = metadata(name);
        metadata["ownerReferences"] = json!([owner]);
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
        let mut spec = json!({"schedulerName": "default-scheduler", "containers": [container]});
        spec["schedulingGroup"] = json!({"podGroupName": group});
        if !node.is_empty() {
            spec["nodeName"] = json!(node);
        }
        self.put("pods", name, json!({"metadata": metadata, "spec": spec}));
    }

    /// Several pods, each as of [`SmallServer::pod`].
    pub fn pods(&self, names: &[&str], group: Option<&str>, node: Option<&str>) {
        names.iter().for_each(|name| self.pod(name, group, node));
    }

    /// A pod that requests one CPU.
    pub fn pod(&self, name: &str, group: Option<&str>, node: Option<&str>) {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
        let mut spec = json!({"schedulerName": "default-scheduler", "containers": [container]});
        if let Some(group) = group {
            spec["schedulingGroup"] = json!({"podGroupName": group});
        }
        if let Some(node) = node {
            spec["nodeName"] = json!(node);
        }
        self.put("pods", name, json!({"metadata": metadata(name), "spec": spec}));
    }

    /// A pod of the group, owned by a Job of the group's name, with one more field in its spec.
    pub fn pod_with(&self, name: &str, group: &str, field: &str, value: Value) {
        let mut spec = json!({"schedulerName": "default-scheduler", "containers": [{"name": "c"}]});
        spec["schedulingGroup"] = json!({"podGroupName": group});
        spec[field] = value;
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": group, "uid": group, "controller": true});
        let mut metadata = metadata(name);
        metadata["ownerReferences"] = json!([owner]);
        self.put("pods", name, json!({"metadata": metadata, "spec": spec}));
    }

    /// Deletes an object of namespace `ns`.
    pub fn remove(&self, plural: &str, name: &str) {
        let mut state = self.state.lock().unwrap();
        state.revision += 1;
        let (key, revision) = (ObjectKey::new("ns", name), Revision(state.revision));
        state.objects.remove(&format!("{plural}/{name}")).unwrap();
        match plural {
            "pods" => self.pods.apply_events([CacheEvent::Deleted(key)], revision),
            _ => self.pod_groups.apply_events([CacheEvent::Deleted(key)], revision),
        }
    }

    pub fn refuse_binds_of(&self, pod: &str) {
        self.state.lock().unwrap().refuse_binds_of.insert(pod.to_owned());
    }

    pub fn accept_binds_of(&self, pod: &str) {
        self.state.lock().unwrap().refuse_binds_of.remove(pod);
    }

    /// Binds and conditions since the last call, one short line each.
    pub fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }

    /// Events since the last call: `type reason object: message`.
    pub fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().events)
    }

    /// The reporters of all Events so far: `reason object component`.
    pub fn reporters(&self) -> Vec<String> {
        self.state.lock().unwrap().reporters.clone()
    }

    /// The largest number of binds in flight so far.
    pub fn max_binding(&self) -> usize {
        self.state.lock().unwrap().max_binding
    }

    fn put(&self, plural: &str, name: &str, mut object: Value) {
        let mut state = self.state.lock().unwrap();
        state.revision += 1;
        let revision = Revision(state.revision);
        object["metadata"]["resourceVersion"] = json!(revision);
        let bytes = object.to_string();
        state.objects.insert(format!("{plural}/{name}"), object);
        drop(state);
        let (caches, plural) = (self.clone(), plural.to_owned());
        let apply = move || caches.apply(&plural, bytes.as_bytes(), revision);
        match &self.lag {
            Some(lag) => lag.send((Instant::now(), Box::new(apply))).unwrap_or_default(),
            None => apply(),
        }
    }

    fn apply(&self, plural: &str, bytes: &[u8], revision: Revision) {
        match plural {
            "pods" => self.pods.apply_events([CacheEvent::Put(PodView::decode(bytes).unwrap())], revision),
            "nodes" => self.nodes.apply_events([CacheEvent::Put(NodeView::decode(bytes).unwrap())], revision),
            _ => self.pod_groups.apply_events([CacheEvent::Put(PodGroupView::decode(bytes).unwrap())], revision),
        }
    }

    async fn respond(self, request: Request<Body>) -> Result<FakeResponse, Infallible> {
        let (parts, body) = request.into_parts();
        let body: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap_or_default();
        let path: Vec<&str> = parts.uri.path().trim_start_matches('/').split('/').collect();
        let at = path.iter().position(|segment| *segment == "namespaces").unwrap() + 2;
        Ok(match path[at..] {
            ["events"] => self.record_event(&body),
            ["pods", pod, "binding"] => self.bind(pod, &body).await,
            [plural, name, "status"] => self.patch_status(plural, name, &body),
            ["pods", pod] if parts.method == http::Method::GET => {
                ok(self.state.lock().unwrap().objects[&format!("pods/{pod}")].clone())
            }
            ["pods", pod] if parts.method == http::Method::DELETE => {
                self.state.lock().unwrap().log.push(format!("delete {pod}"));
                self.remove("pods", pod);
                ok(json!({"metadata": {}}))
            }
            _ => panic!("unexpected {} {}", parts.method, parts.uri),
        })
    }

    fn record_event(&self, event: &Value) -> FakeResponse {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let name = text(&event["involvedObject"]["name"]);
        let line = format!("{} {} {name}: {}", text(&event["type"]), text(&event["reason"]), text(&event["message"]));
        let component = text(&event["reportingComponent"]);
        assert_eq!(event["source"]["component"], component.as_str());
        let mut state = self.state.lock().unwrap();
        state.events.push(line);
        state.reporters.push(format!("{} {name} {component}", text(&event["reason"])));
        ok(json!({"metadata": {}}))
    }

    async fn bind(&self, pod: &str, binding: &Value) -> FakeResponse {
        {
            let mut state = self.state.lock().unwrap();
            state.binding_now += 1;
            state.max_binding = state.max_binding.max(state.binding_now);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        let mut object = {
            let mut state = self.state.lock().unwrap();
            state.binding_now -= 1;
            if state.refuse_binds_of.contains(pod) {
                state.log.push(format!("refused {pod}"));
                return status(409, "Conflict");
            }
            let object = state.objects[&format!("pods/{pod}")].clone();
            assert_eq!(binding["metadata"]["uid"], object["metadata"]["uid"]);
            assert!(object["spec"].get("nodeName").is_none(), "{pod} is bound twice");
            state.log.push(format!("bind {pod}"));
            object
        };
        object["spec"]["nodeName"] = binding["target"]["name"].clone();
        self.put("pods", pod, object);
        status(201, "")
    }

    fn patch_status(&self, plural: &str, name: &str, patch: &Value) -> FakeResponse {
        let mut object = self.state.lock().unwrap().objects[&format!("{plural}/{name}")].clone();
        if object["metadata"]["resourceVersion"] != patch["metadata"]["resourceVersion"] {
            self.state.lock().unwrap().log.push(format!("{name} conflict"));
            return status(409, "Conflict");
        }
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        for condition in patch["status"]["conditions"].as_array().unwrap() {
            let line = format!(
                "{name} {}={} {}",
                text(&condition["type"]),
                text(&condition["status"]),
                text(&condition["reason"])
            );
            self.state.lock().unwrap().log.push(line);
        }
        object["status"]["conditions"] = patch["status"]["conditions"].clone();
        self.put(plural, name, object.clone());
        ok(object)
    }
}

fn metadata(name: &str) -> Value {
    let created = "1970-01-01T00:00:00Z";
    json!({"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "creationTimestamp": created})
}

fn ok(body: Value) -> FakeResponse {
    Response::new(Full::from(body.to_string()))
}

fn status(code: u16, reason: &str) -> FakeResponse {
    let body = json!({"kind": "Status", "code": code, "reason": reason, "message": reason});
    Response::builder().status(code).body(Full::from(body.to_string())).unwrap()
}

/// Starts a scheduler on `server`.
pub fn start(server: &SmallServer, config: Config) -> SchedulerHandle {
    start_with_metrics(server, config, Metrics::default())
}

/// The same with metrics.
pub fn start_with_metrics(server: &SmallServer, config: Config, metrics: Metrics) -> SchedulerHandle {
    let clock = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let (recorder, writer) = Recorder::new("test", server.client(), clock.clone(), Random::seeded(1));
    tokio::spawn(writer);
    let handle = SchedulerHandle::default();
    tokio::spawn(run(SchedulerContext {
        client: server.client(),
        pods: server.pods.clone(),
        nodes: server.nodes.clone(),
        pod_groups: server.pod_groups.clone(),
        composite_pod_groups: Cache::new(&[]),
        clock,
        recorder,
        config,
        handle: handle.clone(),
        metrics,
        monitor: BindMonitor::default(),
    }));
    handle
}

/// Lets `seconds` of virtual time pass.
pub async fn settle(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
