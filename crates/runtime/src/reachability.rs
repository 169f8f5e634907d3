//! Whether the server responds, logged once instead of by every cache.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::{Client, Error};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::failure::message;
use crate::request::{self, Connection};

/// An ongoing problem is logged this often.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The time between two probes of the server.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// How long the server has to respond to a probe on an existing connection.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
/// How long it has to respond on a new connection.
const NEW_CONNECTION_DEADLINE: Duration = Duration::from_secs(10);

/// The name of probes among the kinds.
const PROBE: &str = "version";

/// What all list-watches of a process know about their server. Clones share the state.
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
    /// The kinds that cannot be read now, and those not read again since the server did not respond to a probe.
    unreachable: BTreeSet<&'static str>,
    /// When the problem was last logged.
    last_logged: Option<Instant>,
    /// How often all kinds were readable again after a problem, or a kind was newly served.
    recoveries: u64,
    /// How often all watches were restarted.
    restarts: u64,
}

impl Reachability {
    /// Whether the last read of every kind succeeded.
    pub fn is_reachable(&self) -> bool {
        self.lock().unreachable.is_empty()
    }

    /// How often all kinds were readable again after a problem, or a kind was newly served. Each time the server may be
    /// a different one.
    pub fn recoveries(&self) -> u64 {
        self.lock().recoveries
    }

    /// Returns once there have been more recoveries than `recoveries_before`.
    pub async fn wait_for_recovery(&self, recoveries_before: u64) {
        loop {
            // Created before the check, so that a change between the check and the await is not missed.
            let changed = self.0.changed.notified();
            if self.recoveries() > recoveries_before {
                return;
            }
            changed.await;
        }
    }

    /// Probes the server repeatedly, forever. The watches of a frozen server stay open and show nothing, and so do
    /// those with dead connections.
    ///
    /// After a probe without a response the next one is sent at once, on a new connection. When the server responds
    /// again, all watches restart, and until then the server counts as unreachable.
    pub async fn probe(self, client: Client) {
        let mut connection = Connection::Any;
        loop {
            let deadline = match connection {
                Connection::Any => PROBE_DEADLINE,
                Connection::New => NEW_CONNECTION_DEADLINE,
            };
            let response = request::get_on(&client, "/version", connection);
            let is_first = connection == Connection::Any;
            match request::with_deadline(deadline, response).await {
                Ok(_) | Err(Error::Api(_)) => {
                    connection = Connection::Any;
                    if self.probe_succeeded() {
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

    /// How often all watches were restarted.
    pub(crate) fn restarts(&self) -> u64 {
        self.lock().restarts
    }

    /// Returns once all watches were restarted more often than `restarts_before` times.
    pub(crate) async fn wait_for_restart(&self, restarts_before: u64) {
        loop {
            // Created before the check, so that a change between the check and the await is not missed.
            let changed = self.0.changed.notified();
            if self.restarts() > restarts_before {
                return;
            }
            changed.await;
        }
    }

    /// Restarts all watches at their revisions, because their connections may be dead.
    pub(crate) fn restart_watches(&self) {
        self.lock().restarts += 1;
        self.0.changed.notify_waiters();
    }

    /// The server does not respond: every kind has to be read again before the server counts as reachable.
    fn probe_failed(&self, error: &Error) {
        self.report_failure(PROBE, error);
        let mut state = self.lock();
        let ReachabilityState { kinds, unreachable, .. } = &mut *state;
        unreachable.extend(kinds.iter().copied());
    }

    /// The server responds; returns whether it did not before.
    fn probe_succeeded(&self) -> bool {
        let was_lost = self.lock().unreachable.contains(PROBE);
        self.report_success(PROBE);
        was_lost
    }

    /// `kind` cannot be read because of `error`. Logged unless it was just logged.
    pub(crate) fn report_failure(&self, kind: &'static str, error: &Error) {
        let is_logged = self.lock().add_failure(kind, error, Instant::now());
        if is_logged {
            tracing::warn!("{}; retrying", failure_message(kind, error));
        }
    }

    /// `kind` can be read.
    pub(crate) fn report_success(&self, kind: &'static str) {
        let mut state = self.lock();
        state.add_kind(kind);
        if state.unreachable.remove(kind) && state.unreachable.is_empty() {
            state.recoveries += 1;
            state.last_logged = None;
            drop(state);
            tracing::info!("the server responds again");
            self.0.changed.notify_waiters();
        }
    }

    /// `kind` was not served and now is. Only this shows that a server was replaced without a gap.
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

    /// Notes that `kind` cannot be read. Returns whether to log it: a kind that is refused is news, a server that is out
    /// of reach or refuses the credentials concerns all kinds alike.
    fn add_failure(&mut self, kind: &'static str, error: &Error, now: Instant) -> bool {
        self.add_kind(kind);
        let concerns_kind = matches!(error, Error::Api(status) if status.code != 401);
        let is_news = self.unreachable.insert(kind) && concerns_kind;
        let was_just_logged = self.last_logged.is_some_and(|logged_at| now.duration_since(logged_at) < LOG_INTERVAL);
        let is_logged = is_news || !was_just_logged;
        if is_logged {
            self.last_logged = Some(now);
        }
        is_logged
    }
}

/// The problem, and what to do if a retry is not enough.
fn failure_message(kind: &str, error: &Error) -> String {
    let message = message(error);
    match error {
        Error::Api(status) if status.code == 401 => {
            format!("the server does not accept our credentials ({message}): give a kubeconfig that is valid")
        }
        Error::Api(status) if status.code == 403 => {
            format!("{kind} may not be read ({message}): give the user of the kubeconfig list and watch on them")
        }
        Error::Api(_) => format!("{kind} cannot be read: {message}"),
        _ => format!("cannot reach the server: {message}"),
    }
}

impl fmt::Debug for Reachability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reachability(unreachable: {:?})", self.lock().unreachable)
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
    fn a_failure_message_says_what_to_do() {
        for (error, want) in [
            (Error::Service("connection refused".into()), "cannot reach the server"),
            (refused(401), "valid"),
            (refused(403), "list and watch"),
            (refused(500), "pods cannot be read: said"),
        ] {
            assert!(failure_message("pods", &error).contains(want), "{error}: {}", failure_message("pods", &error));
        }
    }

    /// Refused credentials were logged once for each kind.
    #[tokio::test(start_paused = true)]
    async fn a_failure_of_all_kinds_is_logged_once() {
        for (error, want) in [
            (Error::Service("connection refused".into()), [true, false]),
            (refused(401), [true, false]),
            (refused(403), [true, true]),
        ] {
            let mut state = ReachabilityState::default();
            let logged = ["pods", "nodes"].map(|kind| state.add_failure(kind, &error, Instant::now()));
            assert_eq!(logged, want, "{error}");
            let later = Instant::now() + LOG_INTERVAL;
            assert!(state.add_failure("pods", &error, later), "an ongoing problem is logged again: {error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_is_reachable_again_when_the_last_kind_can_be_read() {
        let reach = Reachability::default();
        let recoveries_before = reach.recoveries();
        for kind in ["pods", "nodes"] {
            reach.report_failure(kind, &Error::Service("cut".into()));
        }
        reach.report_success("pods");
        assert!(!reach.is_reachable() && reach.recoveries() == recoveries_before);
        let waiting = tokio::spawn({
            let reach = reach.clone();
            async move { reach.wait_for_recovery(recoveries_before).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        reach.report_success("nodes");
        assert!(waiting.await.is_ok() && reach.is_reachable());
        reach.report_success("nodes");
        assert_eq!(reach.recoveries(), recoveries_before + 1, "there was no problem in between");
    }
}
