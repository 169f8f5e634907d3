//! What the parts of one process count.

use std::sync::Arc;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// The counters of a process, its server's own aside. Clones count into the same.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// Those of the controllers.
    pub(crate) controllers: controllers::Metrics,
    /// Those of the scheduler.
    pub(crate) scheduler: scheduler::Metrics,
}

impl Metrics {
    /// Adds all that is counted to `text`, in the form of `/metrics`.
    pub(crate) fn write(&self, text: &mut String) {
        text::encode_registry(text, &self.registry).expect("a text takes every write");
    }
}

impl Default for Metrics {
    /// Nothing counted yet.
    fn default() -> Metrics {
        let mut registry = Registry::default();
        let controllers = controllers::Metrics::register(&mut registry);
        let scheduler = scheduler::Metrics::register(&mut registry);
        Metrics { registry: Arc::new(registry), controllers, scheduler }
    }
}
