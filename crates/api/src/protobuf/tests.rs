//! Bodies of clients, handwritten bodies, and corrupt ones.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{DecodeError, Envelope};

/// A limit that no document of these tests reaches.
const MAX_BYTES: usize = 3 << 20;

/// Sent by `kubectl create job by-words --image=registry.example/main:1 -- sleep 1` (1.32 and 1.37).
const KUBECTL_JOB: &str = "6b3873000a0f0a0862617463682f763112034a6f6212a0010a180a0862792d776f72647312001a0022002a0032\
    0038004200127a32780a100a0012001a0022002a00320038004200126412410a0862792d776f726473121772656769737472792e6578616d70\
    6c652f6d61696e3a311a05736c6565701a01312a0042006a007200800100880100900100a201001a054e65766572320042004a005200580060\
    0068008201008a01009a0100c201001a082000280030003a001a002200";

/// Sent by `kubectl create namespace by-words`.
const KUBECTL_NAMESPACE: &str = "6b3873000a0f0a02763112094e616d65737061636512200a180a0862792d776f72647312001a0022002a00\
    32003800420012001a020a001a002200";

/// Sent by `kubectl create priorityclass by-words --value=5 --description=x`.
const KUBECTL_CLASS: &str = "6b3873000a250a147363686564756c696e672e6b38732e696f2f7631120d5072696f72697479436c6173731237\
    0a180a0862792d776f72647312001a0022002a00320038004200100518002201782a14507265656d70744c6f7765725072696f726974791a00\
    2200";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// A varint.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field with a varint.
fn varint_field(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value as u64)].concat()
}

/// A field with a string or a message.
fn bytes_field(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// A body whose envelope has no type.
fn body(raw: impl AsRef<[u8]>) -> Vec<u8> {
    [b"k8s\0".to_vec(), bytes_field(2, raw)].concat()
}

fn read(kind: &str, body: &[u8]) -> Result<Value, DecodeError> {
    read_within(MAX_BYTES, kind, body)
}

fn read_within(max_bytes: usize, kind: &str, body: &[u8]) -> Result<Value, DecodeError> {
    let [group, version, kind] = kind.split('/').collect::<Vec<_>>().try_into().unwrap();
    Envelope::read(body)?.document(group, version, kind, max_bytes)
}

#[test]
fn bodies_of_kubectl_decode_to_its_json() {
    for (kind, hex, want) in [
        (
            "batch/v1/Job",
            KUBECTL_JOB,
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "by-words"}, "status": {},
                "spec": {"template": {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{
                    "name": "by-words", "image": "registry.example/main:1", "command": ["sleep", "1"], "resources": {},
                }]}}},
            }),
        ),
        (
            "/v1/Namespace",
            KUBECTL_NAMESPACE,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "by-words"}, "spec": {}, "status": {}}),
        ),
        (
            "scheduling.k8s.io/v1/PriorityClass",
            KUBECTL_CLASS,
            json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "by-words"},
                "value": 5, "description": "x", "preemptionPolicy": "PreemptLowerPriority",
            }),
        ),
    ] {
        assert_eq!(read(kind, &bytes(hex)).unwrap(), want, "{kind}");
    }
}

/// A Job whose `spec` has these fields.
fn job_spec(fields: &[Vec<u8>]) -> Value {
    read("batch/v1/Job", &body(bytes_field(2, fields.concat()))).unwrap()["spec"].take()
}

#[test]
fn explicit_zeros_are_kept_and_implicit_ones_are_dropped() {
    // Pointers in Go: they are sent only if they are set.
    assert_eq!(job_spec(&[varint_field(1, 0), varint_field(10, 0)]), json!({"parallelism": 0, "suspend": false}));
    // No pointers: name, generation and creation time of metadata are always sent.
    let metadata = [bytes_field(1, ""), varint_field(7, 0), bytes_field(8, "")].concat();
    assert_eq!(read("/v1/Pod", &body(bytes_field(1, metadata))), Ok(json!({"metadata": {}})));
    // No pointer, but JSON always has it.
    assert_eq!(read("scheduling.k8s.io/v1/PriorityClass", &body(varint_field(2, 0))), Ok(json!({"value": 0})));
}

#[test]
fn last_value_wins_and_messages_are_merged() {
    assert_eq!(job_spec(&[varint_field(1, 2), varint_field(1, 3)]), json!({"parallelism": 3}));
    let metadata = |name| bytes_field(1, bytes_field(1, name));
    let twice = [metadata("a"), bytes_field(1, bytes_field(3, "b")), metadata("c")].concat();
    assert_eq!(read("/v1/Pod", &body(twice)), Ok(json!({"metadata": {"name": "c", "namespace": "b"}})));
    let emptied = [metadata("a"), metadata("")].concat();
    assert_eq!(read("/v1/Pod", &body(emptied)), Ok(json!({"metadata": {}})));
}

