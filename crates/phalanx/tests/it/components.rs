//! `phalanx scheduler`, `controllers` and `nodes` as their users run them, with a server that restarts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use supervisor::SupervisedProcess;

use crate::text;
use crate::up::{JOBS, TIMEOUT, TestDir, eventually, exit_code, gang, post, start_up, stop};

/// Starts a component. Its output is in `dir`, under its name.
pub fn start_component(dir: &TestDir, name: &str, arguments: &[&str]) -> SupervisedProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.arg(name).args(arguments);
    SupervisedProcess::spawn(name, command, Path::new(&dir.path(""))).unwrap()
}

fn http_get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// The gang with another name.
fn gang_named(name: &str) -> Vec<u8> {
    let mut job: Value = serde_json::from_slice(&gang()).unwrap();
    job["metadata"]["name"] = name.into();
    job.to_string().into_bytes()
}

/// A gang with one GPU per pod that does not fit on two nodes.
fn too_large() -> Vec<u8> {
    let mut job: Value = serde_json::from_slice(&gang_named("too-large")).unwrap();
    (job["spec"]["parallelism"], job["spec"]["completions"]) = (40.into(), 40.into());
    let container = &mut job["spec"]["template"]["spec"]["containers"][0];
    container["resources"] = serde_json::json!({"limits": {"nvidia.com/gpu": 1}});
    job.to_string().into_bytes()
}

const NO_COMPONENTS: [&str; 2] = ["--without", "scheduler,controllers,nodes"];

#[tokio::test]
async fn components_as_processes_run_a_gang_and_survive_a_server_restart() {
    let dir = TestDir::new("components");
    let data = dir.path("data");
    let up = start_up(&dir, &["--data-dir", &data, NO_COMPONENTS[0], NO_COMPONENTS[1]]);
    let kubeconfig = up.kubeconfig.to_str().unwrap().to_owned();
    let config = ["--kubeconfig", kubeconfig.as_str()];
    let alone = "--leader-elect=false";
    let mut nodes = start_component(&dir, "nodes", &[&config[..], &["--nodes", "2"]].concat());
    let all = ["--controllers", "job,gc,podgroup-protection,namespace"];
    let options = [alone, "--metrics-listen", ":0"];
    let mut controllers = start_component(&dir, "controllers", &[&config[..], &all, &options].concat());
    let mut scheduler = start_component(&dir, "scheduler", &[&config[..], &options].concat());
    let url = format!("https://{}", up.address);
    assert_eq!(nodes.wait_until_ready(TIMEOUT).unwrap(), url);
    let (ready, counting) =
        (scheduler.wait_until_ready(TIMEOUT).unwrap(), controllers.wait_until_ready(TIMEOUT).unwrap());
    let address = |ready: &'_ str| ready.strip_prefix(&format!("{url} metrics=http://")).unwrap().to_owned();
    let (metrics, counted) = (&address(&ready), address(&counting));
    assert!(http_get(metrics, "/readyz").starts_with("HTTP/1.1 200"), "{}", http_get(metrics, "/readyz?verbose"));
    assert!(http_get(metrics, "/metrics").contains("phalanx_ready 1"));

    let client = up.client().await.unwrap();
    post(&client, JOBS, gang()).await.unwrap();
    eventually(&client, &format!("{JOBS}/gang"), |job| job["status"]["succeeded"] == 4).await;
    let counted = http_get(&counted, "/metrics");
    let created = "job_controller_job_pods_creation_total{reason=\"new\",status=\"succeeded\"} 4";
    assert!(counted.contains(created) && counted.contains("workqueue_depth{name=\"job\"}"), "{counted}");

    post(&client, JOBS, too_large()).await.unwrap();
    let is_refused = |job: &Value| job["status"]["conditions"][0]["reason"] == "Unschedulable";
    eventually(&client, &format!("{JOBS}/too-large"), is_refused).await;
    let queue = http_get(metrics, "/queue");
    assert!(queue.contains("\"state\":\"Waiting\"") && queue.contains("gang of 40 does not fit"), "{queue}");
    let explained = http_get(metrics, "/explain?kind=job&name=too-large");
    assert!(explained.contains("\"text\":\"lower minCount to 16\""), "{explained}");
    let arguments =
        ["explain", "job/too-large", "--scheduler", &format!("http://{metrics}"), "--kubeconfig", &kubeconfig];
    let stdout = text(&super::phalanx(&arguments).stdout);
    assert!(stdout.contains("as the scheduler at http://") && stdout.contains("  lower minCount to 16"), "{stdout}");
    let unknown = http_get(metrics, "/explain?kind=job&name=unknown");
    assert!(unknown.starts_with("HTTP/1.1 404") && unknown.contains("\"reason\":\"UnitNotFound\""), "{unknown}");

    let address = up.address.clone();
    assert_eq!(stop(up), Some(0));
    for part in [&nodes, &controllers, &scheduler] {
        part.wait_for_log("cannot reach the server", TIMEOUT).unwrap();
    }
    let deadline = Instant::now() + TIMEOUT;
    while !http_get(metrics, "/readyz").contains("[-]server failed") {
        assert!(Instant::now() < deadline, "{}", http_get(metrics, "/readyz?verbose"));
    }
    let up = start_up(&dir, &["--data-dir", &data, "--listen", &address, NO_COMPONENTS[0], NO_COMPONENTS[1]]);
    let client = up.client().await.unwrap();
    post(&client, JOBS, gang_named("again")).await.unwrap();
    eventually(&client, &format!("{JOBS}/again"), |job| job["status"]["succeeded"] == 4).await;
    for part in [&mut nodes, &mut controllers, &mut scheduler] {
        part.wait_for_log("the server responds again", TIMEOUT).unwrap();
        assert_eq!(exit_code(part), Some(0), "SIGTERM ends it");
    }
}

