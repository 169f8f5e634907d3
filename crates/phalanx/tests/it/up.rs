//! `phalanx up` as its users run it: over TLS, across restarts, and with hostile clients.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kube::Client;
use serde_json::{Value, json};
use supervisor::{SupervisedProcess, UpProcess};

/// Long enough for a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A directory that is removed at the end of the test.
pub struct TestDir(PathBuf);

impl TestDir {
    pub fn new(name: &str) -> TestDir {
        let dir = std::env::temp_dir().join(format!("phalanx-up-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        TestDir(dir)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts `phalanx up` on a free port and waits until it is ready. Its output is in `dir`.
pub fn start_up(dir: &TestDir, arguments: &[&str]) -> UpProcess {
    UpProcess::start_command(command(arguments), &dir.0).unwrap()
}

/// The same with two nodes and its data in `dir`.
fn start_with_two_nodes(dir: &TestDir) -> UpProcess {
    start_up(dir, &["--data-dir", &dir.path("data"), "--nodes", "2"])
}

/// SIGTERM, then its exit code.
pub fn stop(mut up: UpProcess) -> Option<i32> {
    exit_code(&mut up.process)
}

/// SIGTERM, then its exit code.
pub fn exit_code(process: &mut SupervisedProcess) -> Option<i32> {
    process.stop(TIMEOUT).unwrap().code()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.arg("up").args(arguments);
    if !arguments.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    client.request(http::Request::get(path).body(Vec::new()).unwrap()).await
}

async fn text(client: &Client, path: &str) -> Result<String, kube::Error> {
    client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await
}

pub async fn post(client: &Client, path: &str, body: Vec<u8>) -> Result<Value, kube::Error> {
    let request = http::Request::post(path).header("content-type", "application/json").body(body);
    client.request(request.unwrap()).await
}

fn code(response: Result<Value, kube::Error>) -> u16 {
    match response {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("no response: {other}"),
    }
}

pub const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

pub fn gang() -> Vec<u8> {
    let template = json!({
        "metadata": {"annotations": {"phalanx.dev/run-seconds": "0"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]},
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "gang"},
        "spec": {
            "parallelism": 4, "completions": 4, "template": template,
            "scheduling": {"schedulingPolicy": {"gang": {}}},
        },
    });
    job.to_string().into_bytes()
}

pub async fn eventually(client: &Client, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let object = get(client, path).await.unwrap();
        if holds(&object) {
            return object;
        }
        assert!(Instant::now() < deadline, "not in time: {object:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn objects_survive_a_restart() {
    let dir = TestDir::new("restart");
    let audit = dir.path("audit");
    let up = start_up(&dir, &["--data-dir", &dir.path("data"), "--nodes", "2", "--audit-log", &audit]);
    let client = up.client().await.unwrap();
    post(&client, JOBS, gang()).await.unwrap();
    let path = format!("{JOBS}/gang");
    let done = eventually(&client, &path, |job| job["status"]["succeeded"] == 4).await;
    let nodes = get(&client, "/api/v1/nodes").await.unwrap();
    let address = up.address.clone();
    assert_eq!(stop(up), Some(0));
    assert!(TcpStream::connect(&address).is_err(), "it still listens");

    let checked = super::phalanx(&["store", "check", "--data-dir", &dir.path("data")]);
    let line = String::from_utf8(checked.stdout).unwrap();
    assert!(line.starts_with("revision=") && line.contains(" objects=") && line.contains(" sha256="), "{line}");

    let lines = std::fs::read_to_string(&audit).unwrap();
    let entries: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let posted = entries.iter().find(|entry| entry["path"] == JOBS).unwrap();
    assert_eq!(
        (&posted["user"], &posted["verb"], &posted["code"]),
        (&json!("kubernetes-admin"), &json!("create"), &json!(201))
    );
    assert!(entries.iter().any(|entry| entry["user"] == "system:kube-scheduler"), "components are users too");
    assert!(entries.iter().all(|entry| entry["verb"] != "get" && entry["verb"] != "watch"));

    // Without --nodes: a cluster that has nodes gets no new ones.
    let up = start_up(&dir, &["--data-dir", &dir.path("data")]);
    let client = up.client().await.unwrap();
    let again = get(&client, &path).await.unwrap();
    assert_eq!(again["metadata"]["uid"], done["metadata"]["uid"]);
    assert_eq!(again["status"]["succeeded"], 4);
    let nodes_again = get(&client, "/api/v1/nodes").await.unwrap();
    let names = |list: &Value| -> Vec<Value> {
        list["items"].as_array().unwrap().iter().map(|node| node["metadata"]["uid"].clone()).collect()
    };
    assert_eq!(names(&nodes_again), names(&nodes));
    assert_eq!(stop(up), Some(0));
}

#[tokio::test]
async fn clients_without_credentials_get_401() {
    let dir = TestDir::new("clients");
    let up = start_with_two_nodes(&dir);
    let token = std::fs::read_to_string(dir.0.join("data/pki/token")).unwrap();
    let admin = up.client_with_token(Some(token.trim())).await.unwrap();
    assert_eq!(code(get(&admin, "/api/v1/nodes").await), 200);
    for client in [up.client_with_token(None).await.unwrap(), up.client_with_token(Some("wrong")).await.unwrap()] {
        for path in ["/api/v1/nodes", "/metrics", "/apis", "/nowhere"] {
            assert_eq!(code(get(&client, path).await), 401, "{path}");
        }
        assert_eq!(text(&client, "/readyz").await.unwrap(), "ok");
        let version = get(&client, "/version").await.unwrap();
        assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.37.1+phalanx-"), "{version}");
    }
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&up.kubeconfig), 0o600);
    assert_eq!(mode(&dir.0.join("data")), 0o700);
}

#[tokio::test]
async fn health_and_metrics_are_served() {
    let dir = TestDir::new("metrics");
    let up = start_with_two_nodes(&dir);
    let client = up.client().await.unwrap();
    let verbose = text(&client, "/readyz?verbose").await.unwrap();
    // The check of binds, every half second, adds a line.
    assert!(verbose.starts_with("[+]ping ok\n[+]caches ok\n[+]components ok\n"), "{verbose}");
    assert!(verbose.ends_with("readyz check passed\n") && !verbose.contains("[-]"), "{verbose}");
    let _ = get(&client, "/api/v1/nodes/unknown").await;
    let metrics = text(&client, "/metrics").await.unwrap();
    for line in [
        "apiserver_request_total{verb=\"GET\",resource=\"nodes\",code=\"404\"} 1",
        "apiserver_longrunning_requests{verb=\"WATCH\",resource=\"pods\"} 1",
        "apiserver_resource_objects{group=\"\",resource=\"nodes\"} 2",
        "kubernetes_feature_enabled{name=\"GenericWorkload\",stage=\"BETA\"} 1",
        "kubernetes_feature_enabled{name=\"JobWorkloadRef\",stage=\"ALPHA\"} 0",
        "apiserver_request_duration_seconds_bucket{",
        "phalanx_store_revision ",
        "process_resident_memory_bytes ",
    ] {
        assert!(metrics.lines().any(|found| found.starts_with(line)), "no {line} in\n{metrics}");
    }
}

#[tokio::test]
async fn a_hostile_client_does_not_affect_others() {
    let dir = TestDir::new("garbage");
    let up = start_with_two_nodes(&dir);
    let client = up.client().await.unwrap();
    // They stay open: idle connections must not block other clients.
    let mut open = Vec::new();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"\x16\x03\x01\xff\xff", b""] {
        let mut stream = TcpStream::connect(&up.address).unwrap();
        let _ = stream.write_all(bytes);
        open.push(stream);
    }
    let large = json!({"metadata": {"name": "x", "annotations": {"a": "b".repeat(4 << 20)}}}).to_string();
    assert_eq!(code(post(&client, JOBS, large.into_bytes()).await), 413);
    for (body, wanted) in [("{", 400), ("[]", 400), ("{}", 422), ("\u{0}", 400)] {
        assert_eq!(code(post(&client, JOBS, body.as_bytes().to_vec()).await), wanted, "{body:?}");
    }
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(code(post(&client, JOBS, deep.into_bytes()).await), 400);
    assert_eq!(code(get(&client, &format!("/api/v1/pods?labelSelector={}", "a".repeat(20_000))).await), 400);
    assert_eq!(text(&client, "/readyz").await.unwrap(), "ok");
    drop(open);
    assert_eq!(stop(up), Some(0));
}

#[tokio::test]
async fn a_watch_ends_cleanly_when_the_server_stops() {
    use futures::AsyncReadExt;
    let dir = TestDir::new("watch");
    let up = start_with_two_nodes(&dir);
    let client = up.client().await.unwrap();
    let request = http::Request::get("/api/v1/nodes?watch=true").body(Vec::new()).unwrap();
    let mut lines = Box::pin(client.request_stream(request).await.unwrap());
    let mut first = [0; 16];
    lines.read_exact(&mut first).await.unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));
    let began = Instant::now();
    let stopped = tokio::task::spawn_blocking(move || stop(up));
    let mut rest = Vec::new();
    lines.read_to_end(&mut rest).await.unwrap();
    assert_eq!(stopped.await.unwrap(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(10), "a watch must not use up the time to drain");
}