#[test]
fn wrapper_messages_become_json_values() {
    let pair = |key: &str, value: Vec<u8>| [bytes_field(1, key), value].concat();
    let limits = bytes_field(1, pair("cpu", bytes_field(2, bytes_field(1, "500m"))));
    let port = |port: Vec<u8>| bytes_field(2, port);
    let handler = |port: Vec<u8>| bytes_field(1, bytes_field(2, port));
    let container = [
        bytes_field(8, limits),
        bytes_field(
            10,
            [handler(port([varint_field(1, 0), varint_field(2, 80)].concat())), varint_field(3, 0), varint_field(4, 7)]
                .concat(),
        ),
        bytes_field(11, handler(port([varint_field(1, 1), varint_field(2, 0), bytes_field(3, "web")].concat()))),
    ];
    let managed =
        bytes_field(17, [bytes_field(1, "kubectl"), bytes_field(7, bytes_field(1, br#"{"f:spec":{}}"#))].concat());
    let metadata = [
        bytes_field(9, [varint_field(1, 1_893_456_000), varint_field(2, 999)].concat()),
        bytes_field(11, pair("a", bytes_field(2, "b"))),
        managed,
    ];
    let volume =
        bytes_field(1, [bytes_field(1, "v"), bytes_field(2, bytes_field(2, bytes_field(1, "Memory")))].concat());
    let security = bytes_field(
        14,
        [varint_field(4, -1), varint_field(4, 1 << 40), bytes_field(4, [varint(7), varint(8)].concat())].concat(),
    );
    let pod = [
        bytes_field(1, metadata.concat()),
        bytes_field(2, [bytes_field(2, container.concat()), volume, security].concat()),
    ]
    .concat();
    assert_eq!(
        read("/v1/Pod", &body(pod)).unwrap(),
        json!({
            "metadata": {
                "deletionTimestamp": "2030-01-01T00:00:00Z", "labels": {"a": "b"},
                "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {
                "containers": [{
                    "resources": {"limits": {"cpu": "500m"}},
                    "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 7},
                    "readinessProbe": {"httpGet": {"port": "web"}},
                }],
                "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
                "securityContext": {"supplementalGroups": [-1, 1_i64 << 40, 7, 8]},
            },
        })
    );
    let event = body(bytes_field(10, [varint_field(1, 1_893_456_000), varint_field(2, 1_234_567)].concat()));
    assert_eq!(read("/v1/Event", &event), Ok(json!({"eventTime": "2030-01-01T00:00:00.001234Z"})));
}

#[test]
fn map_entries_may_lack_key_or_value() {
    let labels = |entry: Vec<u8>| body(bytes_field(1, bytes_field(11, entry)));
    for (entry, want) in [
        (Vec::new(), json!({"": ""})),
        (bytes_field(1, "a"), json!({"a": ""})),
        (bytes_field(2, "b"), json!({"": "b"})),
        ([bytes_field(2, "b"), bytes_field(1, "a"), varint_field(3, 1)].concat(), json!({"a": "b"})),
    ] {
        assert_eq!(read("/v1/Pod", &labels(entry)), Ok(json!({"metadata": {"labels": want}})));
    }
}

#[test]
fn unknown_fields_are_skipped() {
    let unknown = [
        varint_field(1000, 7),
        bytes_field(1001, "x"),
        varint(1002 << 3 | 3),
        varint_field(1, 1),
        varint(1002 << 3 | 4),
    ]
    .concat();
    let envelope = [bytes(KUBECTL_NAMESPACE), unknown.clone()].concat();
    assert_eq!(read("/v1/Namespace", &envelope), read("/v1/Namespace", &bytes(KUBECTL_NAMESPACE)));
    assert_eq!(job_spec(&[unknown, varint_field(1, 2)]), json!({"parallelism": 2}));
}

#[test]
fn invalid_bodies_are_refused() {
    let pod = |raw: Vec<u8>| body(bytes_field(1, raw));
    let deep = (0..200).fold(Vec::new(), |inner, _| bytes_field(9, inner));
    for (case, body, want) in [
        ("nothing", Vec::new(), "does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        ("JSON", b"{}".to_vec(), "does not appear to be a protobuf message"),
        ("a length beyond the end", pod(vec![0x0a, 0x7f]), "unexpected EOF"),
        ("a length beyond memory", [&b"k8s\0\x12"[..], &[0xff; 9], &[0x01]].concat(), "unexpected EOF"),
        ("an unterminated varint", pod([varint(7 << 3), vec![0x80; 10]].concat()), "integer overflow"),
        ("a number for a string", pod(varint_field(1, 5)), "wrong wireType = 0 for field name"),
        ("a string for a number", pod(bytes_field(7, "5")), "wrong wireType = 2 for field generation"),
        ("a number for a map", pod(varint_field(11, 5)), "wrong wireType = 0 for field labels"),
        ("field zero", pod(vec![0x02, 0x00]), "illegal tag 0 (wire type 2)"),
        ("an unknown wire type", pod(vec![0x0f]), "illegal tag 1 (wire type 7)"),
        ("the end of a group that was not started", pod(varint(1000 << 3 | 4)), "end group for non-group"),
        ("not UTF-8", pod(bytes_field(1, [0xff])), "field name contains invalid UTF-8"),
        ("not JSON", pod(bytes_field(17, bytes_field(7, bytes_field(1, "{")))), "field fieldsV1 has no form in JSON"),
        (
            "a time after the last year",
            pod(bytes_field(9, varint_field(1, i64::MAX))),
            "field deletionTimestamp has no form in JSON",
        ),
        (
            "a time before the first year",
            pod(bytes_field(9, varint_field(1, -62_167_219_201))),
            "field deletionTimestamp has no form",
        ),
        ("a compressed object", [b"k8s\0".to_vec(), bytes_field(3, "gzip")].concat(), "compressed"),
    ] {
        let error = read("/v1/Pod", &body).unwrap_err().to_string();
        assert!(error.contains(want), "{case}: {error}");
    }
    let nested = body(bytes_field(2, bytes_field(3, deep)));
    assert_eq!(read("scheduling.k8s.io/v1alpha3/Workload", &nested), Err(DecodeError::TooDeep));
    assert_eq!(read("apps/v1/Deployment", &body("")), Err(DecodeError::Kind));
}

#[test]
fn limit_is_on_the_size_of_the_json() {
    // A container has two bytes here and `{},` in JSON. The zeros that Go always sends are not in JSON.
    let name = bytes_field(
        1,
        [bytes_field(1, "a"), bytes_field(2, ""), bytes_field(3, "").repeat(1000), varint_field(7, 0).repeat(1000)]
            .concat(),
    );
    let pod = body([name, bytes_field(2, bytes_field(2, []).repeat(100_000))].concat());
    let text = read("/v1/Pod", &pod).unwrap().to_string();
    assert!(text.starts_with(r#"{"metadata":{"name":"a"},"spec":{"containers":[{},{},"#));
    assert!((300_000..300_100).contains(&text.len()), "{}", text.len());
    assert_eq!(read_within(text.len() - 100, "/v1/Pod", &pod), Err(DecodeError::TooLarge));
    assert!(read_within(text.len() + 1, "/v1/Pod", &pod).is_ok());
}

#[test]
fn truncated_body_is_decoded_or_refused() {
    let body_bytes = bytes(KUBECTL_JOB);
    let complete = (0..body_bytes.len()).filter(|&length| read("batch/v1/Job", &body_bytes[..length]).is_ok()).count();
    // It can end between the fields of the envelope: after the prefix, the type, the object, and the first of two more.
    assert_eq!(complete, 4);
}

/// A body of kubectl with some bytes changed, inserted or removed.
fn corrupted_body() -> impl Strategy<Value = Vec<u8>> {
    let body_bytes = bytes(KUBECTL_JOB);
    let edit = (0..body_bytes.len(), 0..3_u8, any::<u8>());
    prop::collection::vec(edit, 1..6).prop_map(move |edits| {
        let mut body = body_bytes.clone();
        for (at, how, byte) in edits {
            let at = at.min(body.len() - 1);
            match how {
                0 => body[at] = byte,
                1 => body.insert(at, byte),
                _ => drop(body.remove(at)),
            }
        }
        body
    })
}

proptest! {
    #[test]
    fn no_body_causes_a_panic_or_unreadable_json(
        spoiled in corrupted_body(),
        raw in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let kinds = ["batch/v1/Job", "/v1/Pod", "/v1/Event", "/v1/DeleteOptions", "scheduling.k8s.io/v1alpha3/Workload"];
        let random = body(&raw);
        for (kind, body) in kinds.iter().flat_map(|kind| [(kind, &spoiled), (kind, &random)]) {
            if let Ok(document) = read(kind, body) {
                let again: Value = serde_json::from_str(&document.to_string()).unwrap();
                prop_assert_eq!(again, document);
            }
        }
    }

    #[test]
    fn size_of_the_document_is_bounded_by_the_limit(
        raw in prop::collection::vec(any::<u8>(), 0..80),
        max_bytes in 0..200_usize,
    ) {
        if let Ok(document) = read_within(max_bytes, "/v1/Pod", &body(&raw)) {
            // An escape has six bytes, a number up to 20, a time 22.
            prop_assert!(document.to_string().len() <= 12 * max_bytes + 2);
        }
    }
}
