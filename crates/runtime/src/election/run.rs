//! Acquires the lease, renews it, and releases it in time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Error};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use types::kinds;
use types::views::ObjectKey;
use types::{Clock, Random};

use super::decide::{LeaseAction, ObservedLease};
use super::lease::LeaseRecord;
use super::{ElectionSettings, Fence};
use crate::backoff::Backoff;
use crate::failure::{is_not_found, message};
use crate::request::{get, post, put};

/// The longest time that releasing the lease may take, so that a stop does not hang.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// An ongoing failure is logged this often.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The state of this process in the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadershipState {
    /// Another process has the lease, or the server could not be reached yet. Nothing may be written.
    Standby,
    /// We had the lease and lost it. Nothing may be written.
    Lost,
    /// We have the lease, for the n-th time.
    Leading(u32),
}

/// The participation of one process in an election.
pub struct Election {
    client: Client,
    settings: ElectionSettings,
    clock: Arc<dyn Clock>,
    random: Random,
    observed_lease: ObservedLease,
    fence: Fence,
    leadership: watch::Sender<LeadershipState>,
    failure_log: FailureLog,
}

/// The last failure that was logged, and when.
#[derive(Default)]
struct FailureLog(Option<(String, Instant)>);

impl FailureLog {
    /// Whether to log a failure: another cause than before, or the same for a long time.
    fn add(&mut self, cause: &str, now: Instant) -> bool {
        let was_just_logged =
            |(logged, logged_at): &(String, Instant)| logged == cause && now.duration_since(*logged_at) < LOG_INTERVAL;
        if self.0.as_ref().is_some_and(was_just_logged) {
            return false;
        }
        self.0 = Some((cause.to_owned(), now));
        true
    }
}