#[test]
fn obstacles_to_a_start_are_reported_with_exit_3() {
    let dir = TestDir::new("way");
    let up = start_with_two_nodes(&dir);
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_phalanx")).arg("up").args(arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty());
        assert!(parts.iter().all(|part| stderr.contains(part)), "{arguments:?}: {stderr}");
    };
    let data = dir.path("data");
    refused(&["--data-dir", &data, "--listen", "127.0.0.1:0"], &["in use", "--data-dir"]);
    refused(&["--in-memory", "--listen", &up.address], &["cannot listen", &up.address, "--listen"]);
    std::fs::write(dir.0.join("file"), "").unwrap();
    refused(&["--data-dir", &dir.path("file/data"), "--listen", "127.0.0.1:0"], &["file/data", "--data-dir"]);
    assert_eq!(stop(up), Some(0));
    // Both commands refuse a damaged directory and do not change it.
    let file = dir.0.join("data/objects.redb");
    std::fs::write(&file, vec![7; 8192]).unwrap();
    refused(&["--data-dir", &data, "--listen", "127.0.0.1:0"], &["objects.redb", "damaged"]);
    let checked = super::phalanx(&["store", "check", "--data-dir", &data]);
    assert_eq!(checked.status.code(), Some(3));
    assert!(String::from_utf8(checked.stderr).unwrap().contains("objects.redb"));
    assert_eq!(std::fs::read(&file).unwrap(), vec![7; 8192]);
}

