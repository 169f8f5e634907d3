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
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The pause between two probes of the server.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// How long the server has to answer a probe on a connection that there is already.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
/// How long it has to answer one on a new connection.
const NEW_CONNECTION_DEADLINE: Duration = Duration::from_secs(10);

/// What probes are called among the kinds.
const PROBE: &str = "version";

/// What all list-watches of a process know about their server. Clones are the same.
#[derive(Clone, Default)]
pub struct Reachability(Arc<ReachabilityInner>);

#[derive(Default)]
struct ReachabilityInner {
    state: Mutex<ReachabilityState>,
    changed: Notify,
}

#[derive(Default)]
struct ReachabilityState {
    /// All kinds that are watched.
    kinds: BTreeSet<&'static str>,
    /// The kinds that cannot be read now, and those not read again since the server did not answer a probe.
    unreachable: BTreeSet<&'static str>,
    /// When the trouble was last told.
    last_logged: Option<Instant>,
    /// How often all was well again after a trouble, or a kind was there that had not been.
    recoveries: u64,
    /// How often all watches were to begin anew.
    restarts: u64,
}

impl Reachability {
    /// Whether every kind could be read when it was last asked for.
    pub fn is_reachable(&self) -> bool {
        self.lock().unreachable.is_empty()
    }

    /// How often all was well again after a trouble, or a kind was there that had not been: each time the server may be
    /// another than before.
    pub fn recoveries(&self) -> u64 {
        self.lock().recoveries
    }

    /// Returns once there have been more recoveries than `seen`.
    pub async fn wait_for_recovery(&self, seen: u64) {
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
            match request::with_deadline(deadline, asked).await {
                Ok(_) | Err(Error::Api(_)) => {
                    connection = Connection::Any;
                    if self.probe_answered() {
                        self.restart_watches();
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
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
    }

    /// How often all watches were to begin anew.
    pub(crate) fn restarts(&self) -> u64 {
        self.lock().restarts
    }

    /// Returns once all watches are to begin anew more often than `seen` times.
    pub(crate) async fn wait_for_restart(&self, seen: u64) {
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
    pub(crate) fn restart_watches(&self) {
        self.lock().restarts += 1;
        self.0.changed.notify_waiters();
    }

    /// The server does not answer at all: every kind has to be read again before all is well.
    fn probe_failed(&self, error: &Error) {
        self.report_failure(PROBE, error);
        let mut state = self.lock();
        let ReachabilityState { kinds, unreachable: troubled, .. } = &mut *state;
        troubled.extend(kinds.iter().copied());
    }

    /// The server answers; whether it did not before.
    fn probe_answered(&self) -> bool {
        let was_lost = self.lock().unreachable.contains(PROBE);
        self.report_success(PROBE);
        was_lost
    }

    /// `kind` cannot be read because of `error`. Tells people, unless somebody just did.
    pub(crate) fn report_failure(&self, kind: &'static str, error: &Error) {
        let mut state = self.lock();
        state.add_kind(kind);
        let now = Instant::now();
        let is_news = state.unreachable.insert(kind) && matches!(error, Error::Api(_));
        if !is_news && state.last_logged.is_some_and(|told| now.duration_since(told) < LOG_INTERVAL) {
            return;
        }
        state.last_logged = Some(now);
        drop(state);
        tracing::warn!("{}; trying again", failure_message(kind, error));
    }

    /// `kind` can be read.
    pub(crate) fn report_success(&self, kind: &'static str) {
        let mut state = self.lock();
        state.add_kind(kind);
        if state.unreachable.remove(kind) && state.unreachable.is_empty() {
            state.recoveries += 1;
            state.last_logged = None;
            drop(state);
            tracing::info!("the server answers again");
            self.0.changed.notify_waiters();
        }
    }

    /// `kind` was not served and now is. A server that is replaced without a gap is noticed by this alone.
    pub(crate) fn report_newly_served(&self, kind: &str) {
        self.lock().recoveries += 1;
        tracing::info!("the server now serves {kind}");
        self.0.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, ReachabilityState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReachabilityState {
    fn add_kind(&mut self, kind: &'static str) {
        if kind != PROBE {
            self.kinds.insert(kind);
        }
    }
}

/// What is wrong, and what can be done where trying again is not enough.
fn failure_message(kind: &str, error: &Error) -> String {
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

impl fmt::Debug for Reachability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reach(troubled: {:?})", self.lock().unreachable)
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
            assert!(failure_message("pods", &error).contains(want), "{error}: {}", failure_message("pods", &error));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_is_well_again_when_the_last_kind_can_be_read() {
        let reach = Reachability::default();
        let seen = reach.recoveries();
        for kind in ["pods", "nodes"] {
            reach.report_failure(kind, &Error::Service("cut".into()));
        }
        reach.report_success("pods");
        assert!(!reach.is_reachable() && reach.recoveries() == seen);
        let waiting = tokio::spawn({
            let reach = reach.clone();
            async move { reach.wait_for_recovery(seen).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        reach.report_success("nodes");
        assert!(waiting.await.is_ok() && reach.is_reachable());
        reach.report_success("nodes");
        assert_eq!(reach.recoveries(), seen + 1, "nothing was wrong in between");
    }
}
