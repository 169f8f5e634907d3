//! The log of commands that keep running: JSON when it is requested, and never a secret.

use std::process::{Command, Stdio};

use kube::config::Kubeconfig;
use serde_json::Value;
use supervisor::{SupervisedProcess, UpProcess};

use crate::components::start_component;
use crate::up::{JOBS, TIMEOUT, TestDir, eventually, exit_code, gang, get, post, start_up};
use crate::{phalanx, text};

const JSON: [&str; 2] = ["--log-format", "json"];

fn parse_lines(log: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    log.lines().map(parse).collect()
}

#[test]
fn every_line_of_run_is_json_and_has_the_fields_of_its_spans() {
    let log = ["--log", "debug", JSON[0], JSON[1]];
    let output = phalanx(&[&["run", "examples/plain-job.yaml"], &log[..]].concat());
    assert_eq!(output.status.code(), Some(0));
    let lines = parse_lines(&text(&output.stderr));
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["target"].is_string(), "{line}");
        assert!(line["fields"]["message"].is_string(), "{line}");
    }
    let message = |line: &Value| line["fields"]["message"].as_str().unwrap().to_owned();
    assert!(lines.iter().any(|line| message(line).starts_with("1 done in")), "the summary is a line too");
    let is_decision = |span: &Value| span["name"] == "decision" && span["unit"].is_string();
    let in_decision = |line: &&Value| line["spans"].as_array().is_some_and(|spans| spans.iter().any(is_decision));
    assert!(lines.iter().any(|line| in_decision(&line)), "no line of a decision: {lines:#?}");
    // A line that names its span only as the parent would have an empty list here.
    let ends: Vec<&Value> = lines.iter().filter(|line| message(line) == "request ended").collect();
    let is_request = |span: &Value| span["name"] == "request" && span["id"].is_u64() && span["user"].is_string();
    let in_request = |line: &&Value| line["spans"].as_array().is_some_and(|spans| spans.iter().any(is_request));
    assert!(!ends.is_empty());
    assert!(ends.iter().all(in_request), "a request ends outside of its span: {ends:#?}");
    assert!(text(&output.stdout).contains("job/"), "the result is the same as without it");
}

