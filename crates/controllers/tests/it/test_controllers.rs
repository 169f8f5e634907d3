//! Server, caches and controllers around a test. There is no scheduler: the test writes the phases of pods.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use api::gates::Gates;
use api::views::{
    CompositePodGroupView, JobView, MetaView, NamespaceView, ObjectKey, PodGroupView, PodView, View, WorkloadView,
};
use api::{Clock, Random, Timestamp};
use apiserver::{ApiServer, Identity};
use futures::FutureExt;
use kube::Client;
use phalanx_controllers::job::job_params::TRACKING_FINALIZER;
use phalanx_controllers::{gc, job, podgroup_protection};
use runtime::request;
use runtime::{Cache, ListWatchConfig, PatchKind, Recorder, TokioClock, list_and_watch};
use serde_json::{Value, json};
use store::{Committer, HistoryLimits, Store};

/// A client, and the caches that a test waits on.
#[derive(Clone)]
pub struct TestControllers {
    pub client: Client,
    pub jobs: Cache<JobView>,
    pub pods: Cache<PodView>,
    pub workloads: Cache<WorkloadView>,
    pub pod_groups: Cache<PodGroupView>,
    pub composite_pod_groups: Cache<CompositePodGroupView>,
    pub namespaces: Cache<NamespaceView>,
}

/// Runs `test` with everything around it.
pub async fn with_controllers<F: Future<Output = ()>>(test: impl FnOnce(TestControllers) -> F) {
    with_restarts(None, test).await;
}

/// Runs `test` while the controllers crash at random await points and start again without their memory.
pub async fn with_crashing_controllers<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(TestControllers) -> F) {
    with_restarts(Some(Random::seeded(seed)), test).await;
}

async fn with_restarts<F: Future<Output = ()>>(crashes: Option<Random>, test: impl FnOnce(TestControllers) -> F) {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::from_second(1_700_000_000).unwrap()));
    let random = Random::seeded(1);
    let store = Store::in_memory(HistoryLimits::default());
    let server = ApiServer::new(apiserver::Config {
        committer: Committer::in_place(store.clone()),
        store,
        clock: clock.clone(),
        random: random.clone(),
        gates: Gates::default(),
    })
    .unwrap();
    let client = server.client(Identity { user: "test".to_owned(), groups: vec!["system:masters".to_owned()] });
    let cluster = TestControllers {
        client: client.clone(),
        jobs: Cache::new(&[
            JobView::BY_CONTROLLER,
            JobView::BY_WORKLOAD_REF,
            JobView::BY_TEMPLATE_GROUP,
            JobView::BY_SELECTOR,
        ]),
        pods: Cache::new(&[PodView::BY_CONTROLLER, PodView::BY_ORPHAN_LABEL, PodView::BY_GROUP]),
        workloads: Cache::new(&[WorkloadView::BY_CONTROLLER_REF]),
        pod_groups: Cache::new(&[PodGroupView::BY_WORKLOAD, PodGroupView::BY_PARENT]),
        composite_pod_groups: Cache::new(&[CompositePodGroupView::BY_PARENT]),
        namespaces: Cache::new(&[]),
    };
    let (recorder, events) = Recorder::new("job-controller", client.clone(), clock.clone(), random);
    let watch = ListWatchConfig::default;
    let background = async {
        tokio::join!(
            list_and_watch(client.clone(), cluster.jobs.clone(), watch()),
            list_and_watch(client.clone(), cluster.pods.clone(), watch()),
            list_and_watch(client.clone(), cluster.workloads.clone(), watch()),
            list_and_watch(client.clone(), cluster.pod_groups.clone(), watch()),
            list_and_watch(client.clone(), cluster.composite_pod_groups.clone(), watch()),
            list_and_watch(client.clone(), cluster.namespaces.clone(), watch()),
            run_with_restarts(crashes, || run_controllers(cluster.clone(), clock.clone(), recorder.clone())),
            events,
        )
    };
    tokio::select! { biased;
        () = test(cluster.clone()) => {}
        _ = background => panic!("a controller ended"),
    }
}

async fn run_controllers(cluster: TestControllers, clock: Arc<dyn Clock>, recorder: Recorder) {
    let metrics = phalanx_controllers::Metrics::default();
    let served = gc::ReadableKinds { capabilities: runtime::Capabilities::everything(), gates: Gates::default() };
    let collector = gc::GcContext::new(cluster.client.clone(), served, metrics.clone())
        .with_cache(&cluster.jobs)
        .with_cache(&cluster.pods)
        .with_cache(&cluster.workloads)
        .with_cache(&cluster.composite_pod_groups)
        .with_cache(&cluster.pod_groups);
    let protection = podgroup_protection::PodGroupProtectionContext {
        client: cluster.client.clone(),
        composite_pod_groups: cluster.composite_pod_groups.clone(),
        pod_groups: cluster.pod_groups.clone(),
        pods: cluster.pods.clone(),
        metrics: metrics.clone(),
    };
    let TestControllers { client, jobs, pods, workloads, pod_groups, namespaces, .. } = cluster;
    let (config, gates) = (job::Config::default(), Gates::default());
    let capabilities = runtime::Capabilities::everything();
    let job = job::JobContext {
        client,
        jobs,
        pods,
        workloads,
        pod_groups,
        namespaces,
        clock,
        capabilities,
        recorder,
        config,
        gates,
        metrics,
    };
    // Boxed like a task, so that all must be `Send`.
    tokio::join!(job::run(job).boxed(), gc::run(collector).boxed(), podgroup_protection::run(protection).boxed());
}

