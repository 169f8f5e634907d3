//! Who asks.

use std::task::{Context, Poll};

use http::Request;
use tower::Service;

/// Whom a request without an identity comes from.
pub const ANONYMOUS: &str = "system:anonymous";

/// The user of a request. It travels as a request extension, which no byte on a network can set.
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

    /// Who has not said who it is.
    pub fn anonymous() -> Identity {
        Identity::new(ANONYMOUS, &["system:unauthenticated"])
    }

    /// Whether it may do anything at all, which is then everything: the administrator and the parts of the control plane.
    // Until there is RBAC, which gives others their rights.
    pub fn has_rights(&self) -> bool {
        let is_part = self.user == "system:kube-scheduler"
            || self.user == "system:phalanx"
            || self.user.starts_with("system:phalanx:")
            || self.user.starts_with("system:serviceaccount:kube-system:");
        is_part || self.groups.iter().any(|group| group == "system:masters")
    }

    /// Who may do everything.
    pub fn admin() -> Identity {
        Identity::new("kubernetes-admin", &["system:masters", "system:authenticated"])
    }
}

/// Puts one identity on every request that passes.
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
