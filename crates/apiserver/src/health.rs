//! Health of the server and of the components in its process: `/livez`, `/readyz` and `/healthz`.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use crate::response::body::Body;

/// The health of the process. Each component reports on itself. Clones share the state.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<Vec<HealthCheck>>>);

struct HealthCheck {
    name: &'static str,
    /// Why the check fails; `None` while it passes.
    failure: Option<CheckFailure>,
}

struct CheckFailure {
    reason: String,
    /// Whether only a restart of the process helps.
    is_fatal: bool,
}

impl Health {
    /// The check `name` passes.
    pub fn pass(&self, name: &'static str) {
        self.set(name, None);
    }

    /// The check `name` fails, for now or until its component has started.
    pub fn fail(&self, name: &'static str, cause: impl Into<String>) {
        self.set(name, Some(CheckFailure { reason: cause.into(), is_fatal: false }));
    }

    /// The check `name` fails and only a restart of the process helps: liveness fails too.
    pub fn fail_liveness(&self, name: &'static str, cause: impl Into<String>) {
        self.set(name, Some(CheckFailure { reason: cause.into(), is_fatal: true }));
    }

    /// Whether every check passes.
    pub fn is_ready(&self) -> bool {
        self.checks().iter().all(|check| check.failure.is_none())
    }

    fn set(&self, name: &'static str, failure: Option<CheckFailure>) {
        let mut checks = self.checks();
        match checks.iter_mut().find(|check| check.name == name) {
            Some(check) => check.failure = failure,
            None => checks.push(HealthCheck { name, failure }),
        }
    }

    fn checks(&self) -> std::sync::MutexGuard<'_, Vec<HealthCheck>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The response at `/livez`, `/readyz` or `/healthz`; `None` at other paths.
    ///
    /// The process is alive unless a check reports that only a restart helps. It is ready and healthy when every check
    /// passes.
    pub fn response(&self, path: &str, query: &str) -> Option<Response<Body>> {
        let name = path.strip_prefix('/').filter(|name| ["livez", "readyz", "healthz"].contains(name))?;
        let checks = self.lines(name == "livez");
        let passed = checks.iter().all(|(passed, _)| *passed);
        let verbose = !passed || query.split('&').any(|pair| pair.split('=').next() == Some("verbose"));
        let text = if verbose {
            let lines: String = checks.into_iter().map(|(_, line)| line).collect();
            format!("[+]ping ok\n{lines}{name} check {}\n", if passed { "passed" } else { "failed" })
        } else {
            "ok".to_owned()
        };
        let mut response = Response::new(Body::whole(Bytes::from(text)));
        if !passed {
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        Some(response)
    }

    /// Every check; for liveness only those that fail it.
    fn lines(&self, fatal_only: bool) -> Vec<(bool, String)> {
        let line = |check: &HealthCheck| match &check.failure {
            None => (true, format!("[+]{} ok\n", check.name)),
            Some(failure) => (false, format!("[-]{} failed: {}\n", check.name, failure.reason)),
        };
        let is_fatal = |check: &&HealthCheck| check.failure.as_ref().is_some_and(|failure| failure.is_fatal);
        self.checks().iter().filter(|check| !fatal_only || is_fatal(check)).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::FutureExt;
    use http_body_util::BodyExt;

    use super::*;

    fn get(health: &Health, path: &str, query: &str) -> (u16, String) {
        let response = health.response(path, query).unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn readiness_follows_its_checks_and_liveness_only_the_fatal_ones() {
        let health = Health::default();
        assert_eq!(get(&health, "/readyz", ""), (200, "ok".to_owned()));
        health.fail("caches", "not filled yet");
        health.pass("components");
        let failing = "[+]ping ok\n[-]caches failed: not filled yet\n[+]components ok\nreadyz check failed\n";
        assert_eq!(get(&health, "/readyz", ""), (500, failing.to_owned()));
        assert_eq!(get(&health, "/livez", ""), (200, "ok".to_owned()));
        health.pass("caches");
        let passing = "[+]ping ok\n[+]caches ok\n[+]components ok\nhealthz check passed\n";
        assert_eq!(get(&health, "/healthz", "a=b&verbose"), (200, passing.to_owned()));
        assert!(health.response("/health", "").is_none());
        health.fail_liveness("binds", "stuck");
        let not_live = "[+]ping ok\n[-]binds failed: stuck\nlivez check failed\n";
        assert_eq!(get(&health, "/livez", ""), (500, not_live.to_owned()));
        assert_eq!(get(&health, "/readyz", "").0, 500);
        health.pass("binds");
        assert_eq!(get(&health, "/livez", ""), (200, "ok".to_owned()));
    }
}
