//! A component as its own process.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use controlplane::Component;
use supervisor::{ScratchDir, SupervisedProcess, guard};

use super::kube_control_plane::Tenancy;

/// The limit for a start of a debug build on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// The default settings of a component.
const DEFAULT_CONFIGURATION: &str = "apiVersion: phalanx.dev/v1alpha1\nkind: Configuration\n";
/// Settings with shorter waits, which [`super::TestCluster::pod_backoff`] returns.
const FAST_CONFIGURATION: &str = "\
apiVersion: phalanx.dev/v1alpha1
kind: Configuration
controllers:
  podBackoff: 1s
  maxPodBackoff: 1m
";

/// A running component. Dropping it kills the process and removes its files.
pub struct ComponentProcess {
    /// Locked, because polling a child changes what is known of it.
    process: Mutex<SupervisedProcess>,
    /// Its kubeconfig, its configuration and its output.
    _folder: ScratchDir,
}

impl ComponentProcess {
    /// Starts the component and waits until it is ready.
    pub fn start(component: Component, nodes: u32, tenancy: Tenancy, kubeconfig: &str) -> ComponentProcess {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = ScratchDir::new(&format!("component-{number}")).expect("a folder for the component's files");
        let [kubeconfig_file, settings_file] = ["kubeconfig", "config"].map(|name| folder.path().join(name));
        std::fs::write(&kubeconfig_file, kubeconfig).expect("a file for the kubeconfig");
        let settings = if tenancy == Tenancy::Shared { FAST_CONFIGURATION } else { DEFAULT_CONFIGURATION };
        std::fs::write(&settings_file, settings).expect("a file for the settings");
        let mut command = guard::guarded(Path::new(&phalanx())).expect("a guard for the process");
        match component {
            // Without leader election: a restarted component must not wait for the end of its own Lease.
            Component::Scheduler => command.args(["scheduler", "--leader-elect=false"]),
            Component::Controllers => command.args(["controllers", "--leader-elect=false"]),
            Component::Nodes => command.args(["nodes", "--nodes", &nodes.to_string()]),
        };
        if (component, tenancy) == (Component::Controllers, Tenancy::Shared) {
            let names: Vec<&str> = tenancy.controllers().iter().map(|controller| controller.name).collect();
            command.args(["--controllers", &names.join(",")]);
        }
        command.arg("--kubeconfig").arg(&kubeconfig_file).arg("--config").arg(&settings_file);
        let name = format!("{component:?}");
        let mut process = SupervisedProcess::spawn(&name, command, folder.path()).expect("phalanx can be started");
        process.wait_until_ready(READY_TIMEOUT).unwrap_or_else(|error| panic!("{error:#}"));
        ComponentProcess { process: Mutex::new(process), _folder: folder }
    }

    /// The error of a component that has ended, which it never should.
    pub fn exit_report(&self) -> Option<String> {
        self.process
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .check_running()
            .err()
            .map(|error| format!("{error:#}"))
    }
}

/// The program under test. `cargo xtask kube test` sets it together with the guard's program.
fn phalanx() -> OsString {
    std::env::var_os("PHALANX_BIN").expect("PHALANX_BIN is set by `cargo xtask kube test`")
}
