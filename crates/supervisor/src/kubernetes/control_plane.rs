//! A temporary control plane of the programs of Kubernetes, on loopback, with the workload gates enabled.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::kube::Client;
use anyhow::bail;
use runtime::request;
use serde_json::json;

use super::build;
use crate::client::client;
use crate::guard::guarded;
use crate::{ScratchDir, SupervisedProcess};

/// How long a start may take, also on a busy machine.
const START_TIMEOUT_SECONDS: u64 = 120;
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// The gates of workload-aware scheduling; everything else has its default (facts/api.md section 10).
const GATES: [&str; 6] = [
    GENERIC_WORKLOAD,
    "WorkloadWithJob",
    "TopologyAwareWorkloadScheduling",
    "CompositePodGroup",
    "PodGroupPreemptionPolicy",
    "DRAWorkloadResourceClaims",
];
/// The gate on which the others depend.
pub const GENERIC_WORKLOAD: &str = "GenericWorkload";
/// Versions that are not served by default.
const RUNTIME_CONFIG: &str = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true";
/// The same for every client of every control plane: it listens on loopback, only during a test.
pub const TOKEN: &str = "throw-away";

/// The components of a control plane besides etcd and kube-apiserver.
#[derive(Clone, Debug)]
pub struct ControlPlaneConfig {
    /// Whether kube-scheduler runs.
    pub scheduler: bool,
    /// Whether kube-controller-manager runs.
    pub controllers: bool,
    /// Controllers that are disabled, because ours replace them.
    pub disabled_controllers: Vec<&'static str>,
    /// The gates of workload-aware scheduling that are disabled. Without [`GENERIC_WORKLOAD`] all are disabled.
    pub disabled_gates: &'static [&'static str],
    /// How many Nodes are created.
    pub nodes: usize,
    /// Admission plugins of the default set that are disabled.
    pub disabled_admission: Vec<&'static str>,
}

impl Default for ControlPlaneConfig {
    /// Only the API, and pods without service accounts (the controller that creates them does not run).
    fn default() -> ControlPlaneConfig {
        ControlPlaneConfig {
            scheduler: false,
            controllers: false,
            disabled_controllers: Vec::new(),
            disabled_gates: &[],
            nodes: 0,
            disabled_admission: vec!["ServiceAccount"],
        }
    }
}

impl ControlPlaneConfig {
    /// The required programs.
    pub fn required_programs(&self) -> Vec<&'static str> {
        let mut programs = vec!["etcd", "kube-apiserver"];
        programs.extend(self.scheduler.then_some("kube-scheduler"));
        programs.extend(self.controllers.then_some("kube-controller-manager"));
        programs
    }
}

/// A running control plane. Dropping it kills every program and removes their files.
pub struct KubeControlPlane {
    /// In start order.
    programs: Vec<SupervisedProcess>,
    folder: ScratchDir,
    address: String,
}

impl KubeControlPlane {
    /// Starts the programs, which must have been built, and returns once the API is ready and the nodes are created.
    ///
    /// Must be called outside of any runtime.
    pub fn start(purpose: &str, plan: &ControlPlaneConfig) -> anyhow::Result<KubeControlPlane> {
        let (etcd, etcd_peer, api) = (free_port()?, free_port()?, free_port()?);
        let folder = ScratchDir::new(purpose)?;
        let address = format!("127.0.0.1:{api}");
        write_secrets(folder.path(), &address)?;
        let mut control_plane = KubeControlPlane { programs: Vec::new(), folder, address };
        control_plane.start_program("etcd", &etcd_arguments(control_plane.folder.path(), etcd, etcd_peer))?;
        control_plane.start_program("kube-apiserver", &api_arguments(control_plane.folder.path(), etcd, api, plan))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(control_plane.wait_until_ready())?;
        runtime.block_on(async { create_nodes(&control_plane.client().await?, plan.nodes).await })?;
        if plan.controllers {
            control_plane
                .start_program("kube-controller-manager", &controllers_arguments(control_plane.folder.path(), plan)?)?;
        }
        if plan.scheduler {
            control_plane.start_scheduler(plan)?;
        }
        Ok(control_plane)
    }

    /// Starts kube-scheduler, and returns the port of its health and metrics, for which [`TOKEN`] authenticates.
    pub fn start_scheduler(&mut self, plan: &ControlPlaneConfig) -> anyhow::Result<u16> {
        let port = free_port()?;
        self.start_program("kube-scheduler", &client_arguments(self.folder.path(), plan, port))?;
        Ok(port)
    }

    /// Kills the program of this name if it runs.
    pub fn stop_program(&mut self, name: &str) {
        self.programs.retain(|program| program.name() != name);
    }

    /// `HOST:PORT` of the API.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A new client with its own connection pool. It does not retry by itself.
    pub async fn client(&self) -> anyhow::Result<Client> {
        client(&self.kubeconfig(), READ_TIMEOUT).await
    }

    /// The process id of the program of this name, if it was started.
    pub fn pid(&self, name: &str) -> Option<u32> {
        self.programs.iter().find(|program| program.name() == name).map(SupervisedProcess::pid)
    }

