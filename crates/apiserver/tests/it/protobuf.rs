//! Bodies in protobuf: the same objects, the same limits, and responses in JSON.

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::test_server::{JOBS, PODS, TestServer, job_document, pod, test_server};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A field that is a string or a message.
fn field(number: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let mut bytes = vec![number << 3 | 2];
    let mut length = value.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(value);
    bytes
}

/// A body with an object of this kind.
fn body(api_version: &str, kind: &str, raw: impl AsRef<[u8]>) -> Vec<u8> {
    let meta = [field(1, api_version), field(2, kind)].concat();
    [b"k8s\0".to_vec(), field(1, meta), field(2, raw)].concat()
}

/// The Job of `job_document` as a Go client sends it, with a few of the zero values that such a client always sends.
fn job(name: &str) -> Vec<u8> {
    let container = [field(1, "main"), field(2, "busybox"), field(5, ""), vec![0x80, 0x01, 0x00]].concat();
    let template =
        [field(1, field(1, "")), field(2, [field(2, container), field(3, "Never"), vec![0x58, 0x00]].concat())];
    let metadata = [field(1, name), field(3, ""), vec![0x38, 0x00], field(8, "")].concat();
    let status = [0x20, 0x00];
    body("batch/v1", "Job", [field(1, metadata), field(2, field(6, template.concat())), field(3, status)].concat())
}

#[tokio::test(start_paused = true)]
async fn protobuf_and_json_bodies_give_the_same_object() {
    let path = format!("{JOBS}?fieldValidation=Strict");
    let (code, from_json) = test_server().post(&path, job_document("a")).await;
    assert_eq!(code, StatusCode::CREATED, "{from_json}");
    let server = test_server();
    let request = Request::post(&path).header("content-type", PROTOBUF);
    let request = request.header("accept", format!("{PROTOBUF},application/json"));
    let response = server.send(request.body(job("a").into()).unwrap()).await;
    assert_eq!(
        (response.status(), &response.headers()["content-type"]),
        (StatusCode::CREATED, &"application/json".parse().unwrap())
    );
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let from_protobuf: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(from_protobuf, from_json);
}

async fn send(server: &TestServer, method: &str, path: &str, body: Vec<u8>) -> (StatusCode, Value) {
    server.call(method, path, PROTOBUF, body).await
}

#[tokio::test(start_paused = true)]
async fn updates_bindings_and_delete_options_may_be_protobuf() {
    let server = test_server();
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}});
    assert_eq!(server.post("/api/v1/nodes", node).await.0, StatusCode::CREATED);
    server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let named = |name: &str| field(1, field(1, name));

    let binding = [named("a"), field(2, [field(1, "Node"), field(3, "n")].concat())].concat();
    let (code, response) = send(&server, "POST", &format!("{PODS}/a/binding"), body("v1", "Binding", binding)).await;
    assert_eq!(code, StatusCode::CREATED, "{response}");

    let status = [named("a"), field(3, field(3, "looked after"))].concat();
    let (code, response) = send(&server, "PUT", &format!("{PODS}/a/status"), body("v1", "Pod", status)).await;
    assert_eq!((code, &response["status"]["message"]), (StatusCode::OK, &"looked after".into()), "{response}");
    assert_eq!(response["spec"]["nodeName"], "n", "{response}");

    let (code, _) = send(&server, "POST", JOBS, job("a")).await;
    assert_eq!(code, StatusCode::CREATED);
    let (code, response) = send(&server, "PUT", &format!("{JOBS}/a"), job("a")).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "the generated selector and labels are missing: {response}");

    // Options may have any version: clients send the version of the object.
    for version in ["v1", "batch/v1", "meta.k8s.io/v1"] {
        let options = body(version, "DeleteOptions", field(2, field(1, "another uid")));
        let (code, response) = send(&server, "DELETE", &format!("{JOBS}/a"), options).await;
        assert_eq!(code, StatusCode::CONFLICT, "{version}: {response}");
    }
    let (code, response) =
        send(&server, "DELETE", &format!("{JOBS}/a"), body("batch/v1", "DeleteOptions", field(4, "Orphan"))).await;
    assert_eq!((code, &response["metadata"]["finalizers"]), (StatusCode::OK, &json!(["orphan"])), "{response}");
    let (code, _) = send(&server, "DELETE", &format!("{PODS}/a"), Vec::new()).await;
    assert_eq!(code, StatusCode::OK, "no body, no options");
}

#[tokio::test(start_paused = true)]
async fn protobuf_that_is_not_the_expected_object_is_refused() {
    let server = test_server();
    let spec = |raw: Vec<u8>| body("v1", "Pod", [field(1, field(1, "a")), field(2, raw)].concat());
    for (case, body, code, want) in [
        ("nothing", Vec::new(), 400, "the body is empty"),
        ("JSON", b"{}".to_vec(), 400, "must be of type Pod): provided data does not appear to be a protobuf message"),
        ("half", spec(vec![0x12, 0x7f]), 400, "(must be of type Pod): unexpected EOF"),
        ("a number for a text", spec(vec![0x50, 0x01]), 400, "wrong wireType = 0 for field nodeName"),
        ("another kind", body("v1", "Node", ""), 400, "Node in version \"v1\" cannot be handled as a Pod"),
        ("another version", body("v2", "Pod", ""), 400, "the API version in the data (v2) does not match"),
        ("an empty object", body("v1", "Pod", ""), 422, "Required value"),
        (
            "not a quantity",
            spec(field(2, field(8, field(1, field(2, field(1, "much")))))),
            400,
            "cannot be handled as a Pod",
        ),
        // Far below the limit as sent. Every container takes two bytes in protobuf and three in JSON.
        ("too large as JSON", spec(field(2, "").repeat(1_100_000)), 413, "limit is 3145728"),
        ("too large with its escapes", spec(field(10, "\u{1}".repeat(600_000))), 413, "limit is 3145728"),
        ("too large", vec![0; 4 << 20], 413, "limit is 3145728"),
    ] {
        let (found, status) = send(&server, "POST", PODS, body).await;
        assert_eq!((found.as_u16(), &status["kind"]), (code, &"Status".into()), "{case}: {status}");
        assert!(status["message"].as_str().unwrap().contains(want), "{case}: {status}");
    }
    let (code, status) = send(&server, "DELETE", &format!("{PODS}/a"), body("v1", "Pod", "")).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "{status}");
    let (code, status) = server.call("POST", PODS, "application/cbor", "x").await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(status["message"].as_str().unwrap().ends_with(PROTOBUF), "{status}");
    let (code, _) = server.call("PATCH", &format!("{PODS}/a"), PROTOBUF, spec(Vec::new())).await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE, "patches cannot be protobuf");
}
