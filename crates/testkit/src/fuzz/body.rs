//! The body of a create, of any kind and in any accepted media type.
//!
//! Input: a letter for the kind, a digit for its version, a digit for the options (`CreateOptions`), the body. An
//! accepted object must read back as it was returned, and writing it back must change nothing: defaults are a fixed
//! point, in JSON and in YAML.

use api::kinds::ApiResource;
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
    let Some((&[letter, version, options], body)) = input.split_first_chunk() else { return FuzzOutcome::Refused };
    crate::on_paused_clock(async {
        let server = CheckedServer::new(HistoryLimits::default());
        match create(&server, kinds::kind(letter), [version, options], Bytes::copy_from_slice(body)).await {
            Some((path, created)) => {
                check_accepted(&server, &path, &created).await;
                FuzzOutcome::Accepted
            }
            None => FuzzOutcome::Refused,
        }
    })
}

/// Posts a body. If it is accepted, returns the object's path and the response.
pub(super) async fn create(
    server: &CheckedServer,
    kind: &ApiResource,
    [version, options]: [u8; 2],
    body: Bytes,
) -> Option<(String, CheckedResponse)> {
    let options = CreateOptions::from_bits(options);
    let collection = kinds::collection(kind, kinds::version(kind, version));
    let query = format!("fieldValidation={}", options.field_validation);
    let created = server.request("POST", &format!("{collection}?{query}"), options.media_type, body).await;
    if !created.code.is_success() {
        return None;
    }
    assert_eq!(created.value["kind"], kind.kind, "the created object has the requested kind");
    let name = percent_encoded(created.text("/metadata/name"));
    Some((format!("{collection}/{name}"), created))
}

/// Checks an accepted object.
pub(super) async fn check_accepted(server: &CheckedServer, path: &str, created: &CheckedResponse) {
    assert_eq!(server.get(path).await.bytes, created.bytes, "the response is the stored object");
    for media_type in [JSON, YAML] {
        let again =
            server.request("PUT", &format!("{path}?fieldValidation=Strict"), media_type, created.bytes.clone()).await;
        let again = again.expect_success("an object can be written back as it was read");
        assert_eq!(again.bytes, created.bytes, "writing an object back changes nothing ({media_type})");
    }
    server.get_table(path).await.expect_success("every object has a table row");
    server.request("DELETE", path, JSON, "").await.expect_success("every new object can be deleted");
}
