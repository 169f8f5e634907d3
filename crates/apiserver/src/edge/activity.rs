//! Who waits for whom on a connection. The socket alone does not tell: an HTTP/2 client can read every byte and still
//! never take an answer, because it gives the stream no room.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::edge::Limits;

/// What a connection's requests are at. Clones are the same connection.
#[derive(Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

struct State {
    /// Requests under way, by number; `Some` since when the client has left a piece of the answer unread.
    requests: BTreeMap<u64, Option<Instant>>,
    numbered: u64,
    /// When the last request ended, or the connection began.
    last_used: Instant,
}

/// What a connection is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A request is under way, or one ended not long ago.
    InUse,
    /// There has been no request for long.
    Idle,
    /// The client does not take an answer it asked for.
    Unread,
}

impl Default for Activity {
    fn default() -> Activity {
        Activity(Arc::new(Mutex::new(State { requests: BTreeMap::new(), numbered: 0, last_used: Instant::now() })))
    }
}

impl Activity {
    /// A request begins; it is under way until the guard is dropped.
    pub fn begin(&self) -> UnderWay {
        let number = self.with(|state| {
            state.numbered += 1;
            state.requests.insert(state.numbered, None);
            state.numbered
        });
        UnderWay { activity: self.clone(), number, offered: false }
    }

    /// What the connection is worth at `now`.
    pub fn verdict(&self, now: Instant, limits: &Limits) -> Verdict {
        self.with(|state| {
            let unread = |since: &Option<Instant>| since.is_some_and(|since| now - since >= limits.unread);
            if state.requests.values().any(unread) {
                Verdict::Unread
            } else if state.requests.is_empty() && now - state.last_used >= limits.idle {
                Verdict::Idle
            } else {
                Verdict::InUse
            }
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        // Nothing below can leave the state half changed.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request under way.
pub(super) struct UnderWay {
    activity: Activity,
    number: u64,
    /// Whether the client holds a piece of the answer that it has not taken yet.
    offered: bool,
}

impl UnderWay {
    /// A piece of the answer was handed on; the client is to take it.
    pub fn offered(&mut self) {
        self.offered = true;
        self.note(Some(Instant::now()));
    }

    /// The client took what it was given and waits for more.
    pub fn taken(&mut self) {
        if self.offered {
            self.offered = false;
            self.note(None);
        }
    }

    fn note(&self, since: Option<Instant>) {
        self.activity.with(|state| state.requests.insert(self.number, since));
    }
}

impl Drop for UnderWay {
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
    async fn a_connection_is_idle_only_when_nothing_is_under_way() {
        let (activity, limits) = (Activity::default(), Limits::default());
        let verdict = || activity.verdict(Instant::now(), &limits);
        let request = activity.begin();
        advance(limits.idle * 2).await;
        assert_eq!(verdict(), Verdict::InUse, "the client waits for us, however long");
        drop(request);
        advance(limits.idle / 2).await;
        assert_eq!(verdict(), Verdict::InUse);
        advance(limits.idle / 2).await;
        assert_eq!(verdict(), Verdict::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_is_noticed_and_a_quiet_watch_is_not() {
        let (activity, limits) = (Activity::default(), Limits::default());
        let verdict = || activity.verdict(Instant::now(), &limits);
        let mut watch = activity.begin();
        watch.offered();
        advance(limits.unread / 2).await;
        watch.taken();
        advance(limits.unread * 5).await;
        assert_eq!(verdict(), Verdict::InUse, "a watch without events waits for us");
        watch.offered();
        advance(limits.unread).await;
        assert_eq!(verdict(), Verdict::Unread);
    }
}
