//! Which of several alike processes does the work: the one whose name stands in a Lease.
//!
//! In: a client, the time that objects carry, tokio's clock.
//! Out: a [`Standing`], and a [`Fence`] that lets writes through only while the lease is held.
//! Promises: a process stops writing, and gives up writes without an answer, before its lease ends by its own monotonic
//! clock, also when it was not scheduled for a while; no process takes a lease over before it has seen it unchanged for
//! the lease's whole duration.
//! Never: compares the clocks of two machines.

mod decide; // whose turn it is; read this first
mod fence; // between the winner's parts and the server
mod record; // the Lease, as far as it is read
mod run; // asks, renews, gives up

use std::time::Duration;

pub use fence::Fence;
pub use run::{Election, Standing, give_back};

/// Which lease, under which name, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; no two processes may have the same.
    pub identity: String,
    /// How long the others wait after the last renewal.
    pub lease: Duration,
    /// How long the holder tries to renew before it stops and gives up its writes. Shorter than `lease`: what is left is for
    /// writes that are on the wire.
    pub renew: Duration,
    /// The time between two attempts.
    pub retry: Duration,
}

impl Settings {
    /// The durations of kube-scheduler, in `kube-system`.
    pub fn new(name: impl Into<String>, identity: impl Into<String>) -> Settings {
        Settings {
            namespace: "kube-system".to_owned(),
            name: name.into(),
            identity: identity.into(),
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    /// What is wrong with the durations, if anything is.
    pub fn check(&self) -> Result<(), &'static str> {
        match () {
            () if self.lease.as_secs() == 0 => Err("leaseDuration must be at least 1 s"),
            () if self.renew >= self.lease => Err("renewDeadline must be shorter than leaseDuration"),
            () if self.retry.is_zero() => Err("retryPeriod must be longer than nothing"),
            // Two attempts must fit in, or one lost answer costs the lease.
            () if self.retry * 2 > self.renew => Err("renewDeadline must be at least twice retryPeriod"),
            () => Ok(()),
        }
    }
}
