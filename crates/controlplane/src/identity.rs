//! Identities of the process itself. [`control_loops`](crate::control_loops) has those of the control loops.

use apiserver::Identity;

/// An administrator.
pub(crate) fn admin() -> Identity {
    privileged("system:admin")
}

/// The caches, which all control loops of a process share.
pub(crate) fn caches() -> Identity {
    privileged("system:phalanx")
}

fn privileged(user: &str) -> Identity {
    let groups = ["system:masters", "system:authenticated"].map(str::to_owned).into();
    Identity { user: user.to_owned(), groups }
}
