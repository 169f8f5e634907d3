//! Who each part is. The server treats these like any user; the names are those of upstream's parts.

use apiserver::Identity;

pub(crate) fn admin() -> Identity {
    identity("system:admin", &["system:masters"])
}

pub(crate) fn caches() -> Identity {
    identity("system:phalanx", &["system:masters"])
}

pub(crate) fn scheduler() -> Identity {
    identity("system:kube-scheduler", &[])
}

pub(crate) fn nodes() -> Identity {
    identity("system:phalanx:nodes", &["system:nodes"])
}

/// A controller's service account.
pub(crate) fn controller(name: &str) -> Identity {
    identity(
        &format!("system:serviceaccount:kube-system:{name}"),
        &["system:serviceaccounts", "system:serviceaccounts:kube-system"],
    )
}

fn identity(user: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().copied().chain(["system:authenticated"]).map(str::to_owned).collect();
    Identity { user: user.to_owned(), groups }
}
