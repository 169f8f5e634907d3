//! One object in every served version.

use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::test_server::test_server;

const ALPHA: &str = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/podgroups";
const BETA: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";

fn group(version: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("scheduling.k8s.io/{version}"), "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    })
}

fn without_version(mut object: Value) -> Value {
    object["apiVersion"].take();
    object
}

#[tokio::test(start_paused = true)]
async fn an_object_is_the_same_in_every_version_served() {
    let server = test_server();
    let (code, alpha) = server.post(ALPHA, group("v1alpha3", "a")).await;
    assert_eq!((code, &alpha["apiVersion"]), (StatusCode::CREATED, &json!("scheduling.k8s.io/v1alpha3")), "{alpha}");
    let (_, beta) = server.get(&format!("{BETA}/a")).await;
    assert_eq!(beta["apiVersion"], "scheduling.k8s.io/v1beta1");
    assert_eq!(without_version(beta.clone()), without_version(alpha.clone()));
    let (_, alpha) = server.get(&format!("{ALPHA}/a")).await;
    assert_eq!(without_version(beta), without_version(alpha));
    let (_, list) = server.get(ALPHA).await;
    assert_eq!(
        (&list["apiVersion"], &list["items"][0]["apiVersion"]),
        (&json!("scheduling.k8s.io/v1alpha3"), &json!("scheduling.k8s.io/v1alpha3"))
    );
}

#[tokio::test(start_paused = true)]
async fn writes_and_watches_use_the_version_of_their_path() {
    let server = test_server();
    server.post(BETA, group("v1beta1", "a")).await;
    let patch = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}).to_string();
    let (code, patched) = server.call("PATCH", &format!("{ALPHA}/a"), "application/merge-patch+json", patch).await;
    assert_eq!((code, &patched["apiVersion"]), (StatusCode::OK, &json!("scheduling.k8s.io/v1alpha3")), "{patched}");
    let (code, _) = server.call("PUT", &format!("{ALPHA}/a"), "application/json", patched.to_string()).await;
    assert_eq!(code, StatusCode::OK);
    let (code, _) = server.call("PUT", &format!("{BETA}/a"), "application/json", patched.to_string()).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "the body is in another version than the path");
    let request = http::Request::get(format!("{ALPHA}?watch=1&timeoutSeconds=1")).body(Default::default()).unwrap();
    let bytes = server.send(request).await.into_body().collect().await.unwrap().to_bytes();
    let event: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["apiVersion"]),
        (&json!("ADDED"), &json!("scheduling.k8s.io/v1alpha3"))
    );
    assert_eq!(event["object"]["spec"]["schedulingPolicy"]["gang"]["minCount"], 3);
}
