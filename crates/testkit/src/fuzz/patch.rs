//! A patch of a stored object, of any kind and any of the three types.
//!
//! Input: a letter for the kind, a digit for the version, a digit for the type and the subresource (`PatchOptions`),
//! the patch. A refused patch does not change the object. An accepted one does not change its identity, and its result
//! could have been written with PUT. Merge patches of both types are idempotent.

use bytes::Bytes;
use store::HistoryLimits;

use super::FuzzOutcome;
use super::checked_server::{CheckedResponse, CheckedServer};
use super::{body, kinds};

/// How a patch is sent, by the low bits of one byte.
struct PatchOptions {
    /// Bits 0 and 1.
    media_type: &'static str,
    /// Bit 2: a patch of the status.
    status: bool,
}

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

impl PatchOptions {
    fn from_bits(bits: u8) -> PatchOptions {
        let media_type = [MERGE, STRATEGIC, JSON_PATCH, STRATEGIC][usize::from(bits & 3)];
        PatchOptions { media_type, status: bits & 4 != 0 }
    }
}

/// Checks one input.
pub fn check(input: &[u8]) -> FuzzOutcome {
    let Some((&[letter, version, options], patch)) = input.split_first_chunk() else { return FuzzOutcome::Refused };
    crate::on_paused_clock(async {
        let server = CheckedServer::new(HistoryLimits::default());
        let (path, before) = create_object(&server, letter, version).await;
        let options = PatchOptions::from_bits(options);
        let target = if options.status { format!("{path}/status") } else { path.clone() };
        let patched = server.request("PATCH", &target, options.media_type, patch.to_vec()).await;
        if !patched.code.is_success() {
            assert_eq!(server.get(&path).await.bytes, before.bytes, "a refused patch changes nothing");
            return FuzzOutcome::Refused;
        }
        for field in ["/metadata/name", "/metadata/namespace", "/metadata/uid", "/metadata/creationTimestamp", "/kind"]
        {
            assert_eq!(patched.value.pointer(field), before.value.pointer(field), "{field} does not change");
        }
        if options.media_type != JSON_PATCH && !has_resource_version(patch) {
            let twice = server.request("PATCH", &target, options.media_type, patch.to_vec()).await;
            let twice = twice.expect_success("a merge patch can be repeated");
            assert_eq!(twice.bytes, patched.bytes, "a repeated merge patch changes nothing");
        }
        body::check_accepted(&server, &path, &patched).await;
        FuzzOutcome::Accepted
    })
}

/// Creates the kind's object in its first version. Returns its path and content in the requested version.
async fn create_object(server: &CheckedServer, letter: u8, version: u8) -> (String, CheckedResponse) {
    let kind = kinds::kind(letter);
    let (digits, body) = kinds::object(kind);
    let created = body::create(server, kind, digits, Bytes::from_static(body)).await;
    let (_, created) = created.expect("the object of a kind is accepted");
    let collection = kinds::collection(kind, kinds::version(kind, version));
    let path = format!("{collection}/{}", created.text("/metadata/name"));
    let shown = server.get(&path).await.expect_success("an object is served in each version");
    (path, shown)
}

/// Whether the patch has a resource version, so that it applies only once.
fn has_resource_version(patch: &[u8]) -> bool {
    let patch: serde_json::Value = serde_json::from_slice(patch).unwrap_or_default();
    patch.pointer("/metadata/resourceVersion").is_some_and(|version| !version.is_null())
}
