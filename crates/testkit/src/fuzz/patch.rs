//! A patch of an object there is, of any kind and any of the three types.
//!
//! Input: a letter for the kind, a digit for the version, a digit for the type and the part (`Form`), the patch. A refused patch leaves the
//! object as it was; an accepted one leaves its identity alone, and its result is one that could have been put. Merge
//! patches of both types are idempotent.

use bytes::Bytes;
use store::Limits;

use super::Outcome;
use super::ask::{Answer, Asked};
use super::{body, kinds};

/// An object of each kind, as the target `body` reads it.
const OBJECTS: [&[u8]; 10] = [
    include_bytes!("../../../../fuzz/seeds/body/accepted-priorityclass"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-event"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-podgroup"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-job"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-cronjob"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-node"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-compositepodgroup"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-pod"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-namespace"),
    include_bytes!("../../../../fuzz/seeds/body/accepted-workload"),
];

/// How a patch is sent, by the low bits of one byte.
struct Form {
    /// Bits 0 and 1.
    media_type: &'static str,
    /// Bit 2: a patch of the status.
    status: bool,
}

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

impl Form {
    fn of(bits: u8) -> Form {
        let media_type = [MERGE, STRATEGIC, OPERATIONS, STRATEGIC][usize::from(bits & 3)];
        Form { media_type, status: bits & 4 != 0 }
    }
}

/// Checks one input.
pub fn check(input: &[u8]) -> Outcome {
    let Some((&[letter, version, form], patch)) = input.split_first_chunk() else { return Outcome::Refused };
    simulator::on_virtual_time(async {
        let asked = Asked::new(Limits::default());
        let (path, before) = make_object(&asked, letter, version).await;
        let form = Form::of(form);
        let target = if form.status { format!("{path}/status") } else { path.clone() };
        let patched = asked.ask("PATCH", &target, form.media_type, patch.to_vec()).await;
        if !patched.code.is_success() {
            assert_eq!(asked.get(&path).await.bytes, before.bytes, "a refused patch changes nothing");
            return Outcome::Refused;
        }
        for field in ["/metadata/name", "/metadata/namespace", "/metadata/uid", "/metadata/creationTimestamp", "/kind"]
        {
            assert_eq!(patched.value.pointer(field), before.value.pointer(field), "{field} stays");
        }
        if form.media_type != OPERATIONS && !insists_on_a_version(patch) {
            let twice = asked.ask("PATCH", &target, form.media_type, patch.to_vec()).await;
            let twice = twice.granted("a merge patch can be sent again");
            assert_eq!(twice.bytes, patched.bytes, "the second time a merge patch changes nothing");
        }
        body::follow_up(&asked, &path, &patched).await;
        Outcome::Accepted
    })
}

/// Makes the kind's object in its first version. Returns where it is in the version asked for, and what it looks like.
async fn make_object(asked: &Asked, letter: u8, version: u8) -> (String, Answer) {
    let resource = kinds::resource(&asked.server, letter);
    let known = |object: &&&[u8]| std::ptr::eq(kinds::resource(&asked.server, object[0]), resource);
    let object = OBJECTS.iter().find(known).expect("there is an object of each kind");
    let (head, body) = object.split_first_chunk().expect("a seed of the target `body`");
    let made = body::create(asked, *head, Bytes::from_static(body)).await;
    let (_, made) = made.expect("the seeds of the target `body` that are named accepted are accepted");
    let collection = kinds::collection(resource, kinds::version(resource, version));
    let path = format!("{collection}/{}", made.text("/metadata/name"));
    let shown = asked.get(&path).await.granted("an object is there in each version");
    (path, shown)
}

/// Whether the patch names the version it applies to, which it does only once.
fn insists_on_a_version(patch: &[u8]) -> bool {
    let patch: serde_json::Value = serde_json::from_slice(patch).unwrap_or_default();
    patch.pointer("/metadata/resourceVersion").is_some_and(|version| !version.is_null())
}
