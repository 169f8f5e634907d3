//! `fieldValidation`: unknown and duplicate fields, in every kind of body.

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::test_server::{JOBS, TestServer, test_server};

const JOB: &str = r#"{"metadata":{"name":"NAME"},"spec":{"parallelism":1,"parallelism":2,"foo":1,
    "template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"x","image":"y"}]}}}}"#;

const FOUND: [&str; 3] = [
    "unknown field \"spec.foo\"",
    "duplicate field \"spec.parallelism\"",
    "duplicate field \"spec.template.spec.containers[0].image\"",
];

/// Returns code, body and warnings.
async fn send(
    server: &TestServer,
    method: &str,
    path: &str,
    media_type: &str,
    body: &str,
) -> (StatusCode, Value, Vec<String>) {
    let request = Request::builder().method(method).uri(path).header("content-type", media_type);
    let response = server.send(request.body(body.to_owned().into()).unwrap()).await;
    let code = response.status();
    let texts = response.headers().get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap(), texts)
}

fn warnings() -> Vec<String> {
    FOUND.iter().map(|text| format!("299 - \"{}\"", text.replace('"', "\\\""))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_create_is_as_strict_as_requested() {
    let server = test_server();
    let post = |name: &'static str, validation: &'static str| {
        let (server, body) = (&server, JOB.replace("NAME", name));
        async move { send(server, "POST", &format!("{JOBS}?fieldValidation={validation}"), "application/json", &body).await }
    };
    let (code, status, _) = post("strict", "Strict").await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    let want = "Job in version \"v1\" cannot be handled as a Job: strict decoding error: ";
    assert_eq!(status["message"], format!("{want}{}", FOUND.join(", ")));
    for (name, validation, want) in [("warn", "Warn", warnings()), ("ignore", "Ignore", Vec::new())] {
        let (code, job, warned) = post(name, validation).await;
        assert_eq!((code, warned), (StatusCode::CREATED, want), "{validation}: {job}");
        assert_eq!((&job["spec"]["parallelism"], job["spec"].get("foo")), (&2.into(), None), "the last one wins");
        assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["image"], "y");
    }
}

#[tokio::test(start_paused = true)]
async fn updates_and_patches_are_as_strict() {
    let server = test_server();
    send(&server, "POST", &format!("{JOBS}?fieldValidation=Ignore"), "application/json", &JOB.replace("NAME", "a"))
        .await;
    let path = format!("{JOBS}/a");
    let twice = r#"{"spec":{"parallelism":3,"parallelism":4,"foo":1}}"#;
    for (method, media_type, body) in [
        ("PUT", "application/json", JOB.replace("NAME", "a").as_str()),
        ("PATCH", "application/merge-patch+json", twice),
        ("PATCH", "application/strategic-merge-patch+json", twice),
    ] {
        let (code, status, _) =
            send(&server, method, &format!("{path}?fieldValidation=Strict"), media_type, body).await;
        assert_eq!(code, StatusCode::BAD_REQUEST, "{media_type}: {status}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(&format!("strict decoding error: {}, {}", FOUND[0], FOUND[1])), "{message}");
    }
    let (code, job, warned) = send(&server, "PATCH", &path, "application/merge-patch+json", twice).await;
    assert_eq!((code, &job["spec"]["parallelism"]), (StatusCode::OK, &4.into()));
    assert_eq!(warned, warnings()[..2]);
}

#[tokio::test(start_paused = true)]
async fn thousands_of_findings_give_a_short_response() {
    let server = test_server();
    let fields: String = (0..5000).map(|index| format!("\"x{index}\":1,\"x{index}\":2,")).collect();
    let body = JOB.replace("NAME", "a").replacen('{', &format!("{{{fields}"), 1);
    let (code, status, _) =
        send(&server, "POST", &format!("{JOBS}?fieldValidation=Strict"), "application/json", &body).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(status["message"].as_str().unwrap().len() < 8192);
    let (code, _, warned) = send(&server, "POST", JOBS, "application/json", &body).await;
    assert_eq!(code, StatusCode::CREATED);
    assert!(warned.iter().map(String::len).sum::<usize>() < 8192 && !warned.is_empty());
}

#[tokio::test(start_paused = true)]
async fn bodies_may_be_yaml() {
    let server = test_server();
    let yaml = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      \
                restartPolicy: Never\n      containers:\n      - {name: main, image: x}\n";
    let (code, job, _) = send(&server, "POST", JOBS, "application/yaml", yaml).await;
    assert_eq!((code, &job["spec"]["parallelism"]), (StatusCode::CREATED, &1.into()), "{job}");
    for (media_type, body, want) in [
        ("application/yaml", "a: [", StatusCode::BAD_REQUEST),
        ("application/yaml", "a: 1\na: 2", StatusCode::BAD_REQUEST),
        ("application/cbor", "k8s", StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        assert_eq!(send(&server, "POST", JOBS, media_type, body).await.0, want, "{media_type} {body}");
    }
}