    /// An error with the end of the log if a program has ended.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        self.programs.iter_mut().try_for_each(SupervisedProcess::check_running)
    }

    fn start_program(&mut self, name: &str, arguments: &[String]) -> anyhow::Result<()> {
        let mut command = guarded(&build::folder()?.join(name))?;
        command.args(arguments);
        self.programs.push(SupervisedProcess::spawn(name, command, self.folder.path())?);
        Ok(())
    }

    /// Waits until the API responds and has created the default namespace.
    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(START_TIMEOUT_SECONDS);
        loop {
            self.check_running()?;
            // The API creates its own certificate, which the client trusts; until then it cannot connect.
            let cause = match self.client().await {
                Err(error) => error.to_string(),
                Ok(client) => match check_ready(&client).await {
                    Ok(()) => return Ok(()),
                    Err(error) => error.to_string(),
                },
            };
            if Instant::now() > deadline {
                bail!("kube-apiserver was not ready within {START_TIMEOUT_SECONDS} s: {cause}");
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for KubeControlPlane {
    fn drop(&mut self) {
        // In reverse start order, so that no program logs errors about one that it needs.
        while let Some(program) = self.programs.pop() {
            drop(program);
        }
    }
}

async fn check_ready(client: &Client) -> Result<(), ::kube::Error> {
    request::get(client, "/readyz").await?;
    request::get(client, "/api/v1/namespaces/default").await.map(drop)
}

/// A free port. Another process may take it first; the start then fails with an error.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The files that kube-apiserver needs before its start, and the kubeconfig of its clients.
fn write_secrets(folder: &Path, address: &str) -> anyhow::Result<()> {
    let pair = rcgen::KeyPair::generate()?;
    std::fs::write(folder.join("service-account.key"), pair.serialize_pem())?;
    std::fs::write(folder.join("service-account.pub"), pair.public_key_pem())?;
    std::fs::write(folder.join("tokens.csv"), format!("{TOKEN},admin,admin,system:masters\n"))?;
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kube", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority": folder.join("apiserver.crt"),
        }}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "kube", "context": {"cluster": "kube", "user": "admin"}}],
        "current-context": "kube",
    });
    std::fs::write(folder.join("kubeconfig"), format!("{kubeconfig:#}\n"))?;
    Ok(())
}

fn etcd_arguments(folder: &Path, port: u16, peer: u16) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync=true".to_owned(),
    ]
}

fn api_arguments(folder: &Path, etcd: u16, port: u16, plan: &ControlPlaneConfig) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", folder.display()),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", file("service-account.pub")),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--feature-gates={}", gates(plan)),
        format!("--runtime-config={}", if gates(plan).is_empty() { "" } else { RUNTIME_CONFIG }),
        format!("--disable-admission-plugins={}", plan.disabled_admission.join(",")),
        // No request limits: benchmarks and comparisons send many requests at once.
        "--enable-priority-and-fairness=false".to_owned(),
        "--max-requests-inflight=0".to_owned(),
        "--max-mutating-requests-inflight=0".to_owned(),
    ]
}

fn controllers_arguments(folder: &Path, plan: &ControlPlaneConfig) -> anyhow::Result<Vec<String>> {
    let mut arguments = client_arguments(folder, plan, free_port()?);
    let left_out: String = plan.disabled_controllers.iter().map(|name| format!(",-{name}")).collect();
    arguments.push(format!("--service-account-private-key-file={}", folder.join("service-account.key").display()));
    // Nodes here have no kubelet that would renew their leases.
    arguments.push(format!("--controllers=*,-node-lifecycle-controller{left_out}"));
    Ok(arguments)
}

/// The arguments of the programs that are clients of the API. Limits as in upstream's own benchmark.
fn client_arguments(folder: &Path, plan: &ControlPlaneConfig, port: u16) -> Vec<String> {
    let kubeconfig = folder.join("kubeconfig").display().to_string();
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--kube-api-qps=5000".to_owned(),
        "--kube-api-burst=5000".to_owned(),
        format!("--feature-gates={}", gates(plan)),
    ]
}

fn gates(plan: &ControlPlaneConfig) -> String {
    if plan.disabled_gates.contains(&GENERIC_WORKLOAD) {
        return String::new();
    }
    let on = GATES.iter().filter(|gate| !plan.disabled_gates.contains(gate));
    on.map(|gate| format!("{gate}=true")).collect::<Vec<String>>().join(",")
}

/// Nodes that look ready and that pods can be bound to.
async fn create_nodes(client: &Client, count: usize) -> anyhow::Result<()> {
    let size = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    for number in 0..count {
        let name = format!("node-{number:04}");
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "capacity": size,
                "allocatable": size,
                "conditions": [{"type": "Ready", "status": "True", "reason": "NoKubelet", "message": "no kubelet"}],
            },
        });
        request::post(client, "/api/v1/nodes", &node).await?;
        // Admission taints every new node as not ready, independent of its conditions.
        let untaint = json!({"spec": {"taints": null}});
        request::patch(client, &format!("/api/v1/nodes/{name}"), request::PatchKind::Merge, &untaint).await?;
    }
    Ok(())
}
