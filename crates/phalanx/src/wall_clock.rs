//! The machine's clock.

use api::{Clock, Timestamp};

/// The system time. It follows corrections of the machine's clock, as processes that run for days need.
#[derive(Clone, Copy, Debug)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
