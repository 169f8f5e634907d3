//! Leader election by a Lease: of several processes only the holder works.
//!
//! In: a client, the wall clock, tokio's clock.
//! Out: a [`LeadershipState`], and a [`Fence`] that passes writes only while the Lease is held.
//! Promises: a process stops writing, and abandons writes without a response, before its lease ends by its own
//! monotonic clock, also when it was suspended for a while; no process takes a lease over before it has observed it
//! unchanged for the lease's whole duration.
//! Never: compares the clocks of two machines.

mod decide; // whether the lease may be taken; read this first
mod fence; // between the leader's components and the server
mod lease; // the fields of the Lease that are used
mod run; // acquires, renews and releases the lease

use std::time::Duration;

pub use fence::Fence;
pub use run::{Election, LeadershipState, release_lease};

/// The lease, our identity, and the durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Our identity, which must be unique among the processes.
    pub identity: String,
    /// How long other processes wait after the last renewal.
    pub lease_duration: Duration,
    /// How long the holder tries to renew before it stops and abandons its writes. Shorter than `lease`: the difference
    /// is for writes that are already sent.
    pub renew_deadline: Duration,
    /// The time between two attempts.
    pub retry_period: Duration,
}

impl ElectionSettings {
    /// The durations of kube-scheduler, in `kube-system`.
    pub fn new(name: impl Into<String>, identity: impl Into<String>) -> ElectionSettings {
        ElectionSettings {
            namespace: "kube-system".to_owned(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// What is wrong with the durations.
    pub fn validate(&self) -> Result<(), &'static str> {
        match () {
            () if self.lease_duration.as_secs() == 0 => Err("leaseDuration must be at least 1 s"),
            () if self.renew_deadline >= self.lease_duration => Err("renewDeadline must be shorter than leaseDuration"),
            () if self.retry_period.is_zero() => Err("retryPeriod must be longer than nothing"),
            // Two attempts must fit in, or one lost response costs the lease.
            () if self.retry_period * 2 > self.renew_deadline => {
                Err("renewDeadline must be at least twice retryPeriod")
            }
            () => Ok(()),
        }
    }
}