impl Election {
    /// The state of this process, the fence for its components, and the task that must be polled.
    pub fn of(
        client: Client,
        settings: ElectionSettings,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> (watch::Receiver<LeadershipState>, Fence, impl Future<Output = ()> + Send) {
        let (sender, state) = watch::channel(LeadershipState::Standby);
        let fence = Fence::default();
        let election = Election {
            client,
            settings,
            clock,
            random,
            observed_lease: ObservedLease::default(),
            fence: fence.clone(),
            leadership: sender,
            failure_log: FailureLog::default(),
        };
        (state, fence, election.run())
    }

    async fn run(mut self) {
        for term in 1.. {
            let won_at = self.acquire().await;
            self.fence.open_until(won_at + self.settings.renew_deadline);
            self.leadership.send_replace(LeadershipState::Leading(term));
            self.renew(won_at).await;
            self.fence.close();
            self.leadership.send_replace(LeadershipState::Lost);
        }
    }

    /// Returns when the lease is ours, with the time of the request.
    async fn acquire(&mut self) -> Instant {
        let mut logged_holder = None;
        loop {
            let requested_at = Instant::now();
            match timeout(self.settings.renew_deadline, self.try_acquire_or_renew()).await {
                Ok(Ok(true)) => {
                    self.failure_log = FailureLog::default();
                    return requested_at;
                }
                Ok(Ok(false)) => {
                    self.leadership.send_if_modified(|state| {
                        let was_lost = *state == LeadershipState::Lost;
                        *state = LeadershipState::Standby;
                        was_lost
                    });
                    let record = self.observed_lease.record();
                    let holder = record.holder().map(str::to_owned);
                    if holder.is_some() && holder != logged_holder {
                        let holder = holder.as_deref().unwrap_or_default();
                        tracing::info!(lease = %self.path(), "standing by: {holder} holds the lease");
                    }
                    logged_holder = holder;
                }
                Ok(Err(error)) => self.log_failure(&message(&error)),
                Err(_) => self.log_failure("no response"),
            }
            self.pause().await;
        }
    }

    /// Renews the lease until renewal fails for too long.
    async fn renew(&mut self, won_at: Instant) {
        let mut until = won_at + self.settings.renew_deadline;
        tracing::info!(lease = %self.path(), "holding the lease as {}", self.settings.identity);
        loop {
            // The deadline counts from the request, not from the response: the server may have written it at once.
            let next = Instant::now() + self.settings.retry_period;
            sleep_until(next.min(until)).await;
            let requested_at = Instant::now();
            if requested_at >= until {
                tracing::error!(lease = %self.path(), "the lease was not renewed in time: standing by before it ends");
                return;
            }
            match timeout_at(until, self.try_acquire_or_renew()).await {
                Ok(Ok(true)) => {
                    self.failure_log = FailureLog::default();
                    until = requested_at + self.settings.renew_deadline;
                    self.fence.open_until(until);
                }
                Ok(Ok(false)) => {
                    match self.observed_lease.record().holder() {
                        Some(holder) => {
                            tracing::error!(lease = %self.path(), "{holder} holds the lease now: standing by")
                        }
                        None => tracing::error!(lease = %self.path(), "the lease has no holder: standing by"),
                    }
                    return;
                }
                Ok(Err(error)) => self.log_failure(&message(&error)),
                Err(_) => self.log_failure("no response"),
            }
        }
    }

    /// One read of the lease and, if it may be taken, one write. Returns whether it is ours then.
    async fn try_acquire_or_renew(&mut self) -> Result<bool, Error> {
        let found = match get(&self.client, &self.path()).await {
            Ok(bytes) => Some(serde_json::from_slice::<LeaseRecord>(&bytes).map_err(Error::SerdeError)?),
            Err(error) if is_not_found(&error) => None,
            Err(error) => return Err(error),
        };
        self.observed_lease.observe(found, Instant::now());
        let lease = self.observed_lease.record().acquired(&self.settings, self.clock.now());
        let written = match self.observed_lease.next_action(&self.settings, Instant::now()) {
            LeaseAction::Wait(_) => return Ok(false),
            LeaseAction::Create => post(&self.client, &self.collection(), &lease).await,
            LeaseAction::Take => put(&self.client, &self.path(), &lease).await,
        };
        // Another process was faster, or an earlier write of ours arrived late. The next read shows which.
        written.map(|_| true)
    }

    /// A random time in the upper half of the interval, so that candidates do not send requests at the same time.
    async fn pause(&self) {
        let every = Backoff { initial: self.settings.retry_period, max: self.settings.retry_period };
        tokio::time::sleep(every.jittered(1, &self.random)).await;
    }

    fn log_failure(&mut self, cause: &str) {
        if !self.failure_log.add(cause, Instant::now()) {
            return;
        }
        tracing::warn!(lease = %self.path(), "cannot acquire or renew the lease: {cause}; retrying");
    }

    fn path(&self) -> String {
        path(&self.settings)
    }

    fn collection(&self) -> String {
        kinds::LEASE.collection_path(&self.settings.namespace)
    }
}

fn path(settings: &ElectionSettings) -> String {
    kinds::LEASE.object_path(&ObjectKey::new(settings.namespace.as_str(), settings.name.as_str()))
}

/// Releases the lease, so that the next process need not wait for its end. Only after the last write of this process.
pub async fn release_lease(client: &Client, settings: &ElectionSettings, clock: &dyn Clock) {
    let release = async {
        let record: LeaseRecord =
            serde_json::from_slice(&get(client, &path(settings)).await?).map_err(Error::SerdeError)?;
        if record.holder() == Some(&settings.identity) {
            put(client, &path(settings), &record.released(settings, clock.now())).await?;
        }
        Ok::<(), Error>(())
    };
    // If it fails, the other processes only wait for the end of the lease.
    match timeout(RELEASE_TIMEOUT, release).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("the lease was not released: {}", message(&error)),
        Err(_) => tracing::warn!("the lease was not released: no response"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server out of reach was logged at every attempt, every two seconds.
    #[tokio::test(start_paused = true)]
    async fn an_ongoing_failure_is_logged_once_a_minute() {
        let (mut log, start) = (FailureLog::default(), Instant::now());
        let mut logged_after = |cause: &str, seconds: u64| log.add(cause, start + Duration::from_secs(seconds));
        assert!(logged_after("connection refused", 0));
        assert!(!logged_after("connection refused", 2) && !logged_after("connection refused", 59));
        assert!(logged_after("no response", 59), "another cause is news");
        assert!(logged_after("no response", 119));
    }
}
