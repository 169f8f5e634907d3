//! Prefers nodes that match more of the preferred terms of node affinity, by their weights.

use super::{Score, ScoreNormalization};
use crate::cluster::{Cluster, NodeRef};
use crate::demand::classes::{Class, Term};
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::plugins::filters::{PluginKind, term_matches};
use crate::plugins::profile::NodeAffinityArgs;

#[derive(Debug, Default)]
pub(crate) struct PreferredNodes {
    /// Terms that the profile adds for all its pods, with their weights.
    added: Vec<(i32, Term)>,
}

impl PreferredNodes {
    pub(super) fn of(args: &NodeAffinityArgs, cluster: &mut Cluster) -> PreferredNodes {
        let added = args.added_affinity.as_ref();
        let preferred = added.and_then(|added| added.preferred_during_scheduling_ignored_during_execution.as_ref());
        let terms = preferred.map(|terms| Term::weighted(terms, &mut cluster.names));
        PreferredNodes { added: terms.unwrap_or_default() }
    }
}

impl Score for PreferredNodes {
    fn name(&self) -> &str {
        "NodeAffinity"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Static
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::PREFERRED_NODES)
    }

    fn applies(&self, class: &Class) -> bool {
        !class.preferred.is_empty() || !self.added.is_empty()
    }

    fn normalization(&self) -> ScoreNormalization {
        ScoreNormalization::Largest
    }

    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64 {
        let terms = class.preferred.iter().chain(&self.added);
        let matching = terms.filter(|(_, term)| term_matches(term, node.info(), node.cluster));
        matching.map(|(weight, _)| i64::from(*weight)).sum()
    }
}
