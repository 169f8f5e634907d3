//! The number of nodes that have each image.

use rustc_hash::FxHashMap;

use crate::cluster::names::NameId;

/// The number of nodes that have each image. Images on no node are not listed.
#[derive(Clone, Debug, Default)]
pub(super) struct ImageCounts {
    nodes_count: FxHashMap<NameId, u32>,
}

/// An image of a node and its size in bytes.
pub(crate) type NodeImage = (NameId, i64);

impl ImageCounts {
    pub(super) fn nodes_count(&self, image: NameId) -> u32 {
        self.nodes_count.get(&image).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, images: &[NodeImage]) {
        for (image, _) in images {
            *self.nodes_count.entry(*image).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, images: &[NodeImage]) {
        for (image, _) in images {
            let count = self.nodes_count.get_mut(image).expect("an image on a node is counted");
            *count -= 1;
            if *count == 0 {
                self.nodes_count.remove(image);
            }
        }
    }
}

/// The image's name with its tag: a name with neither tag nor digest means the tag `latest`.
pub(crate) fn full_name(name: &str) -> std::borrow::Cow<'_, str> {
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    if last.contains(':') { name.into() } else { format!("{name}:latest").into() }
}
