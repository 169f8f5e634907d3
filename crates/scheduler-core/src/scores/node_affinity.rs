//! Better where more of the preferred terms of node affinity match, by their weights.

use super::{Scale, Score};
use crate::classes::{Class, Term};
use crate::cluster::NodeRef;
use crate::filters::{Kind, term_matches};
use crate::reads::{Parts, Reads};

#[derive(Debug, Default)]
pub(crate) struct PreferredNodes {
    /// Terms that the profile adds for all its pods, with their weights.
    pub(crate) added: Vec<(i32, Term)>,
}

impl Score for PreferredNodes {
    fn name(&self) -> &str {
        "NodeAffinity"
    }

    fn kind(&self) -> Kind {
        Kind::Static
    }

    fn reads(&self) -> Reads {
        Reads::parts(Parts::PREFERRED_NODES)
    }

    fn applies(&self, class: &Class) -> bool {
        !class.preferred.is_empty() || !self.added.is_empty()
    }

    fn scale(&self) -> Scale {
        Scale::Largest
    }

    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64 {
        let terms = class.preferred.iter().chain(&self.added);
        let liked = terms.filter(|(_, term)| term_matches(term, node.fixed(), node.cluster));
        liked.map(|(weight, _)| i64::from(*weight)).sum()
    }
}
