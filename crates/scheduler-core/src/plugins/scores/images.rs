//! Prefers nodes that already have the pod's images, large ones more than small ones. An image counts by the share of
//! nodes that have it, so that a single node with it does not attract all pods.

use smallvec::{SmallVec, smallvec};

use super::{AllNodes, MAX_SCORE, Score};
use crate::cluster::names::NameId;
use crate::cluster::{Cluster, NodeRef, NodeRefs};
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
        let present = class.images.iter().filter_map(|image| Some((*image, node.info().image_bytes(*image)?)));
        let counted = present.map(|(image, bytes)| counted_bytes(image, bytes, node.cluster));
        points(counted.fold(0, i64::saturating_add), class)
    }

    fn add_weighted(&self, class: &Class, nodes: NodeRefs<'_>, weight: i64, sums: &mut [i64]) {
        if class.images.iter().any(|image| nodes.cluster.nodes_with_image(*image) > 0) {
            nodes.iter().zip(sums).for_each(|(node, sum)| *sum += weight * self.raw(class, node));
        }
    }

    /// The points that nodes can have, with each set of the images in each of their sizes. It is the same until a node
    /// can have other points than before.
    fn external_version(&self, class: &Class, nodes: AllNodes<'_>) -> u64 {
        let mut sums: SmallVec<[i64; 8]> = smallvec![0];
        for listed in class.images.chunk_by(|one, next| one == next) {
            let with_image = |sum: i64, bytes| {
                let counted = counted_bytes(listed[0], bytes, nodes.0);
                listed.iter().fold(sum, |sum, _| sum.saturating_add(counted))
            };
            let sizes = nodes.0.image_sizes(listed[0]);
            let more: SmallVec<[i64; 8]> = sizes
                .flat_map(|bytes| sums.iter().map(move |sum| (*sum, bytes)))
                .map(|(sum, bytes)| with_image(sum, bytes))
                .collect();
            sums.extend(more);
            if sums.len() > MAX_SUMS {
                return counts_version(class, nodes);
            }
        }
        sums.into_iter().fold(0, |mixed, sum| mix(mixed, points(sum, class).cast_unsigned()))
    }
}

/// With more sums of sizes than this, every change of an image's count is a new version.
const MAX_SUMS: usize = 64;

/// The bytes of an image on a node, by the share of nodes that have it.
fn counted_bytes(image: NameId, bytes: i64, cluster: &Cluster) -> i64 {
    let share = f64::from(cluster.nodes_with_image(image)) / cluster.present_count() as f64;
    (bytes as f64 * share) as i64
}

fn points(bytes: i64, class: &Class) -> i64 {
    let most = MAX_BYTES_PER_IMAGE * class.images.len() as i64;
    MAX_SCORE * (bytes.clamp(MIN_BYTES, most) - MIN_BYTES) / (most - MIN_BYTES)
}

/// How many of all nodes have each image.
fn counts_version(class: &Class, nodes: AllNodes<'_>) -> u64 {
    let counts = class.images.iter().map(|image| u64::from(nodes.0.nodes_with_image(*image)));
    counts.chain([nodes.count() as u64]).fold(0, mix)
}

fn mix(mixed: u64, next: u64) -> u64 {
    mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(next)
}
