//! Binds in flight of a half-placed gang: its release waits for them while they make progress.

use std::time::Duration;

use types::Timestamp;

/// How often a release that waits for binds in flight checks them.
pub(crate) const BINDS_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long it waits while none of them completes. The server responds, or is read again, in half that time.
pub(crate) const MAX_BINDS_WAIT: Duration = Duration::from_secs(30);

/// Binds in flight of a gang that is to be released.
#[derive(Debug)]
pub(crate) struct PendingBinds {
    pub(crate) count: usize,
    /// Since when there are so many.
    pub(crate) since: Timestamp,
}
