//! The metrics of one process.

use std::sync::Arc;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// The metrics of a process, except those of its server. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// Those of the controllers.
    pub(crate) controllers: controllers::Metrics,
    /// Those of the scheduler.
    pub(crate) scheduler: scheduler::Metrics,
}

impl Metrics {
    /// How many waiting units of the scheduler were found to fit although no change had woken them. Each is a defect.
    pub fn missed_wakeups(&self) -> u64 {
        self.scheduler.missed_wakeups()
    }

    /// Appends all metrics to `text`, in the form of `/metrics`.
    pub(crate) fn write(&self, text: &mut String) {
        text::encode_registry(text, &self.registry).expect("a string accepts every write");
    }
}

impl Default for Metrics {
    /// All metrics at zero.
    fn default() -> Metrics {
        let mut registry = Registry::default();
        let controllers = controllers::Metrics::register(&mut registry);
        let scheduler = scheduler::Metrics::register(&mut registry);
        Metrics { registry: Arc::new(registry), controllers, scheduler }
    }
}