#[test]
fn a_directory_that_others_can_write_is_refused_with_exit_3() {
    let dir = TestDir::new("exposed");
    let data = dir.path("data");
    assert_eq!(stop(start_with_two_nodes(&dir)), Some(0));
    let refused = |what: &str, hint: &str| {
        let output = command(&["--data-dir", &data]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains(what) && stderr.contains(hint), "{stderr}");
    };
    let chmod = |name: &str, mode| std::fs::set_permissions(dir.0.join(name), PermissionsExt::from_mode(mode)).unwrap();
    chmod("data", 0o777);
    refused("data can be written by other users (mode 0777)", "chmod go-w");
    chmod("data", 0o700);
    chmod("data/pki/token", 0o666);
    refused("token: it can be written by other users", "remove it to create a new one");
    chmod("data/pki/token", 0o600);
    std::fs::remove_file(dir.0.join("data/lock")).unwrap();
    std::os::unix::fs::symlink(dir.0.join("victim"), dir.0.join("data/lock")).unwrap();
    refused("lock: it is a link", "check what it is and remove it");
    assert!(!dir.0.join("victim").exists());
}

#[tokio::test]
async fn a_start_after_one_with_the_clock_ahead_serves_and_names_the_cause() {
    let dir = TestDir::new("clock");
    let ahead = api::Timestamp::from_second(api::Timestamp::now().as_second() + 20 * 365 * 86_400).unwrap();
    std::fs::create_dir(dir.0.join("data")).unwrap();
    std::fs::set_permissions(dir.0.join("data"), PermissionsExt::from_mode(0o700)).unwrap();
    apiserver::edge::pki::Pki::ensure(&dir.0.join("data/pki"), &[], ahead).unwrap();
    let mut up = start_with_two_nodes(&dir);
    assert_eq!(code(get(&up.client().await.unwrap(), "/api/v1/nodes").await), 200);
    assert_eq!(exit_code(&mut up.process), Some(0));
    let stderr = up.process.stderr().unwrap();
    assert!(stderr.contains("the clock was ahead when it was made"), "{stderr}");
    assert!(stderr.lines().count() < 10, "{stderr}");
}

