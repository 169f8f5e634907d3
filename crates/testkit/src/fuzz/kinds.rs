//! A letter for every kind, so that an input can name one in its first byte.

use apiserver::{Resource, Server};

/// The kinds by their plural.
pub(super) const LETTERS: [(u8, &str); 12] = [
    (b'c', "priorityclasses"),
    (b'd', "poddisruptionbudgets"),
    (b'e', "events"),
    (b'g', "podgroups"),
    (b'j', "jobs"),
    (b'k', "cronjobs"),
    (b'l', "leases"),
    (b'n', "nodes"),
    (b'o', "compositepodgroups"),
    (b'p', "pods"),
    (b's', "namespaces"),
    (b'w', "workloads"),
];

/// The kind of a letter. Any other byte means some kind as well, so that a mutation never leads nowhere.
pub(super) fn resource(server: &Server, letter: u8) -> &Resource {
    let known = LETTERS.iter().find(|(known, _)| *known == letter);
    let (_, plural) = known.unwrap_or(&LETTERS[usize::from(letter) % LETTERS.len()]);
    let resource = server.resources().iter().find(|resource| resource.plural == *plural);
    resource.unwrap_or_else(|| panic!("{plural} are no longer served: a letter in kinds.rs is out of date"))
}

/// The version of a digit, in the order in which the kind has them.
pub(super) fn version(resource: &Resource, digit: u8) -> &'static str {
    let versions: Vec<&str> = resource.served().collect();
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
    use crate::fuzz::ask::Asked;

    #[test]
    fn every_kind_has_a_letter() {
        let asked = Asked::new(store::Limits::default());
        let served: BTreeSet<&str> = asked.server.resources().iter().map(|resource| resource.plural).collect();
        assert_eq!(LETTERS.iter().map(|(_, plural)| *plural).collect::<BTreeSet<_>>(), served);
        assert_eq!(LETTERS.iter().map(|(letter, _)| *letter).collect::<BTreeSet<_>>().len(), LETTERS.len());
    }
}
