//! Bodies in protobuf: the same objects, the same limits, and answers in JSON.

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::test_server::{JOBS, PODS, TestServer, job_document, pod, test_server};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A field that is a text or a message.
fn part(field: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let mut bytes = vec![field << 3 | 2];
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
    let meta = [part(1, api_version), part(2, kind)].concat();
    [b"k8s\0".to_vec(), part(1, meta), part(2, raw)].concat()
}

/// The Job of `job_document` as a client in Go sends it, with a few of the zeros that such a client always sends.
fn job(name: &str) -> Vec<u8> {
    let container = [part(1, "main"), part(2, "busybox"), part(5, ""), vec![0x80, 0x01, 0x00]].concat();
    let template = [part(1, part(1, "")), part(2, [part(2, container), part(3, "Never"), vec![0x58, 0x00]].concat())];
    let metadata = [part(1, name), part(3, ""), vec![0x38, 0x00], part(8, "")].concat();
    let status = [0x20, 0x00];
    body("batch/v1", "Job", [part(1, metadata), part(2, part(6, template.concat())), part(3, status)].concat())
}

#[tokio::test(start_paused = true)]
async fn an_object_is_the_same_whether_it_came_as_protobuf_or_as_json() {
    let path = format!("{JOBS}?fieldValidation=Strict");
    let (code, from_json) = test_server().post(&path, job_document("a")).await;
    assert_eq!(code, StatusCode::CREATED, "{from_json}");
    let home = test_server();
    let request = Request::post(&path).header("content-type", PROTOBUF);
    let request = request.header("accept", format!("{PROTOBUF},application/json"));
    let response = home.send(request.body(job("a").into()).unwrap()).await;
    assert_eq!(
        (response.status(), &response.headers()["content-type"]),
        (StatusCode::CREATED, &"application/json".parse().unwrap())
    );
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let from_protobuf: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(from_protobuf, from_json);
}

async fn send(home: &TestServer, method: &str, path: &str, body: Vec<u8>) -> (StatusCode, Value) {
    home.call(method, path, PROTOBUF, body).await
}

#[tokio::test(start_paused = true)]
async fn updates_bindings_and_options_of_a_deletion_may_be_protobuf() {
    let home = test_server();
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}});
    assert_eq!(home.post("/api/v1/nodes", node).await.0, StatusCode::CREATED);
    home.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let named = |name: &str| part(1, part(1, name));

    let binding = [named("a"), part(2, [part(1, "Node"), part(3, "n")].concat())].concat();
    let (code, said) = send(&home, "POST", &format!("{PODS}/a/binding"), body("v1", "Binding", binding)).await;
    assert_eq!(code, StatusCode::CREATED, "{said}");

    let status = [named("a"), part(3, part(3, "looked after"))].concat();
    let (code, said) = send(&home, "PUT", &format!("{PODS}/a/status"), body("v1", "Pod", status)).await;
    assert_eq!((code, &said["status"]["message"]), (StatusCode::OK, &"looked after".into()), "{said}");
    assert_eq!(said["spec"]["nodeName"], "n", "{said}");

    let (code, _) = send(&home, "POST", JOBS, job("a")).await;
    assert_eq!(code, StatusCode::CREATED);
    let (code, said) = send(&home, "PUT", &format!("{JOBS}/a"), job("a")).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "selector and labels that the server gave are missing: {said}");

    // Options come in any version: clients name that of the object.
    for version in ["v1", "batch/v1", "meta.k8s.io/v1"] {
        let options = body(version, "DeleteOptions", part(2, part(1, "another uid")));
        let (code, said) = send(&home, "DELETE", &format!("{JOBS}/a"), options).await;
        assert_eq!(code, StatusCode::CONFLICT, "{version}: {said}");
    }
    let (code, said) =
        send(&home, "DELETE", &format!("{JOBS}/a"), body("batch/v1", "DeleteOptions", part(4, "Orphan"))).await;
    assert_eq!((code, &said["metadata"]["finalizers"]), (StatusCode::OK, &json!(["orphan"])), "{said}");
    let (code, _) = send(&home, "DELETE", &format!("{PODS}/a"), Vec::new()).await;
    assert_eq!(code, StatusCode::OK, "no body, no options");
}

#[tokio::test(start_paused = true)]
async fn protobuf_that_is_no_such_object_is_refused() {
    let home = test_server();
    let spec = |raw: Vec<u8>| body("v1", "Pod", [part(1, part(1, "a")), part(2, raw)].concat());
    for (case, body, code, want) in [
        ("nothing", Vec::new(), 400, "the body is empty"),
        ("JSON", b"{}".to_vec(), 400, "must be of type Pod): provided data does not appear to be a protobuf message"),
        ("half", spec(vec![0x12, 0x7f]), 400, "(must be of type Pod): unexpected EOF"),
        ("a number for a text", spec(vec![0x50, 0x01]), 400, "wrong wireType = 0 for field nodeName"),
        ("another kind", body("v1", "Node", ""), 400, "Node in version \"v1\" cannot be handled as a Pod"),
        ("another version", body("v2", "Pod", ""), 400, "the API version in the data (v2) does not match"),
        ("nothing in it", body("v1", "Pod", ""), 422, "Required value"),
        ("no amount", spec(part(2, part(8, part(1, part(2, part(1, "much")))))), 400, "cannot be handled as a Pod"),
        // Far below the limit as it comes; every container takes two bytes here and three there.
        ("too large as JSON", spec(part(2, "").repeat(1_100_000)), 413, "limit is 3145728"),
        ("too large with its escapes", spec(part(10, "\u{1}".repeat(600_000))), 413, "limit is 3145728"),
        ("too large", vec![0; 4 << 20], 413, "limit is 3145728"),
    ] {
        let (said, status) = send(&home, "POST", PODS, body).await;
        assert_eq!((said.as_u16(), &status["kind"]), (code, &"Status".into()), "{case}: {status}");
        assert!(status["message"].as_str().unwrap().contains(want), "{case}: {status}");
    }
    let (code, status) = send(&home, "DELETE", &format!("{PODS}/a"), body("v1", "Pod", "")).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "{status}");
    let (code, status) = home.call("POST", PODS, "application/cbor", "x").await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(status["message"].as_str().unwrap().ends_with(PROTOBUF), "{status}");
    let (code, _) = home.call("PATCH", &format!("{PODS}/a"), PROTOBUF, spec(Vec::new())).await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE, "there are no patches in protobuf");
}
