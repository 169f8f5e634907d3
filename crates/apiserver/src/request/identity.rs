//! The user of a request.

use std::task::{Context, Poll};

use http::Request;
use tower::Service;

/// The user of a request without an identity.
pub const ANONYMOUS: &str = "system:anonymous";

/// The user of a request. It is a request extension, which nothing sent over the network can set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User name, such as `system:kube-scheduler`.
    pub user: String,
    /// Groups the user is in.
    pub groups: Vec<String>,
}

impl Identity {
    /// A user with groups.
    pub fn new(user: impl Into<String>, groups: &[&str]) -> Identity {
        Identity { user: user.into(), groups: groups.iter().map(|&group| group.to_owned()).collect() }
    }

    /// A client without credentials.
    pub fn anonymous() -> Identity {
        Identity::new(ANONYMOUS, &["system:unauthenticated"])
    }

    /// Whether the user has rights. The administrator and the components of the control plane have all rights.
    // Replaced when there is RBAC for other users.
    pub fn has_rights(&self) -> bool {
        let is_component = self.user == "system:kube-scheduler"
            || self.user == "system:phalanx"
            || self.user.starts_with("system:phalanx:")
            || self.user.starts_with("system:serviceaccount:kube-system:");
        is_component || self.groups.iter().any(|group| group == "system:masters")
    }

    /// The administrator, with all rights.
    pub fn admin() -> Identity {
        Identity::new("kubernetes-admin", &["system:masters", "system:authenticated"])
    }
}

/// Sets one identity on every request.
#[derive(Clone, Debug)]
pub(crate) struct IdentityService<S> {
    pub inner: S,
    pub identity: Identity,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for IdentityService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.extensions_mut().insert(self.identity.clone());
        self.inner.call(request)
    }
}
