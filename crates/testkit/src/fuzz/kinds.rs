//! A letter for every kind, so that an input can name one in its first byte.

use apiserver::{ApiServer, Resource};

/// The kinds by their plural and group.
pub(super) const LETTERS: [(u8, &str); 13] = [
    (b'c', "priorityclasses.scheduling.k8s.io"),
    (b'd', "poddisruptionbudgets.policy"),
    (b'e', "events"),
    (b'g', "podgroups.scheduling.k8s.io"),
    (b'j', "jobs.batch"),
    (b'k', "cronjobs.batch"),
    (b'l', "leases.coordination.k8s.io"),
    (b'n', "nodes"),
    (b'o', "compositepodgroups.scheduling.k8s.io"),
    (b'p', "pods"),
    (b's', "namespaces"),
    (b'v', "events.events.k8s.io"),
    (b'w', "workloads.scheduling.k8s.io"),
];

/// The kind of a letter. Any other byte means some kind as well, so that a mutation never leads nowhere.
pub(super) fn resource(server: &ApiServer, letter: u8) -> &Resource {
    let known = LETTERS.iter().find(|(known, _)| *known == letter);
    let (_, name) = known.unwrap_or(&LETTERS[usize::from(letter) % LETTERS.len()]);
    let resource = server.resources().iter().find(|resource| resource.qualified() == *name);
    resource.unwrap_or_else(|| panic!("{name} are no longer served: a letter in kinds.rs is out of date"))
}

/// The version of a digit, in the order in which the kind has them.
pub(super) fn version(resource: &Resource, digit: u8) -> &'static str {
    let versions: Vec<&str> = resource.served_versions().collect();
    versions[usize::from(digit & 15) % versions.len()]
}

/// Where objects of the kind are made and listed; namespaced ones in `default`.
pub(super) fn collection(resource: &Resource, version: &str) -> String {
    let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let namespace = if resource.namespaced { "/namespaces/default" } else { "" };
    format!("{root}/{version}{namespace}/{}", resource.plural)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::LETTERS;
    use crate::fuzz::checked_server::CheckedServer;

    #[test]
    fn every_kind_has_a_letter() {
        let asked = CheckedServer::new(store::HistoryLimits::default());
        let served: BTreeSet<String> = asked.inner.resources().iter().map(|resource| resource.qualified()).collect();
        assert_eq!(LETTERS.iter().map(|(_, name)| (*name).to_owned()).collect::<BTreeSet<_>>(), served);
        assert_eq!(LETTERS.iter().map(|(letter, _)| *letter).collect::<BTreeSet<_>>().len(), LETTERS.len());
    }
}
