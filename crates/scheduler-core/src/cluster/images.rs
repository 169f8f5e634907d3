//! The number of nodes that have each image.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::cluster::names::NameId;

/// The number of nodes that have each image. Images on no node are not listed.
#[derive(Clone, Debug, Default)]
pub(super) struct ImageCounts {
    by_image: FxHashMap<NameId, ImageCount>,
}

/// On how many nodes an image is.
#[derive(Clone, Debug, Default)]
struct ImageCount {
    nodes_count: u32,
    /// The sizes that nodes report, nearly always one, each with the number of nodes. Sorted.
    sizes: SmallVec<[(i64, u32); 1]>,
}

/// An image of a node and its size in bytes.
pub(crate) type NodeImage = (NameId, i64);

impl ImageCounts {
    pub(super) fn nodes_count(&self, image: NameId) -> u32 {
        self.by_image.get(&image).map_or(0, |count| count.nodes_count)
    }

    /// The different sizes that nodes report for an image, sorted.
    pub(super) fn sizes(&self, image: NameId) -> impl Iterator<Item = i64> + Clone + '_ {
        self.by_image.get(&image).into_iter().flat_map(|count| count.sizes.iter().map(|(size, _)| *size))
    }

    pub(super) fn add(&mut self, images: &[NodeImage]) {
        for (image, size) in images {
            let ImageCount { nodes_count, sizes } = self.by_image.entry(*image).or_default();
            *nodes_count += 1;
            match sizes.binary_search_by_key(size, |(size, _)| *size) {
                Ok(at) => sizes[at].1 += 1,
                Err(at) => sizes.insert(at, (*size, 1)),
            }
        }
    }

    pub(super) fn remove(&mut self, images: &[NodeImage]) {
        for (image, size) in images {
            let count = self.by_image.get_mut(image).expect("an image on a node is counted");
            count.nodes_count -= 1;
            let at = count.sizes.binary_search_by_key(size, |(size, _)| *size).expect("its size is counted too");
            count.sizes[at].1 -= 1;
            if count.sizes[at].1 == 0 {
                count.sizes.remove(at);
            }
            if count.nodes_count == 0 {
                self.by_image.remove(image);
            }
        }
    }
}

/// The image's name with its tag: a name with neither tag nor digest means the tag `latest`.
pub(crate) fn full_name(name: &str) -> std::borrow::Cow<'_, str> {
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    if last.contains(':') { name.into() } else { format!("{name}:latest").into() }
}
