//! A whole scheduler for any API server, with filters and scores of one's own.

use std::sync::Arc;

use api::views::PodView;
use api::{Clock, Random};
use kube::Client;
use runtime::{Cache, ListWatchConfig, Recorder, list_and_watch};
use scheduler_core::profile::UnsupportedPluginKind;
use scheduler_core::{Filter, Profile, Score};

use crate::bind_monitor::BindMonitor;
use crate::handle::SchedulerHandle;
use crate::metrics::Metrics;
use crate::run::{Config, SchedulerContext, run};

/// What a scheduler is made of; [`Builder::run`] keeps its caches, writes its Events and places pods.
///
/// It takes no part in an election: of those that judge pods of one `schedulerName`, run one at a time.
pub struct Builder {
    client: Client,
    clock: Arc<dyn Clock>,
    random: Random,
    config: Config,
    handle: SchedulerHandle,
    metrics: Metrics,
}

impl Builder {
    /// A scheduler for the server of `client` with the default settings, filters and scores. `random` draws names of Events
    /// and spreads retries.
    pub fn new(client: Client, clock: Arc<dyn Clock>, random: Random) -> Builder {
        let mut config = Config::default();
        // Whose Job controller it is that would make released pods anew is not known; where it is ours, its groups tell.
        config.core.release_only_ours = true;
        Builder { client, clock, random, config, handle: SchedulerHandle::default(), metrics: Metrics::default() }
    }

    /// With these settings. Filters and scores that were added before are lost.
    pub fn with_config(mut self, config: Config) -> Builder {
        self.config = config;
        self
    }

    /// For pods of this `schedulerName`, and no others.
    pub fn with_scheduler_name(mut self, name: &str) -> Builder {
        self.config.core.profiles.truncate(1);
        self.config.core.profiles.iter_mut().for_each(|profile| profile.scheduler_name = name.to_owned());
        self
    }

    /// With a filter of one's own in every profile, asked after the others of its kind.
    pub fn with_filter(self, filter: Arc<dyn Filter>) -> Result<Builder, UnsupportedPluginKind> {
        self.with_each(|profile| profile.with_filter(Arc::clone(&filter)))
    }

    /// With a score of one's own in every profile.
    pub fn with_score(self, score: Arc<dyn Score>, weight: i64) -> Result<Builder, UnsupportedPluginKind> {
        self.with_each(|profile| profile.with_score(Arc::clone(&score), weight))
    }

    /// Counting into `metrics`.
    pub fn with_metrics(mut self, metrics: Metrics) -> Builder {
        self.metrics = metrics;
        self
    }

    /// Where refusals are shown, and questions answered, while it runs.
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

    /// Places pods for ever.
    pub async fn run(self) {
        let Builder { client, clock, random, config, handle: answers, metrics } = self;
        let (recorder, events) = Recorder::new(config.name(), client.clone(), clock.clone(), random.clone());
        let parts = SchedulerContext {
            client: client.clone(),
            pods: Cache::new(&[PodView::BY_GROUP]),
            nodes: Cache::new(&[]),
            pod_groups: Cache::new(&[]),
            composite_pod_groups: Cache::new(&[]),
            clock,
            recorder,
            config,
            handle: answers,
            metrics,
            monitor: BindMonitor::default(),
        };
        let watch = || ListWatchConfig { random: Some(random.clone()), ..ListWatchConfig::default() };
        tokio::join!(
            list_and_watch(client.clone(), parts.nodes.clone(), watch()),
            list_and_watch(client.clone(), parts.pod_groups.clone(), watch()),
            list_and_watch(client.clone(), parts.composite_pod_groups.clone(), watch()),
            list_and_watch(client, parts.pods.clone(), watch()),
            events,
            run(parts),
        );
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Builder({:?})", self.config)
    }
}
