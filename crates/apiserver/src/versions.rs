//! Stored bytes in the version asked for. Versions of one resource differ in `apiVersion` only, which the canonical
//! form has first, so nothing is decoded.

use bytes::Bytes;

use crate::resource::Resource;

/// How stored bytes become bytes in the version asked for.
#[derive(Clone, Debug)]
pub struct Rename(Option<Heads>);

#[derive(Clone, Debug)]
struct Heads {
    stored: Vec<u8>,
    asked: Vec<u8>,
}

impl Rename {
    /// From the resource's storage version to `version`.
    pub fn to(resource: &Resource, version: &str) -> Rename {
        let head = |version: &str| format!("{{\"apiVersion\":\"{}\"", resource.api_version(version)).into_bytes();
        Rename(
            (version != resource.storage_version)
                .then(|| Heads { stored: head(resource.storage_version), asked: head(version) }),
        )
    }

    /// The two pieces that make up the object.
    fn pieces<'a>(&'a self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        match &self.0 {
            None => (&[], bytes),
            Some(heads) => {
                let rest = bytes.strip_prefix(heads.stored.as_slice());
                (&heads.asked, rest.expect("stored objects begin with the storage version"))
            }
        }
    }

    /// Appends the object to `out`.
    pub fn append(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let (head, rest) = self.pieces(bytes);
        out.extend_from_slice(head);
        out.extend_from_slice(rest);
    }

    /// The object by itself; shared with the store when nothing changes.
    pub fn whole(&self, bytes: &Bytes) -> Bytes {
        if self.0.is_none() {
            return bytes.clone();
        }
        let (head, rest) = self.pieces(bytes);
        [head, rest].concat().into()
    }
}