/// Starts and stops the server; returns its standard error.
fn stderr_of(dir: &TestDir, arguments: &[&str]) -> String {
    let mut up = start_up(dir, arguments);
    assert_eq!(exit_code(&mut up.process), Some(0));
    up.process.stderr().unwrap()
}

#[test]
fn a_public_address_and_different_nodes_cause_warnings() {
    let dir = TestDir::new("pointed-out");
    let data = dir.path("data");
    let stderr = stderr_of(&dir, &["--data-dir", &data, "--nodes", "6"]);
    assert!(!stderr.contains("warning"), "{stderr}");
    let stderr = stderr_of(&dir, &["--data-dir", &data, "--nodes", "2", "--listen", "0.0.0.0:0"]);
    for part in [
        "can be reached from other machines",
        "data/kubeconfig",
        "data/pki/token",
        "has 6 nodes, the configuration 2; node-2, node-3, node-4 and 1 more stay",
    ] {
        assert!(stderr.contains(part), "no {part:?} in {stderr}");
    }
    let cluster = dir.path("cluster.yaml");
    let text = "apiVersion: phalanx.dev/v1alpha1\nkind: Cluster\nnodes:\n- {count: 6, capacity: {cpu: 1}}\n";
    std::fs::write(&cluster, text).unwrap();
    let stderr = stderr_of(&dir, &["--data-dir", &data, "--cluster", &cluster]);
    assert!(stderr.contains("node-0, node-1, node-2 and 3 more differ in capacity"), "{stderr}");
    let stderr = stderr_of(&dir, &["--data-dir", &data]);
    assert!(!stderr.contains("warning"), "{stderr}");
}

#[test]
fn an_equal_kubeconfig_is_not_written_again() {
    use std::os::unix::fs::MetadataExt;
    let dir = TestDir::new("kubeconfig");
    let up = start_with_two_nodes(&dir);
    let inode = |up: &UpProcess| std::fs::metadata(&up.kubeconfig).unwrap().ino();
    let (first, address) = (inode(&up), up.address.clone());
    assert_eq!(stop(up), Some(0));
    let up = start_up(&dir, &["--data-dir", &dir.path("data"), "--listen", &address]);
    assert_eq!(inode(&up), first);
}

