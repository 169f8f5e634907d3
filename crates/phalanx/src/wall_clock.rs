//! The machine's own clock.

use api::{Clock, Timestamp};

/// For processes that run for days: whoever sets the machine's clock sets this one, too.
#[derive(Clone, Copy, Debug)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
