//! Leases as the garbage collector reads them.

use serde::Deserialize;

use super::meta::MetaView;
use crate::kinds;
use crate::views::view;

/// A Lease.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LeaseView {
    /// Metadata.
    pub metadata: MetaView,
}

view!(LeaseView, kinds::LEASE);
