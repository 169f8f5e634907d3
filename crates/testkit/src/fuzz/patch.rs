//! A patch of an object there is, of any kind and any of the three types.
//!
//! Input: a letter for the kind, a digit for the version, a digit for the type and the part (`Form`), the patch. A refused patch leaves the
//! object as it was; an accepted one leaves its identity alone, and its result is one that could have been put. Merge
//! patches of both types are idempotent.

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
    let Some((&[letter, version, form], patch)) = input.split_first_chunk() else { return FuzzOutcome::Refused };
    crate::on_paused_clock(async {
        let asked = CheckedServer::new(HistoryLimits::default());
        let (path, before) = make_object(&asked, letter, version).await;
        let form = PatchOptions::from_bits(form);
        let target = if form.status { format!("{path}/status") } else { path.clone() };
        let patched = asked.request("PATCH", &target, form.media_type, patch.to_vec()).await;
        if !patched.code.is_success() {
            assert_eq!(asked.get(&path).await.bytes, before.bytes, "a refused patch changes nothing");
            return FuzzOutcome::Refused;
        }
        for field in ["/metadata/name", "/metadata/namespace", "/metadata/uid", "/metadata/creationTimestamp", "/kind"]
        {
            assert_eq!(patched.value.pointer(field), before.value.pointer(field), "{field} stays");
        }
        if form.media_type != JSON_PATCH && !has_resource_version(patch) {
            let twice = asked.request("PATCH", &target, form.media_type, patch.to_vec()).await;
            let twice = twice.expect_success("a merge patch can be sent again");
            assert_eq!(twice.bytes, patched.bytes, "the second time a merge patch changes nothing");
        }
        body::check_accepted(&asked, &path, &patched).await;
        FuzzOutcome::Accepted
    })
}

/// Makes the kind's object in its first version. Returns where it is in the version asked for, and what it looks like.
async fn make_object(server: &CheckedServer, letter: u8, version: u8) -> (String, CheckedResponse) {
    let resource = kinds::resource(&server.inner, letter);
    let (head, body) = kinds::object(resource);
    let made = body::create(server, head, Bytes::from_static(body)).await;
    let (_, made) = made.expect("the seeds of the target `body` that are named accepted are accepted");
    let collection = kinds::collection(resource, kinds::version(resource, version));
    let path = format!("{collection}/{}", made.text("/metadata/name"));
    let shown = server.get(&path).await.expect_success("an object is there in each version");
    (path, shown)
}

/// Whether the patch names the version it applies to, which it does only once.
fn has_resource_version(patch: &[u8]) -> bool {
    let patch: serde_json::Value = serde_json::from_slice(patch).unwrap_or_default();
    patch.pointer("/metadata/resourceVersion").is_some_and(|version| !version.is_null())
}
