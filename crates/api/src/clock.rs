//! The time, as an argument.

pub use jiff::Timestamp;

/// Tells the wall time that objects carry. Control loops sleep on tokio's clock; both share one origin, so that on
/// the paused clock a whole cluster is a deterministic simulation (design: section 2).
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// Kubernetes' `metav1.Time` text: whole seconds, UTC.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Kubernetes' `metav1.MicroTime` text: six digits, UTC.
pub fn rfc3339_micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
