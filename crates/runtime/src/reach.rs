//! Whether the server answers, told to people once and not by every cache on its own.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::{Client, Error};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::failure::message;
use crate::request::{self, Connection};

/// A trouble that lasts is told this often.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// The pause between two probes of the server.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// How long the server has to answer a probe on a connection that there is already.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
/// How long it has to answer one on a new connection.
const NEW_CONNECTION_DEADLINE: Duration = Duration::from_secs(10);

/// What probes are called among the kinds.
const PROBE: &str = "version";

/// What all list-watches of a process know about their server. Clones are the same.
#[derive(Clone, Default)]
pub struct Reach(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// All kinds that are watched.
    kinds: BTreeSet<&'static str>,
    /// The kinds that cannot be read now, and those not read again since the server did not answer a probe.
    troubled: BTreeSet<&'static str>,
    /// When the trouble was last told.
    told: Option<Instant>,
    /// How often all was well again after a trouble, or a kind was there that had not been.
    recoveries: u64,
    /// How often all watches were to begin anew.
    restarts: u64,
}

impl Reach {
    /// Whether every kind could be read when it was last asked for.
    pub fn is_well(&self) -> bool {
        self.lock().troubled.is_empty()
    }

    /// How often all was well again after a trouble, or a kind was there that had not been: each time the server may be
    /// another than before.
    pub fn recoveries(&self) -> u64 {
        self.lock().recoveries
    }

    /// Returns once there have been more recoveries than `seen`.
    pub async fn recovered(&self, seen: u64) {
        loop {
            // Made before the check: a change between the check and the await is not missed.
            let changed = self.0.changed.notified();
            if self.recoveries() > seen {
                return;
            }
            changed.await;
        }
    }

    /// Asks the server again and again whether it answers at all, for ever. The watches of a server that is frozen stay
    /// open, and say nothing either way; nor do those whose connections are dead.
    ///
    /// After a probe without an answer the next one goes out at once, on a new connection. When the server answers again,
    /// all watches begin anew, and until they have, the server is not well.
    pub async fn probe(self, client: Client) {
        let mut connection = Connection::Any;
        loop {
            let deadline = match connection {
                Connection::Any => PROBE_DEADLINE,
                Connection::New => NEW_CONNECTION_DEADLINE,
            };
            let asked = request::get_on(&client, "/version", connection);
            let is_first = connection == Connection::Any;
            match request::within(deadline, asked).await {
                Ok(_) | Err(Error::Api(_)) => {
                    connection = Connection::Any;
                    if self.probe_answered() {
                        self.restart();
                    }
                }
                Err(error) => {
                    connection = Connection::New;
                    self.probe_failed(&error);
                    if is_first {
                        continue;
                    }
                }
            }
            tokio::time::sleep(PROBE_EVERY).await;
        }
    }

    /// How often all watches were to begin anew.
    pub(crate) fn restarts(&self) -> u64 {
        self.lock().restarts
    }

    /// Returns once all watches are to begin anew more often than `seen` times.
    pub(crate) async fn restarted(&self, seen: u64) {
        loop {
            // Made before the check: a change between the check and the await is not missed.
            let changed = self.0.changed.notified();
            if self.restarts() > seen {
                return;
            }
            changed.await;
        }
    }

    /// All watches are to begin anew, where they are: their connections may be dead.
    pub(crate) fn restart(&self) {
        self.lock().restarts += 1;
        self.0.changed.notify_waiters();
    }

    /// The server does not answer at all: every kind has to be read again before all is well.
    fn probe_failed(&self, error: &Error) {
        self.failed(PROBE, error);
        let mut state = self.lock();
        let State { kinds, troubled, .. } = &mut *state;
        troubled.extend(kinds.iter().copied());
    }

    /// The server answers; whether it did not before.
    fn probe_answered(&self) -> bool {
        let was_lost = self.lock().troubled.contains(PROBE);
        self.answered(PROBE);
        was_lost
    }

    /// `kind` cannot be read because of `error`. Tells people, unless somebody just did.
    pub(crate) fn failed(&self, kind: &'static str, error: &Error) {
        let mut state = self.lock();
        state.watched(kind);
        let now = Instant::now();
        let is_news = state.troubled.insert(kind) && matches!(error, Error::Api(_));
        if !is_news && state.told.is_some_and(|told| now.duration_since(told) < TELL_EVERY) {
            return;
        }
        state.told = Some(now);
        drop(state);
        tracing::warn!("{}; trying again", trouble(kind, error));
    }

    /// `kind` can be read.
    pub(crate) fn answered(&self, kind: &'static str) {
        let mut state = self.lock();
        state.watched(kind);
        if state.troubled.remove(kind) && state.troubled.is_empty() {
            state.recoveries += 1;
            state.told = None;
            drop(state);
            tracing::info!("the server answers again");
            self.0.changed.notify_waiters();
        }
    }

    /// `kind` was not served and now is. A server that is replaced without a gap is noticed by this alone.
    pub(crate) fn renewed(&self, kind: &str) {
        self.lock().recoveries += 1;
        tracing::info!("the server now serves {kind}");
        self.0.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn watched(&mut self, kind: &'static str) {
        if kind != PROBE {
            self.kinds.insert(kind);
        }
    }
}

/// What is wrong, and what can be done where trying again is not enough.
fn trouble(kind: &str, error: &Error) -> String {
    let said = message(error);
    match error {
        Error::Api(status) if status.code == 401 => {
            format!("the server does not accept our credentials ({said}): give a kubeconfig that is valid")
        }
        Error::Api(status) if status.code == 403 => {
            format!("{kind} may not be read ({said}): give the user of the kubeconfig list and watch on them")
        }
        Error::Api(_) => format!("{kind} cannot be read: {said}"),
        _ => format!("cannot reach the server: {said}"),
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reach(troubled: {:?})", self.lock().troubled)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16) -> Error {
        Error::Api(Status::failure("said", "").with_code(code).boxed())
    }

    #[test]
    fn a_trouble_says_what_to_do() {
        for (error, want) in [
            (Error::Service("connection refused".into()), "cannot reach the server"),
            (refused(401), "valid"),
            (refused(403), "list and watch"),
            (refused(500), "pods cannot be read: said"),
        ] {
            assert!(trouble("pods", &error).contains(want), "{error}: {}", trouble("pods", &error));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_is_well_again_when_the_last_kind_can_be_read() {
        let reach = Reach::default();
        let seen = reach.recoveries();
        for kind in ["pods", "nodes"] {
            reach.failed(kind, &Error::Service("cut".into()));
        }
        reach.answered("pods");
        assert!(!reach.is_well() && reach.recoveries() == seen);
        let waiting = tokio::spawn({
            let reach = reach.clone();
            async move { reach.recovered(seen).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        reach.answered("nodes");
        assert!(waiting.await.is_ok() && reach.is_well());
        reach.answered("nodes");
        assert_eq!(reach.recoveries(), seen + 1, "nothing was wrong in between");
    }
}
