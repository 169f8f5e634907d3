//! Prefers nodes that already have the pod's images, large ones more than small ones. An image counts by the share of
//! nodes that have it, so that a single node with it does not attract all pods.

use super::{AllNodes, MAX_SCORE, Score};
use crate::cluster::{NodeRef, NodeRefs};
use crate::demand::classes::Class;
use crate::demand::reads::{PodSpecFields, ReadSet};
use crate::plugins::filters::PluginKind;

#[derive(Debug)]
pub(crate) struct ImageLocality;

/// Smaller sums count as 0.
const MIN_BYTES: i64 = 23 << 20;
/// Larger sums per image make no difference.
const MAX_BYTES_PER_IMAGE: i64 = 1000 << 20;

impl Score for ImageLocality {
    fn name(&self) -> &str {
        "ImageLocality"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Static
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::IMAGES)
    }

    fn applies(&self, class: &Class) -> bool {
        !class.images.is_empty()
    }

    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64 {
        if node.info().images.is_empty() {
            return 0;
        }
        let nodes_count = node.cluster.present_count() as f64;
        let present_bytes = |image: &_| {
            let bytes = node.info().image_bytes(*image)?;
            Some((bytes as f64 * (f64::from(node.cluster.nodes_with_image(*image)) / nodes_count)) as i64)
        };
        let most = MAX_BYTES_PER_IMAGE * class.images.len() as i64;
        let bytes = class.images.iter().filter_map(present_bytes).fold(0, i64::saturating_add).clamp(MIN_BYTES, most);
        MAX_SCORE * (bytes - MIN_BYTES) / (most - MIN_BYTES)
    }

    fn add_weighted(&self, class: &Class, nodes: NodeRefs<'_>, weight: i64, sums: &mut [i64]) {
        if class.images.iter().any(|image| nodes.cluster.nodes_with_image(*image) > 0) {
            nodes.iter().zip(sums).for_each(|(node, sum)| *sum += weight * self.raw(class, node));
        }
    }

    /// How many of all nodes have each image; constant while none has any.
    fn external_version(&self, class: &Class, nodes: AllNodes<'_>) -> u64 {
        let counts = class.images.iter().map(|image| u64::from(nodes.0.nodes_with_image(*image)));
        let mixed = counts.fold(0, |mixed: u64, count| mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(count));
        if mixed == 0 { 0 } else { mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(nodes.count() as u64) }
    }
}
