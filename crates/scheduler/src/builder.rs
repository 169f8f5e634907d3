//! A whole scheduler for any API server, with custom filters and scores.

use std::sync::Arc;

use api::views::PodView;
use api::{Clock, Random};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use runtime::{Cache, ListWatchConfig, Recorder, list_and_watch};
use scheduler_core::profile::UnsupportedPluginKind;
use scheduler_core::{Filter, Profile, Score};

use crate::execute::bind_monitor::BindMonitor;
use crate::handle::SchedulerHandle;
use crate::metrics::Metrics;
use crate::run::{Config, SchedulerContext, run};

/// Configures a scheduler; [`Builder::run`] fills its caches, writes its Events and places pods.
///
/// It has no leader election: run at most one scheduler per `schedulerName` at a time.
pub struct Builder {
    client: Client,
    clock: Arc<dyn Clock>,
    random: Random,
    config: Config,
    handle: SchedulerHandle,
    metrics: Metrics,
}

impl Builder {
    /// A scheduler for the server of `client` with the default settings, filters and scores. `random` is for names of Events
    /// and for the jitter of retries.
    pub fn new(client: Client, clock: Arc<dyn Clock>, random: Random) -> Builder {
        let mut config = Config::default();
        // Which Job controller replaces released pods is not known. PodGroups of ours show that it is ours.
        config.core.release_only_ours = true;
        Builder { client, clock, random, config, handle: SchedulerHandle::default(), metrics: Metrics::default() }
    }

    /// Sets the configuration. Filters and scores that were added before are lost.
    pub fn with_config(mut self, config: Config) -> Builder {
        self.config = config;
        self
    }

    /// Places only pods of this `schedulerName`.
    pub fn with_scheduler_name(mut self, name: &str) -> Builder {
        self.config.core.profiles.truncate(1);
        self.config.core.profiles.iter_mut().for_each(|profile| profile.scheduler_name = name.to_owned());
        self
    }

    /// Adds a filter to every profile, after the others of its kind.
    pub fn with_filter(self, filter: Arc<dyn Filter>) -> Result<Builder, UnsupportedPluginKind> {
        self.with_each(|profile| profile.with_filter(Arc::clone(&filter)))
    }

    /// Adds a score to every profile.
    pub fn with_score(self, score: Arc<dyn Score>, weight: i64) -> Result<Builder, UnsupportedPluginKind> {
        self.with_each(|profile| profile.with_score(Arc::clone(&score), weight))
    }

    /// Records into `metrics`.
    pub fn with_metrics(mut self, metrics: Metrics) -> Builder {
        self.metrics = metrics;
        self
    }

    /// The handle for refusals and requests, while the scheduler runs.
    pub fn handle(&self) -> SchedulerHandle {
        self.handle.clone()
    }

    fn with_each(
        mut self,
        change: impl FnMut(Profile) -> Result<Profile, UnsupportedPluginKind>,
    ) -> Result<Builder, UnsupportedPluginKind> {
        let profiles = std::mem::take(&mut self.config.core.profiles);
        self.config.core.profiles = profiles.into_iter().map(change).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Places pods. Never returns.
    pub fn run(self) -> BoxFuture<'static, ()> {
        self.run_forever().boxed()
    }

    async fn run_forever(self) {
        let Builder { client, clock, random, config, handle, metrics } = self;
        let (recorder, events) = Recorder::new(config.name(), client.clone(), clock.clone(), random.clone());
        let context = SchedulerContext {
            client: client.clone(),
            pods: Cache::new(&[PodView::BY_GROUP]),
            nodes: Cache::new(&[]),
            pod_groups: Cache::new(&[]),
            composite_pod_groups: Cache::new(&[]),
            clock,
            recorder,
            config,
            handle,
            metrics,
            monitor: BindMonitor::default(),
        };
        let watch = || ListWatchConfig { random: Some(random.clone()), ..ListWatchConfig::default() };
        tokio::join!(
            list_and_watch(client.clone(), context.nodes.clone(), watch()),
            list_and_watch(client.clone(), context.pod_groups.clone(), watch()),
            list_and_watch(client.clone(), context.composite_pod_groups.clone(), watch()),
            list_and_watch(client, context.pods.clone(), watch()),
            events,
            run(context),
        );
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Builder({:?})", self.config)
    }
}
