//! Requests in flight and unread responses of a connection. The socket alone does not show them: an HTTP/2 client can
//! read every byte and still never read a response, because it does not extend the flow-control window of the stream.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::edge::EdgeLimits;

/// The requests of a connection. Clones share the state.
#[derive(Clone)]
pub(super) struct ConnectionActivity(Arc<Mutex<ActivityState>>);

struct ActivityState {
    /// Requests in flight, by number; `Some` since when the client has left a piece of the response unread.
    requests: BTreeMap<u64, Option<Instant>>,
    numbered: u64,
    /// When the last request ended, or the connection began.
    last_used: Instant,
}

/// Whether a connection is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionStatus {
    /// A request is in flight, or one ended recently.
    InUse,
    /// There has been no request for `idle_timeout`.
    Idle,
    /// The client does not read a response that it requested.
    Unread,
}

impl Default for ConnectionActivity {
    fn default() -> ConnectionActivity {
        ConnectionActivity(Arc::new(Mutex::new(ActivityState {
            requests: BTreeMap::new(),
            numbered: 0,
            last_used: Instant::now(),
        })))
    }
}

impl ConnectionActivity {
    /// Begins a request; it is in flight until the guard is dropped.
    pub fn begin(&self) -> RequestGuard {
        let number = self.with(|state| {
            state.numbered += 1;
            state.requests.insert(state.numbered, None);
            state.numbered
        });
        RequestGuard { activity: self.clone(), number, frame_pending: false }
    }

    /// The status of the connection at `now`.
    pub fn status(&self, now: Instant, limits: &EdgeLimits) -> ConnectionStatus {
        self.with(|state| {
            let unread = |since: &Option<Instant>| since.is_some_and(|since| now - since >= limits.unread_timeout);
            if state.requests.values().any(unread) {
                ConnectionStatus::Unread
            } else if state.requests.is_empty() && now - state.last_used >= limits.idle_timeout {
                ConnectionStatus::Idle
            } else {
                ConnectionStatus::InUse
            }
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut ActivityState) -> T) -> T {
        // No closure can panic halfway through a change of the state.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request in flight.
pub(super) struct RequestGuard {
    activity: ConnectionActivity,
    number: u64,
    /// Whether the client has not yet read a frame of the response.
    frame_pending: bool,
}

impl RequestGuard {
    /// A frame of the response was sent, and the client has to read it.
    pub fn frame_sent(&mut self) {
        self.frame_pending = true;
        self.set_unread_since(Some(Instant::now()));
    }

    /// The client read the frame and waits for the next one.
    pub fn frame_taken(&mut self) {
        if self.frame_pending {
            self.frame_pending = false;
            self.set_unread_since(None);
        }
    }

    fn set_unread_since(&self, since: Option<Instant>) {
        self.activity.with(|state| state.requests.insert(self.number, since));
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.activity.with(|state| {
            state.requests.remove(&self.number);
            state.last_used = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_without_requests_in_flight() {
        let (activity, limits) = (ConnectionActivity::default(), EdgeLimits::default());
        let verdict = || activity.status(Instant::now(), &limits);
        let request = activity.begin();
        advance(limits.idle_timeout * 2).await;
        assert_eq!(verdict(), ConnectionStatus::InUse, "the client waits for the server");
        drop(request);
        advance(limits.idle_timeout / 2).await;
        assert_eq!(verdict(), ConnectionStatus::InUse);
        advance(limits.idle_timeout / 2).await;
        assert_eq!(verdict(), ConnectionStatus::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_response_is_noticed_and_a_watch_without_events_is_not() {
        let (activity, limits) = (ConnectionActivity::default(), EdgeLimits::default());
        let verdict = || activity.status(Instant::now(), &limits);
        let mut watch = activity.begin();
        watch.frame_sent();
        advance(limits.unread_timeout / 2).await;
        watch.frame_taken();
        advance(limits.unread_timeout * 5).await;
        assert_eq!(verdict(), ConnectionStatus::InUse, "a watch without events waits for the server");
        watch.frame_sent();
        advance(limits.unread_timeout).await;
        assert_eq!(verdict(), ConnectionStatus::Unread);
    }
}
