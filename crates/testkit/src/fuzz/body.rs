//! The body of a create, of any kind and in any form that is taken.
//!
//! Input: a letter for the kind, a digit for its version, a digit for the form (`Form`), the body. What is accepted must read back as it was
//! answered, and writing it back must change nothing: defaults are a fixed point, in JSON and in YAML.

use bytes::Bytes;
use store::HistoryLimits;

use super::FuzzOutcome;
use super::checked_server::{CheckedResponse, CheckedServer, JSON, percent_encoded};
use super::kinds;

const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// How a body is sent, by the low bits of one byte.
struct CreateOptions {
    /// Bits 0 and 1.
    media_type: &'static str,
    /// Bits 2 and 3.
    field_validation: &'static str,
}

impl CreateOptions {
    fn from_bits(bits: u8) -> CreateOptions {
        CreateOptions {
            media_type: [JSON, YAML, PROTOBUF, YAML][usize::from(bits & 3)],
            field_validation: ["Warn", "Strict", "Ignore", "Strict"][usize::from(bits >> 2 & 3)],
        }
    }
}

/// Checks one input.
pub fn check(input: &[u8]) -> FuzzOutcome {
    let Some((head, body)) = input.split_first_chunk() else { return FuzzOutcome::Refused };
    crate::on_paused_clock(async {
        let asked = CheckedServer::new(HistoryLimits::default());
        match create(&asked, *head, Bytes::copy_from_slice(body)).await {
            Some((path, created)) => {
                check_accepted(&asked, &path, &created).await;
                FuzzOutcome::Accepted
            }
            None => FuzzOutcome::Refused,
        }
    })
}

/// Posts a body. Returns where the object is, and the answer, if it was accepted.
pub(super) async fn create(
    server: &CheckedServer,
    [letter, version, form]: [u8; 3],
    body: Bytes,
) -> Option<(String, CheckedResponse)> {
    let form = CreateOptions::from_bits(form);
    let resource = kinds::resource(&server.inner, letter);
    let collection = kinds::collection(resource, kinds::version(resource, version));
    let options = format!("fieldValidation={}", form.field_validation);
    let created = server.request("POST", &format!("{collection}?{options}"), form.media_type, body).await;
    if !created.code.is_success() {
        return None;
    }
    assert_eq!(created.value["kind"], resource.kind, "what was made is of the kind that was asked for");
    let name = percent_encoded(created.text("/metadata/name"));
    Some((format!("{collection}/{name}"), created))
}

/// What must hold for an object that was accepted.
pub(super) async fn check_accepted(server: &CheckedServer, path: &str, created: &CheckedResponse) {
    assert_eq!(server.get(path).await.bytes, created.bytes, "the answer is what is kept");
    for media_type in [JSON, YAML] {
        let again =
            server.request("PUT", &format!("{path}?fieldValidation=Strict"), media_type, created.bytes.clone()).await;
        let again = again.expect_success("an object is written back as it was read");
        assert_eq!(again.bytes, created.bytes, "writing back what was read changes nothing ({media_type})");
    }
    server.get_table(path).await.expect_success("every object is a row");
    server.request("DELETE", path, JSON, "").await.expect_success("every new object can be deleted");
}