#[tokio::test]
async fn a_rollback_after_a_kill_is_refused_with_exit_3() {
    let dir = TestDir::new("rollback");
    let data = dir.path("data");
    let up = start_up(&dir, &["--data-dir", &data, "--without", "scheduler,controllers,nodes"]);
    post(&up.client().await.unwrap(), JOBS, gang()).await.unwrap();
    up.kill().unwrap();
    let check = || super::phalanx(&["store", "check", "--data-dir", &data]);
    assert_eq!(check().status.code(), Some(0), "a kill alone loses nothing");
    let file = dir.0.join("data/objects.redb");
    let whole = std::fs::read(&file).unwrap();
    // One flipped bit in the checksum of either commit slot: the database falls back to the other slot.
    let is_newer = |at: usize| {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        std::fs::write(&file, flipped).unwrap();
        check().status.code() == Some(3)
    };
    let slots: Vec<usize> = [64 + 120, 192 + 120].into_iter().filter(|&at| is_newer(at)).collect();
    let [newer] = slots[..] else { panic!("one slot is the newer one: {slots:?}") };
    assert!(is_newer(newer));
    let started = command(&["--data-dir", &data]).output().unwrap();
    for refused in [started, check()] {
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(3), "{stderr}");
        assert!(stderr.contains("objects.redb has lost writes: it ends at revision"), "{stderr}");
        assert!(stderr.contains("restore the directory from a backup"), "{stderr}");
    }
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(stop(start_up(&dir, &["--data-dir", &data])), Some(0), "nothing was changed");
}

#[test]
fn bad_options_and_files_exit_2_before_anything_starts() {
    let dir = TestDir::new("usage");
    let config = dir.path("config.yaml");
    std::fs::write(&config, "apiVersion: phalanx.dev/v1alpha1\nkind: Configuration\nserver:\n  lisen: x\n").unwrap();
    let listen = dir.path("listen.yaml");
    std::fs::write(&listen, "apiVersion: phalanx.dev/v1alpha1\nkind: Configuration\nserver:\n  listen: x\n").unwrap();
    let absurd = dir.path("absurd.yaml");
    let text = "apiVersion: phalanx.dev/v1alpha1\nkind: Configuration\nscheduler:\n  maxReservation: 100000000h\n";
    std::fs::write(&absurd, text).unwrap();
    for (arguments, part) in [
        (&["--feature-gates", "NoSuchGate=true"][..], "GenericWorkload, WorkloadWithJob"),
        (&["--feature-gates", "GenericWorkload=false,WorkloadWithJob=true"], "depends on features that are disabled"),
        (&["--feature-gates", "GenericWorkload"], "A=true"),
        (&["--listen", "nonsense"], "127.0.0.1:6443"),
        (&["--config", &config], "config.yaml:4: server.lisen: unknown field"),
        (&["--config", &listen], "listen.yaml:4: server.listen: Invalid value: \"x\": the port is missing"),
        (
            &["--config", &absurd],
            "absurd.yaml:4: scheduler.maxReservation: Invalid value: \"100000000h\": must be a duration from",
        ),
        (&["--config", "/nowhere/config.yaml"], "/nowhere/config.yaml"),
        (&["--without", "everything"], "scheduler"),
        (&["--log", "a=b=c"], "--log"),
        (&["--in-memory", "--data-dir", "x"], "cannot be used with"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_phalanx")).arg("up").args(arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}

#[tokio::test]
async fn in_memory_stores_nothing_and_components_can_be_omitted() {
    let dir = TestDir::new("memory");
    let config = dir.path("config.yaml");
    std::fs::write(&config, super::phalanx(&["config"]).stdout).unwrap();
    let arguments = [
        "--in-memory",
        "--config",
        &config,
        "--without",
        "scheduler,nodes",
        "--feature-gates",
        "CompositePodGroup=false",
    ];
    let up = start_up(&dir, &arguments);
    let client = up.client().await.unwrap();
    assert_eq!(get(&client, "/api/v1/nodes").await.unwrap()["items"], json!([]));
    post(&client, JOBS, gang()).await.unwrap();
    let pods = eventually(&client, "/api/v1/pods", |pods| pods["items"].as_array().is_some_and(|pods| pods.len() == 4));
    assert!(pods.await["items"].as_array().unwrap().iter().all(|pod| pod["spec"]["nodeName"].is_null()));
    let kubeconfig = up.kubeconfig.clone();
    assert_eq!(stop(up), Some(0));
    assert!(!kubeconfig.exists() && !kubeconfig.parent().unwrap().exists());
}