#[test]
fn log_format_text_is_the_default_and_others_are_refused() {
    let output = phalanx(&["run", "examples/plain-job.yaml", "--log-format", "text"]);
    assert!(text(&output.stderr).lines().last().unwrap().starts_with("1 done in"), "{}", text(&output.stderr));
    let output = phalanx(&["up", "--log-format", "xml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("possible values: text, json"), "{}", text(&output.stderr));
    let output = phalanx(&["up", "--listen", "nonsense", JSON[0], JSON[1]]);
    let lines = parse_lines(&text(&output.stderr));
    assert_eq!((output.status.code(), &lines[0]["level"]), (Some(2), &Value::from("ERROR")), "{lines:?}");
}

/// The packages were renamed, and with them the targets: `apiserver=debug` matched nothing.
#[test]
fn a_filter_names_a_crate_with_and_without_its_prefix() {
    for filter in ["apiserver=debug", "phalanx_apiserver=debug"] {
        let output = phalanx(&["run", "examples/plain-job.yaml", "--log", filter, JSON[0], JSON[1]]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let lines = parse_lines(&text(&output.stderr));
        // The messages of the command itself have its own target.
        let targets = lines.iter().map(|line| line["target"].as_str().unwrap()).filter(|target| *target != "phalanx");
        let targets: Vec<&str> = targets.collect();
        assert!(!targets.is_empty(), "{filter}: nothing of the server is logged");
        assert!(targets.iter().all(|target| target.starts_with("phalanx_apiserver")), "{filter}: {targets:?}");
    }
}

#[test]
fn an_invalid_filter_in_the_environment_exits_2_and_names_the_variable() {
    let with_filter = |filter: &str, arguments: &[&str]| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command.args(arguments).env("PHALANX_LOG", filter).current_dir(root).output().unwrap()
    };
    let output = with_filter("a=b=c", &["run", "examples/plain-job.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("error: PHALANX_LOG a=b=c: "), "{}", text(&output.stderr));
    // An option takes precedence, and an empty variable is none.
    assert_eq!(with_filter("a=b=c", &["run", "examples/plain-job.yaml", "--log", "off"]).status.code(), Some(0));
    assert_eq!(with_filter("", &["version"]).status.code(), Some(0));
    let output = with_filter("apiserver=debug", &["run", "examples/plain-job.yaml"]);
    assert!(text(&output.stderr).contains("phalanx_apiserver"), "{}", text(&output.stderr));
}

/// Every text of a kubeconfig and of the data directory that gives rights to its holder.
fn secrets(dir: &TestDir, kubeconfig: &str) -> Vec<String> {
    let pki = std::fs::read_dir(dir.path("data/pki")).unwrap();
    let files = pki.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default());
    let mut secrets = Vec::new();
    for file in files {
        if file.contains("PRIVATE KEY") {
            secrets.extend(file.lines().filter(|line| !line.starts_with("-----")).map(str::to_owned));
        } else if !file.contains("-----") {
            secrets.push(file.trim().to_owned());
        }
    }
    let key = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("client-key-data:")).unwrap();
    secrets.push(key.trim().trim_matches('"').to_owned());
    secrets.retain(|secret| secret.len() >= 16);
    secrets
}

#[tokio::test]
async fn no_secret_is_in_the_log_at_trace_level() {
    let dir = TestDir::new("log-secrets");
    let arguments = ["--data-dir", &dir.path("data"), "--nodes", "2", "--log", "trace", JSON[0], JSON[1]];
    let mut up = start_up(&dir, &arguments);
    let kubeconfig = std::fs::read_to_string(&up.kubeconfig).unwrap();
    let token = std::fs::read_to_string(dir.path("data/pki/token")).unwrap().trim().to_owned();
    let wrong = "a-token-of-another-cluster-0123456789";
    let client = up.client_with_token(Some(&token)).await.unwrap();
    post(&client, JOBS, gang()).await.unwrap();
    eventually(&client, &format!("{JOBS}/gang"), |job| job["status"]["succeeded"] == 4).await;
    get(&up.client().await.unwrap(), JOBS).await.unwrap();
    get(&up.client_with_token(Some(wrong)).await.unwrap(), JOBS).await.unwrap_err();
    // A component is a client of ours: its log is searched as well.
    let mut nodes = nodes_with_token(&dir, &up, &token);
    nodes.wait_until_ready(TIMEOUT).unwrap();
    assert_eq!((exit_code(&mut nodes), exit_code(&mut up.process)), (Some(0), Some(0)));

    let mut secrets = secrets(&dir, &kubeconfig);
    secrets.push(wrong.to_owned());
    assert!(secrets.contains(&token) && secrets.len() > 4, "{} secrets", secrets.len());
    for log in [up.process.stderr().unwrap(), nodes.stderr().unwrap()] {
        assert!(parse_lines(&log).len() > 100, "trace level has many lines");
        for secret in &secrets {
            let line = log.lines().find(|line| line.contains(secret.as_str()));
            assert!(line.is_none(), "a secret is in the log: {line:?}");
        }
    }
}

/// `phalanx nodes` with the token of the administrator, at trace level.
fn nodes_with_token(dir: &TestDir, up: &UpProcess, token: &str) -> SupervisedProcess {
    let mut kubeconfig = Kubeconfig::read_from(&up.kubeconfig).unwrap();
    let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    (user.client_certificate_data, user.client_key_data) = (None, None);
    let file = dir.path("token.kubeconfig");
    let mut document = serde_json::to_value(&kubeconfig).unwrap();
    document["users"][0]["user"]["token"] = token.into();
    std::fs::write(&file, document.to_string()).unwrap();
    let arguments = ["--kubeconfig", &file, "--nodes", "0", "--log", "trace", JSON[0], JSON[1]];
    start_component(dir, "nodes", &arguments)
}

#[tokio::test]
async fn every_line_of_a_component_is_json() {
    let dir = TestDir::new("log-json");
    let up = start_up(&dir, &["--data-dir", &dir.path("data"), "--without", "scheduler,controllers,nodes"]);
    let kubeconfig = up.kubeconfig.to_str().unwrap();
    for name in ["scheduler", "controllers", "nodes"] {
        let mut component = start_component(&dir, name, &["--kubeconfig", kubeconfig, JSON[0], JSON[1]]);
        component.wait_until_ready(TIMEOUT).unwrap();
        assert_eq!(exit_code(&mut component), Some(0));
        let lines = parse_lines(&component.stderr().unwrap());
        let has = |text: &str| lines.iter().any(|line| line["fields"]["message"].as_str().unwrap().contains(text));
        assert!(has("connecting to https://") && has("stopping"), "{name}: {lines:#?}");
    }
}

#[test]
fn a_closed_standard_error_does_not_stop_json_logging() {
    let status = Command::new("sh")
        .args(["-c", "exec \"$0\" run examples/plain-job.yaml --log trace --log-format json 2>&-"])
        .arg(env!("CARGO_BIN_EXE_phalanx"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
}