/// Polls the future of `start`. After a random number of polls it is dropped at that point and started again.
async fn run_with_restarts<F: Future<Output = ()>>(crashes: Option<Random>, start: impl Fn() -> F) {
    loop {
        let mut running = Box::pin(start());
        let mut polls = crashes.as_ref().map_or(u64::MAX, |random| 1 + random.below(40));
        poll_fn(|context| {
            polls -= 1;
            if polls == 0 {
                // Woken at once, because otherwise the next future would not be polled.
                context.waker().wake_by_ref();
                return Poll::Ready(());
            }
            running.as_mut().poll(context)
        })
        .await;
        tokio::task::yield_now().await;
    }
}

impl TestControllers {
    /// Posts a Job called `train` with this spec.
    pub async fn post_job(&self, spec: Value) {
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "train" },
            "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "app" }] } } },
        });
        spec.as_object().unwrap().iter().for_each(|(field, value)| job["spec"][field] = value.clone());
        let path = JobView::RESOURCE.collection_path("default");
        let response = request::post(&self.client, &path, &job).await.unwrap();
        self.jobs.wait_for_revision(response.revision).await;
    }

    pub async fn delete_job(&self, policy: &str) {
        let path = JobView::RESOURCE.object_path(&ObjectKey::new("default", "train"));
        request::delete(&self.client, &path, &json!({ "propagationPolicy": policy })).await.unwrap();
    }

    pub async fn patch_job(&self, patch: Value) {
        let path = JobView::RESOURCE.object_path(&ObjectKey::new("default", "train"));
        request::patch(&self.client, &path, PatchKind::Merge, &patch).await.unwrap();
    }

    /// Writes the phase of all pods, as kubelets would, and waits until the cache shows it, so that no pod ends twice. Returns
    /// how many pods had the tracking finalizer at that moment: this many ends must be counted.
    pub async fn end_pods(&self, phase: &str) -> usize {
        let mut to_count = 0;
        for pod in self.pods.all().into_iter().filter(|pod| !pod.is_finished()) {
            let path = format!("{}/status", PodView::RESOURCE.object_path(&pod.metadata.key()));
            let end = json!({ "op": "add", "path": "/status/phase", "value": phase });
            let has_finalizer = json!({ "op": "test", "path": "/metadata/finalizers/0", "value": TRACKING_FINALIZER });
            let response =
                match request::patch(&self.client, &path, PatchKind::Json, &json!([has_finalizer, end])).await {
                    Ok(response) => {
                        to_count += 1;
                        Ok(response)
                    }
                    Err(_) => request::patch(&self.client, &path, PatchKind::Json, &json!([end])).await,
                };
            // A surplus pod may be gone by now.
            if let Ok(response) = response {
                self.pods.wait_for_revision(response.revision).await;
            }
        }
        to_count
    }

    pub fn job(&self) -> Arc<JobView> {
        self.jobs.get(&ObjectKey::new("default", "train")).expect("the Job exists")
    }

    /// The kinds of all objects, and whether they are being deleted.
    pub fn objects(&self) -> Vec<String> {
        fn of<V: View>(cache: &Cache<V>) -> Vec<String> {
            let line = |meta: &MetaView| {
                format!("{}{}", V::RESOURCE.kind, if meta.is_deleting() { " (deleting)" } else { "" })
            };
            cache.all().iter().map(|object| line(object.meta())).collect()
        }
        [of(&self.jobs), of(&self.workloads), of(&self.pod_groups), of(&self.pods)].concat()
    }

    /// Waits until `is_reached`, at most ten simulated minutes.
    pub async fn eventually(&self, what: &str, is_reached: impl Fn(&TestControllers) -> bool) {
        for _ in 0..6_000 {
            if is_reached(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never happened: {what}; there are {:?}; {:#?}", self.objects(), self.jobs.all());
    }

    /// The reasons of all Events.
    pub async fn events(&self) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let response = request::get(&self.client, "/api/v1/namespaces/default/events").await.unwrap();
        let list: Value = serde_json::from_slice(&response).unwrap();
        list["items"].as_array().unwrap().iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }
}
