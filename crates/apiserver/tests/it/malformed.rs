//! Malformed bodies, patches and paths get a response and never cause a panic.

use http::StatusCode;
use kube::api::PostParams;

use serde_json::json;

use crate::test_server::{PODS, pod, pod_document, test_server};

#[tokio::test(start_paused = true)]
async fn bodies_that_are_not_objects_are_refused() {
    let server = test_server();
    let deep = format!("{{\"metadata\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    for (case, body, want) in [
        ("empty", String::new(), StatusCode::BAD_REQUEST),
        ("blank", " \n".to_owned(), StatusCode::BAD_REQUEST),
        ("not JSON", "hello".to_owned(), StatusCode::BAD_REQUEST),
        ("half", "{\"metadata\":".to_owned(), StatusCode::BAD_REQUEST),
        ("list", "[]".to_owned(), StatusCode::BAD_REQUEST),
        ("number", "7".to_owned(), StatusCode::BAD_REQUEST),
        ("null", "null".to_owned(), StatusCode::BAD_REQUEST),
        ("metadata of the wrong type", "{\"metadata\":7}".to_owned(), StatusCode::BAD_REQUEST),
        (
            "labels of the wrong type",
            "{\"metadata\":{\"name\":\"a\",\"labels\":[1]}}".to_owned(),
            StatusCode::BAD_REQUEST,
        ),
        ("spec of the wrong type", "{\"metadata\":{\"name\":\"a\"},\"spec\":[]}".to_owned(), StatusCode::BAD_REQUEST),
        ("an empty object", "{}".to_owned(), StatusCode::UNPROCESSABLE_ENTITY),
        ("nested deeply", deep, StatusCode::BAD_REQUEST),
        ("4 MiB", "x".repeat(4 << 20), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let (code, status) = server.call("POST", PODS, "application/json", body).await;
        assert_eq!((code, &status["kind"]), (want, &"Status".into()), "{case}: {status}");
    }
    let (code, _) = server.call("POST", PODS, "text/plain", "a: b").await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let (code, _) = server.call("POST", PODS, "application/json", &b"{\"a\":\"\xff\"}"[..]).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn patches_that_break_the_object_are_refused() {
    let server = test_server();
    server.pods().create(&PostParams::default(), &pod("a")).await.unwrap();
    let too_many = format!("[{}{{}}]", "{\"op\":\"remove\",\"path\":\"/x\"},".repeat(10_000));
    for (case, media, body, want) in [
        ("empty", "merge", "", StatusCode::BAD_REQUEST),
        ("list", "merge", "[]", StatusCode::BAD_REQUEST),
        ("no metadata", "merge", "{\"metadata\":null}", StatusCode::BAD_REQUEST),
        ("metadata of the wrong type", "merge", "{\"metadata\":[]}", StatusCode::BAD_REQUEST),
        ("another name", "merge", "{\"metadata\":{\"name\":\"b\"}}", StatusCode::BAD_REQUEST),
        ("spec of the wrong type", "merge", "{\"spec\":7}", StatusCode::BAD_REQUEST),
        ("no spec", "merge", "{\"spec\":null}", StatusCode::UNPROCESSABLE_ENTITY),
        ("object", "json", "{}", StatusCode::BAD_REQUEST),
        ("unknown operation", "json", "[{\"op\":\"x\",\"path\":\"/a\"}]", StatusCode::BAD_REQUEST),
        ("a missing path", "json", "[{\"op\":\"remove\",\"path\":\"/a/b\"}]", StatusCode::UNPROCESSABLE_ENTITY),
        ("everything", "json", "[{\"op\":\"replace\",\"path\":\"\",\"value\":3}]", StatusCode::BAD_REQUEST),
        (
            "too many",
            "json",
            &too_many.replace("{}]", "{\"op\":\"remove\",\"path\":\"/x\"}]"),
            StatusCode::PAYLOAD_TOO_LARGE,
        ),
    ] {
        let media = format!("application/{media}-patch+json");
        let (code, status) = server.call("PATCH", &format!("{PODS}/a"), &media, body.to_owned()).await;
        assert_eq!((code, &status["kind"]), (want, &"Status".into()), "{case}: {status}");
        let (code, status) = server.call("PATCH", &format!("{PODS}/a/status"), &media, body.to_owned()).await;
        assert_ne!(code, StatusCode::INTERNAL_SERVER_ERROR, "{case}: {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_copies_the_object_into_itself_is_refused() {
    let server = test_server();
    // Small, so that the depth limit is reached before the size limit.
    let mut small = pod_document("a");
    small["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    server.post(PODS, small).await;
    let nest = r#"{"op":"copy","from":"/spec","path":"/spec/x"},"#.repeat(200);
    let grow = r#"{"op":"copy","from":"/spec","path":"/spec/containers/-"},"#.repeat(200);
    for (case, operations, want) in
        [("deeper", nest, StatusCode::UNPROCESSABLE_ENTITY), ("larger", grow, StatusCode::PAYLOAD_TOO_LARGE)]
    {
        let body = format!("[{}]", operations.trim_end_matches(','));
        let (code, status) = server.call("PATCH", &format!("{PODS}/a"), "application/json-patch+json", body).await;
        assert_eq!(code, want, "{case}: {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_are_404() {
    let server = test_server();
    for path in [
        "/",
        "/x",
        "/api/v1/gadgets",
        "/api/v2/pods",
        "/api/v1/namespaces/default/pods/a/b/c",
        "/api/v1/namespaces/default/pods/a/logs",
        "/api/v1/pods/a",
        "/api/v1/namespaces/default/nodes",
    ] {
        let (code, status) = server.get(path).await;
        assert_eq!((code, &status["kind"]), (StatusCode::NOT_FOUND, &"Status".into()), "{path}");
    }
    assert_eq!(server.get("/readyz").await.0, StatusCode::OK);
    assert_eq!(server.get("/version").await.1["minor"], "37");
    let (code, _) = server.call("PUT", PODS, "application/json", "{}").await;
    assert_eq!(code, StatusCode::METHOD_NOT_ALLOWED);
}
