//! Why a refused unit cannot be placed, in the form that shows which changes could let it fit.
//!
//! A unit fits only if some domain that it may use has enough slots for its pods. While too few are there by the sums,
//! only more slots can help, and at least as many as are missing. If the sums accept a domain and pods of several
//! classes still do not fit together, any growth of a resource in such a domain can help.

use crate::cluster::Cluster;
use crate::demand::Demand;
use crate::demand::classes::ClassId;
use crate::explain::refusal::{Refusal, RefusalCause};
use crate::plugins::id::PluginId;

/// Why a refused unit cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The classes of its pods.
    pub(crate) classes: Vec<ClassId>,
    /// How many slots the domain lacks in which most of its pods fit, by the sums. 0: the sums accept a domain, and no
    /// placement was found there.
    pub(crate) missing_slots: u64,
    /// Its pods must share a domain.
    pub(crate) in_one_domain: bool,
    /// Several classes must fit together. The unit may fit although no class has more slots than before.
    pub(crate) is_mixed: bool,
    /// It is proven: fewer of its pods do not fit either, nor do more of the same class.
    pub(crate) proven: bool,
    /// The shape of the cluster, if the nodes themselves are in the way: they are too few or too small even without
    /// pods, have no domain, or the members are in several. With other nodes the group may only have to wait until pods
    /// end, and then capacity can be reserved for it. So it is decided again when the shape has changed.
    pub(crate) hopeless_in_shape: Option<u64>,
    /// Its reasons name ghosts: reservations or nominated pods. When these are gone, the reasons are others.
    pub(crate) names_ghosts: bool,
}

impl Certificate {
    /// The certificate of a refusal. `missing_slots` is what the best domain lacks.
    pub(crate) fn of(demand: &Demand, refusal: &Refusal, missing_slots: u64, cluster: &Cluster) -> Certificate {
        let is_hopeless = !refusal.lacks_capacity() && !refusal.is_about_extra_pods();
        Certificate {
            classes: demand.class_counts.iter().map(|count| count.class).collect(),
            missing_slots,
            in_one_domain: demand.constraint.is_some(),
            is_mixed: demand.class_counts.len() > 1 && demand.required_count() > 1,
            proven: refusal.proven,
            hopeless_in_shape: is_hopeless.then_some(cluster.shape()),
            names_ghosts: refusal.reasons.0.keys().any(|reason| reason.plugin == PluginId::RESERVATION),
        }
    }

    /// Whether a search with more effort may find a placement where this one found none.
    pub(crate) fn search_gave_up(&self, cause: &RefusalCause) -> bool {
        *cause == RefusalCause::DoesNotFit && self.rests_on_resources() && !self.proven
    }

    /// How many more slots one of its classes has, at least, before the unit can fit.
    pub(crate) fn least_growth(&self, missing_slots: u64) -> u64 {
        if self.hopeless_in_shape.is_some() {
            return 1;
        }
        missing_slots.div_ceil(self.classes.len().max(1) as u64).max(1)
    }

    /// Whether growth of a resource can help that gives no class another slot.
    pub(crate) fn rests_on_resources(&self) -> bool {
        self.is_mixed && self.missing_slots == 0
    }
}