#[tokio::test]
async fn of_two_schedulers_one_is_active_and_the_other_takes_over_when_it_stops() {
    let dir = TestDir::new("election");
    let up = start_up(&dir, &["--data-dir", &dir.path("data"), "--without", "scheduler"]);
    let kubeconfig = up.kubeconfig.to_str().unwrap().to_owned();
    let mut first = start_component(&dir, "scheduler", &["--kubeconfig", &kubeconfig]);
    first.wait_until_ready(TIMEOUT).unwrap();
    first.wait_for_log("holding the lease", TIMEOUT).unwrap();
    let standby = TestDir::new("standby");
    let mut second = start_component(&standby, "scheduler", &["--kubeconfig", &kubeconfig]);
    second.wait_until_ready(TIMEOUT).unwrap();
    second.wait_for_log("standing by", TIMEOUT).unwrap();
    let client = up.client().await.unwrap();
    post(&client, JOBS, gang()).await.unwrap();
    eventually(&client, &format!("{JOBS}/gang"), |job| job["status"]["succeeded"] == 4).await;
    assert!(!second.stderr().unwrap().contains("holding the lease"), "{}", second.stderr().unwrap());
    assert_eq!(exit_code(&mut first), Some(0));
    second.wait_for_log("holding the lease", TIMEOUT).unwrap();
    post(&client, JOBS, gang_named("again")).await.unwrap();
    eventually(&client, &format!("{JOBS}/again"), |job| job["status"]["succeeded"] == 4).await;
    assert_eq!(exit_code(&mut second), Some(0));
}

#[test]
fn a_component_waits_until_its_server_starts() {
    let dir = TestDir::new("early");
    let data = dir.path("data");
    // A first start, for certificates and address.
    let up = start_up(&dir, &["--data-dir", &data, NO_COMPONENTS[0], NO_COMPONENTS[1]]);
    let (address, kubeconfig) = (up.address.clone(), up.kubeconfig.to_str().unwrap().to_owned());
    assert_eq!(stop(up), Some(0));
    let mut early = start_component(&dir, "scheduler", &["--kubeconfig", &kubeconfig]);
    early.wait_for_log("cannot reach the server", TIMEOUT).unwrap();
    assert_eq!(exit_code(&mut early), Some(0), "it can be stopped while it waits");
    let mut early = start_component(&dir, "controllers", &["--kubeconfig", &kubeconfig]);
    early.wait_for_log("cannot reach the server", TIMEOUT).unwrap();
    let _up = start_up(&dir, &["--data-dir", &data, "--listen", &address, NO_COMPONENTS[0], NO_COMPONENTS[1]]);
    assert_eq!(early.wait_until_ready(TIMEOUT).unwrap(), format!("https://{address}"));
}

#[test]
fn errors_at_the_start_of_a_component_have_a_hint() {
    let dir = TestDir::new("bad-kubeconfig");
    std::fs::write(dir.path("bad"), "apiVersion: v1\nkind: Config\nclusters: 7\n").unwrap();
    let (bad, gone) = (dir.path("bad"), dir.path("gone"));
    for (arguments, code, wanted) in [
        (vec!["scheduler", "--kubeconfig", &bad], 3, vec![bad.as_str(), "--kubeconfig FILE"]),
        (vec!["controllers", "--kubeconfig", &gone], 3, vec![gone.as_str(), "--kubeconfig FILE"]),
        (vec!["nodes", "--cluster", &gone], 2, vec![gone.as_str()]),
        (vec!["scheduler", "--metrics-listen", "0.0.0.0:0"], 2, vec!["--metrics-listen 0.0.0.0:0", "loopback"]),
        (vec!["scheduler", "--metrics-listen", "10259"], 2, vec!["--metrics-listen 10259", "port is missing"]),
        (vec!["scheduler", "--lease", "here"], 2, vec!["--lease here", "NAMESPACE/NAME"]),
        (vec!["controllers", "--controllers", "deployment"], 2, vec!["possible values: job"]),
        (vec!["nodes", "--feature-gates", "Nonsense=true"], 2, vec!["known are GenericWorkload"]),
    ] {
        let output = super::phalanx(&arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(wanted.iter().all(|part| errors.contains(part)), "{arguments:?}: {errors}");
    }
}
